/* SPDX-License-Identifier: MIT */
/* All errors of CUDA 12.4, most of which this library does not return: programs print the names of
 * those that they know. */
#pragma once

/* code, name, sentence */
#define CUDA_ERRORS(X)                                                                             \
	X(0, CUDA_SUCCESS, "no error")                                                             \
	X(1, CUDA_ERROR_INVALID_VALUE, "invalid argument")                                         \
	X(2, CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                            \
	X(3, CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                   \
	X(4, CUDA_ERROR_DEINITIALIZED, "the program ends")                                         \
	X(5, CUDA_ERROR_PROFILER_DISABLED, "there is no profiler")                                 \
	X(6, CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler was not initialized")              \
	X(7, CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler runs already")                     \
	X(8, CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler does not run")                     \
	X(34, CUDA_ERROR_STUB_LIBRARY, "the library is a stub")                                    \
	X(46, CUDA_ERROR_DEVICE_UNAVAILABLE, "the VF is in use, or its host refuses it")           \
	X(100, CUDA_ERROR_NO_DEVICE, "no VF, or none that runs GPU kernels")                       \
	X(101, CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                \
	X(102, CUDA_ERROR_DEVICE_NOT_LICENSED, "the device has no license")                        \
	X(200, CUDA_ERROR_INVALID_IMAGE, "the image cannot be loaded")                             \
	X(201, CUDA_ERROR_INVALID_CONTEXT, "no context is current")                                \
	X(202, CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already")               \
	X(205, CUDA_ERROR_MAP_FAILED, "the other process no longer has this memory")               \
	X(206, CUDA_ERROR_UNMAP_FAILED, "the memory cannot be unmapped")                           \
	X(207, CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped")                                  \
	X(208, CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already")                        \
	X(209, CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has nothing for this GPU")                 \
	X(210, CUDA_ERROR_ALREADY_ACQUIRED, "the resource was acquired already")                   \
	X(211, CUDA_ERROR_NOT_MAPPED, "the resource is not mapped")                                \
	X(212, CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array")           \
	X(213, CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as memory")           \
	X(214, CUDA_ERROR_ECC_UNCORRECTABLE, "an ECC error that cannot be corrected")              \
	X(215, CUDA_ERROR_UNSUPPORTED_LIMIT, "the device has no such limit")                       \
	X(216, CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "another thread has the context")                \
	X(217, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach each other")          \
	X(218, CUDA_ERROR_INVALID_PTX, "the PTX does not compile, or does not fit")                \
	X(219, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context")                    \
	X(220, CUDA_ERROR_NVLINK_UNCORRECTABLE, "an NVLink error that cannot be corrected")        \
	X(221, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "there is no compiler of PTX")                   \
	X(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX is newer than its compiler")           \
	X(223, CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX is not compiled")                         \
	X(224, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the device has no such affinity")            \
	X(225, CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,                                                \
	  "GPU kernels cannot wait for others that they launch")                                   \
	X(300, CUDA_ERROR_INVALID_SOURCE, "the source of a kernel is wrong")                       \
	X(301, CUDA_ERROR_FILE_NOT_FOUND, "file not found")                                        \
	X(302, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a shared object lacks a symbol")        \
	X(303, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object cannot be initialized")      \
	X(304, CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused a call")                 \
	X(400, CUDA_ERROR_INVALID_HANDLE, "invalid handle")                                        \
	X(401, CUDA_ERROR_ILLEGAL_STATE, "not in this state")                                      \
	X(402, CUDA_ERROR_LOSSY_QUERY, "not all of the answer can be told")                        \
	X(500, CUDA_ERROR_NOT_FOUND, "named symbol not found")                                     \
	X(600, CUDA_ERROR_NOT_READY, "not ready yet")                                              \
	X(700, CUDA_ERROR_ILLEGAL_ADDRESS, "a GPU kernel used an illegal address")                 \
	X(701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "a launch was refused on the host")             \
	X(702, CUDA_ERROR_LAUNCH_TIMEOUT, "a GPU kernel took too long")                            \
	X(703, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "the launch has other textures")          \
	X(704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "the devices reach each other already")     \
	X(705, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "the devices do not reach each other")          \
	X(708, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active")                 \
	X(709, CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed")               \
	X(710, CUDA_ERROR_ASSERT, "an assertion of a GPU kernel failed")                           \
	X(711, CUDA_ERROR_TOO_MANY_PEERS, "the devices have too many others")                      \
	X(712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "this host memory is registered")        \
	X(713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "this host memory is not registered")        \
	X(714, CUDA_ERROR_HARDWARE_STACK_ERROR, "a GPU kernel damaged its stack")                  \
	X(715, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a GPU kernel has an illegal instruction")          \
	X(716, CUDA_ERROR_MISALIGNED_ADDRESS, "a GPU kernel used a misaligned address")            \
	X(717, CUDA_ERROR_INVALID_ADDRESS_SPACE, "an instruction is for other memory")             \
	X(718, CUDA_ERROR_INVALID_PC, "a GPU kernel ran outside of its code")                      \
	X(719, CUDA_ERROR_LAUNCH_FAILED, "the VF was reset: a GPU kernel faulted or did not end")  \
	X(720, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the GPU does not run so many blocks")     \
	X(800, CUDA_ERROR_NOT_PERMITTED, "not permitted")                                          \
	X(801, CUDA_ERROR_NOT_SUPPORTED, "this library does not carry this call")                  \
	X(802, CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready yet")                         \
	X(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the driver's parts have different versions")    \
	X(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "the device does not run newer CUDA")    \
	X(805, CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS is not there")                               \
	X(806, CUDA_ERROR_MPS_RPC_FAILURE, "MPS does not answer")                                  \
	X(807, CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS is not ready yet")                            \
	X(808, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS has too many clients")                     \
	X(809, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS has too many connections")             \
	X(810, CUDA_ERROR_MPS_CLIENT_TERMINATED, "MPS has ended this client")                      \
	X(811, CUDA_ERROR_CDP_NOT_SUPPORTED, "GPU kernels cannot launch others")                   \
	X(812, CUDA_ERROR_CDP_VERSION_MISMATCH,                                                    \
	  "GPU kernels that launch others were made for another version")                          \
	X(900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not while the stream captures")             \
	X(901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an error has ended the capture")            \
	X(902, CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one")                   \
	X(903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "another stream began this capture")           \
	X(904, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream has not joined the capture again")    \
	X(905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "two captures may not depend on each other")   \
	X(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream cannot capture")            \
	X(907, CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")              \
	X(908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began this capture")        \
	X(909, CUDA_ERROR_TIMEOUT, "it took too long")                                             \
	X(910, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph has another shape")                \
	X(911, CUDA_ERROR_EXTERNAL_DEVICE, "another device has failed")                            \
	X(912, CUDA_ERROR_INVALID_CLUSTER_SIZE, "no such cluster can run")                         \
	X(913, CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded")                       \
	X(914, CUDA_ERROR_INVALID_RESOURCE_TYPE, "the resource is of another type")                \
	X(915, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resource does not fit")             \
	X(999, CUDA_ERROR_UNKNOWN, "unknown error")

enum {
#define CUDA_CODE(code, name, text) name = code,
	CUDA_ERRORS(CUDA_CODE)
#undef CUDA_CODE
};
