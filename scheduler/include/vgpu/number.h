/* SPDX-License-Identifier: MIT */
/*
 * Parses numbers as people and files write them, the same way in every program. Each function
 * parses all of TEXT or fails; it writes OUT on success only. Any thread.
 */
#pragma once

#include <stdint.h>

/* A decimal number; 0 or -EINVAL. */
int vgpu_parse_int(const char *text, int64_t *out);
/* A decimal number from MIN to MAX; 0, -EINVAL, or -ERANGE outside of the range. */
int vgpu_parse_between(const char *text, int64_t min, int64_t max, int64_t *out);
/* A number without a sign, decimal, or hexadecimal after "0x", up to MAX; 0, -EINVAL or -ERANGE. */
int vgpu_parse_unsigned(const char *text, uint64_t max, uint64_t *out);
/* A decimal number that may have a fraction, from MIN to MAX; 0, -EINVAL or -ERANGE. */
int vgpu_parse_real(const char *text, double min, double max, double *out);
/* Percent, 0 to 100 with at most two decimals, like 12.5, as parts per million; 0 or -EINVAL. */
int vgpu_parse_percent(const char *text, int64_t *ppm);
/* Bytes up to MAX: a decimal number, with "M" or "G" behind it for MiB or GiB; 0, -EINVAL or
 * -ERANGE. */
int vgpu_parse_size(const char *text, uint64_t max, uint64_t *out);
/* The first two characters of TEXT as a hexadecimal byte; 0 or -EINVAL. */
int vgpu_parse_hex_byte(const char *text, uint8_t *out);
