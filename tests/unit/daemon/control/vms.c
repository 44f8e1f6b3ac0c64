/* SPDX-License-Identifier: MIT */
#include "vms.h"

#include <string.h>

#include "engine/engine.h"

const char *libvirt = "here";
bool paused;

void hook(struct peer *p, const char *operation, const char *xml)
{
	char text[1400];

	snprintf(text, sizeof(text),
		 "{\"method\":\"hook\",\"args\":{\"operation\":\"%s\",\"host\":\"%s\",\"xml\":\"%"
		 "s\"}}"
		 "\n",
		 operation, libvirt, xml);
	say(p, text);
}

size_t sync_vm(const char *xml, const char *key, char address[32])
{
	char text[1400];
	struct json_object *o, *list;
	size_t n;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.sync\",\"args\":{\"as_of_ns\":%llu,\"host\":\"%s\",\"paused\":{%"
		 "s},"
		 "\"domains\":{\"%s\":\"%s\"}}}\n",
		 (unsigned long long)vgpu_now(), libvirt, paused ? "\"" VM_UUID "\":true" : "",
		 xml ? VM_UUID : NO_VM, xml ? xml : "");
	say(&one, text);
	o = hear(&one);
	list = get(get(o, "result"), key);
	CU_ASSERT_PTR_NOT_NULL_FATAL(list);
	n = json_object_array_length(list);
	address[0] = '\0';
	if (n && json_object_is_type(json_object_array_get_idx(list, 0), json_type_object))
		snprintf(address, 32, "%s",
			 json_object_get_string(
				 get(json_object_array_get_idx(list, 0), "address")));
	json_object_put(o);
	return n;
}

void begin_free_with(const char *policy)
{
	char text[80];
	uint32_t vf;

	bench_begin(policy);
	for (vf = 0; vf < QUICK_VFS; vf++) {
		snprintf(text, sizeof(text), "{\"method\":\"vf.reset\",\"args\":{\"vf\":%u}}\n",
			 vf);
		say(&one, text);
		CU_ASSERT(done(&one));
		snprintf(text, sizeof(text), "{\"method\":\"vf.show\",\"args\":{\"vf\":%u}}\n", vf);
		CU_ASSERT_FATAL(comes_to_say(&one, text, "state", "available"));
	}
}

void begin_free(void)
{
	begin_free_with("fair");
}

int64_t weight(uint32_t vf)
{
	return engine_policy(control.gpus[0].engine)->to_come.vf_params[vf][0];
}

uint32_t n_leases(void)
{
	uint32_t vf, n = 0;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		n += control.gpus[0].leases[vf].state != LEASE_NONE;
	return n;
}

void be_silent(const char *host)
{
	uint32_t i;

	for (i = 0; i < LIBVIRTS; i++)
		if (strcmp(control.reported.libvirts[i].host, host) == 0)
			control.reported.libvirts[i].heard -= 181 * VGPU_SEC;
}

bool lacks(const char *what)
{
	struct json_object *o, *vm;
	bool is;

	say(&one, "{\"method\":\"vm.list\"}\n");
	o = hear(&one);
	vm = json_object_array_get_idx(get(get(o, "result"), "vms"), 0);
	is = get(vm, "not_in_force")
		     ? strcmp(json_object_get_string(get(vm, "not_in_force")), what) == 0
		     : !what[0];
	json_object_put(o);
	return is;
}
