/* SPDX-License-Identifier: MIT */
/* The binaries of the CUDA driver's interface in software. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Makes the binary of PTX text whose arrays outside of functions have GLOBALS bytes; the caller
 * frees it. */
uint8_t *soft_cuda_binary(const char *text, uint64_t globals, size_t *size);
/* Returns the text in a binary; NULL: this device does not execute the binary, which may have to be
 * linked first. */
const char *soft_cuda_text(const void *binary);
/* Returns the text in a binary of N bytes that is to be linked, and may be truncated. */
const char *soft_cuda_text_within(const void *binary, size_t n);
