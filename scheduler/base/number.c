/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/number.h"

int vgpu_parse_int(const char *text, int64_t *out)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno)
		return -EINVAL;
	*out = value;
	return 0;
}

int vgpu_parse_between(const char *text, int64_t min, int64_t max, int64_t *out)
{
	int64_t value;

	if (vgpu_parse_int(text, &value) < 0)
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int vgpu_parse_percent(const char *text, int64_t *ppm)
{
	size_t whole = strspn(text, "0123456789"), part = 0, i;
	int64_t value = 0;

	for (i = 0; i < whole && i < 4; i++)
		value = value * 10 + (text[i] - '0') * 10000;
	if (text[whole] == '.') {
		part = strspn(text + whole + 1, "0123456789");
		value += part > 0 ? (text[whole + 1] - '0') * 1000 : 0;
		value += part > 1 ? (text[whole + 2] - '0') * 100 : 0;
		if (part == 0 || part > 2 || text[whole + 1 + part])
			return -EINVAL;
	} else if (text[whole]) {
		return -EINVAL;
	}
	if (whole == 0 || whole > 3 || value > 1000000)
		return -EINVAL;
	*ppm = value;
	return 0;
}

/* Parses the number at the head of TEXT; *END points behind it. strtoull() would also accept a
 * sign. */
static int take_unsigned(const char *text, int base, uint64_t *out, char **end)
{
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, end, base);
	return errno ? -ERANGE : 0;
}

int vgpu_parse_unsigned(const char *text, uint64_t max, uint64_t *out)
{
	int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	uint64_t value;
	char *end;
	int r = take_unsigned(text, base, &value, &end);

	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	if (value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int vgpu_parse_real(const char *text, double min, double max, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end)
		return -EINVAL;
	if (!(value >= min && value <= max)) /* also rejects NaN */
		return -ERANGE;
	*out = value;
	return 0;
}

int vgpu_parse_size(const char *text, uint64_t max, uint64_t *out)
{
	unsigned shift = 0;
	uint64_t value;
	char *end;
	int r = take_unsigned(text, 10, &value, &end);

	if (r < 0)
		return r;
	if (*end == 'M')
		shift = 20;
	else if (*end == 'G')
		shift = 30;
	if (end[shift > 0])
		return -EINVAL;
	if (value > max >> shift)
		return -ERANGE;
	*out = value << shift;
	return 0;
}

int vgpu_parse_hex_byte(const char *text, uint8_t *out)
{
	char digits[3] = "";

	if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
		return -EINVAL;
	memcpy(digits, text, 2);
	*out = (uint8_t)strtoul(digits, NULL, 16);
	return 0;
}
