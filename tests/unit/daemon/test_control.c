/* SPDX-License-Identifier: MIT */
/*
 * The control thread, over its real sockets, with an engine on the quick GPU:
 * tests/unit/daemon/control has a file for each idea.
 */
#include <stdlib.h>
#include <unistd.h>

#include "control/bench.h"
#include "suite.h"

int main(int argc, char **argv)
{
	int r;

	if (!mkdtemp(bench_dir))
		return 1;
	r = suite_main("control", NULL, argc, argv);
	rmdir(bench_dir);
	return r;
}
