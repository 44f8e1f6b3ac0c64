/* SPDX-License-Identifier: MIT */
/* Compiles and loads modules, of guests and softgpu's own, on an NVIDIA GPU, and checks their
 * functions before they are launched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"
#include "gate.h"

/* The result of a compilation: a binary for this GPU. */
struct compiled {
	void *image;
	bool gated;
};

CUresult cuda_assemble(struct device *d, char *text, void **image, char *log, uint32_t log_size)
{
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)log_size}, *made;
	CUresult e, ended;
	CUlink link;
	size_t size;

	e = d->api.cuLinkCreate(2, options, values, &link);
	if (e != CUDA_SUCCESS)
		return e;
	e = d->api.cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "module", 0, NULL,
				 NULL);
	if (e == CUDA_SUCCESS)
		e = d->api.cuLinkComplete(link, &made, &size);
	if (e == CUDA_SUCCESS) {
		*image = malloc(size);
		if (*image)
			memcpy(*image, made, size);
		else
			e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	ended = d->api.cuLinkDestroy(link);
	return e == CUDA_SUCCESS ? ended : e;
}

/* Compiles PTX, with a gate if GATED. 0 with *OUT, which the caller frees; or -errno with *ERR,
 * which is empty if LOG has the compiler's messages. */
static int compile_ptx(struct device *d, char *ptx, uint64_t bytes, bool gated, void **out,
		       char *log, uint32_t log_size, struct vgpu_error *err)
{
	char *gated_ptx = NULL;
	CUresult e;
	int r = 0;

	if (gated)
		r = gate_ptx(ptx, bytes, &gated_ptx, err);
	if (r < 0)
		return r;
	e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = cuda_assemble(d, gated ? gated_ptx : ptx, out, log, log_size);
	free(gated_ptx);
	if (e == CUDA_SUCCESS)
		return 0;
	return vgpu_error_set(err, -EINVAL, "%s", log[0] ? "" : cuda_error_name(d, e));
}

int cuda_compile(struct device *d, uint8_t *image, uint64_t bytes, bool gated, void **compiled,
		 char *log, uint32_t log_size)
{
	struct compiled *c = calloc(1, sizeof(*c));
	struct vgpu_error err = {""};
	int r = 0;

	if (!c) {
		r = vgpu_error_set(&err, -ENOMEM, "out of memory");
	} else if (gate_is_ptx(image, bytes)) {
		r = compile_ptx(d, (char *)image, bytes, gated, &c->image, log, log_size, &err);
	} else if (gated) {
		r = vgpu_error_set(&err, -EINVAL,
				   "the image is not PTX; only PTX can be loaded as gated");
	} else {
		c->image = image; /* a binary: the driver checks it when it is loaded */
		image = NULL;
	}
	free(image);
	if (r < 0) {
		if (err.text[0])
			snprintf(log, log_size, "%s", err.text);
		free(c);
		return r;
	}
	c->gated = gated;
	*compiled = c;
	return 0;
}

int cuda_load_module(struct device *d, uint32_t module, void *compiled)
{
	struct compiled *c = compiled;
	CUresult e = d->api.cuCtxSetCurrent(d->context);

	if (e == CUDA_SUCCESS)
		e = d->api.cuModuleLoadDataEx(&d->modules[module], c->image, 0, NULL, NULL);
	d->gated[module] = c->gated;
	free(c->image);
	free(c);
	return e == CUDA_SUCCESS ? 0 : -EINVAL;
}

void cuda_unload(struct device *d, uint32_t module)
{
	d->api.cuModuleUnload(d->modules[module]);
}

/* Reads where the function's parameters lie, the gate's left out. 0 or -EINVAL. */
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
		 * the number of marks is not multiplied further. */
		if (blocks <= DEVICE_MARKS)
			blocks *= p->grid[i];
	}
	e = d->api.cuFuncGetAttribute(&most, CU_FUNC_MAX_THREADS_PER_BLOCK, f);
	if (e == CUDA_SUCCESS)
		e = d->api.cuFuncGetAttribute(&fixed, CU_FUNC_SHARED_SIZE_BYTES, f);
	if (e != CUDA_SUCCESS || threads > (uint64_t)most ||
	    p->shared > (uint32_t)(d->max_shared > fixed ? d->max_shared - fixed : 0))
		return -EINVAL;
	if (p->shared > 0 && d->api.cuFuncSetAttribute(f, CU_FUNC_MAX_DYNAMIC_SHARED,
						       (int)p->shared) != CUDA_SUCCESS)
		return -EINVAL;
	p->function = f;
	p->flags = d->gated[module] ? HAS_GATE : 0;
	p->gated = d->gated[module] && blocks <= DEVICE_MARKS;
	return read_params(d, f, d->gated[module], params);
}
