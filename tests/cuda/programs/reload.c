/* SPDX-License-Identifier: MIT */
/*
 * A program that looks whether there is a GPU, as some do: it loads the library, uses it, closes
 * it, and some time later does that again: cuda-reload LIBRARY.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

#include "entries.h"

#define TIMES 3

static bool use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CUresult (*init)(unsigned flags);
	CUresult (*retain)(CUcontext * c, CUdevice device);
	CUresult (*push)(CUcontext c);
	CUresult (*pop)(CUcontext * c);
	CUcontext c;
	CUresult e;

	if (!library) {
		puts(dlerror());
		return false;
	}
	*(void **)&init = dlsym(library, "cuInit");
	*(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
	*(void **)&pop = dlsym(library, "cuCtxPopCurrent_v2");
	e = init(0);
	if (e == CUDA_SUCCESS)
		e = retain(&c, 0);
	if (e == CUDA_SUCCESS)
		e = push(c);
	if (e == CUDA_SUCCESS)
		e = pop(&c);
	if (e != CUDA_SUCCESS)
		printf("error %d\n", (int)e);
	return dlclose(library) == 0 && e == CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 2)
		return 2;
	for (i = 0; i < TIMES; i++)
		if (!use(argv[1])) {
			printf("the library was loaded %d times, and does not work again\n", i);
			return 1;
		}
	return 0;
}
