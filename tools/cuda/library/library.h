/* SPDX-License-Identifier: MIT */
/*
 * The parts of the library, in an order in which each uses only those after it:
 *
 *   capture.c, graph.c, parameters.c, dot.c, instance.c, update.c, user_object.c: graphs
 *   device.c, context.c, settings.c, module.c, kernel.c, occupancy.c, launch.c, launch_first.c,
 *   copies.c, sets.c, memory.c, pinned.c, pool.c, pointer.c, stream.c, stream_about.c,
 *   host_call.c, linker.c: the other calls
 *
 *   registered.c  pages of the program's own that become the window's
 *   arena.c    addresses, and what is mapped at them
 *   physical.c memory without an address; shareable.c: such memory of several processes
 *   table.c    the table of entries, and calls that are not carried
 *   work.c     what a stream executes: copies (copy.c, rows.c), sets (set.c), launches
 *   image.c    how long images are
 *   symbol.c   variables of modules
 *   call.c     begins and ends a call: the lock, the current context, the log
 *   errors.c   names and sentences of errors
 *   heap.c     which bytes of the VF's device memory are allocated
 *   pieces.c   which of them this process has, beside others
 *   ipc.c      memory of others that it has opened; ipc_event.c: events
 *   handles.c, handles.h: numbers for contexts, modules, functions, streams and events
 *   link.c     the VF: its ring, and the parts of its window
 *   edges.c    parts of pages of the program's own that have a copy in the window
 *   flush.c    a thread that rings the doorbell for calls that do not wait
 *   find.c     which VF it is
 *   record.c   what other programs may know of this one
 *
 * One lock covers all of them. A call that waits for the VF keeps it. Everything that the library
 * checks protects the program from itself; the worker on the host checks each packet.
 */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include <stdbool.h>

#include "entries.h"
#include "handles.h"
#include "softgpu/packets.h"
#include "vgpu/types.h"

/* call.c */

/* What a context keeps for whoever asks: a preference for cache or shared memory, and for the width
 * of banks. */
enum setting { SETTING_CACHE, SETTING_BANKS, SETTINGS };

struct context {
	void *handle; /* NULL: the primary one, which is not active */
	bool primary;
	uint64_t number;
	uint32_t retained; /* the primary one: how often */
	uint32_t attached; /* beside the one who made it */
	unsigned flags;
	int settings[SETTINGS];
};

/* OWNER if it is a context, NULL if it is not: context.c. */
const struct context *context_of(const void *owner);

/* What a call needs. NEEDS_OWNER: a call about something that was made in a context, whose handle
 * or address says which. That context need not be current; no context need be (docs/cuda.md,
 * "Contexts"). */
enum needs { NEEDS_DEVICE, NEEDS_OWNER, NEEDS_CONTEXT };

/* Takes the lock. CUDA_SUCCESS, or why the call cannot go on. *CONTEXT, which may be NULL: the
 * calling thread's current context. */
