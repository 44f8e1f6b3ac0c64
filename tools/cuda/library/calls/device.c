/* SPDX-License-Identifier: MIT */
/* The device; there is only one, the VF. */
#include <stdio.h>
#include <string.h>

#include "find.h"
#include "ipc_event.h"
#include "cuda_calls.h"

/* Attributes of the GPU that also hold for its VF; the numbers are those of CUdevice_attribute. All
 * others are 0, because the library does not support what they describe. */
static const uint8_t passed[] = {
	1,	    /* threads in a block */
	2,   3,	 4, /* a block's dimensions */
	5,   6,	 7, /* a grid's dimensions */
	8,	    /* shared memory of a block */
	9,	    /* constant memory */
	10,	    /* threads in a warp */
	11,	    /* pitch of a copy */
	12,	    /* registers of a block */
	13,	    /* clock rate */
	14,	    /* alignment of textures: programs take it for all that they allocate */
	16,	    /* multiprocessors */
	32,	    /* whether memory has ECC */
	36,  37,    /* memory clock rate, and bus width */
	38,	    /* L2 cache */
	39,	    /* threads of a multiprocessor */
	51,  52,    /* alignment of a texture's pitch, and of surfaces */
	75,  76,    /* compute capability */
	81,  82,    /* shared memory and registers of a multiprocessor */
	95,	    /* cooperative launches */
	97,	    /* shared memory of a block that asks for it */
	106,	    /* blocks of a multiprocessor */
	111,	    /* shared memory of a block that is reserved */
};
#define ATTRIBUTES_END 143 /* in CUDA 12.4 */

CUresult cuInit(unsigned flags)
{
	lock_take();
	return CALL_END(flags ? CUDA_ERROR_INVALID_VALUE : start_library());
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = CUDA_SHOWN;
	return CUDA_SUCCESS;
}

/* Begins a call about DEVICE. OK: whether the call's other arguments are valid. */
static CUresult begin_device(CUdevice device, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !ok)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && device != 0)
		e = CUDA_ERROR_INVALID_DEVICE;
	return e;
}

CUresult cuDeviceGetCount(int *n)
{
	CUresult e = begin_device(0, n);

	if (e == CUDA_SUCCESS)
		*n = 1;
	return CALL_END(e);
}

CUresult cuDeviceGet(CUdevice *out, int index)
{
	CUresult e = begin_device(index, out);

	if (e == CUDA_SUCCESS)
		*out = 0;
	return CALL_END(e);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult e = begin_device(device, name && size > 0);

	if (e == CUDA_SUCCESS)
		snprintf(name, (size_t)size, "%s", link_about.name);
	return CALL_END(e);
}

static CUresult get_uuid(void *uuid, CUdevice device)
{
	CUresult e = begin_device(device, uuid);
	char name[FIND_NAME_SIZE] = "";

	find_vf(name, NULL);
	if (e == CUDA_SUCCESS)
		find_uuid(name, uuid);
	return e;
}

CUresult cuDeviceGetUuid(void *uuid, CUdevice device)
{
	return CALL_END(get_uuid(uuid, device));
}

CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device)
{
	return CALL_END(get_uuid(uuid, device));
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult e = begin_device(device, bytes);

	if (e == CUDA_SUCCESS)
		*bytes = link_parts.memory_size;
	return CALL_END(e);
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device)
{
	CUresult e = begin_device(device, bytes);

	if (e == CUDA_SUCCESS)
		*bytes = memory_in_32_bits(link_parts.memory_size);
	return CALL_END(e);
}

/* CUdevice_attribute of functions that this library implements by itself */
enum {
	MAPPED_HOST_MEMORY = 19,
	COMPUTE_MODE = 20,
	PCI_BUS = 33,
	PCI_DEVICE = 34,
	PCI_DOMAIN = 50,
	UNIFIED_ADDRESSING = 41,
	MANAGED_MEMORY = 83,
	REGISTERED_MEMORY = 99,
	VIRTUAL_MEMORY = 102,
	SHARED_DESCRIPTORS = 103,
	MEMORY_POOLS = 115,
	IPC_EVENTS = 125
};

