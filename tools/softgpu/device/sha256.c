/* SPDX-License-Identifier: MIT */
/* SHA-256, FIPS 180-4. */
#include "sha256.h"
#include "sha256_k.h"

#include <stddef.h>
#include <string.h>

static const uint32_t k[64] = {SHA256_K};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

void sha256_begin(uint32_t state[8])
{
	static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(state, first, sizeof(first));
}

void sha256_block(uint32_t state[8], const uint8_t *block)
{
	uint32_t w[64], s[8], t1, t2;
	unsigned i;

	for (i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, state, sizeof(s));
	for (i = 0; i < 64; i++) {
		t1 = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
		     ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
		t2 = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
		     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256_end(uint32_t state[8], const uint8_t *rest, uint64_t total, uint8_t digest[32])
{
	size_t n = total % 64, i;
	uint8_t block[128] = {0};
	size_t blocks = n < 56 ? 1 : 2;

	memcpy(block, rest, n);
	block[n] = 0x80;
	for (i = 0; i < 8; i++)
		block[64 * blocks - 1 - i] = (uint8_t)(total * 8 >> 8 * i);
	for (i = 0; i < blocks; i++)
		sha256_block(state, block + 64 * i);
	for (i = 0; i < 32; i++)
		digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
