/* SPDX-License-Identifier: MIT */
/* Structures of CUDA 12.4's public interface, by their layout; names are ours. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr, CUmemHandle;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUevent, *CUlibrary, *CUkernel;
typedef void *CUmemoryPool, *CUlinkState, *CUgraph, *CUgraphNode, *CUgraphExec, *CUuserObject;

/* CUdevprop */
struct cuda_properties {
	int threads, block[3], grid[3], shared, constant, warp, pitch, registers, clock, texture;
};

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D. TYPE: CUmemorytype */
struct cuda_copy_side_2d {
	size_t x, y;
	unsigned type;
	const void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};
struct cuda_copy_2d {
	struct cuda_copy_side_2d from, to;
	size_t width, rows;
};
struct cuda_copy_side_3d {
	size_t x, y, z, lod;
	unsigned type;
	const void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
};
struct cuda_copy_3d {
	struct cuda_copy_side_3d from, to;
	size_t width, rows, layers;
};

/* CUlaunchConfig and its attributes */
union cuda_value {
	int value;
	unsigned cluster[3];
	uint64_t all[8];
};
struct cuda_attribute {
	int id, pad;
	union cuda_value of;
};
struct cuda_launch_config {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct cuda_attribute *attributes;
	unsigned n_attributes;
};

/* CUmemPoolProps, CUmemAccessDesc, CUmemLocation */
struct cuda_location {
	int type, id;
};
struct cuda_pool_props {
	int type, handles;
	struct cuda_location location;
	void *security;
	size_t most;
	unsigned char reserved[56];
};
struct cuda_access {
	struct cuda_location location;
	int flags;
};

/* CUmemAllocationProp */
struct cuda_allocation {
	int type, handles;
	struct cuda_location location;
	void *security;
	unsigned char compression, rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

/* CUipcMemHandle, CUipcEventHandle */
struct cuda_ipc_memory {
	unsigned char bytes[64];
};
struct cuda_ipc_event {
	unsigned char bytes[64];
};

/* CUDA_KERNEL_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS */
struct cuda_kernel_node {
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
};
struct cuda_kernel_node_2 {
	struct cuda_kernel_node base;
	CUkernel kernel;
	CUcontext context;
};
struct cuda_set_node {
	CUdeviceptr at;
	size_t pitch;
	unsigned value, unit;
	size_t width, rows;
};
struct cuda_host_node {
	void (*run)(void *data);
	void *data;
};
/* CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraphExecUpdateResultInfo, CUgraphEdgeData */
struct cuda_instantiate {
	uint64_t flags;
	CUstream upload;
	CUgraphNode error_node;
	int result;
};
struct cuda_update_result {
	int result;
	CUgraphNode error_node, error_from;
};
struct cuda_edge {
	uint8_t from_port, to_port, type, reserved[5];
};

_Static_assert(sizeof(struct cuda_copy_2d) == 128 && sizeof(struct cuda_copy_3d) == 200 &&
		       sizeof(struct cuda_attribute) == 72 &&
		       sizeof(struct cuda_launch_config) == 56 &&
		       sizeof(struct cuda_pool_props) == 88 &&
		       sizeof(struct cuda_allocation) == 32 && sizeof(struct cuda_access) == 12 &&
		       sizeof(struct cuda_kernel_node) == 56 &&
		       sizeof(struct cuda_kernel_node_2) == 72 &&
		       sizeof(struct cuda_set_node) == 40 && sizeof(struct cuda_edge) == 8 &&
		       sizeof(struct cuda_ipc_memory) == 64 &&
		       sizeof(struct cuda_ipc_event) == 64 && sizeof(struct cuda_properties) == 56,
	       "the interface's layout");
