/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

void scenario_init(struct scenario *s, uint32_t n_vfs)
{
	*s = (struct scenario){
		.n_vfs = n_vfs,
		.n_gpus = 1,
		.policy = "fair",
		.seed = 1,
		.until = 10 * VGPU_SEC,
		.min_slice = 500 * VGPU_USEC,
		.governed = {.step = VGPU_MSEC,
			     .stop = 16 * VGPU_MSEC,
			     .epoch = 500 * VGPU_MSEC,
			     .rotation = 100 * VGPU_MSEC,
			     .turn = 16 * VGPU_MSEC,
			     .slack = 3500 * VGPU_USEC,
			     .settle = 500 * VGPU_MSEC,
			     .tolerance_ppm = 10000},
		.vfs = calloc(n_vfs, sizeof(struct scenario_vf)),
	};
}

void scenario_free(struct scenario *s)
{
	uint32_t i;

	for (i = 0; s->vfs && i < s->n_vfs; i++)
		free(s->vfs[i].items);
	free(s->vfs);
	free(s->ops);
	s->vfs = NULL;
	s->ops = NULL;
}

static void *copy_of(const void *from, size_t n, size_t size)
{
	void *to = calloc(n ? n : 1, size);

	if (n)
		memcpy(to, from, n * size);
	return to;
}

void scenario_copy(struct scenario *to, const struct scenario *from)
{
	uint32_t i;

	*to = *from;
	to->vfs = copy_of(from->vfs, from->n_vfs, sizeof(*from->vfs));
	for (i = 0; i < from->n_vfs; i++) {
		to->vfs[i].items = copy_of(from->vfs[i].items, from->vfs[i].n_items,
					   sizeof(struct scenario_item));
		to->vfs[i].max_items = from->vfs[i].n_items;
	}
	to->ops = copy_of(from->ops, from->n_ops, sizeof(*from->ops));
	to->max_ops = from->n_ops;
}

static void *grow(void *array, size_t n, size_t *max, size_t size)
{
	if (n < *max)
		return array;
	*max = n ? 2 * n : 8;
	return realloc(array, *max * size);
}

struct scenario_item *scenario_add_item(struct scenario_vf *vf)
{
	vf->items = grow(vf->items, vf->n_items, &vf->max_items, sizeof(*vf->items));
	vf->items[vf->n_items] = (struct scenario_item){.t = 0};
	return &vf->items[vf->n_items++];
}

struct scenario_op *scenario_add_op(struct scenario *s)
{
	s->ops = grow(s->ops, s->n_ops, &s->max_ops, sizeof(*s->ops));
	s->ops[s->n_ops] = (struct scenario_op){.t = 0};
	return &s->ops[s->n_ops++];
}

bool settings_set(struct settings *s, const char *name, const char *value)
{
	uint32_t i;

	if (strlen(name) >= sizeof(s->list[0].name) || strlen(value) >= sizeof(s->list[0].value))
		return false;
	for (i = 0; i < s->n && strcmp(s->list[i].name, name) != 0; i++)
		;
	if (i == SCENARIO_MAX_SETTINGS)
		return false;
	if (i == s->n)
		s->n++;
	strcpy(s->list[i].name, name);
	strcpy(s->list[i].value, value);
	return true;
}

int settings_apply(const struct settings *s, const struct vgpu_param *table, bool strict,
		   int64_t *values, struct vgpu_error *err)
{
	uint32_t i, k;
	int r;

	for (i = 0; i < s->n; i++) {
		for (k = 0; table[k].name && strcmp(table[k].name, s->list[i].name) != 0; k++)
			;
		if (!table[k].name && !strict)
			continue;
		r = vgpu_param_set(table, s->list[i].name, s->list[i].value, values, err);
		if (r < 0)
			return r;
	}
	return 0;
}
