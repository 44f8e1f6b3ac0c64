/* SPDX-License-Identifier: MIT */
/* The kernels, for the CPU. */
#include "kernels.cl"
