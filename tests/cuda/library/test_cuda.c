/* SPDX-License-Identifier: MIT */
/* The library with the checks of sample.h, over a real worker whose CUDA driver is the one in
 * software; and the loss of that worker. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "entries.h"
#include "fat.h"
#include "guest_direct.h"
#include "cuda_calls.h"
#include "record.h"
#include "sample.h"
#include "soft_binary.h"
#include "suite.h"
#include "vgpu/clock.h"
#include "softgpu/registers.h"

/* In a program that has something else where the window would have to be, which has its own
 * process.
 */
TEST(not_unified, "a program whose addresses are taken has no mapped memory")
{
	const struct sample_check *const tables[] = {mapped_checks, pinned_checks,
						     registered_checks};
	const struct sample_check *c;
	int status = -1, bad = 0, t, managed = -1;
	pid_t pid = fork();

	if (pid == 0) {
		mmap((void *)SOFTGPU_WINDOW_HINT, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
		setenv("VGPU_CUDA_VF", "/direct", 1);
		setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
		bad += cuInit(0) != CUDA_SUCCESS;
		bad += cuDeviceGetAttribute(&managed, 83, 0) != CUDA_SUCCESS || managed != 0;
		for (t = 0; t < 3; t++)
			for (c = tables[t]; c->name; c++)
				bad += !c->run();
		exit(bad > 0);
	}
	CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
}

static volatile uint8_t *used_to_the_end;

/* After the library's destructor. */
__attribute__((destructor(101))) static void use(void)
{
	if (used_to_the_end)
		used_to_the_end[4095]++;
}

/* Threads of a program may still use pinned memory when it ends. */
TEST(until_the_end, "pinned memory is there until the program ends")
{
	int status = -1;
	CUcontext c;
	void *p;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("VGPU_CUDA_VF", "/direct", 1);
		setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
		if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&c, 0) != CUDA_SUCCESS ||
		    cuCtxSetCurrent(c) != CUDA_SUCCESS ||
		    cuMemHostAlloc(&p, 4096, 0) != CUDA_SUCCESS)
			exit(1);
		used_to_the_end = p;
		exit(0);
	}
	CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
}

/* A program with cudart looks up hundreds of names, and then asks for a table. */
TEST(cudart, "the log says first why programs with cudart do not run")
{
	int status = -1, file = memfd_create("log", MFD_CLOEXEC), found;
	char said[2000] = "", name[20], *why, *at;
	const void *table;
	void *entry;
	uint32_t i, lines = 1;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("VGPU_CUDA_LOG", "1", 1);
		dup2(file, STDERR_FILENO);
		for (i = 0; i < 200; i++) {
			snprintf(name, sizeof(name), "cuNone%u", i);
			cuGetProcAddress_v2(name, &entry, 12040, 0, &found);
		}
		_exit(cuGetExportTable(&table, said) == CUDA_SUCCESS);
	}
	CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
	CU_ASSERT(pread(file, said, sizeof(said) - 1, 0) > 0);
	why = strstr(said, "NVIDIA's runtime library (cudart)");
	CU_ASSERT_PTR_NOT_NULL_FATAL(why);
	for (at = said; at < why; at++)
		lines += *at == '\n';
	CU_ASSERT(lines <= 3);
	close(file);
}

/* Ends with what a failed assertion is to the program, whose standard error is FILE. */
static void end_by_assertion(int file)
{
	setenv("VGPU_CUDA_VF", "/direct", 1);
	setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
	dup2(file, STDERR_FILENO);
	if (cuInit(0) != CUDA_SUCCESS || sample_asserts() != CUDA_ERROR_ASSERT ||
	    cuCtxSynchronize() != CUDA_ERROR_ASSERT)
		_exit(1);
	_exit(0);
}

TEST(assertion, "the text of an assertion that fails is the program's")
{
	static const char wanted[] = "a.cu:12: void f(): block: [0,0,0], thread: [5,0,0] Assertion "
				     "`x < 3` failed.\n";
	int status = -1, file = memfd_create("stderr", MFD_CLOEXEC);
	char said[sizeof(wanted) + 10] = "";
	pid_t pid = fork();

	if (pid == 0)
		end_by_assertion(file);
	CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
	CU_ASSERT(pread(file, said, sizeof(said) - 1, 0) > 0);
	CU_ASSERT_STRING_EQUAL(said, wanted);
	close(file);
}

/* Memory of the program's own that is mapped, and the window's pages in it. */
static struct {
	uint8_t *at, *window;
	CUdeviceptr x; /* memory of the device */
} view;

/* Whether the program has its own pages there again, with all that is in them. */
static bool is_own(void)
{
	bool had = view.at[0] == 5 && view.at[4095] == 5;

	view.at[0] = 6;
	return had && view.window[0] == 5;
}

