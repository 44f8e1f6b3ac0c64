/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <ucontext.h>

#include "rm_calls.h"
#include "soft_gpu.h"

#define SET_TIMESLICE 0xa06c0103u
#define GET_TIMESLICE 0xa06c0104u
#define INSUFFICIENT_PERMISSIONS 0x1bu
#define INVALID_ARGUMENT 0x1fu
#define DEFAULT_TIMESLICE 2048u

/* What libcuda makes: a group that computes and one that copies, and their channels. */
#define CLIENT 0x7u
#define DEVICE 0x10u
#define SUBDEVICE 0x11u
#define COMPUTE 0x100u
#define COPY 0x101u
static const struct made {
	uint32_t parent, object, class;
} objects[] = {
	{CLIENT, DEVICE, 0x80},	  {DEVICE, SUBDEVICE, 0x2080}, {DEVICE, COMPUTE, 0xa06c},
	{DEVICE, COPY, 0xa06c},	  {COMPUTE, 0x200, 0xc86f},    {COMPUTE, 0x201, 0xc86f},
	{COMPUTE, 0x202, 0xc86f}, {COMPUTE, 0x203, 0xc86f},    {COPY, 0x300, 0xc86f},
	{COPY, 0x301, 0xc86f},
};

static _Atomic uint64_t timeslices[] = {DEFAULT_TIMESLICE, DEFAULT_TIMESLICE};

static bool inert, sticks;

uint64_t soft_rm_timeslice(void)
{
	return inert ? DEFAULT_TIMESLICE : atomic_load(&timeslices[0]);
}

/* Of one that sticks: a time slice can only be made shorter, and that of the second group not at
 * all. */
static bool refuses(uint32_t object, uint64_t us)
{
	return object == COPY || us > atomic_load(&timeslices[object - COMPUTE]);
}

static uint32_t command(const struct control *c)
{
	uint64_t *us = (uint64_t *)(uintptr_t)c->params;

	if (c->command != SET_TIMESLICE && c->command != GET_TIMESLICE)
		return INSUFFICIENT_PERMISSIONS;
	if (c->client != CLIENT || (c->object != COMPUTE && c->object != COPY) ||
	    c->params_size != sizeof(*us))
		return INVALID_ARGUMENT;
	if (c->command == GET_TIMESLICE)
		*us = atomic_load(&timeslices[c->object - COMPUTE]);
	else if (*us == 0 || (sticks && refuses(c->object, *us)))
		return INVALID_ARGUMENT;
	else
		atomic_store(&timeslices[c->object - COMPUTE], *us);
	return 0;
}

static long serve(unsigned long request, void *argument)
{
	struct control *c = argument;

	if (request == CONTROL)
		c->status = command(c);
	else if (request == ALLOC)
		((struct alloc *)argument)->status = 0;
	else if (request == FREE)
		((struct gone *)argument)->status = 0;
	else
		return -ENOTTY;
	return 0;
}

/* The system call that was trapped, in the thread that makes it. */
static void on_call(int, siginfo_t *, void *at)
{
	mcontext_t *m = &((ucontext_t *)at)->uc_mcontext;

#if defined(__x86_64__)
	m->gregs[REG_RAX] =
		serve((unsigned long)m->gregs[REG_RSI], (void *)(uintptr_t)m->gregs[REG_RDX]);
#elif defined(__aarch64__)
	m->regs[0] = (unsigned long long)serve(m->regs[1], (void *)(uintptr_t)m->regs[2]);
#else
#error "the registers of a system call"
#endif
}

static bool trap_calls(void)
{
	const struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
	const struct scmp_arg_cmp nvidia = {.arg = 1,
					    .op = SCMP_CMP_MASKED_EQ,
					    .datum_a = 0xff00,
					    .datum_b = 'F' << 8};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool works =
		filter && sigaction(SIGSYS, &action, NULL) == 0 &&
		seccomp_rule_add_array(filter, SCMP_ACT_TRAP, SCMP_SYS(ioctl), 1, &nvidia) == 0 &&
		seccomp_load(filter) == 0;

	seccomp_release(filter);
	return works;
}

bool soft_rm_open(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool works = fd >= 0 && trap_calls();
	size_t i;

	inert = getenv("SOFT_CUDA_INERT");
	sticks = getenv("SOFT_CUDA_STICKS");
	for (i = 0; i < sizeof(objects) / sizeof(objects[0]) && works; i++) {
		struct alloc a = {.client = CLIENT,
				  .parent = objects[i].parent,
				  .object = objects[i].object,
				  .class = objects[i].class};

		works = ioctl(fd, ALLOC, &a) == 0 && a.status == 0;
	}
	return works;
}
