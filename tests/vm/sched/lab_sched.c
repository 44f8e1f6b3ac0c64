// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A GPU without hardware, at QEMU's pci-testdev: the kernel's own DRM scheduler runs jobs that take
 * the time that they say, one after the other, and fdinfo shows what each client has used. For
 * Debian 12's Linux 6.1.
 */
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>
#include <drm/gpu_scheduler.h>

#include "lab_sched.h"

#define MOST_US 1000000u

struct client {
	struct kref refs;
	struct drm_sched_entity entity;
	u64 id;
	atomic64_t ns;
};

struct job {
	struct drm_sched_job base;
	struct client *client;
	u64 us;
	ktime_t began;
	struct dma_fence done;
	spinlock_t lock;
};

struct lab {
	struct drm_device drm;
	struct drm_gpu_scheduler sched;
	struct hrtimer timer;
	struct job *running;
	u64 context;
	atomic64_t seqno, id;
};

static void free_client(struct kref *refs)
{
	kfree(container_of(refs, struct client, refs));
}

static const char *name_of(struct dma_fence *f)
{
	return "lab_sched";
}

/* The fence is a part of its job, which lives on until nobody has the fence. */
static void release(struct dma_fence *f)
{
	struct job *j = container_of(f, struct job, done);

	kref_put(&j->client->refs, free_client);
	kfree_rcu(j, done.rcu);
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = name_of,
	.get_timeline_name = name_of,
	.release = release,
};

static struct dma_fence *run_job(struct drm_sched_job *base)
{
	struct job *j = container_of(base, struct job, base);
	struct lab *lab = container_of(base->sched, struct lab, sched);

	j->began = ktime_get();
	lab->running = j;
	dma_fence_get(&j->done); /* the timer's */
	hrtimer_start(&lab->timer, ns_to_ktime(j->us * NSEC_PER_USEC), HRTIMER_MODE_REL);
	return dma_fence_get(&j->done);
}

static enum hrtimer_restart ended(struct hrtimer *timer)
{
	struct job *j = container_of(timer, struct lab, timer)->running;

	atomic64_add(ktime_to_ns(ktime_sub(ktime_get(), j->began)), &j->client->ns);
	dma_fence_signal(&j->done);
	dma_fence_put(&j->done);
	return HRTIMER_NORESTART;
}

static enum drm_gpu_sched_stat timed_out(struct drm_sched_job *base)
{
	return DRM_GPU_SCHED_STAT_NOMINAL;
}

static void free_job(struct drm_sched_job *base)
{
	drm_sched_job_cleanup(base);
	dma_fence_put(&container_of(base, struct job, base)->done);
}

static const struct drm_sched_backend_ops sched_ops = {
	.run_job = run_job,
	.timedout_job = timed_out,
	.free_job = free_job,
};

static int submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct lab *lab = container_of(drm, struct lab, drm);
	struct client *c = file->driver_priv;
	struct lab_submit *s = data;
	struct dma_fence *finished;
	struct job *j;
	int r;

	if (s->us == 0 || s->us > MOST_US)
		return -EINVAL;
	j = kzalloc(sizeof(*j), GFP_KERNEL);
	if (!j)
		return -ENOMEM;
	r = drm_sched_job_init(&j->base, &c->entity, NULL);
	if (r) {
		kfree(j);
		return r;
	}
	j->us = s->us;
	j->client = c;
	kref_get(&c->refs);
	spin_lock_init(&j->lock);
	dma_fence_init(&j->done, &fence_ops, &j->lock, lab->context,
		       atomic64_inc_return(&lab->seqno));
	drm_sched_job_arm(&j->base);
	finished = dma_fence_get(&j->base.s_fence->finished);
	drm_sched_entity_push_job(&j->base);
	r = dma_fence_wait(finished, true);
	dma_fence_put(finished);
	return r == -ERESTARTSYS ? -EINTR : r;
}

static int open_client(struct drm_device *drm, struct drm_file *file)
{
	struct lab *lab = container_of(drm, struct lab, drm);
	struct drm_gpu_scheduler *list[] = {&lab->sched};
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int r;

	if (!c)
		return -ENOMEM;
	kref_init(&c->refs);
	c->id = atomic64_inc_return(&lab->id);
	r = drm_sched_entity_init(&c->entity, DRM_SCHED_PRIORITY_NORMAL, list, 1, NULL);
	if (r) {
		kfree(c);
		return r;
	}
	file->driver_priv = c;
	return 0;
}

static void close_client(struct drm_device *drm, struct drm_file *file)
{
	struct client *c = file->driver_priv;

	drm_sched_entity_destroy(&c->entity);
	kref_put(&c->refs, free_client);
}

static void show_fdinfo(struct seq_file *m, struct file *f)
{
	struct client *c = ((struct drm_file *)f->private_data)->driver_priv;

	seq_printf(m, "drm-driver:\tlab_sched\ndrm-client-id:\t%llu\ndrm-engine-render:\t%lld ns\n",
		   c->id, atomic64_read(&c->ns));
}

static const struct drm_ioctl_desc ioctls[] = {
	[0] = {.cmd = LAB_SUBMIT, .flags = DRM_RENDER_ALLOW, .func = submit, .name = "LAB_SUBMIT"},
};

static const struct file_operations files = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.llseek = noop_llseek,
	.show_fdinfo = show_fdinfo,
};

static const struct drm_driver driver = {
	.driver_features = DRIVER_RENDER,
	.open = open_client,
	.postclose = close_client,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &files,
	.name = "lab_sched",
	.desc = "DRM's scheduler, with jobs that take a declared time",
	.date = "20261130",
};

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct lab *lab = devm_drm_dev_alloc(&pci->dev, &driver, struct lab, drm);
	struct drm_sched_init_args args = {
		.ops = &sched_ops,
		.credit_limit = 1, /* one job at a time */
		.timeout = MAX_SCHEDULE_TIMEOUT,
		.name = "lab_sched",
		.dev = &pci->dev,
	};
	int r;

	if (IS_ERR(lab))
		return PTR_ERR(lab);
	hrtimer_init(&lab->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	lab->timer.function = ended;
	lab->context = dma_fence_context_alloc(1);
	r = drm_sched_init(&lab->sched, &args);
	return r ? r : drm_dev_register(&lab->drm, 0);
}

static const struct pci_device_id ids[] = {{PCI_DEVICE(0x1b36, 0x0005)}, {}};
MODULE_DEVICE_TABLE(pci, ids);

/* It stays until the machine ends. */
static struct pci_driver pci_driver = {.name = "lab_sched", .id_table = ids, .probe = probe};

static int __init lab_init(void)
{
	return pci_register_driver(&pci_driver);
}
module_init(lab_init);
MODULE_LICENSE("GPL");
