/* SPDX-License-Identifier: MIT */
/* Checks of what GPU kernels print, which comes to the program's standard output. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "sample.h"

/* print: times x vprintf(format, arguments), whose result is *r. assert: fails. */
static const char prints_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);\n"
	".extern .func __assertfail(.param .b64 text, .param .b64 file, .param .b32 line, .param "
	".b64 function, .param .b64 size);\n"
	".global .align 1 .b8 text[6] = {120, 32, 60, 32, 51, 0};\n"
	".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n"
	".global .align 1 .b8 function[9] = {118, 111, 105, 100, 32, 102, 40, 41, 0};\n"
	".visible .entry print(.param .u64 format, .param .u64 arguments, .param .u64 r, .param "
	".u32 times)\n{\n"
	"\t.reg .b64 %d<4>;\n\t.reg .b32 %r<3>;\n\t.reg .pred %p;\n"
	"\tld.param.u64 %d0, [format];\n\tld.param.u64 %d1, [arguments];\n"
	"\tld.param.u64 %d2, [r];\n\tld.param.u32 %r0, [times];\n"
	"again:\n\tsetp.eq.u32 %p, %r0, 0;\n\t@%p ret;\n\tsub.u32 %r0, %r0, 1;\n"
	"\t{ .param .b64 f; .param .b64 a; .param .b32 n; st.param.b64 [f], %d0;\n"
	"\tst.param.b64 [a], %d1; call.uni (n), vprintf, (f, a); ld.param.b32 %r1, [n]; }\n"
	"\tst.global.u32 [%d2], %r1;\n\tbra again;\n}\n"
	".visible .entry assert(.param .u32 at)\n{\n"
	"\t.reg .b64 %d<3>;\n\t.reg .b32 %r<2>;\n\t.reg .pred %p;\n"
	"\tld.param.u32 %r0, [at];\n\tmov.u32 %r1, %tid.x;\n\tsetp.ne.u32 %p, %r0, %r1;\n"
	"\t@%p ret;\n\tmov.u64 %d0, text;\n\tmov.u64 %d1, file;\n\tmov.u64 %d2, function;\n"
	"\t{ .param .b64 t; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
	"\tst.param.b64 [t], %d0; st.param.b64 [f], %d1; st.param.b32 [l], 12;\n"
	"\tst.param.b64 [n], %d2; st.param.b64 [s], 1;\n"
	"\tcall.uni __assertfail, (t, f, l, n, s); }\n\tret;\n}\n";

struct printer {
	CUmodule module;
	CUfunction print;
	CUdeviceptr at; /* a format, arguments behind 512 bytes, a text behind 1024; the result */
	int before;	/* standard output */
	int file;	/* in its place */
};
#define ARGUMENTS 512
#define TEXT 1024
#define RESULT 2048

static bool open_printer(struct printer *p)
{
	CHECK(sample_begin());
	OK(cuModuleLoadData(&p->module, prints_ptx));
	OK(cuModuleGetFunction(&p->print, p->module, "print"));
	OK(cuMemAlloc_v2(&p->at, 4096));
	fflush(stdout);
	p->before = dup(STDOUT_FILENO);
	p->file = memfd_create("stdout", MFD_CLOEXEC);
	CHECK(p->before >= 0 && p->file >= 0 && dup2(p->file, STDOUT_FILENO) >= 0);
	return true;
}

static bool launch(struct printer *p, const char *format, unsigned times)
{
	CUdeviceptr arguments = p->at + ARGUMENTS, result = p->at + RESULT;
	void *const params[] = {&p->at, &arguments, &result, &times};

	OK(cuMemcpyHtoD_v2(p->at, format, strlen(format) + 1));
	OK(cuLaunchKernel(p->print, 1, 1, 1, 1, 1, 1, 0, NULL, (void **)params, NULL));
	return true;
}

/* Returns what is in standard output's place since the last call, which the caller frees. */
static char *printed(struct printer *p)
{
	off_t n;
	char *text;

	fflush(stdout);
	n = lseek(p->file, 0, SEEK_END);
	text = calloc(1, (size_t)n + 1);
	if (!text || pread(p->file, text, (size_t)n, 0) != n || ftruncate(p->file, 0) < 0 ||
	    lseek(p->file, 0, SEEK_SET) < 0)
		abort();
	return text;
}

