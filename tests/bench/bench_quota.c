/* SPDX-License-Identifier: MIT */
/*
 * A guest's program that takes as much of the GPU's memory as it can: bench-quota MIB SEED STEPS.
 * MIB is the host's --module-memory; SEED decides on what it tries, in which order. The VF is the
 * one of VGPU_CUDA_VF. After each try it asks bench-free, by descriptor 3 and standard input, how
 * much is free. Prints JSON, bytes: all of the GPU's memory; what was free when the VF had begun,
 * and the least that was; and the pages of what the driver keeps for GPU kernels.
 *
 * It allocates memory and handles; loads modules with arrays of many sizes, alignments and spaces,
 * some of them linked of two images; and launches GPU kernels with much local memory; each also
 * until no more is given; and frees and unloads in between.
 */
#include <string.h>
#include <unistd.h>

#include "entries.h"
#include "sample.h"

#define PAGE (UINT64_C(2) << 20)
#define MODULES 64u /* more than a VF has */
#define HELD 64u
#define TEXT 8192u
#define LOCAL_MOST (UINT64_C(512) << 10) /* that PTX can have */
#define CONSTANTS_MOST (UINT64_C(64) << 10)
#define QUESTIONS 3

static struct {
	CUmodule modules[MODULES];
	CUdeviceptr memory[HELD];
	CUmemHandle handles[HELD];
	unsigned n_modules, n_memory, n_handles;
	CUdeviceptr out; /* where GPU kernels write to */
	uint64_t module_memory, random, threads;
	uint64_t attempts, refused;
	size_t all, free, least, kept;
} a;

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "bench-quota: %s\n", what);
	exit(1);
}

static uint64_t below(uint64_t n)
{
	a.random ^= a.random << 13;
	a.random ^= a.random >> 7;
	a.random ^= a.random << 17;
	return a.random % n;
}

static size_t pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The least that was free since the last time. */
static size_t look(void)
{
	size_t least = 0, heap, output;

	if (write(QUESTIONS, "\n", 1) != 1 ||
	    scanf("%zu %zu %zu %zu", &a.all, &least, &heap, &output) != 4)
		fail("bench-free does not answer");
	a.kept = pages(heap) + pages(output);
	return least;
}

static bool tried(CUresult e)
{
	size_t least = look();

	a.attempts++;
	a.refused += e != CUDA_SUCCESS;
	a.least = least < a.least ? least : a.least;
	return e == CUDA_SUCCESS;
}

/* Of all magnitudes up to MOST, and around whole pages. */
static uint64_t any_size(uint64_t most)
{
	switch (below(3)) {
	case 0:
		return 1 + below(most);
	case 1:
		return 1 + (below(most) >> below(32));
	default:
		return (1 + below(most / PAGE + 1)) * PAGE + below(3) - 1;
	}
}

/* memory */

static bool allocate(uint64_t bytes)
{
	return a.n_memory < HELD && tried(cuMemAlloc_v2(&a.memory[a.n_memory], bytes)) &&
	       ++a.n_memory;
}

static bool create(uint64_t bytes)
{
	const struct cuda_allocation what = {.type = 1, .location = {.type = 1}};

	return a.n_handles < HELD &&
	       tried(cuMemCreate(&a.handles[a.n_handles], pages(bytes), &what, 0)) && ++a.n_handles;
}

static void give_memory(void)
{
	unsigned i = a.n_memory ? (unsigned)below(a.n_memory) : 0;

	if (a.n_memory == 0)
		return;
	cuMemFree_v2(a.memory[i]);
	a.memory[i] = a.memory[--a.n_memory];
}

static void give_handle(void)
{
	unsigned i = a.n_handles ? (unsigned)below(a.n_handles) : 0;

	if (a.n_handles == 0)
		return;
	cuMemRelease(a.handles[i]);
	a.handles[i] = a.handles[--a.n_handles];
}

