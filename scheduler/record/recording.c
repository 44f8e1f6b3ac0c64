/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"

/* More than any recorder writes; a larger count is malformed. */
#define MAX_ENTRIES (1u << 20)
#define MAX_BYTES (16u << 20)

void recording_free(struct recording *r)
{
	free(r->image);
	free(r->entries);
	free(r->payload);
	free(r->text);
	*r = (struct recording){.image = NULL};
}

/* FNV-1a with 64 bits (Fowler, Noll, Vo), by words, the last one padded with zeros. A product
 * carries to the left only: without the shift, damage to the first bits of two words cancels
 * out. */
struct sum {
	uint64_t hash, word;
	uint32_t n; /* bytes in the word */
};

static void sum_add(struct sum *s, const void *part, uint64_t size)
{
	const uint8_t *p = part;

	for (; size > 0; size--, p++) {
		s->word |= (uint64_t)*p << 8 * s->n++;
		if (s->n < 8)
			continue;
		s->hash = (s->hash ^ s->word) * 0x100000001b3u;
		s->hash ^= s->hash >> 32;
		s->word = s->n = 0;
	}
}

/* The parts of a file, in their order. */
#define PARTS 5u
struct part {
	const void *at;
	uint64_t size;
};

static void file_parts(const struct recording *r, const struct record_header *h, struct part *parts)
{
	parts[0] = (struct part){h, sizeof(*h)};
	parts[1] = (struct part){r->text, h->text_size};
	parts[2] = (struct part){r->image, arena_image_size(h)};
	parts[3] = (struct part){r->entries, h->n_entries * sizeof(*r->entries)};
	parts[4] = (struct part){r->payload, h->payload_size};
}

/* The checksum of the file that R with the header H makes. */
static uint64_t sum_of(const struct recording *r, const struct record_header *h)
{
	static const uint8_t zeros[8];
	struct sum s = {.hash = 0xcbf29ce484222325u};
	struct record_header header = *h;
	struct part parts[PARTS];
	uint32_t i;

	header.sum = 0;
	file_parts(r, &header, parts);
	for (i = 0; i < PARTS; i++)
		sum_add(&s, parts[i].at, parts[i].size);
	sum_add(&s, zeros, s.n ? 8 - s.n : 0);
	return s.hash;
}

int recording_write(const struct recording *r, FILE *to, struct vgpu_error *err)
{
	struct record_header h = r->header;
	struct part parts[PARTS];
	bool ok = true;
	uint32_t i;

	h.text_size = strlen(r->text);
	h.sum = sum_of(r, &h);
	file_parts(r, &h, parts);
	for (i = 0; i < PARTS; i++)
		ok = ok && fwrite(parts[i].at, 1, parts[i].size, to) == parts[i].size;
	ok = ok && fflush(to) == 0;
	return ok ? 0 : vgpu_error_set(err, -EIO, "writing the recording: %s", strerror(errno));
}

/* Checks the fields of a header that replay relies on; returns the first error, or NULL. */
static const char *objection(const struct record_header *h)
{
	if (memcmp(h->magic, RECORD_MAGIC, sizeof(h->magic)) != 0)
		return "not a recording of vgpud";
	if (h->version != RECORD_VERSION)
		return "a recording of another version";
	if (h->max_vfs == 0 || h->max_vfs > VGPU_GPU_MAX_VFS)
		return "damaged: impossible number of VFs";
	if ((h->governor_size ? h->governor_size != vgpu_governor_size() || h->core_size > 0
			      : h->core_size != vgpu_core_size(h->max_vfs)) ||
	    h->memory_size != vgpu_memory_state_size())
		return "made by another build: its core or governor has another layout";
	if (h->fallback_size > RECORD_SLOT_SIZE || h->slot_sizes[0] > RECORD_SLOT_SIZE ||
	    h->slot_sizes[1] > RECORD_SLOT_SIZE || h->n_entries > MAX_ENTRIES ||
	    h->payload_size > MAX_BYTES || h->text_size > MAX_BYTES || h->address % 4096 ||
	    memchr(h->policy, 0, sizeof(h->policy)) == NULL ||
	    memchr(h->next_policy, 0, sizeof(h->next_policy)) == NULL ||
	    memchr(h->fallback, 0, sizeof(h->fallback)) == NULL)
		return "damaged: sizes beyond what a recording can have";
	return NULL;
}

static void *read_part(FILE *from, uint64_t n, uint64_t size, bool *ok)
{
	uint8_t *to = malloc(n * size + 1);

	*ok = *ok && to && fread(to, size, n, from) == n;
	if (to)
		to[n * size] = 0;
	return to;
}

