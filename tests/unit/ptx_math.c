/* SPDX-License-Identifier: MIT */
/* What instructions compute. Approximations (ex2, lg2, rsqrt, ...) are the exact result rounded,
 * which is inside of the bounds that the ISA gives for a GPU. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "ptx_private.h"

double ptx_to_float(struct type type, uint64_t v)
{
	uint32_t half = (uint32_t)v;
	double d;
	float f;

	memcpy(&f, &half, sizeof(f));
	memcpy(&d, &v, sizeof(d));
	return type.bits == 32 ? (double)f : d;
}

uint64_t ptx_from_float(struct type type, double d)
{
	float f = (float)d;
	uint32_t half;
	uint64_t v;

	memcpy(&half, &f, sizeof(f));
	memcpy(&v, &d, sizeof(d));
	return type.bits == 32 ? half : v;
}

/* The lesser or the greater; of two zeros, the negative one is less. What is no number loses. */
static double extreme(double a, double b, bool least)
{
	if (a != a)
		return b;
	if (b != b)
		return a;
	if (a == b)
		return (signbit(a) != 0) == least ? a : b;
	return (a < b) == least ? a : b;
}

/* The sum, difference, product, quotient or root of 32-bit floats, computed as doubles and rounded
 * once more, equals the 32-bit result: a double has more than twice a float's bits plus two
 * (Figueroa, 1995). For fma that does not hold. */
static uint64_t float_result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	const struct type type = i->type;
	double a = ptx_to_float(type, v[0]), b = ptx_to_float(type, v[1]);
	double c = ptx_to_float(type, v[2]);

	switch (i->op) {
	case OP_ADD:
		return ptx_from_float(type, a + b);
	case OP_SUB:
		return ptx_from_float(type, a - b);
	case OP_MUL:
		return ptx_from_float(type, a * b);
	case OP_DIV:
		return ptx_from_float(type, a / b);
	case OP_MAD:
	case OP_FMA:
		return ptx_from_float(type, type.bits == 32
						    ? (double)fmaf((float)a, (float)b, (float)c)
						    : fma(a, b, c));
	case OP_NEG:
		return v[0] ^ UINT64_C(1) << (type.bits - 1);
	case OP_ABS:
		return v[0] & ~(UINT64_C(1) << (type.bits - 1));
	case OP_MIN:
	case OP_MAX:
		return ptx_from_float(type, extreme(a, b, i->op == OP_MIN));
	case OP_SQRT:
		return ptx_from_float(type, sqrt(a));
	case OP_RCP:
		return ptx_from_float(type, 1 / a);
	case OP_RSQRT:
		return ptx_from_float(type, 1 / sqrt(a));
	case OP_EX2:
		return ptx_from_float(type, exp2(a));
	case OP_LG2:
		return ptx_from_float(type, log2(a));
	default:
		ptx_stop(p, "not with floats");
	}
}

static bool is_single(struct type type)
{
	return type.kind == 'f' && type.bits == 32;
}

static uint64_t flushed(uint64_t v)
{
	return v & 0x7f800000 ? v : v & 0x80000000;
}

static uint64_t source(const struct instruction *i, uint64_t v)
{
	return i->flushes && is_single(i->type) ? flushed(v) : v;
}

/* Between 0 and 1; what is no number becomes 0. */
static uint64_t saturated(struct type type, uint64_t v)
{
	double d = ptx_to_float(type, v);

	return d > 0 ? d < 1 ? v : ptx_from_float(type, 1) : 0;
}

/* In a direction, rounding twice is rounding once. */
static uint64_t rounded(struct ptx *p, const struct instruction *i, const uint64_t *v,
			uint64_t (*result)(struct ptx *p, const struct instruction *i,
					   const uint64_t *v))
{
	uint64_t sources[3] = {source(i, v[0]), source(i, v[1]), source(i, v[2])}, r;

	fesetround(i->rounding);
	r = result(p, i, sources);
	fesetround(FE_TONEAREST);
	r = i->flushes && is_single(i->to) ? flushed(r) : r;
	return i->saturates ? saturated(i->to, r) : r;
}

