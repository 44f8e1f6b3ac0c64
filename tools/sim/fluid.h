/* SPDX-License-Identifier: MIT */
/*
 * An ideal fluid server (generalised processor sharing; Parekh and Gallager, IEEE/ACM Transactions
 * on Networking 1(3), 1993): what each VF would have had if the time that the real engine gave to
 * all of them had been shared by weight, at each instant, between those that have work left in the
 * fluid. It knows work, weights and capacity; no policy, no slice, no virtual time.
 */
#ifndef SIM_FLUID_H
#define SIM_FLUID_H

#include <stdbool.h>
#include <stdint.h>

struct fluid_vf {
	bool in;       /* takes part */
	bool endless;  /* has work without end */
	double weight; /* above 0 */
	double known;  /* the service that its work until now asks for; of no matter if endless */
	double had;    /* what the fluid has given it, in ns: never more than KNOWN */
};

/*
 * Shares CAPACITY ns between those that have work left, by weight; who runs out of work leaves the
 * rest to the others. A negative capacity is taken back from those who would have got it. Returns
 * what nobody had work for.
 */
double fluid_serve(struct fluid_vf *vfs, uint32_t n, double capacity);

/*
 * VF has no more work than KNOWN after all. What the fluid gave it beyond that goes to the others.
 */
void fluid_truncate(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double known);

/* VF takes no further part; REAL is what it has really had. The others settle the difference. */
void fluid_leave(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double real);

#endif
