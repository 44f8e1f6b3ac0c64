/* SPDX-License-Identifier: MIT */
/*
 * What the tests of drivers for GPUs under a driver of the kernel share: the driver under test, the
 * GPU that it has opened, and refusals, which every driver is held to. One thread.
 */
#pragma once

#include "machine.h"
#include "vgpu/driver.h"

#define DEADLINE_MS 20000

/* The driver under test, and where its made-up kernel notes what is written: the test says which.
 */
extern const struct vgpu_driver_ops *const ops;
extern char *const trace;

/* What open() of the driver made and said; what the driver has told since. */
extern struct vgpu_driver *gpu;
extern struct vgpu_driver_caps caps;
extern struct vgpu_driver_found found;
extern struct vgpu_error err;
extern struct vgpu_event told[16];
extern uint32_t n_told;

int try_open(struct vgpu_driver_config config);
/* Opening must succeed. */
void open_as(struct vgpu_driver_config config);
void close_gpu(void);
/* Waits until the driver's descriptor says that something is done, and dispatches. */
int await_and_dispatch(void);
/* Waits until the driver has told N events. */
void await_told(uint32_t n);
/* Programs, waits, and returns the answer. */
int program(struct vgpu_program p, struct vgpu_program *applied);

/* Why a driver refuses a GPU. What makes it do so: a file of the PF, a link of the PF, a path that
 * is missing, a number or a text of the made-up kernel, what is asked for, or a function. */
struct refusal {
	const char *why;
	int code;
	const char *file, *text;
	const char *link, *to;
	const char *gone;
	int *number, value;
	const char **says, *said;
	uint32_t vfs;		  /* 0: as many as there are */
	uint64_t size, all, host; /* partition of VF 1, and of each VF; host memory */
	const char *layout;
	void (*spoil)(struct vgpu_driver_config *config);
};

/* The same for all GPUs on the machine of machine.h. */
#define NO_VENDOR(why_, text_)                                                                     \
	{                                                                                          \
		.why = why_, .code = -ENODEV, .file = "vendor", .text = text_                      \
	}
#define NO_DRIVER(why_, driver)                                                                    \
	{                                                                                          \
		.why = why_, .code = -ENODEV, .link = "driver", .to = "../../drivers/" driver      \
	}
#define IS_A_VF                                                                                    \
	{                                                                                          \
		.why = "is a VF; give its PF, 0000:02:00.0", .code = -EINVAL, .link = "physfn",    \
		.to = "../0000:02:00.0"                                                            \
	}
#define NO_HOST_MEMORY                                                                             \
	{                                                                                          \
		.why = "host_memory_mib", .code = -EINVAL, .host = 64 << 20                        \
	}
#define NO_LAYOUT                                                                                  \
	{                                                                                          \
		.why = "layout = navi", .code = -EINVAL, .layout = "navi"                          \
	}

/* Holds the driver to N refusals, each on a machine that MAKE makes and REMOVE removes: it says
 * what, where and what to do. AS_IT_WAS checks that the GPU is untouched. */
void refuse_each(const struct refusal *refusals, unsigned n, struct vgpu_driver_config config,
		 void (*make)(void), void (*as_it_was)(void), void (*remove)(void));
