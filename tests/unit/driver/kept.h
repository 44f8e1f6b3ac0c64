/* SPDX-License-Identifier: MIT */
/* A store of descriptors for tests of a driver: it keeps duplicates, by name, for the next vgpud.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vfio/store.h"

#define KEPT_MOST 256

static struct {
	char name[96];
	int fd;
} kept[KEPT_MOST];

static int kept_at(const char *name)
{
	int i;

	for (i = 0; i < KEPT_MOST && strcmp(kept[i].name, name) != 0; i++)
		;
	return i;
}

static int store_put(const char *name, int fd)
{
	int i = kept_at("");

	snprintf(kept[i].name, sizeof(kept[i].name), "%s", name);
	kept[i].fd = dup(fd);
	return 0;
}

static int store_take(const char *name)
{
	int i = kept_at(name);

	return i < KEPT_MOST ? dup(kept[i].fd) : -ENOENT;
}

static void store_drop(const char *name)
{
	int i = kept_at(name);

	if (i == KEPT_MOST)
		return;
	close(kept[i].fd);
	kept[i].name[0] = '\0';
}

static const struct vfio_store store = {store_put, store_take, store_drop};

static void drop_all(void)
{
	int i;

	for (i = 0; i < KEPT_MOST; i++)
		if (kept[i].name[0])
			store_drop(kept[i].name);
}
