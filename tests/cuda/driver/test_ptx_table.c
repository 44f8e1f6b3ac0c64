/* SPDX-License-Identifier: MIT */
/*
 * Each instruction of the machine that runs PTX, with each of its words and types, as the table in
 * ptx_forms.c has them: what is executed computes what the model (ptx_model.h) says, what is not is
 * refused when it is read. Of an instruction with very many hints and scopes, a random part.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "ptx.h"
#include "ptx_model.h"
#include "suite.h"

#define THREADS 48u
#define ROUNDS 4u
#define MOST 400u /* of a row */
#define HEAD ".version 8.5\n.target sm_90\n.address_size 64\n"

/* Instructions that need more than sources and a result: the other tests of the machine, and those
 * at the end of this file, have them. */
static const char by_hand[] =
	" prefetch prefetchu applypriority isspacep cvta cp bra brx call ret "
	"exit trap nanosleep pmevent bar barrier membar fence shfl vote match "
	"redux elect activemask mov alloca stacksave stackrestore ";

struct groups {
	char *text;
	char *alternatives[MODEL_WORDS][80]; /* NULL: none of them */
	uint32_t n[MODEL_WORDS], n_groups;
	uint64_t combinations;
};

static void split(const char *words, struct groups *g)
{
	char *group, *word, *rest, *inner;

	*g = (struct groups){.text = strdup(words), .combinations = 1};
	for (group = strtok_r(g->text, " ", &rest); group; group = strtok_r(NULL, " ", &rest)) {
		const size_t n = strlen(group);
		uint32_t *k = &g->n[g->n_groups];
		const bool optional = group[n - 1] == '?';

		group[n - optional] = 0;
		for (word = strtok_r(group, "|", &inner); word; word = strtok_r(NULL, "|", &inner))
			g->alternatives[g->n_groups][(*k)++] = word;
		if (optional)
			g->alternatives[g->n_groups][(*k)++] = NULL;
		g->combinations *= *k;
		g->n_groups++;
	}
}

static bool type_of(const char *word, struct model_type *out)
{
	const char *const types[] = {"pred", "b8", "b16", "b32", "b64", "u8",  "u16", "u32",
				     "u64",  "s8", "s16", "s32", "s64", "f16", "f32", "f64"};
	size_t k;

	for (k = 0; k < sizeof(types) / sizeof(types[0]); k++)
		if (strcmp(word, types[k]) == 0) {
			*out = (struct model_type){word[0], k ? (uint32_t)atoi(word + 1) : 1, 1};
			return true;
		}
	if (strcmp(word, "u16x2") == 0 || strcmp(word, "s16x2") == 0) {
		*out = (struct model_type){word[0], 16, 2};
		return true;
	}
	if (strcmp(word, "e4m3x2") == 0 || strcmp(word, "e5m2x2") == 0) {
		*out = (struct model_type){word[1] == '4' ? 'q' : 'r', 8, 2};
		return true;
	}
	if (strcmp(word, "tf32") == 0) {
		*out = (struct model_type){'t', 32, 1};
		return true;
	}
	*out = (struct model_type){word[0] == 'b' ? 'h' : 'f', 16, strstr(word, "x2") ? 2 : 1};
	return strcmp(word, "f16x2") == 0 || strcmp(word, "bf16") == 0 ||
	       strcmp(word, "bf16x2") == 0;
}

/* The instruction with the alternatives that CHOICE has, one of each group. */
static struct model_op chosen(const struct groups *g, const uint32_t *choice)
{
	struct model_op op = {.n = 0};
	struct model_type type;
	uint32_t k, types = 0;

	for (k = 0; k < g->n_groups; k++) {
		const char *word = g->alternatives[k][choice[k]];

		if (!word)
			continue;
		snprintf(op.words[op.n++], sizeof(op.words[0]), "%s", word);
		if (!type_of(word, &type) || op.n == 1)
			continue;
		if (types == 0)
			op.first = type;
		if (types == 1)
			op.second = type;
		op.last = type;
		types++;
	}
	return op;
}

