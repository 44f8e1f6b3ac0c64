/* SPDX-License-Identifier: MIT */
/* How the GPU kernels divide their work; kernels.cl and piece.c must agree on it. */
#pragma once

#define THREADS 256u   /* threads of a block, except in GPU kernels that use one thread */
#define ELEMENTS 4096u /* elements of an array that a block processes */
