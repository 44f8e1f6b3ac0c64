/* SPDX-License-Identifier: MIT */
/*
 * A fleet of hosts under a scheduler that knows only sums, as OpenStack's placement does, and hosts
 * that decide for themselves: each GPU has the real policy qos, which admits guarantees, and the
 * real memory table. The study counts how often a host refuses what the scheduler has sent, and how
 * full the fleet is when the first server finds no place. Time is virtual; the same seed gives the
 * same result.
 */
#pragma once

#include <stdio.h>

#include "vgpu/policy.h"

#define FLEET_MAX_GPUS 16u
#define FLEET_ATTEMPTS 3u      /* Nova's [scheduler] max_attempts */
#define FLEET_CANDIDATES 1000u /* Nova's [scheduler] max_placement_results */

/* Placement's resource classes, in this order. */
enum { FLEET_VF, FLEET_SHARE, FLEET_MEMORY, FLEET_CLASSES };

struct fleet_options {
	uint32_t hosts, gpus, vfs; /* gpus of a host, vfs of a GPU */
	uint64_t memory_mib,
		granule_mib; /* a GPU's memory for all VFs, and the unit of partitions */
	vgpu_nsec switch_ns;
	bool per_gpu;	   /* each GPU is a resource provider of its own; else each host is one */
	bool free_choice;  /* a host may give another of its GPUs than the one that is booked */
	bool profile;	   /* [gpu] placement = profile; else best-fit */
	bool pack;	   /* the fullest host first; else the emptiest, as Nova's RAM weigher */
	const char *mix;   /* sizes of servers: fleet_mixes */
	uint64_t servers;  /* number of arrivals; 0: until the first one finds no place, and none
			      leaves */
	uint32_t load_pct; /* offered load, in percent of the total of shares */
	uint64_t seed;
};

struct fleet_inventory {
	uint64_t total[FLEET_CLASSES], least[FLEET_CLASSES], most[FLEET_CLASSES],
		step[FLEET_CLASSES];
};

struct fleet_result {
	struct fleet_inventory inventory; /* of one GPU */
	uint64_t arrived, placed;
	uint64_t no_host;			 /* servers for which the scheduler had no host */
	uint64_t gave_up;			 /* servers that the last of their hosts refused */
	uint64_t sent;				 /* servers to hosts, each try counts */
	uint64_t refused;			 /* of these, refused by the host */
	uint64_t refused_shares, refused_memory; /* why, of the last GPU that was tried */
	uint64_t candidates;			 /* looked at in all */
	/* the part of all GPUs' time that running servers are guaranteed, in ppm: at the end of a
	 * filling, or the mean after each arrival of the second half */
	uint64_t used_ppm;
	/* of a filling: the same servers on whole GPUs, and on GPUs in equal profiles */
	uint64_t whole_ppm, profiles_ppm;
	double seconds; /* processor time for all arrivals */
};

extern const struct fleet_mix {
	const char *name, *help;
	/* per mille of the total of shares of a GPU, and how often; 0 ends it */
	struct {
		uint32_t share, weight;
	} sizes[6];
	uint32_t from, to; /* instead of sizes: uniform between them, memory drawn by itself */
} fleet_mixes[];

/* Reads WORDS, each NAME=VALUE, over O's defaults, which it sets. Returns 0, or -EINVAL with the
 * reason in ERR. */
int fleet_read(struct fleet_options *o, char *const *words, int n, struct vgpu_error *err);
/* Runs the study. Returns 0; -ENOMEM; -EINVAL with the reason in ERR: no share is admitted at all,
 * or books and hosts do not agree, which would be a fault of this program. */
int fleet_run(const struct fleet_options *o, struct fleet_result *out, struct vgpu_error *err);
/* Prints the result as text or as one line of JSON. */
void fleet_report(const struct fleet_options *o, const struct fleet_result *r, bool json, FILE *to);
