/* SPDX-License-Identifier: MIT */
#include "validate.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domain.h"
#include "claim.h"
#include "exit_code.h"
#include "vgpu/file.h"
#include "vgpu/param.h"

/* Reads FILE ("-": stdin); or if ELSEWHERE, or if there is no such file, the XML of the libvirt
 * domain of that name. The caller frees the text. Returns an exit code. */
static int slurp(const char *file, bool elsewhere, char **text, size_t *size)
{
	int r;

	if (elsewhere || (strcmp(file, "-") != 0 && access(file, F_OK) < 0))
		return domain_xml(file, text, size);
	if (strcmp(file, "-") == 0)
		r = vgpu_read_all(STDIN_FILENO, CLAIM_MAX_BYTES, text, size);
	else
		r = vgpu_file_read(file, CLAIM_MAX_BYTES, text, size);
	if (r == -E2BIG)
		fprintf(stderr, "vgpuctl: %s: longer than %u bytes, the most that are read\n", file,
			CLAIM_MAX_BYTES);
	else if (r < 0)
		fprintf(stderr, "vgpuctl: %s: %s\n", file, strerror(-r));
	return r == 0 ? EXIT_OK : exit_code_of(r);
}

static struct json_object *vf_json(const struct claim *claim, const struct claim_vf *s)
{
	const struct claim_hostdev *device = claim_device_of(claim, s);
	struct json_object *o = json_object_new_object(), *params = json_object_new_object();
	uint32_t i;

	json_object_object_add(o, "vf_name", json_object_new_string(s->name));
	if (s->alias[0])
		json_object_object_add(o, "alias", json_object_new_string(s->alias));
	if (device)
		json_object_object_add(o, "device", json_object_new_string(device->address));
	if (s->gpu[0])
		json_object_object_add(o, "gpu", json_object_new_string(s->gpu));
	if (s->pool[0])
		json_object_object_add(o, "pool", json_object_new_string(s->pool));
	if (s->vf >= 0)
		json_object_object_add(o, "vf", json_object_new_int(s->vf));
	if (s->profile[0])
		json_object_object_add(o, "profile", json_object_new_string(s->profile));
	if (s->memory)
		json_object_object_add(o, "memory_bytes",
				       json_object_new_int64((int64_t)s->memory));
	if (s->policy[0])
		json_object_object_add(o, "policy", json_object_new_string(s->policy));
	json_object_object_add(o, "on_hang",
			       json_object_new_string(claim_on_hang_names[s->on_hang]));
	for (i = 0; i < s->n_params; i++)
		json_object_object_add(params, s->params[i].name,
				       json_object_new_string(s->params[i].value));
	json_object_object_add(o, "params", params);
	return o;
}

static void print(const struct claim *claim)
{
	const struct claim_hostdev *device;
	const struct claim_vf *s;
	char param[80];
	uint32_t i, p;

	if (claim->n_vfs == 0)
		puts("no claim: vgpud ignores this domain");
	for (i = 0; i < claim->n_vfs; i++) {
		s = &claim->vfs[i];
		printf("VF claim %s: ", s->name);
		if (s->vf >= 0)
			printf("VF %" PRId32 " of ", s->vf);
		device = claim_device_of(claim, s);
		if (device)
			printf("the device at %s of ", device->address);
		printf("%s%s", s->gpu[0] ? s->gpu : s->pool[0] ? "pool " : "any GPU", s->pool);
		if (s->profile[0])
			printf(", profile %s", s->profile);
		if (s->memory)
			printf(", at least %" PRIu64 " bytes", s->memory);
		if (s->policy[0])
			printf(", policy %s", s->policy);
		for (p = 0; p < s->n_params; p++) {
			vgpu_param_as_claimed(s->params[p].name, s->params[p].value, param,
					      sizeof(param));
			printf(", %s", param);
		}
		if (s->on_hang != CLAIM_GO_ON)
			printf(", on a hang: %s", claim_on_hang_names[s->on_hang]);
		puts(claim->required
			     ? ""
			     : " (optional: the VM starts without it if it is not available)");
	}
}

int validate(const char *file, const char *host, bool as_json)
{
	struct json_object *o, *list;
	struct vgpu_error err;
	struct claim claim;
	size_t size = 0;
	char *text = NULL;
	uint32_t i;
	int r = slurp(file, host, &text, &size);

	if (r != EXIT_OK)
		return r;
	r = claim_parse(&claim, text, size, &err);
	free(text);
	if (r < 0) {
		fprintf(stderr, "vgpuctl: %s: %s\n", file, err.text);
		return EXIT_FAILED;
	}
	for (i = 0; i < claim.n_vfs; i++) {
		if (claim_check_device(&claim, &claim.vfs[i], &err) == 0)
			continue;
		fprintf(stderr, "vgpuctl: %s: %s/%s: %s\n", file, claim.domain, claim.vfs[i].name,
			err.text);
		r = EXIT_FAILED;
	}
	if (r != EXIT_OK)
		return r;
	if (!as_json) {
		print(&claim);
		return EXIT_OK;
	}
	o = json_object_new_object();
	list = json_object_new_array();
	json_object_object_add(o, "required", json_object_new_boolean(claim.required));
	for (i = 0; i < claim.n_vfs; i++)
		json_object_array_add(list, vf_json(&claim, &claim.vfs[i]));
	json_object_object_add(o, "vfs", list);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
	return EXIT_OK;
}
