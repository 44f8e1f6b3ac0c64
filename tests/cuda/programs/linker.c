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
	/* but it is not linked again */
	OK(cuLinkCreate_v2(0, NULL, NULL, &again));
	CHECK(cuLinkAddData_v2(again, CUBIN, image, bytes, "x", 0, NULL, NULL) ==
	      CUDA_ERROR_INVALID_IMAGE);
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
	CHECK(cuLinkAddFile_v2(link, ARCHIVE, "/proc/self/cmdline", 0, NULL, NULL) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuLinkAddFile_v2(link, ARCHIVE, "/none", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
	CHECK(cuLinkAddData_v2(link, 6, log, sizeof(log), "x", 0, NULL, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuLinkDestroy(link));
	CHECK(cuLinkCreate_v2(1, (int[]){99}, values, &link) == CUDA_ERROR_NOT_SUPPORTED);
	return sample_end();
}

/* Messages follow each other, and success takes none away; options of one image leave the others
 * as they are. */
static bool logs(void)
{
	char log[300] = "";
	int options[] = {5, 6, 2}, level[] = {7, 1};
	void *values[] = {log, (void *)sizeof(log), NULL}, *hints[] = {(void *)3, NULL}, *image;
	static const char wrong[] = ".version 6.0\nnonsense\n";
	CUlinkState link;
	size_t bytes, n;
	float ms = 0;

	CHECK(sample_begin());
	OK(cuLinkCreate_v2(3, options, values, &link));
	CHECK(cuLinkAddData_v2(link, PTX, (void *)(uintptr_t)wrong, sizeof(wrong), "x", 2, level,
			       hints) == CUDA_ERROR_INVALID_PTX);
	n = strlen(log);
	CHECK(n > 0 && (uintptr_t)values[1] == n);
	OK(add(link, linked_ptx));
	CHECK(strlen(log) == n && (uintptr_t)values[1] == n);
	CHECK(cuLinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(log) > n && log[n] == '\n' && (uintptr_t)values[1] == strlen(log));
	memcpy(&ms, &values[2], sizeof(ms));
	CHECK(ms > 0);
	OK(cuLinkDestroy(link));
	/* a log that is said to be shorter than what it has is left alone */
	OK(cuLinkCreate_v2(1, options, values, &link));
	values[1] = (void *)8;
	CHECK(cuLinkAddData_v2(link, PTX, (void *)(uintptr_t)wrong, sizeof(wrong), "x", 1,
			       &options[1], &values[1]) == CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(log) == 7);
	values[1] = (void *)4;
	CHECK(cuLinkAddData_v2(link, PTX, (void *)(uintptr_t)wrong, sizeof(wrong), "x", 1,
			       &options[1], &values[1]) == CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(log) == 7);
	OK(cuLinkDestroy(link));
	/* cut to the room that there is */
	memset(log, 'x', sizeof(log));
	values[1] = (void *)4;
	OK(cuLinkCreate_v2(2, options, values, &link));
	CHECK(add(link, wrong) == CUDA_ERROR_INVALID_PTX && add(link, wrong));
	CHECK(strlen(log) == 3 && log[4] == 'x' && values[1] == (void *)3);
	OK(cuLinkDestroy(link));
	CHECK(cuLinkAddFile_v2(link, PTX, "/none", 0, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	CHECK(cuLinkAddFile_v2(link, PTX, "/none", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
	OK(cuLinkDestroy(link));
	return sample_end();
}

/* A program that compiles as it goes has a module for each of its GPU kernels. */
static bool hundreds(void)
{
	static CUmodule modules[400];
	char text[512];
	uint32_t i, got;
	CUdeviceptr out;
	CUfunction f;

	CHECK(sample_begin());
	OK(cuMemAlloc_v2(&out, 4));
	for (i = 0; i < 400; i++) {
		snprintf(text, sizeof(text),
			 ".version 6.0\n.target sm_70\n.address_size 64\n"
			 ".visible .entry k(.param .u64 o)\n{\n\t.reg .u64 %%d;\n"
			 "\t.reg .u32 %%r;\n\tld.param.u64 %%d, [o];\n\tmov.u32 %%r, %u;\n"
			 "\tst.global.u32 [%%d], %%r;\n\tret;\n}\n",
			 i);
		OK(cuModuleLoadData(&modules[i], text));
	}
	for (i = 0; i < 400; i += 57) {
		OK(cuModuleGetFunction(&f, modules[i], "k"));
		OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&out}, NULL));
		OK(cuMemcpyDtoH_v2(&got, out, 4));
		CHECK(got == i);
	}
	return sample_end();
}

/* A program that has no memory left for modules links all the same. */
static bool no_module(void)
{
	static const char *const fill[] = {
		".version 6.0\n.target sm_70\n.address_size 64\n"
		".visible .global .b8 x[2000000];\n.visible .entry k()\n{\n\tret;\n}\n",
		sample_ptx};
	CUmodule module[400], more;
	CUlinkState link;
	CUresult e = CUDA_SUCCESS;
	size_t bytes, n = 0, i;
	void *image;

	CHECK(sample_begin());
	for (i = 0; i < 2; i++)
		for (e = CUDA_SUCCESS; n < 400 && e == CUDA_SUCCESS; n += e == CUDA_SUCCESS)
			e = cuModuleLoadData(&module[n], fill[i]);
	CHECK(e == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(add(link, linked_ptx));
	OK(add(link, linked_to_ptx));
	OK(cuLinkComplete(link, &image, &bytes));
	CHECK(cuModuleLoadData(&more, image) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuModuleUnload(module[0]));
	OK(cuModuleLoadData(&module[0], image));
	CHECK(computes(module[0], 0));
	OK(cuLinkDestroy(link));
	return sample_end();
}

const struct sample_check linker_checks[] = {
	{"one image is linked", one},
	{"several images are linked", several},
	{"linked images are kept, and loaded again", kept},
	{"images that do not fit together", misfits},
	{"the linker's logs", logs},
	{"linking takes no module", no_module},
	{"hundreds of modules", hundreds},
	{NULL, NULL},
};
