/* SPDX-License-Identifier: MIT */
/* The linker, with one image: the host compiles it to find out whether it is right, and the program
 * gets back an image that it can load. Several images in one are not carried. */
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* CUjitInputType */
enum { INPUT_CUBIN, INPUT_PTX, INPUT_FAT, INPUTS = 6 };

struct linker {
	void *handle;
	unsigned n;
	int *options;
	void **values;
	uint8_t *image;
	size_t bytes;
};

static void end(struct linker *l)
{
	handle_drop(HANDLE_LINKER, l->handle);
	free(l->options);
	free(l->image);
	free(l);
}

/* The options' values are the program's: what the compiler says is written to them. */
static CUresult create(unsigned n, const int *options, void **values, CUlinkState *out)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct linker *l;

	if (e == CUDA_SUCCESS && (!out || (n && (!options || !values))))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return e;
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->options = malloc((n + 1) * sizeof(*options));
	l->handle = l->options ? handle_make(HANDLE_LINKER, l) : NULL;
	if (!l->handle) {
		end(l);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n)
		memcpy(l->options, options, n * sizeof(*options));
	l->n = n;
	l->values = values;
	*out = l->handle;
	return CUDA_SUCCESS;
}

CUresult cuLinkCreate_v2(unsigned n, int *options, void **values, CUlinkState *out)
{
	return CALL_END(create(n, options, values, out));
}
CALL_FIRST(cuLinkCreate, cuLinkCreate_v2);

/* Loads the image, and unloads it again. */
static CUresult try_image(struct linker *l)
{
	CUresult e;
	void *h;

	e = module_load(&h, l->image, l->bytes, l->n, l->options, l->values, NULL);
	return e == CUDA_SUCCESS ? module_unload(handle_find(HANDLE_MODULE, h)) : e;
}

static CUresult add(CUlinkState h, int type, const void *data, size_t bytes, unsigned n)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && (!data || bytes == 0 || type < 0 || type >= INPUTS))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && (l->image || n || type > INPUT_FAT)) {
		call_log("cuLinkAddData: one PTX, cubin or fat binary without options is carried");
		e = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (e != CUDA_SUCCESS)
		return e;
	l->image = calloc(1, bytes + 1);
	if (!l->image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(l->image, data, bytes);
	l->bytes = bytes;
	e = try_image(l);
	if (e != CUDA_SUCCESS) {
		free(l->image);
		l->image = NULL;
	}
	return e;
}

CUresult cuLinkAddData_v2(CUlinkState h, int type, void *data, size_t bytes, const char *name,
			  unsigned n, int *options, void **values)
{
	(void)name;
	(void)options;
	(void)values;
	return CALL_END(add(h, type, data, bytes, n));
}
CALL_FIRST(cuLinkAddData, cuLinkAddData_v2);

CUresult cuLinkAddFile_v2(CUlinkState h, int type, const char *path, unsigned n, int *options,
			  void **values)
{
	size_t bytes = 0;
	char *text = path ? module_read_file(path, &bytes) : NULL;
	CUresult e = CUDA_ERROR_FILE_NOT_FOUND;

	if (text)
		e = cuLinkAddData_v2(h, type, text, bytes, path, n, options, values);
	free(text);
	return e;
}
CALL_FIRST(cuLinkAddFile, cuLinkAddFile_v2);

/* The image is the linker's, and goes with it. */
CUresult cuLinkComplete(CUlinkState h, void **out, size_t *bytes)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	const struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && (!out || !l->image))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = l->image;
	if (e == CUDA_SUCCESS && bytes)
		*bytes = l->bytes;
	return CALL_END(e);
}

CUresult cuLinkDestroy(CUlinkState h)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		end(l);
	return CALL_END(e);
}
