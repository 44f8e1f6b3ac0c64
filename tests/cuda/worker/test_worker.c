/* SPDX-License-Identifier: MIT */
/* The parts of a worker, without a device: checks of packets, PTX with a gate, the loader of
 * libcuda, and what the worker learns from libcuda's ioctls. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "cuda.h"
#include "draw.h"
#include "gate.h"
#include "gpus.h"
#include "limit.h"
#include "packet.h"
#include "protocol.h"
#include "rm.h"
#include "rm_calls.h"
#include "suite.h"

extern const char kernels_ptx[];

/* packets */

/* The rule in its plainest form, in 128 bits. */
static bool lies_inside(const struct packet_limits *l, uint64_t at, uint64_t bytes)
{
	unsigned __int128 end = (unsigned __int128)at + bytes;

	return at < l->window ? end <= l->window : end <= l->size;
}

static uint64_t edge(const struct packet_limits *l)
{
	const uint64_t bases[] = {0,	      l->window,	 l->size,
				  UINT64_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63};

	return bases[draw(6)] + draw(129) - 64;
}

TEST(ranges, "packets reach only their own partition")
{
	static const uint32_t copies[] = {SOFTGPU_COPY, SOFTGPU_UPLOAD, SOFTGPU_DOWNLOAD};
	const struct packet_limits l = {.window = 1 << 20, .size = 5 << 20, .modules = true};
	uint32_t i, taken = 0;

	for (i = 0; i < 2000000; i++) {
		struct softgpu_packet p = {.opcode = copies[draw(3)],
					   .arg = {edge(&l), edge(&l),
						   draw(2) ? edge(&l) : draw(4096)}};
		bool ok = packet_check(&l, &p) == SOFTGPU_OK;

		taken += ok;
		if (!ok)
			continue;
		if (!lies_inside(&l, p.arg[0], p.arg[2]) || !lies_inside(&l, p.arg[1], p.arg[2]))
			CU_FAIL_FATAL("a range outside of the partition was taken");
		if (p.opcode == SOFTGPU_UPLOAD && p.arg[1] + p.arg[2] > l.window)
			CU_FAIL_FATAL("an upload from outside of the window was taken");
		if (p.opcode == SOFTGPU_DOWNLOAD && p.arg[0] + p.arg[2] > l.window)
			CU_FAIL_FATAL("a download to outside of the window was taken");
	}
	CU_ASSERT(taken > 1000);
}

/* Each opcode, with arguments near limits: packet_check accepts only packets whose arguments it has
 * checked. */