/* modules */

static size_t put_array(char *text, size_t at, bool constant, uint64_t bytes)
{
	return at + (size_t)snprintf(text + at, TEXT - at,
				     ".visible %s .align %u .b8 a%zu[%llu];\n",
				     constant ? ".const" : ".global", 1u << below(13), at,
				     (unsigned long long)bytes);
}

/* A GPU kernel each of whose threads has LOCAL bytes for itself, and uses them. */
static void put_kernel(char *text, size_t at, uint64_t local)
{
	snprintf(text + at, TEXT - at,
		 ".visible .entry deep(.param .u64 out)\n{\n"
		 "\t.local .align 8 .b8 x[%llu];\n"
		 "\t.reg .b32 %%r<3>;\n\t.reg .b64 %%d<6>;\n\n"
		 "\tld.param.u64 %%d1, [out];\n\tcvta.to.global.u64 %%d1, %%d1;\n"
		 "\tmov.u64 %%d2, x;\n\tmov.u32 %%r1, %%tid.x;\n"
		 "\tmul.wide.u32 %%d3, %%r1, 8;\n\tadd.u64 %%d2, %%d2, %%d3;\n"
		 "\tmov.u64 %%d4, 5;\n\tst.local.u64 [%%d2], %%d4;\n"
		 "\tld.local.u64 %%d5, [%%d2];\n\tst.global.u64 [%%d1], %%d5;\n\tret;\n}\n",
		 (unsigned long long)(local + 8));
}

static size_t put_head(char *text)
{
	return (size_t)snprintf(text, TEXT, ".version 6.0\n.target sm_70\n.address_size 64\n\n");
}

static bool load(const char *text)
{
	return a.n_modules < MODULES && tried(cuModuleLoadData(&a.modules[a.n_modules], text)) &&
	       ++a.n_modules;
}

static CUresult add_image(CUlinkState link, char *text)
{
	return cuLinkAddData_v2(link, 1, text, strlen(text) + 1, "x", 0, NULL, NULL);
}

/* The same of what TEXT and an image with another array are linked to. */
static bool load_linked(char *text)
{
	CUlinkState link;
	char other[TEXT];
	size_t bytes, at;
	CUresult e;
	void *image;

	if (a.n_modules == MODULES || cuLinkCreate_v2(0, NULL, NULL, &link) != CUDA_SUCCESS)
		return false;
	at = put_head(other);
	snprintf(other + at, TEXT - at, ".visible .global .b8 other[%llu];\n",
		 (unsigned long long)any_size(a.module_memory));
	e = add_image(link, other);
	if (e == CUDA_SUCCESS)
		e = add_image(link, text);
	if (e == CUDA_SUCCESS)
		e = cuLinkComplete(link, &image, &bytes);
	if (e == CUDA_SUCCESS)
		e = cuModuleLoadData(&a.modules[a.n_modules], image);
	cuLinkDestroy(link);
	return tried(e) && ++a.n_modules;
}

/* One array of BYTES, and a GPU kernel with LOCAL bytes for each thread. */
static bool load_one(uint64_t bytes, uint64_t local)
{
	char text[TEXT];

	put_kernel(text, put_array(text, put_head(text), false, bytes), local);
	return load(text);
}

static void load_any(void)
{
	const unsigned arrays = 1 + (unsigned)below(8);
	const uint64_t most = a.module_memory * 3 / 2 / arrays;
	char text[TEXT];
	size_t at = put_head(text);
	bool constant;
	unsigned i;

	for (i = 0; i < arrays; i++) {
		constant = below(4) == 0;
		at = put_array(text, at, constant,
			       constant ? 1 + below(CONSTANTS_MOST / arrays) : any_size(most));
	}
	put_kernel(text, at,
		   below(2) ? below(LOCAL_MOST) >> below(16)
			    : below(a.module_memory * 5 / 4 / a.threads));
	if (below(3) == 0)
		load_linked(text);
	else
		load(text);
}

