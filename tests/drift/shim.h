/* SPDX-License-Identifier: MIT */
/*
 * What Linux's xe_sriov_pf_sysfs.c and xe_sriov_pf_provision.c need of Linux, for a program of user
 * space: as much of kobjects and sysfs as tells which files there are, with what modes, and who
 * answers; and a GPU with two GTs below (below.c). tests/drift/xe makes all headers that the two
 * files include into this one, except those that it takes from Linux.
 */
#pragma once

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef unsigned short umode_t;

#define __user
#define noinline
#define EXPORT_SYMBOL(name) struct drift_export_##name
#define unlikely(x) (x)
#define static_assert(x) _Static_assert(x, #x)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))
#define container_of_const container_of
#define IS_ENABLED(option) 0
#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)
#define COUNT_(zero, a, b, c, n, ...) n
#define COUNT_ARGS(...) COUNT_(, ##__VA_ARGS__, 3, 2, 1, 0)
#undef _tolower
#define _tolower(c) ((c) | 0x20)
#define check_mul_overflow __builtin_mul_overflow
#define check_add_overflow __builtin_add_overflow
#define round_up(x, y) (((x) + (y)-1) / (y) * (y))
#define PAGE_SIZE 4096u

static inline void *ERR_PTR(long error)
{
	return (void *)error;
}
static inline long PTR_ERR(const void *p)
{
	return (long)p;
}
static inline bool IS_ERR(const void *p)
{
	return (unsigned long)p >= (unsigned long)-4095;
}
static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}
#define kzalloc_obj(x) calloc(1, sizeof(x))
#define kfree free

/* One thread: nothing needs a lock. */
struct mutex {
	int unused;
};
#define guard(kind) (void)

