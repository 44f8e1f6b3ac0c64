/* SPDX-License-Identifier: MIT */
/* Floats as whole numbers and exponents: exact, and rounded once. */
#include <math.h>
#include <stdlib.h>

#include "ptx_model.h"

#define TOP 122 /* the highest bit of a number that is about to be added to another one */

struct shape {
	int fraction, least; /* bits behind the point; the least exponent of a normal number */
	uint64_t nan;
};

static struct shape shape_of(const struct model_type *type)
{
	if (type->kind == 'h')
		return (struct shape){7, -126, 0x7fff};
	if (type->kind == 't')
		return (struct shape){10, -126, 0x3ffff};
	if (type->bits == 8)
		return type->kind == 'q' ? (struct shape){3, -6, 0x7f}
					 : (struct shape){2, -14, 0x7f};
	if (type->bits == 16)
		return (struct shape){10, -14, 0x7fff};
	if (type->bits == 32)
		return (struct shape){23, -126, 0x7fffffff};
	return (struct shape){52, -1022, 0x7ff8000000000000};
}

static int highest(unsigned __int128 v)
{
	int n = -1;

	for (; v; v >>= 1)
		n++;
	return n;
}

/* Brings the highest bit of X to bit AT. What falls off is remembered. */
static struct model_number placed(struct model_number x, int at)
{
	if (x.whole == 0)
		return x;
	for (; highest(x.whole) < at; x.exponent--)
		x.whole <<= 1;
	for (; highest(x.whole) > at; x.exponent++) {
		x.inexact |= x.whole & 1;
		x.whole >>= 1;
	}
	return x;
}

struct model_number model_decode(const struct model_type *type, uint64_t v)
{
	const struct shape s = shape_of(type);
	const uint64_t part = v & ((UINT64_C(1) << s.fraction) - 1);
	const uint64_t all = (UINT64_C(1) << (type->bits - 1 - (uint32_t)s.fraction)) - 1;
	const uint64_t exponent = v >> s.fraction & all;
	struct model_number x = {.negative = v >> (type->bits - 1) & 1};

	if (exponent == all && (type->kind != 'q' || part == 7)) {
		x.kind = part ? NONE : INFINITE;
	} else if (exponent == 0) {
		x.whole = part;
		x.exponent = s.least - s.fraction;
	} else {
		x.whole = part | UINT64_C(1) << s.fraction;
		x.exponent = (int)exponent - 1 + s.least - s.fraction;
	}
	return x;
}

/* Whether a number goes up to the next one in size: half or more of its last place was cut off. */
static bool goes_up(const struct model_number *x, bool half, bool rest, bool odd, char mode)
{
	if (mode == 'n')
		return half && (rest || odd);
	if (mode == 'a')
		return half;
	if (mode == 'z' || (!half && !rest))
		return false;
	return (mode == 'm') == x->negative;
}

uint64_t model_encode(const struct model_type *type, struct model_number x, char mode)
{
	const struct shape s = shape_of(type);
	const uint64_t sign = (uint64_t)x.negative << (type->bits - 1);
	const uint64_t infinity = ((UINT64_C(1) << (type->bits - 1 - (uint32_t)s.fraction)) - 1)
				  << s.fraction;
	/* of 8 bits: what is too large becomes the largest number */
	const uint64_t top = type->kind == 'q' ? 0x7e : 0x7b;
	bool half = false, rest;
	uint64_t v;

	if (x.kind == NONE)
		return s.nan;
	if (x.kind == INFINITE)
		return sign | (type->bits == 8 ? top : infinity);
	if (x.whole == 0 && !x.inexact)
		return sign;
	rest = x.inexact;
	for (; highest(x.whole) < s.fraction && x.exponent > s.least - s.fraction; x.exponent--)
		x.whole <<= 1;
	for (; highest(x.whole) > s.fraction || x.exponent < s.least - s.fraction; x.exponent++) {
		rest |= half;
		half = x.whole & 1;
		x.whole >>= 1;
	}
	x.whole += goes_up(&x, half, rest, x.whole & 1, mode);
	v = (uint64_t)x.whole; /* a carry out of the fraction counts in the exponent */
	if (v >> s.fraction)
		v += (uint64_t)(x.exponent - s.least + s.fraction) << s.fraction;
	if (type->bits == 8)
		return sign | (v < top ? v : top);
	if (v < infinity)
		return sign | v;
	if (mode == 'n' || mode == 'a' || (mode == 'm' && x.negative) ||
	    (mode == 'p' && !x.negative))
		return sign | infinity;
	return sign | (infinity - 1);
}

struct model_number model_sum(struct model_number a, struct model_number b, char mode)
{
	struct model_number swap;

