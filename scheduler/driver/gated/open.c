/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "gated.h"
#include "vfio/pci.h"
#include "vgpu/descriptor.h"

void gated_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* this driver never reports its GPU as lost */
	gated_door_close(d);
	gated_watch_close(d);
	gated_pages_close(d);
	vgpu_close(&d->epoll);
	vgpu_close(&d->news);
	vgpu_close(&d->call);
	free(d);
}

static int open_events(struct vgpu_driver *d, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 2 * GATED_WORKERS};

	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->news = vgpu_eventfd();
	d->call = vgpu_eventfd();
	if (d->epoll < 0 || d->news < 0 || d->call < 0 ||
	    epoll_ctl(d->epoll, EPOLL_CTL_ADD, d->news, &want) < 0)
		return vgpu_error_set(err, -EMFILE, "cannot make descriptors");
	return 0;
}

static struct vgpu_driver *make(const struct vgpu_driver_config *config, vgpu_event_sink *sink,
				void *data)
{
	struct vgpu_driver *d = calloc(1, sizeof(*d));
	size_t n = 0;
	const char *c;
	uint32_t i;

	if (!d)
		return NULL;
	*d = (struct vgpu_driver){.sink = sink,
				  .data = data,
				  .n_vfs = config->n_vfs,
				  .epoll = -1,
				  .news = -1,
				  .call = -1,
				  .listener = -1,
				  .wall_listener = -1,
				  .stopping = VGPU_NO_VF};
	for (c = config->device + strlen(GATED_PREFIX); *c && n + 1 < sizeof(d->name); c++)
		d->name[n++] = isalnum((unsigned char)*c) ? *c : '_';
	snprintf(d->door, sizeof(d->door), "%s", config->door);
	snprintf(d->wall_door, sizeof(d->wall_door), "%s" GATE_WALL_DOOR, config->door);
	for (i = 0; i < GATED_WORKERS; i++)
		d->workers[i].fd = d->workers[i].bell = d->workers[i].pidfd = -1;
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++)
		d->seats[i].fd = d->seats[i].read_fd = d->seats[i].account_fd = -1;
	return d;
}

static void fill_caps(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps)
{
	*caps = (struct vgpu_driver_caps){
		.driver = vgpu_gated_driver.name,
		.max_vfs = VGPU_GPU_MAX_VFS,
		.reset_levels = 1u << VGPU_RESET_VF | 1u << VGPU_RESET_GPU,
		.chain = VGPU_CHAIN,
		.preemption = "submission",
		.note = "what was submitted runs to its end: a VF stops as late as its longest "
			"submission takes, pays for that later, and is ended after grace_ms",
	};
	snprintf(caps->model, sizeof(caps->model), "%s", config->device + strlen(GATED_PREFIX));
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "vulkan");
}

int gated_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		struct vgpu_error *err)
{
	char wall[16];
	int r = gated_wall(config, wall, err);

	if (r < 0)
		return r;
	if (caps->max_vfs == 0)
		fill_caps(config, caps);
	if (config->watch && !pci_is_address(config->device + strlen(GATED_PREFIX)))
		return vgpu_error_set(err, -EINVAL,
				      "watch: %s: want the GPU's PCI address as device "
				      "(vulkan:0000:03:00.0), by which the kernel tells its use: "
				      "lspci has it",
				      config->device);
	return config->host > 0
		       ? vgpu_error_set(err, -EOPNOTSUPP,
					"host_memory_mib: the memory of this GPU is its driver's: "
					"leave the key out")
		       : 0;
}

int gated_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	       struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
	       vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct vgpu_driver *d;
	int r = gated_check(config, caps, err);

	if (r < 0)
		return r;
	d = make(config, sink, data);
	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	*found = (struct vgpu_driver_found){.adopted = false};
	r = gated_wall(config, d->wall, err);
	if (r == 0)
		r = open_events(d, err);
	if (r == 0)
		r = gated_pages_open(d, config, found, err);
	if (r == 0)
		r = gated_door_open(d, err);
	if (r < 0) {
		gated_close(d, false);
		return r;
	}
	fill_caps(config, caps);
	d->ends_beyond = config->watch == VGPU_WATCH_END;
	caps->watches =
		config->watch && gated_watch_open(d, config->device + strlen(GATED_PREFIX)) == 0;
	if (config->watch && !caps->watches)
		caps->note = "watch: the kernel shows no DRM device of this GPU, or no thread can "
			     "be started: vgpud does not see who computes past the gate";
	*out = d;
	return 0;
}
