/* SPDX-License-Identifier: MIT */
/* The results of instructions with integers and bits. */
#include "ptx_private.h"

static uint64_t shifted(const struct type *type, enum op op, uint64_t a, uint64_t by)
{
	if (op == OP_SHL)
		return by < type->bits ? a << by : 0;
	if (type->kind == 's')
		return (uint64_t)((int64_t)a >> (by < 63 ? by : 63));
	return by < type->bits ? a >> by : 0;
}

/* shf: a part of b:a, of 64 bits. */
static uint64_t funnelled(const struct instruction *i, uint64_t a, uint64_t b, uint32_t by)
{
	const uint64_t all = b << 32 | (a & UINT32_MAX);
	const uint32_t n = i->flags & FLAG_CLAMPS ? (by < 32 ? by : 32) : by & 31;

	return i->flags & FLAG_LEFT ? (all << n) >> 32 : all >> n;
}

/* N bits from bit BY on, which are extended by zeros or by their sign. */
static uint64_t extracted(const struct type *type, uint64_t a, uint64_t by, uint64_t n)
{
	const uint64_t bits = shifted(type, OP_SHR, a, by), left = n < 64 ? 64 - n : 0;

	if (n == 0)
		return 0;
	return type->kind == 's' ? (uint64_t)((int64_t)(bits << left) >> left)
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

/* The highest bit that is not as the sign; or by how much to shift it to the top. */
static uint64_t found(const struct instruction *i, uint64_t v)
{
	const uint32_t bits = i->type.bits;
	uint64_t at = (int64_t)v < 0 && i->type.kind == 's' ? ~v : v;

	at = leading_zeros(at & i->type.mask, bits);
	if (at == bits)
		return UINT32_MAX;
	return i->flags & FLAG_SHIFT ? at : bits - 1 - at;
}

/* fns: the bit of MASK that is the N-th from BASE on, upwards, or if N is negative, downwards. */
static uint64_t nth_set(uint32_t mask, uint32_t base, int32_t n)
{
	const int32_t step = n < 0 ? -1 : 1;
	int64_t left = n, at;

	if (base > 31)
		return UINT32_MAX;
	if (n == 0)
		return mask >> base & 1 ? base : UINT32_MAX;
	for (at = base; at >= 0 && at < 32; at += step)
		if (mask >> at & 1 && (left -= step) == 0)
			return (uint64_t)at;
	return UINT32_MAX;
}

/* The product's upper half. */
static uint64_t high_half(const struct type *type, uint64_t a, uint64_t b)
{
	__int128 product = type->kind == 's' ? (__int128)(int64_t)a * (int64_t)b
					     : (__int128)((unsigned __int128)a * b);

	return (uint64_t)(product >> type->bits);
}

/* mul24: bits 0 to 31, or 16 to 47, of a product of 24 bits each. */
static uint64_t product_24(const struct instruction *i, uint64_t a, uint64_t b)
{
	const struct type type = {i->type.kind, 24, 1, 0xffffff,
				  i->type.kind == 's' ? 0x800000 : 0};
	const uint64_t all = ptx_widen(&type, a) * ptx_widen(&type, b);

	return i->flags & FLAG_HIGH ? all >> 16 : all;
}

/* As GPUs have it: all bits are set if the divisor is 0. */
static uint64_t quotient(const struct instruction *i, uint64_t a, uint64_t b)
{
	bool rest = i->op == OP_REM;

	if (b == 0)
		return UINT64_MAX;
	if (i->type.kind != 's')
		return rest ? a % b : a / b;
	if ((int64_t)b == -1) /* the least number has no negative */
		return rest ? 0 : -a;
	return (uint64_t)(rest ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static bool is_less(const struct type *type, uint64_t a, uint64_t b)
{
	return type->kind == 's' ? (int64_t)a < (int64_t)b : a < b;
}

/* The lowest N bits of A take the place of those of B that begin at AT. */
static uint64_t inserted(uint64_t a, uint64_t b, uint64_t at, uint64_t n)
{
	const uint64_t field = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;

	return at < 64 ? (b & ~(field << at)) | (a & field) << at : b;
}

/* szext: the lowest N bits, extended. */
static uint64_t extended(const struct instruction *i, uint64_t a, uint32_t n)
{
	n = i->flags & FLAG_CLAMPS ? n : n & 31;
	if (n >= 32)
		return a;
	return n ? extracted(&i->type, a, 0, n) : 0;
}

/* bmsk: N bits from bit AT on. */
static uint64_t masked(const struct instruction *i, uint32_t at, uint32_t n)
{
	if (i->flags & FLAG_CLAMPS) {
		at = at < 32 ? at : 32;
		n = n < 32 ? n : 32;
	} else {
		at &= 31;
		n &= 31;
	}
	return ((UINT64_C(1) << n) - 1) << at & UINT32_MAX;
}

/* prmt: each byte of the result is one of the eight of b:a, or its sign eight times. */
static uint64_t permuted(const struct instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
	/* the bytes that each mode takes, for c from 0 to 3, as c of the mode without a name */
	static const uint16_t modes[][4] = {{0x3210, 0x4321, 0x5432, 0x6543},
					    {0x5670, 0x6701, 0x7012, 0x0123},
					    {0x0000, 0x1111, 0x2222, 0x3333},
					    {0x3210, 0x3211, 0x3222, 0x3333},
					    {0x0000, 0x1110, 0x2210, 0x3210},
					    {0x1010, 0x3232, 0x1010, 0x3232}};
	const uint64_t all = b << 32 | (a & UINT32_MAX);
	uint64_t out = 0, byte;
	uint32_t k, which;

	if (i->how)
		c = modes[i->how - HOW_F4E][c & 3];
	for (k = 0; k < 4; k++) {
		which = (uint32_t)(c >> 4 * k & 15);
		byte = all >> 8 * (which & 7) & 255;
		if (which & 8)
			byte = byte & 128 ? 255 : 0;
		out |= byte << 8 * k;
	}
	return out;
}

/* lop3: bit 4a + 2b + c of TABLE, for each place. */
static uint64_t looked_up(uint64_t a, uint64_t b, uint64_t c, uint64_t table)
{
	uint64_t out = 0;
	uint32_t k;

	for (k = 0; k < 8; k++)
		if (table >> k & 1)
			out |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
	return out;
}

/* dp4a and dp2a: a sum of products of bytes of B with those of A, or with its halves. */
static uint64_t dot(const struct instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
	const bool four = i->op == OP_DP4A;
	const struct type of_a = ptx_type_of(i->to.kind, four ? 8 : 16);
	const struct type of_b = ptx_type_of(i->type.kind, 8);
	uint32_t k;

	if (i->flags & FLAG_HIGH)
		b >>= 16;
	for (k = 0; k < (four ? 4 : 2); k++)
		c += ptx_widen(&of_a, a >> of_a.bits * k) * ptx_widen(&of_b, b >> 8 * k);
	return c;
}

static uint64_t clamped(const struct instruction *i, int64_t v)
{
	if (!(i->flags & FLAG_SATURATES))
		return (uint64_t)v;
	return (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

/* min and max; .relu: no less than 0. */
static uint64_t extreme(const struct instruction *i, uint64_t a, uint64_t b)
{
	const bool first = is_less(&i->type, a, b) == (i->op == OP_MIN);
	const uint64_t v = first ? a : b;

	return i->flags & FLAG_RELU && (int64_t)v < 0 ? 0 : v;
}

static uint64_t product(const struct instruction *i, uint64_t a, uint64_t b)
{
	return i->flags & FLAG_HIGH ? high_half(&i->type, a, b) : a * b;
}

uint64_t ptx_carry(const struct instruction *i, const uint64_t *v, bool *carry)
{
	const struct type *type = &i->type;
	const bool subtracts = i->how == HOW_SUB;
	const uint64_t in = i->flags & FLAG_TAKES && *carry;
	uint64_t a = v[0] & type->mask, b = v[1] & type->mask;
	unsigned __int128 sum;

	if (i->how == HOW_MAD) {
		a = product(i, ptx_widen(type, v[0]), ptx_widen(type, v[1])) & type->mask;
		b = v[2] & type->mask;
	}
	/* the flag is what does not fit; of a difference, what is borrowed */
	sum = subtracts ? (unsigned __int128)a - b - in : (unsigned __int128)a + b + in;
	if (i->flags & FLAG_SETS)
		*carry = sum >> type->bits & 1;
	return (uint64_t)sum;
}

static uint64_t bits_result(const struct instruction *i, const uint64_t *v, uint64_t a, uint64_t b)
{
	switch (i->op) {
	case OP_POPC:
		return (uint64_t)__builtin_popcountll(a);
	case OP_CLZ:
		return leading_zeros(a, i->type.bits);
	case OP_BFIND:
		return found(i, a);
	case OP_FNS:
		return nth_set((uint32_t)v[0], (uint32_t)v[1], (int32_t)v[2]);
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
	case OP_CNOT:
		return a == 0;
	case OP_LOP3:
		return looked_up(a, b, v[2], v[3]);
	case OP_SHL:
	case OP_SHR:
		return shifted(&i->type, i->op, a, (uint32_t)v[1]);
	case OP_SHF:
		return funnelled(i, a, b, (uint32_t)v[2]);
	case OP_PRMT:
		return permuted(i, a, b, v[2]);
	case OP_BFE:
		return extracted(&i->type, a, v[1] & 0xff, v[2] & 0xff);
	case OP_BFI:
		return inserted(a, b, v[2] & 0xff, v[3] & 0xff);
	case OP_BMSK:
		return masked(i, (uint32_t)v[0], (uint32_t)v[1]);
	case OP_SZEXT:
		return extended(i, a, (uint32_t)v[1]);
	default: /* OP_MOV */
		return v[0];
	}
}

/* What a condition gives in the type of the result of set. */
static uint64_t truth(const struct type *to, bool is)
{
	if (to->kind == 'f' || to->kind == 'g')
		return is ? ptx_from_float(to, 1, 0) : 0;
	return is ? to->mask : 0;
}

/* The comparison, together with the predicate C. */
static bool condition(const struct instruction *i, uint64_t x, uint64_t y, uint64_t c)
{
	const bool is = ptx_compare(i, x, y);

	switch (i->how) {
	case HOW_AND:
		return is & c;
	case HOW_OR:
		return is | (c & 1);
	case HOW_XOR:
		return is ^ (c & 1);
	default:
		return is;
	}
}

/* set of two halves compares each. */
static uint64_t set(const struct instruction *i, const uint64_t *v)
{
	struct instruction one = *i;
	uint64_t out = 0;
	uint32_t k;

	one.type.lanes = 1;
	one.to.lanes = 1;
	if (i->type.lanes == 2)
		one.type.mask = one.to.mask = 0xffff;
	for (k = 0; k < i->type.lanes; k++)
		out |= truth(&one.to, condition(&one, v[0] >> 16 * k, v[1] >> 16 * k, v[2]))
		       << 16 * k;
	return out;
}

/* slct: the third source decides; a float that is no number is negative. */
static uint64_t selected(const struct instruction *i, const uint64_t *v)
{
	uint64_t c = v[2];
	bool unordered = false;

	if (i->type.kind == 's')
		return (int32_t)c >= 0 ? v[0] : v[1];
	return ptx_float_order(i, c, 0, &unordered) >= 0 && !unordered ? v[0] : v[1];
}

/* Of two integers of 16 bits each. */
static uint64_t pair(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	const uint64_t upper[3] = {v[0] >> 16, v[1] >> 16, 0};
	struct instruction one = *i;

	one.type = ptx_type_of(i->type.kind, 16);
	return (ptx_result(p, &one, v) & 0xffff) | (ptx_result(p, &one, upper) & 0xffff) << 16;
}

uint64_t ptx_result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	uint64_t a, b;

	if (i->op == OP_MOV)
		return v[0];
	if (i->op == OP_SELP)
		return v[2] & 1 ? v[0] : v[1];
	if (i->op == OP_SETP)
		return condition(i, v[0], v[1], v[2]);
	if (i->op == OP_SET)
		return set(i, v);
	if (i->op == OP_SLCT)
		return selected(i, v);
	if (i->op == OP_CVT || i->op == OP_CVT2)
		return ptx_convert(i, v);
	if (i->op == OP_TESTP)
		return ptx_float_is(i, v[0]);
	if (i->op >= OP_VADD && i->op <= OP_VMAX)
		return ptx_video(i, v);
	if (i->type.kind == 'f' || i->type.kind == 'g')
		return ptx_float_result(p, i, v);
	if (i->type.lanes == 2)
		return pair(p, i, v);
	a = ptx_widen(&i->type, v[0]);
	b = ptx_widen(&i->type, v[1]);
	switch (i->op) {
	case OP_ADD:
		return clamped(i, (int64_t)(a + b));
	case OP_SUB:
		return clamped(i, (int64_t)(a - b));
	case OP_MUL:
		return product(i, a, b);
	case OP_MAD:
		return clamped(i, (int64_t)(product(i, a, b) + (i->flags & FLAG_SATURATES
									? ptx_widen(&i->type, v[2])
									: v[2])));
	case OP_MUL24:
		return product_24(i, a, b);
	case OP_MAD24:
		a = ptx_widen(&i->type, product_24(i, a, b));
		return clamped(i, (int64_t)(a + ptx_widen(&i->type, v[2])));
	case OP_SAD:
		return (is_less(&i->type, a, b) ? b - a : a - b) + v[2];
	case OP_DIV:
	case OP_REM:
		return quotient(i, a, b);
	case OP_MIN:
	case OP_MAX:
		return extreme(i, a, b);
	case OP_NEG:
		return -a;
	case OP_ABS:
		return (int64_t)a < 0 ? -a : a;
	case OP_DP4A:
	case OP_DP2A:
		return dot(i, v[0], v[1], v[2]);
	default:
		return bits_result(i, v, a, b);
	}
}

bool ptx_compare(const struct instruction *i, uint64_t x, uint64_t y)
{
	bool unordered = false;
	int order;

	if (i->type.kind == 'f' || i->type.kind == 'g')
		order = ptx_float_order(i, x, y, &unordered);
	else
		order = ptx_order(&i->type, x, y);
	return ptx_compares(i->compare, order, unordered);
}

uint64_t ptx_atom(struct ptx *p, const struct instruction *i, uint64_t old, uint64_t a, uint64_t b)
{
	static const enum op ops[] = {[HOW_ADD] = OP_ADD, [HOW_MIN] = OP_MIN, [HOW_MAX] = OP_MAX,
				      [HOW_AND] = OP_AND, [HOW_OR] = OP_OR,   [HOW_XOR] = OP_XOR};
	struct instruction as = *i;
	const uint64_t v[3] = {old, a, 0};
	const uint32_t was = (uint32_t)old, most = (uint32_t)a;

	switch (i->how) {
	case HOW_EXCH:
		return a;
	case HOW_CAS:
		return ptx_cut(&i->type, old) == ptx_cut(&i->type, a) ? b : old;
	case HOW_INC:
		return was >= most ? 0 : was + 1;
	case HOW_DEC:
		return was == 0 || was > most ? most : was - 1;
	default:
		as.op = ops[i->how];
		return ptx_result(p, &as, v);
	}
}