static bool make_view(void)
{
	CUdeviceptr window;

	view.at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (view.at == MAP_FAILED || cuMemHostRegister_v2(view.at, 8192, 2) != CUDA_SUCCESS ||
	    cuMemHostGetDevicePointer_v2(&window, view.at, 0) != CUDA_SUCCESS ||
	    cuMemAlloc_v2(&view.x, 4096) != CUDA_SUCCESS)
		return false;
	memset(view.at, 5, 8192);
	/* where nobody unmaps it */
	view.window = mremap((void *)(uintptr_t)window, 0, 8192, MREMAP_MAYMOVE);
	return view.window != MAP_FAILED;
}

/* After the library's destructor. */
__attribute__((destructor(101))) static void look(void)
{
	if (view.window && !is_own())
		_exit(1);
}

/* Called behind what the library does at exit. */
static void end_late(void)
{
	if (!view.window)
		return;
	if (cuMemsetD8_v2(view.x, 8, 4096) != CUDA_SUCCESS ||
	    cuMemcpyDtoH_v2(view.at, view.x, 4096) != CUDA_SUCCESS || view.at[1] != 8)
		_exit(4);
	memset(view.at, 5, 4096);
	view.at[1] = 7;
	if (cuMemHostUnregister(view.at) != CUDA_SUCCESS || view.at[1] != 7 || view.window[1] != 5)
		_exit(3);
}

/* What the program has registered it may use until it ends, and so may nobody else: also if it
 * unregisters it very late, or has unmapped a part. */