static const char *opcode(const struct model_op *op)
{
	static char text[300];
	uint32_t k;

	*text = 0;
	for (k = 0; k < op->n; k++)
		strcat(strcat(text, k ? "." : ""), op->words[k]);
	return text;
}

/* Calls CHECK for the row's instructions. */
static void each(const struct ptx_form *form,
		 void (*check)(const struct ptx_form *form, const struct model_op *op))
{
	uint32_t choice[MODEL_WORDS], k, j;
	struct model_op op;
	struct groups g;
	uint64_t i, left;

	split(form->words, &g);
	for (i = 0; i < g.combinations && i < MOST; i++) {
		left = i;
		for (k = 0; k < g.n_groups; k++) {
			choice[k] =
				(uint32_t)(g.combinations <= MOST ? left % g.n[k] : draw(g.n[k]));
			left /= g.n[k];
		}
		/* of very many, each alternative at least once */
		for (k = 0, j = (uint32_t)i; g.combinations > MOST && k < g.n_groups; k++) {
			if (j < g.n[k]) {
				choice[k] = j;
				break;
			}
			j -= g.n[k];
		}
		op = chosen(&g, choice);
		check(form, &op);
	}
	free(g.text);
}

/* texts */

struct text {
	char at[6000];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	t->n += (size_t)vsnprintf(t->at + t->n, sizeof(t->at) - t->n, format, arguments);
	va_end(arguments);
}

static uint32_t bits_of(const struct model_type *type)
{
	return type->bits * type->lanes;
}

/* A register of at least BITS: of 16, 32 or 64. WIDER: any that is large enough. */
static uint32_t register_for(uint32_t bits, bool wider)
{
	uint32_t is = bits < 16 ? 16 : bits;

	while (wider && is < 64 && draw(2))
		is *= 2;
	return is;
}

static bool is_float(const struct model_type *type)
{
	return type->kind == 'f' || type->kind == 'h';
}

struct operands {
	uint32_t to, n; /* bits of the result; sources */
	struct model_type of[4];
	bool has_result, has_second, has_flag;
	uint64_t immediate;
};

static bool touches_carry(const struct model_op *op)
{
	return model_word(op, "cc") || strcmp(op->words[0], "addc") == 0 ||
	       strcmp(op->words[0], "subc") == 0 || strcmp(op->words[0], "madc") == 0;
}

/* Writes the operand that LETTER means to LIST, and what it needs to T. */
static void operand(struct text *t, struct text *list, const struct model_op *op, char letter,
		    struct operands *o)
{
	static const struct model_type word = {'b', 32, 1}, predicate = {'p', 1, 1};
	const struct model_type twice = {op->last.kind, op->last.bits * 2, 1};
	struct model_type type;
	uint32_t bits;

	add(list, "%s", list->n ? ", " : " ");
	if (strchr("DSRXWEQO", letter)) {
		o->has_result = true;
		o->to = letter == 'X'	       ? twice.bits
			: strchr("WE", letter) ? 32
			: strchr("QO", letter) ? 1
					       : bits_of(&op->first);
		if (o->to > 1)
			o->to = register_for(o->to, letter == 'R' && !is_float(&op->first));
		o->has_second = strchr("OSE", letter);
		add(t, o->to == 1 ? ".reg .pred %%d;\n" : ".reg .b%u %%d;\n", o->to);
		add(list, o->has_second ? "%%d|%%q" : "%%d");
		return;
	}
	if (letter == 'i') {
		o->immediate = draw(256);
		o->of[o->n++] = word;
		add(list, "%u", (uint32_t)o->immediate);
		return;
	}
	type = letter == 'f'	      ? op->first
	       : letter == 'y'	      ? twice
	       : strchr("wq", letter) ? word
	       : strchr("pn", letter) ? predicate
				      : op->last;
	if (type.bits == 1)
		type = predicate;
	o->of[o->n] = type;
	bits = register_for(bits_of(&type), letter == 'r' && !is_float(&type));
	if (type.kind == 'p')
		add(t,
		    ".reg .pred %%s%u;\nld.global.b16 %%h, [%%in+%u];\nand.b16 %%h, %%h, 1;\n"
		    "setp.ne.b16 %%s%u, %%h, 0;\n",
		    o->n, o->n * 8, o->n);
	else
		add(t, ".reg .b%u %%s%u;\nld.global.b%u %%s%u, [%%in+%u];\n", bits, o->n, bits,
		    o->n, o->n * 8);
	add(list, "%%s%u", o->n++);
}

