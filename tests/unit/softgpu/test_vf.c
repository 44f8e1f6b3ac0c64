/* SPDX-License-Identifier: MIT */
/* A VF process, started as softgpu starts it: when it is ready, and when it ends. */
#include <pthread.h>

#include "suite.h"
#include "vf_process.h"

TEST(is_ready, "it says that it is ready")
{
	struct vgpu_error err = {""};
	struct vf_process p;

	CU_ASSERT_EQUAL_FATAL(vf_process_start(&p, false, &err), 0);
	CU_ASSERT(vf_process_ready(&p));
	CU_ASSERT_FALSE(vf_process_ended(&p, 0));
	vf_process_end(&p);
}

/* It is told of the end of the thread that has started it; but not of one before it asked to be. */
TEST(ends_alone, "it ends if its device had gone before it began")
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

TEST(ends_with_its_device, "it ends with its device")
{
	struct vf_process p;
	pthread_t thread;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, start_and_leave, &p), 0);
	pthread_join(thread, NULL);
	CU_ASSERT(vf_process_ended(&p, 10000));
	vf_process_end(&p);
}

SUITE_MAIN("a VF process")
