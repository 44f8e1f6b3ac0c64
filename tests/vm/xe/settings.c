// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Quanta, time-outs and priorities of functions, one of each for each GT. As in Linux 7.3
 * (xe_gt_sriov_pf_config.c, xe_sriov_pf_provision.c): each GT is set in turn and the first error is
 * kept; too large values are clamped in silence; each change is a line in the log.
 */
#include "lab_xe.h"

#include "softgpu/registers.h"
#include "vfio/gpuiov.h"

/* GUC_KLV_VF_CFG_EXEC_QUANTUM_MAX_VALUE, GUC_KLV_VF_CFG_PREEMPT_TIMEOUT_MAX_VALUE */
static const u32 most[LAB_SETTINGS] = {[LAB_QUANTUM] = 100000, [LAB_TIMEOUT] = 100000000};
static const char *const names[LAB_SETTINGS] = {
	[LAB_QUANTUM] = "ms execution quantum", [LAB_TIMEOUT] = "us preemption timeout"};

int lab_wait_ready(struct lab_xe *x)
{
	if (x->faults.wedged)
		return -ECANCELED;
	return lab_fails(&x->faults.busy) ? -EBUSY : 0;
}

/* What softgpu has for `endless`: its longest. */
static u32 in_us(u32 value, u32 unit, u32 endless)
{
	return value && value <= endless / unit ? value * unit : endless;
}

int lab_program_locked(struct lab_xe *x)
{
	u32 quantum = ioread32(x->regs + SOFTGPU_TURN_LIMITS + 4);
	u32 timeout = ioread32(x->regs + SOFTGPU_TURN_LIMITS + 16);
	bool keep = x->functions[lab_last(x)].priority[0] == LAB_NORMAL;
	unsigned int i;

	for (i = 1; i <= lab_last(x); i++) {
		void __iomem *at = x->regs + SOFTGPU_TURN_PLAN_OF(i - 1);
		const struct lab_function *f = &x->functions[i];

		iowrite32(in_us(f->settings[LAB_QUANTUM][0], 1000, quantum), at);
		iowrite32(in_us(f->settings[LAB_TIMEOUT][0], 1, timeout), at + 4);
	}
	iowrite32(keep ? SOFTGPU_TURN_KEEP : 0, x->regs + SOFTGPU_TURN_FLAGS);
	return lab_command(x, GPUIOV_CMD_CONFIG_AUTO);
}

static int set_one(struct lab_xe *x, unsigned int function, int gt, enum lab_setting s, u32 value)
{
	u32 clamp = atomic_read(&x->faults.clamp_ms);

	value = min(value, most[s]);
	if (s == LAB_QUANTUM && clamp)
		value = min(value, clamp);
	if (lab_fails(gt ? &x->faults.partial : &x->faults.eio))
		return -EIO;
	x->functions[function].settings[s][gt] = value;
	return 0;
}

static void say(struct lab_xe *x, unsigned int function, int gt, enum lab_setting s, int r)
{
	u32 value = x->functions[function].settings[s][gt];

	if (r)
		dev_notice(&x->pdev->dev, "GT%d: function %u: no %s (%d)\n", gt, function, names[s],
			   r);
	else if (value)
		dev_info(&x->pdev->dev, "GT%d: function %u has %u%s\n", gt, function, value,
			 names[s]);
	else
		dev_info(&x->pdev->dev, "GT%d: function %u has endless%s\n", gt, function,
			 names[s]);
}

int lab_set_locked(struct lab_xe *x, unsigned int first, unsigned int last, enum lab_setting s,
		   u32 value)
{
	unsigned int i;
	int gt, r, result = 0;

	for (gt = 0; gt < LAB_GTS; gt++) {
		for (i = first, r = 0; i <= last && r == 0; i++) {
			r = set_one(x, i, gt, s, value);
			say(x, i, gt, s, r);
		}
		/* The firmware of a GT answers before the next one is asked. */
		if (gt == 0 && r == 0)
			r = lab_program_locked(x);
		result = result ? result : r;
	}
	return result;
}

int lab_set(struct lab_xe *x, unsigned int first, unsigned int last, enum lab_setting s, u32 value)
{
	int r;

	mutex_lock(&x->master);
	r = lab_fails(&x->faults.refused) ? -EIO : lab_set_locked(x, first, last, s, value);
	mutex_unlock(&x->master);
	return r;
}

static int agree(const u32 *gts, u32 *value)
{
	int gt;

	*value = gts[0];
	for (gt = 1; gt < LAB_GTS; gt++)
		if (gts[gt] != gts[0])
			return -EUCLEAN;
	return 0;
}

int lab_get(struct lab_xe *x, unsigned int function, enum lab_setting s, u32 *value)
{
	int r;

	mutex_lock(&x->master);
	r = agree(x->functions[function].settings[s], value);
	mutex_unlock(&x->master);
	return r;
}

int lab_get_priority(struct lab_xe *x, unsigned int function, u32 *value)
{
	int r;

	mutex_lock(&x->master);
	r = agree(x->functions[function].priority, value);
	mutex_unlock(&x->master);
	return r;
}

int lab_set_priority(struct lab_xe *x, unsigned int function, u32 value)
{
	int gt, r, result = 0;

	mutex_lock(&x->master);
	for (gt = 0; gt < LAB_GTS; gt++) {
		r = lab_fails(gt ? &x->faults.partial : &x->faults.eio) ? -EIO : 0;
		if (r == 0)
			x->functions[function].priority[gt] = value;
		result = result ? result : r;
	}
	mutex_unlock(&x->master);
	return result;
}

/* One policy of the firmware's: it sets the PF's own priority, too. */
int lab_set_priorities_locked(struct lab_xe *x, u32 value)
{
	unsigned int i;
	int gt, r, result = 0;

	for (gt = 0; gt < LAB_GTS; gt++) {
		r = lab_fails(gt ? &x->faults.partial : &x->faults.eio) ? -EIO : 0;
		for (i = 0; i <= lab_last(x) && r == 0; i++)
			x->functions[i].priority[gt] = value;
		if (gt == 0 && r == 0)
			r = lab_program_locked(x);
		result = result ? result : r;
	}
	return result;
}

int lab_set_priorities(struct lab_xe *x, u32 value)
{
	int r;

	mutex_lock(&x->master);
	r = lab_set_priorities_locked(x, value);
	mutex_unlock(&x->master);
	return r;
}

bool lab_is_default_locked(struct lab_xe *x, unsigned int vfs)
{
	unsigned int i;

	for (i = 0; i <= vfs; i++)
		if (x->functions[i].settings[LAB_QUANTUM][0] ||
		    x->functions[i].settings[LAB_TIMEOUT][0] ||
		    x->functions[i].priority[0] != LAB_LOW)
			return false;
	return true;
}
