/* SPDX-License-Identifier: MIT */
/* What the PTX ISA says of each instruction that computes. */
#include <math.h>
#include <string.h>

#include "ptx_model.h"

#define MASK(bits) ((bits) >= 64 ? UINT64_MAX : (UINT64_C(1) << (bits)) - 1)

bool model_word(const struct model_op *op, const char *word)
{
	uint32_t k;

	for (k = 1; k < op->n; k++)
		if (strcmp(op->words[k], word) == 0)
			return true;
	return false;
}

static bool is(const struct model_op *op, const char *name)
{
	return strcmp(op->words[0], name) == 0;
}

static bool is_float(const struct model_type *type)
{
	return strchr("fhtqr", type->kind);
}

static char mode_of(const struct model_op *op)
{
	return model_word(op, "rna")  ? 'a'
	       : model_word(op, "rz") ? 'z'
	       : model_word(op, "rm") ? 'm'
	       : model_word(op, "rp") ? 'p'
				      : 'n';
}

static char whole_mode_of(const struct model_op *op)
{
	return model_word(op, "rzi")   ? 'z'
	       : model_word(op, "rmi") ? 'm'
	       : model_word(op, "rpi") ? 'p'
	       : model_word(op, "rni") ? 'n'
				       : 0;
}

static __int128 number(const struct model_type *type, uint64_t v)
{
	v &= MASK(type->bits);
	if (type->kind == 's' && v >> (type->bits - 1))
		return (__int128)v - ((__int128)1 << type->bits);
	return v;
}

static uint64_t flush(const struct model_op *op, const struct model_type *type, uint64_t v)
{
	if (model_word(op, "ftz") && type->kind == 'f' && model_is_subnormal(type, v))
		return v & UINT64_C(1) << (type->bits - 1);
	return v;
}

/* Of numbers of up to 64 bits: the lower 128 bits of the product, and those above the type's. */
static __int128 product(__int128 a, __int128 b)
{
	return (__int128)((unsigned __int128)a * (unsigned __int128)b);
}

static __int128 upper_half(const struct model_type *type, __int128 a, __int128 b)
{
	if (type->kind == 's') /* rounds down, as the upper half does */
		return product(a, b) >> type->bits;
	return (__int128)((unsigned __int128)product(a, b) >> type->bits);
}

static __int128 least_of(const struct model_type *type)
{
	return type->kind == 's' ? -((__int128)1 << (type->bits - 1)) : 0;
}

static __int128 most_of(const struct model_type *type)
{
	return ((__int128)1 << (type->bits - (type->kind == 's'))) - 1;
}

static __int128 bounded(const struct model_type *type, __int128 v)
{
	return v < least_of(type) ? least_of(type) : v > most_of(type) ? most_of(type) : v;
}

/* comparison */

