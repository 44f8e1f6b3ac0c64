/* SPDX-License-Identifier: MIT */
/* Checks of cuLink*: of one image, and of several that need each other. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { CUBIN, PTX, FAT, OBJECT, ARCHIVE };
#define THREADS 64u

static CUresult add(CUlinkState link, const char *ptx)
{
	char *copy = strdup(ptx); /* and not a byte more */
	CUresult e = cuLinkAddData_v2(link, PTX, copy, strlen(ptx) + 1, "x", 0, NULL, NULL);

	free(copy);
	return e;
}

static bool one(void)
{
	char log[200] = "";
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof(log)}, *image, *again;
	CUlinkState link;
	CUmodule module;
	CUfunction f;
	size_t bytes;

	CHECK(sample_begin());
	OK(cuLinkCreate_v2(2, options, values, &link));
	CHECK(cuLinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_VALUE);
	CHECK(add(link, ".version 6.0\nnonsense\n") == CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(log) > 0 && (uintptr_t)values[1] == strlen(log));
	OK(add(link, programs_ptx));
	OK(cuLinkComplete(link, &image, &bytes));
	CHECK(bytes > 0);
	/* it stays what it is */
	CHECK(add(link, programs_ptx) == CUDA_ERROR_INVALID_VALUE);
	OK(cuLinkComplete(link, &again, NULL));
	CHECK(again == image);
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	CHECK(cuLinkDestroy(link) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleGetFunction(&f, module, "scale"));
	return sample_end();
}

/* Whether the GPU kernel of linked.ptx computes what it should, where STEP was added to each of
 * steps. */
static bool computes(CUmodule module, uint32_t step)
{
	uint32_t out[THREADS], i;
	CUdeviceptr at;
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, "linked"));
	OK(cuMemAlloc_v2(&at, sizeof(out)));
	OK(cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&at}, NULL));
	OK(cuMemcpyDtoH_v2(out, at, sizeof(out)));
	OK(cuMemFree_v2(at));
	for (i = 0; i < THREADS; i++)
		CHECK(out[i] == (i % 2 ? i * 3 : i) + (i % 4 + 1) * 100 + step);
	return true;
}

/* Each image alone lacks something of the other, in whichever order they come. */
static bool several(void)
{
	const char *const images[] = {linked_ptx, linked_to_ptx, programs_ptx};
	uint32_t first, n = 5;
	CUdeviceptr variable;
	CUmodule module;
	CUlinkState link;
	CUfunction f;
	size_t bytes;
	void *image;

	CHECK(sample_begin());
	for (first = 0; first < 3; first++) {
		OK(cuLinkCreate_v2(0, NULL, NULL, &link));
		OK(add(link, images[first]));
		OK(add(link, images[(first + 1) % 3]));
		OK(add(link, images[(first + 2) % 3]));
		OK(cuLinkComplete(link, &image, &bytes));
		OK(cuModuleLoadData(&module, image));
		OK(cuLinkDestroy(link));
		CHECK(computes(module, 0));
		/* they have one and the same variable */
		OK(cuModuleGetFunction(&f, module, "step"));
		OK(cuLaunchKernel(f, 1, 1, 1, 4, 1, 1, 0, NULL, (void *[]){&n}, NULL));
		CHECK(computes(module, 5));
		OK(cuModuleGetFunction(&f, module, "scale"));
		OK(cuModuleGetGlobal_v2(&variable, &bytes, module, "weight"));
		CHECK(bytes == 4);
		OK(cuModuleUnload(module));
	}
	return sample_end();
}

/* What has come out is an image like others: it can be kept in a file, and linked. */
static bool kept(void)
{
	char path[] = "/tmp/vgpu-cuda-linked-XXXXXX";
	int fd = mkstemp(path);
	CUlinkState link, again;
	CUlibrary library;
	CUmodule module;
	size_t bytes;
	void *image;
	CUresult e;

	CHECK(sample_begin() && fd >= 0);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(add(link, linked_ptx));
	OK(add(link, linked_to_ptx));
	OK(cuLinkComplete(link, &image, &bytes));
	CHECK(write(fd, image, bytes) == (ssize_t)bytes);
	e = cuModuleLoad(&module, path);
	if (e == CUDA_SUCCESS)
		e = cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
	CHECK(ftruncate(fd, (off_t)bytes - 1) == 0 && close(fd) == 0);
	CHECK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0) ==
	      CUDA_ERROR_INVALID_IMAGE);
	unlink(path);
	OK(e);
	CHECK(computes(module, 0));
	OK(cuLibraryUnload(library));
	/* several in several are not linked, as a binary that is linked is not */
	OK(cuLinkCreate_v2(0, NULL, NULL, &again));
	CHECK(cuLinkAddData_v2(again, CUBIN, image, bytes, "x", 0, NULL, NULL) ==
	      CUDA_ERROR_INVALID_PTX);
	OK(add(again, programs_ptx));
	OK(cuLinkDestroy(again));
	OK(cuLinkDestroy(link));
	return sample_end();
}

/* What is lacking, or there twice, is said when all is linked; the linker can be asked again. */
static bool misfits(void)
{
	char log[300] = "", own[300] = "";
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof(log)}, *own_values[] = {own, (void *)sizeof(own)};
	CUlinkState link;
	CUmodule module;
	size_t bytes;
	void *image;

	CHECK(sample_begin());
	CHECK(cuModuleLoadData(&module, linked_ptx) == CUDA_ERROR_INVALID_PTX);
	OK(cuLinkCreate_v2(2, options, values, &link));
	OK(add(link, linked_ptx));
	CHECK(cuLinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_PTX);
	CHECK(strstr(log, "weigh") || strstr(log, "steps"));
	/* messages of one image go where its own options say */
	log[0] = 0;
	CHECK(cuLinkAddData_v2(link, PTX, (void *)(uintptr_t) ".version 6.0\nnonsense\n", 23, "x",
			       2, options, own_values) == CUDA_ERROR_INVALID_PTX);
	CHECK(own[0] && !log[0]);
	OK(add(link, linked_to_ptx));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	CHECK(computes(module, 0));
	OK(cuLinkDestroy(link));
	values[1] = (void *)sizeof(log); /* it has told how long a message was */
	OK(cuLinkCreate_v2(2, options, values, &link));
	OK(add(link, linked_to_ptx));
	OK(add(link, linked_ptx));
	OK(add(link, linked_to_ptx));
	CHECK(cuLinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_PTX);
	CHECK(strstr(log, "weigh") || strstr(log, "steps"));
	CHECK(cuLinkAddData_v2(link, OBJECT, log, sizeof(log), "x", 0, NULL, NULL) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuLinkAddData_v2(link, ARCHIVE, log, sizeof(log), "x", 0, NULL, NULL) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuLinkAddData_v2(link, 6, log, sizeof(log), "x", 0, NULL, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuLinkDestroy(link));
	CHECK(cuLinkCreate_v2(1, (int[]){99}, values, &link) == CUDA_ERROR_NOT_SUPPORTED);
	return sample_end();
}

const struct sample_check linker_checks[] = {
	{"one image is linked", one},
	{"several images are linked", several},
	{"linked images are kept, and loaded again", kept},
	{"images that do not fit together", misfits},
	{NULL, NULL},
};
