/* SPDX-License-Identifier: MIT */
/*
 * An NVIDIA GPU as a device: one context, one stream, in a process that serves one VF and then
 * ends. The VF's memory is reserved whole when it begins, and mapped nowhere else; its window is
 * its own memory file, pinned. Nothing else can be allocated on a guest's behalf.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cuda_private.h"
#include "gate.h"
#include "limit.h"
#include "protocol.h"
#include "rm.h"

/* Another worker's memory comes back a while after it has gone. */
#define MEMORY_TRIES 100
#define MEMORY_TRY_NS 50000000
#define CLEAR_BYTES (UINT64_C(256) << 20)

/* kernels.ptx, as text */
extern const char kernels_ptx[];

const char *cuda_error_name(struct device *d, CUresult e)
{
	const char *name = NULL;

	if (d->api.cuGetErrorName(e, &name) != CUDA_SUCCESS || !name)
		return "an unknown error";
	return name;
}

static int failed(struct device *d, CUresult e, const char *what, struct vgpu_error *err)
{
	return vgpu_error_set(err, -EIO, "CUDA: %s: %s", what, cuda_error_name(d, e));
}

static int attribute(struct device *d, CUdevice device, int which)
{
	int value = 0;

	d->api.cuDeviceGetAttribute(&value, which, device);
	return value;
}

static int open_gpu(struct device *d, uint32_t index, CUdevice *out, struct vgpu_error *err)
{
	char name[NAME_SIZE] = "";
	CUresult e = d->api.cuInit(0);
	int n = 0, i;

	if (e == CUDA_ERROR_NO_DEVICE)
		return vgpu_error_set(err, -ENODEV, "the NVIDIA driver sees no GPU");
	if (e != CUDA_SUCCESS)
		return failed(d, e,
			      "it does not start (are driver and kernel module of one version?)",
			      err);
	d->api.cuDeviceGetCount(&n);
	if (index >= (uint32_t)n)
		return vgpu_error_set(err, -ENODEV, "--gpu %u: there are %d GPUs, from 0", index,
				      n);
	e = d->api.cuDeviceGet(out, (int)index);
	if (e != CUDA_SUCCESS)
		return failed(d, e, "the GPU does not open", err);
	d->api.cuDeviceGetName(name, sizeof(name), *out);
	snprintf(d->name, sizeof(d->name), "%s", name);
	if (attribute(d, *out, CU_ATTRIBUTE_COMPUTE_MODE) != CU_COMPUTE_DEFAULT)
		return vgpu_error_set(err, -EBUSY,
				      "%s takes one process only: set its compute mode to DEFAULT "
				      "(nvidia-smi -c 0)",
				      name);
	if (attribute(d, *out, CU_ATTRIBUTE_KERNEL_TIMEOUT))
		return vgpu_error_set(err, -EBUSY,
				      "%s drives a display, and so its driver ends kernels that "
				      "take long, those that wait for their turn, too: end the "
				      "display server, or take another GPU",
				      name);
	if (attribute(d, *out, CU_ATTRIBUTE_MAJOR) < 7 ||
	    !attribute(d, *out, CU_ATTRIBUTE_VIRTUAL_MEMORY))
		return vgpu_error_set(
			err, -EOPNOTSUPP,
			"%s (compute capability %d.%d) is too old: 7.0 or newer, with "
			"virtual memory, is needed",
			name, attribute(d, *out, CU_ATTRIBUTE_MAJOR),
			attribute(d, *out, CU_ATTRIBUTE_MINOR));
	for (i = 0; i < 3; i++)
		d->max_grid[i] = attribute(d, *out, CU_ATTRIBUTE_MAX_GRID_X + i);
	d->max_shared = attribute(d, *out, CU_ATTRIBUTE_MAX_SHARED_OPTIN);
	return 0;
}

