/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cuda_work.h"

bool node_list_has(const struct node_list *l, const struct node *node)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (l->nodes[i] == node)
			return true;
	return false;
}

bool node_list_add(struct node_list *l, struct node *node)
{
	struct node **more;

	if (node_list_has(l, node))
		return true;
	more = realloc(l->nodes, (l->n + 1) * sizeof(struct node *));
	if (!more)
		return false;
	l->nodes = more;
	l->nodes[l->n++] = node;
	return true;
}

void node_list_clear(struct node_list *l)
{
	free(l->nodes);
	*l = (struct node_list){0};
}

void node_list_drop(struct node_list *l, const struct node *node)
{
	uint32_t i, kept = 0;

	for (i = 0; i < l->n; i++)
		if (l->nodes[i] != node)
			l->nodes[kept++] = l->nodes[i];
	l->n = kept;
}
