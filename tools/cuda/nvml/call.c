/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

struct nvml_device {
	char unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_device the_device;
static unsigned started; /* nvmlInit() less nvmlShutdown() */
static struct vf *the_vf;

void call_log(const char *format, ...)
{
	const char *wanted = getenv("VGPU_CUDA_LOG");
	char text[512];
	va_list list;

	if (!wanted || strcmp(wanted, "1") != 0)
		return;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(stderr, "vgpu-nvml: %s\n", text);
}

static void take(void)
{
	pthread_mutex_lock(&lock);
}

static void give(void)
{
	pthread_mutex_unlock(&lock);
}

/* After fork() the child may go on using NVML, which has nothing that only one process can have. */
__attribute__((constructor)) static void prepare(void)
{
	pthread_atfork(take, give, give);
}

static nvmlReturn_t start(uint32_t flags)
{
	struct vgpu_error err = {""};
	int r = started ? 0 : vf_open(&the_vf, &err);

	if (r < 0)
		call_log("%s", err.text);
	if (r == -ENODEV && flags & NVML_INIT_NO_GPUS)
		r = 0;
	if (r == 0)
		started++;
	return r == 0	      ? NVML_SUCCESS
	       : r == -ENODEV ? NVML_ERROR_DRIVER_NOT_LOADED
	       : r == -EACCES ? NVML_ERROR_NO_PERMISSION
			      : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlInitWithFlags(uint32_t flags)
{
	take();
	return CALL_END(flags & ~(NVML_INIT_NO_GPUS | NVML_INIT_NO_ATTACH)
				? NVML_ERROR_INVALID_ARGUMENT
				: start(flags));
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t e = call_begin_system(true, NULL);

	if (e == NVML_SUCCESS && --started == 0) {
		vf_close(the_vf);
		the_vf = NULL;
	}
	return CALL_END(e);
}

nvmlDevice_t call_device(void)
{
	return &the_device;
}

nvmlReturn_t call_begin_system(bool ok, const struct vf **vf)
{
	take();
	if (vf)
		*vf = the_vf;
	return !started ? NVML_ERROR_UNINITIALIZED
	       : ok	? NVML_SUCCESS
			: NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t call_begin(nvmlDevice_t device, bool ok, const struct vf **vf)
{
	nvmlReturn_t e = call_begin_system(ok && device == &the_device, vf);

	/* The handle is of an earlier nvmlInit(). */
	return e == NVML_SUCCESS && !*vf ? NVML_ERROR_GPU_IS_LOST : e;
}

nvmlReturn_t call_end(const char *name, nvmlReturn_t e)
{
	give();
	if (e != NVML_SUCCESS)
		call_log("%s: %s", name, nvmlErrorString(e));
	return e;
}

nvmlReturn_t call_text(char *out, uint32_t size, const char *text)
{
	size_t bytes = strlen(text) + 1;

	if (bytes > size)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, bytes);
	return NVML_SUCCESS;
}