CUresult call_begin(enum needs needs, struct context **context);
/* The calling thread's current context, or NULL; called with the lock. */
struct context *call_current(void);
/* Gives the lock back, and logs E if it is an error. Returns E. */
CUresult call_end(const char *name, CUresult e);
#define CALL_END(e) call_end(__func__, e)
/* Something that the calling thread does at the end of its call, without the lock. */
struct call_later {
	void (*run)(struct call_later *later);
	struct call_later *next;
};
void call_later(struct call_later *later);
/* The first version of FUNCTION, which is in the same file and has the same signature. */
#define CALL_FIRST(first, function)                                                                \
	extern __typeof__(function) first __attribute__((alias(#function)))
/* Writes one line to standard error if VGPU_CUDA_LOG is 1 or 2. Any thread, with or without the
 * lock. */
__attribute__((format(printf, 1, 2))) void call_log(const char *format, ...);
/* The same for a name that a program looks up in vain: cudart looks up more than a hundred that it
 * can do without. If VGPU_CUDA_LOG is 1, only the first such line is written. */
__attribute__((format(printf, 1, 2))) void call_log_lookup(const char *format, ...);
/* The library's start; called with the lock. CUDA_SUCCESS, or an error. */
CUresult call_start(void);
/* The handle of the context that context.c has made the calling thread's; NULL: none. It has a
 * place in each thread from the start, so that a call reads it without a call of the loader. Then
 * all that the library has for each thread needs one, and glibc has some 1700 bytes for all
 * libraries that a program loads later: what is larger than a pointer must be elsewhere. */
extern __thread void *call_context __attribute__((tls_model("initial-exec")));
void call_lock(void);
void call_unlock(void);

/* What a stream executes. */

enum work_kind { WORK_NOTHING, WORK_COPY, WORK_SET, WORK_LAUNCH, WORK_HOST, WORK_EVENT, WORK_WAIT };

/* One side of a copy: rows of PITCH bytes, HEIGHT of them in a layer. */
struct work_side {
	bool host;
	uint8_t *memory; /* of the host; else: */
	CUdeviceptr at;
	uint64_t pitch, height;
};
struct work_copy {
	struct work_side to, from;
	uint64_t width, rows, layers; /* bytes of a row, rows of a layer */
	/* As the program has said it; NULL: with other words, and it is one row. */
	const struct cuda_copy_3d *said;
};
struct work_set {
	CUdeviceptr at;
	uint64_t pitch, width, rows; /* WIDTH: elements of a row */
	uint64_t value;
	uint32_t unit; /* bytes of an element: 1, 2 or 4; or 8 if there is one */
};
struct work_launch {
	CUfunction function;
	uint32_t grid[3], block[3], shared;
	bool together;	/* a cooperative launch */
	bool in_buffer; /* the program had the arguments in one buffer */
	/* the arguments: where each is; or NULL: they are in SIZE bytes, as the parameters lie */
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
		CUevent event; /* to record, or to wait for */
	};
};

struct stream;
/* Executes W, or puts it into the graph that S captures. Everything that W points to is read before
 * this returns; what a graph keeps, it copies. */
CUresult work_put(struct stream *s, const struct work *w);
/* Whether W can be executed, as far as it is known now. */
CUresult work_check(const struct work *w);
/* Executes W now, in the order of all streams. */
CUresult work_run(const struct work *w);
/* launch.c: blocks of a cluster of such a launch; 0: no such cluster. */
uint64_t launch_cluster(const struct cuda_launch_config *c);
/* copies.c: what C means, for whoever checks *W. */
CUresult copies_rows(const struct cuda_copy_3d *c, struct work_copy *w);
/* What W is, as the program has said it, or could have. */
struct cuda_copy_3d copies_said(const struct work_copy *w);
/* How W is checked, and executed; called with the lock. WORK_HOST lets go of it meanwhile. */
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
/* The same of a call that no graph can carry: if S captures, that ends the capture. */
CUresult work_begin_now(CUstream s, struct stream **stream);

/* stream.c */

struct capture;
struct node;
/* Nodes of a graph. */
struct node_list {
	struct node **nodes;
	uint32_t n;
};

/* Attributes of a stream that change nothing here: how the L2 cache treats addresses, and how a
 * thread waits. */
enum stream_hint { HINT_WINDOW, HINT_WAIT, STREAM_HINTS };

struct stream {
	void *handle;
	const struct context *context;
	unsigned flags;
	union cuda_value hints[STREAM_HINTS];
	uint64_t number;
	struct capture *capture; /* NULL: its calls are executed */
	struct node_list tips;	 /* of the capture: what the next call comes after */
	uint64_t last;		 /* link_count() behind its last packet */
	uint64_t fenced;	 /* LAST at its last query, and a fence behind that */
	uint64_t fence;
};

/* The default streams: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD; NULL is one of them. */
#define STREAM_DEFAULTS 2u
extern struct stream stream_default;
/* The stream S; NULL: there is none. Who puts packets for it sets LAST. */
static inline struct stream *stream_find(CUstream s)
{
	return (uintptr_t)s <= STREAM_DEFAULTS ? &stream_default : handle_find(HANDLE_STREAM, s);
}
/* Whether S may be used while the context CURRENT is. */
static inline bool stream_is_in(const struct stream *s, const struct context *current)
{
	return !s->context || s->context == current;
}
struct captured_event;
/* What captures know of the event; NULL: there is none. */
struct captured_event *stream_event(CUevent h);
struct ipc_event;
/* What other processes may know of the event; NULL: there is none. *FENCE: behind its last record
 * by this process; 0: there was none. */
struct ipc_event *stream_shared_event(CUevent h, uint64_t *fence);
/* cuEventCreate(). */
CUresult stream_make_event(CUevent *out, unsigned flags, const struct context *context);
/* Takes all streams and events out of the capture C. */
void stream_end_capture(const struct capture *c);
/* Ends all streams and events of CONTEXT. */
void stream_end_all(const struct context *context);

/* module.c */

struct module {
	void *handle;
	const struct context *context; /* NULL: a library, which belongs to no context */
	uint32_t number;	       /* on the VF */
	struct function *functions;
	struct symbol *symbols;
};

#define NAME_PART 32u
/* A CUfunction, and a CUkernel. */
struct function {
	void *handle;
	struct module *module;
	struct function *next;
	struct softgpu_function known; /* the parameters come one after the other */
	uint32_t name_parts;	       /* of NAME_PART bytes, with the end of the name */
	uint32_t args_bytes;	       /* of all parameters, with what is between them */
	uint32_t launch_bytes;	       /* that a launch writes for the host */
	/* Attributes as they were set; -1: they were not. */
	int shared_most; /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
	int carveout;	 /* PREFERRED_SHARED_MEMORY_CARVEOUT, a hint, where -1 can be set, too */
	struct launch_setup *setup; /* launch_first.c; NULL: there is none */
};

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
/* Whether packets have room for the NAME of a function or a variable; if not, logs it. */
bool module_name_fits(const char *name);
CUresult module_function(CUfunction *out, struct module *m, const char *name);
/* The file's bytes and a 0 behind them; the caller frees them. NULL: it cannot be read. */
char *module_read_file(const char *path, size_t *bytes);

/* image.c: finds where *IMAGE is and how long. MOST: how long it can be, and a 0 is behind that; or
 * IMAGE_UNKNOWN. False: it is longer than MOST, or than a packet loads. */
#define IMAGE_UNKNOWN UINT64_MAX
bool image_find(const void **image, uint64_t most, uint64_t *bytes);

/* symbol.c: the variables of modules that the program has asked for. */

struct symbol {
	struct module *module;
	struct symbol *next;
	uint64_t id; /* as memory has one */
	struct softgpu_symbol known;
};

/* Finds NAME in M, and asks the VF for it the first time. */
CUresult symbol_find(struct module *m, const char *name, const struct symbol **out);
/* The variable that all BYTES at AT are in; NULL: there is none. */
const struct symbol *symbol_at(CUdeviceptr at, uint64_t bytes);
void symbol_end_all(struct module *m);
/* Puts a copy between BYTES at OFFSET in S and at OTHER in the partition into the ring. OUT: to the
 * partition. */
CUresult symbol_put(const struct symbol *s, uint64_t offset, uint64_t other, uint64_t bytes,
		    bool out);

/* pinned.c */

struct pinned {
	uint8_t *at;
	uint64_t bytes, id;
	unsigned flags;
	enum pinned_kind { PINNED_WINDOW, PINNED_MANAGED, PINNED_PLAIN, PINNED_REGISTERED } kind;
	const struct context *context;
	/* Where the program has it, and where it is in the window, which is where GPU kernels reach
	 * it; NULL: nowhere. AT is one of them. */
	uint8_t *host, *window;
	uint8_t *copy; /* during fork(): what a child has there; NULL: nothing */
};

/* The host memory that AT is in; NULL: none that the program has announced. */
const struct pinned *pinned_find(const void *at);
/* Whether BYTES at MEMORY are pinned, so that the VF copies from or to there itself: *AT in the
 * partition. */
bool pinned_at(const void *memory, uint64_t bytes, uint64_t *at);
/* Whether any of them is pinned. */
bool pinned_touches(const void *memory, uint64_t bytes);
/* Whether GPU kernels reach P, which may be NULL, at its address. */
bool pinned_is_mapped(const struct pinned *p);
/* The address at which they reach what is AT in P; 0: they do not. */
CUdeviceptr pinned_on_device(const struct pinned *p, uint64_t at);
/* Managed memory: see managed.c. */
CUresult pinned_take_managed(CUdeviceptr *out, uint64_t bytes, const struct context *context);
bool pinned_give_managed(CUdeviceptr at);
void pinned_end_all(const struct context *context);

/* registered.c: BYTES at AT of the program's memory; or the pinned memory P, which that became. */

/* Whether the whole pages of them can be the window's, and the rest can be read and written; if
 * not, logs why. */
bool registered_is_possible(const uint8_t *at, uint64_t bytes);
/* Makes them, whole pages, those at WINDOW. */
CUresult registered_map(uint8_t *at, uint64_t bytes, uint8_t *window);
/* Private memory with what is in the window for P; NULL: there is none. */
uint8_t *registered_copy(const struct pinned *p);
/* Puts COPY, which the caller has no more, where P is: over those pages that are still the
 * window's. What the program has mapped there since is left alone. False: some may still be the
 * window's. */
bool registered_unmap(const struct pinned *p, uint8_t *copy);

/* launch.c: takes over what the GPU has at most. */
void launch_reset(void);
/* Whether packets have an argument of BYTES as a value; if not, it is elsewhere in the window. */
bool launch_has_value(uint32_t bytes);
/* L's arguments are in PARAMS, or in EXTRA. */
CUresult launch_take(struct work_launch *l, void **params, void **extra);
/* Gives L, which launch_check() found right, arguments of its own, which free() ends. False: out of
 * memory. */
bool launch_keep(struct work_launch *l);
/* Where the arguments are that launch_keep() has given L: a list, which free() ends, as
 * cuda_kernel_node has it in PARAMS; or in EXTRA, if the program had them in one buffer. */
CUresult launch_list(struct work_launch *l, void ***list);
/* occupancy.c: how many blocks of F a multiprocessor executes at a time, each of THREADS threads
 * and SHARED bytes of dynamic shared memory. Waits for the host. */
CUresult occupancy_ask(const struct function *f, uint32_t threads, uint64_t shared, int *blocks);
/* host_call.c */
CUresult host_call(const struct work_host *w);

/* memory.c: whether AT is an address of the device that no pointer of this process can equal. */
bool memory_is_device(uint64_t at);
/* BYTES for calls whose sizes have 32 bits, or the most that these can say. */
unsigned memory_in_32_bits(uint64_t bytes);
/* Whether device memory and this process's have no address in common. */
bool memory_is_unified(void);
struct memory_range {
	uint64_t at, bytes;
	uint64_t id; /* of no other memory, not even of memory that was freed since */
};
/* A number for memory that the program gets. */
uint64_t memory_new_id(void);
/* The memory that AT lies in: of this process, which may be a mapping, or of another process that
 * this one has opened. */
bool memory_range(CUdeviceptr at, struct memory_range *r);
/* The offset, as packets have it, of BYTES at the device address AT; false: they are not all in one
 * allocation, or not all mapped. */
bool memory_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset);

/* physical.c */

/* A part of an allocation: granules in a row. */
struct physical_part {
	uint64_t offset, bytes; /* in the VF's device memory */
};
/* Memory without an address. It is free when nobody holds it, and it is mapped nowhere. */
struct physical {
	void *handle;
	uint64_t bytes;
	int handles;	       /* as struct cuda_allocation has it */
	uint32_t common;       /* 1 + its number as common memory; 0: it is this process's alone */
	bool made;	       /* this process has made it common */
	uint32_t held, mapped; /* how often */
	uint32_t n;
	struct physical_part *parts;
};

/* The allocation, if the program holds it; NULL: there is none. */
struct physical *physical_find(CUmemHandle handle);
/* One of its mappings has ended; frees it if it was the last use. */
void physical_unmapped(struct physical *p);
/* Forgets all. */
void physical_reset(void);
/* Makes an allocation of the common memory NUMBER, which has these N PIECES and which the process
 * holds; its handle is held once. 0; -EINVAL: the pieces cannot be mapped; or -ENOMEM. After an
 * error, the process no longer holds it. */
int physical_open(uint32_t number, const uint32_t *pieces, uint32_t n, struct physical **out);

/* shareable.c: memory that other processes of the VF may have, too */

/* Whether the VF can have such memory. */
bool shareable_is_there(void);
/* Its granularity in bytes. */
uint64_t shareable_unit(void);
/* This process does not use P any more, which is common memory. */
void shareable_end(struct physical *p);

/* arena.c */

/* The offset, as packets have it, of BYTES at AT in the arena; false: they are not all mapped and
 * accessible. */
bool arena_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset);
/* The mapping that AT lies in. */
bool arena_range(CUdeviceptr at, struct memory_range *r);
/* What is mapped at AT; NULL: nothing. */
struct physical *arena_physical(CUdeviceptr at);
/* Forgets all. */
void arena_reset(void);
/* Whether the VF can map memory; if not, logs that NAME is not carried. */
CUresult arena_is_there(const char *name);

