/* SPDX-License-Identifier: MIT */
/* Queries the caller's container engines about their containers. Each call runs podman, docker or
 * nerdctl, and waits for it: vgpud itself asks none. Main thread. */
#pragma once

#include <json-c/json.h>

/* Finds the container NAME, or of that id or beginning of one, that runs: its whole id, and its
 * first process. Of several engines' of that name the one that runs is meant. Returns an exit code,
 * and says on stderr why there is none. */
int engine_find(const char *name, char id[160], int *pid);
/* Returns what all engines call their containers, an object by id of {name, image, pod}, each text
 * where it is known; the caller owns it. */
struct json_object *engine_names(void);
/* Returns podman's own list of this user's containers (podman ps -a --format json), which the
 * caller owns; NULL: podman is not there or fails. */
struct json_object *engine_podman(void);
