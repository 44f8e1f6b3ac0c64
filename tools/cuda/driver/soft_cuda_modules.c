/* SPDX-License-Identifier: MIT */
/* Modules, functions and launches of the CUDA driver's interface in software. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft_cuda.h"
#include "soft_gpu.h"

struct module {
	char *text;
	struct ptx *all; /* has the variables */
	struct function *functions;
	struct memory *memory;
	struct module *next;
};

static struct module *modules;

struct link {
	char *log;
	char *text; /* of all images, one after another */

	uint8_t *binary;
	size_t log_size, size;
};

CUresult cuLinkCreate(unsigned n, int *options, void **values, CUlink *out)
{
	struct link *l = calloc(1, sizeof(*l));
	unsigned i;

	for (i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG)
			l->log = values[i];
		else if (options[i] == CU_JIT_ERROR_LOG_SIZE)
			l->log_size = (uintptr_t)values[i];
	}
	*out = l;
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Writes to LOG what is wrong with the names of a text; one that is part of others may lack some.
 */
static bool names_fit(const struct ptx *all, bool part, char *log, size_t n)
{
	const char *twice = ptx_twice(all), *missing = part ? NULL : ptx_missing(all);

	if (twice)
		snprintf(log, n, "Multiple definition of '%s'", twice);
	else if (missing)
		snprintf(log, n, "Undefined reference to '%s'", missing);
	return !twice && !missing;
}

/* Returns whether text is right; that of a PART, as far as it alone tells. Writes to LOG what is
 * wrong. */
static bool is_right(const char *text, bool part, char *log, size_t n)
{
	struct ptx *all = ptx_read(text, NULL);
	bool is;

	if (!all) {
		snprintf(log, n, "ptx: %s", ptx_error());
		return false;
	}
	is = names_fit(all, part, log, n);
	if (is && !ptx_check(all, part)) {
		snprintf(log, n, "ptx: %s", ptx_error());
		is = false;
	}
	ptx_free(all);
	return is;
}

static void append(struct link *l, const char *text)
{
	size_t had = l->text ? strlen(l->text) : 0, n = had + strlen(text) + 2;

	l->text = realloc(l->text, n);
	snprintf(l->text + had, n - had, "%s\n", text); /* the last line may lack its end */
}

