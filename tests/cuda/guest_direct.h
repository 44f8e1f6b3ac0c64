/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CUDA_GUEST_DIRECT_H
#define TESTS_CUDA_GUEST_DIRECT_H

#include <stdbool.h>

/* Kills the worker of the guest that is open. */
void guest_direct_kill(void);
/* Whether a doorbell has told of all packets that the guest that is open has put into its ring. */
bool guest_direct_all_rung(void);

#endif
