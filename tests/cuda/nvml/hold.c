/* SPDX-License-Identifier: MIT */
/* nvml-hold: a CUDA program that has memory. Prints the device's UUID and compute mode as
 * nvml-sample writes them, and its memory. Then it allocates and frees as the lines of its input
 * say, "+BYTES" and "-", each of which it answers with "ok". */
#include <stdio.h>
#include <stdlib.h>

#include "entries.h"

int main(void)
{
	CUdeviceptr last = 0;
	size_t total = 0;
	uint8_t u[16];
	char line[64];
	CUcontext c;
	CUresult e = cuInit(0);
	int i, mode = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (e == CUDA_SUCCESS)
		e = cuDevicePrimaryCtxRetain(&c, 0);
	if (e == CUDA_SUCCESS)
		e = cuCtxSetCurrent(c);
	if (e == CUDA_SUCCESS)
		e = cuDeviceGetUuid(u, 0);
	if (e == CUDA_SUCCESS)
		e = cuDeviceTotalMem_v2(&total, 0);
	if (e == CUDA_SUCCESS)
		e = cuDeviceGetAttribute(&mode, 20, 0);
	if (e == CUDA_SUCCESS) {
		printf("GPU-");
		for (i = 0; i < 16; i++)
			printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
		printf("\ncompute %s\ntotal %zu\n", mode ? "exclusive process" : "default", total);
	}
	while (e == CUDA_SUCCESS && fgets(line, sizeof(line), stdin)) {
		e = line[0] == '+' ? cuMemAlloc_v2(&last, strtoull(line + 1, NULL, 10))
				   : cuMemFree_v2(last);
		puts(e == CUDA_SUCCESS ? "ok" : "failed");
	}
	return e != CUDA_SUCCESS;
}
