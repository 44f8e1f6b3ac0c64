/* SPDX-License-Identifier: MIT */
#include "booked.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "fit.h"
#include "vm.h"
#include "vgpu/number.h"

/* The booked amounts, in the order of placement's classes: VFs, per mille of a GPU, MiB. */
enum { VFS, SHARE, MEMORY, AMOUNTS };
static const char *const names[AMOUNTS] = {"VF", "SHARE", "MEMORY_MB"};

/* A GPU, and the booked amounts of it that no VF has got yet. */
struct part {
	uint32_t gpu;
	int64_t left[AMOUNTS];
};

struct match {
	const struct control *control;
	const struct claim *claim;
	bool incoming;
	int64_t wants[CLAIM_MAX_VFS][AMOUNTS];
	uint32_t n;
	struct part parts[CLAIM_MAX_VFS]; /* no more GPUs than VFs */
	bool may[CLAIM_MAX_VFS]
		[CLAIM_MAX_VFS]; /* VF, part: the claim allows this part for the VF */
	int32_t *on;
};

static int no_answer(struct vgpu_error *why)
{
	return vgpu_error_set(why, -EPROTO, "the answer is not what vgpud-openstack sends");
}

static int32_t gpu_named(const struct control *control, const char *name)
{
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++)
		if (strcmp(control->gpus[i].config->name, name) == 0)
			return (int32_t)i;
	return -1;
}

/* Reads the booked amounts of one GPU. */
static int read_part(struct match *m, const char *name, struct json_object *amounts,
		     struct vgpu_error *why)
{
	int32_t gpu = gpu_named(m->control, name);
	struct part part = {.gpu = (uint32_t)gpu};
	struct json_object *o;
	int i;

	if (!json_object_is_type(amounts, json_type_object))
		return no_answer(why);
	for (i = 0; i < AMOUNTS; i++) {
		if (!json_object_object_get_ex(amounts, names[i], &o))
			continue;
		part.left[i] = json_object_get_int64(o);
		if (!json_object_is_type(o, json_type_int) || part.left[i] < 0 ||
		    part.left[i] > INT32_MAX)
			return no_answer(why);
	}
	if (gpu < 0)
		return vgpu_error_set(why, -ESRCH, "%.60s is booked, and vgpud has no such GPU",
				      name);
	if (m->n == m->claim->n_vfs)
		return vgpu_error_set(why, -ESRCH, "more GPUs are booked than VFs are claimed");
	m->parts[m->n++] = part;
	return 0;
}

static int read_parts(struct match *m, const char *line, struct vgpu_error *why)
{
	struct json_object *root = json_tokener_parse(line), *gpus = NULL;
	int r = 0;

	if (!json_object_is_type(root, json_type_object) ||
	    !json_object_object_get_ex(root, "gpus", &gpus) ||
	    !json_object_is_type(gpus, json_type_object))
		r = no_answer(why);
	if (r == 0) {
		json_object_object_foreach(gpus, name, amounts)
		{
			r = r == 0 ? read_part(m, name, amounts, why) : r;
		}
	}
	json_object_put(root);
	return r;
}

/* The share that a claimed VF is guaranteed by its claim or its profile, in per mille. */
static int64_t share_of(const struct control *control, const struct claim_vf *claimed)
{
	const struct profile *p = config_profile(control->config, claimed->profile);
	int64_t ppm = 0;
	uint32_t i;

	for (i = 0; p && i < p->n_params; i++)
		if (strcmp(p->params[i].name, "min_ppm") == 0)
			vgpu_parse_int(p->params[i].value, &ppm);
	for (i = 0; i < claimed->n_params; i++)
		if (strcmp(claimed->params[i].name, "min_ppm") == 0)
			vgpu_parse_int(claimed->params[i].value, &ppm);
	return ppm / 1000;
}

/* Returns whether the claim allows its VF I to be one of PART's GPU. An incoming VM's devices have
 * addresses of another host. */
