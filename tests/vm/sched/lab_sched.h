/* SPDX-License-Identifier: MIT */
/* What lab_sched.c and its clients share. */
#pragma once

#include <linux/types.h>

struct lab_submit {
	__u64 us; /* how long the job takes */
};
/* The number of panfrost's SUBMIT, so that panfrost's wall holds it. Returns when the job has
 * ended. */
#define LAB_SUBMIT _IOW('d', 0x40, struct lab_submit)
