/* SPDX-License-Identifier: MIT */
/* The linker. The host compiles each image as it comes, for what is wrong with it, and links them
 * all to find out whether they fit together. What the program gets back is the images, which the
 * host links again when they are loaded: that has its GPU's binary, and the program has no use for
 * it. */
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "library.h"

/* CUjitInputType */
enum { INPUT_CUBIN, INPUT_PTX, INPUT_FAT, INPUTS = 6 };

struct linker {
	void *handle;
	struct module_logs logs;
	/* the images, each in memory of its own */
	struct {
		uint8_t *at;
		uint64_t bytes;
	} images[SOFTGPU_MAX_IMAGES];
	uint32_t n;
	/* Several of them in one; NULL: not linked, or there is one. */
	uint8_t *several;
	/* What has come out, which is one of those; NULL: not linked. */
	uint8_t *linked;
	uint64_t bytes;
};

static void end(struct linker *l)
{
	uint32_t i;

	handle_drop(HANDLE_LINKER, l->handle);
	for (i = 0; i < l->n; i++)
		free(l->images[i].at);
	free(l->several);
	free(l);
}

static CUresult create(unsigned n, const int *options, void **values, CUlinkState *out)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct module_logs logs;
	struct linker *l;

	if (e == CUDA_SUCCESS && !out)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = module_options(n, options, values, &logs);
	if (e != CUDA_SUCCESS)
		return e;
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->logs = logs;
	l->handle = handle_make(HANDLE_LINKER, l);
	if (!l->handle) {
		free(l);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = l->handle;
	return CUDA_SUCCESS;
}

CUresult cuLinkCreate_v2(unsigned n, int *options, void **values, CUlinkState *out)
{
	return CALL_END(create(n, options, values, out));
}
CALL_FIRST(cuLinkCreate, cuLinkCreate_v2);

/* Whether L can take one more image of this type. */
static CUresult may_add(const struct linker *l, int type)
{
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (l->linked || type < 0 || type >= INPUTS)
		return CUDA_ERROR_INVALID_VALUE;
	if (type > INPUT_FAT) {
		call_log("cuLinkAddData: PTX, cubins and fat binaries are carried; type %d is not",
			 type);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (l->n == SOFTGPU_MAX_IMAGES) {
		call_log("cuLinkAddData: no more than %u images are linked", SOFTGPU_MAX_IMAGES);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (l->n > 0 && !guest_has_images(link_guest())) {
		call_log("cuLinkAddData: this host's softgpu is older, and links one image only");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/* Adds a copy of the image, with a 0 behind it. */
static CUresult add_copy(struct linker *l, const void *data, size_t size,
			 const struct module_logs *logs)
{
	uint8_t *copy = size < SIZE_MAX ? malloc(size + 1) : NULL;
	const void *image = copy;
	CUresult e = CUDA_SUCCESS;
	uint64_t bytes;

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(copy, data, size);
	copy[size] = 0;
	if (!image_find(&image, size, &bytes)) {
		call_log("the image is damaged: it is shorter than it says, or too long");
		e = CUDA_ERROR_INVALID_IMAGE;
	}
	if (e == CUDA_SUCCESS && guest_has_images(link_guest()))
		e = module_check(image, bytes, logs);
	if (e != CUDA_SUCCESS) {
		free(copy);
		return e;
	}
	l->images[l->n].at = copy;
	l->images[l->n].bytes = bytes;
	l->n++;
	return CUDA_SUCCESS;
}

static CUresult add(CUlinkState h, int type, const void *data, size_t size, unsigned n,
		    const int *options, void **values)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);
	struct module_logs logs;

	if (e == CUDA_SUCCESS)
		e = may_add(l, type);
	if (e == CUDA_SUCCESS && (!data || size == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = module_options(n, options, values, &logs);
	return e == CUDA_SUCCESS ? add_copy(l, data, size, n > 0 ? &logs : &l->logs) : e;
}

CUresult cuLinkAddData_v2(CUlinkState h, int type, void *data, size_t bytes, const char *name,
			  unsigned n, int *options, void **values)
{
	(void)name;
	return CALL_END(add(h, type, data, bytes, n, options, values));
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

static uint64_t padded(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* Puts all images into one, as MODULE_LOAD has them. */
static CUresult join(struct linker *l)
{
	struct softgpu_images head = {.magic = SOFTGPU_IMAGES, .n = l->n};
	uint64_t at = sizeof(head);
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		head.bytes[i] = l->images[i].bytes;
		at += padded(head.bytes[i]);
	}
	l->several = calloc(1, at);
	if (!l->several)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->bytes = at;
	memcpy(l->several, &head, sizeof(head));
	for (at = sizeof(head), i = 0; i < l->n; at += padded(head.bytes[i]), i++)
		memcpy(l->several + at, l->images[i].at, head.bytes[i]);
	return CUDA_SUCCESS;
}

/* Has the host link and load the images, and unloads them again. */
static CUresult try_images(struct linker *l)
{
	uint8_t *all = l->images[0].at;
	CUresult e = CUDA_SUCCESS;
	void *h;

	l->bytes = l->images[0].bytes;
	if (l->n > 1) {
		e = join(l);
		all = l->several;
	}
	if (e == CUDA_SUCCESS)
		e = module_load(&h, all, l->bytes, &l->logs, NULL);
	if (e == CUDA_SUCCESS)
		e = module_unload(handle_find(HANDLE_MODULE, h));
	if (e == CUDA_SUCCESS) {
		l->linked = all;
		return e;
	}
	free(l->several);
	l->several = NULL;
	return e;
}

/* The image is the linker's, and goes with it. */
CUresult cuLinkComplete(CUlinkState h, void **out, size_t *bytes)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && (!out || l->n == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !l->linked)
		e = try_images(l);
	if (e == CUDA_SUCCESS)
		*out = l->linked;
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
