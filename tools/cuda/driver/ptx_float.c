/* SPDX-License-Identifier: MIT */
/* The results of instructions with floats. Approximations (ex2, lg2, rsqrt, ...) are the exact
 * result, rounded, which is within the bounds that the ISA gives for a GPU. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "ptx_private.h"

static float single(uint64_t v)
{
	const uint32_t half = (uint32_t)v;
	float f;

	memcpy(&f, &half, sizeof(f));
	return f;
}

static uint32_t of_single(float f)
{
	uint32_t v;

	memcpy(&v, &f, sizeof(v));
	return f != f ? 0x7fffffff : v;
}

static double wide(uint64_t v)
{
	double d;

	memcpy(&d, &v, sizeof(d));
	return d;
}

static uint64_t of_wide(double d)
{
	uint64_t v;

	memcpy(&v, &d, sizeof(v));
	return v;
}

/* A kind of float that C does not have: bits behind the point, the least exponent of a normal
 * number, all bits, those below them, the largest number, and NaN. */
struct format {
	int fraction, least, bits, below;
	uint64_t most, none;
	bool finite; /* larger values become the largest number */
};

static bool is_small(const struct type *type)
{
	return type->bits <= 16 || type->kind == 't';
}

static struct format format_of(const struct type *type)
{
	switch (type->kind) {
	case 'g':
		return (struct format){7, -126, 16, 0, 0x7f7f, 0x7fff, false};
	case 't':
		return (struct format){10, -126, 19, 13, 0x3fbff, 0x3ffff, false};
	case 'q': /* one pattern is no number, and none is infinite */
		return (struct format){3, -6, 8, 0, 0x7e, 0x7f, true};
	case 'r':
		return (struct format){2, -14, 8, 0, 0x7b, 0x7f, true};
	default:
		return (struct format){10, -14, 16, 0, 0x7bff, 0x7fff, false};
	}
}

static long double from_small(const struct type *type, uint64_t v)
{
	const struct format f = format_of(type);
	const int exponents = 1 << (f.bits - 1 - f.fraction),
		  exponent = (int)(v >> f.fraction) & (exponents - 1);
	const long double part = (long double)(v & ((UINT64_C(1) << f.fraction) - 1));
	const uint64_t size = v & ((UINT64_C(1) << (f.bits - 1)) - 1);
	long double d;

	if (size > f.most)
		d = size > f.most + 1 || f.most + 1 == f.none ? NAN : INFINITY;
	else if (exponent == 0)
		d = ldexpl(part, f.least - f.fraction);
	else
		d = ldexpl(part + ldexpl(1, f.fraction), exponent - 1 + f.least - f.fraction);
	return v >> (f.bits - 1) & 1 ? -d : d;
}

static long double whole(long double d, int mode)
{
	switch (mode) {
	case ROUND_AWAY:
		return roundl(d);
	case FE_TOWARDZERO:
		return truncl(d);
	case FE_DOWNWARD:
		return floorl(d);
	case FE_UPWARD:
		return ceill(d);
	default:
		return rintl(d); /* half to even */
	}
}

static uint64_t to_small(const struct type *type, long double d, int mode)
{
	const struct format f = format_of(type);
	const uint64_t sign = signbit(d) ? UINT64_C(1) << (f.bits - 1) : 0;
	const bool inwards =
		f.finite || mode == FE_TOWARDZERO || mode == (sign ? FE_UPWARD : FE_DOWNWARD);
	int exponent;
	uint64_t units;

	if (d != d)
		return f.none;
	if (d == 0)
		return sign;
	if (isinf(d))
		return sign | (f.finite ? f.most : f.most + 1);
	frexpl(d, &exponent);
	exponent = exponent - 1 < f.least ? f.least : exponent - 1;
	/* in units of its last place, which may become one more binary place */
	units = (uint64_t)fabsl(whole(ldexpl(d, f.fraction - exponent), mode));
	/* above the subnormal ones, the first place counts in the exponent */
	units += (uint64_t)(exponent - f.least) << f.fraction;
	if (units > f.most)
		return sign | (inwards ? f.most : f.most + 1);
	return sign | units;
}

