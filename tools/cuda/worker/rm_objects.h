/* SPDX-License-Identifier: MIT */
/*
 * The objects of the resource manager that libcuda has made in this process: subdevices, groups of
 * channels, and channels. Not thread-safe: rm.c calls these functions with its lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rm_object {
	uint32_t client, parent, handle, class;
	int fd;		    /* duplicate of the descriptor that made its client */
	uint64_t timeslice; /* group: time slice that it had before it was softened, us; else 0 */
};

enum rm_kind { RM_OTHER = 0, RM_SUBDEVICE, RM_GROUP, RM_CHANNEL };

/* Returns the kind of a class. */
enum rm_kind rm_kind(uint32_t class);
/* Adds an object of one of the three kinds, which was made through FD; the caller keeps FD open.
 * Ignores other objects. */
void rm_objects_add(int fd, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class);
/* Removes an object and all its descendants; a client is an object, too. */
void rm_objects_remove(uint32_t client, uint32_t handle);

/* Returns whether the table has the object, or a descendant of it. */
bool rm_objects_hold(uint32_t client, uint32_t handle);

/* rm_objects_count() returns the number of objects, rm_objects_at() the object number I. */
uint32_t rm_objects_count(void);
const struct rm_object *rm_objects_at(uint32_t i);
/* Stores the time slice that group I had before it was softened, us; 0: it has its own time slice
 * again. */
void rm_objects_keep_timeslice(uint32_t i, uint64_t timeslice);
/* Returns whether O, a channel, is in a group of the table. */
bool rm_objects_grouped(const struct rm_object *o);
/* Returns the device to which O, a channel or a group, belongs. */
uint32_t rm_objects_device(const struct rm_object *o);
/* Returns the subdevice of the GPU to which the channel O belongs: a client has one for each GPU
 * that it uses. NULL if it is unknown. */
const struct rm_object *rm_objects_subdevice(const struct rm_object *o);
/* Returns whether all objects are in the table. If not, some channels are unknown. */
bool rm_objects_complete(void);
