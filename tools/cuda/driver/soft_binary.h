/* SPDX-License-Identifier: MIT */
/* The binaries of the CUDA driver's interface in software. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The binary of PTX text whose arrays outside of functions have GLOBALS bytes; the caller frees it.
 */
uint8_t *soft_cuda_binary(const char *text, uint64_t globals, size_t *size);
/* The text in a binary; NULL: this device does not execute the binary, which may have to be linked.
 */
const char *soft_cuda_text(const void *binary);
/* The text in a binary that is to be linked, and may have been cut: it has N bytes. */
const char *soft_cuda_text_within(const void *binary, size_t n);
