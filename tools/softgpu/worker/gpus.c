/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "vgpu/number.h"

static int is_gpu(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* Reads the value of the line "NAME: value" in a GPU's file. Returns 0 or -ENOENT. */
static int read_value(const char *path, const char *name, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = strlen(name);
	char line[256], *value;
	int r = -ENOENT;

	while (f && r < 0 && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, n) != 0 || line[n] != ':')
			continue;
		value = line + n + 1 + strspn(line + n + 1, " \t");
		value[strcspn(value, " \t\n")] = 0;
		if (*value && strlen(value) < size) {
			strcpy(out, value);
			r = 0;
		}
	}
	if (f)
		fclose(f);
	return r;
}

/* Reads a value of the GPU with the number INDEX. Returns 0 or -ENOENT. */
static int find_value(const char *root, uint32_t index, const char *name, char *out, size_t size)
{
	struct dirent **names = NULL;
	/* PCI addresses have a fixed length, so their order as texts is their order */
	int n = scandir(root, &names, is_gpu, alphasort), i, r = -ENOENT;
	char path[PATH_MAX];

	if (n > 0 && index < (uint32_t)n &&
	    (size_t)snprintf(path, sizeof(path), "%s/%s/information", root, names[index]->d_name) <
		    sizeof(path))
		r = read_value(path, name, out, size);
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}

int gpus_uuid(const char *root, uint32_t index, char *uuid, size_t size)
{
	int r = find_value(root, index, "GPU UUID", uuid, size);

	/* while the GPU is not initialised its UUID consists of question marks */
	if (r == 0 && (strncmp(uuid, "GPU-", 4) != 0 || strchr(uuid, '?')))
		return -ENOENT;
	return r;
}

int gpus_open(const char *root, const char *dev, uint32_t index, char *path, size_t size)
{
	uint64_t minor;
	char text[16];
	int r = find_value(root, index, "Device Minor", text, sizeof(text)), fd;

	if (r < 0)
		return r;
	if (vgpu_parse_unsigned(text, 255, &minor) < 0)
		return -ENOENT;
	snprintf(path, size, "%s/nvidia%u", dev, (unsigned)minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
