/* SPDX-License-Identifier: MIT */
#pragma once

#include "cuda_work.h"

/* Executes W, or puts it into the graph that S captures. Everything that W points to is read before
 * this returns; what a graph keeps, it copies. */
CUresult put_work(struct stream *s, const struct work *w);
/* Begins a call about the stream S that no graph can carry: as work_begin(), and if S captures,
 * that ends the capture. */
CUresult put_begin(CUstream s, struct stream **stream);
