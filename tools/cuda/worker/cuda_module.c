/* SPDX-License-Identifier: MIT */
/* Loads guests' modules on an NVIDIA GPU, counts their memory, and checks their functions before
 * launches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"
#include "gate.h"
#include "image.h"

/* The result of a compilation: a binary for this GPU, or none after a CHECK. */
struct compiled {
	uint8_t *image;
	uint64_t memory; /* bytes of device memory that it takes when it is loaded */
	bool gated, prints;
};

/* Returns the bytes that all modules count if MODULE takes MEMORY; *SMALL: the total of those that
 * share pages. */
static uint64_t count_with(const struct cuda_extra *x, uint32_t module, uint64_t memory,
			   uint64_t *small)
{
	uint64_t large = 0, size;
	uint32_t i;

	*small = 0;
	for (i = 0; i < DEVICE_MODULES; i++) {
		size = i == module ? memory : x->modules[i];
		*(size < CUDA_PAGE ? small : &large) += size;
	}
	return large;
}

/* Returns the bytes of the VF's allowance that are used if MODULE takes MEMORY and the local memory
 * is LOCAL. Small modules count with their largest total so far, because unloading some may not
 * free a page. */
static uint64_t used_with(const struct cuda_extra *x, uint32_t module, uint64_t memory,
			  uint64_t local)
{
	uint64_t small, large = count_with(x, module, memory, &small), most = x->small_most;

	return x->fixed + local + large + cuda_pages(small > most ? small : most);
}

/* Records that MODULE takes MEMORY from now on. Called by the ring's thread. */
static void count(struct cuda_extra *x, uint32_t module, uint64_t memory)
{
	uint64_t small;

	x->modules[module] = memory;
	count_with(x, module, memory, &small);
	if (small == 0 || small > x->small_most)
		x->small_most = small;
}

/* Checks that the binary, of SIZE bytes, fits into the VF's allowance. Returns 0, or -EINVAL with
 * one sentence. */
static int check_memory(const struct device *d, uint32_t module, struct compiled *c, uint64_t size,
			struct vgpu_error *err)
{
	const struct cuda_extra *x = &d->extra;
	struct image_needs needs;
	uint64_t used;
	int r = image_needs(c->image, size, &needs, err);

	if (r < 0)
		return r;
	if (!needs.code)
		return vgpu_error_set(err, -EINVAL, "the image has no GPU kernel");
	if (needs.nested)
		return vgpu_error_set(
			err, -EINVAL,
			"GPU kernels that launch GPU kernels are not supported, because the driver "
			"would allocate memory for them outside the VF's partition");
	if (needs.memory <= x->most) {
		c->memory = cuda_module_takes(d, needs.memory);
		if (used_with(x, module, c->memory, x->local) <= x->most)
			return 0;
	}
	used = used_with(x, module, 0, x->local);
	return vgpu_error_set(err, -ENOMEM,
			      "the module takes %llu MiB, and %llu MiB of the VF's %llu MiB for "
			      "modules (softgpu's --module-memory) are left",
			      (unsigned long long)(needs.memory >> 20) + 1,
			      (unsigned long long)((x->most > used ? x->most - used : 0) >> 20),
			      (unsigned long long)(x->most >> 20));
}

int cuda_compile(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes, uint32_t flags,
		 void **compiled, char *log, uint32_t log_size)
{
	struct compiled *c = calloc(1, sizeof(*c));
	struct vgpu_error err = {""};
	uint64_t size;
	int r = c ? 0 : vgpu_error_set(&err, -ENOMEM, "out of memory");

	if (r == 0)
		r = cuda_make_binary(d, image, bytes, flags, &c->image, &size, log, log_size, &err);
	if (r == 0 && !(flags & SOFTGPU_MODULE_CHECK))
		r = check_memory(d, module, c, size, &err);
	free(image);
	if (r == 0 && c->image)
		c->prints = memmem(c->image, size, "vprintf", strlen("vprintf"));
	if (r < 0) {
		if (err.text[0])
			snprintf(log, log_size, "%s", err.text);
		if (c)
			cuda_drop(c);
		return r;
	}
	c->gated = flags & SOFTGPU_MODULE_GATED;
	*compiled = c;
	return 0;
}

void cuda_drop(void *compiled)
{
	struct compiled *c = compiled;

	free(c->image);
	free(c);
}

/* As in struct device_ops. Checks the allowance again, because another ring may have used it up
 * while this module was compiled. */
int cuda_load_module(struct device *d, uint32_t module, void *compiled)
{
	struct compiled *c = compiled;
	CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
	const bool prints = c->prints;

	if (used_with(&d->extra, module, c->memory, d->extra.local) <= d->extra.most)
		e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = d->api.cuModuleLoadDataEx(&d->modules[module], c->image, 0, NULL, NULL);
	if (e == CUDA_SUCCESS)
		count(&d->extra, module, c->memory);
	d->gated[module] = c->gated;
	cuda_drop(c);
	return e == CUDA_SUCCESS		   ? prints
	       : e == CUDA_ERROR_OUT_OF_MEMORY	   ? -ENOMEM
	       : e == CUDA_ERROR_NO_BINARY_FOR_GPU ? -ENOEXEC
						   : -EINVAL;
}

