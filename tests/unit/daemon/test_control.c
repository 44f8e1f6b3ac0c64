/* SPDX-License-Identifier: MIT */
/*
 * The control thread, over its real sockets, with an engine on the quick GPU:
 * tests/unit/daemon/control has a file for each idea.
 */
#include <stdlib.h>
#include <unistd.h>

#include "control/bench.h"
#include "control/tests.h"
#include "suite.h"

int main(int argc, char **argv)
{
	const struct test *const tables[] = {requests_tests, changes_tests,
					     leases_tests,   libvirts_tests,
					     incoming_tests, gpus_tests,
					     claims_tests,   booking_tests,
					     tenants_tests,  NULL};
	int r;

	if (!mkdtemp(bench_dir))
		return 1;
	r = suite_main("control", tables, argc, argv);
	rmdir(bench_dir);
	return r;
}
