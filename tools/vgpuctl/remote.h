/* SPDX-License-Identifier: MIT */
/*
 * Other hosts, by ssh: --host, as virsh's URIs. Only what a command asks runs there: vgpuctl's own
 * views, files and exit codes stay here. The other host needs vgpuctl, and ssh that asks nothing,
 * or a terminal on which it may ask. One thread.
 */
#ifndef VGPUCTL_REMOTE_H
#define VGPUCTL_REMOTE_H

#include <sys/types.h>

/* Checks the name of a host: [USER@]HOST or ssh://[USER@]HOST[:PORT]. Returns 0; -EINVAL, with the
 * reason on stderr: it would be an option of ssh. */
int remote_check(const char *host);
/* Runs from now on on HOST, which must stay: remote_run, and with it vgpud-libvirt. NULL: here. */
void remote_set(const char *host);
/* Replaces this program by ARGV, here or by ssh on the host; each argument arrives as it is.
 * Returns only if that cannot be run: -errno. */
int remote_run(char *const *argv);
/* Connects to the vgpud of HOST, at the socket PATH there (NULL: as vgpuctl there chooses). Returns
 * a descriptor and in *SSH the process, which the caller waits for once it has closed it; or
 * -errno. What fails later, ssh says on stderr, and the connection ends. */
int remote_connect(const char *host, const char *path, pid_t *ssh);
/* The other end: passes bytes between stdin, stdout and the socket at PATH, until one of them ends.
 * Returns an exit code. */
int remote_bridge(const char *path);

#endif