int recording_read(struct recording *r, FILE *from, struct vgpu_error *err)
{
	const char *why;
	bool ok = true;

	*r = (struct recording){.image = NULL};
	if (fread(&r->header, sizeof(r->header), 1, from) != 1)
		return vgpu_error_set(err, -EINVAL, "too short for a recording");
	why = objection(&r->header);
	if (why)
		return vgpu_error_set(err, -EINVAL, "%s", why);
	r->text = read_part(from, r->header.text_size, 1, &ok);
	r->image = read_part(from, arena_image_size(&r->header), 1, &ok);
	r->entries = read_part(from, r->header.n_entries, sizeof(*r->entries), &ok);
	r->payload = read_part(from, r->header.payload_size, 1, &ok);
	if (!ok) {
		recording_free(r);
		return vgpu_error_set(err, -EINVAL, "truncated");
	}
	if (sum_of(r, &r->header) != r->header.sum) {
		recording_free(r);
		return vgpu_error_set(err, -EINVAL, "damaged: its sum is not what its header says");
	}
	return 0;
}

/* Restores the event of an entry; false if the file lacks the entry's data. */
static bool event_of(const struct recording *r, const struct record_entry *e, uint8_t *arena,
		     const struct vgpu_policy_ops *(*find)(const char *name),
		     struct vgpu_event *out)
{
	uint32_t row = VGPU_MAX_PARAMS * sizeof(int64_t), size;
	struct record_policy_payload p;
	const uint8_t *from;

	if (e->type >= VGPU_EV_COUNT)
		return false;
	*out = (struct vgpu_event){.now = e->now,
				   .type = (enum vgpu_event_type)e->type,
				   .vf = e->vf,
				   .code = e->code,
				   .value = e->value};
	size = record_payload_size(out, r->header.max_vfs);
	if (size == 0)
		return true;
	if (e->payload == 0 || (uint64_t)e->payload - 1 + size > r->header.payload_size)
		return false;
	from = r->payload + e->payload - 1;
	memcpy(&p, from, sizeof(p));
	p.name[sizeof(p.name) - 1] = '\0';
	from += sizeof(p);
	out->policy = find(p.name);
	if (out->type == VGPU_EV_POLICY) {
		if (!out->policy || p.slot >= RECORD_SLOTS ||
		    out->policy->memory(r->header.max_vfs) > RECORD_SLOT_SIZE)
			return false;
		out->memory = arena + ARENA_SLOTS + p.slot * RECORD_SLOT_SIZE;
		memset(out->memory, 0, RECORD_SLOT_SIZE);
		out->vf_params = (const int64_t *)(const void *)(from + row);
	}
	out->params = (const int64_t *)(const void *)from;
	return true;
}

static bool is_of_memory(const struct record_entry *e)
{
	return e->type >= RECORD_OF_MEMORY && e->type - RECORD_OF_MEMORY < VGPU_ME_COUNT;
}

/* As event_of, for the memory reducer. */
static bool memory_event_of(const struct recording *r, const struct record_entry *e,
			    struct vgpu_memory_event *out)
{
	if (!is_of_memory(e))
		return false;
	*out = (struct vgpu_memory_event){.type = e->type - RECORD_OF_MEMORY};
	if (e->payload && e->payload - 1 + sizeof(*out) > r->header.payload_size)
		return false;
	if (e->payload)
		memcpy(out, r->payload + e->payload - 1, sizeof(*out));
	out->now = e->now;
	out->type = e->type - RECORD_OF_MEMORY;
	out->vf = e->vf;
	out->code = e->code;
	out->value = e->value;
	return true;
}

/* Steps the governor by an entry. False: it is not an event of the governor. */
static bool replay_governor(const struct recording *r, const struct record_entry *entry,
			    uint8_t *arena, const struct vgpu_policy_ops *(*find)(const char *name),
			    struct replay *out, int *result)
{
	struct vgpu_governor *g = (struct vgpu_governor *)(void *)(arena + ARENA_CORE);
	static struct record_governor_event event;

	if (!record_governor_get(r, entry, arena, find, &event))
		return false;
	if (event.event.vf >= r->header.max_vfs)
		return false;
	*result = vgpu_governor_step(g, &event.event, &out->governor);
	out->decisions += out->governor.program;
	out->hash = record_governor_hash(*result, g, r->header.max_vfs, &out->governor);
	return true;
}