/* Sets the CPU's rounding, unless MODE is the usual one: setting it takes longer than most
 * computations. */
static void set_rounding(int mode)
{
	if (mode != FE_TONEAREST)
		fesetround(mode);
}

static void reset_rounding(int mode)
{
	if (mode != FE_TONEAREST)
		fesetround(FE_TONEAREST);
}

long double ptx_to_float(const struct type *type, uint64_t v)
{
	if (is_small(type))
		return from_small(type, v);
	return type->bits == 32 ? (long double)single(v) : (long double)wide(v);
}

uint64_t ptx_from_float(const struct type *type, long double d, int mode)
{
	/* what is volatile is computed where it is written, between the changes of the rounding */
	const volatile long double there = d;
	volatile double e;
	volatile float f;
	uint32_t half;
	uint64_t v;

	if (type->kind == 't')
		return d != d ? 0x7fffffff : to_small(type, d, mode) << format_of(type).below;
	if (is_small(type))
		return to_small(type, d, mode);
	set_rounding(mode);
	f = (float)there;
	e = (double)there;
	reset_rounding(mode);
	half = of_single(f);
	v = of_wide(e);
	return type->bits == 32 ? half : v;
}

uint64_t ptx_flushed(const struct type *type, uint64_t v)
{
	if (type->kind == 'f' && type->bits == 32)
		return v & 0x7f800000 ? v : v & 0x80000000;
	if (type->kind == 'f' && type->bits == 16)
		return v & 0x7c00 ? v : v & 0x8000;
	return v;
}

static uint64_t source(const struct instruction *i, const struct type *type, uint64_t v)
{
	return i->flags & FLAG_FLUSHES ? ptx_flushed(type, v) : v;
}

/* Returns NaN of the type. Doubles keep the bits of the NaN from which they come. */
static bool is_nan(const struct type *type, uint64_t v)
{
	const long double d = ptx_to_float(type, v);

	return d != d;
}

static uint64_t sign_of(const struct type *type)
{
	return UINT64_C(1) << (type->bits - 1);
}

/* min and max: of two zeros, the negative one is less. NaN loses, or with .NaN wins. */
static uint64_t extreme(const struct instruction *i, const struct type *type, uint64_t a,
			uint64_t b)
{
	static const uint64_t none[] = {
		[16] = 0x7fff, [32] = 0x7fffffff, [64] = 0x7ff8000000000000};
	const uint64_t sign = sign_of(type), mixed = (a ^ b) & sign;
	const bool a_none = is_nan(type, a), b_none = is_nan(type, b);
	const bool least = i->op == OP_MIN;
	long double x, y;
	uint64_t v;

	if ((a_none && b_none) || (i->flags & FLAG_NAN && (a_none || b_none)))
		return none[type->bits];
	if (i->flags & FLAG_SIGN) {
		a &= ~sign;
		b &= ~sign;
	}
	x = ptx_to_float(type, a);
	y = ptx_to_float(type, b);
	if (a_none || b_none)
		v = a_none ? b : a;
	else if (x == y)
		v = (signbit(x) != 0) == least ? a : b;
	else
		v = (x < y) == least ? a : b;
	return i->flags & FLAG_SIGN ? v | mixed : v;
}

/* A sum, rounded to odd: rounded once more to fewer places, it is as if it had been rounded once.
 */
static double sum_to_odd(double a, double b)
{
	const double sum = a + b, of_b = sum - a, left = (a - (sum - of_b)) + (b - of_b);
	uint64_t v;

	memcpy(&v, &sum, sizeof(v));
	if (isfinite(sum) && left != 0 && !(v & 1))
		return nextafter(sum, left > 0 ? INFINITY : -INFINITY);
	return sum;
}

/* The exact product of two floats of 16 bits, and a third one. */
static uint64_t fma_16(const struct instruction *i, const struct type *type, uint64_t a, uint64_t b,
		       uint64_t c)
{
	const double product = (double)ptx_to_float(type, a) * (double)ptx_to_float(type, b);

	return ptx_from_float(type, sum_to_odd(product, (double)ptx_to_float(type, c)),
			      i->rounding);
}

