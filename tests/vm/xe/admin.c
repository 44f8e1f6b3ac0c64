// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The folder sriov_admin of the PF: names, modes, what is read and which writes are refused, as in
 * Linux 7.3 (drivers/gpu/drm/xe/xe_sriov_pf_sysfs.c, and its description in Documentation/ABI).
 */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "lab_xe.h"

struct lab_kobj {
	struct kobject base;
	struct lab_xe *x;
	unsigned int function;
};

/* A file of all functions (FUNCTION has no meaning), or of one. */
struct lab_attr {
	struct attribute attr;
	ssize_t (*show)(struct lab_xe *x, unsigned int function, char *buf);
	int (*store)(struct lab_xe *x, unsigned int function, const char *buf);
};

static const char *const priorities[LAB_PRIORITIES] = {"low", "normal", "high"};

static unsigned int admin_fails;
module_param(admin_fails, uint, 0444);
MODULE_PARM_DESC(admin_fails, "the number of the step in making sriov_admin that fails; 0: none");

static struct lab_kobj *lab_kobj_of(struct kobject *kobj)
{
	return container_of(kobj, struct lab_kobj, base);
}

/* Only the PF may have priority high. */
static int priorities_of(unsigned int function)
{
	return function == 0 ? LAB_PRIORITIES : LAB_PRIORITIES - 1;
}

static ssize_t show_setting(struct lab_xe *x, unsigned int function, enum lab_setting s, char *buf)
{
	u32 value;
	int r = lab_get(x, function, s, &value);

	return r ? r : sysfs_emit(buf, "%u\n", value);
}

static ssize_t show_quantum(struct lab_xe *x, unsigned int function, char *buf)
{
	return show_setting(x, function, LAB_QUANTUM, buf);
}

static ssize_t show_timeout(struct lab_xe *x, unsigned int function, char *buf)
{
	return show_setting(x, function, LAB_TIMEOUT, buf);
}

static ssize_t show_priority(struct lab_xe *x, unsigned int function, char *buf)
{
	u32 value;
	int r = lab_get_priority(x, function, &value), i, n = 0;

	if (r)
		return r;
	for (i = 0; i < priorities_of(function); i++)
		n += sysfs_emit_at(buf, n, value == i ? "%s[%s]" : "%s%s", i ? " " : "",
				   priorities[i]);
	return n + sysfs_emit_at(buf, n, "\n");
}

static ssize_t show_vram(struct lab_xe *x, unsigned int function, char *buf)
{
	return sysfs_emit(buf, "%llu\n", lab_get_vram(x, function));
}

static int store_setting(struct lab_xe *x, unsigned int first, unsigned int last,
			 enum lab_setting s, const char *buf)
{
	u32 value;
	int r = kstrtou32(buf, 0, &value);

	return r ? r : lab_set(x, first, last, s, value);
}

static int store_quantum(struct lab_xe *x, unsigned int function, const char *buf)
{
	return store_setting(x, function, function, LAB_QUANTUM, buf);
}

static int store_timeout(struct lab_xe *x, unsigned int function, const char *buf)
{
	return store_setting(x, function, function, LAB_TIMEOUT, buf);
}

static int store_priority(struct lab_xe *x, unsigned int function, const char *buf)
{
	int value;

	if (function)
		return -EOPNOTSUPP;
	value = __sysfs_match_string(priorities, priorities_of(function), buf);
	return value < 0 ? -EINVAL : lab_set_priority(x, function, value);
}

static int store_vram(struct lab_xe *x, unsigned int function, const char *buf)
{
	u64 value;
	int r = kstrtou64(buf, 0, &value);

	return r ? r : lab_set_vram(x, function, function, value);
}

static int store_stop(struct lab_xe *x, unsigned int function, const char *buf)
{
	bool yes;
	int r = kstrtobool(buf, &yes);

	return r || !yes ? r : lab_stop(x, function);
}

static int store_all_quantum(struct lab_xe *x, unsigned int function, const char *buf)
{
	return store_setting(x, 0, lab_last(x), LAB_QUANTUM, buf);
}

static int store_all_timeout(struct lab_xe *x, unsigned int function, const char *buf)
{
	return store_setting(x, 0, lab_last(x), LAB_TIMEOUT, buf);
}

static int store_all_priority(struct lab_xe *x, unsigned int function, const char *buf)
{
	int value = __sysfs_match_string(priorities, LAB_PRIORITIES - 1, buf);

	return value < 0 ? -EINVAL : lab_set_priorities(x, value);
}

static int store_all_vram(struct lab_xe *x, unsigned int function, const char *buf)
{
	u64 value;
	int r = kstrtou64(buf, 0, &value);

	return r ? r : lab_set_vram(x, 1, lab_last(x), value);
}

#define LAB_ATTR(variable, file, file_mode, shows, stores)                                         \
	static struct lab_attr variable = {.attr = {.name = file, .mode = file_mode},              \
					   .show = shows,                                          \
					   .store = stores}

LAB_ATTR(quantum, "exec_quantum_ms", 0644, show_quantum, store_quantum);
LAB_ATTR(timeout, "preempt_timeout_us", 0644, show_timeout, store_timeout);
LAB_ATTR(priority, "sched_priority", 0644, show_priority, store_priority);
LAB_ATTR(vram, "vram_quota", 0644, show_vram, store_vram);
LAB_ATTR(stop, "stop", 0200, NULL, store_stop);
LAB_ATTR(all_quantum, "exec_quantum_ms", 0200, NULL, store_all_quantum);
LAB_ATTR(all_timeout, "preempt_timeout_us", 0200, NULL, store_all_timeout);
LAB_ATTR(all_priority, "sched_priority", 0200, NULL, store_all_priority);
LAB_ATTR(all_vram, "vram_quota", 0200, NULL, store_all_vram);

