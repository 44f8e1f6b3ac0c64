/* SPDX-License-Identifier: MIT */
/* What calls have in common. With the lock. */
#pragma once

#include "put.h"

/* The library's start; called with the lock. CUDA_SUCCESS, or an error. */
CUresult start_library(void);

/* stream.c: ends all streams of CONTEXT. */
void stream_end_all(const struct context *context);

/* copies.c: reads C into *W, which is not checked yet. */
CUresult copies_rows(const struct cuda_copy_3d *c, struct work_copy *w);
/* Describes W as the program did, or could have done. */
struct cuda_copy_3d copies_said(const struct work_copy *w);

/* occupancy.c: how many blocks of F a multiprocessor executes at a time, each of THREADS threads
 * and SHARED bytes of dynamic shared memory. Waits for the host. */
CUresult occupancy_ask(const struct function *f, uint32_t threads, uint64_t shared, int *blocks);
/* Blocks of the cluster that A asks for; 0: no such cluster. */
uint64_t occupancy_cluster(const struct cuda_attribute *a);
#define LAUNCH_CLUSTER 4 /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */

/* module.c */

/* Unloads all modules of CONTEXT. */
void module_end_all(const struct context *context);
/* Where the program wants the compiler's messages, which follow each other there. */
struct module_log {
	char *at; /* NULL: nowhere */
	size_t size, has;
	void **used; /* the program's: how many bytes it has; NULL: nowhere */
};
struct module_logs {
	struct module_log errors, info;
	void **took; /* the program's: how long compiling has taken, a float; NULL: nowhere */
	float took_ms;
};
/* Reads OPTIONS as of cuModuleLoadDataEx(), whose VALUES are the program's. What they do not name
 * stays as it is in *LOGS. */
CUresult module_options(unsigned n, const int *options, void **values, struct module_logs *logs);
/* Loads IMAGE for CONTEXT, or as a library. MOST as of image_find(). */
CUresult module_load(void **out, const void *image, uint64_t most, struct module_logs *logs,
		     const struct context *context);
/* Has the host say what is wrong with an image that is one of several, or with several in one. Only
 * if guest_has_images(). */
CUresult module_check(const void *image, uint64_t bytes, struct module_logs *logs);
CUresult module_unload(struct module *m);
CUresult module_function(CUfunction *out, struct module *m, const char *name);
/* The file's bytes and a 0 behind them; the caller frees them. NULL: it cannot be read. */
char *module_read_file(const char *path, size_t *bytes);
