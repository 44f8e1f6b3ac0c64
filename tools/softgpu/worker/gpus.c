/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"

static int is_gpu(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* Reads the line "GPU UUID:  GPU-..." of a GPU's file. */
static int read_uuid(const char *path, char *uuid, size_t size)
{
	FILE *f = fopen(path, "re");
	char line[256], *value;
	int r = -ENOENT;

	while (f && r < 0 && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "GPU UUID:", 9) != 0)
			continue;
		value = line + 9 + strspn(line + 9, " \t");
		value[strcspn(value, " \t\n")] = 0;
		/* while the GPU is not initialised its UUID consists of question marks */
		if (strncmp(value, "GPU-", 4) == 0 && !strchr(value, '?') && strlen(value) < size) {
			strcpy(uuid, value);
			r = 0;
		}
	}
	if (f)
		fclose(f);
	return r;
}

int gpus_uuid(const char *root, uint32_t index, char *uuid, size_t size)
{
	struct dirent **names = NULL;
	/* PCI addresses have a fixed length, so their order as texts is their order */
	int n = scandir(root, &names, is_gpu, alphasort), i, r = -ENOENT;
	char path[PATH_MAX];

	if (n > 0 && index < (uint32_t)n &&
	    (size_t)snprintf(path, sizeof(path), "%s/%s/information", root, names[index]->d_name) <
		    sizeof(path))
		r = read_uuid(path, uuid, size);
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}
