/* SPDX-License-Identifier: MIT */
/*
 * A library in place of libcuda that reports a version and computes nothing: for the loader's
 * refusals.
 */
#include <stdint.h>
#include <string.h>

int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *status);

#ifdef STUB_VERSION
int cuDriverGetVersion(int *version)
{
	*version = STUB_VERSION;
	return 0;
}
#endif

#ifndef STUB_MUTE
static int refuses(void)
{
	return 3; /* not initialised */
}

/* For an unknown name the CUDA driver returns success and no entry. */
int cuGetProcAddress_v2(const char *name, void **entry, int, uint64_t, int *status)
{
	*entry = strcmp(name, "cuMemCreate") == 0 ? NULL : (void *)(uintptr_t)refuses;
	*status = *entry ? 0 : 1;
	return 0;
}
#endif
