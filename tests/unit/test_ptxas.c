/* SPDX-License-Identifier: MIT */
/*
 * Whether NVIDIA's PTX compiler, ptxas, accepts the texts that reach a compiler: our GPU kernels
 * and those of the tests, each with a gate and without. It needs no GPU. Without ptxas the test is
 * skipped.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "image.h"
#include "suite.h"

extern const char big_ptx[], kernels_ptx[], own_ptx[], saxpy_ptx[], shapes_ptx[];
extern char **environ;

static char *ptxas;
static char text_path[] = "/tmp/vgpud-test.ptx.XXXXXX";

static char binary_path[] = "/tmp/vgpud-test.cubin.XXXXXX";

/* Returns whether ptxas accepts TEXT for ARCH; its messages go to our own output, and its binary to
 * BINARY_PATH. */
static bool takes(const char *text, const char *arch)
{
	char option[32], to[64];
	char *const argv[] = {ptxas, option, to, text_path, NULL};
	int fd = open(text_path, O_WRONLY | O_TRUNC), status = -1;
	pid_t pid;

	snprintf(option, sizeof(option), "-arch=%s", arch);
	snprintf(to, sizeof(to), "--output-file=%s", binary_path);
	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	    posix_spawn(&pid, ptxas, NULL, NULL, argv, environ) == 0 &&
	    waitpid(pid, &status, 0) != pid)
		status = -1;
	if (fd >= 0)
		close(fd);
	return status == 0;
}

/* For architectures from the oldest that current compilers know, with a gate and without. */
static void texts(void)
{
	static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};
	static const char *const all[] = {kernels_ptx, own_ptx, saxpy_ptx, shapes_ptx};
	struct vgpu_error err = {""};
	size_t i, k;
	char *out;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(gate_ptx(all[i], strlen(all[i]), &out, &err), 0);
		for (k = 0; k < sizeof(archs) / sizeof(archs[0]); k++) {
			CU_ASSERT(takes(all[i], archs[k]));
			CU_ASSERT(takes(out, archs[k]));
		}
		free(out);
	}
}

/* The memory that the last binary needs; 0: it cannot be read. */
static uint64_t memory(void)
{
	static uint8_t image[1 << 20];
	struct image_needs needs = {0};
	struct vgpu_error err;
	int fd = open(binary_path, O_RDONLY);
	ssize_t n = read(fd, image, sizeof(image));

	close(fd);
	if (n <= 0 || image_kind(image, (uint64_t)n) != IMAGE_CUBIN ||
	    image_needs(image, (uint64_t)n, &needs, &err) < 0 || !needs.code)
		return 0;
	return needs.memory;
}

/* What the worker counts for ptxas's own binaries: their arrays, and little more. big.ptx has one
 * of 40 MiB; own.ptx has none. */
static void needs(void)
{
	static const char *const archs[] = {"sm_75", "sm_80", "sm_90", "sm_100"};
	size_t i;

	for (i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		CU_ASSERT_FATAL(takes(big_ptx, archs[i]));
		CU_ASSERT(memory() >= 41943040 && memory() < 41943040 + 65536);
		CU_ASSERT_FATAL(takes(own_ptx, archs[i]));
		CU_ASSERT(memory() > 0 && memory() < 65536);
	}
}

/* ptxas does reject invalid text. */
static void refuses(void)
{
	CU_ASSERT(!takes(".version 6.0\n.target sm_70\n.address_size 64\nnonsense", "sm_80"));
}

static const struct test tests[] = {
	{"ptxas accepts our texts, with a gate and without", texts},
	{"the worker reads what ptxas's binaries need", needs},
	{"ptxas rejects invalid text", refuses},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	static char places[][32] = {"/usr/bin/ptxas", "/usr/local/cuda/bin/ptxas"};
	const struct test *const tables[] = {tests, NULL};
	size_t i;
	int fd, to, r;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], X_OK) == 0)
			ptxas = places[i];
	if (!ptxas) {
		puts("skipped: no ptxas, of NVIDIA's CUDA toolkit, is installed");
		return 77;
	}
	fd = mkstemp(text_path);
	to = mkstemp(binary_path);
	if (fd < 0 || to < 0) {
		perror(text_path);
		return 1;
	}
	close(fd);
	close(to);
	r = suite_main("ptxas", tables, argc, argv);
	unlink(text_path);
	unlink(binary_path);
	return r;
}