static int make_context(struct device *d, CUdevice device, struct vgpu_error *err)
{
	CUresult e;
	uint32_t i;

	d->api.cuDevicePrimaryCtxSetFlags(device, CU_CTX_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX);
	e = d->api.cuDevicePrimaryCtxRetain(&d->context, device);
	e = e ? e : d->api.cuCtxSetCurrent(d->context);
	e = e ? e : d->api.cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
	for (i = 0; i < DEVICE_SLOTS && e == CUDA_SUCCESS; i++)
		e = d->api.cuEventCreate(&d->events[i], CU_EVENT_DISABLE_TIMING);
	if (e != CUDA_SUCCESS)
		return failed(d, e, "no context", err);
	/* What kernels could allocate by themselves, beside the partition: as little as it takes.
	 */
	d->api.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0);
	return 0;
}

static CUresult clear(struct device *d)
{
	CUresult e = CUDA_SUCCESS;
	uint64_t at, n;

	for (at = 0; at < d->behind && e == CUDA_SUCCESS; at += n) {
		n = d->behind - at < CLEAR_BYTES ? d->behind - at : CLEAR_BYTES;
		e = d->api.cuMemsetD8Async(d->memory_at + at, 0, n, d->stream);
		e = e ? e : d->api.cuStreamSynchronize(d->stream);
	}
	return e;
}

/* All of the VF's memory behind its window, cleared. */
static int take_memory(struct device *d, CUdevice device, struct vgpu_error *err)
{
	const struct cu_allocation what = {.type = 1, .location = {1, device}};
	const struct cu_access access = {{1, device}, 3};
	const struct timespec pause = {.tv_nsec = MEMORY_TRY_NS};
	size_t grain = 0;
	CUresult e;
	int i;

	if (d->behind == 0)
		return 0;
	e = d->api.cuMemGetAllocationGranularity(&grain, &what, 0);
	if (e != CUDA_SUCCESS || grain == 0)
		return failed(d, e, "no granularity", err);
	d->reserved = (d->behind + grain - 1) / grain * grain;
	for (i = 0; i < MEMORY_TRIES; i++) {
		e = d->api.cuMemCreate(&d->memory, d->reserved, &what, 0);
		if (e != CUDA_ERROR_OUT_OF_MEMORY)
			break;
		nanosleep(&pause, NULL);
	}
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return vgpu_error_set(
			err, -ENOMEM,
			"%s has no %llu MiB left: others use it, or --vram is too much", d->name,
			(unsigned long long)(d->reserved >> 20));
	e = e ? e : d->api.cuMemAddressReserve(&d->memory_at, d->reserved, 0, 0, 0);
	e = e ? e : d->api.cuMemMap(d->memory_at, d->reserved, 0, d->memory, 0);
	e = e ? e : d->api.cuMemSetAccess(d->memory_at, d->reserved, &access, 1);
	e = e ? e : clear(d);
	return e ? failed(d, e, "the VF's memory", err) : 0;
}

