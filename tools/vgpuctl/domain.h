/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_DOMAIN_H
#define VGPUCTL_DOMAIN_H

#include <stddef.h>

/* Returns the XML of the libvirt domain NAME: SIZE bytes and a terminating zero, which the caller
 * frees. Runs vgpud-libvirt for it, the only program that links libvirt's client. NULL on failure,
 * with the reason on stderr. */
char *domain_xml(const char *name, size_t *size);

/* Runs vgpud-libvirt with the arguments ARGV, as domain_run does, and returns what it prints: SIZE
 * bytes and a terminating zero, which the caller frees. STATUS is its exit code, -1: it had none.
 * NULL: an error, in errno. */
char *domain_output(char **argv, size_t *size, int *status);

/* Replaces this program by vgpud-libvirt with the arguments ARGV; overwrites ARGV[0] with its name.
 * Returns only if vgpud-libvirt cannot be run, with the reason on stderr. */
void domain_run(char **argv);

#endif
