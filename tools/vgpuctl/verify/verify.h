/* SPDX-License-Identifier: MIT */
/*
 * vgpuctl verify: compares what VFs of a GPU really get with what vgpud states of its policy. vgpud
 * is asked for counters and records only; the judges share no code with the policies, the core or
 * the governor. One thread.
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

/* One VF, as vgpud's answers have it. Times in ns. */
struct verify_vf {
	bool present;
	bool works; /* had work since the previous sample, as vgpud or the operator states */
	int64_t run, charged;	     /* counters */
	int64_t astray;		     /* discrepancy between vgpud's sums for this VF */
	int64_t events;		     /* times it fell asleep, windows, resets, hangs, so far */
	int64_t late;		     /* firmware's estimate of how late it stops */
	int64_t lag_most, wait_most; /* stated bounds; -1: none */
	double share;		     /* promised; 0: not in proportion */
};

struct verify_sample {
	int64_t now, wall, astray, switching;
	int64_t policy_since;
	uint64_t disturbances;		  /* windows, resets, guests that come or go, so far */
	int64_t refused, clamped, writes; /* plans and settings, so far */
	struct verify_vf vfs[MAX_VFS];
};

/* The longest wait of a VF for a turn, as the records show it. */
struct verify_wait {
	int64_t longest; /* less what turns and switches in it took beyond their plan; -1: none */
	int64_t late;	 /* that */
	int64_t bound;	 /* as stated then; -1: none */
	uint64_t n;
};

struct verify {
	struct session *session;
	bool governed;
	int n_vfs;
	vgpu_vf_set busy; /* VFs that always work, as the operator says */
	struct verify_sample *samples;
	uint64_t n, room;
	struct verify_wait waits[MAX_VFS];
	struct json_object *gpu, *vfs; /* the last answers */
	struct json_object *epochs;    /* records "served" and "plan" of a governed GPU, the last */
	uint64_t left_out;	       /* earlier ones */
	int64_t longest_epoch;
	uint64_t disturbances;	    /* so far */
	struct json_object *checks; /* the judges' results */
	bool interrupted;
	struct verify_walk *walk; /* verify_watch.c's */
	char *path;		  /* of the report */
	bool is_staged;		  /* a file for the report is beside PATH */
	int to; /* descriptor of a file at PATH that cannot be replaced; else -1 */
};

/* Measures the session's GPU as its options say, writes the report and prints what was found.
 * Returns an exit code. */
int verify(struct session *s);

/* verify_watch.c */
/* Begins to watch: learns of the GPU. Returns an exit code. */
int verify_begin(struct verify *v);
/* Takes a sample, and reads the records since the one before. Returns an exit code. */
int verify_look(struct verify *v);
/* Waits until UNTIL, CLOCK_MONOTONIC, and calls verify_look() each INTERVAL. Returns an exit code;
 * sets `interrupted`. */
int verify_watch(struct verify *v, int64_t until, int64_t interval);
void verify_end(struct verify *v);
/* Returns the sample number I from the end, 0 being the last. */
const struct verify_sample *verify_last(const struct verify *v, uint64_t i);

/* verify_change.c */
/* Doubles the weight of the VF that WORD names, measures when that acts, and puts it back, also if
 * it is interrupted. Returns an exit code. */
int verify_change(struct verify *v, const char *word, int64_t interval);

/* verify_judge.c */
/* Notes which part of the time VFs were served that had work all the time until now. */
void verify_shares(struct verify *v);
/* Judges all that was seen. */
void verify_judge(struct verify *v);

/* verify_report.c */
enum verdict { KEPT, BROKEN, NOT_JUDGED, MEASURED, VERDICTS };

/* Adds a finding to the report: what was measured and allowed, ns; below 0: none. VF -1: of the
 * GPU. */
__attribute__((format(printf, 7, 8))) void verify_found(struct verify *v, const char *check, int vf,
							enum verdict verdict, int64_t measured,
							int64_t allowed, const char *text, ...);
/* Opens the file for the report, and keeps its name. Returns an exit code. */
int verify_claim(struct verify *v, const char *path);
/* Writes the report to the file of verify_claim(). Returns an exit code. */
int verify_save(struct verify *v);
/* Removes a half-written report, and frees the name. */
void verify_unclaim(struct verify *v);
/* Prints what was found. */
void verify_print(struct verify *v);
/* Returns the worst verdict: BROKEN, else KEPT if anything was judged, else NOT_JUDGED. */
enum verdict verify_result(const struct verify *v);