void cuda_unload(struct device *d, uint32_t module)
{
	if (d->api.cuModuleUnload(d->modules[module]) == CUDA_SUCCESS)
		count(&d->extra, module, 0);
}

/* Counts the local memory of F against the VF's allowance: the driver allocates it for all threads
 * that may run at a time, and keeps the most that any GPU kernel has needed. Returns 0 or
 * -EINVAL. */
static int count_local(struct device *d, CUfunction f)
{
	struct cuda_extra *x = &d->extra;
	uint64_t wanted;
	int bytes = 0;

	if (d->api.cuFuncGetAttribute(&bytes, CU_FUNC_LOCAL_SIZE_BYTES, f) != CUDA_SUCCESS ||
	    bytes < 0)
		return -EINVAL;
	wanted = (uint64_t)bytes <= x->stack ? 0 : cuda_pages((uint64_t)bytes * x->threads);
	if (wanted <= x->local)
		return 0;
	if (used_with(x, DEVICE_MODULES, 0, wanted) > x->most) {
		if (!x->reported)
			fprintf(stderr,
				"<5>softgpu: VF %u: a GPU kernel needs %d bytes of local memory "
				"for "
				"each of %llu threads, more than is left of --module-memory: it is "
				"refused\n",
				d->vf, bytes, (unsigned long long)x->threads);
		x->reported = true;
		return -EINVAL;
	}
	x->local = wanted;
	return 0;
}

/* Reads the layout of the function's parameters, without the gate's parameter. Returns 0 or
 * -EINVAL. */
static int read_params(struct device *d, CUfunction f, bool gated, struct device_params *params)
{
	size_t before = gated ? GATE_PARAM_SIZE : 0, at, size;
	uint32_t i, skip = gated ? 1 : 0;

	for (i = 0; d->api.cuFuncGetParamInfo(f, i + skip, &at, &size) == CUDA_SUCCESS; i++) {
		if (i == SOFTGPU_MAX_LAUNCH_ARGS || at < before ||
		    at - before + size > SOFTGPU_MAX_LAUNCH_BYTES)
			return -EINVAL;
		params->offset[i] = (uint32_t)(at - before);
		params->size[i] = (uint32_t)size;
		params->bytes = (uint32_t)(at - before + size);
	}
	params->n = i;
	return 0;
}

CUresult cuda_allow_shared(struct device *d, CUfunction f)
{
	int fixed = 0;
	CUresult e = d->api.cuFuncGetAttribute(&fixed, CU_FUNC_SHARED_SIZE_BYTES, f);

	return e != CUDA_SUCCESS ? e
				 : d->api.cuFuncSetAttribute(f, CU_FUNC_MAX_DYNAMIC_SHARED,
							     d->max_shared - fixed);
}

int cuda_function(struct device *d, uint32_t module, const char *name, struct piece *p,
		  struct device_params *params)
{
	uint64_t threads = (uint64_t)p->block[0] * p->block[1] * p->block[2], blocks = 1;
	int most = 0, fixed = 0, i;
	CUfunction f;
	CUresult e;

	if (d->api.cuModuleGetFunction(&f, d->modules[module], name) != CUDA_SUCCESS)
		return -EINVAL;
	for (i = 0; i < 3; i++) {
		if (p->grid[i] > (uint32_t)d->max_grid[i] || p->block[i] > 1024)
			return -EINVAL;
		/* The product of two numbers below 2^32 does not wrap, and a product that exceeds
		 * DEVICE_MARKS is not multiplied further. */
		if (blocks <= DEVICE_MARKS)
			blocks *= p->grid[i];
	}
	e = d->api.cuFuncGetAttribute(&most, CU_FUNC_MAX_THREADS_PER_BLOCK, f);
	if (e == CUDA_SUCCESS)
		e = d->api.cuFuncGetAttribute(&fixed, CU_FUNC_SHARED_SIZE_BYTES, f);
	if (e != CUDA_SUCCESS || threads > (uint64_t)most ||
	    p->shared > (uint32_t)(d->max_shared > fixed ? d->max_shared - fixed : 0))
		return -EINVAL;
	if (p->shared > 0 && cuda_allow_shared(d, f) != CUDA_SUCCESS)
		return -EINVAL;
	if (p->kind == PIECE_FUNCTION && count_local(d, f) < 0)
		return -EINVAL;
	p->function = f;
	p->flags = d->gated[module] ? HAS_GATE : 0;
	/* A cooperative launch gets no gate, because blocks that have begun would wait for blocks
	 * that the gate holds back. */
	p->gated = d->gated[module] && blocks <= DEVICE_MARKS && !p->together;
	return read_params(d, f, d->gated[module], params);
}
