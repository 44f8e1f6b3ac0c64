/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* Gets the XML of the libvirt domain NAME: SIZE bytes and a terminating zero, which the caller
 * frees. Runs vgpud-libvirt for it, the only program that links libvirt's client. Returns an exit
 * code (exit_code.h), with the reason of a failure on stderr; OUT is written on success only. */
int domain_xml(const char *name, char **out, size_t *size);

/* Runs vgpud-libvirt with the arguments ARGV, as domain_run() does, and returns its output: SIZE
 * bytes and a terminating zero, which the caller frees. *CODE: its exit code, or -1 if it had none.
 * Returns NULL on an error, in errno. */
char *domain_output(char **argv, size_t *size, int *code);

/* Runs vgpud-libvirt with the arguments ARGV, on this host or that of remote_set(), with this
 * program's stdin, stdout and stderr; overwrites ARGV[0] with the program's name. Returns its exit
 * code; if it cannot be run, one of exit_code.h, with the reason on stderr. */
int domain_run(char **argv);
