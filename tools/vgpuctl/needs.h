/* SPDX-License-Identifier: MIT */
/* Finds out what the configured GPUs need on this host, for doctor. One thread. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>

struct needs {
	unsigned all; /* DOCTOR_NEEDS_... of vfio/doctor.h; all of them, if nothing is configured */
	bool mistaken; /* the configuration cannot be used */
};

/* GPUS: vgpud's answer to gpu.list; NULL: it gives none. Then the configuration's files say what it
 * would have: "vgpud --dump-config" reads them, if they are of a vgpud with its control socket at
 * SOCKET. */
struct needs needs_find(struct json_object *gpus, const char *socket);
