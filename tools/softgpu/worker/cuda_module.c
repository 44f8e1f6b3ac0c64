/* SPDX-License-Identifier: MIT */
/* Compiles and loads modules, of guests and softgpu's own, on an NVIDIA GPU, and checks their
 * functions before they are launched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"
#include "gate.h"
#include "image.h"

/* A module's sections lie in pages of the driver's of this size. */
#define MODULE_GRAIN (UINT64_C(2) << 20)

/* The result of a compilation: a binary for this GPU. */
struct compiled {
	uint8_t *image;
	uint64_t memory; /* bytes that it takes when it is loaded */
	bool gated;
};

CUresult cuda_assemble(struct device *d, char *text, uint8_t **out, size_t *size, char *log,
		       uint32_t log_size)
{
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)log_size}, *made;
	CUresult e, ended;
	CUlink link;

	e = d->api.cuLinkCreate(2, options, values, &link);
	if (e != CUDA_SUCCESS)
		return e;
	e = d->api.cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "module", 0, NULL,
				 NULL);
	if (e == CUDA_SUCCESS)
		e = d->api.cuLinkComplete(link, &made, size);
	if (e == CUDA_SUCCESS) {
		*out = malloc(*size);
		if (*out)
			memcpy(*out, made, *size);
		else
			e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	ended = d->api.cuLinkDestroy(link);
	return e == CUDA_SUCCESS ? ended : e;
}

/* An image on its way to a binary for this GPU. */
struct job {
	struct device *d;
	uint8_t *image, *out;
	uint64_t bytes, size;
	char *log;
	uint32_t log_size;
};

/* Compiles PTX. 0; or -EINVAL with *ERR, which is empty if the log has the compiler's messages. */
static int assemble(struct job *j, char *text, struct vgpu_error *err)
{
	CUresult e = j->d->api.cuCtxSetCurrent(j->d->context);
	size_t size = 0;

	if (e == CUDA_SUCCESS)
		e = cuda_assemble(j->d, text, &j->out, &size, j->log, j->log_size);
	j->size = size;
	if (e == CUDA_SUCCESS)
		return 0;
	return vgpu_error_set(err, -EINVAL, "%s", j->log[0] ? "" : cuda_error_name(j->d, e));
}

static int compile_ptx(struct job *j, char *text, bool gated, struct vgpu_error *err)
{
	char *gated_text = NULL;
	int r = 0;

	if (gated)
		r = gate_ptx(text, strlen(text), &gated_text, err);
	if (gated_text)
		text = gated_text;
	if (r == 0)
		r = assemble(j, text, err);
	free(gated_text);
	return r;
}

static int copy_cubin(struct job *j, struct vgpu_error *err)
{
	j->out = malloc(j->bytes);
	if (!j->out)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	memcpy(j->out, j->image, j->bytes);
	j->size = j->bytes;
	return 0;
}

/* Takes this GPU's binary out of a fat one, or compiles the PTX in it. Nothing that is larger than
 * the VF's allowance for modules would be loaded, so nothing larger is unpacked. */
static int unpack(struct job *j, struct vgpu_error *err)
{
	struct image_member m;
	uint8_t *image = NULL;
	int r = image_find(j->image, j->bytes, j->d->major, j->d->minor, &m, err);

	if (r == 0 && m.kind == IMAGE_UNKNOWN)
		r = vgpu_error_set(err, -EINVAL,
				   "the fat binary has no binary and no PTX for this GPU, compute "
				   "capability %d.%d",
				   j->d->major, j->d->minor);
	if (r == 0)
		r = image_unpack(&m, j->d->extra.most, &image, err);
	if (r < 0)
		return r;
	if (m.kind == IMAGE_CUBIN) {
		j->out = image;
		j->size = m.unpacked;
		return 0;
	}
	r = compile_ptx(j, (char *)image, false, err);
	free(image);
	return r;
}

static int make_binary(struct job *j, bool gated, struct vgpu_error *err)
{
	enum image_kind kind = image_kind(j->image, j->bytes);

	if (kind == IMAGE_PTX)
		return compile_ptx(j, (char *)j->image, gated, err);
	if (gated)
		return vgpu_error_set(err, -EINVAL,
				      "the image is not PTX; only PTX can be loaded as gated");
	if (kind == IMAGE_CUBIN)
		return copy_cubin(j, err);
	if (kind == IMAGE_FAT)
		return unpack(j, err);
	return vgpu_error_set(err, -EINVAL,
			      "the image is no PTX, no cubin and no fat binary: compile it with "
			      "--ptx, --cubin or --fatbin");
}

