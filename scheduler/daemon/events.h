/* SPDX-License-Identifier: MIT */
/* The engines' records: stored for clients, logged if operators must know of them, and passed to
 * the parts of the control thread that wait for them. Control thread. */
#pragma once

#include "control/state.h"

/* Takes all records that the engine has queued. */
void events_take(struct gpu *gpu);
/* Logs once that the device is lost, or that it is back. */
void events_trouble(struct gpu *gpu);
/* Logs that the device could not be opened at the start. */
void events_begin_lost(struct gpu *gpu, const char *why);
/* Logs the engine's message, unless it was logged within the last minute. */
void events_said(struct gpu *gpu);
/* Once a second: logs how many messages the rate limit withheld, and resets the count. */
void events_second(struct gpu *gpu);
