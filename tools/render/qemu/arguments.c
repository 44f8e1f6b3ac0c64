/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a property of the GPU must be. One that is not in the table is refused. */
enum want { ANY, ON, OFF, SET };
static const struct {
	const char *name;
	enum want want;
	const char *why;
} properties[] = {
	{"venus", ON, "guests have the GPU by Venus alone"},
	{"blob", ON, "Venus needs it"},
	{"hostmem", SET, "Venus needs it"},
	{"drm_native_context", OFF, "it computes past the gate"},
	{"id", ANY, NULL},
	{"bus", ANY, NULL},
	{"addr", ANY, NULL},
	{"multifunction", ANY, NULL},
	{"acpi-index", ANY, NULL},
	{"max_outputs", ANY, NULL},
	{"xres", ANY, NULL},
	{"yres", ANY, NULL},
	{"edid", ANY, NULL},
	{"iommu_platform", ANY, NULL},
	{"ats", ANY, NULL},
	{"packed", ANY, NULL},
};
#define PROPERTIES (sizeof(properties) / sizeof(properties[0]))

/* Devices by which a guest's programs can compute on the host, by the beginnings of their names. */
static const char *const with_venus[] = {"virtio-gpu-gl", "virtio-vga-gl", NULL};
static const char *const past_the_gate[] = {
	"vhost-user-gpu",	  "vhost-user-vga",	 "vhost-user-device",
	"vhost-user-test-device", /* any virtio device, by its number */
	"virtio-gpu-rutabaga",	  "virtio-vga-rutabaga", NULL};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool begins_any(const char *text, const char *const *list)
{
	while (*list && !begins(text, *list))
		list++;
	return *list;
}

/* Returns a device's properties, written as JSON or as NAME=VALUE, as a JSON object; NULL if they
 * cannot be parsed. */
static struct json_object *read_device(const char *text)
{
	struct json_object *o;
	char *copy, *word, *rest, *value;

	if (text[0] == '{') {
		o = json_tokener_parse(text);
		if (o && json_object_is_type(o, json_type_object))
			return o;
		json_object_put(o);
		return NULL;
	}
	/* A comma in a value is written twice; no GPU needs one. */
	if (strstr(text, ",,"))
		return strstr(text, "gpu") || strstr(text, "vga") ? NULL : json_object_new_object();
	o = json_object_new_object();
	copy = strdup(text);
	if (!copy)
		abort();
	for (word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		value = strchr(word, '=');
		if (value)
			*value++ = '\0';
		if (value)
			json_object_object_add(o, word, json_object_new_string(value));
		else if (word == copy)
			json_object_object_add(o, "driver", json_object_new_string(word));
		else
			json_object_object_add(o, word, json_object_new_string("on"));
	}
	free(copy);
	return o;
}

static const char *text_of(struct json_object *o, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(o, name, &value) ? json_object_get_string(value) : NULL;
}

static bool is_as_wanted(const char *value, enum want want)
{
	bool on = value && (strcmp(value, "on") == 0 || strcmp(value, "true") == 0 ||
			    strcmp(value, "yes") == 0 || strcmp(value, "y") == 0);
	bool off = !value || strcmp(value, "off") == 0 || strcmp(value, "false") == 0 ||
		   strcmp(value, "no") == 0 || strcmp(value, "n") == 0;

	return want == ANY || (want == ON && on) || (want == OFF && off) ||
	       (want == SET && value && strcmp(value, "0") != 0);
}

static int check_gpu(struct json_object *o, const char *driver, struct vgpu_error *err)
{
	static const char *const words[] = {[ON] = "on", [OFF] = "off", [SET] = "a size"};
	size_t i;

	json_object_object_foreach(o, name, value)
	{
		(void)value;
		for (i = 0; i < PROPERTIES && strcmp(properties[i].name, name) != 0; i++)
			;
		if (i == PROPERTIES && strcmp(name, "driver") != 0)
			return vgpu_error_set(err, -EINVAL, "-device %s: %s is not understood",
					      driver, name);
	}
	for (i = 0; i < PROPERTIES; i++)
		if (!is_as_wanted(text_of(o, properties[i].name), properties[i].want))
			return vgpu_error_set(err, -EINVAL, "-device %s: want %s=%s: %s", driver,
					      properties[i].name, words[properties[i].want],
					      properties[i].why);
	return 0;
}

static int check_device(char **value, bool *venus, struct vgpu_error *err)
{
	struct json_object *o = read_device(*value);
	const char *driver = o ? text_of(o, "driver") : NULL;
	int r = 0;

	if (!o) {
		r = vgpu_error_set(err, -EINVAL, "-device %s is not understood", *value);
	} else if (driver && begins_any(driver, past_the_gate)) {
		r = vgpu_error_set(err, -EINVAL,
				   "-device %s: this device would compute past the gate: remove it",
				   driver);
	} else if (driver && begins_any(driver, with_venus)) {
		r = *venus ? vgpu_error_set(err, -EINVAL,
					    "-device %s: a VM has only one GPU: remove one", driver)
			   : check_gpu(o, driver, err);
		*venus = true;
	}
	json_object_put(o);
	return r;
}