static bool has_printed(struct printer *p, const char *wanted)
{
	char *text = printed(p);
	bool is = strcmp(text, wanted) == 0;

	if (!is)
		fprintf(stderr, "printed \"%s\", not \"%s\"\n", text, wanted);
	free(text);
	return is;
}

static bool close_printer(struct printer *p, bool ok)
{
	fflush(stdout);
	dup2(p->before, STDOUT_FILENO);
	close(p->before);
	close(p->file);
	CHECK(ok);
	OK(cuMemFree_v2(p->at));
	if (p->module)
		OK(cuModuleUnload(p->module));
	return sample_end();
}

/* Conversions with numbers and texts, and what is none. Arguments are of 64 bits if WIDE says so,
 * the first in its lowest bit. */
static bool formats_of(struct printer *p)
{
	static const struct {
		const char *format, *wanted;
		uint32_t n, wide;
		double real;
		int64_t whole[3];
		int result;
	} all[] = {
		{"plain\n", "plain\n", .result = 0},
		{"%d %5d|%-5d|\n", "-7    42|3    |\n", 3, 0, 0, {-7, 42, 3}, 3},
		{"%+d % d %05d\n", "+7  8 -0009\n", 3, 0, 0, {7, 8, -9}, 3},
		{"%u %o %#x\n", "4294967295 17 0xff\n", 3, 0, 0, {-1, 15, 255}, 3},
		{"%lld %X %llu\n",
		 "-5000000000 AB 18446744073709551615\n",
		 3,
		 5,
		 0,
		 {-5000000000, 0xab, -1},
		 3},
		{"%hd %hhu %c\n", "-1 255 A\n", 3, 0, 0, {0xffff, 0xfff, 'A'}, 3},
		{"%*d|%.4d\n", "   5|0006\n", 3, 0, 0, {4, 5, 6}, 3},
		{"%-*d|\n", "5   |\n", 2, 0, 0, {4, 5}, 2},
		{"%*d|\n", "5   |\n", 2, 0, 0, {-4, 5}, 2},
		{"%f\n", "1.500000\n", 0, 0, 1.5, {0}, 1},
		{"%8.2e|\n", "1.50e+00|\n", 0, 0, 1.5, {0}, 1},
		{"%a\n", "0x1.8p+0\n", 0, 0, 1.5, {0}, 1},
		{"%%|%d%%\n", "%|3%\n", 1, 0, 0, {3}, 1},
		{"%n %k %\n", "%n %k %\n", .result = 0},
		{"%5", "%5", .result = 0},
		{"%100000d\n", "", 1, 0, 0, {1}, -2},
		{"%.2147483647d\n", "", 1, 0, 0, {1}, -2},
		{"%99999999999999999999d\n", "", 1, 0, 0, {1}, -2},
	};
	uint8_t arguments[64];
	uint32_t i, k, used;
	int result;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		memcpy(arguments, &all[i].real, sizeof(double));
		for (k = used = 0; k < all[i].n; k++) {
			const uint32_t size = all[i].wide >> k & 1 ? 8 : 4;

			used = (used + size - 1) / size * size;
			memcpy(arguments + used, &all[i].whole[k], size);
			used += size;
		}
		OK(cuMemcpyHtoD_v2(p->at + ARGUMENTS, arguments, sizeof(arguments)));
		CHECK(launch(p, all[i].format, 1));
		OK(cuMemcpyDtoH_v2(&result, p->at + RESULT, 4));
		if (result != all[i].result)
			fprintf(stderr, "%s: %d\n", all[i].format, result);
		CHECK(result == all[i].result);
		CHECK(has_printed(p, all[i].wanted));
	}
	return true;
}