TEST(opcodes, "each opcode has its arguments checked")
{
	const struct packet_limits with = {.window = 1 << 20, .size = 5 << 20, .modules = true},
				   without = {.window = 1 << 20, .size = 5 << 20};
	uint32_t i, k, structures = 0, reports = 0, slots = 0;
	uint64_t size;
	bool ok;

	for (i = 0; i < 2000000; i++) {
		struct softgpu_packet p = {.opcode = (uint32_t)draw(0x90),
					   .flags = (uint32_t)draw(4)};

		for (k = 0; k < 7; k++)
			p.arg[k] = edge(&with);
		if (packet_check(&with, &p) == SOFTGPU_OK &&
		    (p.opcode == SOFTGPU_LAUNCH || p.opcode == SOFTGPU_MODULE_LOAD) &&
		    (p.arg[0] >= SOFTGPU_MAX_MODULES || p.arg[1] > with.window ||
		     p.arg[2] > with.window - p.arg[1]))
			CU_FAIL_FATAL("a module from outside of the window was taken");
		if ((p.opcode == SOFTGPU_LAUNCH || p.opcode == SOFTGPU_MODULE_LOAD) && draw(2)) {
			p = (struct softgpu_packet){p.opcode, SOFTGPU_REPORT, {1, 64}};
			p.arg[2] = sizeof(struct softgpu_launch);
			p.arg[6] = with.window - 16 + draw(24);
		}
		if (p.opcode == SOFTGPU_SLOTS) {
			p.arg[1] = draw(SOFTGPU_MAX_SLOTS + 2);
			size = p.arg[1] * sizeof(struct softgpu_slot);
			if (draw(2))
				p.arg[0] = with.window - size + draw(3) * 64 - 64;
			ok = packet_check(&with, &p) == SOFTGPU_OK;
			slots += ok;
			if (ok != (p.arg[0] % 64 == 0 && p.arg[0] <= with.window - size &&
				   p.arg[1] <= SOFTGPU_MAX_SLOTS))
				CU_FAIL_FATAL("slots outside of the window were taken");
		}
		if (p.opcode >= SOFTGPU_FUNCTION && p.opcode <= SOFTGPU_SYMBOL_COPY) {
			static const uint64_t sizes[] = {sizeof(struct softgpu_function),
							 sizeof(struct softgpu_about),
							 sizeof(struct softgpu_symbol),
							 sizeof(struct softgpu_occupancy),
							 sizeof(struct softgpu_symbol_copy)};

			size = sizes[p.opcode - SOFTGPU_FUNCTION];
			p.flags = 0;
			p.arg[2] = size + draw(20) / 19;
			if (draw(2))
				p.arg[1] = with.window - size + draw(3) * 8 - 8;
			p.arg[0] %= SOFTGPU_MAX_MODULES + 1;
			ok = packet_check(&with, &p) == SOFTGPU_OK;
			structures += ok;
			if (ok != (p.arg[0] < SOFTGPU_MAX_MODULES && p.arg[2] == size &&
				   p.arg[1] % 8 == 0 && p.arg[1] <= with.window - size))
				CU_FAIL_FATAL("a structure outside of the window was taken");
		}
		if (p.opcode == SOFTGPU_SYMBOL_COPY && draw(2)) {
			p = (struct softgpu_packet){p.opcode, SOFTGPU_REPORT, {1, 64}};
			p.arg[2] = sizeof(struct softgpu_symbol_copy);
			p.arg[6] = with.window - 16 + draw(24);
		}
		if (packet_check(&with, &p) == SOFTGPU_OK && p.flags & SOFTGPU_REPORT &&
		    (p.opcode == SOFTGPU_LAUNCH || p.opcode == SOFTGPU_MODULE_LOAD ||
		     p.opcode == SOFTGPU_SYMBOL_COPY)) {
			reports++;
			if (p.arg[6] % 8 || p.arg[6] > with.window - 8)
				CU_FAIL_FATAL("a report outside of the window was taken");
		}
		if (((p.opcode >= SOFTGPU_MODULE_LOAD && p.opcode <= SOFTGPU_LAUNCH) ||
		     (p.opcode >= SOFTGPU_FUNCTION && p.opcode <= SOFTGPU_AWAIT)) &&
		    packet_check(&without, &p) != SOFTGPU_BAD_OPCODE)
			CU_FAIL_FATAL("a module was taken although there is no compiler");
	}
	CU_ASSERT(structures > 100 && reports > 100);
	CU_ASSERT(slots > 1000);
}

TEST(rings, "rings and fences lie inside the window")
{
	const struct packet_limits l = {.window = 1 << 20, .size = 5 << 20, .modules = true};

	CU_ASSERT(packet_ring_is_valid(&l, 0, 1024));
	CU_ASSERT(packet_ring_is_valid(&l, (1 << 20) - 128, 2));
	CU_ASSERT(!packet_ring_is_valid(&l, (1 << 20) - 64, 2));
	CU_ASSERT(!packet_ring_is_valid(&l, 2 << 20, 2));
	CU_ASSERT(!packet_ring_is_valid(&l, 32, 2));
	CU_ASSERT(!packet_ring_is_valid(&l, 0, 3));
	CU_ASSERT(!packet_ring_is_valid(&l, UINT64_MAX - 63, 2));
	CU_ASSERT(packet_fence_is_valid(&l, (1 << 20) - 8));
	CU_ASSERT(!packet_fence_is_valid(&l, 1 << 20));
	CU_ASSERT(!packet_fence_is_valid(&l, 4));
}

/* gates */