/* Refuses displays with which QEMU's own process renders what guests show. */
static int check_display(char **value, bool *venus, struct vgpu_error *err)
{
	(void)venus;
	if (strcmp(*value, "none") == 0 || begins(*value, "egl-headless") ||
	    begins(*value, "vnc") || begins(*value, "curses"))
		return 0;
	return vgpu_error_set(err, -EINVAL, "-display %s: want egl-headless", *value);
}

/* Refuses OpenGL for SPICE. A name alone means on, and a name after "no" means off; QEMU takes the
 * last. A comma in a value is written twice, which here makes more words than there are. */
static int check_spice(char **value, bool *venus, struct vgpu_error *err)
{
	const char *word, *end;

	(void)venus;
	for (word = *value; *word; word = *end ? end + 1 : end) {
		end = word + strcspn(word, ",");
		if ((begins(word, "gl") || begins(word, "nogl")) &&
		    (!begins(word, "gl=off") || end - word != (ptrdiff_t)strlen("gl=off")))
			return vgpu_error_set(
				err, -EINVAL,
				"-spice %s: want gl=off, and a display of the kind egl-headless",
				*value);
	}
	return 0;
}

static void replace(char **text, const char *what, const char *with)
{
	char *at = strstr(*text, what), *changed;

	if (!at)
		return;
	if (asprintf(&changed, "%.*s%s%s", (int)(at - *text), *text, with, at + strlen(what)) < 0)
		abort();
	free(*text);
	*text = changed;
}

/* Allows what the render server needs: it is another program and changes its process group.
 * no_new_privs denies what a guest could gain by that. */
static int change_sandbox(char **value, bool *venus, struct vgpu_error *err)
{
	char *text = strdup(*value);

	(void)venus;
	(void)err;
	if (!text)
		abort();
	replace(&text, "spawn=deny", "spawn=allow");
	replace(&text, "elevateprivileges=deny", "elevateprivileges=allow");
	replace(&text, "elevateprivileges=children", "elevateprivileges=allow");
	*value = text;
	return 0;
}

static int check_global(char **value, bool *venus, struct vgpu_error *err)
{
	(void)venus;
	if (!strstr(*value, "virtio-gpu") && !strstr(*value, "virtio-vga"))
		return 0;
	return vgpu_error_set(err, -EINVAL,
			      "-global %s: give the property in -device, with the device", *value);
}

static int refuse(char **value, bool *venus, struct vgpu_error *err)
{
	(void)venus;
	return vgpu_error_set(err, -EINVAL, "%s is not understood: give what it stands for",
			      value[-1]);
}

static const struct {
	const char *name;
	int (*look)(char **value, bool *venus, struct vgpu_error *err);
} options[] = {
	{"device", check_device}, {"display", check_display},
	{"spice", check_spice},	  {"sandbox", change_sandbox},
	{"global", check_global}, {"readconfig", refuse},
	{"preconfig", refuse},	  {"set", refuse},
};

/* Returns the name of the option ARGUMENT, which begins with one or two dashes; NULL if it is no
 * option. */
static const char *name_of(const char *argument)
{
	return argument[0] == '-' ? argument + (argument[1] == '-' ? 2 : 1) : NULL;
}

const char *qemu_argument(char *const *argv, const char *option)
{
	const char *name;

	for (; *argv; argv++) {
		name = name_of(*argv);
		if (name && strcmp(name, option) == 0)
			return argv[1] ? argv[1] : "";
	}
	return NULL;
}

int qemu_arguments(char **argv, bool *venus, struct vgpu_error *err)
{
	static char none[] = "";
	char *last[] = {NULL, none};
	char **all = argv;
	const char *name;
	size_t k;
	int r = 0;

	*venus = false;
	for (; *argv && r == 0; argv++) {
		name = name_of(*argv);
		if (!name)
			continue;
		for (k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
			if (strcmp(options[k].name, name) != 0)
				continue;
			last[0] = argv[0];
			r = options[k].look(argv[1] ? &argv[1] : &last[1], venus, err);
		}
	}
	/* vgpud knows the VM by the process that was started. libvirt asks a QEMU without a GPU,
	 * which it starts so, what it can do. */
	if (r == 0 && *venus && qemu_argument(all, "daemonize"))
		return vgpu_error_set(err, -EINVAL,
				      "-daemonize: remove the option: vgpud knows a VM with a GPU "
				      "by the process that was started");
	return r;
}
