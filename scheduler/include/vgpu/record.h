/* SPDX-License-Identifier: MIT */
/*
 * Recording and replay. Nothing but events steers a core, the governor of a GPU whose firmware
 * schedules (vgpu/governor.h) and the memory reducer (vgpu/memory_step.h), so their state at some
 * instant and the events since are a complete recording. The state is an image of one arena that
 * holds the core or the governor, its policies and the memory reducer. The recording names the
 * arena's address; when the image is put back there, its pointers are valid again. (A policy's
 * state may point only into itself and to the facts that the host lent it.)
 *
 * The recorder keeps the last events in segments, each of which begins with an image. The engine
 * thread writes them; any other thread may copy them at the same time.
 */
#pragma once

#include <stdio.h>

#include "vgpu/core.h"
#include "vgpu/governor.h"
#include "vgpu/memory_step.h"

#define RECORD_SLOT_SIZE (256u << 10) /* bytes for one policy's memory */
#define RECORD_SLOTS 2u

/* Added to the type of an event of the memory reducer or of the governor. */
#define RECORD_OF_MEMORY 0x100u
#define RECORD_OF_GOVERNOR 0x200u

/* One event, and its outcome. */
struct record_entry {
	uint64_t now;
	int64_t value; /* the governor's events: the error; BRING: the service owed */
	uint32_t type, vf, code;
	/* offset + 1 in the payload of its parameters (of the memory reducer's: of the event); 0:
	 * none */
	uint32_t payload;
	uint32_t hash; /* hash of the whole output of the step */
	int32_t result;
};

#define RECORD_MAGIC "vgpurec"
/* Raised by each change of the structures of a recording or of what an entry carries; a recording
 * of another version is refused. */
#define RECORD_VERSION 6u

/* The header of a recording: an image of the arena, and the events since. Fixed size, no pointers;
 * numbers in the byte order of the machine. */
struct record_header {
	char magic[8];
	uint32_t version, max_vfs;
	uint64_t address;   /* address of the arena */
	uint64_t core_size; /* this and the next sizes: the layout of the program that recorded */
	uint64_t governor_size; /* a recording has a core or a governor; the other's size is 0 */
	uint64_t memory_size;
	uint64_t fallback_size, slot_sizes[RECORD_SLOTS]; /* 0: not in use */
	char policy[32], next_policy[32], fallback[32];
	uint64_t n_entries, payload_size, text_size;
	uint64_t sum; /* checksum of the file, with 0 here: FNV-1a, by words of eight bytes, each
			 followed by hash ^= hash >> 32 */
};

struct recording {
	struct record_header header;
	uint8_t *image; /* core or governor, fallback, slots, memory, one after the other */
	struct record_entry *entries;
	uint8_t *payload;
	char *text; /* JSON: version, configuration; for people and for reports */
};

struct recorder;

/* Creates a recorder and an arena for a core of MAX_VFS VFs; NULL with the reason. */
struct recorder *recorder_new(uint32_t max_vfs, struct vgpu_error *err);
/* Frees the recorder and its arena. */
void recorder_free(struct recorder *r);

/* Return memory in the arena, owned by the recorder: for the core, for the governor (the same
 * memory), for the fallback policy, for a policy (SLOT 0 or 1), for the memory reducer. */
void *recorder_core_memory(struct recorder *r);
void *recorder_governor_memory(struct recorder *r);
void *recorder_fallback_memory(struct recorder *r);
void *recorder_slot_memory(struct recorder *r, uint32_t slot);
void *recorder_state_memory(struct recorder *r);
/* Returns the number of the slot at MEMORY, or RECORD_SLOTS. */
uint32_t recorder_slot_of(const struct recorder *r, const void *memory);

/* Drops all recorded events, because a new core or governor was built. Engine thread. */
void recorder_restart(struct recorder *r);
/* Does vgpu_core_step, and records the event. Engine thread; allocates nothing. */
int recorder_step(struct recorder *r, struct vgpu_core *core, const struct vgpu_event *event,
		  struct vgpu_output *out);
/* Does vgpu_governor_step, and records the event. Engine thread; allocates nothing. */
int recorder_governor_step(struct recorder *r, struct vgpu_governor *g,
			   const struct vgpu_governor_event *event,
			   struct vgpu_governor_output *out);
/* Does vgpu_memory_step on the memory reducer in the arena, and records the event beside those of
 * CORE. Engine thread; allocates nothing. */
void recorder_memory_step(struct recorder *r, const struct vgpu_core *core,
			  const struct vgpu_memory_event *event, struct vgpu_memory_output *out);

/*
 * Copies the last events to OUT, which the caller frees by recording_free. 0; -ENODATA: there are
 * none yet; -EAGAIN: the engine thread overwrote them meanwhile, try again; -ENOMEM. Any thread.
 * OUT's text is empty.
 */
int recorder_copy(struct recorder *r, struct recording *out);
/* Frees what a recording points to. */
void recording_free(struct recording *r);

/* Write a recording, or read one, which the caller frees. 0 or -errno with the reason. A damaged or
 * truncated file, or one that is not a recording, is refused. Replaying a forged image with a valid
 * checksum can run code: replay in a process of its own. */
int recording_write(const struct recording *r, FILE *to, struct vgpu_error *err);
int recording_read(struct recording *r, FILE *from, struct vgpu_error *err);

/* The result of a replay. */
struct replay {
	uint64_t events, decisions; /* decisions: VFs that began to run; a governor's plans */
	bool differs;
	uint64_t at;			      /* index of the first event whose outcome differs */
	struct record_entry entry;	      /* that event, as recorded */
	uint32_t hash;			      /* its outcome in the replay */
	struct vgpu_output out;		      /* its output, if the event is the core's */
	struct vgpu_memory_output memory;     /* the same, if it is the memory reducer's */
	struct vgpu_governor_output governor; /* the same, if it is the governor's */
};

/* An observer of a replay: STEPPED is called after each event of the core whose outcome matches the
 * recording. The core is valid during the call. */
struct replay_watch {
	void (*stepped)(void *arg, const struct replay *replay, const struct vgpu_core *core);
	void *arg;
};

/*
 * Restores the recorded state and steps through its events. FIND finds policies by name; WATCH may
 * be NULL. Returns 0 whether the outcome differs or not; -errno with the reason if this program
 * cannot replay the recording.
 */
int recording_replay(const struct recording *r,
		     const struct vgpu_policy_ops *(*find)(const char *name),
		     const struct replay_watch *watch, struct replay *out, struct vgpu_error *err);
