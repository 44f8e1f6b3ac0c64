/* SPDX-License-Identifier: MIT */
#ifndef AGENT_SET_H
#define AGENT_SET_H

/* "set DOMAIN [VF:]NAME=VALUE...": changes parameters in a domain's claim, in its definition
 * and, if it runs, live. ARGV begins with the domain. An exit code. */
int set(const char *uri, int argc, char **argv);

#endif
