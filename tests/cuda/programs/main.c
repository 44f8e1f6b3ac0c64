/* SPDX-License-Identifier: MIT */
/* cuda-sample [loop | pauses | forever | far | asserts | mark | clean | rest]: the checks of
 * sample.h against libcuda.so.1. */
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "sample.h"

static int run_other(const char *name)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} others[] = {
		{"loop", sample_loop},	   {"forever", sample_forever}, {"mark", sample_mark},
		{"clean", sample_clean},   {"rest", sample_rest},	{"far", sample_far},
		{"pauses", sample_pauses}, {"asserts", sample_asserts},
	};
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(name, others[i].name) == 0)
			return others[i].run();
	return CUDA_ERROR_INVALID_VALUE;
}

int main(int argc, char **argv)
{
	const char *name = "?";
	int e = cuInit(0), bad;

	if (e == CUDA_SUCCESS && argc == 2) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		puts("ready");
		e = run_other(argv[1]);
		if (e == CUDA_SUCCESS)
			return 0;
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
