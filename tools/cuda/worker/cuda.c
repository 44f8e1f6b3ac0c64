/* SPDX-License-Identifier: MIT */
/*
 * An NVIDIA GPU as a device: one context and one stream, in a process that serves one VF and then
 * ends. All of the VF's device memory is reserved at the start and mapped in no other process; its
 * window is a memory file of its own, pinned. What the driver allocates beside it for a guest's GPU
 * kernels is counted against an allowance of the VF (struct cuda_extra).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda_private.h"
#include "gate.h"
#include "gpus.h"
#include "limit.h"
#include "protocol.h"
#include "rm.h"

/* SCRATCH_BYTES of device memory are kept by GPU kernels between pieces; from byte RELAY_IN_SCRATCH
 * on, all their blocks share them. */
#define SCRATCH_BYTES 4096u
#define RELAY_IN_SCRATCH 2048u

/* kernels.ptx, as text */
extern const char kernels_ptx[];

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

	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "it does not start", err);
	d->api.cuDeviceGetCount(&n);
	if (index >= (uint32_t)n)
		return vgpu_error_set(err, -ENODEV,
				      "--gpu %u: there is no such GPU; the highest number is %d",
				      index, n - 1);
	e = d->api.cuDeviceGet(out, (int)index);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "the GPU cannot be opened", err);
	d->gpu = *out;
	d->api.cuDeviceGetName(name, sizeof(name), *out);
	snprintf(d->name, sizeof(d->name), "%s", name);
	if (attribute(d, *out, CU_ATTRIBUTE_COMPUTE_MODE) != CU_COMPUTE_DEFAULT)
		return vgpu_error_set(
			err, -EBUSY,
			"%s accepts one process only: set its compute mode to DEFAULT "
			"(nvidia-smi -c 0)",
			name);
	if (attribute(d, *out, CU_ATTRIBUTE_KERNEL_TIMEOUT))
		return vgpu_error_set(err, -EBUSY,
				      "%s drives a display, so its driver ends GPU kernels that "
				      "take long or wait for their slice: stop the display "
				      "server, or use another GPU",
				      name);
	if (attribute(d, *out, CU_ATTRIBUTE_MAJOR) < 7 ||
	    !attribute(d, *out, CU_ATTRIBUTE_VIRTUAL_MEMORY))
		return vgpu_error_set(
			err, -EOPNOTSUPP,
			"%s (compute capability %d.%d) is too old: softgpu needs 7.0 or newer, "
			"with virtual memory",
			name, attribute(d, *out, CU_ATTRIBUTE_MAJOR),
			attribute(d, *out, CU_ATTRIBUTE_MINOR));
	for (i = 0; i < 3; i++)
		d->max_grid[i] = attribute(d, *out, CU_ATTRIBUTE_MAX_GRID_X + i);
	d->max_shared = attribute(d, *out, CU_ATTRIBUTE_MAX_SHARED_OPTIN);
	d->major = attribute(d, *out, CU_ATTRIBUTE_MAJOR);
	d->minor = attribute(d, *out, CU_ATTRIBUTE_MINOR);
	d->extra.threads = (uint64_t)attribute(d, *out, CU_ATTRIBUTE_PROCESSORS) *
			   (uint64_t)attribute(d, *out, CU_ATTRIBUTE_THREADS_PER_PROCESSOR);
	return 0;
}

/* GPU kernels have a heap and a buffer for printf(), outside the partition. The heap gets the
 * driver's least size, which may exceed the requested one; the buffer keeps CUDA's default of 1
 * MiB, because the driver takes a whole page of 2 MiB in any case. */
static int set_limits(struct device *d, struct vgpu_error *err)
{
	struct cuda_extra *x = &d->extra;
	size_t heap = 0, fifo = 0, stack = 0;
	CUresult e;

	d->api.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0);
	e = d->api.cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE);
	if (e == CUDA_SUCCESS)
		e = d->api.cuCtxGetLimit(&fifo, CU_LIMIT_PRINTF_FIFO_SIZE);
	if (e == CUDA_SUCCESS)
		e = d->api.cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "the memory of the GPU's context cannot be read", err);
	x->fixed = cuda_pages(heap) + cuda_pages(fifo);
	x->stack = stack;
	if (x->fixed > x->most)
		return vgpu_error_set(
			err, -EINVAL,
			"--module-memory %llu bytes is too little: the driver keeps %llu bytes for "
			"the heap and the printf() buffer of GPU kernels",
			(unsigned long long)x->most, (unsigned long long)x->fixed);
	return 0;
}

