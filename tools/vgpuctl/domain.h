/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_DOMAIN_H
#define VGPUCTL_DOMAIN_H

#include <stddef.h>

/* The XML of a libvirt domain, by vgpud-libvirt, which alone has libvirt's client; the caller's to
 * free, SIZE bytes and a zero. NULL: it has said why on stderr. */
char *domain_xml(const char *name, size_t *size);

/* Runs vgpud-libvirt with ARGV (its first is made its name) instead of this program; returns only
 * if that cannot be, and says so. */
void domain_run(char **argv);

#endif
