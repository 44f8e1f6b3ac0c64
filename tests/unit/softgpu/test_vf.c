/* SPDX-License-Identifier: MIT */
/* A VF process, started as softgpu starts it: when it is ready, and when it ends. */
#include <pthread.h>
#include <sys/wait.h>

#include "suite.h"
#include "vf_process.h"

static void is_ready(void)
{
	struct vgpu_error err = {""};
	struct vf_process p;

	CU_ASSERT_EQUAL_FATAL(vf_process_start(&p, false, &err), 0);
	CU_ASSERT(vf_process_ready(&p));
	CU_ASSERT_FALSE(vf_process_ended(&p, 0));
	vf_process_end(&p);
}

/* It is told of the end of the thread that has started it; but not of one before it asked to be. */
static void ends_alone(void)
{
	struct vgpu_error err = {""};
	struct vf_process p;

	CU_ASSERT_EQUAL_FATAL(vf_process_start(&p, true, &err), 0);
	CU_ASSERT(vf_process_ended(&p, 10000));
	vf_process_end(&p);
}

static void *start_and_leave(void *arg)
{
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL_FATAL(vf_process_start(arg, false, &err), 0);
	CU_ASSERT(vf_process_ready(arg));
	return NULL;
}

static void ends_with_its_device(void)
{
	struct vf_process p;
	pthread_t thread;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, start_and_leave, &p), 0);
	pthread_join(thread, NULL);
	CU_ASSERT(vf_process_ended(&p, 10000));
	vf_process_end(&p);
}

static const struct test tests[] = {
	{"it says that it is ready", is_ready},
	{"it ends if its device had gone before it began", ends_alone},
	{"it ends with its device", ends_with_its_device},
	{NULL, NULL},
};

SUITE_MAIN("a VF process", tests)
