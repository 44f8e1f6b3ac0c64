/* SPDX-License-Identifier: MIT */
#pragma once

/* Carries out "set DOMAIN [VF:]NAME=VALUE...": asks vgpud at SOCKET, its hook socket, then changes
 * parameters in the claim of a domain's definition and, if it runs, of the running domain; all of
 * it or nothing. ARGV begins with the domain. Prints what has changed. Returns an exit code, with
 * the reason of a failure on stderr. */
int set(const char *uri, const char *socket, int argc, char **argv);