static uint64_t shifted(struct type type, enum op op, uint64_t a, uint64_t by)
{
	if (op == OP_SHL)
		return by < type.bits ? a << by : 0;
	if (type.kind == 's')
		return (uint64_t)((int64_t)a >> (by < 63 ? by : 63));
	return by < type.bits ? a >> by : 0;
}

/* N bits from bit BY on, which are extended by zeros or by their sign. */
static uint64_t extracted(struct type type, uint64_t a, uint64_t by, uint64_t n)
{
	const uint64_t bits = shifted(type, OP_SHR, a, by), left = n < 64 ? 64 - n : 0;

	if (n == 0)
		return 0;
	return type.kind == 's' ? (uint64_t)((int64_t)(bits << left) >> left)
				: bits << left >> left;
}

static uint64_t reversed(uint64_t v, uint32_t bits)
{
	uint64_t out = 0;
	uint32_t i;

	for (i = 0; i < bits; i++)
		out |= (v >> i & 1) << (bits - 1 - i);
	return out;
}

static uint64_t leading_zeros(uint64_t v, uint32_t bits)
{
	uint32_t n = 0;

	while (n < bits && !(v >> (bits - 1 - n) & 1))
		n++;
	return n;
}

/* The upper half of a product. */
static uint64_t high_half(struct type type, uint64_t a, uint64_t b)
{
	__int128 product = type.kind == 's' ? (__int128)(int64_t)a * (int64_t)b
					    : (__int128)((unsigned __int128)a * b);

	return (uint64_t)(product >> type.bits);
}

