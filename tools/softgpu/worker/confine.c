/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

/* How large the stack of a process's first thread may become: Linux's usual limit. */
#define STACK (8u << 20)

/* A process that has become another user cannot write this file. */
static void yield_memory(void)
{
	static const char score[] = "500\n";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, score, sizeof(score) - 1) < 0)
		fprintf(stderr, "<5>softgpu: /proc/self/oom_score_adj: %s\n", strerror(errno));
	vgpu_close(&fd);
}

int confine_user(uid_t uid, gid_t gid, const char *file, struct vgpu_error *err)
{
	struct stat st;
	gid_t group = 0;
	size_t n = 0;

	yield_memory();
	if (geteuid() != 0 || uid == 0) {
		vgpu_hide_memory(); /* other processes may run as this user, too */
		return 0;
	}
	if (file && stat(file, &st) == 0 && (st.st_mode & S_IRWXO) != (st.st_mode >> 3 & S_IRWXO)) {
		group = st.st_gid;
		n = 1;
	}
	if (setgroups(n, &group) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return vgpu_error_set(
			err, -errno,
			"the process cannot become user %u: %s (softgpu needs CAP_SETUID, "
			"CAP_SETGID and CAP_KILL for that; or use --worker-user root)",
			(unsigned)uid, strerror(errno));
#ifdef __SANITIZE_ADDRESS__
	prctl(PR_SET_DUMPABLE, 1); /* LeakSanitizer traces the process that it examines */
#endif
	return 0;
}

/* Landlock's, which older headers do not have. */
struct ruleset {
	uint64_t files, ports, scopes;
};

int confine_files(struct vgpu_error *err)
{
	/* Everything that each version can deny: rights about files, about TCP ports, and abstract
	 * sockets and signals beyond this process. */
	static const struct {
		int version;
		size_t size;
		struct ruleset denied;
	} versions[] = {
		{6, 24, {(1u << 16) - 1, 3, 3}}, {5, 16, {(1u << 16) - 1, 3, 0}},
		{4, 16, {(1u << 15) - 1, 3, 0}}, {3, 8, {(1u << 15) - 1, 0, 0}},
		{2, 8, {(1u << 14) - 1, 0, 0}},	 {1, 8, {(1u << 13) - 1, 0, 0}},
	};
	long has = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* which version */);
	size_t i;
	int fd, r = 0;

	if (has < 1)
		return 0; /* the kernel has none, or it is not in use */
	for (i = 0; versions[i].version > has; i++)
		;
	fd = (int)syscall(SYS_landlock_create_ruleset, &versions[i].denied, versions[i].size, 0);
	/* There is no rule, so nothing is allowed. */
	if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		r = vgpu_error_set(err, -errno, "files cannot be denied to the process: %s",
				   strerror(errno));
	vgpu_close(&fd);
	return r;
}

/* The filter names what it denies, because NVIDIA does not document which system calls libcuda
 * makes. No computation needs the calls below. */
static const int denied[] = {
	/* programs */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
/* other processes; calls that may be for this one below */
#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer examines a process from another one */
	SCMP_SYS(ptrace),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
#endif
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(tkill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(kcmp),
	SCMP_SYS(shmget),
	SCMP_SYS(msgget),
	SCMP_SYS(semget),
	/* networks, and other daemons */
	SCMP_SYS(socket),
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	/* another identity */
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capset),
	/* another priority than the one that softgpu has set */
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_setparam),
	SCMP_SYS(sched_setattr),
	SCMP_SYS(ioprio_set),
	/* another view of the system; that of clone below */
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(chroot),
	SCMP_SYS(pivot_root),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(open_by_handle_at),
	/* kernel interfaces with many past vulnerabilities */
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
};

#define IS_NOT(value) SCMP_A0(SCMP_CMP_NE, value, 0)
/* The kernel reads 32 bits of a command. */
#define COMMAND_IS(command) SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, command)