/* The sum, difference, product, quotient or root of floats, computed as doubles and rounded once
 * more, equals the result: a double has more than twice their bits plus two (Figueroa, 1995). */
static uint64_t small_result(struct ptx *p, const struct instruction *i, const struct type *type,
			     const uint64_t *v)
{
	const volatile double a = (double)ptx_to_float(type, v[0]);
	const volatile double b = (double)ptx_to_float(type, v[1]);
	volatile double d;

	switch (i->op) {
	case OP_ADD:
		d = a + b;
		break;
	case OP_SUB:
		d = a - b;
		break;
	case OP_MUL:
		d = a * b;
		break;
	case OP_DIV:
		/* the ISA's words on .approx: there is no reciprocal of so large a number */
		if (i->flags & FLAG_APPROX && fabs(b) > 0x1p126 && fabs(b) < INFINITY)
			d = isinf(a) || a != a ? NAN : copysign(0, a) * copysign(1, b);
		else
			d = a / b;
		break;
	case OP_SQRT:
		d = sqrt(a);
		break;
	case OP_RCP:
		d = 1 / a;
		break;
	case OP_RSQRT:
		d = 1 / sqrt(a);
		break;
	case OP_SIN:
		d = sin(a);
		break;
	case OP_COS:
		d = cos(a);
		break;
	case OP_TANH:
		d = tanh(a);
		break;
	case OP_EX2:
		d = exp2(a);
		break;
	case OP_LG2:
		d = log2(a);
		break;
	default:
		ptx_stop(p, "not with floats");
	}
	return ptx_from_float(type, d, i->rounding);
}

/* The most frequent case: floats of 32 bits, rounded to the nearest. */
static bool nearest(const struct instruction *i, const uint64_t *v, uint64_t *out)
{
	const float a = single(v[0]), b = single(v[1]);

	if (i->rounding != FE_TONEAREST || i->type.bits != 32)
		return false;
	if (i->op == OP_FMA)
		*out = of_single(fmaf(a, b, single(v[2])));
	else if (i->op == OP_ADD)
		*out = of_single(a + b);
	else if (i->op == OP_SUB)
		*out = of_single(a - b);
	else if (i->op == OP_MUL)
		*out = of_single(a * b);
	else if (i->op == OP_DIV && !(i->flags & FLAG_APPROX))
		*out = of_single(a / b);
	else if (i->op == OP_SQRT)
		*out = of_single(sqrtf(a));
	else
		return false;
	return true;
}

/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the upper halves. */
static uint64_t of_upper_half(const struct instruction *i, uint64_t v)
{
	double d;

	if (wide(v) != wide(v))
		return UINT64_C(0x7ff80000) << 32;
	v &= ~(uint64_t)UINT32_MAX;
	d = fpclassify(wide(v)) == FP_SUBNORMAL ? copysign(0, wide(v)) : wide(v);
	d = i->op == OP_RCP ? 1 / d : 1 / sqrt(d);
	if (d != d)
		return UINT64_C(0x7ff80000) << 32;
	if (fpclassify(d) == FP_SUBNORMAL)
		d = copysign(0, d);
	return of_wide(d) & ~(uint64_t)UINT32_MAX;
}

static uint64_t double_result(struct ptx *p, const struct instruction *i, const struct type *,
			      const uint64_t *v)
{
	const volatile double a = wide(v[0]), b = wide(v[1]);

	if (i->flags & FLAG_APPROX && i->flags & FLAG_FLUSHES)
		return of_upper_half(i, v[0]);
	switch (i->op) {
	case OP_ADD:
		return of_wide(a + b);
	case OP_SUB:
		return of_wide(a - b);
	case OP_MUL:
		return of_wide(a * b);
	case OP_DIV:
		return of_wide(a / b);
	case OP_FMA:
		return of_wide(fma(a, b, wide(v[2])));
	case OP_SQRT:
		return of_wide(sqrt(a));
	case OP_RCP:
		return of_wide(1 / a);
	case OP_RSQRT:
		return of_wide(1 / sqrt(a));
	default:
		ptx_stop(p, "not with doubles");
	}
}

