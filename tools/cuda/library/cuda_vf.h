/* SPDX-License-Identifier: MIT */
/* The VF: its ring, the parts of its window, and the owners of its memory. All functions are called
 * with the lock unless their comment says otherwise. */
#pragma once

#include "cuda_base.h"

struct guest;

struct memory_range {
	uint64_t at, bytes;
	uint64_t id; /* unique: no other memory has this number, or has had it */
};
/* A part of an allocation: consecutive granules. */
struct physical_part {
	uint64_t offset, bytes; /* OFFSET: in the VF's device memory */
};

/* flush.c: all except flush_end() are called with the lock. */

/* Starts the thread that calls RING, with the lock. */
void flush_start(void (*ring)(void));
/* Schedules a call of RING in LINK_RING_EVERY nanoseconds. Returns false if there is no thread to
 * call it. */
bool flush_later(void);
/* Ends the thread, and waits for its end. Called without the lock. */
void flush_end(void);
/* Forgets the thread, which the child of fork() does not have. Called in that child. */
void flush_abandon(void);

/* edges.c: any thread. Without edges, edges_put() and edges_done() do nothing. */

/* Copies BYTES at AT (at most two pages) to WINDOW, and keeps both equal from then on. AT and
 * WINDOW must be equal modulo 8. Returns false if out of memory. */
bool edges_add(uint8_t *at, uint8_t *window, uint32_t bytes);
/* edges_remove: removes the edges that begin in BYTES at AT. edges_end: removes all edges. */
void edges_remove(const uint8_t *at, uint64_t bytes);
void edges_end(void);
/* edges_put: must be called before a packet is put. edges_done: must be called after packets have
 * ended; ALL: none is left in the ring. */
void edges_put(void);
void edges_done(bool all);

/* link.c */

/* The parts of the window that calls may use. */
struct link_parts {
	uint64_t *launch_report, *load_report; /* enum softgpu_error of a packet with REPORT */
	void *structure;		       /* answer to FUNCTION or ABOUT */
	struct softgpu_output *output;	       /* what GPU kernels have printed */
	char *log;			       /* the compiler's messages */
	uint64_t launch_report_at, load_report_at, structure_at, output_at, log_at, times_at;
	uint64_t *times;		 /* when timed events were reached */
	uint64_t memory_at, memory_size; /* the device memory: its offset in the partition */
};
#define LINK_LOG 8192u
#define LINK_TIMES 4096u
#define LINK_LAUNCH_BYTES 8192u

/* Number of packets that a call may put after one link_stage(), without waiting in between. */
#define LINK_BATCH 64u

extern struct link_parts link_parts;
/* The GPU on which GPU kernels run. */
extern struct softgpu_about link_about;
/* The addresses at which this process can map memory; BYTES 0: none. */
extern struct softgpu_arena link_arena;

/* Connects to the VF NAME and brings it up. Returns CUDA_SUCCESS, or an error with the reason in
 * *ERR. */
CUresult link_up(const char *name, struct vgpu_error *err);
/* Shuts the VF down. If the process ends without this call, the host resets the VF. */
void link_down(void);
/* Shuts the VF down when the process ends. Other threads may still use pinned memory, which becomes
 * private memory of the process. The kernel closes the process's descriptors of the VF. */
void link_leave(void);
/* For a shared VF: returns unused memory of this process to the other processes now. */
void link_settle(void);
/* For a shared VF: frees the memory of killed processes. Returns whether there was such a
 * process. */
bool link_care(void);
/* Closes the VF without shutting it down. Called in the child of fork(). */
void link_abandon(void);
/* Returns CUDA_SUCCESS; or, if the VF was lost, the error that every call then returns. */
CUresult link_lost(void);

/* The functions below return CUDA_SUCCESS or link_lost(). Functions that wait for the VF,
 * link_wait*() and link_*reached(), also return the error of an earlier launch, once. */

/* Puts a packet into the ring. It runs after the next link_ring(). */
CUresult link_put(uint32_t opcode, uint32_t flags, const uint64_t arg[7]);
/* Rings the doorbell now, or lets a thread ring it within LINK_RING_EVERY nanoseconds. */
CUresult link_ring(void);
/* While HOLD is set, link_ring() does nothing: packets wait for the first link_ring() after that,
 * or for a call that waits. Returns the previous HOLD. */
bool link_hold(bool hold);
#define LINK_RING_EVERY 100000
/* Rings the doorbell for packets that link_ring() has not rung for. */
void link_flush(void);
/* Rings the doorbell, and waits until all packets have ended. */
CUresult link_wait(void);
/* As link_wait(), but does not return the error of an earlier launch. */
CUresult link_drain(void);
/* Returns whether the host passes on what GPU kernels print. */
bool link_has_output(void);
/* Must be called when a module that may print is loaded. From then on link_wait*(), except for
 * marks, and link_drain() fetch what GPU kernels have printed (output.c), until the host says that
 * no module can print. */
void link_may_print(void);
/* Waits until all packets have ended, and writes what GPU kernels have printed, if a module may
 * print. */
CUresult link_show_printed(void);
/* link_fence() puts a fence into the ring, and rings the doorbell. link_reached() sets *REACHED to
 * whether all packets before the fence have ended. */
CUresult link_fence(uint64_t *fence);
CUresult link_reached(uint64_t fence, bool *reached);
/* As link_fence(), but the host sends no interrupt: for work that ends soon. link_wait_for_mark()
 * waits for a mark. */
