/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "domain.h"
#include "vfio/doctor.h"

#define LIBVIRT "/etc/libvirt"
#define HOOK LIBVIRT "/hooks/qemu.d/50-vgpud"
#define HOOK_NAME "libvirt's hook"

struct round {
	struct json_object *list; /* NULL: print each finding */
	bool colour, well;
};

static void finding(void *data, enum doctor_verdict verdict, const char *subject, const char *text,
		    const char *cure)
{
	static const char *const words[] = {"ok", "note", "bad"}, *const colours[] = {"32", "33",
										      "31"};
	struct round *r = data;
	struct json_object *o;

	r->well = r->well && verdict != DOCTOR_BAD;
	if (!r->list) {
		printf(r->colour ? "\033[%sm%-4s\033[0m  " : "%.0s%-4s  ", colours[verdict],
		       words[verdict]);
		printf("%-17s %s\n", subject, text);
		if (*cure)
			printf("%25s-> %s\n", "", cure);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "verdict", json_object_new_string(words[verdict]));
	json_object_object_add(o, "subject", json_object_new_string(subject));
	json_object_object_add(o, "finding", json_object_new_string(text));
	json_object_object_add(o, "cure", json_object_new_string(cure));
	json_object_array_add(r->list, o);
}

/* Whether libvirt calls the hook: vgpud-libvirt finds out (see its probe.c). */
static void probe_hook(struct round *r)
{
	char unused[] = "", verb[] = "probe-hook";
	char *argv[] = {unused, verb, NULL}, *text;
	size_t size = 0;
	int status;

	text = domain_output(argv, &size, &status);
	if (text)
		text[strcspn(text, "\n")] = '\0';
	if (status == 0)
		finding(r, DOCTOR_OK, HOOK_NAME, text, "");
	else if (status == 1)
		finding(r, DOCTOR_BAD, HOOK_NAME,
			"libvirt does not call it: VMs start without their VFs",
			"systemctl reload libvirtd, or virtqemud");
	else
		finding(r, DOCTOR_NOTE, HOOK_NAME, "whether libvirt calls it cannot be told",
			text && *text ? text : "vgpud-libvirt cannot be run");
	free(text);
}

/* libvirt runs every executable file in hooks/qemu.d; ours is a symlink to /usr/sbin/vgpud-hook. */
static void check_hook(struct round *r)
{
	if (access(LIBVIRT, F_OK) < 0)
		finding(r, DOCTOR_NOTE, "libvirt",
			"libvirt is not installed; only programs can use VFs", "");
	else if (access(HOOK, X_OK) < 0)
		finding(r, DOCTOR_NOTE, HOOK_NAME,
			"not installed: vgpud is not consulted when a VM starts",
			"ln -s /usr/sbin/vgpud-hook " HOOK ", and reload libvirtd");
	else
		probe_hook(r);
}

bool doctor(bool as_json, bool colour)
{
	struct round r = {as_json ? json_object_new_array() : NULL, colour, true};

	vfio_doctor(finding, &r);
	check_hook(&r);
	if (as_json)
		puts(json_object_to_json_string_ext(r.list, JSON_C_TO_STRING_PRETTY));
	json_object_put(r.list);
	return r.well;
}
