/* SPDX-License-Identifier: MIT */
/* SHA-256 block by block, so that it can be stopped and resumed between any two blocks. */
#pragma once

#include <stdint.h>

/* Sets STATE for a new message. */
void sha256_begin(uint32_t state[8]);
/* Adds a block of 64 bytes. */
void sha256_block(uint32_t state[8], const uint8_t *block);
/* Adds REST, the TOTAL % 64 bytes after the last whole block of a message of TOTAL bytes, and the
 * padding. */
void sha256_end(uint32_t state[8], const uint8_t *rest, uint64_t total, uint8_t digest[32]);
