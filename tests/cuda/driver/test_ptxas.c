/* SPDX-License-Identifier: MIT */
/*
 * Whether NVIDIA's PTX compiler, ptxas, accepts the texts that reach a compiler: our GPU kernels
 * and those of the tests, each with a gate and without; and whether the worker reads what NVIDIA's
 * tools write. It needs no GPU. Without ptxas the test is skipped.
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

extern const char big_ptx[], kernels_ptx[], meet_ptx[], own_ptx[], saxpy_ptx[], shapes_ptx[];
extern char **environ;

static char *ptxas;
static char text_path[] = "/tmp/vgpud-test.ptx.XXXXXX";

static char binary_path[] = "/tmp/vgpud-test.cubin.XXXXXX";
static char fat_path[] = "/tmp/vgpud-test.fatbin.XXXXXX";

/* Runs a program; its messages go to our own output. Whether it ended with 0. */
static bool run(char *const argv[])
{
	int status = -1;
	pid_t pid;

	return posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) == 0 &&
	       waitpid(pid, &status, 0) == pid && status == 0;
}

/* Returns whether ptxas accepts TEXT for ARCH; its binary goes to BINARY_PATH. */
static bool takes(const char *text, const char *arch)
{
	char option[32], to[64];
	char *const argv[] = {ptxas, option, to, text_path, NULL};
	int fd = open(text_path, O_WRONLY | O_TRUNC);
	bool ok;

	snprintf(option, sizeof(option), "-arch=%s", arch);
	snprintf(to, sizeof(to), "--output-file=%s", binary_path);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && run(argv);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* For architectures from the oldest that current compilers know, with a gate and without. */
TEST(texts, "ptxas accepts our texts, with a gate and without")
{
	static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};
	static const char *const all[] = {kernels_ptx, meet_ptx, own_ptx, saxpy_ptx, shapes_ptx};
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

static size_t read_file(const char *path, uint8_t *to, size_t room)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, to, room);

	close(fd);
	return n > 0 ? (size_t)n : 0;
}

/* The memory that the last binary needs; 0: it cannot be read. */
static uint64_t memory(void)
{
	static uint8_t image[1 << 20];
	struct image_needs needs = {0};
	struct vgpu_error err;
	size_t n = read_file(binary_path, image, sizeof(image));

	if (image_kind(image, n) != IMAGE_CUBIN || image_needs(image, n, &needs, &err) < 0 ||
	    !needs.code)
		return 0;
	return needs.memory;
}

/* What the worker counts for ptxas's own binaries: their arrays, and little more. big.ptx has one
 * of 40 MiB; own.ptx has none. */
TEST(needs, "the worker reads what ptxas's binaries need")
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

/* Has NVIDIA's fatbinary, which is beside ptxas, put the last binary for sm_90 and the last text
 * into a fat binary. OPTION says how to compress it. */
static bool make_fat(const char *option)
{
	char program[64], create[64], cubin[96], text[96], how[32], bits[] = "-64";
	char all[] = "--compress-all";
	char *const argv[] = {program, create, bits, all, cubin, text, option ? how : NULL, NULL};

	snprintf(program, sizeof(program), "%.*s/fatbinary", (int)(strrchr(ptxas, '/') - ptxas),
		 ptxas);
	snprintf(create, sizeof(create), "--create=%s", fat_path);
	snprintf(cubin, sizeof(cubin), "--image3=kind=elf,sm=90,file=%s", binary_path);
	snprintf(text, sizeof(text), "--image3=kind=ptx,sm=80,file=%s", text_path);
	snprintf(how, sizeof(how), "%s", option ? option : "");
	return run(argv);
}

/* What the fat binary has for a GPU, of KIND and compressed; the caller frees it. */
static uint8_t *unpacked_for(int major, enum image_kind kind, size_t *size)
{
	static uint8_t fat[1 << 20];
	size_t bytes = read_file(fat_path, fat, sizeof(fat));
	struct vgpu_error err = {""};
	struct image_member m;
	uint8_t *out = NULL;

	CU_ASSERT_EQUAL_FATAL(image_kind(fat, bytes), IMAGE_FAT);
	CU_ASSERT_EQUAL_FATAL(image_find(fat, bytes, major, 0, &m, &err), 0);
	CU_ASSERT_FATAL(m.kind == kind && m.packing != IMAGE_PLAIN);
	CU_ASSERT_EQUAL_FATAL(image_unpack(&m, sizeof(fat), &out, &err), 0);
	*size = m.unpacked;
	return out;
}

/* As nvcc compresses its members, and, where this fatbinary knows a mode, in each of them. */
TEST(fat_binaries, "fatbinary's compressed members are unpacked")
{
	static const char *const modes[] = {NULL, "--compress-mode=size", "--compress-mode=speed"};
	static uint8_t whole[1 << 20];
	size_t bytes, n, i;
	uint8_t *out;

	CU_ASSERT_FATAL(takes(kernels_ptx, "sm_90"));
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!make_fat(modes[i])) {
			CU_ASSERT(i > 0);
			continue;
		}
		bytes = read_file(binary_path, whole, sizeof(whole));
		out = unpacked_for(9, IMAGE_CUBIN, &n);
		CU_ASSERT(n == bytes && memcmp(out, whole, n) == 0);
		free(out);
		/* fatbinary leaves comments out */
		out = unpacked_for(8, IMAGE_PTX, &n);
		CU_ASSERT(takes((char *)out, "sm_90"));
		free(out);
	}
}

/* ptxas does reject invalid text. */
TEST(refuses, "ptxas rejects invalid text")
{
	CU_ASSERT(!takes(".version 6.0\n.target sm_70\n.address_size 64\nnonsense", "sm_80"));
}

int main(int argc, char **argv)
{
	static char places[][32] = {"/usr/bin/ptxas", "/usr/local/cuda/bin/ptxas"};
	size_t i;
	int fd, to, fat, r;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], X_OK) == 0)
			ptxas = places[i];
	if (!ptxas) {
		puts("skipped: no ptxas, of NVIDIA's CUDA toolkit, is installed");
		return 77;
	}
	fd = mkstemp(text_path);
	to = mkstemp(binary_path);
	fat = mkstemp(fat_path);
	if (fd < 0 || to < 0 || fat < 0) {
		perror(text_path);
		return 1;
	}
	close(fd);
	close(to);
	close(fat);
	r = suite_main("ptxas", NULL, argc, argv);
	unlink(text_path);
	unlink(binary_path);
	unlink(fat_path);
	return r;
}
