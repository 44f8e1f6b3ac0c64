/* SPDX-License-Identifier: MIT */
/* What streams execute: copies (copy.c, rows.c), sets (set.c), launches, events. With the lock. */
#pragma once

#include "cuda_memory.h"

/* What a stream executes. */

enum work_kind { WORK_NOTHING, WORK_COPY, WORK_SET, WORK_LAUNCH, WORK_HOST, WORK_EVENT, WORK_WAIT };

/* One side of a copy: rows at distances of PITCH bytes, HEIGHT of them in a layer. */
struct work_side {
	bool host;
	uint8_t *memory; /* if HOST */
	CUdeviceptr at;	 /* if not */
	uint64_t pitch, height;
};
struct work_copy {
	struct work_side to, from;
	uint64_t width, rows, layers; /* bytes of a row, rows of a layer */
	/* The program's own description; NULL if the copy came from a 1-D call. */
	const struct cuda_copy_3d *said;
};
struct work_set {
	CUdeviceptr at;
	uint64_t pitch, width, rows; /* WIDTH: elements of a row */
	uint64_t value;
	uint32_t unit; /* bytes of an element: 1, 2 or 4; 8 for a single element */
};
struct work_launch {
	CUfunction function;
	uint32_t grid[3], block[3], shared;
	bool together;	/* a cooperative launch */
	bool in_buffer; /* the program gave the arguments in one buffer */
	/* Pointers to the arguments; NULL: they lie in SIZE bytes at ARGS, in the parameters'
	 * layout. */
	void **params;
	uint8_t *args;
	size_t size;
};
struct work_host {
	void (*run)(void *data);
	void *data;
};
struct work {
	enum work_kind kind;
	union {
		struct work_copy copy;
		struct work_set set;
		struct work_launch launch;
		struct work_host host;
		CUevent event; /* the event to record, or to wait for */
	};
};

struct capture;
struct node;
/* Nodes of a graph. */
struct node_list {
	struct node **nodes;
	uint32_t n;
};

/* Functions for lists. Adding a node that is in the list does nothing; returns false if out of
 * memory. */
bool node_list_add(struct node_list *l, struct node *node);
void node_list_drop(struct node_list *l, const struct node *node);
void node_list_clear(struct node_list *l);
bool node_list_has(const struct node_list *l, const struct node *node);

/* Attributes of a stream that have no effect here: how the L2 cache treats addresses, and how a
 * thread waits. */
enum stream_hint { HINT_WINDOW, HINT_WAIT, STREAM_HINTS };

struct stream {
	void *handle;
	const struct context *context;
	unsigned flags;
	union cuda_value hints[STREAM_HINTS];
	uint64_t number;
	struct capture *capture; /* NULL: not captured, so that its calls are executed */
	struct node_list tips;	 /* captured: the nodes after which the next node comes */
	uint64_t last;		 /* link_count() after the stream's last packet was put */
	uint64_t fenced;	 /* LAST when FENCE was put */
	uint64_t fence;		 /* the fence that was put for the stream's last query */
};

/* The default streams: NULL or CU_STREAM_LEGACY, and CU_STREAM_PER_THREAD. */
#define STREAM_DEFAULTS 2u
extern struct stream stream_default;
/* Returns the stream S, or NULL. A caller that puts packets for it must set its LAST. */
static inline struct stream *stream_find(CUstream s)
{
	return (uintptr_t)s <= STREAM_DEFAULTS ? &stream_default : handle_find(HANDLE_STREAM, s);
}
/* Returns whether S may be used while CURRENT is the current context. */
static inline bool stream_is_in(const struct stream *s, const struct context *current)
{
	return !s->context || s->context == current;
}

/* Returns CUDA_SUCCESS, or the error if W is known to be impossible. */
CUresult work_check(const struct work *w);
/* Executes W now, in the order of all streams. */
CUresult work_run(const struct work *w);
/* Functions that check and execute W, with the lock. WORK_HOST releases the lock while the
 * program's function runs. */
CUresult copy_check(const struct work_copy *w);
CUresult set_check(const struct work_set *w);
CUresult launch_check(const struct work_launch *w);
CUresult copy_run(const struct work_copy *w);
CUresult set_run(const struct work_set *w);
CUresult launch_run(const struct work_launch *w);
CUresult event_run(CUevent event);
CUresult event_wait(CUevent event);
/* Begins a call about the stream S, of any context: takes the lock, and finds S. */
CUresult work_begin(CUstream s, struct stream **stream);

/* launch.c: caches the GPU's launch limits. Called when the library starts. */
void launch_reset(void);
/* Returns whether an argument of BYTES is stored in the packet's structure; if not, it is elsewhere
 * in the window. */
bool launch_has_value(uint32_t bytes);
/* Sets L's arguments from PARAMS, or from EXTRA. */
CUresult launch_take(struct work_launch *l, void **params, void **extra);
/* Copies the arguments of L, which has passed launch_check(), into an allocation that is freed with
 * free(). Returns false if out of memory. */
bool launch_keep(struct work_launch *l);
/* Writes to *LIST the list of the arguments that launch_keep() has copied, in the form of PARAMS of
 * cuda_kernel_node, or of EXTRA if the program gave them in one buffer. The caller frees it. */
CUresult launch_list(struct work_launch *l, void ***list);
/* Returns the number of threads in a block of L. */
uint64_t launch_threads(const struct work_launch *l);