static const char begin[] = HEAD ".visible .const .align 16 .b8 cc[16];\n"
				 ".visible .entry f(.param .u64 out, .param .u64 in,\n"
				 "\t.param .align 16 .b8 pin[16])\n{\n"
				 ".reg .b64 %out, %in, %x, %y;\n.reg .b32 %t, %c;\n.reg .b16 %h;\n"
				 ".reg .pred %q;\n.shared .align 16 .b8 sv[16];\n"
				 ".local .align 16 .b8 lv[16];\n.param .align 16 .b8 pv[16];\n"
				 "ld.param.u64 %out, [out];\nld.param.u64 %in, [in];\n"
				 "mov.u32 %t, %tid.x;\nmul.wide.u32 %x, %t, 64;\n"
				 "add.u64 %in, %in, %x;\nadd.u64 %out, %out, %x;\n";

static void text_of(struct text *t, const struct ptx_form *form, const struct model_op *op,
		    struct operands *o)
{
	struct text list = {.n = 0};
	const char *letter;

	*o = (struct operands){.has_flag = touches_carry(op)};
	*t = (struct text){.n = 0};
	add(t, "%s", begin);
	for (letter = form->operands; *letter; letter++)
		if (*letter != '?')
			operand(t, &list, op, *letter, o);
	if (o->has_flag)
		add(t, "ld.global.b32 %%c, [%%in+32];\nadd.cc.u32 %%c, %%c, -1;\n");
	add(t, "%s%s;\n", opcode(op), list.at);
	if (o->has_flag)
		add(t, "addc.u32 %%c, 0, 0;\nst.global.b32 [%%out+8], %%c;\n");
	if (o->has_second)
		add(t, "selp.u32 %%c, 1, 0, %%q;\nst.global.b32 [%%out+8], %%c;\n");
	if (o->to == 1)
		add(t, "selp.u32 %%c, 1, 0, %%d;\nst.global.b32 [%%out], %%c;\n");
	else if (o->has_result)
		add(t, "st.global.b%u [%%out], %%d;\n", o->to);
	add(t, "ret;\n}\n");
}

/* values */

static uint64_t any(void)
{
	return draw(1u << 31) << 33 ^ draw(1u << 31) << 10 ^ draw(1u << 20);
}

static uint64_t whole_of(uint32_t bits)
{
	const uint64_t top = bits > 1 ? UINT64_C(1) << (bits - 1) : 1;
	const uint64_t edges[] = {0, 1, top - 1, top, top + 1, UINT64_MAX, 2, 31, 32, 33, 255};

	switch (draw(4)) {
	case 0:
		return edges[draw(11)];
	case 1:
		return draw(72);
	case 2:
		return -draw(72);
	default:
		return any();
	}
}

/* Of a float: 0, the ends of its range, numbers near 1 and near whole ones, and any bits. */
static uint64_t float_of(const struct model_type *t)
{
	const uint32_t fraction = t->kind == 'h' ? 7 : t->bits == 16 ? 10 : t->bits == 32 ? 23 : 52;
	const uint64_t sign = draw(2) << (t->bits - 1), one = UINT64_C(1) << fraction;
	const uint64_t all = (UINT64_C(1) << (t->bits - 1 - fraction)) - 1, middle = all / 2;
	const uint64_t edges[] = {0,
				  1,
				  one - 1,
				  one,
				  one + 1,
				  all << fraction,
				  (all << fraction) - 1,
				  (all << fraction) + 1,
				  all << fraction | one / 2};
	/* the second: halves of the last place of what has fewer */
	const uint64_t parts[] = {any() & (one - 1),
				  any() & (one - 1) & ~(one > 4096 ? one / 2048 - 1 : 0),
				  draw(4) << (fraction - 2)};
	const uint64_t part = parts[draw(3)];

	switch (draw(5)) {
	case 0:
		return sign | edges[draw(9)];
	case 1:
		return sign | (middle - 3 + draw(8)) << fraction | part;
	case 2: /* a whole number and a half, of about the size of the fraction */
		return sign |
		       (middle + draw(fraction + 2 < middle ? fraction + 2 : middle)) << fraction |
		       part;
	case 3: /* far from each other by about as much as matters */
		return sign | (middle - fraction - 2 + draw(5)) << fraction | part;
	default:
		return any();
	}
}

