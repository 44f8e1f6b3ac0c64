/* SPDX-License-Identifier: MIT */
/* cvt: from one type to another. */
#include <math.h>

#include "ptx_private.h"

static bool is_float(const struct type *type)
{
	return type->kind != 'u' && type->kind != 's' && type->kind != 'b';
}

/* Returns D rounded to an integer; NaN if D is NaN. */
static long double integral(enum how how, long double d)
{
	switch (how) {
	case HOW_RZI:
		return truncl(d);
	case HOW_RMI:
		return floorl(d);
	case HOW_RPI:
		return ceill(d);
	default: /* to the nearest, half to even */
		return rintl(d);
	}
}

/* As above, limited to the type's range. */
static uint64_t to_integer(const struct instruction *i, long double d)
{
	const bool is_signed = i->to.kind == 's';
	const long double most = ldexpl(1, i->to.bits - is_signed);

	if (d != d)
		return 0;
	d = integral(i->how, d);
	if (d >= most)
		return (UINT64_C(1) << (i->to.bits - is_signed - 1)) * 2 - 1;
	if (!is_signed)
		return d <= 0 ? 0 : (uint64_t)d;
	return d <= -most ? UINT64_C(1) << (i->to.bits - 1) : (uint64_t)(int64_t)d;
}

/* Returns V, of the source's type, limited to the range of the result's type. */
static uint64_t saturated(const struct instruction *i, uint64_t v)
{
	const __int128 x = i->type.kind == 's' ? (__int128)(int64_t)v : (__int128)v;
	const __int128 most = i->to.mask >> (i->to.kind == 's');
	const __int128 least = i->to.kind == 's' ? -most - 1 : 0;

	return (uint64_t)(x > most ? most : x < least ? least : x);
}

/* .ftz is about floats of 32 bits only. */
static uint64_t flush(const struct instruction *i, const struct type *type, uint64_t v)
{
	return i->flags & FLAG_FLUSHES && type->bits == 32 ? ptx_flushed(type, v) : v;
}

/* Returns D in the type TO, after .sat and .relu. */
static uint64_t to_float(const struct instruction *i, const struct type *to, long double d)
{
	if (i->flags & FLAG_SATURATES)
		d = d > 0 ? d < 1 ? d : 1 : 0;
	if (i->flags & FLAG_RELU && d <= 0)
		d = 0;
	return flush(i, to, ptx_from_float(to, d, i->rounding));
}

static uint64_t from_float(const struct instruction *i, uint64_t v)
{
	long double d;

	v = flush(i, &i->type, v & i->type.mask);
	d = ptx_to_float(&i->type, v);
	if (!is_float(&i->to))
		return ptx_widen(&i->to, to_integer(i, d)); /* the register may have more bits */
	return to_float(i, &i->to, i->how == HOW_NONE ? d : integral(i->how, d));
}

/* Two floats to two floats; of two sources, the first one goes to the upper half. */
static uint64_t to_pair(const struct instruction *i, const uint64_t *v)
{
	const struct type to = ptx_type_of(i->to.kind, i->to.bits);
	const struct type from = ptx_type_of(i->type.kind, i->type.bits);
	const bool two = i->op == OP_CVT2;

	return to_float(i, &to, ptx_to_float(&from, two ? v[0] : v[0] >> from.bits & from.mask))
		       << to.bits |
	       to_float(i, &to, ptx_to_float(&from, two ? v[1] : v[0] & from.mask));
}

uint64_t ptx_convert(const struct instruction *i, const uint64_t *v)
{
	uint64_t integer;

	if (i->to.lanes == 2)
		return to_pair(i, v);
	if (is_float(&i->type))
		return from_float(i, v[0]);
	integer = ptx_widen(&i->type, v[0]);
	if (is_float(&i->to))
		return to_float(i, &i->to,
				i->type.kind == 's' ? (long double)(int64_t)integer
						    : (long double)integer);
	if (i->flags & FLAG_SATURATES)
		integer = saturated(i, integer);
	return ptx_widen(&i->to, integer);
}
