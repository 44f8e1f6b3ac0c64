/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CUDA_GUEST_DIRECT_H
#define TESTS_CUDA_GUEST_DIRECT_H

/* Kills the worker of the guest that is open. */
void guest_direct_kill(void);

#endif