/* CUcomputemode */
enum { COMPUTE_DEFAULT = 0, COMPUTE_EXCLUSIVE_PROCESS = 3 };

static struct find_pci own_pci(void)
{
	char name[FIND_NAME_SIZE];
	struct find_pci p = {.domain = FIND_NO_DOMAIN};

	if (find_vf(name, NULL) == 0)
		find_pci(name, &p);
	return p;
}

static int attribute(int which)
{
	if (which == COMPUTE_MODE)
		return link_is_shared() ? COMPUTE_DEFAULT : COMPUTE_EXCLUSIVE_PROCESS;
	if (which == UNIFIED_ADDRESSING)
		return memory_is_unified();
	if (which == VIRTUAL_MEMORY)
		return link_arena.bytes > 0;
	if (which == MAPPED_HOST_MEMORY || which == MANAGED_MEMORY || which == REGISTERED_MEMORY)
		return link_window_is_unified();
	if (which == SHARED_DESCRIPTORS)
		return physical_is_shareable();
	if (which == IPC_EVENTS)
		return ipc_event_is_there();
	if (which == MEMORY_POOLS)
		return 1;
	if (which == PCI_BUS)
		return (int)own_pci().bus;
	if (which == PCI_DEVICE)
		return (int)own_pci().device;
	if (which == PCI_DOMAIN)
		return (int)own_pci().domain;
	return memchr(passed, which, sizeof(passed)) ? link_about.attributes[which] : 0;
}

CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	CUresult e = begin_device(device, value && which > 0 && which < ATTRIBUTES_END);

	if (e == CUDA_SUCCESS)
		*value = attribute(which);
	return CALL_END(e);
}

/* Returns some attributes in the structure that CUDA used before cuDeviceGetAttribute() existed. */
CUresult cuDeviceGetProperties(struct cuda_properties *out, CUdevice device)
{
	CUresult e = begin_device(device, out);

	if (e == CUDA_SUCCESS)
		*out = (struct cuda_properties){
			.threads = attribute(1),
			.block = {attribute(2), attribute(3), attribute(4)},
			.grid = {attribute(5), attribute(6), attribute(7)},
			.shared = attribute(8),
			.constant = attribute(9),
			.warp = attribute(10),
			.pitch = attribute(11),
			.registers = attribute(12),
			.clock = attribute(13),
			.texture = attribute(14),
		};
	return CALL_END(e);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult e = begin_device(device, major && minor);

	if (e == CUDA_SUCCESS) {
		*major = attribute(75);
		*minor = attribute(76);
	}
	return CALL_END(e);
}

CUresult cuDeviceGetPCIBusId(char *address, int size, CUdevice device)
{
	CUresult e = begin_device(device, address && size > 0);
	struct find_pci p = own_pci();

	if (e == CUDA_SUCCESS)
		snprintf(address, (size_t)size, "%04x:%02x:%02x.%x", p.domain, p.bus, p.device,
			 p.function);
	return CALL_END(e);
}

/* A domain or a function that is missing in ADDRESS counts as 0. */
CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *address)
{
	CUresult e = begin_device(0, out && address);
	struct find_pci p = own_pci(), wanted;

	if (e == CUDA_SUCCESS && (!find_parse(address, &wanted) || memcmp(&p, &wanted, sizeof(p))))
		e = CUDA_ERROR_INVALID_DEVICE;
	if (e == CUDA_SUCCESS)
		*out = 0;
	return CALL_END(e);
}

/* There is only one device, so no access to a peer is possible. */
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	CUresult e = begin_device(device, can);

	if (e == CUDA_SUCCESS && peer != 0)
		e = CUDA_ERROR_INVALID_DEVICE;
	if (e == CUDA_SUCCESS)
		*can = 0;
	return CALL_END(e);
}