/* Texts of the device. */
static bool texts_of(struct printer *p)
{
	CUdeviceptr text = p->at + TEXT, null = 0;
	int result;

	OK(cuMemcpyHtoD_v2(text, "seven", 6));
	OK(cuMemcpyHtoD_v2(p->at + ARGUMENTS, &text, 8));
	CHECK(launch(p, "%s|\n", 1) && launch(p, "%8s|\n", 1) && launch(p, "%-8.2s|\n", 1));
	OK(cuCtxSynchronize());
	CHECK(has_printed(p, "seven|\n   seven|\nse      |\n"));
	OK(cuMemcpyHtoD_v2(p->at + ARGUMENTS, &null, 8));
	CHECK(launch(p, "%s\n", 1));
	OK(cuCtxSynchronize());
	CHECK(has_printed(p, "(null)\n"));
	OK(cuLaunchKernel(p->print, 1, 1, 1, 1, 1, 1, 0, NULL,
			  (void *[]){&null, &null, &(CUdeviceptr){p->at + RESULT}, &(int){1}},
			  NULL));
	OK(cuMemcpyDtoH_v2(&result, p->at + RESULT, 4));
	CHECK(result == -1); /* no format */
	return has_printed(p, "");
}

static bool formats(void)
{
	struct printer p;

	CHECK(open_printer(&p));
	return close_printer(&p, formats_of(&p) && texts_of(&p));
}

static const char hundred[] =
	"---------1---------2---------3---------4---------5---------6---------7---------8"
	"---------9---------\n";

/* A wait for an event shows what was printed before it: by GPU kernels between events that nobody
 * has waited for, and more than one answer of the host holds. */
static bool events_of(struct printer *p)
{
	CUevent event[2];
	char *text;
	size_t n;

	OK(cuEventCreate(&event[0], 2));
	OK(cuEventCreate(&event[1], 2));
	CHECK(launch(p, "g", 1));
	OK(cuEventRecord(event[0], NULL));
	CHECK(launch(p, "h", 1));
	OK(cuEventRecord(event[1], NULL));
	OK(cuEventSynchronize(event[1]));
	CHECK(has_printed(p, "gh"));
	CHECK(launch(p, hundred, 200));
	OK(cuEventRecord(event[0], NULL));
	OK(cuEventSynchronize(event[0]));
	text = printed(p);
	n = strlen(text);
	free(text);
	CHECK(n == 20000);
	OK(cuEventDestroy_v2(event[0]));
	OK(cuEventDestroy_v2(event[1]));
	return true;
}

/* Each call that waits for the GPU shows what was printed before, and the program's own output is
 * in order with it. */
static bool waits_of(struct printer *p)
{
	CUcontext before, c;
	CUstream s;
	int seen;

	OK(cuStreamCreate(&s, 1));
	printf("a");
	CHECK(launch(p, "b", 1));
	OK(cuCtxSynchronize());
	printf("c");
	CHECK(launch(p, "d", 1));
	OK(cuStreamSynchronize(s));
	printf("e");
	CHECK(launch(p, "f", 1));
	OK(cuMemcpyDtoH_v2(&seen, p->at + RESULT, 4));
	CHECK(has_printed(p, "abcdef"));
	CHECK(events_of(p));
	CHECK(launch(p, "h", 1));
	OK(cuModuleUnload(p->module));
	p->module = NULL;
	CHECK(has_printed(p, "h"));
	OK(cuStreamDestroy_v2(s));
	/* the end of a context ends its modules */
	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate_v2(&c, 0, 0));
	OK(cuModuleLoadData(&p->module, prints_ptx));
	OK(cuModuleGetFunction(&p->print, p->module, "print"));
	CHECK(launch(p, "i", 1));
	OK(cuCtxDestroy_v2(c));
	p->module = NULL;
	return has_printed(p, "i");
}

static bool waits(void)
{
	struct printer p;

	CHECK(open_printer(&p));
	return close_printer(&p, waits_of(&p));
}

struct other {
	struct printer *p;
	CUcontext context;
	bool ok;
};

static bool print_there(const struct other *o)
{
	OK(cuCtxSetCurrent(o->context));
	CHECK(launch(o->p, "there\n", 1));
	OK(cuCtxSynchronize());
	return true;
}

static void *print_in_thread(void *arg)
{
	struct other *o = arg;

	o->ok = print_there(o);
	return NULL;
}

