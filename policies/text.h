/* SPDX-License-Identifier: MIT */
/* Builds sentences with numbers, for reasons and warnings, because a policy may call nothing, not
 * even libc. */
#pragma once

#include "vgpu/types.h"

struct text {
	uint32_t n;
	char s[240];
};

static inline void text_add(struct text *t, const char *s)
{
	while (*s && t->n < sizeof(t->s) - 1)
		t->s[t->n++] = *s++;
	t->s[t->n] = '\0';
}

static inline void text_number(struct text *t, uint64_t v)
{
	char digits[21];
	uint32_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	text_add(t, digits + at);
}

/* Adds V hundredths, as "12.34". */
static inline void text_hundredths(struct text *t, uint64_t v)
{
	text_number(t, v / 100);
	text_add(t, v % 100 < 10 ? ".0" : ".");
	text_number(t, v % 100);
}

/* Adds PPM, millionths, as percent, with as many decimals as are needed: "12.5 %". */
static inline void text_percent(struct text *t, uint64_t ppm)
{
	uint64_t rest = ppm % 10000, digit = 1000;

	text_number(t, ppm / 10000);
	for (text_add(t, rest ? "." : ""); rest; digit /= 10) {
		text_number(t, rest / digit);
		rest %= digit;
	}
	text_add(t, " %");
}

/* Adds NS as whole microseconds, rounded up. */
static inline void text_us(struct text *t, vgpu_nsec ns)
{
	text_number(t, (ns + VGPU_USEC - 1) / VGPU_USEC);
	text_add(t, " us");
}

/* Adds NS as milliseconds with two decimals, rounded up. */
static inline void text_ms(struct text *t, vgpu_nsec ns)
{
	text_hundredths(t, (ns + 9999) / 10000);
	text_add(t, " ms");
}