	if (a.kind == NONE || b.kind == NONE ||
	    (a.kind == INFINITE && b.kind == INFINITE && a.negative != b.negative))
		return (struct model_number){.kind = NONE};
	if (a.kind == INFINITE || b.kind == INFINITE)
		return a.kind == INFINITE ? a : b;
	if (a.whole == 0 && b.whole == 0) {
		a.negative = a.negative == b.negative ? a.negative : mode == 'm';
		return a;
	}
	if (a.whole == 0 || b.whole == 0)
		return a.whole == 0 ? b : a;
	a = placed(a, TOP);
	b = placed(b, TOP);
	if (a.exponent < b.exponent || (a.exponent == b.exponent && a.whole < b.whole)) {
		swap = a;
		a = b;
		b = swap;
	}
	for (; b.exponent < a.exponent; b.exponent++) {
		b.inexact |= b.whole & 1;
		b.whole >>= 1;
	}
	a.inexact |= b.inexact;
	if (a.negative == b.negative) {
		a.whole += b.whole;
	} else {
		a.whole -= b.whole + b.inexact; /* there is a little less than what is left */
		if (a.whole == 0 && !a.inexact)
			a.negative = mode == 'm';
	}
	return a;
}

struct model_number model_product(struct model_number a, struct model_number b)
{
	const bool negative = a.negative != b.negative;

	if (a.kind == NONE || b.kind == NONE ||
	    (a.kind == INFINITE && b.kind == FINITE && b.whole == 0) ||
	    (b.kind == INFINITE && a.kind == FINITE && a.whole == 0))
		return (struct model_number){.kind = NONE};
	if (a.kind == INFINITE || b.kind == INFINITE)
		return (struct model_number){.kind = INFINITE, .negative = negative};
	a.whole *= b.whole; /* 53 bits each */
	a.exponent += b.exponent;
	a.negative = negative;
	return a;
}

struct model_number model_quotient(struct model_number a, struct model_number b)
{
	struct model_number q = {.negative = a.negative != b.negative};

	if (a.kind == NONE || b.kind == NONE || (a.kind == INFINITE && b.kind == INFINITE) ||
	    (a.kind == FINITE && b.kind == FINITE && a.whole == 0 && b.whole == 0)) {
		q.kind = NONE;
	} else if (a.kind == INFINITE || (b.kind == FINITE && b.whole == 0)) {
		q.kind = INFINITE;
	} else if (b.kind == FINITE && a.whole != 0) {
		a = placed(a, TOP);
		q.whole = a.whole / b.whole;
		q.inexact = a.whole % b.whole;
		q.exponent = a.exponent - b.exponent;
	}
	return q;
}

struct model_number model_root(struct model_number a)
{
	unsigned __int128 left;
	int bit;

	if (a.kind == NONE || (a.negative && (a.kind == INFINITE || a.whole != 0)))
		return (struct model_number){.kind = NONE};
	if (a.kind == INFINITE || a.whole == 0)
		return a;
	a = placed(a, TOP);
	if (a.exponent & 1) {
		a.whole <<= 1;
		a.exponent--;
	}
	left = a.whole;
	a.whole = 0;
	for (bit = 62; bit >= 0; bit--) {
		const unsigned __int128 with = a.whole | (unsigned __int128)1 << bit;

		if (with * with <= left)
			a.whole = with;
	}
	a.inexact = a.whole * a.whole != left;
	a.exponent /= 2;
	return a;
}

__int128 model_whole(struct model_number x, char mode, __int128 least, __int128 most)
{
	bool half = false, rest = false;
	__int128 v;

	if (x.kind == NONE)
		return 0;
	if (x.kind == INFINITE)
		return x.negative ? least : most;
	for (; x.exponent < 0; x.exponent++) {
		rest |= half;
		half = x.whole & 1;
		x.whole >>= 1;
	}
	for (; x.exponent > 0; x.exponent--) {
		if (x.whole >> 120)
			return x.negative ? least : most;
		x.whole <<= 1;
	}
	v = (__int128)x.whole + goes_up(&x, half, rest, x.whole & 1, mode);
	v = x.negative ? -v : v;
	return v < least ? least : v > most ? most : v;
}

struct model_number model_of_whole(__int128 v)
{
	return (struct model_number){.negative = v < 0,
				     .whole = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v};
}

bool model_is_subnormal(const struct model_type *type, uint64_t v)
{
	const struct shape s = shape_of(type);
	const struct model_number x = model_decode(type, v);

	return x.kind == FINITE && x.whole != 0 && !(x.whole >> s.fraction);
}

bool model_is_nan(const struct model_type *type, uint64_t v)
{
	return model_decode(type, v).kind == NONE;
}

int model_order(struct model_number a, struct model_number b)
{
	struct model_number d;

	if (a.kind == NONE || b.kind == NONE)
		return 2;
	if (a.kind == INFINITE && b.kind == INFINITE)
		return a.negative == b.negative ? 0 : a.negative ? -1 : 1;
	b.negative = !b.negative;
	d = model_sum(a, b, 'n');
	if (d.kind == FINITE && d.whole == 0 && !d.inexact)
		return 0;
	return d.negative ? -1 : 1;
}

long double model_float(const struct model_type *type, uint64_t v)
{
	const struct model_number x = model_decode(type, v);
	long double d = x.kind == NONE	     ? (long double)NAN
			: x.kind == INFINITE ? (long double)INFINITY
					     : ldexpl((long double)x.whole, x.exponent);

	return x.negative ? -d : d;
}
