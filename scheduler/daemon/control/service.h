/* SPDX-License-Identifier: MIT */
/*
 * The service manager: systemd or vgpud-keeper. vgpud tells it when it is ready, and it holds
 * descriptors across a restart (sd_notify(3), sd_pid_notify_with_fds(3)). Without one, all but
 * service_start and service_holds do nothing.
 */
#pragma once

#include <stdbool.h>

/* Takes the descriptors that the service manager held, and uses it as the store of vfio/store.h. To
 * be called once, before other threads start. */
void service_start(void);
/* Returns the listening socket that was kept under that name, which the caller closes, or -ENOENT.
 * Clients that connect during the restart wait. */
int service_socket(const char *name);
/* Has the service manager hold a socket under that name over a restart; the caller still owns FD.
 * The manager closes it when vgpud is stopped or fails for good, so that clients do not wait in
 * vain. */
void service_keep(const char *name, int fd);
void service_forget(const char *name);
/* Returns whether a service manager holds vgpud's descriptors. */
bool service_holds(void);
/* Drops the held descriptors that no part of vgpud has taken: those of GPUs that are no longer
 * configured. */
void service_drop_unused(void);
void service_ready(void);
/* Every second: feeds the watchdog (WatchdogSec=), and sets the text of "systemctl status". */
void service_alive(const char *status);
void service_stopping(void);
