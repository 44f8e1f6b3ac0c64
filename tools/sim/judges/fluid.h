/* SPDX-License-Identifier: MIT */
/*
 * An ideal fluid server (generalised processor sharing; Parekh and Gallager, IEEE/ACM Transactions
 * on Networking 1(3), 1993): what each VF would have been served if the time that the real engine
 * gave all of them had been shared by weight, at each instant, between those that have work left in
 * the fluid server. It knows work, weights and capacity; no policy, no slice, no virtual time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fluid_vf {
	bool in;       /* it takes part */
	bool endless;  /* its work never ends */
	double weight; /* above 0 */
	double known;  /* the service that its work so far needs; unused if endless */
	double had;    /* service from the fluid server, in ns: at most KNOWN */
};

/*
 * Shares CAPACITY ns by weight between the VFs that have work left; a VF that runs out of work
 * leaves the rest to the others. A negative capacity is taken back from the VFs that would have got
 * it. Returns the part for which no VF had work.
 */
double fluid_serve(struct fluid_vf *vfs, uint32_t n, double capacity);

/*
 * Limits VF's work to KNOWN. What it was given beyond that goes to the others.
 */
void fluid_truncate(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double known);

/* Removes VF; REAL is what it was really served. The others get or pay the difference. */
void fluid_leave(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double real);