/* What is left of the VF's allowance if MODULE, and LOCAL instead of its local memory, are left
 * out. */
static uint64_t left_of(const struct cuda_extra *x, uint32_t module, uint64_t local)
{
	uint64_t used = x->fixed + local;
	uint32_t i;

	for (i = 0; i < DEVICE_MODULES; i++)
		used += i == module ? 0 : x->modules[i];
	return x->most > used ? x->most - used : 0;
}

/* Counts the binary against the VF's allowance. 0 with *MEMORY, or -EINVAL with one sentence. */
static int check_memory(const struct job *j, uint32_t module, uint64_t *memory,
			struct vgpu_error *err)
{
	uint64_t left = left_of(&j->d->extra, module, j->d->extra.local);
	struct image_needs needs;
	int r = image_needs(j->out, j->size, &needs, err);

	if (r < 0)
		return r;
	if (!needs.code)
		return vgpu_error_set(err, -EINVAL, "the image has no GPU kernel");
	/* whole pages are counted */
	if (needs.memory > left / MODULE_GRAIN * MODULE_GRAIN)
		return vgpu_error_set(
			err, -EINVAL,
			"the module takes %llu MiB, and %llu MiB of the VF's %llu MiB for "
			"modules (softgpu's --module-memory) are left",
			(unsigned long long)(needs.memory >> 20) + 1,
			(unsigned long long)(left >> 20),
			(unsigned long long)(j->d->extra.most >> 20));
	*memory = (needs.memory + MODULE_GRAIN - 1) / MODULE_GRAIN * MODULE_GRAIN;
	return 0;
}

int cuda_compile(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes, bool gated,
		 void **compiled, char *log, uint32_t log_size)
{
	struct job j = {d, image, NULL, bytes, 0, log, log_size};
	struct compiled *c = calloc(1, sizeof(*c));
	struct vgpu_error err = {""};
	int r = c ? 0 : vgpu_error_set(&err, -ENOMEM, "out of memory");

	if (r == 0)
		r = make_binary(&j, gated, &err);
	if (r == 0)
		r = check_memory(&j, module, &c->memory, &err);
	free(image);
	if (r < 0) {
		if (err.text[0])
			snprintf(log, log_size, "%s", err.text);
		free(j.out);
		free(c);
		return r;
	}
	c->image = j.out;
	c->gated = gated;
	*compiled = c;
	return 0;
}

void cuda_drop(void *compiled)
{
	struct compiled *c = compiled;

	free(c->image);
	free(c);
}

/* While it was compiled, another ring may have taken what was left of the allowance. */
int cuda_load_module(struct device *d, uint32_t module, void *compiled)
{
	struct compiled *c = compiled;
	CUresult e = CUDA_ERROR_OUT_OF_MEMORY;

	if (c->memory <= left_of(&d->extra, module, d->extra.local))
		e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = d->api.cuModuleLoadDataEx(&d->modules[module], c->image, 0, NULL, NULL);
	if (e == CUDA_SUCCESS)
		d->extra.modules[module] = c->memory;
	d->gated[module] = c->gated;
	cuda_drop(c);
	return e == CUDA_SUCCESS ? 0 : -EINVAL;
}

void cuda_unload(struct device *d, uint32_t module)
{
	if (d->api.cuModuleUnload(d->modules[module]) == CUDA_SUCCESS)
		d->extra.modules[module] = 0;
}

/* Counts the local memory of F against the VF's allowance: the driver makes room for all threads
 * that may run at a time, and keeps the most that any GPU kernel has needed. 0 or -EINVAL. */
static int count_local(struct device *d, CUfunction f)
{
	struct cuda_extra *x = &d->extra;
	uint64_t wanted;
	int bytes = 0;

	if (d->api.cuFuncGetAttribute(&bytes, CU_FUNC_LOCAL_SIZE_BYTES, f) != CUDA_SUCCESS ||
	    bytes < 0)
		return -EINVAL;
	wanted = (uint64_t)bytes <= x->stack ? 0 : (uint64_t)bytes * x->threads;
	if (wanted <= x->local)
		return 0;
	if (wanted > left_of(x, DEVICE_MODULES, 0)) {
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
	if (p->shared > 0 && cuda_allow_shared(d, f) != CUDA_SUCCESS)
		return -EINVAL;
	if (count_local(d, f) < 0)
		return -EINVAL;
	p->function = f;
	p->flags = d->gated[module] ? HAS_GATE : 0;
	/* Blocks that have begun wait for those that the gate would hold back. */
	p->gated = d->gated[module] && blocks <= DEVICE_MARKS && !p->together;
	return read_params(d, f, d->gated[module], params);
}