/* table.c: logs that NAME is not carried. Returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult table_absent(const char *name);

/* pieces.c: all with the lock. */

struct guest;
/* Begins, while the VF executes nothing of this process: clears what an earlier process has left
 * that had this process's slot. */
CUresult pieces_begin(struct guest *g);
/* Clears all that this process has and had, and gives it back. */
void pieces_end(struct guest *g);
/* Clears and frees what processes have left that were killed. Whether there was one. */
bool pieces_care(struct guest *g);
/* Ends what processes have left running that were killed, and leaves the rest to pieces_care(). */
void pieces_stop_dead(struct guest *g);
/* Makes the pieces of BYTES at AT this process's. False: another process has one of them; *NEXT:
 * behind that one. */
bool pieces_take(uint64_t at, uint64_t bytes, uint64_t *next);
/* An allocation has ended. */
void pieces_freed(void);
/* Whether this process has pieces that it could give back once nothing of it runs; does so. */
bool pieces_are_idle(void);
void pieces_give_back(void);
/* The bytes that this process has or could have, of ALL. */
uint64_t pieces_left(uint64_t all);

/* Whose its pieces are; 0: this process has all memory. */
uint32_t pieces_mine(void);
/* Bytes of a piece; 0: as above. */
uint64_t pieces_size(void);
/* Makes the N PARTS, which are whole pieces of this process, common memory; *NUMBER is its number.
 * Nothing may run that was put for them. As guest_common_make(). */