/* Steps the core, the governor or the memory reducer by an entry. False: the entry is damaged. */
static bool replay_entry(const struct recording *r, const struct record_entry *entry,
			 uint8_t *arena, const struct vgpu_policy_ops *(*find)(const char *name),
			 struct replay *out)
{
	struct vgpu_core *core = (struct vgpu_core *)(void *)(arena + ARENA_CORE);
	struct vgpu_memory_state *memory = (void *)(arena + ARENA_MEMORY);
	struct vgpu_memory_event of_memory;
	struct vgpu_event event;
	bool governed = r->header.governor_size > 0;
	int result = 0;
	uint32_t i;

	out->out.n_records = 0;
	if (governed && replay_governor(r, entry, arena, find, out, &result)) {
		;
	} else if (memory_event_of(r, entry, &of_memory)) {
		vgpu_memory_step(memory, &of_memory, &out->memory);
		out->hash = record_memory_hash(&out->memory);
	} else if (!governed && event_of(r, entry, arena, find, &event)) {
		result = vgpu_core_step(core, &event, &out->out);
		for (i = 0; i < out->out.n_records; i++)
			out->decisions += out->out.records[i].type == VGPU_REC_RUN;
		out->hash = record_hash(result, &out->out);
	} else {
		return false;
	}
	out->events++;
	out->entry = *entry;
	out->differs = out->hash != entry->hash || result != entry->result;
	return true;
}

/* Finds the policy that a recording names; "": none, which is right if it MAY be. */
static bool bind(const char *name, bool may,
		 const struct vgpu_policy_ops *(*find)(const char *name),
		 const struct vgpu_policy_ops **out, struct vgpu_error *err)
{
	*out = name[0] ? find(name) : NULL;
	if (*out || (!name[0] && may))
		return true;
	vgpu_error_set(err, -ENOENT, "policy %s is not available", name);
	return false;
}

static int restore(const struct recording *r, uint8_t *arena,
		   const struct vgpu_policy_ops *(*find)(const char *name), struct vgpu_error *err)
{
	const struct record_header *h = &r->header;
	const struct vgpu_policy_ops *policy, *next, *fallback;
	bool governed = h->governor_size > 0;
	struct arena_part parts[ARENA_PARTS];
	const uint8_t *from = r->image;
	uint32_t i;

	/* A governor begins without a policy, and has none to fall back to. */
	if (!bind(h->policy, governed, find, &policy, err) ||
	    !bind(h->fallback, governed, find, &fallback, err) ||
	    !bind(h->next_policy, true, find, &next, err))
		return -ENOENT;
	arena_parts(h, parts);
	for (i = 0; i < ARENA_PARTS; i++) {
		memcpy(arena + parts[i].offset, from, parts[i].size);
		from += parts[i].size;
	}
	if (governed)
		vgpu_governor_rebind((struct vgpu_governor *)(void *)(arena + ARENA_CORE), policy);
	else
		vgpu_core_rebind((struct vgpu_core *)(void *)(arena + ARENA_CORE), policy, next,
				 fallback);
	return 0;
}

int recording_replay(const struct recording *r,
		     const struct vgpu_policy_ops *(*find)(const char *name),
		     const struct replay_watch *watch, struct replay *out, struct vgpu_error *err)
{
	uint8_t *arena = arena_map(r->header.address);
	/* One clock per reducer: the core gets the time at which a command ended, the memory
	 * reducer the time at which the engine noticed. */
	uint64_t i, clocks[2] = {0, 0}, *now;
	int e;

	*out = (struct replay){.events = 0};
	if (!arena)
		return vgpu_error_set(err, -EADDRINUSE,
				      "the address of the recorded core is in use in this process");
	e = restore(r, arena, find, err);
	for (i = 0; i < r->header.n_entries && e == 0 && !out->differs; i++) {
		const struct record_entry *entry = &r->entries[i];

		out->at = i;
		now = &clocks[is_of_memory(entry)];
		if (entry->now < *now)
			e = vgpu_error_set(err, -EINVAL,
					   "event %" PRIu64 " comes %" PRIu64
					   " ns before the one that precedes it",
					   i, *now - entry->now);
		else if (!replay_entry(r, entry, arena, find, out))
			e = vgpu_error_set(err, -EINVAL,
					   "event %" PRIu64 ", of type %u, is damaged", i,
					   entry->type);
		else if (watch && !out->differs && entry->type < RECORD_OF_MEMORY)
			watch->stepped(watch->arg, out,
				       (const struct vgpu_core *)(void *)(arena + ARENA_CORE));
		*now = entry->now;
	}
	munmap(arena, ARENA_SIZE);
	return e;
}
