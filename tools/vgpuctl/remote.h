/* SPDX-License-Identifier: MIT */
/*
 * Runs queries on another host by ssh (--host). Only the query runs there; this vgpuctl makes
 * views, files and exit codes. The other host needs vgpuctl. ssh must log in without a password, or
 * have a terminal on which it can ask for one. One thread.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Checks the name of a host: [USER@]HOST or ssh://[USER@]HOST[:PORT]. Returns 0; or -EINVAL, with
 * the reason on stderr, if ssh would take it for an option. */
int remote_check(const char *host);
/* Sets the host on which remote_wait() and remote_output() run programs from now on. HOST must stay
 * valid. NULL: this host. */
void remote_set(const char *host);
/*
 * Runs ARGV, on this host or by ssh on that of remote_set(), with this program's stdin, stdout and
 * stderr, and waits for it; each argument arrives unchanged. Returns its exit code; EXIT_FAILED if
 * it cannot be run, EXIT_NO_DAEMON if the host cannot be reached, with the reason and, for this
 * host, CURE on stderr.
 */
int remote_wait(char *const *argv, const char *cure);
/* As remote_wait(), but returns the output of ARGV: SIZE bytes and a terminating zero, which the
 * caller frees; *CODE is the exit code, or -1 if there was none. Returns NULL on an error, in
 * errno. */
char *remote_output(char *const *argv, const char *cure, size_t *size, int *code);
/* Translates the exit code of a program that remote_output() has run into this program's. */
int remote_code(int code);
/* Removes the lines before the first one that begins with FIRST from TEXT, because the other host's
 * shell may print before the program does. TEXT is unchanged if it has no such line. Returns its
 * length. */
size_t remote_skip(char *text, char first);
/*
 * Connects to the vgpud of HOST, at the socket PATH there (NULL: the one that vgpuctl there
 * chooses). Returns a descriptor and in *SSH the process of ssh, for which the caller waits after
 * it has closed the descriptor; or -errno. If ssh fails later, it prints the reason on stderr, and
 * the connection ends.
 */
int remote_connect(const char *host, const char *path, pid_t *ssh);
/* The other end of remote_connect(): copies bytes between stdin, stdout and the socket at PATH,
 * until one of them ends. Returns an exit code. */
int remote_bridge(const char *path);