static uint32_t count(const char *text, const char *what)
{
	uint32_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static char *gated(const char *text, int wanted)
{
	struct vgpu_error err = {""};
	char *out;
	int r = gate_ptx(text, strlen(text), &out, &err);

	CU_ASSERT_EQUAL(r, wanted);
	CU_ASSERT((r == 0) == (out != NULL));
	if (r < 0)
		CU_ASSERT(strncmp(err.text, "PTX", 3) == 0);
	return out;
}

TEST(own_kernels, "gates in our own GPU kernels")
{
	char *out = gated(kernels_ptx, 0);
	uint32_t entries = count(kernels_ptx, ".entry");

	CU_ASSERT(entries == 10);
	CU_ASSERT_EQUAL(count(out, ".b8 __vgpu_gate[128]"), entries);
	CU_ASSERT_EQUAL(count(out, "bar.sync 0;"), entries);
	CU_ASSERT_EQUAL(count(out, ".shared .align 4 .b32 __vgpu_go;"), 1);
	/* no other text has changed */
	CU_ASSERT(strlen(out) > strlen(kernels_ptx));
	CU_ASSERT_EQUAL(count(out, "mul.rn.f32"), count(kernels_ptx, "mul.rn.f32"));
	CU_ASSERT(gate_is_ptx((const uint8_t *)kernels_ptx, strlen(kernels_ptx)));
	free(out);
}

#define HEAD "//\n.version 7.0\n.target sm_70\n.address_size 64\n"
TEST(gates, "gates in all shapes of PTX")
{
	static const struct {
		const char *text;
		uint32_t params, bodies;
	} good[] = {
		{HEAD ".entry a(.param .u64 x) { ret; }", 1, 1},
		{HEAD ".entry a() { ret; }", 1, 1},
		{HEAD ".entry a { ret; }", 1, 1},
		{HEAD ".visible .entry a(\n.param .u64 x, .param .align 4 .b8 y[12]\n)\n.maxntid "
		      "128, 1, 1\n{ ret; }",
		 1, 1},
		{HEAD ".visible.entry a(.param.u64 x) { ret; }.weak.entry b() { ret; }", 2, 2},
		{".version 7.0.target sm_70.address_size 64\n.entry a() { ret; }", 1, 1},
		/* a prototype has the gate's parameter, and no body */
		{HEAD ".entry a(.param .u64 x);\n.entry a(.param .u64 x) { ret; }", 2, 1},
		{HEAD "/* .entry no( */ // .entry no(\n.func f() { ret; }\n.entry a() { ret; }", 1,
		 1},
		{HEAD ".file 1 \".entry no(\\\"\"\n.entry a() { ret; }", 1, 1},
		{HEAD ".entry a() { { .reg .u32 %x; } ret; } .entry b() { ret; }", 2, 2},
	};
	static const char *const bad[] = {
		"",
		".version 7.0",
		".version 7.0 .address_size 32 .entry a() {}",
		".version 7.0 .entry a() {} .address_size 64",
		HEAD ".entry",
		HEAD ".entry a(",
		HEAD ".entry a() ",
		HEAD ".entry (",
		HEAD ".entry a(.param .u64 x",
		HEAD ".reg .u32 __vgpu_x;",
	};
	uint32_t i;
	char *out;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		out = gated(good[i].text, 0);
		if (!out)
			continue;
		CU_ASSERT_EQUAL(count(out, "__vgpu_gate[128]"), good[i].params);
		CU_ASSERT_EQUAL(count(out, "bar.sync 0;"), good[i].bodies);
		free(out);
	}
	/* the gate is the first parameter, and a comma separates it from the next one */
	out = gated(HEAD ".entry a(.param .u64 x) { ret; }", 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "__vgpu_gate[128],\n\t.param .u64 x"));
	free(out);
	out = gated(HEAD ".entry a() { ret; }", 0);
	CU_ASSERT_PTR_NULL(strstr(out, "[128],"));
	free(out);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_PTR_NULL(gated(bad[i], -EINVAL));
	CU_ASSERT(!gate_is_ptx((const uint8_t *)"\177ELF", 4));
	CU_ASSERT(!gate_is_ptx((const uint8_t *)"", 0));
}

