/* SPDX-License-Identifier: MIT */
#include "needs.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "answer.h"
#include "remote.h"
#include "vfio/doctor.h"

/* Returns the DOCTOR_NEEDS_... bits of the transport of a GPU's device. */
static unsigned needs_of(const char *device)
{
	static const struct {
		const char *transport;
		unsigned needs;
	} table[] = {{"vfio-user:", DOCTOR_NEEDS_NOTHING},
		     {"null", DOCTOR_NEEDS_NOTHING},
		     {"sysfs:", DOCTOR_NEEDS_PCI | DOCTOR_NEEDS_STUB}};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strncmp(device, table[i].transport, strlen(table[i].transport)) == 0)
			return table[i].needs;
	return DOCTOR_NEEDS_PCI;
}

/* Returns the value of a line "KEY = VALUE"; NULL if LINE has another key. */
static const char *value_of(const char *line, const char *key)
{
	size_t n = strlen(key);

	return strncmp(line, key, n) == 0 && strncmp(line + n, " = ", 3) == 0 ? line + n + 3 : NULL;
}

/* Adds the needs of the configuration that was dumped as TEXT to *ALL. Returns its number of GPUs;
 * 0 if it is another vgpud's configuration. */
static size_t read_dump(char *text, const char *socket, unsigned *all)
{
	const char *value;
	char *line, *rest = NULL;
	size_t n = 0;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		value = value_of(line, "socket");
		if (value && strcmp(value, socket) != 0)
			return 0;
		value = value_of(line, "device");
		*all |= value ? needs_of(value) : 0;
		n += value != NULL;
	}
	return n;
}

struct needs needs_find(struct json_object *gpus, const char *socket)
{
	char program[] = "vgpud", option[] = "--dump-config";
	char *argv[] = {program, option, NULL}, *text;
	struct json_object *list = get(gpus, "gpus");
	struct needs out = {.all = DOCTOR_NEEDS_NOTHING};
	size_t i, n = count(list), size;
	int code;

	for (i = 0; i < n; i++)
		out.all |= needs_of(get_text(at(list, i), "device"));
	if (!gpus) {
		text = remote_output(argv, "install the package vgpud", &size, &code);
		n = text && code == 0 ? read_dump(text, socket, &out.all) : 0;
		out.mistaken = code == EX_CONFIG;
		free(text);
	}
	if (n == 0)
		out.all = DOCTOR_NEEDS_ALL;
	return out;
}
