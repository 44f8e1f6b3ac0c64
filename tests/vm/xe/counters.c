// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The counters of functions, by perf. Layout of events as in Linux 7.3 (xe_pmu.c), and what they
 * count as in xe_guc_engine_activity.c: `active` are the ticks in which the engine worked for the
 * function, `total` those that it was entitled to, which are added up whenever they are read, at
 * the rate of that instant. softgpu's one engine is render 0 of GT 0; GT 0 also has an engine that
 * copies and never works.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "lab_xe.h"

#include "softgpu/registers.h"

#define EVENT_ACTIVE 0x02
#define EVENT_TOTAL 0x03
#define TICKS_PER_MS 19200 /* Linux does not tell, and vgpud must not need it */
#define WHOLE 0x8000	   /* the firmware's parts of all time */

static u32 field(u64 config, int low, int high)
{
	return config >> low & GENMASK_ULL(high - low, 0);
}

static u32 function_of(const struct perf_event *e)
{
	return field(e->attr.config, 44, 59);
}

static u32 class_of(const struct perf_event *e)
{
	return field(e->attr.config, 20, 27);
}

static bool is_supported(const struct lab_xe *x, const struct perf_event *e)
{
	u64 config = e->attr.config;
	u32 event = field(config, 0, 11);

	return (event == EVENT_ACTIVE || event == EVENT_TOTAL) && field(config, 60, 63) == 0 &&
	       class_of(e) <= 1 && field(config, 12, 19) == 0 && function_of(e) <= x->total_vfs;
}

static struct lab_xe *lab_of(const struct perf_event *e)
{
	return container_of(e->pmu, struct lab_xe, pmu);
}

/* softgpu takes all counters when the first dword is read. */
static u64 active(struct lab_xe *x, u32 function)
{
	u32 low, high;

	if (function == 0)
		return 0;
	ioread32(x->regs + SOFTGPU_TURN_ACTIVE);
	low = ioread32(x->regs + SOFTGPU_TURN_ACTIVE + 8 * (function - 1));
	high = ioread32(x->regs + SOFTGPU_TURN_ACTIVE + 8 * (function - 1) + 4);
	return div_u64(((u64)high << 32 | low) * (TICKS_PER_MS / 100), 10000);
}

/* The part of all time that the function is entitled to. */
static u32 part(const struct lab_xe *x, u32 function)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i <= x->vfs; i++)
		sum += READ_ONCE(x->functions[i].settings[LAB_QUANTUM][0]);
	if (!sum || function > x->vfs)
		return 0;
	return (u32)div64_u64((u64)READ_ONCE(x->functions[function].settings[LAB_QUANTUM][0]) *
				      WHOLE,
			      sum);
}

static u64 total(struct lab_xe *x, u32 function)
{
	struct lab_counter *c = &x->counters[function];
	u64 now = ktime_get_ns(), sum = c->rest + (now - c->last) * part(x, function);

	c->last = now;
	c->total_ns += sum / WHOLE;
	c->rest = sum % WHOLE;
	return div_u64(c->total_ns * (TICKS_PER_MS / 100), 10000);
}

static u64 count(struct perf_event *e)
{
	struct lab_xe *x = lab_of(e);
	u32 function = function_of(e);
	struct lab_counter *c = &x->counters[function];
	unsigned long flags;
	u64 value = 0;
	bool still;

	spin_lock_irqsave(&x->counting, flags);
	still = x->faults.frozen || !x->regs;
	if (field(e->attr.config, 0, 11) == EVENT_TOTAL) {
		value = still ? div_u64(c->total_ns * (TICKS_PER_MS / 100), 10000)
			      : total(x, function);
	} else if (class_of(e) == 0) {
		if (!still)
			c->active = active(x, function);
		value = c->active;
	}
	spin_unlock_irqrestore(&x->counting, flags);
	return value;
}

static int event_init(struct perf_event *e)
{
	if (e->attr.type != e->pmu->type)
		return -ENOENT;
	if (e->attr.sample_period || e->cpu < 0)
		return -EINVAL;
	if (!lab_of(e)->regs)
		return -ENODEV;
	return is_supported(lab_of(e), e) ? 0 : -ENOENT;
}

