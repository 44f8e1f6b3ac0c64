/* SPDX-License-Identifier: MIT */
#include "layer.h"

#include <stdlib.h>

#define REMOVED UINT64_MAX /* no driver's handle */

struct map_entry {
	uint64_t key; /* 0: never used */
	struct map_value value;
};

static size_t place(const struct map *map, uint64_t key)
{
	key ^= key >> 29;
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key >> 32) & (map->size - 1);
}

static struct map_entry *find(struct map *map, uint64_t key)
{
	size_t i;

	if (map->size == 0)
		return NULL;
	for (i = place(map, key); map->entries[i].key != 0; i = (i + 1) & (map->size - 1))
		if (map->entries[i].key == key)
			return &map->entries[i];
	return NULL;
}

static void add(struct map *map, uint64_t key, struct map_value value)
{
	size_t i = place(map, key);

	while (map->entries[i].key != 0)
		i = (i + 1) & (map->size - 1);
	map->entries[i] = (struct map_entry){key, value};
	map->used++;
	map->taken++;
}

/* Makes the table so large that at most a quarter of it is used. Returns false if out of memory. */
static bool grow(struct map *map)
{
	struct map to = {.size = 16};
	size_t i;

	while (to.size < 4 * (map->used + 1))
		to.size *= 2;
	to.entries = calloc(to.size, sizeof(*to.entries));
	if (!to.entries)
		return false;
	for (i = 0; i < map->size; i++)
		if (map->entries[i].key != 0 && map->entries[i].key != REMOVED)
			add(&to, map->entries[i].key, map->entries[i].value);
	free(map->entries);
	*map = to;
	return true;
}

struct map_value *map_get(struct map *map, uint64_t key)
{
	struct map_entry *e = find(map, key);

	return e ? &e->value : NULL;
}

bool map_put(struct map *map, uint64_t key, struct map_value value)
{
	struct map_entry *e = find(map, key);

	if (e) {
		e->value = value;
		return true;
	}
	if (2 * (map->taken + 1) > map->size && !grow(map))
		return false;
	add(map, key, value);
	return true;
}

bool map_take(struct map *map, uint64_t key, struct map_value *out)
{
	struct map_entry *e = find(map, key);

	if (!e)
		return false;
	*out = e->value;
	e->key = REMOVED;
	map->used--;
	return true;
}

uint64_t map_free(struct map *map)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < map->size; i++)
		if (map->entries[i].key != 0 && map->entries[i].key != REMOVED)
			sum += map->entries[i].value.a;
	free(map->entries);
	*map = (struct map){.entries = NULL};
	return sum;
}
