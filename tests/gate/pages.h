/* SPDX-License-Identifier: MIT */
/* Plays vgpud for one process: a door, and the pages behind it. */
#pragma once

#include <stdbool.h>

#include "vgpu/gate.h"

struct pages {
	struct gate_seat *seat;
	struct gate_account *account;
	struct gate_worker *worker;
	int bell;
};

/* Opens a door, names it in the environment, and makes the pages; DEVICE is the one to show. */
bool pages_open(struct pages *p, const char *device);
void pages_gate(struct pages *p, bool open);
/* How often the bell was rung since the last call. */
uint64_t pages_rung(struct pages *p);
/* Shuts the gate, and waits until nothing is in flight. False: for half a minute there was. */
bool pages_shut(struct pages *p);
