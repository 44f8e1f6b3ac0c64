/* SPDX-License-Identifier: MIT */
/* Functions that calls of several files share. All are called with the lock. */
#pragma once

#include "put.h"

/* Starts the library, if it has not started. Returns CUDA_SUCCESS, or an error. Called with the
 * lock. */
CUresult start_library(void);

/* stream.c: ends all streams of CONTEXT. */
void stream_end_all(const struct context *context);

/* copies.c: reads C into *W, which is not checked yet. */
CUresult copies_rows(const struct cuda_copy_3d *c, struct work_copy *w);
/* Describes W as the program did, or as it could have done. */
struct cuda_copy_3d copies_said(const struct work_copy *w);

/* occupancy.c: how many blocks of F a multiprocessor executes at a time, each of THREADS threads
 * and SHARED bytes of dynamic shared memory. Waits for the host. */
CUresult occupancy_ask(const struct function *f, uint32_t threads, uint64_t shared, int *blocks);
/* Returns the number of blocks of the cluster that A requests; 0: such a cluster is impossible. */
uint64_t occupancy_cluster(const struct cuda_attribute *a);
#define LAUNCH_CLUSTER 4 /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */

/* module.c */

/* Unloads all modules of CONTEXT. */
void module_end_all(const struct context *context);
/* Where the program wants the compiler's messages, which are appended to each other there. */
struct module_log {
	char *at; /* NULL: nowhere */
	size_t size, has;
	void **used; /* the program's variable for how many bytes the log has; NULL: none */
};
struct module_logs {
	struct module_log errors, info;
	void **took; /* the program's variable for how long compiling has taken, a float; NULL:
		      * none */
	float took_ms;
};
/* Reads OPTIONS as of cuModuleLoadDataEx(), whose VALUES belong to the program. Settings of *LOGS
 * that OPTIONS do not name stay as they are. */
CUresult module_options(unsigned n, const int *options, void **values, struct module_logs *logs);
/* Loads IMAGE for CONTEXT, or as a library. MOST: as of image_find(). */
CUresult module_load(void **out, const void *image, uint64_t most, struct module_logs *logs,
		     const struct context *context);
/* Lets the host check an image that is one of several, or consists of several, and report errors to
 * LOGS. Must be called only if guest_has_images(). */
CUresult module_check(const void *image, uint64_t bytes, struct module_logs *logs);
CUresult module_unload(struct module *m);
CUresult module_function(CUfunction *out, struct module *m, const char *name);
/* Returns the file's bytes and a zero byte after them, which the caller frees; NULL: it cannot be
 * read. */
char *module_read_file(const char *path, size_t *bytes);
