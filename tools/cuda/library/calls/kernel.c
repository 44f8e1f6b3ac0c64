/* SPDX-License-Identifier: MIT */
/* Libraries, which are modules without a context, and attributes of functions. A CUkernel and a
 * CUfunction are the same handle. */
#include <stdlib.h>

#include "cuda_calls.h"

/* CUfunction_attribute */
enum { SHARED_STATIC = 1, SHARED_MOST = 8, CARVEOUT = 9, ATTRIBUTES = 16 };
/* CUdevice_attribute */
enum { BLOCK_SHARED = 8, BLOCK_SHARED_OPTIN = 97 };
/* CUlibraryOption */
enum { BINARY_IS_PRESERVED = 1 };

static CUresult load(CUlibrary *out, const void *image, uint64_t most, const int *options,
		     void **values, unsigned n, const int *library_options, unsigned n_library)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct module_logs logs = {0};
	unsigned i;

	for (i = 0; i < n_library && e == CUDA_SUCCESS; i++)
		if (!library_options || library_options[i] != BINARY_IS_PRESERVED)
			e = library_options ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = module_options(n, options, values, &logs);
	return e == CUDA_SUCCESS ? module_load(out, image, most, &logs, NULL) : e;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *image, int *options, void **values,
			   unsigned n, int *library_options, void **, unsigned n_library)
{
	return CALL_END(
		load(out, image, IMAGE_UNKNOWN, options, values, n, library_options, n_library));
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *options, void **values,
			       unsigned n, int *library_options, void **, unsigned n_library)
{
	size_t bytes = 0;
	char *text = path ? module_read_file(path, &bytes) : NULL;
	CUresult e;

	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	e = load(out, text, bytes, options, values, n, library_options, n_library);
	free(text);
	return CALL_END(e);
}

/* Begins a call about LIBRARY, and finds its module. */
static CUresult begin_library(CUlibrary library, struct module **m)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*m = handle_find(HANDLE_MODULE, library);
	return e == CUDA_SUCCESS && (!*m || (*m)->context) ? CUDA_ERROR_INVALID_HANDLE : e;
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct module *m;
	CUresult e = begin_library(library, &m);

	return CALL_END(e == CUDA_SUCCESS ? module_unload(m) : e);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
	struct module *m;
	CUresult e = begin_library(library, &m);

	return CALL_END(e == CUDA_SUCCESS ? module_function(out, m, name) : e);
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
	struct module *m;
	CUresult e = begin_library(library, &m);

	if (e == CUDA_SUCCESS && !out)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = m->handle;
	return CALL_END(e);
}

/* For objects that libraries here never have: checks the arguments, and returns
 * CUDA_ERROR_NOT_FOUND. */
static CUresult find_nothing(CUlibrary library, const char *name, bool ok)
{
	struct module *m;
	CUresult e = begin_library(library, &m);

	if (e == CUDA_SUCCESS && (!name || !ok))
		e = CUDA_ERROR_INVALID_VALUE;
	return e == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : e;
}

/* Libraries have no managed variables: managed memory is only allocated by the program. */
CUresult cuLibraryGetManaged(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name)
{
	return CALL_END(find_nothing(library, name, out || bytes));
}

/* Libraries have no functions that are both for the device and for the host. */
CUresult cuLibraryGetUnifiedFunction(void **out, CUlibrary library, const char *name)
{
	return CALL_END(find_nothing(library, name, out));
}

/* Begins a call about the function H, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult begin_function(CUfunction h, struct function **f, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*f = handle_find(HANDLE_FUNCTION, h);
	if (e == CUDA_SUCCESS && !*f)
		e = CUDA_ERROR_INVALID_HANDLE;
	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
	struct function *f;
	CUresult e = begin_function(kernel, &f, out);

	if (e == CUDA_SUCCESS)
		*out = kernel;
	return CALL_END(e);
}

/* Returns the library of a kernel; a context's module is not a library. */
CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
	struct function *f;
	CUresult e = begin_function(kernel, &f, out);

	if (e == CUDA_SUCCESS && f->module->context)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		*out = f->module->handle;
	return CALL_END(e);
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction function)
{
	struct function *f;
	CUresult e = begin_function(function, &f, out);

	if (e == CUDA_SUCCESS)
		*out = f->module->handle;
	return CALL_END(e);
}

/* Returns the name in *NAME, which is valid as long as the function exists. */
static CUresult get_name(const char **name, CUfunction function)
{
	struct function *f;
	CUresult e = begin_function(function, &f, name);

	if (e == CUDA_SUCCESS)
		*name = f->known.name;
	return e;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
	return CALL_END(get_name(name, function));
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	return CALL_END(get_name(name, kernel));
}