/* An image of a few bytes for each entry does not become a text that fills the host's memory. */
TEST(many_entries, "PTX with too many entries for the gate is refused")
{
	static const char one[] = ".entry a{}";
	size_t n = strlen(HEAD), i;
	char *text = malloc(n + 16385 * (sizeof(one) - 1) + 1), *out;

	memcpy(text, HEAD, n);
	for (i = 0; i < 16385; i++) {
		memcpy(text + n, one, sizeof(one));
		n += sizeof(one) - 1;
	}
	CU_ASSERT_PTR_NULL(gated(text, -EINVAL));
	text[n - (sizeof(one) - 1)] = 0;
	out = gated(text, 0);
	CU_ASSERT(strlen(out) < 64u << 20);
	free(out);
	free(text);
}

/* Whatever a guest sends is either refused or rewritten. */
TEST(rubbish, "malformed PTX is refused or rewritten")
{
	size_t n = strlen(kernels_ptx), at, i;
	struct vgpu_error err;
	char *text = malloc(n), *out;

	for (i = 0; i < 3000; i++) {
		size_t length = draw(n), changes = draw(20);

		memcpy(text, kernels_ptx, n);
		for (at = 0; at < changes; at++)
			text[draw(n)] = "{}()\"/*\n\\.,;_a0"[draw(15)];
		if (gate_ptx(text, length, &out, &err) == 0)
			free(out);
		else
			CU_ASSERT_PTR_NULL(out);
	}
	free(text);
}

/* the loader of libcuda */

TEST(refusals, "the loader refuses unsuitable libraries")
{
	static const struct {
		const char *library, *says;
		int r;
	} cases[] = {
		{"libcuda-that-is-not-there.so.1", "no NVIDIA driver", -ENODEV},
		{STUBS "/libstub_silent.so", "does not report its version", -ENODEV},
		{STUBS "/libstub_old.so", "CUDA 11.8, and 12.4 is needed", -EOPNOTSUPP},
		{STUBS "/libstub_mute.so", "(CUDA 12.4) has no cuGetProcAddress_v2", -EOPNOTSUPP},
		{STUBS "/libstub_partial.so", "(CUDA 12.4) has no cuMemCreate", -EOPNOTSUPP},
	};
	struct vgpu_error err;
	struct cuda_api api;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err.text[0] = 0;
		CU_ASSERT_EQUAL(cuda_load(cases[i].library, &api, &err), cases[i].r);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
		CU_ASSERT_PTR_NULL(strchr(err.text, '\n'));
	}
}

/* memory limits that the NVIDIA driver enforces */

/* A path that is not a mount of control groups, and an nvidia-smi that is missing or fails: each
 * gives an error, and the memory does not count as limited. */
