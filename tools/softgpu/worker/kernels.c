/* SPDX-License-Identifier: MIT */
/* The GPU kernels, compiled for the CPU. */
#include "kernels.cl"