static bool may_be_on(const struct match *m, uint32_t i, const struct part *part)
{
	const struct gpu *gpu = &m->control->gpus[part->gpu];
	const struct claim_vf *claimed = &m->claim->vfs[i];

	return m->incoming && fit_device(m->claim, claimed) ? vm_may_be_of(gpu, claimed)
							    : vm_may_be_on(gpu, m->claim, claimed);
}

/* Computes the request of each VF, in the booked resources only. Returns whether the sums are
 * equal. */
static bool sums_up(struct match *m)
{
	int64_t booked, wanted;
	uint32_t i;
	int a;

	for (a = 0; a < AMOUNTS; a++) {
		for (booked = 0, i = 0; i < m->n; i++)
			booked += m->parts[i].left[a];
		for (wanted = 0, i = 0; i < m->claim->n_vfs && booked > 0; i++) {
			const struct claim_vf *claimed = &m->claim->vfs[i];

			m->wants[i][a] =
				a == VFS ? 1
				: a == SHARE
					? share_of(m->control, claimed)
					: (int64_t)(vm_memory(m->control->gpus, claimed) >> 20);
			wanted += m->wants[i][a];
		}
		if (wanted != booked)
			return false;
	}
	return true;
}

static void ask_claim(struct match *m)
{
	uint32_t i, p;

	for (i = 0; i < m->claim->n_vfs; i++)
		for (p = 0; p < m->n; p++)
			m->may[i][p] = may_be_on(m, i, &m->parts[p]);
}

/* Assigns VF I, and all after it, to GPUs with that much left. Each GPU has a VF booked, and the
 * sums are equal, so that there are at most 8! ways. */
static bool give(struct match *m, uint32_t i)
{
	struct part *part;
	uint32_t p;
	int a;

	if (i == m->claim->n_vfs)
		return true;
	for (p = 0; p < m->n; p++) {
		part = &m->parts[p];
		for (a = 0; a < AMOUNTS && part->left[a] >= m->wants[i][a]; a++)
			;
		if (a < AMOUNTS || !m->may[i][p])
			continue;
		for (a = 0; a < AMOUNTS; a++)
			part->left[a] -= m->wants[i][a];
		m->on[i] = (int32_t)part->gpu;
		if (give(m, i + 1))
			return true;
		for (a = 0; a < AMOUNTS; a++)
			part->left[a] += m->wants[i][a];
	}
	return false;
}

/* Only one GPU is booked: all VFs are on it, whatever the amounts. A flavor may book no memory, and
 * up to Nova 31 the amounts are unknown. */
static bool give_all(struct match *m)
{
	uint32_t i;

	for (i = 0; i < m->claim->n_vfs; i++) {
		if (!m->may[i][0])
			return false;
		m->on[i] = (int32_t)m->parts[0].gpu;
	}
	return true;
}

static bool every_gpu_has_a_vf(const struct match *m)
{
	uint32_t i;

	for (i = 0; i < m->n && m->parts[i].left[VFS] > 0; i++)
		;
	return i == m->n;
}

int booked_read(const struct control *control, const struct claim *claim, bool incoming,
		const char *line, int32_t on[CLAIM_MAX_VFS], struct vgpu_error *why)
{
	struct match m = {.control = control, .claim = claim, .incoming = incoming, .on = on};
	bool found;
	uint32_t i;
	int r;

	r = read_parts(&m, line, why);
	if (r == 0)
		ask_claim(&m);
	found = r == 0 &&
		(m.n == 1 ? give_all(&m)
			  : m.n > 1 && every_gpu_has_a_vf(&m) && sums_up(&m) && give(&m, 0));
	if (found)
		return 1;
	for (i = 0; i < CLAIM_MAX_VFS; i++)
		on[i] = BOOKED_ANY;
	return r == 0 && m.n > 0
		       ? vgpu_error_set(why, -ESRCH,
					"the VM's claim does not fit what is booked on %s%s",
					control->gpus[m.parts[0].gpu].config->name,
					m.n > 1 ? " and other GPUs" : "")
		       : r;
}