int pieces_share(const struct physical_part *parts, uint32_t n, uint32_t *number);
/* This process holds common memory no more once nothing of it runs; and takes that back. */
void pieces_drop(uint32_t number);
void pieces_keep(uint32_t number);
/* Whether all pieces of BYTES > 0 at AT are those of OWNER at this time. */
bool pieces_are(uint64_t at, uint64_t bytes, uint64_t owner);

/* ipc.c: the memory of other processes of the VF that was opened. */

/* Finds the memory that OFFSET lies in. */
bool ipc_find(uint64_t offset, struct memory_range *r);
/* The context that has opened it; NULL: none has. */
const struct context *ipc_context(uint64_t offset);
/* Whether other processes may open the allocation that OFFSET lies in. */
bool ipc_can_show(uint64_t offset);
/* Closes all that CONTEXT has opened. */
void ipc_end_all(const struct context *context);

/* heap.c: offsets are in the VF's device memory. */

void heap_reset(uint64_t size);
/* Allocates BYTES > 0 for OWNER at a multiple of 512. Whether there was room. */
bool heap_take(uint64_t bytes, const void *owner, uint64_t *offset);
/* The same at a multiple of ALIGN, itself one of 512. */
bool heap_take_at(uint64_t bytes, uint64_t align, const void *owner, uint64_t *offset);
/* Whether an allocation lies in BYTES at AT. */
bool heap_uses(uint64_t at, uint64_t bytes);
/* Whether an allocation begins at OFFSET; it is free from now on. */
bool heap_give(uint64_t offset);
/* Frees all that OWNER has. */
void heap_give_all(const void *owner);
/* Finds the allocation that OFFSET lies in, with the bytes that were asked for. */
bool heap_find(uint64_t offset, struct memory_range *r);
uint64_t heap_left(void);
/* The bytes of OWNER's allocations. */
uint64_t heap_of(const void *owner);
/* Whose the allocation is that OFFSET lies in; NULL: there is none, or nobody's. */
const void *heap_owner(uint64_t offset);
/* OWNER's allocations are nobody's from now on; they stay. */
void heap_disown(const void *owner);

