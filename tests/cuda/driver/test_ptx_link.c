/* SPDX-License-Identifier: MIT */
/* The linker of the CUDA driver's interface in software. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "soft_cuda.h"
#include "suite.h"

#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* *out = g(*x), which other images define. */
static const char entry[] = HEAD ".extern .func (.reg .b32 %r) g(.reg .b32 %a);\n"
				 ".extern .global .u32 x;\n.global .u32 own = 10;\n"
				 ".visible .entry f(.param .u64 out) { .reg .b64 %d; .reg .b32 %r;"
				 "ld.global.u32 %r, [x]; call (%r), g, (%r);"
				 "ld.param.u64 %d, [out]; st.global.u32 [%d], %r; ret; }";
static const char function[] =
	HEAD ".global .u32 own = 1;\n.visible .func (.reg .b32 %r) g(.reg .b32 %a) {"
	     "ld.global.u32 %r, [own]; add.u32 %r, %r, %a; } // the last line";
static const char variable[] = HEAD ".visible .global .u32 x = 41;\n.global .u32 z[5];\n";

static char log_text[200];

static CUlink begin(void)
{
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
	void *values[] = {log_text, (void *)sizeof(log_text)};
	CUlink link;

	log_text[0] = 0;
	CU_ASSERT_EQUAL_FATAL(cuLinkCreate(2, options, values, &link), CUDA_SUCCESS);
	return link;
}

static CUresult add(CUlink link, const char *text)
{
	return cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, "x",
			     0, NULL, NULL);
}

static CUresult add_binary(CUlink link, const char *text)
{
	size_t n;
	uint8_t *binary = soft_cuda_binary(text, 0, &n);
	CUresult e = cuLinkAddData(link, SOFT_CUDA_INPUT_CUBIN, binary, n, "x", 0, NULL, NULL);

	memset(binary, '?', n); /* the linker has its own */
	free(binary);
	return e;
}

/* Runs f of a binary. Returns what it writes. */
static uint32_t run(void *binary)
{
	uint64_t out = 0, *param = &out;
	size_t n = sizeof(param);
	void *extra[] = {(void *)1, &param, (void *)2, &n, NULL};
	CUmodule module;
	CUfunction f;

	CU_ASSERT_EQUAL_FATAL(cuModuleLoadDataEx(&module, binary, 0, NULL, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuModuleGetFunction(&f, module, "f"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleUnload(module), CUDA_SUCCESS);
	return (uint32_t)out;
}

/* How much memory a binary says that its arrays take. */
static uint64_t bytes_of_arrays(const void *binary)
{
	const Elf64_Ehdr *head = binary;
	const Elf64_Shdr *s = (const void *)((const char *)binary + head->e_shoff);
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < head->e_shnum; i++)
		n += s[i].sh_type == SHT_NOBITS ? s[i].sh_size : 0;
	return n;
}

TEST(context, "a context")
{
	CUcontext c;
	CUstream s;

	CU_ASSERT_EQUAL_FATAL(cuInit(0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuStreamCreate(&s, 0), CUDA_SUCCESS);
}

/* Images of both kinds, in any order. */
TEST(images, "images become one binary")
{
	const char *const all[] = {function, entry, variable};
	void *out;
	size_t n;
	uint32_t i, k;

	for (i = 0; i < 6; i++) {
		CUlink link = begin();

		for (k = 0; k < 3; k++)
			CU_ASSERT_EQUAL((k == i / 2 ? add_binary : add)(link, all[(i + k) % 3]),
					CUDA_SUCCESS);
		CU_ASSERT_EQUAL_FATAL(cuLinkComplete(link, &out, &n), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(run(out), 42);
		CU_ASSERT_EQUAL(bytes_of_arrays(out), 32);
		CU_ASSERT_EQUAL(cuLinkDestroy(link), CUDA_SUCCESS);
	}
}

/* Completes a link of two images; the second may be NULL. */
static CUresult linked(const char *a, const char *b)
{
	CUlink link = begin();
	CUresult e;
	void *out;
	size_t n;

	CU_ASSERT_EQUAL(add(link, a), CUDA_SUCCESS);
	CU_ASSERT(!b || add(link, b) == CUDA_SUCCESS);
	CU_ASSERT_STRING_EQUAL(log_text, "");
	e = cuLinkComplete(link, &out, &n);
	CU_ASSERT_EQUAL(cuLinkDestroy(link), CUDA_SUCCESS);
	return e;
}

TEST(refused, "what does not fit is refused, with a message")
{
	CUlink link;
	CUmodule module;
	uint8_t *binary, *cut;
	size_t n;

	CU_ASSERT_EQUAL(linked(entry, variable), CUDA_ERROR_INVALID_IMAGE);
	CU_ASSERT_STRING_EQUAL(log_text, "Undefined reference to 'g'");
	CU_ASSERT_EQUAL(linked(entry, NULL), CUDA_ERROR_INVALID_IMAGE);
	CU_ASSERT_EQUAL(linked(variable, variable), CUDA_ERROR_INVALID_IMAGE);
	CU_ASSERT_STRING_EQUAL(log_text, "Multiple definition of 'x'");

	link = begin();
	CU_ASSERT_EQUAL(add(link, HEAD ".global .u32 x; .global .u32 x;"), CUDA_ERROR_INVALID_PTX);
	CU_ASSERT_STRING_EQUAL(log_text, "Multiple definition of 'x'");
	CU_ASSERT_EQUAL(add(link, HEAD ".entry f() {\n.reg .u32 %r;\nshl.u32 %r, %r, 1; ret; }"),
			CUDA_ERROR_INVALID_PTX);
	CU_ASSERT_STRING_EQUAL(log_text,
			       "ptx: line 6: the driver in software does not execute this "
			       "instruction with these words: shl.u32 %r, %r, 1");
	CU_ASSERT_EQUAL(add(link, "nonsense"), CUDA_ERROR_INVALID_PTX);
	CU_ASSERT_STRING_EQUAL(log_text, "ptx: line 1: this is no PTX: nonsense");
	CU_ASSERT_EQUAL(add_binary(link, "nonsense"), CUDA_ERROR_INVALID_PTX);
	binary = soft_cuda_binary(entry, 0, &n);
	CU_ASSERT_EQUAL(cuLinkAddData(link, 0, binary, n - 1, "x", 0, NULL, NULL),
			CUDA_ERROR_INVALID_IMAGE);
	cut = malloc(EI_NIDENT);
	memcpy(cut, binary, EI_NIDENT);
	CU_ASSERT_EQUAL(cuLinkAddData(link, 0, cut, EI_NIDENT, "x", 0, NULL, NULL),
			CUDA_ERROR_INVALID_IMAGE);
	free(cut);
	CU_ASSERT_EQUAL(cuLinkAddData(link, 2, binary, n, "x", 0, NULL, NULL),
			CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(cuLinkDestroy(link), CUDA_SUCCESS);
	/* a binary that no linker has completed */
	CU_ASSERT_EQUAL(cuModuleLoadDataEx(&module, binary, 0, NULL, NULL),
			CUDA_ERROR_INVALID_IMAGE);
	free(binary);
}

SUITE_MAIN("ptx_link")
