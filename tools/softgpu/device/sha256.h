/* SPDX-License-Identifier: MIT */
/* SHA-256 by blocks, so that it can be left and resumed between any two. */
#ifndef SOFTGPU_SHA256_H
#define SOFTGPU_SHA256_H

#include <stdint.h>

void sha256_begin(uint32_t state[8]);
void sha256_block(uint32_t state[8], const uint8_t *block);
/* The last blocks: REST bytes (less than 64) of a message of TOTAL bytes, and the padding. */
void sha256_end(uint32_t state[8], const uint8_t *rest, uint64_t total, uint8_t digest[32]);

#endif
