/* SPDX-License-Identifier: MIT */
/* Modules, functions and launches of the CUDA driver's interface in software. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft_cuda.h"

struct module {
	char *text;
	struct function *functions;
	struct module *next;
};

static struct module *modules;

struct link {
	char *log, *text;
	size_t log_size;
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

static bool is_ptx(const char *text)
{
	struct ptx *all = ptx_read(text, NULL);
	bool is = all;

	if (all)
		ptx_free(all);
	return is;
}

CUresult cuLinkAddData(CUlink link, int type, void *data, size_t n, const char *name,
		       unsigned options, int *option, void **values)
{
	struct link *l = link;

	(void)name;
	(void)option;
	(void)values;
	if (type != CU_JIT_INPUT_PTX || options || ((char *)data)[n - 1])
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_ptx(data)) {
		snprintf(l->log, l->log_size, "this is no PTX");
		return CUDA_ERROR_INVALID_PTX;
	}
	l->text = strdup(data);
	return CUDA_SUCCESS;
}

/* The binary that this linker makes is the text itself. */
CUresult cuLinkComplete(CUlink link, void **out, size_t *n)
{
	struct link *l = link;

	if (!l->text)
		return CUDA_ERROR_INVALID_IMAGE;
	*out = l->text;
	*n = strlen(l->text) + 1;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlink link)
{
	struct link *l = link;

	if (l->text)
		memset(l->text, '?', strlen(l->text));
	free(l->text);
	free(l);
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
			    void **values)
{
	struct module *m;

	(void)options;
	(void)values;
	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_ptx(image))
		return CUDA_ERROR_INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	m->text = strdup(image);
	m->next = modules;
	modules = m;
	*out = m;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	struct module *m = module;
	struct function *f;
	struct ptx *code;

	for (f = m->functions; f && strcmp(f->name, name) != 0;)
		f = f->next;
	if (!f) {
		code = ptx_read(m->text, name);
		if (!code)
			return CUDA_ERROR_NOT_FOUND;
		f = calloc(1, sizeof(*f));
		*f = (struct function){.code = code, .next = m->functions};
		snprintf(f->name, sizeof(f->name), "%s", name);
		m->functions = f;
	}
	*out = f;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	struct module *m = module, **at = &modules;
	struct function *f;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	while ((f = m->functions)) {
		m->functions = f->next;
		ptx_free(f->code);
		free(f);
	}
	free(m->text);
	free(m);
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *out, int which, CUfunction function)
{
	struct function *f = function;

	*out = which == CU_FUNC_SHARED_SIZE_BYTES ? (int)ptx_shared(f->code) : 1024;
	return which == CU_FUNC_SHARED_SIZE_BYTES || which == CU_FUNC_MAX_THREADS_PER_BLOCK
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction f, int which, int value)
{
	(void)f;
	return which == CU_FUNC_MAX_DYNAMIC_SHARED && value >= 0 ? CUDA_SUCCESS
								 : CUDA_ERROR_INVALID_VALUE;
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
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
			void **extra)
{
	struct work w = {.kind = WORK_LAUNCH,
			 .function = function,
			 .launch = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared}};
	uint32_t at, size, wanted = 0, i;
	size_t n = 0;

	(void)s;
	for (i = 0; ptx_param(w.function->code, i, &at, &size); i++)
		wanted = at + size;
	if (params || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
			return CUDA_ERROR_INVALID_VALUE;
		n = *(size_t *)extra[3];
		w.params = malloc(n);
		memcpy(w.params, extra[1], n);
	}
	w.launch.params = w.params;
	return n < wanted ? CUDA_ERROR_INVALID_VALUE : soft_cuda_enqueue(w);
}