static uint64_t fma_single(struct ptx *, const struct instruction *, const struct type *,
			   const uint64_t *v)
{
	const volatile float a = single(v[0]);

	return of_single(fmaf(a, single(v[1]), single(v[2])));
}

/* Has RESULT computed in the instruction's rounding. */
static uint64_t in_mode(struct ptx *p, const struct instruction *i, const struct type *type,
			const uint64_t *v,
			uint64_t (*result)(struct ptx *p, const struct instruction *i,
					   const struct type *type, const uint64_t *v))
{
	uint64_t r;

	set_rounding(i->rounding);
	r = result(p, i, type, v);
	reset_rounding(i->rounding);
	return r;
}

static uint64_t one_result(struct ptx *p, const struct instruction *i, const struct type *type,
			   const uint64_t *v)
{
	uint64_t r;

	switch (i->op) {
	case OP_NEG:
		return v[0] ^ sign_of(type);
	case OP_ABS:
		return v[0] & ~sign_of(type);
	case OP_COPYSIGN:
		return (v[1] & ~sign_of(type)) | (v[0] & sign_of(type));
	case OP_MIN:
	case OP_MAX:
		return extreme(i, type, v[0], v[1]);
	default:
		break;
	}
	if (type->bits == 64)
		return in_mode(p, i, type, v, double_result);
	if (nearest(i, v, &r))
		return r;
	if (i->op == OP_FMA && type->bits == 16)
		return fma_16(i, type, v[0], v[1], v[2]);
	/* in a direction, rounding twice is rounding once: but not a sum that is 0 */
	return in_mode(p, i, type, v, i->op == OP_FMA ? fma_single : small_result);
}

/* .sat: between 0 and 1; NaN becomes 0. .relu: not below 0. */
static uint64_t bounded(const struct instruction *i, const struct type *type, uint64_t v)
{
	const long double d = ptx_to_float(type, v);

	if (i->flags & FLAG_SATURATES)
		return d > 0 ? d < 1 ? v : ptx_from_float(type, 1, FE_TONEAREST) : 0;
	return d < 0 || v == sign_of(type) ? 0 : v;
}

uint64_t ptx_float_result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	const struct type one =
		i->type.lanes == 2 ? (struct type){i->type.kind, 16, 1, 0xffff, 0} : i->type;
	uint64_t out = 0, r, s[3];
	uint32_t k, n;

	for (k = 0; k < i->type.lanes; k++) {
		for (n = 0; n < 3; n++)
			s[n] = source(i, &one, v[n] >> 16 * k & one.mask);
		r = source(i, &one, one_result(p, i, &one, s));
		if (i->flags & (FLAG_SATURATES | FLAG_RELU))
			r = bounded(i, &one, r);
		out |= (r & one.mask) << 16 * k;
	}
	return out;
}

int ptx_float_order(const struct instruction *i, uint64_t x, uint64_t y, bool *unordered)
{
	const long double f = ptx_to_float(&i->type, source(i, &i->type, x));
	const long double g = ptx_to_float(&i->type, source(i, &i->type, y));

	*unordered = f != f || g != g;
	return (f > g) - (f < g);
}

bool ptx_float_is(const struct instruction *i, uint64_t v)
{
	const int class = i->type.bits == 32 ? fpclassify(single(v)) : fpclassify(wide(v));

	switch (i->how) {
	case HOW_FINITE:
		return class != FP_NAN && class != FP_INFINITE;
	case HOW_INFINITE:
		return class == FP_INFINITE;
	case HOW_NUMBER:
		return class != FP_NAN;
	case HOW_NOTANUMBER:
		return class == FP_NAN;
	case HOW_NORMAL:
		return class == FP_NORMAL;
	default:
		return class == FP_SUBNORMAL;
	}
}