static bool compares(const struct model_op *op, const struct model_type *type, uint64_t x,
		     uint64_t y)
{
	static const struct {
		const char *word;
		bool less, equal, greater, none;
	} all[] = {{"eq", 0, 1, 0, 0},	{"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},
		   {"le", 1, 1, 0, 0},	{"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},
		   {"lo", 1, 0, 0, 0},	{"ls", 1, 1, 0, 0},  {"hi", 0, 0, 1, 0},
		   {"hs", 0, 1, 1, 0},	{"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
		   {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1},
		   {"geu", 0, 1, 1, 1}, {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
	__int128 a, b;
	size_t k;
	int order;

	if (is_float(type)) {
		order = model_order(model_decode(type, flush(op, type, x)),
				    model_decode(type, flush(op, type, y)));
	} else {
		a = number(type, x);
		b = number(type, y);
		order = a < b ? -1 : a > b;
	}
	for (k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		if (strcmp(op->words[1], all[k].word) == 0)
			return order == 2   ? all[k].none
			       : order < 0  ? all[k].less
			       : order == 0 ? all[k].equal
					    : all[k].greater;
	return false;
}

static bool joined(const struct model_op *op, bool x, bool c)
{
	if (model_word(op, "and"))
		return x && c;
	if (model_word(op, "or"))
		return x || c;
	if (model_word(op, "xor"))
		return x != c;
	return x;
}

static void compare(const struct model_op *op, const uint64_t *in, struct model_result *r)
{
	const struct model_type one = {op->last.kind, op->last.bits, 1};
	const bool c = in[2] & 1, x = compares(op, &one, in[0], in[1]);
	const uint64_t yes = op->first.kind == 'h'   ? 0x3f80
			     : op->first.kind != 'f' ? MASK(op->first.bits)
			     : op->first.bits == 16  ? 0x3c00
						     : 0x3f800000;

	if (is(op, "set")) {
		r->value = joined(op, x, c) ? yes : 0;
		if (op->last.lanes == 2 &&
		    joined(op, compares(op, &one, in[0] >> 16, in[1] >> 16), c))
			r->value |= yes << 16;
		return;
	}
	r->value = joined(op, x, c);
	r->has_other = true;
	r->other =
		joined(op, op->last.lanes == 2 ? compares(op, &one, in[0] >> 16, in[1] >> 16) : !x,
		       c);
}

/* integers and bits */

static uint64_t byte_of(uint64_t v, uint64_t k)
{
	return v >> 8 * k & 255;
}

static uint64_t permuted(const struct model_op *op, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t s = c & 3;
	uint64_t bytes[8], out[4], k;

	for (k = 0; k < 8; k++)
		bytes[k] = k < 4 ? byte_of(a, k) : byte_of(b, k - 4);
	for (k = 0; k < 4; k++) {
		const uint64_t nibble = c >> 4 * k & 15;

		if (model_word(op, "f4e"))
			out[k] = bytes[s + k];
		else if (model_word(op, "b4e"))
			out[k] = bytes[(s + 8 - k) % 8];
		else if (model_word(op, "rc8"))
			out[k] = bytes[s];
		else if (model_word(op, "ecl"))
			out[k] = bytes[k > s ? k : s];
		else if (model_word(op, "ecr"))
			out[k] = bytes[k < s ? k : s];
		else if (model_word(op, "rc16"))
			out[k] = bytes[(s & 1) * 2 + (k & 1)];
		else
			out[k] = nibble & 8 ? (bytes[nibble & 7] >> 7) * 255 : bytes[nibble];
	}
	return out[0] | out[1] << 8 | out[2] << 16 | out[3] << 24;
}

/* The ISA's own description, a bit at a time. */
static uint64_t field(const struct model_type *type, uint64_t a, uint64_t at, uint64_t n)
{
	const uint64_t bits = type->bits;
	uint64_t out = 0, sign = 0, k;

	at &= 255;
	n &= 255;
	if (type->kind == 's' && n > 0)
		sign = a >> (at + n - 1 < bits - 1 ? at + n - 1 : bits - 1) & 1;
	for (k = 0; k < bits; k++)
		out |= (k < n && at + k < bits ? a >> (at + k) & 1 : sign) << k;
	return out;
}

static uint64_t put(const struct model_type *type, uint64_t a, uint64_t b, uint64_t at, uint64_t n)
{
	uint64_t k;

	for (k = 0; k < (n & 255) && (at & 255) + k < type->bits; k++) {
		b &= ~(UINT64_C(1) << ((at & 255) + k));
		b |= (a >> k & 1) << ((at & 255) + k);
	}
	return b;
}

static uint64_t find_nth(uint64_t mask, uint64_t base, int32_t n)
{
	int64_t at = (int64_t)base, step = n > 0 ? 1 : -1, count = n > 0 ? n - 1 : -(int64_t)n - 1;

	if (n == 0)
		return mask >> base & 1 ? base : UINT32_MAX;
	for (; at >= 0 && at < 32; at += step)
		if (mask >> at & 1 && count-- == 0)
			return (uint64_t)at;
	return UINT32_MAX;
}

static uint64_t bit_mask(const struct model_op *op, uint64_t a, uint64_t b)
{
	const bool clamps = model_word(op, "clamp");
	uint64_t out = 0, k, end;

	a = clamps ? a & UINT32_MAX : a & 31;
	b = clamps ? b & UINT32_MAX : b & 31;
	end = a + b;
	for (k = 0; k < 32; k++)
		out |= (uint64_t)(k >= a && k < end) << k;
	return out;
}

static uint64_t sign_extended(const struct model_op *op, uint64_t a, uint64_t b)
{
	const bool too_large = model_word(op, "clamp") && (b & UINT32_MAX) >= 32;
	const uint64_t n = too_large ? 32 : b & 31;
	uint64_t out = 0, k;

	for (k = 0; k < 32; k++) {
		if (k < n)
			out |= (a >> k & 1) << k;
		else if (n > 0 && op->last.kind == 's')
			out |= (a >> (n - 1) & 1) << k;
	}
	return out;
}

static uint64_t dot(const struct model_op *op, const uint64_t *in)
{
	const bool four = is(op, "dp4a");
	const struct model_type a = {op->first.kind, four ? 8 : 16, 1}, b = {op->last.kind, 8, 1};
	__int128 sum = (__int128)in[2];
	uint64_t k;

	for (k = 0; k < (four ? 4 : 2); k++)
		sum += number(&a, in[0] >> k * a.bits) *
		       number(&b, in[1] >> 8 * (k + (model_word(op, "hi") ? 2 : 0)));
	return (uint64_t)sum;
}

static uint64_t table(uint64_t a, uint64_t b, uint64_t c, uint64_t rows)
{
	uint64_t out = 0, k;

	for (k = 0; k < 32; k++)
		out |= (rows >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k;
	return out;
}

static uint64_t funnel(const struct model_op *op, const uint64_t *in)
{
	uint64_t n = in[2] & UINT32_MAX, k, out = 0, from;

	n = model_word(op, "clamp") ? (n > 32 ? 32 : n) : n % 32;
	for (k = 0; k < 32; k++) { /* bit K of the result, among the 64 of b:a */
		from = model_word(op, "l") ? 32 + k - n : k + n;
		out |= (from < 32 ? in[0] >> from & 1 : in[1] >> (from - 32) & 1) << k;
	}
	return out;
}

static uint64_t shift(const struct model_op *op, uint64_t a, uint64_t n)
{
	const uint64_t bits = op->last.bits, sign = op->last.kind == 's' ? a >> (bits - 1) & 1 : 0;
	uint64_t out = 0, k;

	n &= UINT32_MAX;
	for (k = 0; k < bits; k++) {
		if (is(op, "shl"))
			out |= (k >= n ? a >> (k - n) & 1 : 0) << k;
		else
			out |= (k + n < bits ? a >> (k + n) & 1 : sign) << k;
	}
	return out;
}

static uint64_t top_bit(const struct model_op *op, uint64_t a)
{
	const uint32_t bits = op->last.bits;
	const uint64_t as = op->last.kind == 's' ? a >> (bits - 1) & 1 : 0;
	uint32_t k;

	for (k = bits; k-- > 0;)
		if ((a >> k & 1) != as)
			return model_word(op, "shiftamt") ? bits - 1 - k : k;
	return UINT32_MAX;
}

static uint64_t with_carry(const struct model_op *op, const uint64_t *in, bool carry,
			   struct model_result *r)
{
	const uint64_t mask = MASK(op->last.bits);
	const bool takes = op->words[0][strlen(op->words[0]) - 1] == 'c';
	unsigned __int128 a = in[0] & mask, b = in[1] & mask, all;
	const __int128 x = number(&op->last, in[0]), y = number(&op->last, in[1]);

	r->has_other = true;
	r->other = carry;
	if (op->words[0][0] == 'm') {
		a = (uint64_t)(model_word(op, "hi") ? upper_half(&op->last, x, y) : product(x, y)) &
		    mask;
		b = in[2] & mask;
	}
	if (op->words[0][0] == 's') {
		if (model_word(op, "cc"))
			r->other = a < b + (takes && carry);
		return (uint64_t)(a - b - (takes && carry));
	}
	all = a + b + (takes && carry);
	if (model_word(op, "cc"))
		r->other = all > mask;
	return (uint64_t)all;
}

static uint64_t part_24(const struct model_op *op, __int128 v)
{
	return (uint64_t)(model_word(op, "hi") ? v >> 16 : v) & UINT32_MAX;
}

static uint64_t whole(const struct model_op *op, const uint64_t *in, struct model_result *r)
{
	const struct model_type *t = &op->last, t24 = {t->kind, 24, 1};
	const __int128 a = number(t, in[0]), b = number(t, in[1]), c = number(t, in[2]);
	const __int128 high = upper_half(t, a, b);
	const bool sat = model_word(op, "sat");
	uint64_t n = 0, k;

	if (is(op, "add"))
		return (uint64_t)(sat ? bounded(t, a + b) : a + b);
	if (is(op, "sub"))
		return (uint64_t)(sat ? bounded(t, a - b) : a - b);
	if (is(op, "mul"))
		return (uint64_t)(model_word(op, "hi") ? high : product(a, b));
	if (is(op, "mad") && model_word(op, "wide"))
		return (uint64_t)product(a, b) + in[2];
	if (is(op, "mad"))
		return (uint64_t)(sat ? bounded(t, high + c)
				      : (model_word(op, "hi") ? high : product(a, b)) + c);
	if (is(op, "mul24"))
		return part_24(op, number(&t24, in[0]) * number(&t24, in[1]));
	if (is(op, "mad24")) {
		const uint64_t p = part_24(op, number(&t24, in[0]) * number(&t24, in[1]));

		return (uint64_t)(sat ? bounded(t, number(t, p) + c) : number(t, p) + c);
	}
	if (is(op, "sad"))
		return (uint64_t)((a < b ? b - a : a - b) + c);
	if (is(op, "div") || is(op, "rem")) {
		r->known = b != 0;
		return b == 0 ? 0 : (uint64_t)(is(op, "div") ? a / b : a % b);
	}
	if (is(op, "abs"))
		return (uint64_t)(a < 0 ? -a : a);
	if (is(op, "neg"))
		return (uint64_t)-a;
	if (is(op, "min") || is(op, "max")) {
		const __int128 v = (a < b) == is(op, "min") ? a : b;

		return (uint64_t)(model_word(op, "relu") && v < 0 ? 0 : v);
	}
	for (k = 0; k < t->bits; k++)
		n += in[0] >> k & 1;
	if (is(op, "popc"))
		return n;
	if (is(op, "clz")) {
		for (k = 0; k < t->bits && !(in[0] >> (t->bits - 1 - k) & 1); k++)
			;
		return k;
	}
	for (n = 0, k = 0; is(op, "brev") && k < t->bits; k++)
		n |= (in[0] >> k & 1) << (t->bits - 1 - k);
	return n;
}

static uint64_t bits(const struct model_op *op, const uint64_t *in, struct model_result *r)
{
	if (is(op, "bfind"))
		return top_bit(op, in[0]);
	if (is(op, "fns")) {
		r->known = (uint32_t)in[1] < 32;
		return r->known ? find_nth(in[0] & UINT32_MAX, (uint32_t)in[1], (int32_t)in[2]) : 0;
	}
	if (is(op, "bfe"))
		return field(&op->last, in[0], in[1], in[2]);
	if (is(op, "bfi"))
		return put(&op->last, in[0], in[1], in[2], in[3]);
	if (is(op, "bmsk"))
		return bit_mask(op, in[0], in[1]);
	if (is(op, "szext"))
		return sign_extended(op, in[0], in[1]);
	if (is(op, "dp4a") || is(op, "dp2a"))
		return dot(op, in);
	if (is(op, "and"))
		return in[0] & in[1];
	if (is(op, "or"))
		return in[0] | in[1];
	if (is(op, "xor"))
		return in[0] ^ in[1];
	if (is(op, "not"))
		return ~in[0];
	if (is(op, "cnot"))
		return (in[0] & MASK(op->last.bits)) == 0;
	if (is(op, "lop3"))
		return table(in[0], in[1], in[2], in[3]);
	if (is(op, "shf"))
		return funnel(op, in);
	if (is(op, "shl") || is(op, "shr"))
		return shift(op, in[0], in[1]);
	if (is(op, "prmt"))
		return permuted(op, in[0], in[1], in[2]);
	if (is(op, "selp"))
		return in[2] & 1 ? in[0] : in[1];
	if (is(op, "slct") && op->last.kind == 's')
		return (int32_t)in[2] >= 0 ? in[0] : in[1];
	if (is(op, "slct")) {
		const int o = model_order(model_decode(&op->last,
						       flush(op, &op->last, in[2] & UINT32_MAX)),
					  (struct model_number){.whole = 0});

		return o == 0 || o == 1 ? in[0] : in[1];
	}
	if (is(op, "mov"))
		return in[0];
	return whole(op, in, r);
}

/* conversion */

static struct model_number saturated(struct model_number x)
{
	if (x.kind == NONE || x.negative)
		return (struct model_number){.whole = 0};
	return model_order(x, model_of_whole(1)) > 0 ? model_of_whole(1) : x;
}

static uint64_t convert(const struct model_op *op, const struct model_type *to,
			const struct model_type *from, uint64_t v)
{
	const bool flushes = model_word(op, "ftz");
	const char whole_mode = whole_mode_of(op);
	struct model_number x;
	uint64_t out;

	if (is_float(from)) {
		if (flushes && from->bits == 32)
			v = flush(op, from, v & UINT32_MAX);
		x = model_decode(from, v & MASK(from->bits));
	} else {
		x = model_of_whole(number(from, v));
	}
	if (!is_float(to) && is_float(from))
		return (uint64_t)model_whole(x, whole_mode, least_of(to), most_of(to));
	if (!is_float(to))
		return (uint64_t)(model_word(op, "sat") ? bounded(to, number(from, v))
							: number(to, (uint64_t)number(from, v)));
	if (whole_mode && x.kind == FINITE) {
		const bool negative = x.negative;

		if (x.exponent < 0) /* larger ones are whole */
			x = model_of_whole(model_whole(x, whole_mode, -((__int128)1 << 100),
						       (__int128)1 << 100));
		x.negative = negative;
	}
	if (model_word(op, "sat"))
		x = saturated(x);
	if (model_word(op, "relu") && x.kind != NONE && x.negative)
		x = (struct model_number){.whole = 0};
	out = model_encode(to, x, mode_of(op));
	return flushes && to->bits == 32 ? flush(op, to, out) : out;
}

/* floats */

static uint64_t pick(const struct model_op *op, const struct model_type *t, uint64_t a, uint64_t b)
{
	const uint64_t sign = UINT64_C(1) << (t->bits - 1);
	const bool wants_min = is(op, "min"), signs = model_word(op, "xorsign");
	const uint64_t x = signs ? a & ~sign : a, y = signs ? b & ~sign : b;
	const bool none_a = model_is_nan(t, a), none_b = model_is_nan(t, b);
	int order = model_order(model_decode(t, x), model_decode(t, y));
	uint64_t v;

	if ((none_a && none_b) || (model_word(op, "NaN") && (none_a || none_b)))
		return model_encode(t, (struct model_number){.kind = NONE}, 'n');
	if (order == 0) /* zeros: the one with the sign is less */
		order = (x & sign) == (y & sign) ? 0 : x & sign ? -1 : 1;
	v = none_a ? y : none_b ? x : (order <= 0) == wants_min ? x : y;
	return signs ? (v & ~sign) | ((a ^ b) & sign) : v;
}

static void approximate(struct model_result *r, long double near, long double relative,
			long double absolute)
{
	r->approximate = true;
	r->near = near;
	r->bound = fabsl(near) * relative + absolute;
}

/* The bounds of the ISA. One more step of the result's type is allowed where it counts steps. */
static bool approximates(const struct model_op *op, const struct model_type *t, const uint64_t *v,
			 struct model_result *r)
{
	const long double a = model_float(t, v[0]), b = model_float(t, v[1]);
	const long double small =
		t->bits == 16 ? t->kind == 'h' ? 0x1p-7L : 1.0717L * 0x1p-10L : 0x1p-22L;

	if (is(op, "rcp") && t->bits == 64)
		approximate(r, 1 / a, 0x1p-19L, 0);
	else if (is(op, "rsqrt") && t->bits == 64 && model_word(op, "ftz"))
		approximate(r, 1 / sqrtl(a), 0x1p-19L, 0);
	else if (is(op, "rcp"))
		approximate(r, 1 / a, 0x1p-23L, 0x1p-149L);
	else if (is(op, "sqrt"))
		approximate(r, sqrtl(a), 0x1p-23L, 0);
	else if (is(op, "rsqrt"))
		approximate(r, 1 / sqrtl(a), t->bits == 64 ? 0x1p-51L : 1.0717L * 0x1p-23L, 0);
	else if (is(op, "sin"))
		approximate(r, sinl(a), 0, 1.4142L * 0x1p-21L);
	else if (is(op, "cos"))
		approximate(r, cosl(a), 0, 1.4142L * 0x1p-21L);
	else if (is(op, "lg2"))
		approximate(r, log2l(a), 0x1p-22L, 0x1p-22L);
	else if (is(op, "ex2"))
		approximate(r, exp2l(a), small, t->bits == 16 ? 0x1p-24L : 0x1p-149L);
	else if (is(op, "tanh"))
		approximate(r, tanhl(a), t->bits == 16 ? 0 : 0x1p-11L,
			    t->bits == 32    ? 0x1p-149L
			    : t->kind == 'h' ? 0x1p-8L
					     : 1.009L * 0x1p-11L);
	else if (is(op, "div") && model_word(op, "approx") && fabsl(b) > 0x1p126L && isfinite(b))
		approximate(r,
			    isinf(a) || a != a ? (long double)NAN
					       : copysignl(0, a) * copysignl(1, b),
			    0, 0);
	else
		approximate(r, a / b, 0x1p-22L, 0x1p-148L); /* div: two steps */
	return true;
}

static uint64_t one_float(const struct model_op *op, const struct model_type *t, const uint64_t *in,
			  struct model_result *r)
{
	const uint64_t sign = UINT64_C(1) << (t->bits - 1);
	const char mode = mode_of(op);
	struct model_number x, a, b, c;
	uint64_t v[3], out;
	uint32_t k;

	for (k = 0; k < 3; k++)
		v[k] = flush(op, t, in[k] & MASK(t->bits));
	if (is(op, "neg") || is(op, "abs"))
		return is(op, "neg") ? v[0] ^ sign : v[0] & ~sign;
	if (is(op, "copysign"))
		return (v[1] & ~sign) | (v[0] & sign);
	if (is(op, "min") || is(op, "max"))
		return pick(op, t, v[0], v[1]);
	if (model_word(op, "approx") || model_word(op, "full")) {
		approximates(op, t, v, r);
		return 0;
	}
	a = model_decode(t, v[0]);
	b = model_decode(t, v[1]);
	c = model_decode(t, v[2]);
	if (is(op, "sub"))
		b.negative = !b.negative;
	if (is(op, "add") || is(op, "sub"))
		x = model_sum(a, b, mode);
	else if (is(op, "mul"))
		x = model_product(a, b);
	else if (is(op, "fma") || is(op, "mad"))
		x = model_sum(model_product(a, b), c, mode);
	else if (is(op, "div"))
		x = model_quotient(a, b);
	else if (is(op, "rcp"))
		x = model_quotient(model_of_whole(1), a);
	else
		x = model_root(a);
	out = flush(op, t, model_encode(t, x, mode));
	if (model_word(op, "sat"))
		out = model_encode(t, saturated(model_decode(t, out)), mode);
	if (model_word(op, "relu") && !model_is_nan(t, out) && out & sign)
		out = 0;
	return out;
}

static uint64_t floats(const struct model_op *op, const uint64_t *in, struct model_result *r)
{
	const struct model_type one = {op->last.kind, op->last.bits, 1};
	const uint64_t upper[3] = {in[0] >> 16, in[1] >> 16, in[2] >> 16};
	uint64_t out;

	r->any_nan = one.bits == 64;
	out = one_float(op, &one, in, r);
	if (op->last.lanes == 2 && !r->approximate)
		out |= one_float(op, &one, upper, r) << 16;
	return out;
}

static bool is_class(const struct model_op *op, uint64_t v)
{
	const struct model_type *t = &op->last;
	const struct model_number x = model_decode(t, v & MASK(t->bits));

	if (model_word(op, "finite"))
		return x.kind == FINITE;
	if (model_word(op, "infinite"))
		return x.kind == INFINITE;
	if (model_word(op, "number"))
		return x.kind != NONE;
	if (model_word(op, "notanumber"))
		return x.kind == NONE;
	if (model_word(op, "subnormal"))
		return model_is_subnormal(t, v & MASK(t->bits));
	return x.kind == FINITE && x.whole != 0 && !model_is_subnormal(t, v & MASK(t->bits));
}

/* vadd and the like. Their sources are whole registers here. */
static uint64_t video(const struct model_op *op, const uint64_t *in)
{
	const struct model_type *to = &op->first;
	const __int128 a = number(&op->second, in[0]), b = number(&op->last, in[1]);
	__int128 d = is(op, "vadd")		   ? a + b
		     : is(op, "vsub")		   ? a - b
		     : is(op, "vabsdiff")	   ? (a > b ? a - b : b - a)
		     : (a < b) == (is(op, "vmin")) ? a
						   : b;
	const __int128 c = number(to, in[2]);

	d = number(to, (uint64_t)(model_word(op, "sat") ? bounded(to, d) : d));
	if (model_word(op, "add"))
		d += c;
	if (model_word(op, "min"))
		d = d < c ? d : c;
	if (model_word(op, "max"))
		d = d < c ? c : d;
	return (uint64_t)d;
}

bool model_has(const struct model_op *op)
{
	static const char names[] =
		" add addc sub subc mul mad madc mul24 mad24 sad div rem abs neg min max popc clz "
		"bfind fns brev bfe bfi bmsk szext dp4a dp2a testp copysign fma rcp sqrt rsqrt sin "
		"cos lg2 ex2 tanh set setp selp slct and or xor not cnot lop3 shf shl shr prmt mov "
		"cvt vadd vsub vabsdiff vmin vmax ";
	char name[40] = " ";

	strcat(strcat(name, op->words[0]), " ");
	return strstr(names, name) && !model_word(op, "v2") && !model_word(op, "v4");
}

struct model_result model(const struct model_op *op, const uint64_t in[4], bool carry)
{
	static const char carries[] = " addc subc madc ";
	struct model_result r = {.known = true};
	char name[40] = " ";

	strcat(strcat(name, op->words[0]), " ");
	if (is(op, "set") || is(op, "setp")) {
		compare(op, in, &r);
	} else if (is(op, "cvt") && op->first.lanes == 2) {
		const struct model_type to = {op->first.kind, op->first.bits, 1};
		const struct model_type from = {op->last.kind, op->last.bits, 1};
		const bool two = op->last.lanes == 1;

		r.value = convert(op, &to, &from, two ? in[0] : in[0] >> from.bits) << to.bits |
			  convert(op, &to, &from, two ? in[1] : in[0]);
	} else if (is(op, "cvt") && op->first.kind == 't') {
		const struct model_type short_one = {'t', 19, 1};

		r.value = model_is_nan(&op->last, in[0] & UINT32_MAX)
				  ? 0x7fffffff
				  : convert(op, &short_one, &op->last, in[0]) << 13;
	} else if (is(op, "cvt")) {
		r.any_nan = op->first.bits == 64 && is_float(&op->first);
		r.value = convert(op, &op->first, &op->last, in[0]);
	} else if (is(op, "testp")) {
		r.value = is_class(op, in[0]);
	} else if (op->words[0][0] == 'v') {
		r.value = video(op, in);
	} else if (strstr(carries, name) || model_word(op, "cc")) {
		r.value = with_carry(op, in, carry, &r);
	} else if (!is_float(&op->last) && op->last.lanes == 2) {
		const uint64_t upper[4] = {in[0] >> 16, in[1] >> 16, 0, 0};

		r.value = (bits(op, in, &r) & 0xffff) | (bits(op, upper, &r) & 0xffff) << 16;
	} else if (is(op, "mov") || is(op, "selp") || is(op, "slct") || !is_float(&op->last)) {
		r.value = bits(op, in, &r);
	} else {
		r.value = floats(op, in, &r);
	}
	return r;
}

struct model_result model_atom(const struct model_op *op, uint64_t old, uint64_t a, uint64_t b,
			       bool is_shared)
{
	struct model_result r = {.known = true};
	const struct model_type *t = &op->last;
	struct model_op as = *op;
	const uint64_t in[4] = {old, a, 0, 0}, mask = MASK(t->bits * t->lanes);

	if (model_word(op, "exch")) {
		r.value = a;
	} else if (model_word(op, "cas")) {
		r.value = (old & mask) == (a & mask) ? b : old;
	} else if (model_word(op, "inc")) {
		r.value = (uint32_t)old >= (uint32_t)a ? 0 : old + 1;
	} else if (model_word(op, "dec")) {
		r.value = (uint32_t)old == 0 || (uint32_t)old > (uint32_t)a ? a : old - 1;
	} else {
		const char *const names[] = {"add", "min", "max", "and", "or", "xor"};
		uint32_t k;

		for (k = 0; k < 6; k++)
			if (model_word(op, names[k]))
				strcpy(as.words[0], names[k]);
		as.n = 1;
		if (t->kind == 'f' && t->bits == 32 && !is_shared)
			strcpy(as.words[as.n++], "ftz");
		r = model(&as, in, false);
	}
	return r;
}