TEST(own_at_the_end, "registered memory is the program's when it ends")
{
	enum { AS_IT_IS, LATE, PARTLY, ALL };
	int status, how;
	CUcontext c;
	pid_t pid;

	for (how = 0; how < ALL; how++) {
		pid = fork();
		if (pid == 0) {
			setenv("VGPU_CUDA_VF", "/direct", 1);
			setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
			if (cuInit(0) != CUDA_SUCCESS ||
			    cuDevicePrimaryCtxRetain(&c, 0) != CUDA_SUCCESS ||
			    cuCtxSetCurrent(c) != CUDA_SUCCESS ||
			    (how == LATE && atexit(end_late) != 0) ||
			    (link_window_is_unified() && !make_view()))
				_exit(2);
			if (how == PARTLY && view.at)
				munmap(view.at + 4096, 4096);
			exit(0);
		}
		CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

TEST(before_init, "nothing works before cuInit, and cuInit needs a VF")
{
	CUcontext c;
	int n;

	CU_ASSERT_EQUAL(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	unsetenv("VGPU_CUDA_VF");
	CU_ASSERT_EQUAL(cuInit(0), CUDA_ERROR_NO_DEVICE);
	setenv("VGPU_CUDA_VF", "/direct", 1);
	setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
	CU_ASSERT_EQUAL_FATAL(cuInit(0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuInit(0), CUDA_SUCCESS);
}

/* Memory that 32 bits cannot tell, which no VF here has. */
TEST(short_sizes, "sizes of 32 bits tell the most that they can")
{
	CU_ASSERT_EQUAL(memory_in_32_bits(0), 0);
	CU_ASSERT_EQUAL(memory_in_32_bits(UINT32_MAX - 1), UINT32_MAX - 1);
	CU_ASSERT_EQUAL(memory_in_32_bits(UINT32_MAX), UINT32_MAX);
	CU_ASSERT_EQUAL(memory_in_32_bits(UINT64_C(1) << 32), UINT32_MAX);
	CU_ASSERT_EQUAL(memory_in_32_bits(UINT64_MAX), UINT32_MAX);
}

/* Of a GPU whose first 14 attributes are all different: those are the properties, in their order.
 */
TEST(properties, "the device's properties are its first attributes")
{
	const struct softgpu_about own = link_about;
	struct cuda_properties p;
	int all[14], i;

	for (i = 0; i < 14; i++)
		link_about.attributes[1 + i] = 1000 + i;
	CU_ASSERT_EQUAL(cuDeviceGetProperties(&p, 0), CUDA_SUCCESS);
	memcpy(all, &p, sizeof(all));
	for (i = 0; i < 14; i++)
		CU_ASSERT_EQUAL(all[i], 1000 + i);
	link_about = own;
	CU_ASSERT_EQUAL(cuDeviceGetProperties(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(cuDeviceGetProperties(&p, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(sample, "the sample's checks pass")
{
	CU_ASSERT_EQUAL(sample_run(), 0);
	CU_ASSERT_EQUAL(sample_run(), 0); /* nothing is left of the first time */
}

/* The device's addresses are kept free from cuInit() on, before anybody asks for them. */
TEST(kept_free, "the device's addresses are kept free")
{
	const uint64_t at[] = {link_about.memory_at, link_arena.at};
	size_t i;
	void *got;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		got = mmap((void *)(uintptr_t)at[i], 4096, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		CU_ASSERT(got == MAP_FAILED && errno == EEXIST);
	}
}

/* The window has the worker's addresses, where a sanitizer does not choose others. */
TEST(unified, "GPU kernels reach the window at its addresses")
{
#ifndef __SANITIZE_THREAD__
	CU_ASSERT(link_window_is_unified());
#endif
}

/* Memory and events are shown to other processes of the VF, which this one cannot have. */
TEST(alone, "memory is not shown where there is nobody")
{
	struct cuda_ipc_memory shown = {{0}};
	struct cuda_ipc_event event = {{0}};
	CUdeviceptr p;
	CUevent e;
	int shows = 1;

	CU_ASSERT(sample_begin());
	CU_ASSERT_EQUAL_FATAL(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuPointerGetAttribute(&shows, 10, p), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(shows & 0xff, 0);
	CU_ASSERT_EQUAL(cuIpcGetMemHandle(&shown, p), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(cuIpcOpenMemHandle_v2(&p, shown, 1), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(cuMemFree_v2(p), CUDA_SUCCESS);
	CU_ASSERT(cuDeviceGetAttribute(&shows, 125, 0) == CUDA_SUCCESS && shows == 0);
	CU_ASSERT(cuDeviceGetAttribute(&shows, 20, 0) == CUDA_SUCCESS && shows == 3);
	CU_ASSERT_EQUAL(cuEventCreate(&e, 4), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL_FATAL(cuEventCreate(&e, 6), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuIpcGetEventHandle(&event, e), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(cuEventRecord(e, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuEventSynchronize(e), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuEventDestroy_v2(e), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuIpcOpenEventHandle(&e, event), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT(sample_end());
}

/* What is mapped stays mapped while the VF's memory is swapped, at both of its addresses. */
TEST(swapped, "what is mapped stays so while memory is swapped")
{
	const struct cuda_allocation what = {.type = 1, .location = {1, 0}};
	const struct cuda_access both = {{1, 0}, 3};
	const size_t g = (size_t)2 << 20;
	uint32_t seen[2], marks[2] = {0x12345678, 0x9abcdef0};
	CUmemHandle h, other;
	CUdeviceptr at;
	int round;

	CU_ASSERT_FATAL(sample_begin());
	CU_ASSERT_EQUAL_FATAL(cuMemAddressReserve(&at, 16 * g, 0, 0, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuMemCreate(&other, g, &what, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(cuMemCreate(&h, 2 * g, &what, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemMap(at + g, 2 * g, 0, h, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemMap(at + 3 * g, g, 0, other, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemMap(at + 7 * g, 2 * g, 0, h, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemSetAccess(at + g, 3 * g, &both, 1), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemSetAccess(at + 7 * g, 2 * g, &both, 1), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemcpyHtoD_v2(at + 3 * g - 4, marks, 8), CUDA_SUCCESS);
	for (round = 0; round < 2; round++) {
		CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_SUCCESS);
		CU_ASSERT_EQUAL_FATAL(guest_direct_swap(), 0);
		CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(seen, at + 3 * g - 4, 8), CUDA_SUCCESS);
		CU_ASSERT(seen[0] == marks[0] && seen[1] == marks[1]);
		CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(seen, at + 9 * g - 4, 4), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(seen[0], marks[0]);
		marks[0]++;
		CU_ASSERT_EQUAL(cuMemcpyHtoD_v2(at + 9 * g - 4, marks, 4), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(seen, at + 3 * g - 4, 4), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(seen[0], marks[0]);
	}
	CU_ASSERT_EQUAL(cuMemUnmap(at + g, 3 * g), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemUnmap(at + 7 * g, 2 * g), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemRelease(h), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemRelease(other), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAddressFree(at, 16 * g), CUDA_SUCCESS);
	CU_ASSERT(sample_end());
}

/* Loads F, launches its GPU kernel, and frees F. The call's error, or -1 for a wrong result. */
static CUresult run_fat(struct fat *f)
{
	uint32_t seen = 0;
	CUfunction function;
	CUmodule module;
	CUdeviceptr x;
	CUresult e = cuModuleLoadFatBinary(&module, f->at);

	free(f->at);
	if (e != CUDA_SUCCESS)
		return e;
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 4), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemsetD32_v2(x, 41, 1), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&function, module, "add_one"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x}, NULL),
			CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(&seen, x, 4), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemFree_v2(x), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleUnload(module), CUDA_SUCCESS);
	return seen == 42 ? CUDA_SUCCESS : -1;
}

/* What nvcc -rdc=true makes: a binary that is to be linked. */
static uint8_t *relocatable(const char *text, size_t *n)
{
	uint8_t *binary = soft_cuda_binary(text, 0, n);
	Elf64_Half type = ET_REL;

	memcpy(binary + offsetof(Elf64_Ehdr, e_type), &type, sizeof(type));
	return binary;
}

/* Two of them that need each other are linked, as they are or in a fat binary; one without the
 * other is refused by the linker, and one that lacks nothing is linked alone. */
TEST(relocatables, "what nvcc has made to be linked is linked")
{
	char log[300] = "";
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof(log)}, *image;
	size_t n, n_other, n_alone, bytes;
	uint8_t *one = relocatable(linked_ptx, &n), *other = relocatable(linked_to_ptx, &n_other),
		*alone = relocatable(sample_ptx, &n_alone);
	CUlinkState link;
	CUmodule module;
	CUfunction f;
	struct fat fat;

	fat_begin(&fat);
	fat_add(&fat, FAT_CUBIN, 70, FAT_ZSTD, other, n_other);
	CU_ASSERT_FATAL(sample_begin());
	CU_ASSERT_EQUAL(cuModuleLoadData(&module, alone), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&f, module, "vector_add"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleLoadDataEx(&module, one, 2, options, values),
			CUDA_ERROR_INVALID_PTX);
	CU_ASSERT(strstr(log, "weigh") || strstr(log, "steps"));
	CU_ASSERT_EQUAL(cuLinkCreate_v2(0, NULL, NULL, &link), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLinkAddData_v2(link, 0, one, n, "one", 0, NULL, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_PTX);
	CU_ASSERT_EQUAL(cuLinkAddData_v2(link, 2, fat.at, fat.bytes, "other", 0, NULL, NULL),
			CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleLoadData(&module, image), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&f, module, "linked"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&f, module, "step"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLinkDestroy(link), CUDA_SUCCESS);
	CU_ASSERT(sample_end());
	free(fat.at);
	free(alone);
	free(other);
	free(one);
}

/* To ask for a function takes none of the VF's memory for modules, 64 MiB: that is left for others.
 * To launch it does, 39 MiB. */
TEST(asking, "to ask for a function takes no memory, and to launch it does")
{
	static const char deep[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry deep()\n"
				   "{\n\t.local .align 8 .b8 d[5000];\n\tret;\n}\n";
	static const char big[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				  ".global .align 8 .b8 big[41943040];\n"
				  ".visible .entry nothing()\n{\n\tret;\n}\n";
	CUmodule module, other;
	CUfunction f;

	CU_ASSERT_FATAL(sample_begin());
	CU_ASSERT_EQUAL(cuModuleLoadData(&module, deep), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&f, module, "deep"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleLoadData(&other, big), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CU_ASSERT_EQUAL(cuModuleUnload(other), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleLoadData(&other, big), CUDA_ERROR_OUT_OF_MEMORY);
	CU_ASSERT(sample_end());
}

/* Whether a module with a variable of so many MiB finds room. */
static bool has_room(uint32_t mib)
{
	CUmodule module;
	char text[256];
	CUresult e;

	snprintf(text, sizeof(text),
		 ".version 6.0\n.target sm_70\n.address_size 64\n.global .align 8 .b8 big[%u];\n"
		 ".visible .entry nothing()\n{\n\tret;\n}\n",
		 mib << 20);
	e = cuModuleLoadData(&module, text);
	CU_ASSERT(e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY);
	return e == CUDA_SUCCESS && cuModuleUnload(module) == CUDA_SUCCESS;
}

/* Small modules share pages, of 2 MiB, and one that stays may be in any of those that they had:
 * they count the most that they had at a time, until there is none. */
TEST(small_modules, "small modules count the most that they had at a time")
{
	static const char small[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				    ".visible .entry nothing()\n{\n\tret;\n}\n";
	CUmodule first, others[400];
	uint32_t most = 64, i;

	CU_ASSERT_FATAL(sample_begin());
	while (most > 2 && !has_room(most))
		most--;
	CU_ASSERT_EQUAL(cuModuleLoadData(&first, small), CUDA_SUCCESS);
	CU_ASSERT(!has_room(most) && has_room(most - 2));
	for (i = 0; i < 400; i++)
		CU_ASSERT_EQUAL(cuModuleLoadData(&others[i], small), CUDA_SUCCESS);
	CU_ASSERT(!has_room(most - 2));
	for (i = 0; i < 400; i++)
		CU_ASSERT_EQUAL(cuModuleUnload(others[i]), CUDA_SUCCESS);
	CU_ASSERT(!has_room(most - 2));
	CU_ASSERT_EQUAL(cuModuleUnload(first), CUDA_SUCCESS);
	CU_ASSERT(has_room(most));
	CU_ASSERT(sample_end());
}

/* PTX and binaries from a fat binary, as they are and compressed; and damaged ones. */
TEST(fat_binaries, "what nvcc has compressed is loaded")
{
	static const char text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry add_one(.param .u64 at)\n{\n"
				   "\t.reg .b64 %d<2>;\n\t.reg .b32 %r<2>;\n"
				   "\tld.param.u64 %d0, [at];\n\tcvta.to.global.u64 %d1, %d0;\n"
				   "\tld.global.u32 %r0, [%d1];\n\tadd.u32 %r1, %r0, 1;\n"
				   "\tst.global.u32 [%d1], %r1;\n\tret;\n}\n";
	static const uint64_t packings[] = {0, FAT_LZ4, FAT_ZSTD};
	uint8_t *cubin;
	struct fat f;
	size_t n, i, at;

	cubin = soft_cuda_binary(text, 0, &n);
	CU_ASSERT_FATAL(sample_begin());
	for (i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
		fat_begin(&f);
		fat_add(&f, FAT_CUBIN, 90, packings[i], "for another GPU", 16);
		fat_add(&f, FAT_PTX, 70, packings[i], text, sizeof(text) - 1);
		CU_ASSERT_EQUAL(run_fat(&f), CUDA_SUCCESS);
		fat_begin(&f);
		fat_add(&f, FAT_PTX, 70, packings[i], "nonsense", 8);
		at = fat_add(&f, FAT_CUBIN, 70, packings[i], cubin, n);
		CU_ASSERT_EQUAL(run_fat(&f), CUDA_SUCCESS);
		fat_begin(&f);
		at = fat_add(&f, FAT_CUBIN, 70, packings[i], cubin, n);
		memset(f.at + at + FAT_MEMBER, 0xff, 16);
		CU_ASSERT_EQUAL(run_fat(&f), CUDA_ERROR_INVALID_PTX);
		/* a few bytes that would become more than the VF may have */
		fat_begin(&f);
		at = fat_add(&f, FAT_PTX, 70, packings[i], text, sizeof(text) - 1);
		memcpy(f.at + at + FAT_UNPACKED, &(uint64_t){UINT64_C(1) << 62}, 8);
		CU_ASSERT_EQUAL(run_fat(&f), packings[i] ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS);
	}
	fat_begin(&f);
	fat_add(&f, FAT_PTX, 90, FAT_ZSTD, text, sizeof(text) - 1);
	CU_ASSERT_EQUAL(run_fat(&f), CUDA_ERROR_NO_BINARY_FOR_GPU); /* nothing for this GPU */
	CU_ASSERT(sample_end());
	free(cubin);
}

/* Reads what this process tells others. Whether there is something. */
static bool read_record(struct record *out)
{
	char path[40], link[sizeof(RECORD_LINK)];
	int i, fd;
	ssize_t n = -1;

	for (i = 0; i < 1024; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, link, sizeof(link)) != sizeof(RECORD_LINK) - 1 ||
		    memcmp(link, RECORD_LINK, sizeof(RECORD_LINK) - 1) != 0)
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = pread(fd, out, sizeof(*out), 0);
		close(fd);
	}
	return n == sizeof(*out);
}

/* Others find out what memory this program has, and nothing of a child that has no VF. */
TEST(record, "others may know what memory the program has")
{
	struct record r = {0};
	size_t left, all;
	CUdeviceptr x, y;
	CUcontext c;
	int status;
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_FATAL(read_record(&r));
	CU_ASSERT_EQUAL(r.layout, RECORD_LAYOUT);
	CU_ASSERT_STRING_EQUAL(r.vf, "vfio-user:/direct");
	CU_ASSERT_EQUAL(cuMemGetInfo_v2(&left, &all), CUDA_SUCCESS);
	CU_ASSERT(r.total == all && r.used == all - left);
	CU_ASSERT(r.about.name[0] && r.about.attributes[75] > 0);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 5 << 20), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAllocAsync(&y, 3 << 20, NULL), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left + (8 << 20));
	CU_ASSERT_EQUAL(cuMemFree_v2(x), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left + (3 << 20));
	child = fork();
	if (child == 0)
		_exit(read_record(&r));
	waitpid(child, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(cuMemFreeAsync(y, NULL), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* Puts a launch that only the host can refuse into the ring: of a module that is not there. */
static void put_refused(void)
{
	const uint64_t arg[7] = {SOFTGPU_MAX_MODULES - 1,
				 link_parts.structure_at,
				 sizeof(struct softgpu_launch),
				 0,
				 0,
				 0,
				 link_parts.launch_report_at};

	CU_ASSERT_EQUAL(call_begin(NEEDS_CONTEXT, NULL), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(link_put(SOFTGPU_LAUNCH, SOFTGPU_REPORT, arg), CUDA_SUCCESS);
	call_end("put_refused", CUDA_SUCCESS);
}

/* The error of a launch that the host refuses comes once, from a call that waits: none that loads
 * or asks, and none that only waits for room, fails for it. */
TEST(refused, "what the host refuses is the error of a call that waits")
{
	CUdeviceptr x;
	CUevent event;
	CUfunction f;
	CUmodule m;
	size_t bytes;
	int i, n;
	void *params[] = {&x};

	CU_ASSERT_FATAL(sample_begin());
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 256), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuEventCreate(&event, 2), CUDA_SUCCESS);
	put_refused();
	CU_ASSERT_EQUAL(cuModuleLoadData(&m, programs_ptx), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetFunction(&f, m, "scale"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuModuleGetGlobal_v2(NULL, &bytes, m, "factor"), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 64, 0), CUDA_SUCCESS);
	for (i = 0; i < 1000; i++) /* more of each than there is room for */
		CU_ASSERT_EQUAL(cuMemsetD32Async(x, (unsigned)i, 64, NULL), CUDA_SUCCESS);
	for (i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(cuEventRecord(event, NULL), CUDA_SUCCESS);
	for (i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(cuMemsetD8Async(x, (uint8_t)i, 63, NULL), CUDA_SUCCESS);
	for (i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL),
				CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CU_ASSERT_EQUAL(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	CU_ASSERT(sample_end());
}

/* Calls that do not wait may leave the doorbell to the library, which rings it by itself. */
TEST(rung, "a doorbell is rung for each call")
{
	vgpu_nsec until;
	CUdeviceptr x;
	CUcontext c;
	int i, k;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 64), CUDA_SUCCESS);
	for (k = 0; k < 20; k++) {
		for (i = 0; i < 5; i++)
			CU_ASSERT_EQUAL(cuMemsetD8Async(x, 1, 64, NULL), CUDA_SUCCESS);
		until = vgpu_now() + 20 * VGPU_SEC;
		while (!guest_direct_all_rung() && vgpu_now() < until)
			sched_yield();
		CU_ASSERT_FATAL(guest_direct_all_rung());
	}
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* A clock that stands still, but for what each look at it takes, if that is not 0: QUICK_TAKES for
 * the first QUICK_LOOKS, and then LOOK_TAKES. */
#define QUICK_TAKES VGPU_USEC
static _Atomic vgpu_nsec look_takes, stands_at;
static atomic_int quick_looks;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	vgpu_nsec takes = look_takes, at;

	if (takes == 0)
		return __real_clock_gettime(clock, t);
	takes = atomic_fetch_sub(&quick_looks, 1) > 0 ? QUICK_TAKES : takes;
	at = atomic_fetch_add(&stands_at, takes) + takes;
	*t = (struct timespec){at / VGPU_SEC, at % VGPU_SEC};
	return 0;
}

static void stop_clock(vgpu_nsec takes, int quick)
{
	if (look_takes == 0)
		stands_at = vgpu_now();
	quick_looks = quick;
	look_takes = takes;
}

#define COPIED ((uint64_t)4 << 20) /* eight of the longest steps */
static uint8_t copied[COPIED], came_back[COPIED];

/* In how many packets BYTES of X are written, with a clock as in stop_clock(). */
static uint64_t packets(CUdeviceptr x, uint64_t bytes, vgpu_nsec takes, int quick)
{
	const uint64_t few = 3 * (COPIED / 64) + 5; /* which teaches nothing */
	uint64_t before, put;

	copied[0]++;
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_SUCCESS);
	before = guest_direct_packets();
	stop_clock(takes, quick);
	CU_ASSERT_EQUAL(cuMemcpyHtoDAsync_v2(x, copied, bytes, NULL), CUDA_SUCCESS);
	look_takes = 0;
	put = guest_direct_packets() - before;
	CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(came_back, x, few), CUDA_SUCCESS);
	CU_ASSERT(memcmp(came_back, copied, few) == 0);
	return put;
}

/* A copy's steps follow from the quickest step of the copy before: 75 us is not too long. */
TEST(steps, "steps of a copy suit the CPU")
{
	const vgpu_nsec slow = 76 * VGPU_USEC, fast = 74 * VGPU_USEC;
	const struct {
		vgpu_nsec takes;
		int quick;
		uint64_t packets;
	} cases[] = {
		{fast, 0, 8},  {fast, 0, 8},	     {slow, 0, 8},  {slow, 0, 16},
		{slow, 0, 32}, {slow, 0, 64},	     {slow, 0, 64}, {fast, 0, 64},
		{fast, 0, 64}, {QUICK_TAKES, 0, 64}, {slow, 9, 8},  {slow, 3, 8},
		{slow, 0, 8},  {QUICK_TAKES, 0, 16}, {fast, 0, 8},
	};
	CUdeviceptr x;
	CUcontext c;
	uint64_t i;

	for (i = 0; i < COPIED; i++)
		copied[i] = (uint8_t)(i * 7 + i / 251);
	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, COPIED), CUDA_SUCCESS);
	packets(x, COPIED, QUICK_TAKES, 0);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		CU_ASSERT_EQUAL(packets(x, COPIED, cases[i].takes, cases[i].quick),
				cases[i].packets);
	packets(x, COPIED / 8 * 3 + 5, slow, 0); /* teaches nothing */
	CU_ASSERT_EQUAL(packets(x, COPIED, QUICK_TAKES, 0), 8);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

static atomic_bool copy_returned;

/* Lets the worker go on when the copy has returned, or hangs. Whether it has returned. */
static void *go_on(void *returned)
{
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;

	while (!copy_returned && vgpu_now() < until)
		sched_yield();
	*(bool *)returned = copy_returned;
	guest_direct_pause(false);
	return NULL;
}

/* With short steps, copies of 4 MiB wait as little as with long ones; and each byte is copied, and
 * no other. */
TEST(short_steps, "short steps copy the same, and wait no longer")
{
	uint8_t *to = came_back;
	uint64_t n, at, i;
	unsigned wrong = 0;
	pthread_t thread;
	bool returned = false;
	CUdeviceptr x;
	CUcontext c;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, COPIED), CUDA_SUCCESS);
	packets(x, COPIED, 2 * VGPU_MSEC, 0);
	for (n = 0; n <= 140; n++)
		for (at = 0; at < 32; at += 3) {
			memset(to, 0, 200);
			CU_ASSERT_EQUAL(cuMemcpyHtoD_v2(x, copied + 31 - at, n), CUDA_SUCCESS);
			CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(to + at, x, n), CUDA_SUCCESS);
			for (i = 0; i < 200; i++)
				wrong += to[i] !=
					 (i < at || i >= at + n ? 0 : copied[31 - at + i - at]);
		}
	CU_ASSERT_EQUAL(wrong, 0);
	guest_direct_pause(true);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, go_on, &returned), 0);
	CU_ASSERT_EQUAL(cuMemcpyHtoDAsync_v2(x, copied, COPIED, NULL), CUDA_SUCCESS);
	copy_returned = true;
	pthread_join(thread, NULL);
	CU_ASSERT(returned);
	CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(came_back, x, COPIED), CUDA_SUCCESS);
	CU_ASSERT(memcmp(came_back, copied, COPIED) == 0);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* If this is set, Linux has no memory for what the program maps where it likes; or moves no mapping
 * over another, and what was there is gone. */
static bool cannot_map, cannot_move;
static bool signals; /* a signal comes whenever a mapping is moved */
static bool is_moving;
static int n_within, n_after; /* signals that came meanwhile, and later */

static void count(int)
{
	*(is_moving ? &n_within : &n_after) += 1;
}

void *__real_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
	if (!cannot_map)
		return __real_mmap64(at, bytes, rights, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

void *__real_mremap(void *at, size_t old, size_t bytes, int flags, void *to);
void *__wrap_mremap(void *at, size_t old, size_t bytes, int flags, ...);
void *__wrap_mremap(void *at, size_t old, size_t bytes, int flags, ...)
{
	va_list list;
	void *to;

	if (signals) {
		is_moving = true;
		raise(SIGUSR1);
		is_moving = false;
	}
	va_start(list, flags);
	to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
	va_end(list);
	if (to ? !cannot_move : !cannot_map)
		return __real_mremap(at, old, bytes, flags, to);
	if (to)
		munmap(to, bytes);
	errno = ENOMEM;
	return MAP_FAILED;
}

static bool is_all(const uint8_t *p, uint8_t value)
{
	return p[0] == value && memcmp(p, p + 1, 8191) == 0;
}

/* What there is no memory for changes nothing, and can be tried again: what a context leaves is
 * nobody's, and is there still. */
TEST(without_memory, "registered memory stays what it is without memory to move to")
{
	uint8_t *p = aligned_alloc(4096, 8192);
	const uint64_t stage = link_stage_size();
	CUcontext context;
	CUdeviceptr at;

	CU_ASSERT_FATAL(p && sample_begin());
	if (link_window_is_unified()) {
		memset(p, 5, 8192);
		cannot_map = true;
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_ERROR_OUT_OF_MEMORY);
		cannot_map = false;
		CU_ASSERT(is_all(p, 5));
		CU_ASSERT_EQUAL(link_stage_size(), stage);
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
		CU_ASSERT_EQUAL(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemHostGetDevicePointer_v2(&at, p, 0), CUDA_SUCCESS);
		cannot_map = true;
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_ERROR_OUT_OF_MEMORY);
		CU_ASSERT_EQUAL(cuMemsetD8_v2(at, 6, 8192), CUDA_SUCCESS);
		CU_ASSERT(is_all(p, 6));
		CU_ASSERT_EQUAL(cuCtxDestroy_v2(context), CUDA_SUCCESS);
		cannot_map = false;
		CU_ASSERT_EQUAL(cuMemsetD8_v2(at, 7, 8192), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_SUCCESS);
		CU_ASSERT(is_all(p, 7));
		CU_ASSERT_EQUAL(cuMemsetD8_v2(at, 8, 8192), CUDA_ERROR_INVALID_VALUE);
	}
	free(p);
	CU_ASSERT(sample_end());
}

/* Nobody calls fork() or exit() from a signal's handler in the middle of that: they would wait for
 * ever. */
TEST(no_signals, "registered memory moves without a signal")
{
	struct sigaction old, new = {.sa_handler = count};
	uint8_t *p = aligned_alloc(4096, 8192);
	sigset_t before, after;

	CU_ASSERT_FATAL(p && sample_begin());
	if (link_window_is_unified()) {
		memset(p, 5, 8192);
		sigemptyset(&before);
		sigaddset(&before, SIGUSR2);
		pthread_sigmask(SIG_SETMASK, &before, &after);
		sigaction(SIGUSR1, &new, &old);
		signals = true;
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_SUCCESS);
		CU_ASSERT(n_within == 0 && n_after == 1);
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_SUCCESS);
		CU_ASSERT(n_within == 0 && n_after == 2);
		signals = false;
		sigaction(SIGUSR1, &old, NULL);
		pthread_sigmask(SIG_SETMASK, &after, &before);
		CU_ASSERT(sigismember(&before, SIGUSR2) == 1 && sigismember(&before, SIGUSR1) == 0);
	}
	free(p);
	CU_ASSERT(sample_end());
}

/* Without descriptors, nothing tells which pages are still the window's. */
TEST(without_descriptors, "registered memory stays what it is without descriptors")
{
	uint8_t *p = aligned_alloc(4096, 8192);
	struct rlimit old, none;
	CUdeviceptr at;

	CU_ASSERT_FATAL(p && sample_begin());
	if (link_window_is_unified()) {
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemHostGetDevicePointer_v2(&at, p, 0), CUDA_SUCCESS);
		CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &old), 0);
		none = old;
		none.rlim_cur = 0;
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_ERROR_OUT_OF_MEMORY);
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &old), 0);
		CU_ASSERT_EQUAL(cuMemsetD8_v2(at, 7, 8192), CUDA_SUCCESS);
		CU_ASSERT(is_all(p, 7));
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_SUCCESS);
		CU_ASSERT(is_all(p, 7));
	}
	free(p);
	CU_ASSERT(sample_end());
}

/* A child that there is no memory for has none there, rather than its parent's. */
TEST(child_without_memory, "registered memory that a child has no memory for is not there")
{
	uint8_t *p = aligned_alloc(4096, 8192);
	int status = -1;
	pid_t pid;

	CU_ASSERT_FATAL(p && sample_begin());
	if (link_window_is_unified()) {
		memset(p, 5, 8192);
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_SUCCESS);
		cannot_map = true;
		pid = fork();
		if (pid == 0)
			_exit(msync(p, 8192, MS_ASYNC) == 0 || errno != ENOMEM);
		cannot_map = false;
		CU_ASSERT(waitpid(pid, &status, 0) == pid && status == 0);
		CU_ASSERT(is_all(p, 5));
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_SUCCESS);
		CU_ASSERT(is_all(p, 5));
	}
	free(p);
	CU_ASSERT(sample_end());
}

/* The program keeps what is in its memory, also if that cannot be mapped, or only copied back. */
TEST(not_moved, "registered memory keeps its contents where mappings cannot be moved")
{
	uint8_t *p = aligned_alloc(4096, 8192);
	CUdeviceptr at;

	CU_ASSERT_FATAL(p && sample_begin());
	if (link_window_is_unified()) {
		memset(p, 5, 8192);
		cannot_move = true;
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_ERROR_OUT_OF_MEMORY);
		cannot_move = false;
		CU_ASSERT(is_all(p, 5));
		CU_ASSERT_EQUAL(cuMemHostRegister_v2(p, 8192, 2), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemHostGetDevicePointer_v2(&at, p, 0), CUDA_SUCCESS);
		CU_ASSERT_EQUAL(cuMemsetD8_v2(at, 6, 8192), CUDA_SUCCESS);
		cannot_move = true;
		CU_ASSERT_EQUAL(cuMemHostUnregister(p), CUDA_SUCCESS);
		cannot_move = false;
		CU_ASSERT(is_all(p, 6));
	}
	free(p);
	CU_ASSERT(sample_end());
}

/* A worker that dies takes its program's contexts with it: each call says so, and none waits. */
TEST(loss, "the loss of the worker is the program's error")
{
	CUdeviceptr x;
	CUcontext c;
	CUevent event;
	CUresult e;
	uint32_t seen;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 4), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuEventCreate(&event, 0), CUDA_SUCCESS);
	CU_ASSERT(!link_window_is_unified() || make_view());
	guest_direct_kill();
	/* Either the worker is still alive, or not. */
	e = cuEventRecord(event, NULL);
	while (e == CUDA_SUCCESS || e == CUDA_ERROR_NOT_READY)
		e = cuEventQuery(event) == CUDA_SUCCESS ? cuEventRecord(event, NULL)
							: cuEventQuery(event);
	CU_ASSERT_EQUAL(e, CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(&seen, x, 4), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 4), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuInit(0), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuMemHostUnregister(view.at), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT(!view.window || is_own());
	view.window = NULL;
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_LAUNCH_FAILED);
}

/* Runs behind the library's own: what is called when the program ends is told so. */
__attribute__((destructor(101))) static void at_the_end(void)
{
	CUresult e = cuInit(0), other = cuCtxSynchronize();

	if (e == CUDA_ERROR_DEINITIALIZED && other == CUDA_ERROR_DEINITIALIZED)
		return;
	printf("at the end of the program: %d, %d\n", e, other);
	fflush(stdout);
	_exit(1);
}

SUITE_MAIN("cuda")
