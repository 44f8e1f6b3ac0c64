/* SPDX-License-Identifier: MIT */
/*
 * vgpuctl verify: compares what VFs of a GPU really get with what vgpud promises by its policy.
 * From vgpud it uses only counters and records; the judges share no code with the policies, the
 * core or the governor. One thread.
 *
 *   verify.c          the command: how long, in which order, and what the result is
 *   verify_watch.c    what vgpud says meanwhile: samples of its counters, and its records
 *   verify_change.c   a change of a weight, and how soon it acts; puts it back
 *   verify_judge.c    shares, waits, counters
 *   verify_report.c   the report
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"
#include "session.h"
#include "spans.h"

/* One VF, as in vgpud's answers. Times in ns. */
struct verify_vf {
	bool present;
	bool works; /* it had work since the previous sample, as vgpud or the operator says */
	int64_t run, charged;	     /* counters of engine time */
	int64_t astray;		     /* discrepancy between vgpud's sums for this VF */
	int64_t events;		     /* number of times it fell asleep, windows, resets and hangs so
				      * far */
	int64_t late;		     /* the firmware's estimate of how late it stops */
	int64_t lag_most, wait_most; /* promised bounds; -1: none */
	double share;		     /* promised share; 0: none in proportion */
};

struct verify_sample {
	int64_t now, wall, astray, switching;
	int64_t policy_since;
	uint64_t disturbances;		  /* windows, resets, guests that came or went, so far */
	int64_t refused, clamped, writes; /* counters of plans and settings so far */
	struct verify_vf vfs[MAX_VFS];
};

/* The longest wait of a VF for a turn, as the records show it. */
struct verify_wait {
	int64_t longest; /* the wait, less LATE; -1: none */
	int64_t late;	 /* time that LONGEST leaves out, ns: what turns and switches in the wait
			  * took beyond their plan */
	int64_t bound;	 /* promised at the time; -1: none */
	uint64_t n;
};

struct verify {
	struct session *session;
	bool governed;
	int n_vfs;
	vgpu_vf_set busy; /* VFs that always work, as the operator says (--busy) */
	struct verify_sample *samples;
	uint64_t n, room;
	struct verify_wait waits[MAX_VFS];
	struct json_object *gpu, *vfs; /* the latest answers */
	struct json_object *epochs;    /* the latest records "served" and "plan" of a governed
					* GPU */
	uint64_t left_out;	       /* number of earlier ones that were dropped */
	int64_t longest_epoch;
	uint64_t disturbances;	    /* see verify_sample */
	struct json_object *checks; /* the judges' results */
	bool interrupted;
	struct verify_walk *walk; /* owned by verify_watch.c */
	char *path;		  /* path of the report */
	bool is_staged;		  /* a temporary file for the report exists beside PATH */
	int to; /* descriptor of the file at PATH if that cannot be replaced; else -1 */
};

/* Measures the session's GPU as its options say, writes the report and prints the findings. Returns
 * an exit code. */
int verify(struct session *s);

/* verify_watch.c */
/* Begins to watch: reads the GPU's present state. Returns an exit code. */
int verify_begin(struct verify *v);
/* Takes a sample, and reads the records since the previous one. Returns an exit code. */
int verify_look(struct verify *v);
/* Waits until UNTIL, CLOCK_MONOTONIC, and calls verify_look() every INTERVAL; both in ns. Returns
 * an exit code; sets `interrupted` after a signal. */
int verify_watch(struct verify *v, int64_t until, int64_t interval);
void verify_end(struct verify *v);
/* Returns the I-th sample from the end, the last one being 0. */
const struct verify_sample *verify_last(const struct verify *v, uint64_t i);

/* verify_change.c */
/* Doubles the weight of the VF that WORD names, measures when that takes effect, and restores it,
 * also after an interruption. INTERVAL: time between samples, ns. Returns an exit code. */
int verify_change(struct verify *v, const char *word, int64_t interval);

/* verify_judge.c */
/* Records which part of the time those VFs were served that always had work until now. */
void verify_shares(struct verify *v);
/* Judges all samples and records. */
void verify_judge(struct verify *v);

/* verify_report.c */
enum verdict { KEPT, BROKEN, NOT_JUDGED, MEASURED, VERDICTS };

/* Adds a finding to the report: MEASURED and ALLOWED in ns; below 0: none. VF -1: the finding is
 * about the GPU. */
__attribute__((format(printf, 7, 8))) void verify_found(struct verify *v, const char *check, int vf,
							enum verdict verdict, int64_t measured,
							int64_t allowed, const char *text, ...);
/* Opens the file for the report, and stores its name. Returns an exit code. */
int verify_claim(struct verify *v, const char *path);
/* Writes the report to the file of verify_claim(). Returns an exit code. */
int verify_save(struct verify *v);
/* Removes an unfinished report, and frees the name. */
void verify_unclaim(struct verify *v);
/* Prints the findings. */
void verify_print(struct verify *v);
/* Returns the overall verdict: BROKEN if anything is, else KEPT if anything was judged, else
 * NOT_JUDGED. */
enum verdict verify_result(const struct verify *v);