/* link.c */

/* What a call may use of the window. */
struct link_parts {
	uint64_t *launch_report, *load_report; /* enum softgpu_error of a packet with REPORT */
	void *structure;		       /* of FUNCTION or ABOUT */
	char *log;			       /* of the compiler */
	uint64_t launch_report_at, load_report_at, structure_at, log_at, times_at;
	uint64_t *times;		 /* of events */
	uint64_t memory_at, memory_size; /* the device memory: its offset in the partition */
};
#define LINK_LOG 8192u
#define LINK_TIMES 4096u
#define LINK_LAUNCH_BYTES 8192u

/* Packets that a call may put after one link_stage(), without a wait in between. */
#define LINK_BATCH 64u

extern struct link_parts link_parts;
/* What GPU kernels run on. */
extern struct softgpu_about link_about;
/* Where this process can map memory; BYTES 0: nowhere. */
extern struct softgpu_arena link_arena;

/* Connects to the VF and brings it up. CUDA_SUCCESS, or an error with the reason in *ERR. */
CUresult link_up(const char *name, struct vgpu_error *err);
/* Brings it down. The VF is reset if this is not called before the process ends. */
void link_down(void);
/* The same at the end of the process, whose threads may still use pinned memory: they keep that, as
 * memory of their own. The process's end closes what it has of the VF. */
