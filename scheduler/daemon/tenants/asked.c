/* SPDX-License-Identifier: MIT */
#include "asked.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "control/args.h"
#include "control/put.h"
#include "vms/lease.h"
#include "vgpu/number.h"

#define OURS "vgpud.dev/"

/* The parameters that owners may claim. Others, like prio's class, have effects that no limit
 * bounds: only root may give them, by a profile. */
static const char *const free_params[] = {"weight",    "min_ppm",   "max_ppm", "latency_slice_us",
					  "period_ms", "burst_ms",  "fps",     "frame_us",
					  "budget_us", "period_us", NULL};

static bool is_free_param(const char *name)
{
	size_t i;

	for (i = 0; free_params[i]; i++)
		if (strcmp(free_params[i], name) == 0)
			return true;
	return false;
}

int asked_param(struct claim_vf *claimed, const char *name, const char *value, bool root,
		struct vgpu_error *err)
{
	bool in_percent = strcmp(name, "min") == 0 || strcmp(name, "max") == 0;
	struct claim_param p = {.written_in = in_percent ? CLAIM_PERCENT : CLAIM_UNIT_OWN};
	size_t n = strlen(value);
	int64_t ppm;
	char text[16];
	uint32_t i;

	if (n >= sizeof(p.value) || strlen(name) + 4 >= sizeof(p.name))
		return vgpu_error_set(err, -EINVAL, "%.32s: it, or its value, is too long", name);
	if (in_percent) {
		snprintf(text, sizeof(text), "%.*s", n ? (int)n - 1 : 0, value);
		if (n < 2 || n > sizeof(text) || value[n - 1] != '%' ||
		    vgpu_parse_percent(text, &ppm) < 0)
			return vgpu_error_set(err, -EINVAL,
					      "%s = %s: want a part of the GPU's time, like 30%%",
					      name, value);
		snprintf(p.name, sizeof(p.name), "%s_ppm", name);
		snprintf(p.value, sizeof(p.value), "%" PRId64, ppm);
	} else {
		snprintf(p.name, sizeof(p.name), "%s", name);
		snprintf(p.value, sizeof(p.value), "%s", value);
	}
	if (!root && !is_free_param(p.name))
		return vgpu_error_set(err, -EINVAL, "%s: only root gives this, by a [profile NAME]",
				      name);
	for (i = 0; i < claimed->n_params && strcmp(claimed->params[i].name, p.name) != 0; i++)
		;
	if (i == CLAIM_MAX_PARAMS)
		return vgpu_error_set(err, -EINVAL, "more than %u parameters", CLAIM_MAX_PARAMS);
	claimed->params[i] = p;
	claimed->n_params += i == claimed->n_params;
	return 0;
}

void asked_name(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; from[i] && i + 1 < size; i++)
		to[i] = from[i] > ' ' && from[i] < 0x7f && !strchr("\"'\\<>&`$%;|", from[i])
				? from[i]
				: '_';
	to[i] = '\0';
}

/* A size with its unit: a plain number means MiB in one system and GiB in another. */
static int read_memory(struct claim_vf *claimed, const char *text, struct vgpu_error *err)
{
	size_t n = strcspn(text, "MG");
	char short_form[24];

	snprintf(short_form, sizeof(short_form), "%.*s%c", (int)(n < 20 ? n : 20), text, text[n]);
	if (!text[n] || (strcmp(text + n + 1, "i") != 0 && strcmp(text + n + 1, "iB") != 0) ||
	    vgpu_parse_size(short_form, INT64_MAX, &claimed->memory) < 0)
		return vgpu_error_set(err, -EINVAL,
				      OURS "memory: %s: want a size with its unit, like 2Gi or "
					   "512Mi",
				      text);
	return 0;
}

/* Texts of a fixed size, by annotation and by argument. */
static int read_text(char *to, size_t size, const char *what, const char *text,
		     struct vgpu_error *err)
{
	if (strlen(text) >= size)
		return vgpu_error_set(err, -EINVAL, "%s: longer than %zu characters", what,
				      size - 1);
	strcpy(to, text);
	return 0;
}

static int read_annotation(struct claim *claim, const char *name, const char *text, bool root,
			   struct vgpu_error *err)
{
	static const struct {
		const char *name, *param;
	} params[] = {{"share", "min"}, {"limit", "max"}, {"weight", "weight"}, {NULL, NULL}};
	struct claim_vf *claimed = &claim->vfs[0];
	size_t i;
	int r;

	if (strcmp(name, "gpu") == 0)
		return read_text(claimed->gpu, sizeof(claimed->gpu), OURS "gpu", text, err);
	if (strcmp(name, "profile") == 0)
		return read_text(claimed->profile, sizeof(claimed->profile), OURS "profile", text,
				 err);
	if (strcmp(name, "memory") == 0)
		return read_memory(claimed, text, err);
	if (strcmp(name, "name") == 0) {
		asked_name(claim->domain, 101, text);
		return 0;
	}
	if (strcmp(name, "lease") == 0)
		return 0; /* asked_lease() */
	for (i = 0; params[i].name; i++)
		if (strcmp(name, params[i].name) == 0) {
			r = asked_param(claimed, params[i].param, text, root, err);
			return r < 0 ? vgpu_error_prefix(err, r, OURS "%s", name) : 0;
		}
	return vgpu_error_set(err, -EINVAL,
			      OURS "%.40s: there is no such annotation; want gpu, profile, memory, "
				   "share, limit, weight or name",
			      name);
}

