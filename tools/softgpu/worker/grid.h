/* SPDX-License-Identifier: MIT */
/* How kernels.cl divides its work: for the kernels, and for who launches them. */
#ifndef WORKER_GRID_H
#define WORKER_GRID_H

#define THREADS 256u   /* of a block, in each kernel but those that use one */
#define ELEMENTS 4096u /* of a block, where a kernel goes through an array */

#endif
