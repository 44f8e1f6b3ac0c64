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
/* The listening socket that the service manager has made for us, by its FileDescriptorName, or
 * -ENOENT. It outlives us: who connects while we are restarted waits. */
int service_socket(const char *name);
/* Whether there is anybody to hold descriptors. */
bool service_holds(void);
/* Drops what was held and nobody has asked for: GPUs that are no longer configured. */
void service_drop_unused(void);
void service_ready(void);
/* Every second: we are alive (WatchdogSec=), and what "systemctl status" shows. */
void service_alive(const char *status);
void service_stopping(void);

#endif