static void unload(unsigned i)
{
	cuModuleUnload(a.modules[i]);
	a.modules[i] = a.modules[--a.n_modules];
}

static bool launch(unsigned i)
{
	CUfunction f;
	CUresult e = cuModuleGetFunction(&f, a.modules[i], "deep");

	if (e == CUDA_SUCCESS)
		e = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a.out}, NULL);
	if (e == CUDA_SUCCESS)
		e = cuCtxSynchronize();
	return tried(e);
}

/* as much as there is */

static void allocate_all(void)
{
	uint64_t bytes;

	for (bytes = UINT64_C(1) << 32; bytes >= PAGE / 32; bytes /= 2)
		while (allocate(bytes))
			;
}

static void create_all(void)
{
	uint64_t bytes;

	for (bytes = UINT64_C(1) << 32; bytes >= PAGE; bytes /= 2)
		while (create(bytes))
			;
}

static void load_all(void)
{
	uint64_t bytes;

	for (bytes = a.module_memory * 2; bytes > 0; bytes /= 2)
		while (load_one(bytes, 0))
			;
}

static void launch_all(void)
{
	uint64_t local = 0, step;

	for (step = LOCAL_MOST / 2; step >= 4; step /= 2) {
		if (!load_one(1, local + step))
			return;
		if (launch(a.n_modules - 1))
			local += step;
		unload(a.n_modules - 1);
	}
}

static void act(void)
{
	switch (below(12)) {
	case 0:
		allocate(any_size(UINT64_C(1) << 28));
		break;
	case 1:
		create(any_size(UINT64_C(1) << 28));
		break;
	case 2:
		allocate_all();
		break;
	case 3:
		create_all();
		break;
	case 4:
		load_all();
		break;
	case 5:
		launch_all();
		break;
	case 6:
		give_memory();
		break;
	case 7:
		give_handle();
		break;
	case 8:
		if (a.n_modules > 0)
			unload((unsigned)below(a.n_modules));
		break;
	case 9:
		if (a.n_modules > 0)
			launch((unsigned)below(a.n_modules));
		break;
	default:
		load_any();
	}
}

static void give_all(void)
{
	while (a.n_modules > 0)
		unload(0);
	while (a.n_memory > 0)
		give_memory();
	while (a.n_handles > 0)
		give_handle();
}

/* A VF that is lost refuses everything, and takes nothing. */
static bool works(void)
{
	uint32_t is = 0;

	return cuMemsetD32_v2(a.out, 5, 1) == CUDA_SUCCESS &&
	       cuMemcpyDtoH_v2(&is, a.out, sizeof(is)) == CUDA_SUCCESS && is == 5;
}

static void begin(void)
{
	int processors = 0, threads = 0;
	CUcontext context;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&a.out, 8) ||
	    cuDeviceGetAttribute(&processors, 16, 0) || cuDeviceGetAttribute(&threads, 39, 0))
		fail("the VF does not start");
	a.threads = (uint64_t)processors * (uint64_t)threads;
}

int main(int argc, char **argv)
{
	unsigned long steps;

	if (argc != 4) {
		fputs("usage: bench-quota MIB SEED STEPS\n", stderr);
		return 2;
	}
	a.module_memory = strtoull(argv[1], NULL, 10) << 20;
	a.random = strtoull(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	begin();
	look();
	a.free = a.least = look();
	for (steps = strtoul(argv[3], NULL, 10); steps > 0; steps--)
		act();
	give_all();
	if (!works())
		fail("the VF does not work any more");
	printf("{\"attempts\":%llu,\"refused\":%llu,\"all\":%zu,\"free\":%zu,\"least\":%zu,"
	       "\"kept\":%zu}\n",
	       (unsigned long long)a.attempts, (unsigned long long)a.refused, a.all, a.free,
	       a.least, a.kept);
	return 0;
}
