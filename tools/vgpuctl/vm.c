/* SPDX-License-Identifier: MIT */
#include "vm.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "table.h"
#include "vgpu/names.h"
#include "view.h"

/* Returns whether an element of vm.list is a VM that runs without its reserved VF. */
static bool vm_lacks_device(struct json_object *vm)
{
	return get(vm, "attached") && !get_bool(vm, "attached") &&
	       strcmp(get_text(vm, "state"), "running") == 0;
}

void view_vm_list(struct json_object *o)
{
	static const char *const heads[] = {"VM", "CLAIM", "GPU", ">VF", "STATE", "?UUID", NULL};
	struct json_object *list = get(o, "vms"), *vm;
	struct table *t = table_new(heads);
	size_t i;

	for (i = 0; i < count(list); i++) {
		vm = at(list, i);
		cell(t, "%s", get_text(vm, "domain"));
		cell(t, "%s", get_text(vm, "vf_name"));
		cell(t, "%s", get_text(vm, "gpu"));
		cell(t, "%" PRId64, get_int(vm, "vf"));
		cell(t, "%s%s%s", get_text(vm, "state"),
		     vm_lacks_device(vm) ? ", not attached" : "",
		     get(vm, "gpu_lost") ? ", GPU lost" : "");
		cell(t, "%s", get_text(vm, "uuid"));
	}
	table_print(t);
	for (i = 0; i < count(list); i++) {
		vm = at(list, i);
		if (get(vm, "refused"))
			table_say("%s/%s: the changed claim was refused: %s",
				  get_text(vm, "domain"), get_text(vm, "vf_name"),
				  get_text(vm, "refused"));
		if (get(vm, "not_in_force"))
			printf("%s/%s: not in force: %s: policy %s does not have it\n",
			       get_text(vm, "domain"), get_text(vm, "vf_name"),
			       get_text(vm, "not_in_force"), get_text(vm, "policy"));
	}
	list = get(o, "unreadable");
	for (i = 0; i < count(list); i++)
		table_say("%s: the claim cannot be read: %s", get_text(at(list, i), "domain"),
			  get_text(at(list, i), "why"));
}

void view_vm_explain(struct json_object *o)
{
	struct json_object *list = get(o, "vfs"), *vf;
	size_t i;

	if (count(list) == 0)
		printf("%s claims no VF and has none\n", get_text(o, "domain"));
	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		printf("%s/%s: %s: %s\n", get_text(o, "domain"), get_text(vf, "vf_name"),
		       get_text(vf, "state"), get_text(vf, "text"));
	}
}

/* Adds vgpud's answer about a VM's VF to LIST. */
static int add_vf(struct session *s, struct json_object *vm, struct json_object *list)
{
	struct json_object *args = json_object_new_object(), *vf;
	int r;

	json_object_object_add(args, "gpu", json_object_get(get(vm, "gpu")));
	json_object_object_add(args, "vf", json_object_get(get(vm, "vf")));
	r = session_call(s, "vf.show", args, &vf);
	if (r != EXIT_OK)
		return r;
	json_object_object_add(vf, "gpu", json_object_get(get(vm, "gpu")));
	json_object_object_add(vf, "vf_name", json_object_get(get(vm, "vf_name")));
	json_object_object_add(vf, "on_hang", json_object_get(get(vm, "on_hang")));
	json_object_array_add(list, vf);
	return EXIT_OK;
}

int vm_show(struct session *s, const char *name)
{
	struct json_object *answer = NULL, *list, *vm, *o, *vfs;
	int r = session_call(s, "vm.list", NULL, &answer);
	char uuid[VGPU_UUID_SIZE] = "";
	size_t i;

	if (r != EXIT_OK)
		return r;
	vgpu_uuid_normal(name, uuid);
	o = json_object_new_object();
	vfs = json_object_new_array();
	list = get(answer, "vms");
	for (i = 0; i < count(list) && r == EXIT_OK; i++) {
		vm = at(list, i);
		if (strcmp(get_text(vm, "domain"), name) != 0 &&
		    strcmp(get_text(vm, "uuid"), uuid) != 0)
			continue;
		json_object_object_add(o, "domain", json_object_get(get(vm, "domain")));
		json_object_object_add(o, "uuid", json_object_get(get(vm, "uuid")));
		r = add_vf(s, vm, vfs);
	}
	if (r == EXIT_OK && count(vfs) == 0) {
		fprintf(stderr,
			"vgpuctl: %s: no VM of that name has a VF; 'vgpuctl vm list' shows "
			"those that have, 'vgpuctl vm explain' says why not\n",
			name);
		r = EXIT_NOT_FOUND;
	}
	json_object_object_add(o, "vfs", vfs);
	if (r == EXIT_OK && s->options->json)
		print_json(o);
	for (i = 0; r == EXIT_OK && !s->options->json && i < count(vfs); i++) {
		printf("%s%s %s, VF %" PRId64 " of %s\n", i ? "\n" : "", get_text(o, "domain"),
		       get_text(o, "uuid"), get_int(at(vfs, i), "vf"), get_text(at(vfs, i), "gpu"));
		view_vf_show(at(vfs, i));
	}
	json_object_put(o);
	json_object_put(answer);
	return r;
}