static uint64_t value_of(const struct model_type *t)
{
	if (t->bits == 8 && t->lanes == 2) /* floats of 8 bits */
		return any() & 0xffff;
	if (!is_float(t))
		return t->lanes == 2 ? (whole_of(16) & 0xffff) | whole_of(16) << 16
				     : whole_of(t->bits);
	if (t->lanes == 2)
		return (float_of(&(struct model_type){t->kind, 16, 1}) & 0xffff) |
		       (float_of(&(struct model_type){t->kind, 16, 1}) & 0xffff) << 16;
	return float_of(t);
}

static uint64_t cut(uint64_t v, uint32_t bits)
{
	return bits >= 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

/* Whether the float GOT is as near as the ISA wants it. */
static bool is_near(const struct model_op *op, const struct model_type *t,
		    const struct model_result *r, uint64_t got)
{
	const int exponents = t->bits == 16 && t->kind == 'f' ? 4 : t->bits == 64 ? 10 : 7;
	const long double d = model_float(t, got), least = ldexpl(1, 2 - (1 << exponents));
	const long double most = ldexpl(1, 1 << exponents);

	if (r->near != r->near)
		return d != d;
	if (fabsl(r->near) >= most * (1 - 0x1p-7L) && fabsl(r->near) < INFINITY)
		return fabsl(d) >= most / 2 * (1 - 0x1p-7L) && signbit(d) == signbit(r->near);
	if (isinf(r->near))
		return d == r->near;
	if (model_word(op, "ftz") && fabsl(r->near) <= least * (1 + 0x1p-18L) && d == 0)
		return true;
	return fabsl(d - r->near) <= r->bound + (t->bits == 16 ? fabsl(r->near) * 0x1p-8L : 0);
}

/* Whether the register of BITS has what the model says. */
static bool is_right(const struct model_op *op, const struct operands *o, const uint64_t *in,
		     const uint64_t *out, struct model_result *r)
{
	const struct model_type *to = op->first.bits ? &op->first : &op->last;
	uint64_t wanted;

	*r = model(op, in, in[4] & 1);
	if (!r->known)
		return true;
	if (r->has_other && (o->has_second || o->has_flag) && (uint32_t)out[1] != r->other)
		return false;
	if (r->approximate && to->lanes == 2) {
		const struct model_type one = {to->kind, 16, 1};
		const uint64_t upper[4] = {in[0] >> 16, in[1] >> 16, 0, 0};
		struct model_result high = model(op, upper, false);

		return is_near(op, &one, r, out[0] & 0xffff) &&
		       is_near(op, &one, &high, out[0] >> 16 & 0xffff);
	}
	if (r->approximate)
		return is_near(op, to, r, cut(out[0], to->bits));
	if (r->any_nan && is_float(to) && model_is_nan(to, r->value))
		return model_is_nan(to, out[0]);
	wanted = cut(r->value, o->to);
	if (strcmp(op->words[0], "cvt") == 0 && !is_float(to) &&
	    to->lanes == 1) /* extended to the register */
		wanted = cut(to->kind == 's' ? (uint64_t)((int64_t)(r->value << (64 - to->bits)) >>
							  (64 - to->bits))
					     : cut(r->value, to->bits),
			     o->to);
	return cut(out[0], o->to) == wanted;
}

struct run {
	uint64_t in[THREADS][8], out[THREADS][8];
};

static void launch(struct ptx *p, struct run *r, uint32_t threads)
{
	struct {
		uint64_t *out, *in, pin[2];
	} params = {r->out[0], r->in[0], {r->in[0][0], r->in[0][1]}};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .params = &params};

	ptx_run(p, &l);
}