static int make_context(struct device *d, CUdevice device, struct vgpu_error *err)
{
	CUresult e;
	uint32_t i;

	d->api.cuDevicePrimaryCtxSetFlags(device, CU_CTX_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX);
	e = d->api.cuDevicePrimaryCtxRetain(&d->context, device);
	if (e == CUDA_SUCCESS)
		e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = d->api.cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
	for (i = 0; i < DEVICE_SLOTS && e == CUDA_SUCCESS; i++)
		e = d->api.cuEventCreate(&d->events[i], CU_EVENT_DISABLE_TIMING);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "a context cannot be made", err);
	return set_limits(d, err);
}

/* Pins the window and allocates the memory that the worker itself needs, which no packet can
 * access. */
static int map_host(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	const uint64_t marks = (uint64_t)DEVICE_SLOTS * DEVICE_MARKS * 8;
	void *page;
	CUresult e;

	e = d->api.cuMemHostRegister(setup->window, setup->window_size,
				     CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemHostGetDevicePointer(&d->window_at, setup->window, 0);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemHostRegister(setup->stage, WORKER_STAGE,
					     CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemHostGetDevicePointer(&d->stage_at, setup->stage, 0);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e,
				   "the window cannot be pinned: check free host memory and "
				   "RLIMIT_MEMLOCK, or lower --window",
				   err);
	e = d->api.cuMemHostAlloc(&page, sizeof(*d->gate), CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
	if (e == CUDA_SUCCESS) {
		d->gate = page;
		memset(page, 0, sizeof(*d->gate));
		e = d->api.cuMemHostGetDevicePointer(&d->gate_at, page, 0);
	}
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemAlloc(&d->marks_at, marks);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemsetD8Async(d->marks_at, 0, marks, d->stream);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemAlloc(&d->scratch_at, SCRATCH_BYTES);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemsetD8Async(d->scratch_at, 0, SCRATCH_BYTES, d->stream);
	d->relay_at = d->scratch_at + RELAY_IN_SCRATCH;
	d->epoch = 1;
	if (e == CUDA_SUCCESS)
		e = d->api.cuStreamSynchronize(d->stream);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "the worker's own memory cannot be allocated", err);
	return 0;
}

static int load_kernels(struct device *d, struct vgpu_error *err)
{
#define NAME(number, name) #name,
	static const char *const names[KERNELS] = {KERNEL_LIST(NAME)};
#undef NAME
	char log[1024] = "", *text;
	uint8_t *image = NULL;
	size_t size;
	CUresult e;
	uint32_t i;
	int r = gate_ptx(kernels_ptx, strlen(kernels_ptx), &text, err);

	if (r < 0)
		return r;
	e = cuda_assemble(d, text, &image, &size, log, sizeof(log));
	free(text);
	if (e == CUDA_SUCCESS)
		e = d->api.cuModuleLoadDataEx(&d->own, image, 0, NULL, NULL);
	free(image);
	for (i = 0; i < KERNELS && e == CUDA_SUCCESS; i++)
		e = d->api.cuModuleGetFunction(&d->kernels[i], d->own, names[i]);
	if (e != CUDA_SUCCESS)
		return vgpu_error_set(err, -EIO,
				      "CUDA: softgpu's GPU kernels do not load: %s: %.100s",
				      cuda_error_name(d, e), log);
	return 0;
}

static int cuda_launch(struct device *d, uint32_t slot, const struct piece *p);
static enum device_state cuda_poll(struct device *d, uint32_t slot);

/* libcuda makes each channel on its first use. Uses all of them now, so that rm_stop() knows them
 * all and no guest waits for that later. The window is not used, because its guest may be writing
 * to it. */
static int use_channels(struct device *d, struct vgpu_error *err)
{
	struct piece spin = {.kind = PIECE_KERNEL,
			     .kernel = KERNEL_SPIN,
			     .grid = {1, 1, 1},
			     .block = {1, 1, 1},
			     .params_size = sizeof(struct kernel_args)};
	const CUdeviceptr host = d->gate_at + offsetof(struct gate_page, copied);
	const uint64_t all = sizeof(d->gate->copied), n = d->behind < all ? d->behind : all;
	CUresult e = CUDA_SUCCESS;

	if (cuda_launch(d, 0, &spin) < 0)
		return vgpu_error_set(err, -EIO, "CUDA: %s does not launch a GPU kernel", d->name);
	if (d->behind > 0) {
		e = d->api.cuMemcpyAsync(d->memory_at, host, n, d->stream);
		if (e == CUDA_SUCCESS)
			e = d->api.cuMemcpyAsync(host, d->memory_at, n, d->stream);
		if (e == CUDA_SUCCESS)
			e = d->api.cuMemsetD8Async(d->memory_at, 0, n, d->stream);
	}
	if (e == CUDA_SUCCESS)
		e = d->api.cuStreamSynchronize(d->stream);
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "a test copy to the GPU failed", err);
	return 0;
}