static struct json_object *container_of(const struct call *call)
{
	return json_object_object_get(call->args, "container");
}

static int read_annotations(const struct call *call, struct claim *claim, bool root,
			    struct vgpu_error *err)
{
	struct json_object *all = json_object_object_get(container_of(call), "annotations");
	int r = 0;

	if (!all)
		return 0;
	if (!json_object_is_type(all, json_type_object))
		return vgpu_error_set(err, -EINVAL, "annotations: want an object");
	json_object_object_foreach(all, name,
				   value) if (r == 0 && strncmp(name, OURS, strlen(OURS)) == 0) r =
		read_annotation(claim, name + strlen(OURS), json_object_get_string(value) ?: "",
				root, err);
	return r;
}

const char *asked_lease(const struct call *call)
{
	struct json_object *all = json_object_object_get(container_of(call), "annotations");

	return json_object_get_string(json_object_object_get(all, OURS "lease"));
}

struct json_object *asked_engine_names(struct json_object *names)
{
	static const char *const kept[] = {"image", "pod", "namespace"};
	struct json_object *out = NULL;
	const char *from;
	char text[200];
	size_t i;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		from = json_object_get_string(json_object_object_get(names, kept[i]));
		if (!from || !*from)
			continue;
		asked_name(text, sizeof(text), from);
		if (!out)
			out = json_object_new_object();
		put_text(out, kept[i], text);
	}
	return out;
}

bool asked_true(const struct call *call, const char *what)
{
	return json_object_get_boolean(json_object_object_get(container_of(call), what));
}

struct json_object *asked_names(const struct call *call)
{
	return json_object_object_get(container_of(call), "names");
}

static int read_params(const struct call *call, struct claim_vf *claimed, bool root,
		       struct vgpu_error *err)
{
	struct json_object *params;
	int r = 0;

	if (!json_object_object_get_ex(call->args, "params", &params))
		return 0;
	json_object_object_foreach(params, name, value) if (r == 0) r =
		asked_param(claimed, name, json_object_get_string(value) ?: "", root, err);
	return r;
}

/* A container's id is the name of its lease for its owner, and may be part of paths and scopes. */
static int read_id(const struct call *call, struct claim *claim, struct vgpu_error *err)
{
	const char *id = json_object_get_string(json_object_object_get(container_of(call), "id"));
	const char *name =
		json_object_get_string(json_object_object_get(asked_names(call), "name"));
	size_t n = id ? strlen(id) : 0;

	if (n == 0 || n >= sizeof(claim->id) || id[0] == '.' ||
	    strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != n)
		return vgpu_error_set(err, -EINVAL,
				      "container: id: want 1 to %zu letters, digits or _.-",
				      sizeof(claim->id) - 1);
	strcpy(claim->id, id);
	if (name && *name)
		asked_name(claim->domain, 101, name);
	else
		snprintf(claim->domain, sizeof(claim->domain), "%.12s", id);
	return 0;
}

static int name_lease(struct claim *claim, struct vgpu_error *err)
{
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return vgpu_error_set(err, -EIO, "no random number for the lease's name");
	snprintf(claim->uuid, sizeof(claim->uuid),
		 "%02x%02x%02x%02x-%02x%02x-4%01x%02x-a%01x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6] & 15, b[7], b[8] & 15, b[9], b[10], b[11],
		 b[12], b[13], b[14], b[15]);
	return 0;
}

int asked_read(const struct call *call, uint32_t pid, uid_t owner, struct claim *claim,
	       struct vgpu_error *err)
{
	const char *gpu = call_text(call, "gpu"), *profile = call_text(call, "profile"),
		   *name = call_text(call, "name");
	struct claim_vf *claimed = &claim->vfs[0];
	char plain[101];
	int r = name_lease(claim, err);

	claim->by = container_of(call) ? CLAIM_BY_CONTAINER : CLAIM_BY_PROGRAM;
	claim->owner = owner;
	claim->required = true;
	claim->n_vfs = 1;
	snprintf(claim->host, sizeof(claim->host), LEASE_OF_TENANTS);
	snprintf(claimed->name, sizeof(claimed->name), "gpu");
	claimed->vf = -1;
	claimed->hostdev = -1;
	asked_name(plain, sizeof(plain), name ? name : "program");
	if (claim->by == CLAIM_BY_PROGRAM)
		snprintf(claim->domain, sizeof(claim->domain), "%s[%" PRIu32 "]", plain, pid);
	else
		r = r < 0 ? r : read_id(call, claim, err);
	if (r == 0)
		r = read_annotations(call, claim, owner == 0, err);
	if (r == 0 && claim->by == CLAIM_BY_CONTAINER && name)
		snprintf(claim->domain, sizeof(claim->domain), "%s", plain);
	if (r == 0 && gpu)
		r = read_text(claimed->gpu, sizeof(claimed->gpu), "gpu", gpu, err);
	if (r == 0 && profile)
		r = read_text(claimed->profile, sizeof(claimed->profile), "profile", profile, err);
	if (r == 0)
		claimed->memory =
			(uint64_t)call_int(call, "memory_bytes", (int64_t)claimed->memory);
	return r < 0 ? r : read_params(call, claimed, owner == 0, err);
}
