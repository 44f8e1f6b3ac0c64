/* SPDX-License-Identifier: MIT */
/* drift-admin FILE: holds what Linux's own source offers in sriov_admin against tests/abi/xe-admin.
 */
#include "below.h"
#include "xe_abi.h"

struct file {
	struct kobject *kobj;
	struct attribute *attr;
	umode_t mode;
};

static struct attribute *find_attr(struct kobject *kobj, const struct attribute_group *g,
				   const char *name, umode_t *mode)
{
	int i;

	for (i = 0; g->attrs[i]; i++) {
		if (strcmp(g->attrs[i]->name, name) != 0)
			continue;
		*mode = g->is_visible ? g->is_visible(kobj, g->attrs[i], i) : g->attrs[i]->mode;
		return *mode ? g->attrs[i] : NULL;
	}
	return NULL;
}

/* Finds "vf1/profile/exec_quantum_ms", "vf1/stop" or ".bulk_profile/exec_quantum_ms". */
static int find(const char *path, struct file *out)
{
	struct kobject *root = drift_find(&drift_gpu.drm.dev->kobj, "sriov_admin");
	const struct attribute_group **g;
	char copy[128], *first, *name;

	snprintf(copy, sizeof(copy), "%s", path);
	first = copy;
	name = strchr(copy, '/');
	if (name)
		*name++ = '\0';
	out->kobj = first[0] == '.' ? root : drift_find(root, first);
	if (!out->kobj)
		return -ENOENT;
	if (!name) {
		out->mode = 0755;
		return 0;
	}
	first = first[0] == '.' ? first : strchr(name, '/') ? name : NULL;
	if (first == name) {
		name = strchr(name, '/');
		*name++ = '\0';
	}
	for (g = out->kobj->type->default_groups; *g; g++) {
		if (!(*g)->name != !first || (first && strcmp((*g)->name, first) != 0))
			continue;
		out->attr = find_attr(out->kobj, *g, name, &out->mode);
		if (out->attr)
			return 0;
	}
	return -ENOENT;
}

static int mode_of(void *data, const char *path)
{
	struct file f;
	int r = find(path, &f);

	(void)data;
	return r < 0 ? r : f.mode;
}

/* sysfs lets nobody read what has no mode for it, not even root. */
static int read_one(void *data, const char *path, char *out, size_t size)
{
	char page[PAGE_SIZE];
	struct file f;
	int r = find(path, &f);

	(void)data;
	if (r == 0 && !(f.mode & 0444))
		r = -EACCES;
	if (r == 0)
		r = (int)f.kobj->type->sysfs_ops->show(f.kobj, f.attr, page);
	if (r > 0)
		memcpy(out, page, (size_t)r < size ? (size_t)r : size);
	return r;
}

static int write_one(void *data, const char *path, const char *text, size_t size)
{
	char page[PAGE_SIZE];
	struct file f;
	ssize_t r = find(path, &f);

	(void)data;
	if (r == 0 && !(f.mode & 0222))
		r = -EACCES;
	memcpy(page, text, size);
	page[size] = '\0';
	if (r == 0)
		r = f.kobj->type->sysfs_ops->store(f.kobj, f.attr, page, size);
	return r < 0 ? (int)r : 0;
}

static int fault(void *data, const char *kind, unsigned times)
{
	(void)data;
	if (strcmp(kind, "eio") == 0)
		drift_faults.eio = times;
	else if (strcmp(kind, "partial") == 0)
		drift_faults.partial = times;
	else if (strcmp(kind, "busy") == 0)
		drift_faults.busy = times;
	else if (strcmp(kind, "wedged") == 0)
		drift_faults.wedged = times;
	else
		return -EINVAL;
	return 0;
}

int main(int argc, char **argv)
{
	static struct pci_dev pf;
	struct xe_abi abi = {.mode = mode_of, .read = read_one, .write = write_one, .fault = fault};
	unsigned int i;

	if (argc != 2)
		return 2;
	drift_gpu.drm.dev = &pf.dev;
	drift_gpu.info.tile_count = 1;
	drift_gpu.tile.xe = &drift_gpu;
	drift_gpu.tile.primary_gt = &drift_gpu.gts[0];
	for (i = 0; i < DRIFT_GTS; i++) {
		drift_gpu.gts[i].info.id = (u8)i;
		drift_gpu.gts[i].xe = &drift_gpu;
	}
	if (xe_sriov_pf_sysfs_init(&drift_gpu) != 0)
		return 1;
	return xe_abi_compare(argv[1], &abi) != 0;
}
