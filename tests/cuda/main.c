/* SPDX-License-Identifier: MIT */
/* cuda-sample [loop | forever]: the checks of sample.h against libcuda.so.1. */
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "sample.h"

int main(int argc, char **argv)
{
	const char *name = "?";
	int e = cuInit(0), bad;

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
	bad = sample_run();
	printf("cuda-sample: %d checks failed\n", bad);
	return bad > 0;
}
