/* SPDX-License-Identifier: MIT */
#pragma once

#include "cuda_work.h"

/* Executes W, or adds it to the graph that S captures. Everything that W points to is read, and
 * copied for a graph, before this returns. */
CUresult put_work(struct stream *s, const struct work *w);
/* As work_begin(), for a call that no graph can contain: if S captures, the capture becomes
 * invalid. */
CUresult put_begin(CUstream s, struct stream **stream);