CUresult cuLinkAddData(CUlink link, int type, void *data, size_t n, const char *, unsigned options,
		       int *, void **)
{
	struct link *l = link;
	const char *text = data;

	if (options || n == 0 || (type != CU_JIT_INPUT_PTX && type != SOFT_CUDA_INPUT_CUBIN))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == SOFT_CUDA_INPUT_CUBIN) {
		text = soft_cuda_text_within(data, n);
		if (!text)
			return CUDA_ERROR_INVALID_IMAGE;
	} else if (text[n - 1]) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!is_right(text, true, l->log, l->log_size))
		return CUDA_ERROR_INVALID_PTX;
	append(l, text);
	return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlink link, void **out, size_t *n)
{
	struct link *l = link;
	struct ptx *all;

	if (!l->text || !is_right(l->text, false, l->log, l->log_size))
		return CUDA_ERROR_INVALID_IMAGE;
	all = ptx_read(l->text, NULL);
	l->binary = soft_cuda_binary(l->text, ptx_globals(all), &l->size);
	ptx_free(all);
	*out = l->binary;
	*n = l->size;
	return l->binary ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuLinkDestroy(CUlink link)
{
	struct link *l = link;

	if (l->binary)
		memset(l->binary, '?', l->size);
	free(l->binary);
	free(l->text);
	free(l);
	return CUDA_SUCCESS;
}

static void free_module(struct module *m)
{
	struct function *f;

	while ((f = m->functions)) {
		m->functions = f->next;
		ptx_free(f->code);
		free(f);
	}
	if (m->memory)
		soft_cuda_give(m->memory);
	if (m->all)
		ptx_free(m->all);
	free(m->text);
	free(m);
}

/* All of them: what cannot be executed is refused now, and not when it is wanted. */
static bool read_functions(struct module *m)
{
	const char *name;
	struct function *f;
	struct ptx *code;
	uint32_t i;

	for (i = 0; (name = ptx_entry(m->all, i)); i++) {
		code = ptx_read_in(m->all, name);
		if (!code)
			return false;
		f = calloc(1, sizeof(*f));
		*f = (struct function){.code = code, .next = m->functions};
		snprintf(f->name, sizeof(f->name), "%s", name);
		m->functions = f;
	}
	return true;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *, void **)
{
	const char *text = soft_cuda_text(image);
	struct module *m;

	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!text)
		return CUDA_ERROR_INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	m->text = strdup(text);
	m->all = ptx_read(m->text, NULL);
	if (!m->all || !names_fit(m->all, false, NULL, 0) || !read_functions(m)) {
		free_module(m);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	m->memory = soft_cuda_take_module(ptx_globals(m->all) + strlen(text));
	if (!m->memory) {
		free_module(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->next = modules;
	modules = m;
	*out = m;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	struct module *m = module;
	struct function *f = m->functions;

	while (f && strcmp(f->name, name) != 0)
		f = f->next;
	*out = f;
	return f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleUnload(CUmodule module)
{
	struct module *m = module, **at = &modules;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	free_module(m);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
	struct module *m = module;
	void *at;

	if (!ptx_global(m->all, name, &at, bytes))
		return CUDA_ERROR_NOT_FOUND;
	*out = (uintptr_t)at;
	return CUDA_SUCCESS;
}

/* A multiprocessor of this device has 2048 threads, 32 blocks and 96 KiB of shared memory. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction function, int threads,
						     size_t shared)
{
	struct function *f = function;
	int by_threads, by_shared;

	if (threads < 1 || threads > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	by_threads = 2048 / ((threads + 31) / 32 * 32);
	by_shared = (int)(98304 / (ptx_shared(f->code) + shared + 1));
	*out = by_threads < by_shared ? by_threads : by_shared;
	*out = *out < 32 ? *out : 32;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *out, int which, CUfunction function)
{
	struct function *f = function;

	switch (which) {
	case CU_FUNC_MAX_THREADS_PER_BLOCK:
		*out = (int)ptx_most_threads(f->code);
		return CUDA_SUCCESS;
	case CU_FUNC_SHARED_SIZE_BYTES:
		*out = (int)ptx_shared(f->code);
		return CUDA_SUCCESS;
	case CU_FUNC_LOCAL_SIZE_BYTES:
		*out = (int)ptx_local(f->code);
		return CUDA_SUCCESS;
	case CU_FUNC_REGISTERS:
		*out = 32;
		return CUDA_SUCCESS;
	case CU_FUNC_BINARY_VERSION:
		*out = 70;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuFuncSetAttribute(CUfunction f, int which, int value)
{
	struct function *function = f;

	if (which != CU_FUNC_MAX_DYNAMIC_SHARED || value < 0)
		return CUDA_ERROR_INVALID_VALUE;
	function->dynamic = (unsigned)value;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *at, size_t *size)
{
	struct function *f = function;
	uint32_t offset, n;

	if (!ptx_param(f->code, (uint32_t)i, &offset, &n))
		return CUDA_ERROR_INVALID_VALUE;
	*at = offset;
	*size = n;
	return CUDA_SUCCESS;
}

/* EXTRA holds the buffer of the parameters, and its size. */
static CUresult launch(struct work w, void **params, void **extra)
{
	const uint32_t *grid = w.launch.grid, *block = w.launch.block;
	uint32_t at, size, wanted = 0, i;
	size_t n = 0;

	for (i = 0; ptx_param(w.function->code, i, &at, &size); i++)
		wanted = at + size;
	if (params || !grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2] ||
	    block[0] * block[1] * block[2] > ptx_most_threads(w.function->code) ||
	    w.launch.shared > w.function->dynamic)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
			return CUDA_ERROR_INVALID_VALUE;
		n = *(size_t *)extra[3];
		w.params = malloc(n);
		memcpy(w.params, extra[1], n);
	}
	w.launch.params = w.params;
	w.launch.prints = soft_cuda_prints;
	w.launch.asserts = soft_cuda_asserts;
	if (n >= wanted && soft_cuda_take_local(ptx_local(w.function->code)))
		return soft_cuda_enqueue(w);
	free(w.params);
	return n < wanted ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream, void **params,
			void **extra)
{
	return launch((struct work){.kind = WORK_LAUNCH,
				    .function = function,
				    .launch = {.pauses = soft_gpu_pauses(),
					       .grid = {gx, gy, gz},
					       .block = {bx, by, bz},
					       .shared = shared}},
		      params, extra);
}

CUresult cuLaunchKernelEx(const struct cu_launch *l, CUfunction function, void **params,
			  void **extra)
{
	struct work w = {.kind = WORK_LAUNCH, .function = function};
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	int each = 0, cooperates = 0;

	cuDeviceGetAttribute(&cooperates, SOFT_CUDA_COOPERATIVE_LAUNCH, 0);
	if (!cooperates)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (l->n_attributes != 1 || l->attributes->id != CU_LAUNCH_COOPERATIVE)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(w.launch.grid, l->grid, sizeof(l->grid));
	memcpy(w.launch.block, l->block, sizeof(l->block));
	w.launch.shared = l->shared;
	w.launch.together = l->attributes->cooperative;
	cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, function,
						    (int)(l->block[0] * l->block[1] * l->block[2]),
						    l->shared);
	if (w.launch.together && blocks > (uint64_t)each * SOFT_CUDA_PROCESSORS)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return launch(w, params, extra);
}
