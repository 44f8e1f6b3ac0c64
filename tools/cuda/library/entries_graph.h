/* SPDX-License-Identifier: MIT */
/* Rows of entries.h: graphs. */
#pragma once

#define CUDA_GRAPH_ENTRIES(X)                                                                      \
	X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, (CUstream h, int wanted))        \
	X(cuStreamEndCapture, "cuStreamEndCapture", 10000, (CUstream h, CUgraph * out))            \
	X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, (CUstream h, int *status))            \
	X(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", 10010,                                 \
	  (CUstream h, int *status, uint64_t *id))                                                 \
	X(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo", 11030,                              \
	  (CUstream h, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **tips,        \
	   size_t *n))                                                                             \
	X(cuStreamGetCaptureInfo_v3, "cuStreamGetCaptureInfo", 12030,                              \
	  (CUstream h, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **tips,        \
	   const struct cuda_edge **data, size_t *n))                                              \
	X(cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", 11030,           \
	  (CUstream h, CUgraphNode * nodes, size_t n, unsigned flags))                             \
	X(cuStreamUpdateCaptureDependencies_v2, "cuStreamUpdateCaptureDependencies", 12030,        \
	  (CUstream h, CUgraphNode * nodes, const struct cuda_edge *data, size_t n,                \
	   unsigned flags))                                                                        \
	X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010,           \
	  (int *wanted))                                                                           \
	X(cuGraphAddKernelNode, "cuGraphAddKernelNode", 10000,                                     \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n,                   \
	   const struct cuda_kernel_node *p))                                                      \
	X(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode", 12000,                                  \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n,                   \
	   const struct cuda_kernel_node_2 *p))                                                    \
	X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", 10000,                                     \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n,                   \
	   const struct cuda_copy_3d *p, CUcontext context))                                       \
	X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000,                                     \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n,                   \
	   const struct cuda_set_node *p, CUcontext context))                                      \
	X(cuGraphAddHostNode, "cuGraphAddHostNode", 10000,                                         \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n,                   \
	   const struct cuda_host_node *p))                                                        \
	X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", 10000,                                       \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n))                  \
	X(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode", 10000,                             \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n, CUgraph child))   \
	X(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode", 11010,                           \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n, CUevent event))   \
	X(cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode", 11010,                               \
	  (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t n, CUevent event))   \
	X(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams", 10000,                         \
	  (CUgraphNode node, struct cuda_kernel_node * p))                                         \
	X(cuGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams", 10000,                         \
	  (CUgraphNode node, const struct cuda_kernel_node *p))                                    \
	X(cuGraphKernelNodeGetParams_v2, "cuGraphKernelNodeGetParams", 12000,                      \
	  (CUgraphNode node, struct cuda_kernel_node_2 * p))                                       \
	X(cuGraphKernelNodeSetParams_v2, "cuGraphKernelNodeSetParams", 12000,                      \
	  (CUgraphNode node, const struct cuda_kernel_node_2 *p))                                  \
	X(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", 10000,                         \
	  (CUgraphNode node, struct cuda_copy_3d * p))                                             \
	X(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams", 10000,                         \
	  (CUgraphNode node, const struct cuda_copy_3d *p))                                        \
	X(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams", 10000,                         \
	  (CUgraphNode node, struct cuda_set_node * p))                                            \
	X(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams", 10000,                         \
	  (CUgraphNode node, const struct cuda_set_node *p))                                       \
	X(cuGraphHostNodeGetParams, "cuGraphHostNodeGetParams", 10000,                             \
	  (CUgraphNode node, struct cuda_host_node * p))                                           \
	X(cuGraphHostNodeSetParams, "cuGraphHostNodeSetParams", 10000,                             \
	  (CUgraphNode node, const struct cuda_host_node *p))                                      \
	X(cuGraphEventRecordNodeGetEvent, "cuGraphEventRecordNodeGetEvent", 11010,                 \
	  (CUgraphNode node, CUevent * event))                                                     \
	X(cuGraphEventRecordNodeSetEvent, "cuGraphEventRecordNodeSetEvent", 11010,                 \
	  (CUgraphNode node, CUevent event))                                                       \
	X(cuGraphEventWaitNodeGetEvent, "cuGraphEventWaitNodeGetEvent", 11010,                     \
	  (CUgraphNode node, CUevent * event))                                                     \
	X(cuGraphEventWaitNodeSetEvent, "cuGraphEventWaitNodeSetEvent", 11010,                     \
	  (CUgraphNode node, CUevent event))                                                       \
	X(cuGraphCreate, "cuGraphCreate", 10000, (CUgraph * out, unsigned flags))                  \
	X(cuGraphDestroy, "cuGraphDestroy", 10000, (CUgraph graph))                                \
	X(cuGraphClone, "cuGraphClone", 10000, (CUgraph * out, CUgraph graph))                     \
	X(cuGraphDestroyNode, "cuGraphDestroyNode", 10000, (CUgraphNode node))                     \
	X(cuGraphNodeGetType, "cuGraphNodeGetType", 10000, (CUgraphNode node, int *type))          \
	X(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", 10000,                   \
	  (CUgraphNode node, CUgraph * out))                                                       \
	X(cuGraphGetNodes, "cuGraphGetNodes", 10000,                                               \
	  (CUgraph graph, CUgraphNode * out, size_t * n))                                          \
	X(cuGraphGetRootNodes, "cuGraphGetRootNodes", 10000,                                       \
	  (CUgraph graph, CUgraphNode * out, size_t * n))                                          \
	X(cuGraphGetEdges, "cuGraphGetEdges", 10000,                                               \
	  (CUgraph graph, CUgraphNode * from, CUgraphNode * to, size_t * n))                       \
	X(cuGraphGetEdges_v2, "cuGraphGetEdges", 12030,                                            \
	  (CUgraph graph, CUgraphNode * from, CUgraphNode * to, struct cuda_edge * data,           \
	   size_t * n))                                                                            \
	X(cuGraphNodeGetDependencies, "cuGraphNodeGetDependencies", 10000,                         \
	  (CUgraphNode node, CUgraphNode * out, size_t * n))                                       \
	X(cuGraphNodeGetDependencies_v2, "cuGraphNodeGetDependencies", 12030,                      \
	  (CUgraphNode node, CUgraphNode * out, struct cuda_edge * data, size_t * n))              \
	X(cuGraphNodeGetDependentNodes, "cuGraphNodeGetDependentNodes", 10000,                     \
	  (CUgraphNode node, CUgraphNode * out, size_t * n))                                       \
	X(cuGraphNodeGetDependentNodes_v2, "cuGraphNodeGetDependentNodes", 12030,                  \
	  (CUgraphNode node, CUgraphNode * out, struct cuda_edge * data, size_t * n))              \
	X(cuGraphAddDependencies, "cuGraphAddDependencies", 10000,                                 \
	  (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n))               \
	X(cuGraphAddDependencies_v2, "cuGraphAddDependencies", 12030,                              \
	  (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,                          \
	   const struct cuda_edge *data, size_t n))                                                \
	X(cuGraphRemoveDependencies, "cuGraphRemoveDependencies", 10000,                           \
	  (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n))               \
	X(cuGraphRemoveDependencies_v2, "cuGraphRemoveDependencies", 12030,                        \
	  (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,                          \
	   const struct cuda_edge *data, size_t n))                                                \
	X(cuGraphNodeFindInClone, "cuGraphNodeFindInClone", 10000,                                 \
	  (CUgraphNode * out, CUgraphNode original, CUgraph clone))                                \
	X(cuGraphDebugDotPrint, "cuGraphDebugDotPrint", 11030,                                     \
	  (CUgraph graph, const char *path, unsigned flags))                                       \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040,                       \
	  (CUgraphExec * out, CUgraph graph, uint64_t flags))                                      \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiate", 12000,                                \
	  (CUgraphExec * out, CUgraph graph, uint64_t flags))                                      \
	X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000,                                      \
	  (CUgraphExec * out, CUgraph graph, CUgraphNode * wrong, char *log, size_t log_size))     \
	X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000,                     \
	  (CUgraphExec * out, CUgraph graph, struct cuda_instantiate * p))                         \
	X(cuGraphLaunch, "cuGraphLaunch", 10000, (CUgraphExec h, CUstream s))                      \
	X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, (CUgraphExec h))                        \
	X(cuGraphUpload, "cuGraphUpload", 11010, (CUgraphExec h, CUstream s))                      \
	X(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", 10010,                 \
	  (CUgraphExec h, CUgraphNode node, const struct cuda_kernel_node *p))                     \
	X(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams", 12000,              \
	  (CUgraphExec h, CUgraphNode node, const struct cuda_kernel_node_2 *p))                   \
	X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", 10020,                 \
	  (CUgraphExec h, CUgraphNode node, const struct cuda_copy_3d *p, CUcontext context))      \
	X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", 10020,                 \
	  (CUgraphExec h, CUgraphNode node, const struct cuda_set_node *p, CUcontext context))     \
	X(cuGraphExecHostNodeSetParams, "cuGraphExecHostNodeSetParams", 10020,                     \
	  (CUgraphExec h, CUgraphNode node, const struct cuda_host_node *p))                       \
	X(cuGraphExecEventRecordNodeSetEvent, "cuGraphExecEventRecordNodeSetEvent", 11010,         \
	  (CUgraphExec h, CUgraphNode node, CUevent event))                                        \
	X(cuGraphExecEventWaitNodeSetEvent, "cuGraphExecEventWaitNodeSetEvent", 11010,             \
	  (CUgraphExec h, CUgraphNode node, CUevent event))                                        \
	X(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", 11010,         \
	  (CUgraphExec h, CUgraphNode node, CUgraph child))                                        \
	X(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled", 11060,                                   \
	  (CUgraphExec h, CUgraphNode node, unsigned enabled))                                     \
	X(cuGraphNodeGetEnabled, "cuGraphNodeGetEnabled", 11060,                                   \
	  (CUgraphExec h, CUgraphNode node, unsigned *enabled))                                    \
	X(cuGraphExecGetFlags, "cuGraphExecGetFlags", 12000, (CUgraphExec h, uint64_t * flags))    \
	X(cuUserObjectCreate, "cuUserObjectCreate", 11030,                                         \
	  (CUuserObject * out, void *data, void (*run)(void *), unsigned count, unsigned flags))   \
	X(cuUserObjectRetain, "cuUserObjectRetain", 11030, (CUuserObject h, unsigned count))       \
	X(cuUserObjectRelease, "cuUserObjectRelease", 11030, (CUuserObject h, unsigned count))     \
	X(cuGraphRetainUserObject, "cuGraphRetainUserObject", 11030,                               \
	  (CUgraph graph, CUuserObject h, unsigned count, unsigned flags))                         \
	X(cuGraphReleaseUserObject, "cuGraphReleaseUserObject", 11030,                             \
	  (CUgraph graph, CUuserObject h, unsigned count))                                         \
	X(cuGraphExecUpdate_v2, "cuGraphExecUpdate", 12000,                                        \
	  (CUgraphExec h, CUgraph graph, struct cuda_update_result * result))