/* The window, and what we need ourselves, which no packet reaches. */
static int map_host(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	const uint64_t marks = (uint64_t)DEVICE_SLOTS * DEVICE_MARKS * 8;
	void *page;
	CUresult e;

	e = d->api.cuMemHostRegister(setup->window, setup->window_size,
				     CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
	e = e ? e : d->api.cuMemHostGetDevicePointer(&d->window_at, setup->window, 0);
	if (e != CUDA_SUCCESS)
		return failed(d, e,
			      "the window cannot be pinned (is there memory for it, and "
			      "RLIMIT_MEMLOCK?)",
			      err);
	e = d->api.cuMemHostAlloc(&page, sizeof(*d->gate), CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
	if (e == CUDA_SUCCESS) {
		d->gate = page;
		memset(page, 0, sizeof(*d->gate));
		e = d->api.cuMemHostGetDevicePointer(&d->gate_at, page, 0);
	}
	e = e ? e : d->api.cuMemAlloc(&d->marks_at, marks);
	e = e ? e : d->api.cuMemsetD8Async(d->marks_at, 0, marks, d->stream);
	e = e ? e : d->api.cuMemAlloc(&d->scratch_at, 4096);
	e = e ? e : d->api.cuStreamSynchronize(d->stream);
	return e ? failed(d, e, "memory of its own", err) : 0;
}

static int load_kernels(struct device *d, struct vgpu_error *err)
{
#define NAME(number, name) #name,
	static const char *const names[KERNELS] = {KERNEL_LIST(NAME)};
#undef NAME
	char log[1024] = "", *text;
	void *image = NULL;
	CUresult e;
	uint32_t i;
	int r = gate_ptx(kernels_ptx, strlen(kernels_ptx), &text, err);

	if (r < 0)
		return r;
	e = cuda_assemble(d, text, &image, log, sizeof(log));
	free(text);
	e = e ? e : d->api.cuModuleLoadDataEx(&d->own, image, 0, NULL, NULL);
	free(image);
	for (i = 0; i < KERNELS && e == CUDA_SUCCESS; i++)
		e = d->api.cuModuleGetFunction(&d->kernels[i], d->own, names[i]);
	if (e != CUDA_SUCCESS)
		return vgpu_error_set(err, -EIO, "CUDA: our kernels do not load: %s: %.100s",
				      cuda_error_name(d, e), log);
	return 0;
}

static int cuda_launch(struct device *d, uint32_t slot, const struct piece *p);
static enum device_state cuda_poll(struct device *d, uint32_t slot);

/* libcuda makes its channels when they are first used: now, while nobody waits, so that what takes
 * them off the GPU knows them all. */
static int warm_up(struct device *d, struct vgpu_error *err)
{
	struct piece spin = {.kind = PIECE_KERNEL,
			     .kernel = KERNEL_SPIN,
			     .grid = {1, 1, 1},
			     .block = {1, 1, 1},
			     .params_size = sizeof(struct kernel_args)};
	const uint64_t n = d->window_size < 65536 ? d->window_size : 65536;
	CUresult e = CUDA_SUCCESS;

	if (cuda_launch(d, 0, &spin) < 0)
		return vgpu_error_set(err, -EIO, "CUDA: %s does not compute", d->name);
	if (d->behind > 0) {
		e = d->api.cuMemcpyAsync(d->memory_at, d->window_at, n, d->stream);
		e = e ? e : d->api.cuMemcpyAsync(d->window_at, d->memory_at, n, d->stream);
		e = e ? e : d->api.cuMemsetD8Async(d->memory_at, 0, n, d->stream);
	}
	e = e ? e : d->api.cuStreamSynchronize(d->stream);
	return e ? failed(d, e, "it does not copy", err) : 0;
}

static int cuda_prepare(struct device **out, const struct device_setup *setup,
			struct vgpu_error *err)
{
	const struct rlimit pinned = {RLIM_INFINITY, RLIM_INFINITY};
	struct device *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = cuda_load(CUDA_LIBRARY, &d->api, err);
	if (r < 0) {
		free(d);
		return r;
	}
	if (setup->limit > 0)
		limit_memory(LIMIT_ROOT, setup->gpu, getppid(), setup->vf, setup->limit, &d->wall);
	setrlimit(RLIMIT_MEMLOCK, &pinned);
	*out = d;
	return 0;
}

static int cuda_open(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	CUdevice device;
	int r;

	/* Modules are loaded when they are asked for, not within a slice; no worker sees by the
	 * time it takes what another has compiled. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
	/* A daemon that lets processes share a context would end the partition: none is used, but
	 * one that is named, to be compared with. */
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 0);
	d->window_size = setup->window_size;
	d->behind = setup->size - setup->window_size;
	r = open_gpu(d, setup->gpu, &device, err);
	r = r ? r : make_context(d, device, err);
	r = r ? r : take_memory(d, device, err);
	r = r ? r : map_host(d, setup, err);
	r = r ? r : load_kernels(d, err);
	r = r ? r : warm_up(d, err);
	if (r < 0)
		free(d); /* the process ends, and all it has with it */
	return r;
}

static void cuda_close(struct device *d)
{
	if (d->behind > 0 && clear(d) == CUDA_SUCCESS) {
		d->api.cuMemUnmap(d->memory_at, d->reserved);
		d->api.cuMemRelease(d->memory);
	}
	free(d);
}

static void cuda_about(struct device *d, struct device_about *about)
{
	size_t left = 0, all;

	d->api.cuMemGetInfo(&left, &all);
	*about = (struct device_about){
		.stops = WORKER_STOP_BLOCK,
		.modules = true,
		.free = left,
	};
	snprintf(about->name, sizeof(about->name), "%s, CUDA %d.%d", d->name, d->api.version / 1000,
		 d->api.version % 1000 / 10);
	snprintf(about->wall, sizeof(about->wall), "%.127s", d->wall.text);
	if (rm_offers(WORKER_STOP_CHANNELS))
		about->stops |= WORKER_STOP_CHANNELS;
	if (rm_offers(WORKER_STOP_GROUPS))
		about->stops |= WORKER_STOP_GROUPS;
}

static uint64_t cuda_address(struct device *d, uint64_t offset)
{
	return offset < d->window_size ? d->window_at + offset
				       : d->memory_at + (offset - d->window_size);
}

static uint64_t cuda_scratch(struct device *d)
{
	return d->scratch_at;
}

/* What a call says that was refused: of the call, or of the device. */
static int refusal(CUresult e)
{
	switch (e) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

static CUresult launch_kernel(struct device *d, uint32_t slot, const struct piece *p)
{
	bool own = p->kind == PIECE_KERNEL, has_gate = own || p->flags & HAS_GATE;
	_Alignas(16) uint8_t buffer[GATE_PARAM_SIZE + SOFTGPU_MAX_LAUNCH_BYTES] = {0};
	size_t before = has_gate ? GATE_PARAM_SIZE : 0, size = before + p->params_size;
	void *extra[] = {(void *)1, buffer, (void *)2, &size, (void *)0};
	struct gate_param gate = {0};

	if (p->gated)
		gate = (struct gate_param){
			.marks = d->marks_at + (uint64_t)slot * DEVICE_MARKS * 8,
			.flag = d->gate_at + offsetof(struct gate_page, flag),
			.skipped = d->gate_at + offsetof(struct gate_page, skipped[slot]),
			.serial = p->serial,
		};
	memcpy(buffer, &gate, sizeof(gate));
	memcpy(buffer + before, p->params, p->params_size);
	d->serials[slot] = p->gated ? p->serial : 0;
	return d->api.cuLaunchKernel(own ? d->kernels[p->kernel] : p->function, p->grid[0],
				     p->grid[1], p->grid[2], p->block[0], p->block[1], p->block[2],
				     p->shared, d->stream, NULL, size ? extra : NULL);
}

static int cuda_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	CUresult e;

	/* Calls may come from the thread that opened it, or from the ring's. */
	e = d->api.cuCtxSetCurrent(d->context);
	atomic_store(&d->gate->skipped[slot], 0);
	if (p->kind == PIECE_TRANSFER) {
		d->serials[slot] = 0;
		e = e ? e : d->api.cuMemcpyAsync(p->dst, p->src, p->bytes, d->stream);
	} else {
		e = e ? e : launch_kernel(d, slot, p);
	}
	e = e ? e : d->api.cuEventRecord(d->events[slot], d->stream);
	return refusal(e);
}

static enum device_state cuda_poll(struct device *d, uint32_t slot)
{
	switch (d->api.cuEventQuery(d->events[slot])) {
	case CUDA_SUCCESS:
		return d->serials[slot] && atomic_load(&d->gate->skipped[slot]) == d->serials[slot]
			       ? DEVICE_SKIPPED
			       : DEVICE_DONE;
	case CUDA_ERROR_NOT_READY:
		return DEVICE_RUNNING;
	default:
		return DEVICE_LOST;
	}
}

static void cuda_gate(struct device *d, bool shut)
{
	atomic_store(&d->gate->flag, shut);
}

static int cuda_stop(struct device *d, uint32_t method)
{
	(void)d;
	return rm_stop(method);
}

static int cuda_resume(struct device *d)
{
	(void)d;
	return rm_resume();
}

const struct device_ops device_cuda = {
	.file = "/dev/nvidiactl",
	.prepare = cuda_prepare,
	.open = cuda_open,
	.close = cuda_close,
	.about = cuda_about,
	.address = cuda_address,
	.scratch = cuda_scratch,
	.launch = cuda_launch,
	.poll = cuda_poll,
	.gate = cuda_gate,
	.stop = cuda_stop,
	.resume = cuda_resume,
	.compile = cuda_compile,
	.load = cuda_load_module,
	.unload = cuda_unload,
	.function = cuda_function,
};