static uint64_t quotient(struct ptx *p, const struct instruction *i, uint64_t a, uint64_t b)
{
	bool rest = i->op == OP_REM;

	if (b == 0)
		ptx_stop(p, "division by 0");
	if (i->type.kind != 's')
		return rest ? a % b : a / b;
	if ((int64_t)b == -1) /* the least number has no negative */
		return rest ? 0 : -a;
	return (uint64_t)(rest ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static bool is_less(struct type type, uint64_t a, uint64_t b)
{
	return type.kind == 's' ? (int64_t)a < (int64_t)b : a < b;
}

/* The lowest N bits of A take the place of those of B that begin at AT. */
static uint64_t inserted(uint64_t a, uint64_t b, uint64_t at, uint64_t n)
{
	const uint64_t field = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;

	return at < 64 ? (b & ~(field << at)) | (a & field) << at : b;
}

uint64_t ptx_result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	uint64_t a = ptx_widen(&i->type, v[0]), b = ptx_widen(&i->type, v[1]);

	if (i->op == OP_SELP)
		return v[2] & 1 ? v[0] : v[1];
	if (i->type.kind == 'f' && i->op != OP_MOV)
		return rounded(p, i, v, float_result);
	switch (i->op) {
	case OP_ADD:
		return a + b;
	case OP_VADD: /* .add: of two, and then of the third */
		return a + b + v[2];
	case OP_SUB:
		return a - b;
	case OP_MUL:
		return i->high ? high_half(i->type, a, b) : a * b;
	case OP_MAD:
		return (i->high ? high_half(i->type, a, b) : a * b) + v[2];
	case OP_DIV:
	case OP_REM:
		return quotient(p, i, a, b);
	case OP_MIN:
		return is_less(i->type, a, b) ? a : b;
	case OP_MAX:
		return is_less(i->type, a, b) ? b : a;
	case OP_NEG:
		return -a;
	case OP_ABS:
		return (int64_t)a < 0 ? -a : a;
	case OP_POPC:
		return (uint64_t)__builtin_popcountll(a);
	case OP_CLZ:
		return leading_zeros(a, i->type.bits);
	case OP_BREV:
		return reversed(a, i->type.bits);
	case OP_AND:
		return a & b;
	case OP_OR:
		return a | b;
	case OP_XOR:
		return a ^ b;
	case OP_NOT:
		return ~a;
	case OP_SHL:
	case OP_SHR:
		return shifted(i->type, i->op, a, (uint32_t)v[1]);
	case OP_BFE:
		return extracted(i->type, a, v[1] & 0xff, v[2] & 0xff);
	case OP_BFI:
		return inserted(a, b, v[2] & 0xff, v[3] & 0xff);
	case OP_SHF: /* .l.wrap: the upper half of b:a after a shift to the left */
		return ((b << 32 | a) << (v[2] & 31)) >> 32;
	default:
		return v[0];
	}
}

bool ptx_compare(const struct instruction *i, uint64_t x, uint64_t y)
{
	double f, g;

	if (i->type.kind != 'f')
		return ptx_compares(i->compare, ptx_order(&i->type, x, y), false);
	f = ptx_to_float(i->type, source(i, x));
	g = ptx_to_float(i->type, source(i, y));
	return ptx_compares(i->compare, (f > g) - (f < g), f != f || g != g);
}

/* The integer that D is rounded to; not a number if D is none. */
static double integral(enum how how, double d)
{
	switch (how) {
	case HOW_RZI:
		return trunc(d);
	case HOW_RMI:
		return floor(d);
	case HOW_RPI:
		return ceil(d);
	default: /* to the nearest, half to even */
		return nearbyint(d);
	}
}

/* The same in the type's bounds. */
static uint64_t to_integer(const struct instruction *i, double d)
{
	const bool is_signed = i->to.kind == 's';
	const double most = ldexp(1, i->to.bits - is_signed);

	if (d != d)
		return 0;
	d = integral(i->how, d);
	if (d >= most)
		return (UINT64_C(1) << (i->to.bits - is_signed - 1)) * 2 - 1;
	if (!is_signed)
		return d <= 0 ? 0 : (uint64_t)d;
	return d <= -most ? UINT64_C(1) << (i->to.bits - 1) : (uint64_t)(int64_t)d;
}

static uint64_t converted(struct ptx *p, const struct instruction *i, const uint64_t *from)
{
	uint64_t v = from[0];
	double d;

	(void)p;
	if (i->type.kind == 'f') {
		d = ptx_to_float(i->type, v);
		return ptx_from_float(i->to, i->how == HOW_NONE ? d : integral(i->how, d));
	}
	v = ptx_widen(&i->type, v);
	if (i->to.bits == 32) { /* rounded once */
		float f = i->type.kind == 's' ? (float)(int64_t)v : (float)v;

		return ptx_from_float(i->to, (double)f);
	}
	return ptx_from_float(i->to, i->type.kind == 's' ? (double)(int64_t)v : (double)v);
}

uint64_t ptx_convert(struct ptx *p, const struct instruction *i, uint64_t v)
{
	if (i->to.kind == 'f')
		return rounded(p, i, (const uint64_t[3]){v}, converted);
	return i->type.kind == 'f' ? to_integer(i, ptx_to_float(i->type, source(i, v)))
				   : ptx_widen(&i->type, v);
}

uint64_t ptx_atom(struct ptx *p, const struct instruction *i, uint64_t old, uint64_t a, uint64_t b)
{
	struct instruction as = *i;
	const uint64_t v[3] = {old, a, 0};

	switch (i->how) {
	case HOW_ADD:
		as.op = OP_ADD;
		break;
	case HOW_MIN:
		as.op = OP_MIN;
		break;
	case HOW_MAX:
		as.op = OP_MAX;
		break;
	case HOW_AND:
		as.op = OP_AND;
		break;
	case HOW_OR:
		as.op = OP_OR;
		break;
	case HOW_XOR:
		as.op = OP_XOR;
		break;
	case HOW_EXCH:
		return a;
	case HOW_CAS:
		return ptx_cut(&i->type, old) == ptx_cut(&i->type, a) ? b : old;
	default:
		ptx_stop(p, "an unknown operation");
	}
	return ptx_result(p, &as, v);
}
