/* SPDX-License-Identifier: MIT */
/*
 * Who runs us: systemd, or vgpud-keeper, or a person. The first two are told when we are ready, and
 * hold descriptors over a restart (sd_notify(3), sd_pid_notify_with_fds(3)).
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include <stdbool.h>

/* Takes over what has been held for us, and has the store used from now on (vfio/store.h). Before
 * any other thread; once. */
void service_start(void);
/* Whether there is anybody to hold descriptors. */
bool service_holds(void);
/* Drops what was held and nobody has asked for: GPUs that are no longer configured. */
void service_drop_unused(void);
void service_ready(const char *status);
void service_stopping(void);

#endif