CUresult link_mark(uint64_t *mark);
CUresult link_wait_for_mark(uint64_t mark);
/* Puts a wait for another process's fence into the ring. */
struct guest_fence;
CUresult link_await(const struct guest_fence *fence);
/* As link_reached() and link_wait_for(), for a fence of any process of the VF. */
CUresult link_any_reached(const struct guest_fence *fence, bool *reached);
CUresult link_wait_for_any(const struct guest_fence *fence);
/* Returns the VF, which is valid while the VF is up. */
struct guest *link_guest(void);
/* Return how many packets were put, and how many of them are known to have ended. */
uint64_t link_count(void);
uint64_t link_done(void);
/* Waits until all packets before FENCE have ended. */
CUresult link_wait_for(uint64_t fence);
/* Takes up to *BYTES of the window for data of copies, and sets *BYTES to the number taken. The
 * caller may use them until the packets that are put next have ended. *AT: their offset in the
 * partition. */
CUresult link_stage(uint64_t *bytes, uint8_t **memory, uint64_t *at);
/* Returns the largest number of bytes that link_stage() gives at a time. */
uint64_t link_stage_size(void);
/* The part of the window that is for data. */
struct link_area {
	uint8_t *memory;
	uint64_t at, size; /* AT: offset in the partition */
};
struct link_area link_stage_all(void);
/* Returns whether other processes can use the VF at the same time. */
bool link_is_shared(void);
/* Returns whether GPU kernels access the window at the addresses that it has in this process. */
bool link_window_is_unified(void);
/* Limits link_stage() to the first BYTES of link_stage_all(); the caller may use the rest. */
CUresult link_stage_limit(uint64_t bytes);
/* Takes BYTES of the window, at most LINK_LAUNCH_BYTES, for a launch or a SYMBOL_COPY. The packet
 * states the size of the whole structure, which may reach into the next one's memory: the host
 * reads only the name and the arguments. */
CUresult link_launch(uint64_t bytes, uint8_t **memory, uint64_t *at);

/* output.c */

/* Takes the text that the host has written to O. Returns whether the host has more text. */
bool output_take(struct softgpu_output *o);
/* Writes the text that output_take() took to standard output. Called without the lock: another
 * thread may hold it meanwhile. */
void output_write(void);
/* Forgets the text that output_take() took. Called in the child of fork(), because the text is the
 * parent's. */
void output_abandon(void);
/* Writes the message of the GPU's driver about the failed assertion to standard error. */
void output_words(struct guest *g);

/* pieces.c */

/* Begins, while the VF executes nothing of this process: clears the pieces that an earlier process
 * in this process's slot has left. */
CUresult pieces_begin(struct guest *g);
/* Clears and frees all pieces that this process owns, or was the last to own. */
void pieces_end(struct guest *g);
/* Clears and frees the pieces of killed processes. Returns whether there was such a process. */
bool pieces_care(struct guest *g);
/* Ends the running work of killed processes; pieces_care() then frees their memory. */
void pieces_stop_dead(struct guest *g);
/* Takes the pieces of BYTES at AT for this process. Returns false if another process owns one of
 * them; *NEXT is then the first byte after that piece. */
bool pieces_take(uint64_t at, uint64_t bytes, uint64_t *next);
/* Sets the function that returns whether an allocation lies in BYTES at AT. Must be called before
 * any piece is taken. */
void pieces_serve(bool (*uses)(uint64_t at, uint64_t bytes));
/* Must be called when an allocation was freed. */
void pieces_freed(void);
/* pieces_are_idle() returns whether this process has pieces without an allocation.
 * pieces_give_back() returns these to the VF; none of the process's packets may run. */
bool pieces_are_idle(void);
void pieces_give_back(void);
/* Returns how many of ALL bytes this process owns or could take. */
uint64_t pieces_left(uint64_t all);

/* Returns the number with which this process owns pieces; 0: it has all memory. */
uint32_t pieces_mine(void);
/* Returns the size of a piece, bytes; 0: this process has all memory. */
uint64_t pieces_size(void);
/* Makes the N PARTS, which are whole pieces of this process, common memory, and sets *NUMBER to its
 * number. No packet that uses them may run. Returns what guest_common_make() returns. */
int pieces_share(const struct physical_part *parts, uint32_t n, uint32_t *number);
/* pieces_drop(): this process releases the common memory NUMBER as soon as none of its work runs.
 * pieces_keep() cancels that. */
void pieces_drop(uint32_t number);
void pieces_keep(uint32_t number);
/* Returns whether OWNER owns all pieces of BYTES > 0 at AT now. */
bool pieces_are(uint64_t at, uint64_t bytes, uint64_t owner);

/* heap.c: offsets are in the VF's device memory. */

/* Begins a heap of SIZE bytes, all free. */
void heap_reset(uint64_t size);
/* Allocates BYTES > 0 for OWNER at a multiple of 512. Returns false if there is no room. */
bool heap_take(uint64_t bytes, const void *owner, uint64_t *offset);
/* As heap_take(), at a multiple of ALIGN, which is a multiple of 512. */
bool heap_take_at(uint64_t bytes, uint64_t align, const void *owner, uint64_t *offset);
/* Returns whether an allocation lies in BYTES at AT. */
bool heap_uses(uint64_t at, uint64_t bytes);
/* Frees the allocation that begins at OFFSET. Returns whether there was one. */
bool heap_give(uint64_t offset);
/* Frees all of OWNER's allocations. */
void heap_give_all(const void *owner);
/* Writes the allocation that contains OFFSET to R, with its requested size. Returns false if there
 * is none. */
bool heap_find(uint64_t offset, struct memory_range *r);
/* Returns how many bytes are free. */
uint64_t heap_left(void);
/* Returns the bytes of OWNER's allocations. */
uint64_t heap_of(const void *owner);
/* Returns the owner of the allocation that contains OFFSET; NULL: there is no allocation, or it has
 * no owner. */
const void *heap_owner(uint64_t offset);
/* Keeps OWNER's allocations, but without an owner. */
void heap_disown(const void *owner);