static uint32_t n_checked, n_values, n_refused;

static void wrong(const char *opcode, const uint64_t *in, const uint64_t *out,
		  const struct model_result *r)
{
	static uint32_t said;

	if (said++ < 40)
		printf("%s of %llx %llx %llx %llx: %llx %llx, not %llx %llx (%Lg)\n", opcode,
		       (unsigned long long)in[0], (unsigned long long)in[1],
		       (unsigned long long)in[2], (unsigned long long)in[3],
		       (unsigned long long)out[0], (unsigned long long)out[1],
		       (unsigned long long)r->value, (unsigned long long)r->other, r->near);
	CU_FAIL("an instruction is wrong");
}

static struct ptx *readable(const struct text *t, const char *opcode)
{
	struct ptx *p = ptx_read(t->at, "f");

	if (!p) {
		printf("%s: %s\n", opcode, ptx_error());
		CU_FAIL("an instruction is refused");
	}
	return p;
}

static void computes(const struct ptx_form *form, const struct model_op *op)
{
	struct model_result result;
	struct operands o;
	struct text t;
	struct run r;
	struct ptx *p;
	uint32_t round, k, n;
	bool good = true;

	text_of(&t, form, op, &o);
	p = readable(&t, opcode(op));
	if (!p)
		return;
	for (round = 0; round < ROUNDS && good; round++) {
		memset(&r, 0, sizeof(r));
		for (k = 0; k < THREADS; k++) {
			for (n = 0; n < o.n; n++)
				r.in[k][n] = value_of(&o.of[n]);
			if (strchr(form->operands, 'i'))
				r.in[k][o.n - 1] = o.immediate;
			r.in[k][4] = draw(2);
		}
		launch(p, &r, THREADS);
		for (k = 0; k < THREADS && good; k++, n_values++) {
			good = is_right(op, &o, r.in[k], r.out[k], &result);
			if (!good)
				wrong(opcode(op), r.in[k], r.out[k], &result);
		}
	}
	ptx_free(p);
}

/* memory */

static const char *space_of(const struct model_op *op)
{
	const char *const spaces[] = {"const",	"global",	"local",
				      "param",	"param::entry", "param::func",
				      "shared", "shared::cta",	"shared::cluster"};
	size_t k;

	for (k = 0; k < sizeof(spaces) / sizeof(spaces[0]); k++)
		if (model_word(op, spaces[k]))
			return spaces[k];
	return "";
}

/* The variable of 16 bytes in the instruction's space, and the word by which others reach it. */
static const char *variable_of(const struct model_op *op, const char *global, const char **space)
{
	const char *is = space_of(op);

	*space = strncmp(is, "shared", 6) == 0 ? ".shared"
		 : strcmp(is, "local") == 0    ? ".local"
					       : "";
	if (strncmp(is, "shared", 6) == 0)
		return "sv";
	if (strcmp(is, "local") == 0)
		return "lv";
	if (strcmp(is, "const") == 0)
		return "cc";
	if (strcmp(is, "param::func") == 0 || (*is == 'p' && op->words[0][0] == 's')) {
		*space = ".param";
		return "pv";
	}
	return *is == 'p' ? "pin" : global;
}

static void bytes_of(uint64_t *to, const uint64_t *in, const struct model_op *op, uint32_t k,
		     uint32_t bits)
{
	const uint32_t size = op->last.bits / 8;
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)in + k * size, size);
	if (op->last.kind == 's')
		v = (uint64_t)((int64_t)(v << (64 - op->last.bits)) >> (64 - op->last.bits));
	*to = cut(v, bits);
}

static uint32_t width_of(const struct model_op *op)
{
	return model_word(op, "v4") ? 4 : model_word(op, "v2") ? 2 : 1;
}

