/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "entries.h"
#include "library.h"
#include "vgpu/descriptor.h"

/* The number of the driver that goes with the version of CUDA, as programs compare it with what
 * they need. That the driver is vgpud's says nvmlSystemGetNVMLVersion(). */
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, uint32_t size)
{
	nvmlReturn_t e = call_begin_system(version, NULL);

	return CALL_END(e == NVML_SUCCESS ? call_text(version, size, DRIVER_SHOWN) : e);
}

/* The major version of CUDA, and vgpud's version. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, uint32_t size)
{
	nvmlReturn_t e = call_begin_system(version, NULL);
	char text[64];

	snprintf(text, sizeof(text), "%d." VGPU_VERSION, CUDA_SHOWN / 1000);
	return CALL_END(e == NVML_SUCCESS ? call_text(version, size, text) : e);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	nvmlReturn_t e = call_begin_system(version, NULL);

	if (e == NVML_SUCCESS)
		*version = CUDA_SHOWN;
	return CALL_END(e);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t process_name(uint32_t pid, char *name, uint32_t size)
{
	VGPU_AUTO_CLOSE int fd = -1;
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, name, size - 1);
	if (n <= 0)
		return NVML_ERROR_NOT_FOUND;
	name[n] = '\0';
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(uint32_t pid, char *name, uint32_t size)
{
	nvmlReturn_t e = call_begin_system(name && size > 0, NULL);

	return CALL_END(e == NVML_SUCCESS ? process_name(pid, name, size) : e);
}
