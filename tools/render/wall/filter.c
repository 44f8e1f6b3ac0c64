/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wall.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
/* The bit of x32's system calls, which Linux also accepts from processes of x86_64. */
#define X32 0x40000000u

/* Refused calls: other ways to make such a call, ways to have another process make it, and ways to
 * attack the keeper. */
static const uint32_t refused[] = {
	SYS_ptrace,	    SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd,
	SYS_io_uring_setup, SYS_io_uring_enter,	  SYS_io_uring_register,
};
#define N_REFUSED (sizeof(refused) / sizeof(refused[0]))

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* IF_IS executes the next statement if the value is equal, and skips it otherwise; UNLESS skips it
 * if the value is equal. */
#define IF_IS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)
#define UNLESS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0)

int wall_filter(const struct vgpu_wall *wall)
{
#ifdef ARCHITECTURE
	struct sock_filter code[16 + 2 * (N_REFUSED + VGPU_WALL_CALLS)];
	const struct sock_filter head[] = {
		LOAD(arch),
		UNLESS(ARCHITECTURE),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
	};
	/* Loads the low byte of the ioctl's number; GPU drivers distinguish their calls by it. */
	const struct sock_filter of_ioctl[] = {
		UNLESS(SYS_ioctl),
		RETURN(SECCOMP_RET_ALLOW),
		LOAD(args[1]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
	};
	struct sock_fprog program = {.filter = code};
	size_t i, n = 0;
	long r;

	for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		code[n++] = head[i];
	for (i = 0; i < N_REFUSED; i++) {
		code[n++] = (struct sock_filter)IF_IS(refused[i]);
		/* ENOSYS, as from a kernel that lacks the call: programs then use another way. */
		code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	}
	for (i = 0; i < sizeof(of_ioctl) / sizeof(of_ioctl[0]); i++)
		code[n++] = of_ioctl[i];
	for (i = 0; i < VGPU_WALL_CALLS && wall->rows[i].number; i++) {
		code[n++] = (struct sock_filter)IF_IS(wall->rows[i].number);
		code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_USER_NOTIF);
	}
	code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	/* WAIT_KILLABLE_RECV: a signal does not restart a call that the keeper has received,
	 * because the keeper may have made it already. */
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		    &program);
	return r < 0 ? -errno : (int)r;
#else
	(void)wall;
	return -EOPNOTSUPP;
#endif
}

bool wall_waits(int listener, const struct seccomp_notif *call)
{
	uint64_t id = call->id;

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}
