/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include "vgpu/memory.h"

/* The PF and, at its end, the context-save area; any number that is no VF's. */
#define OWNER_PF 1000u

/* Extents: PF, VFs, and what may lie between two of them and behind the last. */
#define MAX_EXTENTS (2 * VGPU_GPU_MAX_VFS + 4)

/* The GPU's memory as a table, from where its functions' partitions are. */
static void tabulate(const struct engine_snapshot *s, struct vgpu_memory *m,
		     struct vgpu_memory_extent *storage)
{
	const struct vgpu_partition *p = &s->found.partition;
	uint32_t i;

	vgpu_memory_init(m, storage, MAX_EXTENTS, s->caps.memory, s->caps.granule);
	vgpu_memory_reserve(m, OWNER_PF, p->pf.offset, p->pf.size);
	for (i = 0; i < s->n_vfs; i++) {
		vgpu_memory_reserve(m, i, p->vfs[i].offset, p->vfs[i].size);
		if (s->vfs[i].state == VGPU_VF_SCRUBBING)
			vgpu_memory_release(m, p->vfs[i].offset);
	}
}

static void put_int(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)value));
}

static void put_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

struct json_object *memory_json(struct call *call)
{
	struct vgpu_memory_extent storage[MAX_EXTENTS];
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(), *e;
	struct vgpu_memory m;
	uint32_t i;

	tabulate(&call->snapshot, &m, storage);
	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "total_bytes", m.total);
	put_int(o, "granule_bytes", m.granule);
	put_int(o, "free_bytes", vgpu_memory_in(&m, VGPU_EXTENT_FREE));
	put_int(o, "scrubbing_bytes", vgpu_memory_in(&m, VGPU_EXTENT_SCRUBBING));
	put_int(o, "largest_free_bytes", vgpu_memory_largest_free(&m));
	for (i = 0; i < m.n; i++) {
		const struct vgpu_memory_extent *x = &m.extents[i];

		e = json_object_new_object();
		put_int(e, "offset", x->offset);
		put_int(e, "bytes", x->size);
		put_text(e, "state", vgpu_extent_state_names[x->state]);
		if (x->state == VGPU_EXTENT_OWNED)
			put_text(e, "owner", x->owner == OWNER_PF ? "pf" : "vf");
		if (x->state == VGPU_EXTENT_OWNED && x->owner != OWNER_PF) {
			const struct lease *l = &call->gpu->leases[x->owner];

			put_int(e, "vf", x->owner);
			put_text(e, "domain", l->state == LEASE_NONE ? "" : l->domain);
		}
		json_object_array_add(list, e);
	}
	json_object_object_add(o, "extents", list);
	return o;
}
