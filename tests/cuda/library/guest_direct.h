/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Kills the worker of the guest that is open. */
void guest_direct_kill(void);
/* Has that worker stop, or go on. */
void guest_direct_pause(bool stop);
/* How many packets the guest that is open has put into its ring. */
uint64_t guest_direct_packets(void);
/* Swaps the device memory of the guest that is open out and in again, while nothing of it runs. 0
 * or -errno. */
int guest_direct_swap(void);
/* Whether a doorbell has told of all packets that the guest that is open has put into its ring. */
bool guest_direct_all_rung(void);