/* sysfs */
struct attribute {
	const char *name;
	umode_t mode;
};
#define __ATTR(file, file_mode, shows, stores)                                                     \
	{                                                                                          \
		.attr = {.name = #file, .mode = file_mode}, .show = shows, .store = stores         \
	}
struct kobject;
struct attribute_group {
	const char *name;
	umode_t (*is_visible)(struct kobject *kobj, struct attribute *attr, int index);
	struct attribute **attrs;
};
struct sysfs_ops {
	ssize_t (*show)(struct kobject *kobj, struct attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct attribute *attr, const char *buf, size_t n);
};
struct kobj_type {
	void (*release)(struct kobject *kobj);
	const struct sysfs_ops *sysfs_ops;
	const struct attribute_group **default_groups;
};
struct kobject {
	char name[32];
	struct kobject *parent, *next; /* NEXT: of all that were added */
	const struct kobj_type *type;
};
void kobject_init(struct kobject *kobj, const struct kobj_type *type);
int kobject_add(struct kobject *kobj, struct kobject *parent, const char *format, ...);
static inline void kobject_put(struct kobject *kobj)
{
	(void)kobj; /* they live as long as the program */
}
int sysfs_emit(char *buf, const char *format, ...);
int sysfs_emit_at(char *buf, int at, const char *format, ...);
int __sysfs_match_string(const char *const *array, size_t n, const char *text);
int sysfs_create_link(struct kobject *kobj, struct kobject *target, const char *name);
static inline void sysfs_remove_link(struct kobject *kobj, const char *name)
{
	(void)kobj;
	(void)name;
}

/* Numbers: Linux's own kstrtox.c */
int kstrtoull(const char *s, unsigned int base, unsigned long long *value);
int kstrtouint(const char *s, unsigned int base, unsigned int *value);
int kstrtobool(const char *s, bool *value);
#define kstrtou32 kstrtouint
static inline int kstrtou64(const char *s, unsigned int base, u64 *value)
{
	unsigned long long n;
	int r = kstrtoull(s, base, &n);

	*value = r ? *value : n;
	return r;
}

/* Devices */
struct device {
	struct kobject kobj;
};
struct pci_dev {
	struct device dev;
};
#define to_pci_dev(d) container_of(d, struct pci_dev, dev)
#define pci_dev_put(d) ((void)(d))
static inline int devm_add_action_or_reset(struct device *dev, void (*action)(void *), void *data)
{
	(void)dev;
	(void)action;
	(void)data;
	return 0;
}

/* A GPU: one tile with two GTs, and memory of its own. */
#include "abi/guc_klvs_abi.h"
#include "xe_sriov_pf_provision_types.h"

#define DRIFT_VFS 4u
#define DRIFT_GTS 2u
#define PFID 0u
#define VFID(n) (n)

struct xe_gt;
struct xe_lmtt {
	int unused;
};
struct xe_tile {
	struct xe_device *xe;
	struct xe_gt *primary_gt;
	struct {
		struct {
			struct xe_lmtt lmtt;
		} pf;
	} sriov;
};
struct xe_gt {
	struct {
		u8 id;
	} info;
	struct xe_device *xe;
	bool sched_if_idle;
	struct {
		u32 quantum, timeout, priority;
		u64 memory;
	} functions[DRIFT_VFS + 1];
};
struct xe_device {
	struct {
		struct device *dev;
	} drm;
	struct {
		u8 tile_count;
	} info;
	struct {
		struct {
			struct xe_sriov_pf_provision provision;
			struct mutex master_lock;
			struct {
				struct kobject *root;
			} sysfs;
			struct {
				struct kobject *kobj;
			} vfs[DRIFT_VFS + 1];
		} pf;
	} sriov;
	struct xe_gt gts[DRIFT_GTS];
	struct xe_tile tile;
};

#define xe_assert(xe, condition) ((void)(condition))
#define xe_sriov_pf_assert_vfid(xe, vfid) ((void)(vfid))
#define xe_sriov_dbg(xe, ...) ((void)(xe))
#define IS_SRIOV_PF(xe) true
#define IS_DGFX(xe) true
#define for_each_gt(gt, xe, id)                                                                    \
	for ((id) = 0; (id) < DRIFT_GTS && ((gt) = &(xe)->gts[id], 1); (id)++)
#define for_each_tile(t, xe, id) for ((id) = 0; (id) < 1 && ((t) = &(xe)->tile, 1); (id)++)
#define gt_to_xe(gt) ((gt)->xe)
static inline unsigned int xe_sriov_pf_get_totalvfs(struct xe_device *xe)
{
	(void)xe;
	return DRIFT_VFS;
}
static inline unsigned int xe_sriov_pf_num_vfs(struct xe_device *xe)
{
	(void)xe;
	return 0;
}
static inline struct mutex *xe_sriov_pf_master_mutex(struct xe_device *xe)
{
	return &xe->sriov.pf.master_lock;
}
static inline bool xe_device_has_lmtt(struct xe_device *xe)
{
	(void)xe;
	return true;
}
static inline u64 xe_lmtt_page_size(struct xe_lmtt *lmtt)
{
	(void)lmtt;
	return 2 << 20;
}
const char *xe_sriov_function_name(unsigned int n, char *out, size_t size);
struct pci_dev *xe_pci_sriov_get_vf_pdev(struct pci_dev *pf, unsigned int vfid);
int xe_sriov_pf_wait_ready(struct xe_device *xe);
int xe_sriov_pf_control_stop_vf(struct xe_device *xe, unsigned int vfid);

int xe_gt_sriov_pf_config_set_exec_quantum_locked(struct xe_gt *gt, unsigned int vfid, u32 ms);
u32 xe_gt_sriov_pf_config_get_exec_quantum_locked(struct xe_gt *gt, unsigned int vfid);
int xe_gt_sriov_pf_config_bulk_set_exec_quantum_locked(struct xe_gt *gt, u32 ms);
int xe_gt_sriov_pf_config_set_preempt_timeout_locked(struct xe_gt *gt, unsigned int vfid, u32 us);
u32 xe_gt_sriov_pf_config_get_preempt_timeout_locked(struct xe_gt *gt, unsigned int vfid);
int xe_gt_sriov_pf_config_bulk_set_preempt_timeout_locked(struct xe_gt *gt, u32 us);
int xe_gt_sriov_pf_config_set_sched_priority(struct xe_gt *gt, unsigned int vfid, u32 priority);
u32 xe_gt_sriov_pf_config_get_sched_priority(struct xe_gt *gt, unsigned int vfid);
int xe_gt_sriov_pf_policy_set_sched_if_idle(struct xe_gt *gt, bool on);
int xe_gt_sriov_pf_policy_set_sched_if_idle_locked(struct xe_gt *gt, bool on);
int xe_gt_sriov_pf_config_set_lmem_locked(struct xe_gt *gt, unsigned int vfid, u64 bytes);
int xe_gt_sriov_pf_config_bulk_set_lmem_locked(struct xe_gt *gt, unsigned int first, unsigned int n,
					       u64 bytes);
u64 xe_gt_sriov_pf_config_get_lmem_locked(struct xe_gt *gt, unsigned int vfid);
int xe_gt_sriov_pf_config_set_fair_sched(struct xe_gt *gt, unsigned int vfs);
int xe_gt_sriov_pf_config_set_fair(struct xe_gt *gt, unsigned int first, unsigned int vfs);
int xe_gt_sriov_pf_config_release(struct xe_gt *gt, unsigned int vfid, bool force);

int xe_sriov_pf_sysfs_init(struct xe_device *xe);
