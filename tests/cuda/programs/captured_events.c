/* SPDX-License-Identifier: MIT */
/* Checks of events that captures have to do with. */
#include "check.h"

#define EXTERNAL 1u

/* A wait and a record that become nodes, and are no order of the capture. */
static bool external(void)
{
	static const int wanted[] = {2, 6, 7, 2}; /* a set, a wait, a record, a set */
	CUgraphNode nodes[4];
	CUevent before, in;
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr x;
	uint32_t seen;
	size_t n = 4;
	int type, i;
	CUstream s;

	CHECK(sample_begin());
	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&before, 2));
	OK(cuEventCreate(&in, 0));
	OK(cuMemAlloc_v2(&x, 64));
	/* there is no graph yet */
	CHECK(cuStreamWaitEvent(s, before, EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuEventRecordWithFlags(in, s, EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamBeginCapture_v2(s, 0));
	OK(cuMemsetD32Async(x, 1, 1, s));
	CHECK(cuStreamWaitEvent(s, before, 2) == CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamWaitEvent(s, before, EXTERNAL));
	OK(cuEventRecordWithFlags(in, s, EXTERNAL));
	OK(cuMemsetD32Async(x, 2, 1, s));
	OK(cuEventQuery(in)); /* it was not recorded */
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphGetNodes(graph, nodes, &n));
	CHECK(n == 4);
	for (i = 0; i < 4; i++) {
		OK(cuGraphNodeGetType(nodes[i], &type));
		CHECK(type == wanted[i]);
	}
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuEventRecord(before, NULL));
	OK(cuGraphLaunch(exec, s));
	OK(cuEventSynchronize(in));
	OK(cuMemcpyDtoH_v2(&seen, x, 4));
	CHECK(seen == 2);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* An event that stands for a part of a capture has no time, and nothing to wait for. */
static bool recorded_in_capture(void)
{
	CUevent a, b;
	CUgraph graph;
	CUstream s;
	float ms;

	CHECK(sample_begin());
	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&a, 0));
	OK(cuEventCreate(&b, 0));
	OK(cuEventRecord(a, s));
	OK(cuStreamBeginCapture_v2(s, 0));
	OK(cuEventRecord(b, s));
	CHECK(cuEventQuery(b) == CUDA_ERROR_CAPTURED_EVENT);
	CHECK(cuEventSynchronize(b) == CUDA_ERROR_CAPTURED_EVENT);
	CHECK(cuEventElapsedTime(&ms, a, b) == CUDA_ERROR_CAPTURED_EVENT);
	CHECK(cuEventElapsedTime(&ms, b, a) == CUDA_ERROR_CAPTURED_EVENT);
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuEventQuery(b));
	return sample_end();
}

const struct sample_check captured_events_checks[] = {
	{"events as nodes of a capture", external},
	{"events that were recorded in a capture", recorded_in_capture},
	{NULL, NULL},
};