static int cuda_prepare(struct device **out, const struct device_setup *setup,
			struct vgpu_error *err)
{
	const struct rlimit pinned = {RLIM_INFINITY, RLIM_INFINITY};
	struct device *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	d->printed = -1;
	r = cuda_begin_output(d, err);
	if (r == 0)
		r = cuda_load(CUDA_LIBRARY, &d->api, err);
	if (r < 0) {
		cuda_end_output(d);
		free(d);
		return r;
	}
	if (setup->limit > 0)
		limit_memory(LIMIT_ROOT, setup->gpu, getppid(), setup->vf, setup->limit,
			     &d->limit_error);
	setrlimit(RLIMIT_MEMLOCK, &pinned);
	*out = d;
	return 0;
}

/* The steps of cuda_open() that may fail. Returns 0, or -errno with one sentence. */
static int set_up(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	CUdevice device;
	int r = open_gpu(d, setup->gpu, &device, err);

	if (r < 0)
		return r;
	r = make_context(d, device, err);
	if (r < 0)
		return r;
	r = cuda_take_memory(d, err);
	if (r < 0)
		return r;
	cuda_take_arena(d);
	r = map_host(d, setup, err);
	if (r < 0)
		return r;
	r = load_kernels(d, err);
	if (r < 0)
		return r;
	cuda_measure_packing(d);
	return use_channels(d, err);
}

/* Hides all GPUs but GPU from libcuda, unless the environment chooses GPUs. Returns the number of
 * GPU in libcuda. */
static uint32_t show_one(uint32_t gpu)
{
	char uuid[64];

	if (getenv("CUDA_VISIBLE_DEVICES") || gpus_uuid(GPUS_ROOT, gpu, uuid, sizeof(uuid)) < 0)
		return gpu;
	setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
	return 0;
}

static int cuda_open(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	struct device_setup shown = *setup;
	int r;

	rm_driver(RM_VERSION_FILE);
	shown.gpu = show_one(setup->gpu);
	/* Functions are loaded with their module, and not at their first launch, during a slice.
	 * Without a cache of compiled modules, compile times do not reveal to a guest what other
	 * guests have compiled. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
	/* The MPS daemon shares one context among processes, which would break the partition. It is
	 * used only if the environment names it, for comparisons. */
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 0);
	d->window_size = setup->window_size;
	d->behind = setup->size - setup->window_size;
	d->extra.most = setup->modules;
	d->vf = setup->vf;
	r = set_up(d, &shown, err);
	if (r < 0) { /* the process exits now, and the driver frees everything else then */
		free(d->granules);
		cuda_give_arena(d);
		cuda_end_output(d);
		free(d);
	}
	return r;
}

static void cuda_close(struct device *d)
{
	cuda_leave(d);
	cuda_give_arena(d);
	cuda_end_output(d);
	free(d->granules);
	free(d);
}