void link_leave(void);
/* Of a shared VF: gives memory back that this process no longer needs, now. */
void link_settle(void);
/* Of a shared VF: frees what killed processes have left. Whether there was one. */
bool link_care(void);
/* Lets go of the VF without a word to it: in the child of fork(). */
void link_abandon(void);
/* Whether the VF was lost: then every call returns this error. */
CUresult link_lost(void);

/* The functions below return CUDA_SUCCESS or link_lost(). Those whose caller waits for the VF,
 * which are link_wait*() and link_*reached(), also return the error of an earlier launch, once. */

/* Puts a packet into the ring. It runs after link_ring(). */
CUresult link_put(uint32_t opcode, uint32_t flags, const uint64_t arg[7]);
/* Rings the doorbell, now or within LINK_RING_EVERY nanoseconds, whatever the program does then. */
CUresult link_ring(void);
/* While HOLD is set, link_ring() does nothing: what is put waits for the next one after that, or
 * for a call that waits. Returns what HOLD was. */
bool link_hold(bool hold);
#define LINK_RING_EVERY 100000
/* Rings for packets that link_ring() has left. */
void link_flush(void);
/* Rings, and waits until all packets are done. */
CUresult link_wait(void);
/* The same of a call for which it makes no difference whether an earlier launch was refused. */
CUresult link_drain(void);
/* Puts a fence into the ring, and rings: link_reached() tells whether all before it is done. */
CUresult link_fence(uint64_t *fence);
CUresult link_reached(uint64_t fence, bool *reached);
/* The same for link_wait_for_mark(), of which nobody is interrupted: for what ends soon. */
CUresult link_mark(uint64_t *mark);
CUresult link_wait_for_mark(uint64_t mark);
/* Puts a wait for another process's fence into the ring. */
struct guest_fence;
CUresult link_await(const struct guest_fence *fence);
/* As link_reached() and link_wait_for(), for a fence of any process of the VF. */
CUresult link_any_reached(const struct guest_fence *fence, bool *reached);
CUresult link_wait_for_any(const struct guest_fence *fence);
/* The VF, while it is up. */
struct guest *link_guest(void);
/* How many packets were put; and how many of the first of them were found done by link_wait(). */
uint64_t link_count(void);
uint64_t link_done(void);
CUresult link_wait_for(uint64_t fence);
/* Takes up to *BYTES of the window for data on its way; *BYTES is what there is, and stays so until
 * the packets that are put next are done. *AT: its offset in the partition. */
CUresult link_stage(uint64_t *bytes, uint8_t **memory, uint64_t *at);
/* The most that link_stage() gives. */
uint64_t link_stage_size(void);
/* All of the window that is for data. */
struct link_area {
	uint8_t *memory;
	uint64_t at, size; /* AT: in the partition */
};
struct link_area link_stage_all(void);
/* Whether other processes can have the VF beside this one. */
bool link_is_shared(void);
/* Whether GPU kernels reach the window at the addresses that it has in this process. */
bool link_window_is_unified(void);
/* Leaves the first BYTES of that to link_stage(); the rest is the caller's. */
CUresult link_stage_limit(uint64_t bytes);
/* Takes BYTES, at most LINK_LAUNCH_BYTES, for a launch or a SYMBOL_COPY. A packet says that it has
 * the whole structure there, which may reach into the next one's: the host uses no more than the
 * name and the arguments that there are. */
CUresult link_launch(uint64_t bytes, uint8_t **memory, uint64_t *at);

/* edges.c: any thread. Without edges, edges_put() and edges_done() take no time. */

/* BYTES at AT, in no more than two pages, and those at WINDOW, which become the same, are the same
 * from now on as described there. AT and WINDOW are equal modulo 8. False: out of memory. */
bool edges_add(uint8_t *at, uint8_t *window, uint32_t bytes);
/* Forgets those that begin there; or all. */
void edges_remove(const uint8_t *at, uint64_t bytes);
void edges_end(void);
/* A packet is to be put; packets are done, ALL of them. */
void edges_put(void);
void edges_done(bool all);

/* flush.c: all but flush_end() with the lock. */

void flush_start(void);
/* Has link_flush() called in LINK_RING_EVERY nanoseconds. False: nobody will call it. */
bool flush_later(void);
/* Ends the thread, and waits for it. Without the lock. */
void flush_end(void);
/* In the child of fork(), which does not have the thread. */
void flush_abandon(void);

#endif
