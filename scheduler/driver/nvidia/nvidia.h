/* SPDX-License-Identifier: MIT */
/*
 * The driver for NVIDIA GPUs with vGPUs, whose PF is bound to NVIDIA's licensed host driver. The
 * driver schedules vGPUs, by one of three policies for the whole GPU, which can be chosen only
 * while no vGPU exists. VFs get their types through sysfs (vfio/nvidia_admin.h), NVIDIA's library
 * (library.h) has the policy and the vGPUs' use.
 *
 * Both may block. After open(), a separate thread, the watcher, makes all these calls, and the
 * engine thread never waits for it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "library.h"
#include "vfio/nvidia_admin.h"
#include "vgpu/driver.h"

#define NVIDIA_VGPUS 64u
#define NVIDIA_RESET_LOOKS 8u

/* An existing vGPU. */
struct nvidia_vgpu {
	uint32_t id;
	int32_t vf;	     /* -1: not known */
	uint64_t sampled_at; /* us; 0: never */
	bool seen;
};

/*
 * The watcher. `want` belongs to the engine thread, and to the watcher while `asked` is set;
 * `shown` to the watcher, and to the engine thread while `fresh` is set.
 */
struct nvidia_watcher {
	char pf[PCI_ADDRESS_SIZE];
	uint32_t n_vfs;
	struct nvidia_library library;
	pthread_t thread;
	int wake, done; /* eventfds: a request of the engine thread; a new observation */
	_Atomic bool end, asked, fresh;
	_Atomic int lost; /* 0, or -ENODEV */
	struct nvidia_scheduler want;
	struct vgpu_observation shown;

	/* The watcher's own. */
	struct nvidia_scheduler wanted;
	struct vgpu_observation now;
	struct nvidia_vgpu vgpus[NVIDIA_VGPUS];
	uint32_t n_vgpus;
	uint64_t sampled_at; /* us */
	uint64_t logged_at[VGPU_RUNLISTS];
	vgpu_nsec began;
	vgpu_nsec assigned_at; /* time of the last search of VFs for vGPUs */
	bool failed;	       /* setting the scheduler failed, and is not repeated */
};

/* Returns whether a GPU with HAS already satisfies WANT: the GPU rounds slices. */
bool nvidia_is_as_wanted(const struct nvidia_scheduler *has, const struct nvidia_scheduler *want);
/* Sets the GPU's scheduler, and reads it back. Returns an enum nvml_result; NVML_UNKNOWN also if it
 * reads back otherwise. */
int nvidia_put(struct nvidia_library *l, const struct nvidia_scheduler *want);
/* Convert a policy to vgpud's name, NULL: none; and a name to a policy, 0: none. */
const char *nvidia_policy_name(uint32_t policy);
uint32_t nvidia_policy_of(const char *name);

/* Starts the thread over an open library; WANTED: the settings to put into force. Returns 0 or
 * -errno. */
int nvidia_watcher_start(struct nvidia_watcher *w, const char *pf, uint32_t n_vfs,
			 const struct nvidia_scheduler *wanted);
void nvidia_watcher_end(struct nvidia_watcher *w);

struct vgpu_driver {
	struct nvidia_watcher watcher;
	struct nvidia_limits limits;
	struct vgpu_observation last;
	vgpu_event_sink *sink;
	void *data;
	/* Observations until a VF's reset has failed; 0: none is under way. */
	uint8_t resets[VGPU_GPU_MAX_VFS];
	vgpu_vf_set resets_done, resets_failed; /* to be reported */
	uint32_t gpu_reset_vf;			/* VF whose reset of the GPU is refused; or none */
	int lock; /* the PF's configuration space: another vgpud cannot lock it */
};

/* Translates a declaration, and refuses settings that the GPU does not support. Returns 0, or
 * -errno with the reason. */
int nvidia_translate(const struct nvidia_limits *limits, const struct vgpu_declaration *from,
		     struct nvidia_scheduler *to, struct vgpu_error *err);

/* The operations of the driver's table, as vgpu/driver.h describes them. */
int nvidia_probe(const char *device, struct vgpu_error *err);
int nvidia_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		 struct vgpu_error *err);
int nvidia_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		vgpu_event_sink *sink, void *data, struct vgpu_error *err);
void nvidia_close(struct vgpu_driver *d, bool lost);