static void cuda_about(struct device *d, struct device_about *about)
{
	static const uint32_t methods[] = {WORKER_STOP_CHANNELS, WORKER_STOP_GROUPS,
					   WORKER_STOP_SOFT};
	size_t left = 0, all;
	int i;

	d->api.cuMemGetInfo(&left, &all);
	*about = (struct device_about){
		.stops = WORKER_STOP_BLOCK,
		.modules = true,
		.free = left,
	};
	snprintf(about->name, sizeof(about->name), "%s, CUDA %d.%d", d->name, d->api.version / 1000,
		 d->api.version % 1000 / 10);
	for (i = 1; i < (int)SOFTGPU_ATTRIBUTES; i++)
		about->attributes[i] = attribute(d, d->gpu, i);
	snprintf(about->limit_error, sizeof(about->limit_error), "%.127s", d->limit_error.text);
	for (i = 0; i < (int)(sizeof(methods) / sizeof(methods[0])); i++)
		if (rm_offers(methods[i]))
			about->stops |= methods[i];
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

/* Returns 0 for success, -EINVAL if the call was wrong, another error if the device has failed: as
 * launch() of struct device_ops. */
static int error_of(CUresult e)
{
	switch (e) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
	case CUDA_ERROR_NOT_SUPPORTED: /* returned for a cooperative launch */
		return -EINVAL;
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		return -EFAULT;
	case CUDA_ERROR_ASSERT:
		return -ECANCELED;
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
	struct cu_launch_attribute together = {.id = CU_LAUNCH_COOPERATIVE, .cooperative = 1};
	const struct cu_launch launch = {{p->grid[0], p->grid[1], p->grid[2]},
					 {p->block[0], p->block[1], p->block[2]},
					 p->shared,
					 d->stream,
					 &together,
					 1};
	struct gate_param gate = {0};

	if (p->gated)
		gate = (struct gate_param){
			.marks = d->marks_at + (uint64_t)slot * DEVICE_MARKS * 8,
			.flag = d->gate_at + offsetof(struct gate_page, flag),
			.skipped = d->gate_at + offsetof(struct gate_page, skipped[slot]),
			.serial = p->serial,
			.relay = d->relay_at,
			.epoch = d->epoch,
			.period = GATE_PERIOD,
		};
	memcpy(buffer, &gate, sizeof(gate));
	memcpy(buffer + before, p->params, p->params_size);
	d->serials[slot] = p->gated ? p->serial : 0;
	if (p->together)
		return d->api.cuLaunchKernelEx(&launch, p->function, NULL, size ? extra : NULL);
	return d->api.cuLaunchKernel(own ? d->kernels[p->kernel] : p->function, p->grid[0],
				     p->grid[1], p->grid[2], p->block[0], p->block[1], p->block[2],
				     p->shared, d->stream, NULL, size ? extra : NULL);
}

static int cuda_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	/* Called by the thread that opened the device, or by the ring's thread. */
	CUresult e = d->api.cuCtxSetCurrent(d->context);

	if (e != CUDA_SUCCESS)
		return error_of(e);
	atomic_store(&d->gate->skipped[slot], 0);
	if (p->kind == PIECE_TRANSFER) {
		d->serials[slot] = 0;
		e = d->api.cuMemcpyAsync(p->dst, p->src, p->bytes, d->stream);
	} else {
		e = launch_kernel(d, slot, p);
	}
	if (e == CUDA_SUCCESS)
		e = d->api.cuEventRecord(d->events[slot], d->stream);
	return error_of(e);
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
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		return DEVICE_BAD_ADDRESS;
	case CUDA_ERROR_ASSERT:
		return DEVICE_ASSERTED;
	default:
		return DEVICE_LOST;
	}
}

static void cuda_gate(struct device *d, bool shut)
{
	if (!shut)
		d->epoch++;
	atomic_store(&d->gate->flag, shut);
}

static int cuda_stop(struct device *, uint32_t method)
{
	return rm_stop(method);
}

static int cuda_resume(struct device *)
{
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
	.copy = cuda_copy,
	.leave = cuda_leave,
	.enter = cuda_enter,
	.launch = cuda_launch,
	.poll = cuda_poll,
	.gate = cuda_gate,
	.stop = cuda_stop,
	.resume = cuda_resume,
	.compile = cuda_compile,
	.load = cuda_load_module,
	.drop = cuda_drop,
	.unload = cuda_unload,
	.function = cuda_function,
	.attributes = cuda_attributes,
	.occupancy = cuda_occupancy,
	.symbol = cuda_symbol,
	.output = cuda_output,
	.last_words = cuda_last_words,
	.arena = cuda_arena,
	.map = cuda_map,
	.unmap = cuda_unmap,
};