TEST(limits, "a memory limit that cannot be set is an error")
{
	char dir[] = "/tmp/vgpud-limits.XXXXXX", command[256], group[512] = "", expected[768];
	char *path = strdup(getenv("PATH") ? getenv("PATH") : "");
	struct vgpu_error err = {""};
	FILE *f;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	CU_ASSERT(limit_memory("/nonexistent", 0, 5, 1, 1 << 20, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no control group"));
	/* a directory that looks like a mount, with the VF's group in it */
	f = fopen("/proc/self/cgroup", "r");
	while (f && fgets(group, sizeof(group), f) && strncmp(group, "0::/", 4) != 0)
		;
	if (f)
		fclose(f);
	if (strncmp(group, "0::/", 4) != 0) {
		puts("\nskipped: no control groups of version 2 here");
		rmdir(dir);
		free(path);
		return;
	}
	group[strcspn(group, "\n")] = 0;
	snprintf(command, sizeof(command),
		 "mkdir -p %s%.100s/softgpu-5-vf1 && : >%s%.100s/softgpu-5-vf1/cgroup.procs", dir,
		 group + 3, dir, group + 3);
	CU_ASSERT_EQUAL_FATAL(system(command), 0);
	setenv("PATH", dir, 1);
	CU_ASSERT(limit_memory(dir, 0, 5, 1, 1 << 20, &err) == -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nvidia-smi: No such file"));
	setenv("PATH", path, 1);
	snprintf(command, sizeof(command),
		 "printf '#!/bin/sh\\nexit 2\\n' >%s/nvidia-smi && chmod +x %s/nvidia-smi", dir,
		 dir);
	CU_ASSERT_EQUAL_FATAL(system(command), 0);
	setenv("PATH", dir, 1);
	CU_ASSERT(limit_memory(dir, 0, 5, 1, 1 << 20, &err) == -EOPNOTSUPP);
	/* the exact arguments that nvidia-smi receives */
	setenv("PATH", path, 1);
	snprintf(command, sizeof(command),
		 "printf '#!/bin/sh\\necho \"$@\" >%s/asked\\n' >%s/nvidia-smi", dir, dir);
	CU_ASSERT_EQUAL_FATAL(system(command), 0);
	setenv("PATH", dir, 1);
	CU_ASSERT_EQUAL(limit_memory(dir, 3, 5, 1, (1 << 20) + 1, &err), 0);
	setenv("PATH", path, 1);
	snprintf(command, sizeof(command), "%s/asked", dir);
	f = fopen(command, "r");
	CU_ASSERT(f && fgets(group + 256, 256, f));
	if (f)
		fclose(f);
	group[256 + strcspn(group + 256, "\n")] = 0;
	snprintf(expected, sizeof(expected),
		 "memory-limits --set -n %.100s/softgpu-5-vf1 --hard-limit 2 -i 3",
		 strcmp(group + 3, "/") == 0 ? "" : group + 3);
	CU_ASSERT_STRING_EQUAL(group + 256, expected);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CU_ASSERT_EQUAL(system(command), 0);
	free(path);
}

/* the GPUs that the driver lists */

static void list_gpu(const char *root, const char *address, const char *uuid, const char *minor)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "mkdir -p %s/%s && printf 'Model: \\t\\t NVIDIA X\\nGPU UUID: \\t %s\\nDevice "
		 "Minor: \\t %s\\n' >%s/%s/information",
		 root, address, uuid, minor, root, address);
	CU_ASSERT_EQUAL(system(command), 0);
}

TEST(uuids, "GPUs are found in the order of their addresses")
{
	char root[] = "/tmp/vgpud-gpus.XXXXXX", command[64], uuid[64] = "", path[64], expected[64];
	int fd;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	list_gpu(root, "0000:ab:00.0", "GPU-second", "3");
	list_gpu(root, "0000:3b:00.0", "GPU-first", "7");
	list_gpu(root, "0001:01:00.0", "GPU-?", "x");
	CU_ASSERT_EQUAL(gpus_uuid(root, 0, uuid, sizeof(uuid)), 0);
	CU_ASSERT_STRING_EQUAL(uuid, "GPU-first");
	CU_ASSERT_EQUAL(gpus_uuid(root, 1, uuid, sizeof(uuid)), 0);
	CU_ASSERT_STRING_EQUAL(uuid, "GPU-second");
	CU_ASSERT_EQUAL(gpus_uuid(root, 1, uuid, 8), -ENOENT);
	CU_ASSERT_EQUAL(gpus_uuid(root, 2, uuid, sizeof(uuid)), -ENOENT);
	CU_ASSERT_EQUAL(gpus_uuid(root, 3, uuid, sizeof(uuid)), -ENOENT);
	CU_ASSERT_EQUAL(gpus_uuid("/nonexistent", 0, uuid, sizeof(uuid)), -ENOENT);
	/* their files; the first GPU's cannot be opened */
	snprintf(command, sizeof(command), ": >%s/nvidia3", root);
	CU_ASSERT_EQUAL(system(command), 0);
	snprintf(expected, sizeof(expected), "%s/nvidia3", root);
	fd = gpus_open(root, root, 1, path, sizeof(path));
	CU_ASSERT(fd >= 0 && close(fd) == 0);
	CU_ASSERT_STRING_EQUAL(path, expected);
	CU_ASSERT_EQUAL(gpus_open(root, root, 0, path, sizeof(path)), -ENOENT);
	snprintf(expected, sizeof(expected), "%s/nvidia7", root);
	CU_ASSERT_STRING_EQUAL(path, expected);
	path[0] = 0;
	CU_ASSERT_EQUAL(gpus_open(root, root, 2, path, sizeof(path)), -ENOENT);
	CU_ASSERT_EQUAL(gpus_open(root, root, 3, path, sizeof(path)), -ENOENT);
	CU_ASSERT_STRING_EQUAL(path, "");
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CU_ASSERT_EQUAL(system(command), 0);
}

/* rights that a worker gives up */

static int denied_in_thread;

static void *call_in_thread(void *begin)
{
	pthread_barrier_wait(begin);
	denied_in_thread = socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM;
	return NULL;
}

static void on_signal(int)
{
}

/* Its priority is what the device gave it: by no call up, and down only to that of a compiler; and
 * no limit that a user of this machine may have lets it. */
static int at_its_priority(void)
{
	const uint64_t attr[6] = {48}; /* struct sched_attr: its size, and SCHED_OTHER */
	struct sched_param param = {0};
	struct rlimit limit = {1, 1};
	int wrong = 0;

	wrong += sched_setscheduler(0, SCHED_OTHER, &param) >= 0 || errno != EPERM;
	wrong += sched_setparam(0, &param) >= 0 || errno != EPERM;
	wrong += syscall(SYS_sched_setattr, 0, attr, 0) >= 0 || errno != EPERM;
	wrong += setpriority(PRIO_PROCESS, 0, 19) >= 0 || errno != EPERM;
	wrong += setpriority(PRIO_PROCESS, 0, -1) >= 0 || errno != EPERM;
	wrong += setpriority(PRIO_PROCESS, getppid(), CONFINE_NICE) >= 0 || errno != EPERM;
	wrong += setpriority(PRIO_USER, 0, CONFINE_NICE) >= 0 || errno != EPERM;
	wrong += syscall(SYS_ioprio_set, 1, 0, 0) >= 0 || errno != EPERM;
	wrong += getrlimit(RLIMIT_RTPRIO, &limit) < 0 || limit.rlim_max != 0;
	wrong += getrlimit(RLIMIT_NICE, &limit) < 0 || limit.rlim_max != 0;
	return wrong;
}

/* It reaches no other process by a descriptor, a limit, a CPU, or what all processes of a user
 * share. */
static int by_itself(void)
{
	const struct f_owner_ex owner = {F_OWNER_PID, getppid()};
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	const uint64_t cpus[128] = {1};
	int wrong = 0, pair[2], other = getppid();

	wrong += pipe2(pair, O_CLOEXEC) < 0;
	wrong += fcntl(pair[0], F_SETOWN, other) >= 0 || errno != EPERM;
	wrong += fcntl(pair[0], F_SETOWN_EX, &owner) >= 0 || errno != EPERM;
	/* of which the kernel reads 32 bits */
	wrong += syscall(SYS_fcntl, pair[0], UINT64_C(1) << 32 | F_SETOWN, other) >= 0 ||
		 errno != EPERM;
	wrong += ioctl(pair[0], FIOSETOWN, &other) >= 0 || errno != EPERM;
	wrong += ioctl(pair[0], SIOCSPGRP, &other) >= 0 || errno != EPERM;
	/* a process of the same user, as all workers are: this one, by its number */
	wrong += prlimit(getpid(), RLIMIT_CPU, &limit, NULL) >= 0 || errno != EPERM;
	wrong +=
		syscall(SYS_sched_setaffinity, getpid(), sizeof(cpus), cpus) >= 0 || errno != EPERM;
	wrong += getrlimit(RLIMIT_CPU, &limit) < 0;
	wrong += syscall(SYS_shmget, 1, 4096, 0) >= 0 || errno != EPERM;
	wrong += syscall(SYS_msgget, 1, 0) >= 0 || errno != EPERM;
	wrong += syscall(SYS_semget, 1, 1, 0) >= 0 || errno != EPERM;
	return wrong;
}

/* It makes no process, which would outlive its guest. */
static bool makes_process(void)
{
#ifdef __SANITIZE_ADDRESS__ /* LeakSanitizer needs another process */
	return false;
#else
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 || errno != EPERM;
#endif
}

static void *nothing(void *unused)
{
	return unused;
}

/* The kernel kills it before softgpu if memory runs out. */
static bool yields_memory(void)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	bool yields = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && atoi(text) == 500;

	close(fd);
	return yields;
}

