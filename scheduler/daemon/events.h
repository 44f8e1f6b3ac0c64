/* SPDX-License-Identifier: MIT */
/* What the engines tell: kept for whoever asks, logged where an operator should know, and handed to
 * those parts of the control thread that wait for it. All on the control thread. */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "control.h"

/* Takes in what the engine has recorded since. */
void events_take(struct gpu *gpu);
/* Logs once that the device is lost, or that it is back. */
void events_trouble(struct gpu *gpu);
/* Once a second: logs how many messages were one too many, and allows as many again. */
void events_second(struct gpu *gpu);

#endif
