/* SPDX-License-Identifier: MIT */
/* Texts for the driver's errors: names, causes, and what to do. */
#include <errno.h>

#include "cuda_private.h"

const char *cuda_error_name(struct device *d, CUresult e)
{
	const char *name = NULL;

	if (d->api.cuGetErrorName(e, &name) != CUDA_SUCCESS || !name)
		return "an unknown error";
	return name;
}

/* What to do about errors with which the driver refuses to start, or to make a context. The numbers
 * are cuda.h's; the causes are those that NVIDIA's documentation of the error codes names. */
static const struct remedy {
	CUresult e;
	int r;
	const char *text;
} remedies[] = {
	{CUDA_ERROR_NOT_INITIALIZED, -ENODEV,
	 "the driver is not running: load the kernel modules nvidia and nvidia-uvm"},
	{CUDA_ERROR_DEVICE_UNAVAILABLE, -EBUSY,
	 "the GPU is unavailable: end the program that has it to itself, or look for Xid in dmesg"},
	{CUDA_ERROR_NO_DEVICE, -ENODEV,
	 "the NVIDIA driver sees no GPU: check lspci, dmesg and the rights of /dev/nvidia*"},
	{CUDA_ERROR_SYSTEM_NOT_READY, -EAGAIN,
	 "the GPU's links are not ready: start nvidia-fabricmanager, and try again"},
	{CUDA_ERROR_DRIVER_MISMATCH, -EOPNOTSUPP,
	 "libcuda and the kernel module have different versions: load the module anew, or reboot"},
	{CUDA_ERROR_COMPAT_UNSUPPORTED, -EOPNOTSUPP,
	 "this libcuda is one for forward compatibility, which the GPU lacks: remove cuda-compat"},
	{CUDA_ERROR_UNKNOWN, -EIO,
	 "the driver gives no reason: check that /dev/nvidia-uvm exists (nvidia-modprobe -u)"},
};

int cuda_failed(struct device *d, CUresult e, const char *what, struct vgpu_error *err)
{
	size_t i;

	for (i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (remedies[i].e == e)
			return vgpu_error_set(err, remedies[i].r, "CUDA: %s: error %d: %s", what, e,
					      remedies[i].text);
	return vgpu_error_set(err, -EIO, "CUDA: %s: error %d: %s", what, e, cuda_error_name(d, e));
}