/* Returns how many calls have the wrong outcome: forbidden calls that succeed, and needed calls
 * that fail. */
static int in_confinement(const char *device)
{
	bool root = geteuid() == 0;
	pthread_barrier_t begin;
	struct vgpu_error err;
	pthread_t thread;
	int wrong = 0, fd;
	gid_t group = 0;

	wrong += confine_user(65534, 65534, device, &err) < 0 || !yields_memory();
	wrong += getuid() == 0 || (root && (getgroups(1, &group) != 1 || group != 7));
	wrong += open(device, O_RDWR | O_CLOEXEC) < 0;
	wrong += root && open("/etc/shadow", O_RDONLY | O_CLOEXEC) >= 0;
	pthread_barrier_init(&begin, NULL, 2);
	pthread_create(&thread, NULL, call_in_thread, &begin);
	wrong += confine_calls(true, &err) < 0;
	pthread_barrier_wait(&begin);
	pthread_join(thread, NULL);
	wrong += !denied_in_thread;
	wrong += execl("/bin/true", "true", NULL) >= 0 || errno != EPERM;
	wrong += kill(getppid(), 0) >= 0 || errno != EPERM;
	wrong += kill(-1, 0) >= 0 || errno != EPERM;
	wrong += pidfd_open(getppid(), 0) >= 0 || errno != EPERM;
	wrong += setuid(0) >= 0 || errno != EPERM;
	wrong += unshare(CLONE_NEWUSER) >= 0 || errno != EPERM;
	wrong += syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) >= 0;
	wrong += syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0 || errno != EPERM;
	wrong += at_its_priority();
	wrong += by_itself() + makes_process();
	/* calls that a worker needs */
	wrong += pthread_create(&thread, NULL, nothing, NULL) != 0 ||
		 pthread_join(thread, NULL) != 0;
	signal(SIGUSR1, on_signal);
	wrong += raise(SIGUSR1) != 0;
	wrong += kill(getpid(), 0) != 0;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	wrong += fd < 0 || (ioctl(fd, FIONREAD, NULL) < 0 && errno != ENOTTY);
	return wrong;
}

