/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "rm_objects.h"

#define MAX_OBJECTS 1024u
/* Duplicates get numbers from here on, to stay clear of libcuda's own descriptors. */
#define FIRST_FD 64

/* Classes: a subdevice, a group of channels (KEPLER_CHANNEL_GROUP_A; later GPUs use it too), and
 * channels from Volta to Blackwell. */
static const struct {
	uint32_t class;
	enum rm_kind kind;
} classes[] = {
	{0x2080, RM_SUBDEVICE}, {0xa06c, RM_GROUP},   {0xc36f, RM_CHANNEL}, {0xc46f, RM_CHANNEL},
	{0xc56f, RM_CHANNEL},	{0xc86f, RM_CHANNEL}, {0xc96f, RM_CHANNEL}, {0xca6f, RM_CHANNEL},
};

static struct rm_object objects[MAX_OBJECTS];
static uint32_t n_objects;
static bool incomplete;

enum rm_kind rm_kind(uint32_t class)
{
	size_t i;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (classes[i].class == class)
			return classes[i].kind;
	return RM_OTHER;
}

/* Returns the duplicated descriptor of a client, or -1. */
static int file_of(uint32_t client)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == client)
			return objects[i].fd;
	return -1;
}

void rm_objects_add(int fd, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class)
{
	int file = file_of(client);

	if (rm_kind(class) == RM_OTHER)
		return;
	/* The resource manager accepts calls for a client only through the open file that made the
	 * client. One duplicate for each client is enough. */
	if (file < 0 && n_objects < MAX_OBJECTS)
		file = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	incomplete |= file < 0 || n_objects == MAX_OBJECTS;
	if (file >= 0 && n_objects < MAX_OBJECTS)
		objects[n_objects++] = (struct rm_object){
			.client = client,
			.parent = parent,
			.handle = handle,
			.class = class,
			.fd = file,
		};
}

/* Every object between a device and a channel is in the table, so an object without a child in the
 * table has no descendant in it. */
bool rm_objects_hold(uint32_t client, uint32_t handle)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == client &&
		    (objects[i].handle == handle || objects[i].parent == handle ||
		     handle == client))
			return true;
	return false;
}

static void remove_tree(uint32_t client, uint32_t handle)
{
	uint32_t i = 0;

	while (i < n_objects) {
		const struct rm_object o = objects[i];

		if (o.client != client ||
		    (o.handle != handle && o.parent != handle && handle != client)) {
			i++;
			continue;
		}
		objects[i] = objects[--n_objects];
		if (o.handle != handle) {
			remove_tree(client, o.handle);
			i = 0;
		}
	}
}

void rm_objects_remove(uint32_t client, uint32_t handle)
{
	int file = file_of(client);

	remove_tree(client, handle);
	if (file >= 0 && file_of(client) < 0)
		close(file);
}

uint32_t rm_objects_count(void)
{
	return n_objects;
}

const struct rm_object *rm_objects_at(uint32_t i)
{
	return &objects[i];
}

void rm_objects_keep_timeslice(uint32_t i, uint64_t timeslice)
{
	objects[i].timeslice = timeslice;
}

/* Returns the group of channel O; NULL: its parent is the device itself. */
static const struct rm_object *group_of(const struct rm_object *o)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == o->client && objects[i].handle == o->parent &&
		    rm_kind(objects[i].class) == RM_GROUP)
			return &objects[i];
	return NULL;
}

bool rm_objects_grouped(const struct rm_object *o)
{
	return group_of(o);
}

uint32_t rm_objects_device(const struct rm_object *o)
{
	const struct rm_object *group = group_of(o);

	return group ? group->parent : o->parent;
}

const struct rm_object *rm_objects_subdevice(const struct rm_object *o)
{
	uint32_t device = rm_objects_device(o), i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == o->client && objects[i].parent == device &&
		    rm_kind(objects[i].class) == RM_SUBDEVICE)
			return &objects[i];
	return NULL;
}

bool rm_objects_complete(void)
{
	return !incomplete;
}