static struct attribute *profile_attrs[] = {&quantum.attr, &timeout.attr, &priority.attr,
					    &vram.attr, NULL};
static struct attribute *control_attrs[] = {&stop.attr, NULL};
static struct attribute *bulk_attrs[] = {&all_quantum.attr, &all_timeout.attr, &all_priority.attr,
					 &all_vram.attr, NULL};

static umode_t visible(struct kobject *kobj, struct attribute *attr, int index)
{
	struct lab_kobj *k = lab_kobj_of(kobj);

	if (attr == &vram.attr && (k->function == 0 || k->x->version < LAB_7_0))
		return 0;
	if (attr == &all_vram.attr && k->x->version < LAB_7_0)
		return 0;
	if (attr == &stop.attr && k->function == 0)
		return 0;
	/* The firmware changes the priority of all VFs together. */
	if (attr == &priority.attr && k->function)
		return attr->mode & 0444;
	return attr->mode;
}

static const struct attribute_group profile_group = {.name = "profile",
						     .attrs = profile_attrs,
						     .is_visible = visible};
static const struct attribute_group control_group = {.attrs = control_attrs, .is_visible = visible};
static const struct attribute_group bulk_group = {.name = ".bulk_profile",
						  .attrs = bulk_attrs,
						  .is_visible = visible};
static const struct attribute_group *function_groups[] = {&profile_group, &control_group, NULL};
static const struct attribute_group *root_groups[] = {&bulk_group, NULL};

static ssize_t show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct lab_attr *a = container_of(attr, struct lab_attr, attr);
	struct lab_kobj *k = lab_kobj_of(kobj);

	return a->show ? a->show(k->x, k->function, buf) : -EPERM;
}

static ssize_t store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct lab_attr *a = container_of(attr, struct lab_attr, attr);
	struct lab_kobj *k = lab_kobj_of(kobj);
	int r;

	if (!a->store)
		return -EPERM;
	atomic_inc(&k->x->faults.stores);
	r = lab_wait_ready(k->x);
	if (r == 0)
		r = a->store(k->x, k->function, buf);
	return r ? r : count;
}

static void release(struct kobject *kobj)
{
	kfree(lab_kobj_of(kobj));
}

static const struct sysfs_ops ops = {.show = show, .store = store};
static struct kobj_type function_type = {.release = release,
					 .sysfs_ops = &ops,
					 .default_groups = function_groups};
static struct kobj_type root_type = {.release = release,
				     .sysfs_ops = &ops,
				     .default_groups = root_groups};

/* Returns the error of the step that fails, of those in which the files are made. */
static int fail(void)
{
	return admin_fails && --admin_fails == 0 ? -ENOMEM : 0;
}

static struct kobject *add(struct lab_xe *x, unsigned int function, struct kobj_type *type,
			   struct kobject *parent, const char *name)
{
	struct lab_kobj *k = kzalloc(sizeof(*k), GFP_KERNEL);
	int r;

	if (!k)
		return ERR_PTR(-ENOMEM);
	k->x = x;
	k->function = function;
	r = kobject_init_and_add(&k->base, type, parent, "%s", name);
	if (r == 0)
		r = fail();
	if (r) {
		kobject_put(&k->base);
		return ERR_PTR(r);
	}
	return &k->base;
}

static int add_all(struct lab_xe *x)
{
	struct kobject *k = add(x, 0, &root_type, &x->pdev->dev.kobj, "sriov_admin");
	unsigned int i;
	char name[8];

	if (IS_ERR(k))
		return PTR_ERR(k);
	x->root = k;
	for (i = 0; i <= lab_last(x); i++) {
		snprintf(name, sizeof(name), i ? "vf%u" : "pf", i);
		k = add(x, i, &function_type, x->root, name);
		if (IS_ERR(k))
			return PTR_ERR(k);
		x->functions[i].kobj = k;
	}
	return fail() ?: sysfs_create_link(x->functions[0].kobj, &x->pdev->dev.kobj, "device");
}

int lab_admin_init(struct lab_xe *x)
{
	int r = add_all(x);

	if (r)
		lab_admin_exit(x);
	return r;
}

void lab_admin_exit(struct lab_xe *x)
{
	unsigned int i;

	for (i = 0; i <= lab_last(x); i++) {
		kobject_put(x->functions[i].kobj);
		x->functions[i].kobj = NULL;
	}
	kobject_put(x->root);
	x->root = NULL;
}

void lab_admin_link(struct lab_xe *x, unsigned int vfs)
{
	struct pci_dev *vf;
	unsigned int i;

	for (i = 1; i <= vfs; i++) {
		vf = pci_get_domain_bus_and_slot(pci_domain_nr(x->pdev->bus), x->pdev->bus->number,
						 pci_iov_virtfn_devfn(x->pdev, i - 1));
		if (!vf || sysfs_create_link(x->functions[i].kobj, &vf->dev.kobj, "device"))
			dev_warn(&x->pdev->dev, "VF%u has no link\n", i);
		pci_dev_put(vf);
	}
}

void lab_admin_unlink(struct lab_xe *x, unsigned int vfs)
{
	unsigned int i;

	for (i = 1; i <= vfs; i++)
		sysfs_remove_link(x->functions[i].kobj, "device");
}