/* What a VF's process without a worker needs no more: files, where the kernel can deny them,
 * sockets of others, threads, and memory that no limit counts. */
static int in_narrow_confinement(void)
{
	bool denies = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
	struct vgpu_error err;
	int wrong = 0, fd;
#ifndef __SANITIZE_ADDRESS__
	pthread_t thread;
#endif

	wrong += confine_files(&err) < 0;
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	wrong += denies && (fd >= 0 || errno != EACCES);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	wrong += denies && (fd >= 0 || errno != EACCES);
	wrong += confine_calls(false, &err) < 0;
#ifndef __SANITIZE_ADDRESS__
	wrong += pthread_create(&thread, NULL, nothing, NULL) == 0;
#endif
	/* memory that RLIMIT_DATA does not count */
	wrong += memfd_create("own", MFD_CLOEXEC) >= 0 || errno != EPERM;
	wrong += mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
		 errno != EPERM;
	wrong += mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0) !=
			 MAP_FAILED ||
		 errno != EPERM;
	/* and memory that it counts */
	wrong += mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
	return wrong;
}

/* Sanitizers take memory as they like. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The memory of a process is what its device and the host allow, the lesser of both, and its stack
 * is none. */
static int in_limited_memory(void)
{
	const struct rlimit host = {1u << 30, 2u << 30};
	struct rlimit data, stack, more;
	struct vgpu_error err;
	int wrong = 0;

	wrong += setrlimit(RLIMIT_DATA, &host) < 0;
	wrong += confine_memory(UINT64_MAX, &err) < 0;
	wrong += getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur != host.rlim_cur;
	wrong += confine_memory(64u << 20, &err) < 0;
	wrong += getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur >= host.rlim_cur ||
		 data.rlim_cur <= 64u << 20 || data.rlim_max != data.rlim_cur;
	wrong += getrlimit(RLIMIT_STACK, &stack) < 0 || stack.rlim_cur > 8u << 20;
	more = stack;
	more.rlim_cur++;
	wrong += setrlimit(RLIMIT_STACK, &more) == 0;
	more = data;
	more.rlim_cur++;
	wrong += setrlimit(RLIMIT_DATA, &more) == 0;
	return wrong;
}

