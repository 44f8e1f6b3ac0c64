/* SPDX-License-Identifier: MIT */
/* Asks the caller's container engines about their containers. Each call runs podman, docker or
 * nerdctl, and waits for it; vgpud itself never does. Main thread. */
#pragma once

#include <json-c/json.h>

/* Finds the running container NAME (its name, its id or the beginning of its id): writes its whole
 * id and its first process. If several engines have a container of that name, the running one is
 * meant. Returns an exit code, with the reason of a failure on stderr. */
int engine_find(const char *name, char id[160], int *pid);
/* Returns the containers of all engines, an object by id of {name, image, pod}, each text only
 * where it is known; the caller owns the object. */
struct json_object *engine_names(void);
/* Returns podman's list of this user's containers (podman ps -a --format json), which the caller
 * owns; NULL if podman is not installed, or fails. */
struct json_object *engine_podman(void);
