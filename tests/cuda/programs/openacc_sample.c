/* SPDX-License-Identifier: MIT */
/* What GCC makes of OpenACC for NVIDIA's GPUs, which its library runs by the Driver API: each line
 * of the output is one part, and whether its results are those of the CPU. */
#include <openacc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 3000
#define SIDE 48

static int failed;

static void is(const char *what, bool right)
{
	printf("%s %s\n", what, right ? "right" : "WRONG");
	failed |= !right;
}

static void vectors(void)
{
	static float a[N], b[N];
	bool right = true;

	for (int i = 0; i < N; i++)
		a[i] = (float)i;
#pragma acc parallel loop copyin(a) copyout(b)
	for (int i = 0; i < N; i++)
		b[i] = 2 * a[i] + 1;
	for (int i = 0; i < N; i++)
		right &= b[i] == 2 * a[i] + 1;
	is("vectors", right);
}

static void sums(void)
{
	static int a[N];
	long sum = 0, want = 0;
	int most = 0, want_most = 0;

	for (int i = 0; i < N; i++) {
		a[i] = i * 7919 % 10007;
		want += a[i];
		want_most = a[i] > want_most ? a[i] : want_most;
	}
#pragma acc parallel loop gang worker vector reduction(+ : sum) reduction(max : most) copyin(a)
	for (int i = 0; i < N; i++) {
		sum += a[i];
		most = a[i] > most ? a[i] : most;
	}
	is("sums", sum == want && most == want_most);
}

static void product(void)
{
	static double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
	bool right = true;

	for (int i = 0; i < SIDE; i++)
		for (int j = 0; j < SIDE; j++) {
			a[i][j] = i + j;
			b[i][j] = i - j;
		}
#pragma acc parallel loop gang copyin(a, b) copyout(c)
	for (int i = 0; i < SIDE; i++)
#pragma acc loop worker
		for (int j = 0; j < SIDE; j++) {
			double s = 0;
#pragma acc loop vector reduction(+ : s)
			for (int k = 0; k < SIDE; k++)
				s += a[i][k] * b[k][j];
			c[i][j] = s;
		}
	for (int i = 0; i < SIDE; i++)
		for (int j = 0; j < SIDE; j++) {
			double s = 0;

			for (int k = 0; k < SIDE; k++)
				s += a[i][k] * b[k][j];
			right &= s == c[i][j];
		}
	is("product", right);
}

static void histogram(void)
{
	unsigned bins[16] = {0}, want[16] = {0};
	bool right = true;

	for (unsigned i = 0; i < N; i++)
		want[i * 2654435761u >> 28]++;
#pragma acc parallel loop copy(bins)
	for (unsigned i = 0; i < N; i++) {
#pragma acc atomic update
		bins[i * 2654435761u >> 28]++;
	}
	for (int i = 0; i < 16; i++)
		right &= bins[i] == want[i];
	is("histogram", right);
}

/* Two queues, each with copies and GPU kernels, and one that waits for the other. */
static void queues(void)
{
	static int a[N], b[N], c[N];
	bool right = true;

	for (int i = 0; i < N; i++)
		a[i] = i;
#pragma acc enter data create(a, b, c)
#pragma acc update device(a) async(1)
#pragma acc parallel loop present(a, b) async(1)
	for (int i = 0; i < N; i++)
		b[i] = 3 * a[i];
#pragma acc parallel loop present(c) async(2)
	for (int i = 0; i < N; i++)
		c[i] = i;
#pragma acc wait(1) async(2)
#pragma acc parallel loop present(b, c) async(2)
	for (int i = 0; i < N; i++)
		c[i] += b[i];
#pragma acc update self(c) async(2)
#pragma acc wait
#pragma acc exit data delete (a, b)copyout(c)
	for (int i = 0; i < N; i++)
		right &= c[i] == 4 * i;
	is("queues", right && acc_async_test_all());
}

static int table[64];
#pragma acc declare create(table)

#pragma acc routine seq
static int looked_up(int i)
{
	return table[i % 64];
}

static void routine(void)
{
	static int out[N];
	bool right = true;

	for (int i = 0; i < 64; i++)
		table[i] = 64 - i;
	acc_update_device(table, sizeof(table)); /* GCC 12 drops the directive */
#pragma acc parallel loop copyout(out)
	for (int i = 0; i < N; i++)
		out[i] = looked_up(i);
	for (int i = 0; i < N; i++)
		right &= out[i] == 64 - i % 64;
	is("routine", right);
}

static void pointers(void)
{
	int *d = acc_malloc(N * sizeof(*d)), *h = malloc(N * sizeof(*h));
	bool right = d && h;

	for (int i = 0; right && i < N; i++)
		h[i] = i;
	acc_memcpy_to_device(d, h, N * sizeof(*d));
#pragma acc parallel loop deviceptr(d)
	for (int i = 0; i < N; i++)
		d[i] = d[i] * d[i];
	acc_memcpy_from_device(h, d, N * sizeof(*d));
	for (int i = 0; right && i < N; i++)
		right = h[i] == i * i;
	acc_free(d);
	free(h);
	is("pointers", right);
}

static void device(void)
{
	const size_t all = acc_get_property(0, acc_device_nvidia, acc_property_memory);
	const size_t left = acc_get_property(0, acc_device_nvidia, acc_property_free_memory);
	const char *name = acc_get_property_string(0, acc_device_nvidia, acc_property_name);

	printf("%s: %zu of %zu bytes are free\n", name, left, all);
	is("device", acc_get_num_devices(acc_device_nvidia) == 1 && left > 0 && left <= all);
}

int main(void)
{
	acc_init(acc_device_nvidia);
	if (acc_get_device_type() != acc_device_nvidia)
		return 2;
	device();
	vectors();
	sums();
	product();
	histogram();
	queues();
	routine();
	pointers();
	acc_shutdown(acc_device_nvidia);
	return failed;
}