TEST(limited_memory, "the memory of a process is limited, also beside the host's limits")
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_limited_memory());
	CU_ASSERT_FATAL(pid > 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}
#endif

TEST(narrow_confinement, "a VF's process gives up files, threads and shared memory, too")
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_narrow_confinement());
	CU_ASSERT_FATAL(pid > 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}

TEST(confinement, "a worker gives up all rights that it does not need")
{
	char device[] = "/tmp/vgpud-device.XXXXXX";
	int status = -1, fd = mkostemp(device, O_CLOEXEC);
	pid_t pid;

	/* as on hosts where only a group may open the GPU's files */
	CU_ASSERT_FATAL(fd >= 0 && fchmod(fd, 0660) == 0);
	if (geteuid() == 0)
		CU_ASSERT_EQUAL(fchown(fd, 0, 7), 0);
	close(fd);
	pid = fork();
	if (pid == 0)
		_exit(in_confinement(device));
	CU_ASSERT_FATAL(pid > 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
	unlink(device);
}

/* the resource manager */

struct transfer {
	uint32_t command, size;
	uint64_t argument;
};
#define TRANSFER _IOWR('F', 211, struct transfer)

static void make(int fd, uint32_t parent, uint32_t object, uint32_t class, uint32_t status)
{
	struct alloc a = {7, parent, object, class, 0, 0, status};

	rm_note(fd, ALLOC, &a, 0);
}

static bool offers(bool channels, bool groups)
{
	return rm_offers(WORKER_STOP_CHANNELS) == channels &&
	       rm_offers(WORKER_STOP_GROUPS) == groups;
}

/* The worker sees handles of groups and channels in libcuda's calls, until they are freed. */
TEST(handles, "handles of channels are known until they are freed")
{
	struct alloc channel = {7, 0x100, 0x101, 0xc86f, 0, 0, 0};
	struct transfer t = {0x2b, sizeof(channel), (uint64_t)(uintptr_t)&channel};
	struct gone g = {7, 0x10, 0x100, 0};
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	CU_ASSERT(offers(false, false));
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), -EOPNOTSUPP); /* no handle is known yet */
	CU_ASSERT_EQUAL(rm_resume(), 0);
	make(fd, 0x10, 0x20, 0x2080, 0);
	make(fd, 0x10, 0x100, 0xa06c, 0x1b); /* the resource manager refused it */
	CU_ASSERT(offers(false, false));
	make(fd, 0x10, 0x100, 0xa06c, 0);
	CU_ASSERT(offers(false, true));
	rm_note(fd, TRANSFER, &t, 0);
	CU_ASSERT(offers(true, true));
	/* /dev/null is not a resource manager: the stop fails, and nothing counts as stopped */
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), -ENOTTY);
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_GROUPS), -ENOTTY);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	rm_note(fd, FREE, &g, -1); /* the call failed */
	CU_ASSERT(offers(true, true));
	rm_note(fd, FREE, &g, 0); /* frees the group, and its channel with it */
	CU_ASSERT(offers(false, false));
	make(fd, 0x10, 0x100, 0xa06c, 0);
	make(fd, 0x100, 0x101, 0xc86f, 0);
	CU_ASSERT(offers(true, true));
	g.object = 0x10; /* the device, known only as the parent of the group */
	rm_note(fd, FREE, &g, 0);
	CU_ASSERT(offers(false, false));
	rm_note(fd, _IOWR('F', 0x2b, uint32_t), &t, 0); /* of an unknown size */
	rm_note(fd, ALLOC, NULL, 0);
	CU_ASSERT(offers(false, false));
	/* the worker's ioctl() passes other requests on unchanged */
	CU_ASSERT(ioctl(fd, FIONREAD, NULL) < 0 && errno == ENOTTY);
	close(fd);
}

SUITE_MAIN("worker")