static void update(struct perf_event *e)
{
	u64 value = count(e);

	local64_add(value - local64_xchg(&e->hw.prev_count, value), &e->count);
}

static void start(struct perf_event *e, int flags)
{
	local64_set(&e->hw.prev_count, count(e));
	e->hw.state = 0;
}

static void stop(struct perf_event *e, int flags)
{
	if (flags & PERF_EF_UPDATE)
		update(e);
	e->hw.state = PERF_HES_STOPPED;
}

static int add(struct perf_event *e, int flags)
{
	if (flags & PERF_EF_START)
		start(e, flags);
	return 0;
}

static void del(struct perf_event *e, int flags)
{
	stop(e, PERF_EF_UPDATE);
}

PMU_FORMAT_ATTR(event, "config:0-11");
PMU_FORMAT_ATTR(engine_instance, "config:12-19");
PMU_FORMAT_ATTR(engine_class, "config:20-27");
PMU_FORMAT_ATTR(function, "config:44-59");
PMU_FORMAT_ATTR(gt, "config:60-63");
static struct attribute *format_attrs[] = {&format_attr_event.attr,
					   &format_attr_engine_class.attr,
					   &format_attr_engine_instance.attr,
					   &format_attr_function.attr,
					   &format_attr_gt.attr,
					   NULL};
static const struct attribute_group format_group = {.name = "format", .attrs = format_attrs};

/* clang-format off */
PMU_EVENT_ATTR_STRING(engine-active-ticks, active_ticks, "event=0x02\n");
PMU_EVENT_ATTR_STRING(engine-total-ticks, total_ticks, "event=0x03\n");
/* clang-format on */
static struct attribute *event_attrs[] = {&active_ticks.attr.attr, &total_ticks.attr.attr, NULL};
static const struct attribute_group event_group = {.name = "events", .attrs = event_attrs};

/* What Linux makes itself of PERF_PMU_SCOPE_SYS_WIDE, since 6.13. */
static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}
static DEVICE_ATTR_RO(cpumask);
static struct attribute *cpumask_attrs[] = {&dev_attr_cpumask.attr, NULL};
static const struct attribute_group cpumask_group = {.attrs = cpumask_attrs};
static const struct attribute_group *groups[] = {&format_group, &event_group, &cpumask_group, NULL};

int lab_counters_init(struct lab_xe *x)
{
	int r;

	if (x->pmu_name)
		return 0;
	x->pmu_name = kasprintf(GFP_KERNEL, "xe_%s", dev_name(&x->pdev->dev));
	if (!x->pmu_name)
		return -ENOMEM;
	strreplace(x->pmu_name, ':', '_');
	x->pmu = (struct pmu){.module = THIS_MODULE,
			      .task_ctx_nr = perf_invalid_context,
			      .attr_groups = groups,
			      .event_init = event_init,
			      .add = add,
			      .del = del,
			      .start = start,
			      .stop = stop,
			      .read = update};
	r = perf_pmu_register(&x->pmu, x->pmu_name, -1);
	if (r) {
		kfree(x->pmu_name);
		x->pmu_name = NULL;
	}
	return r;
}

void lab_counters_exit(struct lab_xe *x)
{
	if (!x->pmu_name)
		return;
	perf_pmu_unregister(&x->pmu);
	kfree(x->pmu_name);
}

void lab_counters_on(struct lab_xe *x, void __iomem *regs)
{
	unsigned long flags;

	spin_lock_irqsave(&x->counting, flags);
	x->regs = regs;
	spin_unlock_irqrestore(&x->counting, flags);
}

void lab_counters_end(struct lab_xe *x)
{
	lab_counters_on(x, NULL);
}

void lab_counters_begin(struct lab_xe *x)
{
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&x->counting, flags);
	x->faults.frozen = false;
	for (i = 0; i < LAB_FUNCTIONS; i++)
		x->counters[i].last = ktime_get_ns();
	spin_unlock_irqrestore(&x->counting, flags);
}
