/* SPDX-License-Identifier: MIT */
/* What is below Linux's two files: the settings of two GTs, and sysfs. */
#include "below.h"

struct xe_device drift_gpu;
struct drift_faults drift_faults;
static struct kobject *all;

static bool fails(unsigned *times)
{
	return *times && (*times)--;
}

static bool refuses(const struct xe_gt *gt)
{
	return fails(gt->info.id ? &drift_faults.partial : &drift_faults.eio);
}

int xe_sriov_pf_wait_ready(struct xe_device *xe)
{
	(void)xe;
	return drift_faults.wedged ? -ECANCELED : fails(&drift_faults.busy) ? -EBUSY : 0;
}

int xe_sriov_pf_control_stop_vf(struct xe_device *xe, unsigned int vfid)
{
	(void)xe;
	(void)vfid;
	return 0;
}

static u32 least(u32 a, u32 b)
{
	return a < b ? a : b;
}

/* tests/drift/xe looks whether Linux clamps to these, too. */
int xe_gt_sriov_pf_config_set_exec_quantum_locked(struct xe_gt *gt, unsigned int vfid, u32 ms)
{
	if (refuses(gt))
		return -EIO;
	gt->functions[vfid].quantum = least(ms, GUC_KLV_VF_CFG_EXEC_QUANTUM_MAX_VALUE);
	return 0;
}

u32 xe_gt_sriov_pf_config_get_exec_quantum_locked(struct xe_gt *gt, unsigned int vfid)
{
	return gt->functions[vfid].quantum;
}

int xe_gt_sriov_pf_config_bulk_set_exec_quantum_locked(struct xe_gt *gt, u32 ms)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i <= DRIFT_VFS && r == 0; i++)
		r = xe_gt_sriov_pf_config_set_exec_quantum_locked(gt, i, ms);
	return r;
}

int xe_gt_sriov_pf_config_set_preempt_timeout_locked(struct xe_gt *gt, unsigned int vfid, u32 us)
{
	if (refuses(gt))
		return -EIO;
	gt->functions[vfid].timeout = least(us, GUC_KLV_VF_CFG_PREEMPT_TIMEOUT_MAX_VALUE);
	return 0;
}

u32 xe_gt_sriov_pf_config_get_preempt_timeout_locked(struct xe_gt *gt, unsigned int vfid)
{
	return gt->functions[vfid].timeout;
}

int xe_gt_sriov_pf_config_bulk_set_preempt_timeout_locked(struct xe_gt *gt, u32 us)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i <= DRIFT_VFS && r == 0; i++)
		r = xe_gt_sriov_pf_config_set_preempt_timeout_locked(gt, i, us);
	return r;
}

int xe_gt_sriov_pf_config_set_sched_priority(struct xe_gt *gt, unsigned int vfid, u32 priority)
{
	if (refuses(gt))
		return -EIO;
	gt->functions[vfid].priority = priority;
	return 0;
}

u32 xe_gt_sriov_pf_config_get_sched_priority(struct xe_gt *gt, unsigned int vfid)
{
	return gt->functions[vfid].priority;
}

int xe_gt_sriov_pf_policy_set_sched_if_idle_locked(struct xe_gt *gt, bool on)
{
	unsigned int i;

	if (refuses(gt))
		return -EIO;
	gt->sched_if_idle = on;
	for (i = 0; i <= DRIFT_VFS; i++)
		gt->functions[i].priority = on ? GUC_SCHED_PRIORITY_NORMAL : GUC_SCHED_PRIORITY_LOW;
	return 0;
}

int xe_gt_sriov_pf_policy_set_sched_if_idle(struct xe_gt *gt, bool on)
{
	return xe_gt_sriov_pf_policy_set_sched_if_idle_locked(gt, on);
}

#define MEMORY ((u64)16 << 30)

int xe_gt_sriov_pf_config_set_lmem_locked(struct xe_gt *gt, unsigned int vfid, u64 bytes)
{
	gt->functions[vfid].memory = 0;
	if (bytes > MEMORY)
		return -ENOSPC;
	gt->functions[vfid].memory = bytes;
	return 0;
}

int xe_gt_sriov_pf_config_bulk_set_lmem_locked(struct xe_gt *gt, unsigned int first, unsigned int n,
					       u64 bytes)
{
	unsigned int i;
	int r = 0;

	for (i = first; i < first + n && r == 0; i++)
		r = xe_gt_sriov_pf_config_set_lmem_locked(gt, i, bytes);
	return r;
}

u64 xe_gt_sriov_pf_config_get_lmem_locked(struct xe_gt *gt, unsigned int vfid)
{
	return gt->functions[vfid].memory;
}

/* Nothing here makes VFs. */
int xe_gt_sriov_pf_config_set_fair_sched(struct xe_gt *gt, unsigned int vfs)
{
	(void)gt;
	(void)vfs;
	abort();
}

int xe_gt_sriov_pf_config_set_fair(struct xe_gt *gt, unsigned int first, unsigned int vfs)
{
	(void)gt;
	(void)first;
	(void)vfs;
	abort();
}

int xe_gt_sriov_pf_config_release(struct xe_gt *gt, unsigned int vfid, bool force)
{
	(void)gt;
	(void)vfid;
	(void)force;
	abort();
}

struct pci_dev *xe_pci_sriov_get_vf_pdev(struct pci_dev *pf, unsigned int vfid)
{
	(void)pf;
	(void)vfid;
	return NULL;
}

const char *xe_sriov_function_name(unsigned int n, char *out, size_t size)
{
	snprintf(out, size, n ? "VF%u" : "PF", n);
	return out;
}

/* sysfs */

void kobject_init(struct kobject *kobj, const struct kobj_type *type)
{
	kobj->type = type;
}

int kobject_add(struct kobject *kobj, struct kobject *parent, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(kobj->name, sizeof(kobj->name), format, args);
	va_end(args);
	kobj->parent = parent;
	kobj->next = all;
	all = kobj;
	return 0;
}

struct kobject *drift_find(const struct kobject *parent, const char *name)
{
	struct kobject *k;

	for (k = all; k && (k->parent != parent || strcmp(k->name, name) != 0); k = k->next)
		;
	return k;
}

static int emit(char *buf, int at, const char *format, va_list args)
{
	return vsnprintf(buf + at, (size_t)((int)PAGE_SIZE - at), format, args);
}

int sysfs_emit(char *buf, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = emit(buf, 0, format, args);
	va_end(args);
	return n;
}

int sysfs_emit_at(char *buf, int at, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = emit(buf, at, format, args);
	va_end(args);
	return n;
}

/* As Linux's: one new line at the end does not count. */
int __sysfs_match_string(const char *const *array, size_t n, const char *text)
{
	size_t length = strlen(text), i;

	length -= length && text[length - 1] == '\n';
	for (i = 0; i < n && array[i]; i++)
		if (strlen(array[i]) == length && strncmp(array[i], text, length) == 0)
			return (int)i;
	return -EINVAL;
}

int sysfs_create_link(struct kobject *kobj, struct kobject *target, const char *name)
{
	(void)kobj;
	(void)target;
	(void)name;
	return 0;
}
