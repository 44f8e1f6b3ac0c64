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
	int fd; /* a duplicate of the descriptor that made its client */
	uint64_t
		timeslice; /* of a group that was softened: what it had before, us; 0: it was not */
};

enum rm_kind { RM_OTHER = 0, RM_SUBDEVICE, RM_GROUP, RM_CHANNEL };

/* What a class is. */
enum rm_kind rm_kind(uint32_t class);
/* Adds an object of one of the three kinds, made through FD, which stays the caller's. Others are
 * left out. */
void rm_objects_add(int fd, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class);
/* Removes an object and all its descendants; a client is an object, too. */
void rm_objects_remove(uint32_t client, uint32_t handle);

/* Returns whether the table has the object, or a descendant of it. */
bool rm_objects_hold(uint32_t client, uint32_t handle);

/* The number of objects, and the object with the number I. */
uint32_t rm_objects_count(void);
const struct rm_object *rm_objects_at(uint32_t i);
/* Notes the time slice that group I had before, us; 0: it has that again. */
void rm_objects_keep_timeslice(uint32_t i, uint64_t timeslice);
/* Returns whether O, a channel, is in a group of the table. */
bool rm_objects_grouped(const struct rm_object *o);
/* The device that O, a channel or a group, belongs to. */
uint32_t rm_objects_device(const struct rm_object *o);
/* The subdevice of the GPU that O, a channel, belongs to: a client has one for each GPU that it
 * uses. NULL: it is not known. */
const struct rm_object *rm_objects_subdevice(const struct rm_object *o);
/* Returns whether all objects are in the table. If not, some channels are not known. */
bool rm_objects_complete(void);