static int add_rules(scmp_filter_ctx filter)
{
	const scmp_datum_t self = (scmp_datum_t)getpid();
	const uint32_t no = SCMP_ACT_ERRNO(EPERM);
	const struct {
		int call;
		struct scmp_arg_cmp when;
	} denied_if[] = {
		{SCMP_SYS(kill), IS_NOT(self)},
		{SCMP_SYS(tgkill), IS_NOT(self)},
		/* limits and CPUs of other processes: 0 is the caller */
		{SCMP_SYS(prlimit64), IS_NOT(0)},
		{SCMP_SYS(sched_setaffinity), IS_NOT(0)},
		/* signals to others by way of a descriptor */
		{SCMP_SYS(fcntl), COMMAND_IS(F_SETOWN)},
		{SCMP_SYS(fcntl), COMMAND_IS(F_SETOWN_EX)},
		{SCMP_SYS(ioctl), COMMAND_IS(FIOSETOWN)},
		{SCMP_SYS(ioctl), COMMAND_IS(SIOCSPGRP)},
		/* a thread may step back (confine.h) */
		{SCMP_SYS(setpriority), IS_NOT(PRIO_PROCESS)},
		{SCMP_SYS(setpriority), SCMP_A1(SCMP_CMP_NE, 0, 0)},
		{SCMP_SYS(setpriority), SCMP_A2(SCMP_CMP_NE, CONFINE_NICE, 0)},
/* another process would outlive this one, and its VF's guest; threads may be made */
#ifndef __SANITIZE_ADDRESS__
		{SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)},
#endif
		{SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)},
	};
	size_t i;
	int r;

	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
		r = seccomp_rule_add(filter, no, denied[i], 0);
		if (r < 0)
			return r;
	}
	for (i = 0; i < sizeof(denied_if) / sizeof(denied_if[0]); i++) {
		r = seccomp_rule_add_array(filter, no, denied_if[i].call, 1, &denied_if[i].when);
		if (r < 0)
			return r;
	}
	/* A filter cannot see the flags of clone3. The C library calls clone if clone3 is missing.
	 */
	return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* Denies new threads: a process cannot use more CPUs than it has threads. And denies memory that
 * confine_memory() does not count. */
static int deny_more(scmp_filter_ctx filter)
{
	const scmp_datum_t shared = MAP_SHARED | MAP_ANONYMOUS;
	const scmp_datum_t stack = MAP_GROWSDOWN;
	const uint32_t no = SCMP_ACT_ERRNO(EPERM);
	int r = seccomp_rule_add(filter, no, SCMP_SYS(memfd_create), 0);

	if (r == 0)
		r = seccomp_rule_add(filter, no, SCMP_SYS(mmap), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, shared, shared));
	if (r == 0)
		r = seccomp_rule_add(filter, no, SCMP_SYS(mmap), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, stack, stack));
#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer makes a thread of its own */
	if (r == 0)
		r = seccomp_rule_add(filter, no, SCMP_SYS(clone), 0);
#endif
	return r;
}

/* Removes limits that the host may grant its users: for raising a priority, and for messages in
 * queues. */
static int limit_resources(void)
{
	static const int none[] = {RLIMIT_RTPRIO, RLIMIT_NICE, RLIMIT_MSGQUEUE};
	struct rlimit limit = {0, 0};
	size_t i;

	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (setrlimit((__rlimit_resource_t)none[i], &limit) < 0)
			return -errno;
	return 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Lowers a limit to BYTES, unless it is lower already; for ever. Returns 0, or -errno. */
static int lower(__rlimit_resource_t what, rlim_t bytes)
{
	struct rlimit limit;

	if (getrlimit(what, &limit) < 0)
		return -errno;
	limit.rlim_max = limit.rlim_cur = bytes < limit.rlim_cur ? bytes : limit.rlim_cur;
	return setrlimit(what, &limit) < 0 ? -errno : 0;
}
#endif

int confine_memory(uint64_t bytes, struct vgpu_error *err)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	(void)bytes; /* a sanitizer takes memory as it likes */
	(void)err;
	return 0;
#else
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;
	int r = -ENODATA;
	rlim_t has;

	/* proc_pid_statm(5): the sixth number is what the kernel limits, and stacks */
	if (f && fscanf(f, "%*u %*u %*u %*u %*u %llu", &pages) == 1)
		r = 0;
	if (f)
		fclose(f);
	has = pages * (rlim_t)sysconf(_SC_PAGESIZE);
	if (r == 0)
		r = lower(RLIMIT_DATA, bytes < RLIM_INFINITY - has ? has + bytes : RLIM_INFINITY);
	if (r == 0) /* a stack may grow without being counted */
		r = lower(RLIMIT_STACK, STACK);
	return r < 0 ? vgpu_error_set(err, r, "the memory of the process cannot be limited: %s",
				      strerror(-r))
		     : 0;
#endif
}

int confine_calls(bool threads, struct vgpu_error *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!filter)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = limit_resources();
	/* all threads, those of the driver too */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = add_rules(filter);
	if (r == 0 && !threads)
		r = deny_more(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	if (r < 0)
		return vgpu_error_set(err, r,
				      "the system calls of the process cannot be filtered: %s",
				      strerror(-r));
	return 0;
}
