/* SPDX-License-Identifier: MIT */
/* The VF: its ring, the parts of its window, and who has which of its memory. All but what says
 * otherwise is called with the lock. */
#pragma once

#include "cuda_base.h"

struct guest;

struct memory_range {
	uint64_t at, bytes;
	uint64_t id; /* of no other memory, not even of memory that was freed since */
};
/* A part of an allocation: granules in a row. */
struct physical_part {
	uint64_t offset, bytes; /* in the VF's device memory */
};

/* flush.c: all but flush_end() with the lock. */

/* RING is called with the lock, in a thread of its own. */
void flush_start(void (*ring)(void));
/* Schedules a call of RING in LINK_RING_EVERY nanoseconds. False: there is no thread to call it. */
bool flush_later(void);
/* Ends the thread, and waits for it. Without the lock. */
void flush_end(void);
/* In the child of fork(), which does not have the thread. */
void flush_abandon(void);

/* edges.c: any thread. Without edges, edges_put() and edges_done() take no time. */

/* BYTES at AT, in no more than two pages, and those at WINDOW, which become the same, are the same
 * from now on as described there. AT and WINDOW are equal modulo 8. False: out of memory. */
bool edges_add(uint8_t *at, uint8_t *window, uint32_t bytes);
/* Removes the edges that begin there; or all edges. */
void edges_remove(const uint8_t *at, uint64_t bytes);
void edges_end(void);
/* A packet is to be put; packets are done, ALL of them. */
void edges_put(void);
void edges_done(bool all);

/* link.c */

/* What a call may use of the window. */
struct link_parts {
	uint64_t *launch_report, *load_report; /* enum softgpu_error of a packet with REPORT */
	void *structure;		       /* of FUNCTION or ABOUT */
	struct softgpu_output *output;	       /* what GPU kernels print */
	char *log;			       /* of the compiler */
	uint64_t launch_report_at, load_report_at, structure_at, output_at, log_at, times_at;
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
/* Of a shared VF: returns unused memory of this process to the other processes now. */
void link_settle(void);
/* Of a shared VF: frees the memory of killed processes. Returns whether there was such a process.
 */
bool link_care(void);
/* Closes the VF without shutting it down: in the child of fork(). */
void link_abandon(void);
/* Returns whether the VF was lost: then every call returns this error. */
CUresult link_lost(void);

/* The functions below return CUDA_SUCCESS or link_lost(). Those whose caller waits for the VF,
 * which are link_wait*() and link_*reached(), also return the error of an earlier launch, once. */

/* Puts a packet into the ring. It runs after link_ring(). */
CUresult link_put(uint32_t opcode, uint32_t flags, const uint64_t arg[7]);
/* Rings the doorbell now, or by a thread within LINK_RING_EVERY nanoseconds. */
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
/* A module is loaded that may print: from now on, link_wait*() and link_drain() write to standard
 * output what GPU kernels have printed, until the host says that no module can print. */
void link_may_print(void);
/* Writes what they have printed, if any can; waits for that. */
CUresult link_show_printed(void);
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
/* How many packets were put; how many of them link_wait() has found done. */
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
/* Returns whether other processes can have the VF beside this one. */
bool link_is_shared(void);
/* Returns whether GPU kernels reach the window at the addresses that it has in this process. */
bool link_window_is_unified(void);
/* Leaves the first BYTES of that to link_stage(); the rest is the caller's. */
CUresult link_stage_limit(uint64_t bytes);
/* Takes BYTES, at most LINK_LAUNCH_BYTES, for a launch or a SYMBOL_COPY. A packet says that it has
 * the whole structure there, which may reach into the next one's: the host uses no more than the
 * name and the arguments that there are. */
CUresult link_launch(uint64_t bytes, uint8_t **memory, uint64_t *at);

/* output.c */

/* Writes the text that the host has put into O to standard output. Returns whether the host has
 * more. */
bool output_take(struct softgpu_output *o);
/* Writes to standard error what the GPU's driver says of the assertion that has failed. */
void output_words(struct guest *g);

/* pieces.c: all with the lock. */

/* Begins, while the VF executes nothing of this process: clears what an earlier process has left
 * that had this process's slot. */
CUresult pieces_begin(struct guest *g);
/* Clears all pieces of this process, and those that it has had, and frees them. */
void pieces_end(struct guest *g);
/* Clears and frees what processes have left that were killed. Returns whether there was one. */
bool pieces_care(struct guest *g);
/* Ends the running work of killed processes; pieces_care() frees their memory. */
void pieces_stop_dead(struct guest *g);
/* Makes the pieces of BYTES at AT this process's. False: another process has one of them; *NEXT:
 * behind that one. */
bool pieces_take(uint64_t at, uint64_t bytes, uint64_t *next);
/* USES: whether an allocation lies in BYTES at AT. Before pieces are taken. */
void pieces_serve(bool (*uses)(uint64_t at, uint64_t bytes));
/* To be called when an allocation was freed. */
void pieces_freed(void);
/* Returns whether this process has pieces that it could give back once nothing of it runs; does so.
 */
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
/* drop: this process releases the common memory NUMBER as soon as none of its work runs. keep:
 * cancels that. */
void pieces_drop(uint32_t number);
void pieces_keep(uint32_t number);
/* Returns whether OWNER has all pieces of BYTES > 0 at AT now. */
bool pieces_are(uint64_t at, uint64_t bytes, uint64_t owner);

/* heap.c: offsets are in the VF's device memory. */

/* All SIZE bytes are free. */
void heap_reset(uint64_t size);
/* Allocates BYTES > 0 for OWNER at a multiple of 512. False: there is no room. */
bool heap_take(uint64_t bytes, const void *owner, uint64_t *offset);
/* The same at a multiple of ALIGN, itself one of 512. */
bool heap_take_at(uint64_t bytes, uint64_t align, const void *owner, uint64_t *offset);
/* Returns whether an allocation lies in BYTES at AT. */
bool heap_uses(uint64_t at, uint64_t bytes);
/* Returns whether an allocation begins at OFFSET; it is free from now on. */
bool heap_give(uint64_t offset);
/* Frees all that OWNER has. */
void heap_give_all(const void *owner);
/* Finds the allocation that OFFSET lies in, with the bytes that were asked for. */
bool heap_find(uint64_t offset, struct memory_range *r);
uint64_t heap_left(void);
/* The bytes of OWNER's allocations. */
uint64_t heap_of(const void *owner);
/* Returns the owner of the allocation that contains OFFSET; NULL: there is no allocation, or it has
 * no owner. */
const void *heap_owner(uint64_t offset);
/* Keeps OWNER's allocations without an owner. */
void heap_disown(const void *owner);
