/* SPDX-License-Identifier: MIT */
/*
 * Runs queries on another host by ssh (--host). Only the query runs there; views, files and exit
 * codes are this vgpuctl's. The other host needs vgpuctl. ssh must log in without questions, or
 * have a terminal on which it can ask. One thread.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Checks the name of a host: [USER@]HOST or ssh://[USER@]HOST[:PORT]. Returns 0; -EINVAL, with the
 * reason on stderr: it would be an option of ssh. */
int remote_check(const char *host);
/* Sets the host on which remote_wait() and remote_output() run programs from now on. HOST must stay
 * valid. NULL: this host. */
void remote_set(const char *host);
/* Runs ARGV, here or by ssh on the host, with this program's stdin, stdout and stderr, and waits
 * for it; each argument arrives as it is. Returns its exit code; if it cannot be run EXIT_FAILED,
 * and if the host cannot be reached EXIT_NO_DAEMON, with the reason and, here, CURE on stderr. */
int remote_wait(char *const *argv, const char *cure);
/* As remote_wait(), but returns what ARGV prints: SIZE bytes and a terminating zero, which the
 * caller frees; the exit code goes to CODE, -1 if there was none. Returns NULL on an error, in
 * errno. */
char *remote_output(char *const *argv, const char *cure, size_t *size, int *code);
/* Returns the exit code of this program for that of one that remote_output has run. */
int remote_code(int code);
/* Removes from TEXT the lines before the first one that begins with FIRST, as the other host's
 * shell may print before the program does. Without such a line, TEXT stays. Returns its length. */
size_t remote_skip(char *text, char first);
/* Connects to the vgpud of HOST, at the socket PATH there (NULL: as vgpuctl there chooses). Returns
 * a descriptor and in *SSH the process, which the caller waits for once it has closed it; or
 * -errno. What fails later, ssh says on stderr, and the connection ends. */
int remote_connect(const char *host, const char *path, pid_t *ssh);
/* The other end of remote_connect(): passes bytes between stdin, stdout and the socket at PATH,
 * until one of them ends. Returns an exit code. */
int remote_bridge(const char *path);
