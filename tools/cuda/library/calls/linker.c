/* SPDX-License-Identifier: MIT */
/* The linker. The host compiles each image when it is added, to find errors, and links all of them
 * to check that they fit together. The result that the program gets consists of the images, which
 * the host links again when they are loaded. */
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "cuda_calls.h"

/* CUjitInputType */
enum { INPUT_CUBIN, INPUT_PTX, INPUT_FAT, INPUTS = 6 };
static const char *const not_carried[] = {"object files", "archives", "NVVM"};

struct linker {
	void *handle;
	struct module_logs logs;
	/* the images, each in its own allocation */
	struct {
		uint8_t *at;
		uint64_t bytes;
	} images[SOFTGPU_MAX_IMAGES];
	uint32_t n;
	/* All images in one; NULL: not linked yet. */
	uint8_t *several;
	/* The result: `several`, or the only image; NULL: not linked yet. */
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
	struct module_logs logs = {0};
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

/* Returns CUDA_SUCCESS if L can take one more image of TYPE. */
static CUresult may_add(const struct linker *l, int type)
{
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (l->linked || type < 0 || type >= INPUTS)
		return CUDA_ERROR_INVALID_VALUE;
	if (type > INPUT_FAT) {
		log_line("cuLinkAddData: input of this type (%s) is not supported, because softgpu "
			 "cannot check it before the driver reads it: extract its cubins "
			 "(cuobjdump -xelf all) and add those",
			 not_carried[type - INPUT_FAT - 1]);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (l->n == SOFTGPU_MAX_IMAGES) {
		log_line("cuLinkAddData: a linker takes at most %u images", SOFTGPU_MAX_IMAGES);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (l->n > 0 && !guest_has_images(link_guest())) {
		log_line("cuLinkAddData: this host's softgpu links only one image: update softgpu");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/* Returns CUDA_SUCCESS if the image can be one of several, as far as this library can tell. */
static CUresult look_at(const void *image, uint64_t bytes)
{
	const uint32_t several = SOFTGPU_IMAGES;

	if (bytes < sizeof(several) || memcmp(image, &several, sizeof(several)) != 0)
		return CUDA_SUCCESS;
	log_line("the image is the result of a linker, which cannot be linked again");
	return CUDA_ERROR_INVALID_IMAGE;
}

/* Adds a copy of the image, with a zero byte after it. */
static CUresult add_copy(struct linker *l, const void *data, size_t size, struct module_logs *logs)
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
		log_line("the image is shorter than its headers say, or longer than a packet can "
			 "load (1 GiB)");
		e = CUDA_ERROR_INVALID_IMAGE;
	}
	if (e == CUDA_SUCCESS)
		e = look_at(image, bytes);
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

/* As add_copy(); options of this image replace the linker's. */
static CUresult add(struct linker *l, const void *data, size_t size, unsigned n, const int *options,
		    void **values)
{
	struct module_logs logs = l->logs;
	CUresult e = module_options(n, options, values, &logs);

	if (e == CUDA_SUCCESS && (!data || size == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = add_copy(l, data, size, &logs);
	if (logs.errors.at == l->logs.errors.at)
		l->logs.errors.has = logs.errors.has;
	l->logs.took_ms = logs.took_ms;
	return e;
}

/* Begins a call that adds an image of TYPE to the linker H; finds *L. */
static CUresult begin_to_add(CUlinkState h, int type, struct linker **l)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	*l = handle_find(HANDLE_LINKER, h);
	return e == CUDA_SUCCESS ? may_add(*l, type) : e;
}

CUresult cuLinkAddData_v2(CUlinkState h, int type, void *data, size_t bytes, const char *,
			  unsigned n, int *options, void **values)
{
	struct linker *l;
	CUresult e = begin_to_add(h, type, &l);

	return CALL_END(e == CUDA_SUCCESS ? add(l, data, bytes, n, options, values) : e);
}
CALL_FIRST(cuLinkAddData, cuLinkAddData_v2);

CUresult cuLinkAddFile_v2(CUlinkState h, int type, const char *path, unsigned n, int *options,
			  void **values)
{
	struct linker *l;
	CUresult e = begin_to_add(h, type, &l);
	size_t bytes = 0;
	char *text = l && path ? module_read_file(path, &bytes) : NULL;

	if (l && !text) /* the error of a missing image comes first, also for an unsupported TYPE */
		e = CUDA_ERROR_FILE_NOT_FOUND;
	if (e == CUDA_SUCCESS)
		e = add(l, text, bytes, n, options, values);
	free(text);
	return CALL_END(e);
}
CALL_FIRST(cuLinkAddFile, cuLinkAddFile_v2);

static uint64_t padded(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* Puts all images into one, in the form of MODULE_LOAD. Returns its bytes; 0: out of memory. */
static uint64_t join(struct linker *l)
{
	struct softgpu_images head = {.magic = SOFTGPU_IMAGES, .n = l->n};
	uint64_t size = sizeof(head), at;
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		head.bytes[i] = l->images[i].bytes;
		size += padded(head.bytes[i]);
	}
	l->several = calloc(1, size);
	if (!l->several)
		return 0;
	memcpy(l->several, &head, sizeof(head));
	for (at = sizeof(head), i = 0; i < l->n; at += padded(head.bytes[i]), i++)
		memcpy(l->several + at, l->images[i].at, head.bytes[i]);
	return size;
}

/* For a softgpu that links only one image: compiles the image as loading it does. */
static CUresult try_one(struct linker *l)
{
	void *h;
	CUresult e = module_load(&h, l->images[0].at, l->images[0].bytes, &l->logs, NULL);

	return e == CUDA_SUCCESS ? module_unload(handle_find(HANDLE_MODULE, h)) : e;
}

/* Lets the host link the images. A single image stays as it is. */
static CUresult complete(struct linker *l)
{
	uint64_t bytes = join(l);
	CUresult e;

	if (bytes == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = guest_has_images(link_guest()) ? module_check(l->several, bytes, &l->logs) : try_one(l);
	if (e == CUDA_SUCCESS) {
		l->linked = l->n > 1 ? l->several : l->images[0].at;
		l->bytes = l->n > 1 ? bytes : l->images[0].bytes;
		return e;
	}
	free(l->several);
	l->several = NULL;
	return e;
}

/* *OUT is owned by the linker, which frees it when it ends. */
CUresult cuLinkComplete(CUlinkState h, void **out, size_t *bytes)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && (!out || l->n == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !l->linked)
		e = complete(l);
	if (e == CUDA_SUCCESS)
		*out = l->linked;
	if (e == CUDA_SUCCESS && bytes)
		*bytes = l->bytes;
	return CALL_END(e);
}

CUresult cuLinkDestroy(CUlinkState h)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct linker *l = handle_find(HANDLE_LINKER, h);

	if (e == CUDA_SUCCESS && !l)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (l && (e == CUDA_SUCCESS || e == link_lost()))
		end(l);
	return CALL_END(e);
}
