/* SPDX-License-Identifier: MIT */
/* vadd, vsub, vabsdiff, vmin and vmax: of two sources, or parts of them, and then of a third one.
 */
#include "ptx_private.h"

/* The source that operand O names, as the ISA extends it to 33 bits. */
static int64_t part(const struct operand *o, const struct type *type, uint64_t v)
{
	struct type of = *type;

	if (o->part) {
		const bool byte = o->part < 5;

		v >>= byte ? 8 * (o->part - 1) : 16 * (o->part - 5);
		of = ptx_type_of(type->kind, byte ? 8 : 16);
	}
	return (int64_t)ptx_widen(&of, v);
}

static int64_t first(const struct instruction *i, int64_t a, int64_t b)
{
	switch (i->op) {
	case OP_VADD:
		return a + b;
	case OP_VSUB:
		return a - b;
	case OP_VABSDIFF:
		return a < b ? b - a : a - b;
	case OP_VMIN:
		return a < b ? a : b;
	default: /* OP_VMAX */
		return a < b ? b : a;
	}
}

static int64_t bounded(const struct type *to, int64_t v)
{
	const int64_t most = to->kind == 's' ? INT32_MAX : UINT32_MAX;
	const int64_t least = to->kind == 's' ? INT32_MIN : 0;

	return v > most ? most : v < least ? least : v;
}

uint64_t ptx_video(const struct instruction *i, const uint64_t *v)
{
	const struct type *to = &i->to;
	int64_t d = first(i, part(&i->operands[1], &i->type2, v[0]),
			  part(&i->operands[2], &i->type, v[1]));
	int64_t c;

	if (i->flags & FLAG_SATURATES)
		d = bounded(to, d);
	d = (int64_t)ptx_widen(to, (uint64_t)d);
	c = (int64_t)ptx_widen(to, v[2]);
	switch (i->how) {
	case HOW_ADD:
		return (uint64_t)(d + c);
	case HOW_MIN:
		return (uint64_t)(d < c ? d : c);
	case HOW_MAX:
		return (uint64_t)(d < c ? c : d);
	default:
		return (uint64_t)d;
	}
}
