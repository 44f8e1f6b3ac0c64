/* SPDX-License-Identifier: MIT */
/* cuda-sample [loop | forever]: the checks of sample.h against libcuda.so.1. */
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "sample.h"

int main(int argc, char **argv)
{
	const struct sample_check *c;
	const char *name = "?";
	int e = cuInit(0), bad = 0;

	if (e == CUDA_SUCCESS && argc == 2) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		puts("ready");
		e = strcmp(argv[1], "loop") == 0 ? sample_loop() : sample_forever();
	}
	if (e != CUDA_SUCCESS) {
		cuGetErrorName(e, &name);
		printf("cuda-sample: %s\n", e == -1 ? "a result is wrong" : name);
		return 1;
	}
	for (c = sample_checks; c->name; c++)
		if (!c->run()) {
			printf("cuda-sample: %s: FAILED\n", c->name);
			bad++;
		}
	printf("cuda-sample: %d of %d checks failed\n", bad, (int)(c - sample_checks));
	return bad > 0;
}
