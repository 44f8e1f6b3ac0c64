/* SPDX-License-Identifier: MIT */
#ifndef AGENT_SET_H
#define AGENT_SET_H

/* Carries out "set DOMAIN [VF:]NAME=VALUE...": changes parameters in the claim of a domain's
 * definition and, if it runs, of the running domain. ARGV begins with the domain. Returns an exit
 * code, with the reason of a failure on stderr. */
int set(const char *uri, int argc, char **argv);

#endif
