/* SPDX-License-Identifier: MIT */
/*
 * cuda-compiled FILE...: loads the GPU kernels of compiled.cu, as PTX, from each file, and compares
 * what they compute with what the CPU does. Prints what is wrong.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "program.h"

#define N 5000u
#define THREADS 128u
#define BINS 256u
#define SIZE 37u /* no multiple of TILE */

static CUmodule module;

static uint32_t draw(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 32);
}

/* Allocates BYTES, and fills them with what is at FROM, or with zeros. */
static int give(CUdeviceptr *p, const void *from, size_t bytes)
{
	OK(cuMemAlloc_v2(p, bytes));
	if (from)
		OK(cuMemcpyHtoD_v2(*p, from, bytes));
	else
		OK(cuMemsetD8_v2(*p, 0, bytes));
	return 0;
}

/* Launches NAME, waits for it, and brings what is at FROM then. */
static int compute(const char *name, uint32_t blocks, uint32_t shared, void **params, void *to,
		   CUdeviceptr from, size_t bytes)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, blocks, 1, 1, THREADS, 1, 1, shared, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(to, from, bytes));
	return 0;
}

static int saxpy(void)
{
	static const float factors[4] = {1.0f, 0.5f, -0.25f, 3.0f};
	static float x[N], y[N], seen[N];
	float a = 1.375f;
	uint32_t n = N - 3, i; /* the last three stay */
	CUdeviceptr on_x, on_y;

	for (i = 0; i < N; i++) {
		x[i] = (float)(int32_t)draw() / 3;
		y[i] = (float)(int32_t)draw() / 7;
	}
	TRY(!give(&on_x, x, sizeof(x)) && !give(&on_y, y, sizeof(y)));
	TRY(!compute("saxpy", (N + THREADS - 1) / THREADS, 0, (void *[]){&on_y, &on_x, &a, &n},
		     seen, on_y, sizeof(seen)));
	for (i = 0; i < N; i++) {
		float product = a * x[i], other = factors[i % 4] * y[i];

		TRY(seen[i] == (i < n ? product + other : y[i]));
	}
	return 0;
}

static int sum(void)
{
	static uint32_t in[N];
	uint32_t n = N, i;
	uint64_t wanted = 0, seen;
	CUdeviceptr on_in, out;

	for (i = 0; i < N; i++)
		wanted += in[i] = draw();
	TRY(!give(&on_in, in, sizeof(in)) && !give(&out, NULL, sizeof(seen)));
	TRY(!compute("sum", 7, THREADS * 8, (void *[]){&out, &on_in, &n}, &seen, out,
		     sizeof(seen)));
	TRY(seen == wanted);
	return 0;
}

static int histogram(void)
{
	static uint8_t data[N];
	uint32_t n = N, i, wanted[BINS] = {0}, seen[BINS];
	CUdeviceptr on_data, bins;

	for (i = 0; i < N; i++)
		wanted[data[i] = (uint8_t)(draw() % 11 * draw())]++;
	TRY(!give(&on_data, data, sizeof(data)) && !give(&bins, NULL, sizeof(seen)));
	TRY(!compute("histogram", 5, 0, (void *[]){&bins, &on_data, &n}, seen, bins, sizeof(seen)));
	TRY(memcmp(seen, wanted, sizeof(seen)) == 0);
	return 0;
}

static int most(void)
{
	static uint32_t in[N];
	uint32_t n = N, i, wanted[3] = {0}, seen[3];
	CUdeviceptr on_in, out;
	float largest;

	for (i = 0; i < N; i++) {
		in[i] = draw();
		wanted[0] = in[i] > wanted[0] ? in[i] : wanted[0];
		wanted[1] += in[i] & 1;
	}
	largest = (float)wanted[0];
	memcpy(&wanted[2], &largest, sizeof(largest));
	TRY(!give(&on_in, in, sizeof(in)) && !give(&out, NULL, sizeof(seen)));
	TRY(!compute("most", (N + THREADS - 1) / THREADS, 0, (void *[]){&out, &on_in, &n}, seen,
		     out, sizeof(seen)));
	TRY(memcmp(seen, wanted, sizeof(seen)) == 0);
	return 0;
}

static int multiply(void)
{
	static float a[SIZE * SIZE], b[SIZE * SIZE], seen[SIZE * SIZE];
	struct matrix m = {SIZE, 0.375f};
	uint32_t i, k, blocks = (SIZE + TILE - 1) / TILE;
	CUdeviceptr on_a, on_b, c;
	CUfunction f;

	for (i = 0; i < SIZE * SIZE; i++) {
		a[i] = (float)(int32_t)draw() / 3;
		b[i] = (float)(int32_t)draw() / 7;
	}
	TRY(!give(&on_a, a, sizeof(a)) && !give(&on_b, b, sizeof(b)));
	TRY(!give(&c, NULL, sizeof(seen)));
	OK(cuModuleGetFunction(&f, module, "multiply"));
	OK(cuLaunchKernel(f, blocks, blocks, 1, TILE, TILE, 1, 0, NULL,
			  (void *[]){&c, &on_a, &on_b, &m}, NULL));
	OK(cuMemcpyDtoH_v2(seen, c, sizeof(seen)));
	for (i = 0; i < SIZE * SIZE; i++) {
		float total = 0;

		for (k = 0; k < SIZE; k++) {
			float product = a[i / SIZE * SIZE + k] * b[k * SIZE + i % SIZE];

			total += product;
		}
		TRY(seen[i] == total * m.factor);
	}
	return 0;
}

static int walk(void)
{
	static uint32_t from[N / 4];
	static struct walked seen[N / 4];
	uint32_t n = N / 4, i, most = 90;
	CUdeviceptr on_from, out, steps;
	size_t bytes;

	for (i = 0; i < n; i++)
		from[i] = draw() >> draw() % 32;
	OK(cuModuleGetGlobal_v2(&steps, &bytes, module, "steps"));
	TRY(bytes == sizeof(most));
	OK(cuMemcpyHtoD_v2(steps, &most, sizeof(most)));
	TRY(!give(&on_from, from, sizeof(from)) && !give(&out, NULL, sizeof(seen)));
	TRY(!compute("walk", (n + THREADS - 1) / THREADS, 0, (void *[]){&out, &on_from, &n}, seen,
		     out, sizeof(seen)));
	for (i = 0; i < n; i++) {
		struct walked w = walk_from(from[i], most), *s = &seen[i];

		TRY(s->low == w.low && s->steps == w.steps && s->ones == w.ones);
		TRY(s->top == w.top && s->mean == w.mean);
	}
	return 0;
}

static char *read_file(const char *path)
{
	static char text[1 << 20];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = 0;
	return n > 0 ? text : NULL;
}

/* 0: all is right. */
static int check_all(const char *path)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} all[] = {{"saxpy", saxpy}, {"sum", sum},	     {"histogram", histogram},
		   {"most", most},   {"multiply", multiply}, {"walk", walk}};
	const char *text = read_file(path);
	int bad = 0;
	size_t i;

	TRY(text);
	OK(cuModuleLoadData(&module, text));
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].run() != 0) {
			printf("%s: %s: FAILED\n", path, all[i].name);
			bad++;
		}
	OK(cuModuleUnload(module));
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0, i;

	if (argc < 2) {
		puts("usage: cuda-compiled FILE...");
		return 2;
	}
	if (begin())
		return 1;
	for (i = 1; i < argc; i++)
		bad += check_all(argv[i]) != 0;
	printf("%d files: %d wrong\n", argc - 1, bad);
	return bad > 0;
}
