/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel module of the lab: a PCI driver named xe for softgpu's PF, which offers what Linux's own
 * driver xe (7.3) offers to those who manage VFs: sriov_admin, sriov_numvfs, and counters (perf).
 * softgpu schedules itself, and its registers get what is written, so that settings act on guests
 * that compute.
 *
 * Function 0 is the PF, function N is VF N. A GPU has two GTs; softgpu's engine is in GT 0, and GT
 * 1 has settings alone.
 */
#pragma once

#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/perf_event.h>
#include <linux/spinlock.h>

#define LAB_GTS 2
#define LAB_FUNCTIONS 32 /* the PF, and softgpu's 31 VFs */

enum lab_setting { LAB_QUANTUM = 0, LAB_TIMEOUT, LAB_SETTINGS };
enum lab_priority { LAB_LOW = 0, LAB_NORMAL, LAB_HIGH, LAB_PRIORITIES };

/* What Linux had which files and defaults. */
enum lab_version { LAB_6_19 = 0, LAB_7_0, LAB_7_2 };

struct lab_function {
	struct kobject *kobj;
	u32 settings[LAB_SETTINGS][LAB_GTS]; /* ms; us; 0: endless */
	u32 priority[LAB_GTS];
	u64 vram;   /* bytes */
	u32 offset; /* of its memory in softgpu, units */
};

/* What is made to fail, each for so many occasions (debugfs). */
struct lab_faults {
	struct dentry *dir;
	atomic_t refused;  /* the firmware of both GTs refuses a setting */
	atomic_t eio;	   /* ... of GT 0 */
	atomic_t partial;  /* ... of GT 1 */
	atomic_t busy;	   /* a GT is being reset: stores find it so */
	atomic_t clamp_ms; /* quanta are cut to this, unless it is 0 */
	bool wedged;
	bool frozen; /* the counters of functions stand still, until VFs are enabled anew */
	bool held;   /* somebody holds the mutex of settings */
	struct completion released;
	atomic_t stores;
};

struct lab_counter {
	u64 last;     /* ns: when `total` was read last */
	u64 total_ns; /* what the function was entitled to */
	u64 rest;
	u64 active; /* ticks, as last read */
};

struct lab_xe {
	struct pci_dev *pdev;
	void __iomem *regs; /* BAR 5; NULL: no driver */
	int cap, block;	    /* GPU-IOV, in the configuration space */
	enum lab_version version;
	unsigned int total_vfs, vfs;
	u32 units;	     /* of memory */
	struct mutex master; /* guards all settings */
	struct lab_function functions[LAB_FUNCTIONS];
	struct kobject *root;
	struct lab_faults faults;
	struct pmu pmu;
	char *pmu_name;
	spinlock_t counting;
	struct lab_counter counters[LAB_FUNCTIONS];
};

/* The last function. */
static inline unsigned int lab_last(const struct lab_xe *x)
{
	return x->total_vfs;
}

/* sysfs (admin.c). */
int lab_admin_init(struct lab_xe *x);
void lab_admin_exit(struct lab_xe *x);
void lab_admin_link(struct lab_xe *x, unsigned int vfs);
void lab_admin_unlink(struct lab_xe *x, unsigned int vfs);

/* Settings (settings.c). Functions FIRST to LAST get VALUE on all GTs; the first error is returned,
 * and what could be set stays. Those named _locked want MASTER held. */
int lab_set(struct lab_xe *x, unsigned int first, unsigned int last, enum lab_setting s, u32 value);
int lab_set_locked(struct lab_xe *x, unsigned int first, unsigned int last, enum lab_setting s,
		   u32 value);
int lab_get(struct lab_xe *x, unsigned int function, enum lab_setting s, u32 *value);
int lab_set_priority(struct lab_xe *x, unsigned int function, u32 value);
int lab_set_priorities(struct lab_xe *x, u32 value);
int lab_set_priorities_locked(struct lab_xe *x, u32 value);
int lab_get_priority(struct lab_xe *x, unsigned int function, u32 *value);
bool lab_is_default_locked(struct lab_xe *x, unsigned int vfs);
/* Puts GT 0's settings into force in softgpu. */
int lab_program_locked(struct lab_xe *x);
/* -ECANCELED: the GPU has been given up; -EBUSY: it is being reset. */
int lab_wait_ready(struct lab_xe *x);

/* Memory of VFs (memory.c). */
void lab_memory_init(struct lab_xe *x);
int lab_set_vram(struct lab_xe *x, unsigned int first, unsigned int last, u64 bytes);
int lab_set_vram_locked(struct lab_xe *x, unsigned int first, unsigned int last, u64 bytes);
u64 lab_get_vram(struct lab_xe *x, unsigned int function);
int lab_fair_vram_locked(struct lab_xe *x, unsigned int vfs);

/* Counters (counters.c). */
int lab_counters_init(struct lab_xe *x);
void lab_counters_exit(struct lab_xe *x);
/* They read REGS from now on; from the end on they stand still. */
void lab_counters_on(struct lab_xe *x, void __iomem *regs);
void lab_counters_end(struct lab_xe *x);
void lab_counters_begin(struct lab_xe *x);

/* Faults (faults.c). */
void lab_faults_init(struct lab_xe *x);
void lab_faults_exit(struct lab_xe *x);
/* Returns whether this occasion is one that fails. */
static inline bool lab_fails(atomic_t *times)
{
	return atomic_dec_if_positive(times) >= 0;
}

/* softgpu's registers (main.c). */
u32 lab_config_read(struct lab_xe *x, int at);
void lab_config_write(struct lab_xe *x, int at, u32 value);
/* Has softgpu carry a command out. Returns 0, -EIO or -ETIME. May sleep. */
int lab_command(struct lab_xe *x, u32 command);
int lab_stop(struct lab_xe *x, unsigned int function);