/* "{%e0, %e1}" or "%e0" */
static void elements(struct text *t, uint32_t n)
{
	uint32_t k;

	for (k = 0; k < n; k++)
		add(t, "%s%%e%u", k ? ", " : n > 1 ? "{" : "", k);
	add(t, n > 1 ? "}" : "");
}

static void run_memory(const struct text *t, const struct model_op *op, struct run *r)
{
	struct ptx *p = readable(t, opcode(op));
	size_t bytes;
	void *at;

	memset(r->out, 0, sizeof(r->out));
	if (!p)
		return;
	CU_ASSERT_FATAL(ptx_global(p, "cc", &at, &bytes) && bytes == 16);
	memcpy(at, r->in[0], 16);
	launch(p, r, 1);
	ptx_free(p);
}

static void loads(const struct model_op *op)
{
	const uint32_t n = width_of(op), bits = register_for(op->last.bits, !is_float(&op->last));
	const char *space, *from = variable_of(op, "%in", &space);
	struct model_result none = {.known = false};
	struct text t = {.n = 0};
	struct run r;
	uint64_t wanted;
	uint32_t k;

	add(&t, "%s.reg .b%u %%e<4>;\n", begin, bits);
	if (*space)
		add(&t, "ld.global.v2.b64 {%%x, %%y}, [%%in];\nst%s.v2.b64 [%s], {%%x, %%y};\n",
		    space, from);
	add(&t, "%s ", opcode(op));
	elements(&t, n);
	add(&t, ", [%s];\n", from);
	for (k = 0; k < n; k++)
		add(&t, "st.global.b%u [%%out+%u], %%e%u;\n", bits, k * 8, k);
	add(&t, "}\n");
	r.in[0][0] = any();
	r.in[0][1] = any();
	run_memory(&t, op, &r);
	for (k = 0; k < n; k++) {
		bytes_of(&wanted, r.in[0], op, k, bits);
		none.value = wanted;
		if (wanted != r.out[0][k])
			wrong(opcode(op), r.in[0], &r.out[0][k], &none);
	}
}

static void stores(const struct model_op *op)
{
	const uint32_t n = width_of(op), bits = register_for(op->last.bits, !is_float(&op->last));
	const char *space, *to = variable_of(op, "%out", &space);
	struct model_result none = {.known = false};
	struct text t = {.n = 0};
	uint64_t wanted[2];
	struct run r;
	uint32_t k;

	add(&t,
	    "%s.reg .b%u %%e<4>;\nld.global.v2.b64 {%%x, %%y}, [%%in+32];\n"
	    "st%s.v2.b64 [%s], {%%x, %%y};\n",
	    begin, bits, *space ? space : ".global", to);
	for (k = 0; k < n; k++)
		add(&t, "ld.global.b%u %%e%u, [%%in+%u];\n", bits, k, k * 8);
	add(&t, "%s [%s], ", opcode(op), to);
	elements(&t, n);
	add(&t, ";\n");
	if (*space)
		add(&t, "ld%s.v2.b64 {%%x, %%y}, [%s];\nst.global.v2.b64 [%%out], {%%x, %%y};\n",
		    space, to);
	add(&t, "}\n");
	for (k = 0; k < 8; k++)
		r.in[0][k] = any();
	run_memory(&t, op, &r);
	memcpy(wanted, &r.in[0][4], 16); /* what is not stored to stays */
	for (k = 0; k < n; k++)
		memcpy((uint8_t *)wanted + k * op->last.bits / 8, &r.in[0][k], op->last.bits / 8);
	none.value = wanted[0];
	none.other = wanted[1];
	if (memcmp(wanted, r.out[0], 16) != 0)
		wrong(opcode(op), r.in[0], r.out[0], &none);
}

