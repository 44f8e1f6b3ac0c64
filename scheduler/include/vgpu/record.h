/* SPDX-License-Identifier: MIT */
/*
 * Recording and replay. All that steers a core is its events, and so it is with the GPU's memory
 * (vgpu/memory_step.h), so their state at some instant and the events since are a complete
 * recording. The state is an image of the memory of the core, of its policies, and of the latter,
 * which lie in one arena at an address that the recording names: put back there, the pointers in it
 * are right again. (A policy's state may point into itself and to the facts that it was lent,
 * nowhere else.)
 *
 * The recorder keeps the last events in segments. Each begins with an image; the engine thread
 * writes them, any other thread may copy them meanwhile.
 */
#ifndef VGPU_RECORD_H
#define VGPU_RECORD_H

#include <stdio.h>

#include "vgpu/core.h"
#include "vgpu/memory_step.h"

#define RECORD_SLOT_SIZE (256u << 10) /* memory of one policy, at the most */
#define RECORD_SLOTS 2u

/* Added to the type of an event of memory. */
#define RECORD_OF_MEMORY 0x100u

/* One event, and what the core or memory made of it. */
struct record_entry {
	uint64_t now;
	int64_t value;
	uint32_t type, vf, code;
	uint32_t
		payload; /* offset + 1 of its parameters, of memory: of the event; 0: it has none */
	uint32_t hash;	 /* of all actions and records that followed */
	int32_t result;
};

/* An image of the arena, and the events since. Fixed size, no pointers; numbers as this machine
 * writes them. */
struct record_header {
	char magic[8];
	uint32_t version, max_vfs;
	uint64_t address;   /* of the arena */
	uint64_t core_size; /* with the sizes below, the layout that it was made with */
	uint64_t memory_size;
	uint64_t fallback_size, slot_sizes[RECORD_SLOTS]; /* 0: not in use */
	char policy[32], next_policy[32], fallback[32];
	uint64_t n_entries, payload_size, text_size;
};

struct recording {
	struct record_header header;
	uint8_t *image; /* core, fallback, slots, memory, one after the other */
	struct record_entry *entries;
	uint8_t *payload;
	char *text; /* JSON: version, configuration; for people and for reports */
};

struct recorder;

/* A recorder and an arena for a core of MAX_VFS VFs; NULL with the reason. */
struct recorder *recorder_new(uint32_t max_vfs, struct vgpu_error *err);
void recorder_free(struct recorder *r);

/* Memory in the arena: for the core, for the fallback policy, for a policy (SLOT 0 or 1), for the
 * state of the GPU's memory. */
void *recorder_core_memory(struct recorder *r);
void *recorder_fallback_memory(struct recorder *r);
void *recorder_slot_memory(struct recorder *r, uint32_t slot);
void *recorder_state_memory(struct recorder *r);
/* Which slot MEMORY is, or RECORD_SLOTS. */
uint32_t recorder_slot_of(const struct recorder *r, const void *memory);

/* The core has been built anew: what was recorded before is no use for it. Engine thread. */
void recorder_restart(struct recorder *r);
/* Steps CORE and records it; as vgpu_core_step otherwise. Engine thread; allocates nothing. */
int recorder_step(struct recorder *r, struct vgpu_core *core, const struct vgpu_event *event,
		  struct vgpu_output *out);
/* Steps memory, which lies in the arena, and records it, beside CORE; as vgpu_memory_step
 * otherwise. Engine thread; allocates nothing. */
void recorder_memory_step(struct recorder *r, const struct vgpu_core *core,
			  const struct vgpu_memory_event *event, struct vgpu_memory_output *out);

/*
 * Copies the last events. 0; -ENODATA: there are none yet; -EAGAIN: overtaken by the engine;
 * -ENOMEM. Any thread. The text is left empty.
 */
int recorder_copy(struct recorder *r, struct recording *out);
void recording_free(struct recording *r);

/* 0 or -errno with the reason. A file that is no recording, or cut short, is refused; one whose
 * image somebody forged is as good as a forged program: replay only what you trust. */
int recording_write(const struct recording *r, FILE *to, struct vgpu_error *err);
int recording_read(struct recording *r, FILE *from, struct vgpu_error *err);

/* What a replay came to. */
struct replay {
	uint64_t events, decisions; /* decisions: VFs that began to run */
	bool differs;
	uint64_t at;		   /* the first event that differs */
	struct record_entry entry; /* it */
	uint32_t hash;		   /* what it came to now */
	struct vgpu_output out;	   /* of an event of the core */
	struct vgpu_memory_output memory;
};

/* Who looks on. STEPPED is called after each event of the core that was decided as recorded; the
 * core is valid during the call. */
struct replay_watch {
	void (*stepped)(void *arg, const struct replay *replay, const struct vgpu_core *core);
	void *arg;
};

/*
 * Puts the recording's state back and steps through its events. FIND finds policies by name; WATCH
 * may be NULL. 0, whether it differs or not; -errno with the reason if it cannot be replayed here.
 */
int recording_replay(const struct recording *r,
		     const struct vgpu_policy_ops *(*find)(const char *name),
		     const struct replay_watch *watch, struct replay *out, struct vgpu_error *err);

#endif