static CUresult get_param(CUfunction function, size_t i, size_t *offset, size_t *size)
{
	struct function *f;
	CUresult e = begin_function(function, &f, offset);

	if (e == CUDA_SUCCESS && i >= f->known.n_params)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*offset = f->known.offset[i];
	if (e == CUDA_SUCCESS && size)
		*size = f->known.size[i];
	return e;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset, size_t *size)
{
	return CALL_END(get_param(function, i, offset, size));
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *offset, size_t *size)
{
	return CALL_END(get_param(kernel, i, offset, size));
}

/* Returns the most dynamic shared memory that a launch of F may have, bytes. */
static int shared_most(const struct function *f)
{
	const int32_t *own = f->known.attributes;
	int32_t left = link_about.attributes[BLOCK_SHARED] - own[SHARED_STATIC];

	if (f->shared_most >= 0)
		return f->shared_most;
	if (own[SHARED_MOST] > 0)
		return own[SHARED_MOST];
	return left > 0 ? left : 0;
}

static CUresult get_attribute(int *value, int which, CUfunction function)
{
	struct function *f;
	CUresult e = begin_function(function, &f, value && which >= 0 && which < ATTRIBUTES);

	_Static_assert(ATTRIBUTES <= SOFTGPU_FUNCTION_ATTRIBUTES, "the packet's attributes");
	if (e != CUDA_SUCCESS)
		return e;
	if (which == SHARED_MOST)
		*value = shared_most(f);
	else
		*value = which == CARVEOUT ? f->carveout : f->known.attributes[which];
	return CUDA_SUCCESS;
}

/* Stores an attribute. The host lets each launch have the dynamic shared memory that it asks for,
 * so only this library uses the stored value. */
static CUresult set_attribute(CUfunction function, int which, int value)
{
	struct function *f;
	CUresult e = begin_function(function, &f, true);
	int64_t most = link_about.attributes[BLOCK_SHARED_OPTIN];

	if (e != CUDA_SUCCESS)
		return e;
	if (which == SHARED_MOST && value >= 0 &&
	    value <= most - f->known.attributes[SHARED_STATIC]) {
		f->shared_most = value;
		return CUDA_SUCCESS;
	}
	if (which == CARVEOUT && value >= -1 && value <= 100) {
		f->carveout = value;
		return CUDA_SUCCESS;
	}
	return which > CARVEOUT && which < ATTRIBUTES ? CUDA_ERROR_NOT_SUPPORTED
						      : CUDA_ERROR_INVALID_VALUE;
}

/* Checks the device that a call names; only device 0 exists. */
static CUresult on(CUdevice device)
{
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int which, CUfunction function)
{
	return CALL_END(get_attribute(value, which, function));
}

CUresult cuFuncSetAttribute(CUfunction function, int which, int value)
{
	return CALL_END(set_attribute(function, which, value));
}

CUresult cuKernelGetAttribute(int *value, int which, CUkernel kernel, CUdevice device)
{
	CUresult e = get_attribute(value, which, kernel);

	return CALL_END(e == CUDA_SUCCESS ? on(device) : e);
}

CUresult cuKernelSetAttribute(int which, int value, CUkernel kernel, CUdevice device)
{
	CUresult e = device ? call_begin(NEEDS_DEVICE, NULL) : set_attribute(kernel, which, value);

	return CALL_END(e == CUDA_SUCCESS ? on(device) : e);
}

/* Accepts a preference that has no effect and cannot be read back. MOST: the largest value that
 * CUDA defines for it. */
static CUresult prefer(CUfunction function, int config, int most)
{
	struct function *f;

	return begin_function(function, &f, config >= 0 && config <= most);
}

/* The preference for L1 cache or shared memory has no effect: each launch gets what it needs. */
CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
	return CALL_END(prefer(function, config, 3));
}

/* The preference for the width of shared memory's banks has no effect: GPUs since compute
 * capability 5.0 do not change it. */
CUresult cuFuncSetSharedMemConfig(CUfunction function, int config)
{
	return CALL_END(prefer(function, config, 2));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
	CUresult e = prefer(kernel, config, 3);

	return CALL_END(e == CUDA_SUCCESS ? on(device) : e);
}

/* Does nothing, because modules are loaded whole. */
CUresult cuFuncLoad(CUfunction function)
{
	struct function *f;

	return CALL_END(begin_function(function, &f, true));
}

CUresult cuFuncIsLoaded(int *state, CUfunction function)
{
	struct function *f;
	CUresult e = begin_function(function, &f, state);

	if (e == CUDA_SUCCESS)
		*state = 1; /* CU_FUNCTION_LOADING_STATE_LOADED */
	return CALL_END(e);
}

CUresult cuModuleGetLoadingMode(int *mode)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !mode)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*mode = 1; /* CU_MODULE_EAGER_LOADING */
	return CALL_END(e);
}