/* %d = the old value, which is in memory, of the new ones %e0 and %e1. */
static void changes(const struct model_op *op)
{
	const uint32_t bits = bits_of(&op->last);
	const bool red = strcmp(op->words[0], "red") == 0, two = model_word(op, "cas");
	const char *space, *at = variable_of(op, "%in", &space);
	struct model_result is;
	struct text t = {.n = 0};
	struct run r;
	uint32_t round, k;
	uint64_t wanted;

	add(&t,
	    "%s.reg .b%u %%d, %%e<4>;\nmov.b%u %%d, 0;\nld.global.b%u %%e0, [%%in+8];\n"
	    "ld.global.b%u %%e1, [%%in+16];\nld.global.b64 %%x, [%%in];\nst%s.b64 [%s], %%x;\n",
	    begin, bits, bits, bits, bits, *space ? space : ".global", at);
	add(&t, "%s %s[%s], %%e0%s;\n", opcode(op), red ? "" : "%d, ", at, two ? ", %e1" : "");
	add(&t,
	    "ld%s.b64 %%x, [%s];\nst.global.b%u [%%out], %%d;\nst.global.b64 [%%out+8], %%x;\n}\n",
	    *space ? space : ".global", at, bits);
	for (round = 0; round < 12; round++) {
		for (k = 0; k < 3; k++)
			r.in[0][k] = value_of(&op->last);
		if (two && draw(2))
			r.in[0][1] = r.in[0][0];
		wanted = r.in[0][0];
		is = model_atom(op, cut(wanted, bits), cut(r.in[0][1], bits), cut(r.in[0][2], bits),
				*space == '.');
		run_memory(&t, op, &r);
		if (bits == 64 && is_float(&op->last) && model_is_nan(&op->last, is.value))
			is.value = model_is_nan(&op->last, r.out[0][1]) ? r.out[0][1] : is.value;
		is.value = (wanted & ~cut(UINT64_MAX, bits)) | cut(is.value, bits);
		is.other = red ? 0 : cut(wanted, bits);
		if (is.value != r.out[0][1] || is.other != r.out[0][0])
			wrong(opcode(op), (uint64_t[4]){wanted, r.in[0][1], r.in[0][2]}, r.out[0],
			      &is);
	}
}

/* What the table refuses is refused when it is read, and by its name. */
static void refuses(const struct ptx_form *, const struct model_op *op)
{
	struct text t = {.n = 0};
	const char *c;
	struct ptx *p;
	int lines = 1;
	char line[40];

	for (c = begin; *c; c++)
		lines += *c == '\n';
	add(&t, "%s%s %%x, %%y;\n}\n", begin, opcode(op));
	p = ptx_read(t.at, "f");
	if (p)
		printf("%s is not refused\n", opcode(op));
	CU_ASSERT_FATAL(!p);
	snprintf(line, sizeof(line), "line %d: ", lines);
	if (!strstr(ptx_error(), opcode(op)) || strncmp(ptx_error(), line, strlen(line)) != 0)
		printf("%s\n", ptx_error());
	CU_ASSERT(strstr(ptx_error(), opcode(op)) && strncmp(ptx_error(), line, strlen(line)) == 0);
	n_refused++;
}

static void by_name(const struct ptx_form *form, const struct model_op *op)
{
	char name[40];

	n_checked += !form->refused;
	if (form->refused) {
		refuses(form, op);
	} else if (model_has(op)) {
		computes(form, op);
	} else if (strcmp(op->words[0], "ld") == 0 || strcmp(op->words[0], "ldu") == 0) {
		loads(op);
	} else if (strcmp(op->words[0], "st") == 0) {
		stores(op);
	} else if (strcmp(op->words[0], "atom") == 0 || strcmp(op->words[0], "red") == 0) {
		changes(op);
	} else {
		snprintf(name, sizeof(name), " %s ", op->words[0]);
		if (!strstr(by_hand, name))
			printf("%s\n", opcode(op));
		CU_ASSERT(strstr(by_hand, name) != NULL);
	}
}

TEST(table, "what the table has is right or refused")
{
	struct ptx_form form;
	uint32_t i;

	for (i = 0; ptx_form(i, &form); i++)
		each(&form, by_name);
	printf("%u instructions executed, %u values; %u refused\n", n_checked, n_values, n_refused);
	CU_ASSERT(n_checked > 8000 && n_refused > 1000);
}

SUITE_MAIN("ptx_table")
