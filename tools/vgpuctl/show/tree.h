/* SPDX-License-Identifier: MIT */
/*
 * A host's resource providers at placement: the host's own, and those below it, of which those of
 * vgpud's GPUs are named HOST_vgpud_GPU. Objects stay the tree's. One thread.
 */
#ifndef VGPUCTL_TREE_H
#define VGPUCTL_TREE_H

#include <json-c/json.h>
#include <stddef.h>

#define TREE_INFIX "_vgpud_"

struct tree {
	const char *host;	    /* the name of its provider */
	struct json_object *own;    /* that provider */
	struct json_object *answer; /* with all of them */
};

/* Reads the tree of HOST, which must live as long, from the placement at URL. Returns an exit code:
 * EXIT_OK, or the reason is on stderr and there is nothing to free. May block for a minute. */
int tree_read(const char *url, const char *host, struct tree *out);
void tree_free(struct tree *tree);

/* How many providers it has, and number I; NULL: placement sent something else there. */
size_t tree_size(const struct tree *tree);
struct json_object *tree_at(const struct tree *tree, size_t i);
/* The GPU whose provider that is; NULL: it is no GPU's. PROVIDER may be NULL. */
const char *tree_gpu(const struct tree *tree, struct json_object *provider);
/* The provider of that GPU; NULL: there is none. */
struct json_object *tree_find(const struct tree *tree, const char *gpu);

#endif
