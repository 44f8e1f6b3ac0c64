/* SPDX-License-Identifier: MIT */
/* Finds out what the configured GPUs need on this host, for doctor. One thread. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>

struct needs {
	unsigned all;  /* DOCTOR_NEEDS_... bits of vfio/doctor.h; all bits if nothing is
			* configured */
	bool mistaken; /* the configuration is invalid */
};

/* GPUS: vgpud's answer to gpu.list; NULL if it does not answer: then the needs are those of the
 * configuration's files, as "vgpud --dump-config" reads them, if they are of a vgpud with its
 * control socket at SOCKET. */
struct needs needs_find(struct json_object *gpus, const char *socket);