/* A thread that has locked stdout makes calls, while another one's text waits for stdout. */
static bool locked_of(struct printer *p)
{
	struct other o = {.p = p};
	CUresult e = CUDA_SUCCESS;
	struct stat file = {0};
	pthread_t thread;

	OK(cuCtxGetCurrent(&o.context));
	flockfile(stdout);
	CHECK(pthread_create(&thread, NULL, print_in_thread, &o) == 0);
	while (e == CUDA_SUCCESS && file.st_size == 0 && fstat(p->file, &file) == 0)
		e = cuCtxSynchronize();
	funlockfile(stdout);
	pthread_join(thread, NULL);
	return e == CUDA_SUCCESS && o.ok && has_printed(p, "there\n");
}

static bool locked(void)
{
	struct printer p;

	CHECK(open_printer(&p));
	return close_printer(&p, locked_of(&p));
}

#define MIB ((size_t)1 << 20)

/* More than the buffer holds: the oldest texts are lost. */
static bool overflow_of(struct printer *p)
{
	char *text;
	size_t n;

	CHECK(launch(p, "first\n", 1) && launch(p, hundred, 15000) && launch(p, "last\n", 1));
	OK(cuCtxSynchronize());
	text = printed(p);
	n = strlen(text);
	CHECK(n <= MIB && n >= MIB / 10 * 9);
	CHECK(strncmp(text, "first", 5) != 0 && strcmp(text + n - 5, "last\n") == 0);
	CHECK(strncmp(text + n - 5 - 100, hundred, 100) == 0);
	free(text);
	CHECK(launch(p, "again\n", 1));
	OK(cuCtxSynchronize());
	return has_printed(p, "again\n");
}

static bool overflow(void)
{
	struct printer p;
	size_t most;

	CHECK(open_printer(&p));
	OK(cuCtxGetLimit(&most, 1));
	CHECK(most == MIB);
	OK(cuCtxSetLimit(1, 4096));
	CHECK(cuCtxSetLimit(1, MIB + 1) == CUDA_ERROR_UNSUPPORTED_LIMIT);
	return close_printer(&p, overflow_of(&p));
}

int sample_prints(uint32_t number, uint32_t times)
{
	CUfunction print;
	CUdeviceptr at = 0, arguments, result;
	CUmodule module;
	uint32_t i;
	int e = sample_begin() ? cuModuleLoadData(&module, prints_ptx) : CUDA_ERROR_UNKNOWN;

	if (e == CUDA_SUCCESS)
		e = cuModuleGetFunction(&print, module, "print");
	if (e == CUDA_SUCCESS)
		e = cuMemAlloc_v2(&at, 4096);
	if (e == CUDA_SUCCESS)
		e = cuMemcpyHtoD_v2(at, "%u: %u\n", 8);
	arguments = at + ARGUMENTS;
	result = at + RESULT;
	for (i = 0; i < times && e == CUDA_SUCCESS; i++) {
		e = cuMemcpyHtoD_v2(arguments, (uint32_t[]){number, i}, 8);
		if (e == CUDA_SUCCESS)
			e = cuLaunchKernel(print, 1, 1, 1, 1, 1, 1, 0, NULL,
					   (void *[]){&at, &arguments, &result, &(int){1}}, NULL);
		if (e == CUDA_SUCCESS && i % 3 == 0)
			e = cuCtxSynchronize();
	}
	return e == CUDA_SUCCESS ? cuCtxSynchronize() : e;
}

int sample_asserts(void)
{
	CUfunction f;
	CUmodule module;
	int e = sample_begin() ? cuModuleLoadData(&module, prints_ptx) : CUDA_ERROR_UNKNOWN;

	if (e == CUDA_SUCCESS)
		e = cuModuleGetFunction(&f, module, "assert");
	if (e == CUDA_SUCCESS)
		e = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&(int){5}}, NULL);
	return e == CUDA_SUCCESS ? cuCtxSynchronize() : e;
}

const struct sample_check prints_checks[] = {
	{"formats of printf() in GPU kernels", formats},
	{"calls that wait show what was printed", waits},
	{"calls of a thread that has locked stdout", locked},
	{"more printed than the buffer holds", overflow},
	{NULL, NULL},
};
