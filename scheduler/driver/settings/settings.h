/* SPDX-License-Identifier: MIT */
/*
 * Shared by the drivers for GPUs that are bound to a host driver: their firmware gives turns to
 * VFs, and vgpud sets the lengths of these turns, through files of the kernel.
 *
 * A read or a write of such a file may wait for seconds, while the kernel resets a VF. So a thread
 * makes them, the writer, and the engine thread never waits for it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "settings_open.h"

/* The calls that such a driver provides to the writer. */
struct settings_ops {
	/* Writes the settings in which the GPU differs from WANT, and reads all back into HAVE. A
	 * setting that cannot be written does not prevent the others. May wait, but not for long
	 * once END is set. Returns 0, or the first error. */
	int (*write)(const char *pf, uint32_t n_vfs, const struct vgpu_program *want,
		     struct vgpu_program *have, const _Atomic bool *end);
	/* Stops a VF until it is reset. Returns 0 or -errno. NULL: the GPU cannot. */
	int (*stop)(const char *pf, uint32_t vf);
	/* Checks whether the settings still exist, whenever the writer wakes without a request.
	 * Returns 0 or -errno. NULL: other readings show that. */
	int (*look)(const char *pf, uint32_t n_vfs);
};

/*
 * The writer. The engine thread asks, and reads answers when `done` is readable. `want` belongs to
 * the engine thread, `have` and `result` to the writer while `asked` is set, and the other way
 * round.
 */
struct settings_writer {
	const struct settings_ops *ops;
	char pf[PCI_ADDRESS_SIZE];
	uint32_t n_vfs;
	pthread_t thread;
	int wake, done; /* eventfds: a request of the engine thread; an answer of the writer */
	_Atomic bool end;
	_Atomic bool asked;
	struct vgpu_program want, have;
	int result;			   /* result of the last schedule: 0, or the first error */
	_Atomic vgpu_vf_set stops, resets; /* asked for */
	_Atomic vgpu_vf_set stops_failed, resets_done; /* answered */
	_Atomic int reset_results[VGPU_GPU_MAX_VFS];
	_Atomic int lost; /* 0, or -ENODEV: the PF has lost its driver */
};

/* Starts the thread; HAVE: the GPU's present settings. Returns 0 or -errno. */
int settings_writer_start(struct settings_writer *w, const struct settings_ops *ops, const char *pf,
			  uint32_t n_vfs, const struct vgpu_program *have);
/* Ends the thread after its pending request, which may take seconds. */
void settings_writer_end(struct settings_writer *w);
/* Wakes the thread for the pending requests. Does not block. */
void settings_writer_wake(struct settings_writer *w);

struct vgpu_driver {
	struct settings_writer writer;
	void *own; /* further state, owned by the driver; or NULL */
	vgpu_event_sink *sink;
	void *data;
	uint32_t gpu_reset_vf; /* VF whose reset of the GPU was refused, to be reported; or none */
	int lock;	       /* the PF's configuration space: another vgpud cannot lock it */
};

/* Makes a driver without a writer. NULL, with the reason in ERR: out of memory. */
struct vgpu_driver *settings_new(vgpu_event_sink *sink, void *data, struct vgpu_error *err);
/* Closes the lock and frees it; its writer has ended, or was never started. */
void settings_free(struct vgpu_driver *d);

/* Calls of the faces, as in vgpu/driver.h. */
int settings_fd(const struct vgpu_driver *d);
vgpu_nsec settings_deadline(const struct vgpu_driver *d);
int settings_dispatch(struct vgpu_driver *d, vgpu_nsec now);
int settings_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now);
int settings_program(struct vgpu_driver *d, const struct vgpu_program *program, vgpu_nsec now);
int settings_programmed(struct vgpu_driver *d, struct vgpu_program *applied);
int settings_stop(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now);
