/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "draw.h"
#include "ptx.h"

#define MAX_CODE 1024u
#define MAX_SYMBOLS 1024u
#define MAX_GLOBALS 65536u
#define MAX_PARAMS 34u /* of a launch, the gate, and one too many */

enum op {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_MAD,
	OP_DIV,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_NOT,
	OP_SHL,
	OP_SHR,
	OP_SHF,
	OP_SETP,
	OP_CVT,
	OP_MOV,
	OP_LD,
	OP_ST,
	OP_BRA,
	OP_BAR,
	OP_RET,
};
static const char *const op_names[] = {"add", "sub", "mul", "mad", "div", "and",  "or",
				       "xor", "not", "shl", "shr", "shf", "setp", "cvt",
				       "mov", "ld",  "st",  "bra", "bar", "ret"};
enum compare { LT, LE, GT, GE, EQ, NE, GTU };
static const char *const compare_names[] = {"lt", "le", "gt", "ge", "eq", "ne", "gtu"};

enum space { SPACE_HERE, SPACE_PARAM, SPACE_SHARED };

/* 'u', 's', 'f' or 'b', and bits; a predicate has one. */
struct type {
	char kind;
	uint8_t bits;
};

/* Of operands and of names. DYNAMIC lies behind all other shared memory. */
enum kind { VALUE, REGISTER, SPECIAL, LOCAL, DYNAMIC, LABEL };
enum special { TID, NTID = 3, CTAID = 6, NCTAID = 9, TIME = 12 };

struct operand {
	enum kind kind;
	uint64_t value; /* or the register's number, or enum special */
	int64_t offset;
};

struct instruction {
	enum op op;
	struct type to, type;
	enum compare compare;
	enum space space;
	bool wide, guarded, negated, seen_by_others; /* volatile */
	uint64_t guard;
	struct operand operands[4];
	uint32_t n;
	char label[64]; /* until all labels are known */
};

struct symbol {
	char name[64];
	enum kind kind;
	uint64_t value;
	uint32_t scope; /* 0: of all */
	bool gone;	/* with its scope */
};

struct place {
	uint32_t at, size;
};

struct ptx {
	const char *at;
	char token[64];
	struct instruction code[MAX_CODE];
	struct symbol symbols[MAX_SYMBOLS];
	uint8_t globals[MAX_GLOBALS];
	uint32_t n_code, n_symbols, n_registers;
	uint32_t shared, local, n_globals, scope;
	struct place params[MAX_PARAMS];
	uint32_t n_params, params_end;
	bool reads;
	jmp_buf given_up;
};

struct thread {
	uint64_t *registers;
	uint8_t *local;
	uint32_t pc, id[3];
	bool waits, over;
};

struct block {
	const struct ptx_launch *launch;
	uint8_t *shared;
	uint32_t dynamic; /* where that begins */
	uint32_t id[3];
};

/* While it is read, there is somebody to go back to. */
__attribute__((noreturn)) static void stop(struct ptx *p, const char *what)
{
	fprintf(stderr, "PTX: %s at %s: %.60s\n", what, p->token, p->at);
	if (p->reads)
		longjmp(p->given_up, 1);
	abort();
}

/* reading */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || strchr("_$%.", c);
}

/* Past white space and comments: whether anything follows. */
static bool more(struct ptx *p)
{
	for (;;) {
		p->at += strspn(p->at, " \t\r\n");
		if (strncmp(p->at, "//", 2) == 0)
			p->at += strcspn(p->at, "\n");
		else if (strncmp(p->at, "/*", 2) == 0 && strstr(p->at, "*/"))
			p->at = strstr(p->at, "*/") + 2;
		else
			return *p->at;
	}
}

static const char *next(struct ptx *p)
{
	size_t n = 0;

	if (!more(p))
		stop(p, "it ends");
	do {
		p->token[n++] = *p->at++;
	} while (is_word(p->token[0]) && *p->at && is_word(*p->at) && n < sizeof(p->token) - 1);
	p->token[n] = 0;
	return p->token;
}

static bool is(const struct ptx *p, const char *text)
{
	return strcmp(p->token, text) == 0;
}

static void want(struct ptx *p, const char *text)
{
	next(p);
	if (!is(p, text))
		stop(p, text);
}

/* 0f and 0d: the bits of a float. */
static uint64_t number(struct ptx *p)
{
	const char *t = p->token;
	bool negative = is(p, "-");
	char *end;
	uint64_t v;

	if (negative)
		t = next(p);
	if (t[0] == '0' && (t[1] == 'f' || t[1] == 'd'))
		v = strtoull(t + 2, &end, 16);
	else
		v = strtoull(t, &end, 0);
	if (end == t || *end)
		stop(p, "no number");
	return negative ? -v : v;
}

static struct symbol *add(struct ptx *p, const char *name, enum kind kind, uint64_t value)
{
	struct symbol *s = &p->symbols[p->n_symbols++];

	if (p->n_symbols == MAX_SYMBOLS)
		stop(p, "too many names");
	*s = (struct symbol){.kind = kind, .value = value, .scope = p->scope};
	snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

static struct symbol *find(struct ptx *p, const char *name)
{
	uint32_t i;

	for (i = p->n_symbols; i-- > 0;)
		if (!p->symbols[i].gone && strcmp(p->symbols[i].name, name) == 0)
			return &p->symbols[i];
	return NULL;
}

/* .pred, .b8 to .b64, .u8 ..., .s8 ..., .f32, .f64: the word behind the point. */
static bool read_type(const char *word, size_t n, struct type *out)
{
	if (n == 4 && memcmp(word, "pred", 4) == 0) {
		*out = (struct type){'b', 1};
		return true;
	}
	if (n < 2 || n > 3 || !strchr("usfb", word[0]) || !isdigit((unsigned char)word[1]))
		return false;
	*out = (struct type){word[0], (uint8_t)atoi(word + 1)};
	return true;
}

struct variable {
	char name[64];
	uint32_t align, size;
};

/* After the word that says its space: [.align N] .TYPE [.ptr ...] NAME [[N]]. */
static struct variable declaration(struct ptx *p)
{
	struct variable v = {.align = 1, .size = 1};
	bool pointer = false;
	struct type type;

	while (*next(p) == '.') {
		if (is(p, ".ptr")) {
			pointer = true;
		} else if (is(p, ".align")) {
			next(p);
			v.align = pointer ? v.align : (uint32_t)number(p);
		} else if (read_type(p->token + 1, strlen(p->token + 1), &type)) {
			v.size = type.bits / 8;
			v.align = v.size > v.align ? v.size : v.align;
		}
	}
	snprintf(v.name, sizeof(v.name), "%s", p->token);
	if (*p->at == '[') {
		next(p);
		next(p);
		v.size *= is(p, "]") ? 0 : (uint32_t)number(p);
		if (!is(p, "]"))
			want(p, "]");
	}
	return v;
}

/* Where something lies behind all that is in a space already. */
static uint32_t place(uint32_t *end, const struct variable *v)
{
	uint32_t at = (*end + v->align - 1) / v->align * v->align;

	*end = at + v->size;
	return at;
}

static void global(struct ptx *p)
{
	struct variable v = declaration(p);
	uint32_t at = place(&p->n_globals, &v);

	if (p->n_globals > MAX_GLOBALS)
		stop(p, "too much memory");
	add(p, v.name, VALUE, (uint64_t)(uintptr_t)&p->globals[at]);
	while (!is(p, ";"))
		if (isdigit((unsigned char)*next(p)))
			p->globals[at++] = (uint8_t)number(p);
}

static void shared(struct ptx *p)
{
	struct variable v = declaration(p);

	add(p, v.name, v.size ? VALUE : DYNAMIC, place(&p->shared, &v));
	want(p, ";");
}

static void skip(struct ptx *p)
{
	uint32_t depth = 0;

	do {
		next(p);
		depth += is(p, "{");
		depth -= is(p, "}");
	} while (!is(p, ";") && !(is(p, "}") && depth == 0));
	while (depth > 0) {
		next(p);
		depth += is(p, "{");
		depth -= is(p, "}");
	}
}

/* .reg .TYPE NAME[<N>]; */
static void registers(struct ptx *p)
{
	char name[64], each[80];
	uint64_t n, i;

	next(p);
	snprintf(name, sizeof(name), "%s", next(p));
	next(p);
	if (is(p, ";")) {
		add(p, name, REGISTER, p->n_registers++);
		return;
	}
	next(p);
	n = number(p);
	for (i = 0; i < n; i++) {
		snprintf(each, sizeof(each), "%s%llu", name, (unsigned long long)i);
		add(p, each, REGISTER, p->n_registers++);
	}
	want(p, ">");
	want(p, ";");
}

static struct operand operand(struct ptx *p)
{
	static const struct {
		const char *name;
		uint64_t number;
	} specials[] = {{"%tid.", TID},
			{"%ntid.", NTID},
			{"%ctaid.", CTAID},
			{"%nctaid.", NCTAID},
			{"%globaltimer", TIME}};
	struct operand o = {.kind = VALUE};
	const struct symbol *s = find(p, p->token);
	size_t i, n;

	if (s) {
		o.kind = s->kind;
		o.value = s->value;
		return o;
	}
	for (i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
		n = strlen(specials[i].name);
		if (strncmp(p->token, specials[i].name, n) == 0) {
			o.kind = SPECIAL;
			o.value = specials[i].number +
				  (p->token[n] ? (uint64_t)(p->token[n] - 'x') : 0);
			return o;
		}
	}
	o.value = number(p);
	return o;
}

/* [x], [x+4] or x */
static struct operand memory_operand(struct ptx *p)
{
	struct operand o;

	if (!is(p, "["))
		return operand(p);
	next(p);
	o = operand(p);
	next(p);
	if (is(p, "+")) {
		next(p);
		o.offset = (int64_t)number(p);
		next(p);
	}
	if (!is(p, "]"))
		stop(p, "no ]");
	return o;
}

/* The words of an opcode, between points. */
static void opcode(struct ptx *p, struct instruction *i)
{
	static const struct {
		const char *name;
		enum space space;
	} spaces[] = {{"param", SPACE_PARAM}, {"shared", SPACE_SHARED}};
	const char *word = p->token;
	size_t n = strcspn(word, "."), k;
	/* Addresses are the same in all spaces that are converted between. */
	bool known = n == 4 && memcmp(word, "cvta", n) == 0;

	if (known)
		i->op = OP_MOV;
	for (k = 0; k < sizeof(op_names) / sizeof(op_names[0]) && !known; k++)
		if (strlen(op_names[k]) == n && memcmp(op_names[k], word, n) == 0) {
			i->op = (enum op)k;
			known = true;
		}
	if (!known)
		stop(p, "an unknown instruction");
	for (word += n; *word; word += n) {
		struct type type;

		n = strcspn(++word, ".");
		for (k = 0; k < sizeof(spaces) / sizeof(spaces[0]); k++)
			if (strncmp(word, spaces[k].name, n) == 0 && !spaces[k].name[n])
				i->space = spaces[k].space;
		for (k = 0; k < sizeof(compare_names) / sizeof(compare_names[0]); k++)
			if (strncmp(word, compare_names[k], n) == 0 && !compare_names[k][n])
				i->compare = (enum compare)k;
		i->wide |= n == 4 && memcmp(word, "wide", 4) == 0;
		i->seen_by_others |= n == 8 && memcmp(word, "volatile", 8) == 0;
		if (read_type(word, n, &type)) {
			i->to = i->type.bits ? i->to : type;
			i->type = type;
		}
	}
}

static void instruction(struct ptx *p)
{
	struct instruction *i = &p->code[p->n_code++];

	if (p->n_code == MAX_CODE)
		stop(p, "too much code");
	*i = (struct instruction){0};
	if (is(p, "@")) {
		i->guarded = true;
		i->negated = *next(p) == '!';
		if (i->negated)
			next(p);
		i->guard = operand(p).value;
		next(p);
	}
	opcode(p, i);
	for (next(p); !is(p, ";"); next(p)) {
		if (is(p, ","))
			continue;
		if (i->op == OP_BRA)
			snprintf(i->label, sizeof(i->label), "%s", p->token);
		else if (i->n < 4)
			i->operands[i->n++] = memory_operand(p);
		else
			stop(p, "too many operands");
	}
}

static void local(struct ptx *p)
{
	struct variable v = declaration(p);

	add(p, v.name, LOCAL, place(&p->local, &v));
	want(p, ";");
}

static void close_scope(struct ptx *p)
{
	uint32_t i;

	for (i = 0; i < p->n_symbols; i++)
		if (p->symbols[i].scope == p->scope && p->symbols[i].kind != LABEL)
			p->symbols[i].gone = true;
	p->scope--;
}

static void body(struct ptx *p)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p);
	} words[] = {{".reg", registers}, {".shared", shared}, {".local", local}};
	size_t i;

	for (p->scope = 1; p->scope > 0;) {
		next(p);
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (is(p, words[i].word))
				break;
		if (i < sizeof(words) / sizeof(words[0]))
			words[i].read(p);
		else if (is(p, "{"))
			p->scope++;
		else if (is(p, "}"))
			close_scope(p);
		else if (*p->at == ':' && *p->at++)
			add(p, p->token, LABEL, p->n_code);
		else
			instruction(p);
	}
}

/* A label's branch may come before it. */
static void resolve(struct ptx *p)
{
	uint32_t i;

	for (i = 0; i < p->n_code; i++) {
		const struct symbol *s = p->code[i].op == OP_BRA ? find(p, p->code[i].label) : NULL;

		if (p->code[i].op == OP_BRA && !s)
			stop(p, p->code[i].label);
		if (s)
			p->code[i].operands[0].value = s->value;
	}
}

static void parameters(struct ptx *p)
{
	struct variable v;
	uint32_t at;

	while (more(p) && *p->at != ')') {
		want(p, ".param");
		v = declaration(p);
		if (p->n_params == MAX_PARAMS)
			stop(p, "too many parameters");
		at = place(&p->params_end, &v);
		p->params[p->n_params++] = (struct place){at, v.size};
		add(p, v.name, VALUE, at);
		if (more(p) && *p->at == ',')
			next(p);
	}
	next(p);
}

/* Whether it was the entry wanted. */
static bool entry(struct ptx *p, const char *name)
{
	next(p);
	if (!name || !is(p, name)) {
		skip(p);
		return false;
	}
	if (more(p) && *p->at == '(') {
		next(p);
		parameters(p);
	}
	while (!is(p, "{"))
		next(p);
	body(p);
	resolve(p);
	return true;
}

static void value(struct ptx *p)
{
	next(p);
}

static void ready(struct ptx *p)
{
	(void)p;
}

/* What is outside of entries, and the entry. */
static bool module(struct ptx *p, const char *name)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p);
	} words[] = {
		{".const", global},  {".global", global},      {".shared", shared},
		{".func", skip},     {".version", value},      {".target", value},
		{".visible", ready}, {".address_size", value}, {".extern", ready},
	};
	size_t i;

	while (more(p)) {
		next(p);
		for (i = 0; i < sizeof(words) / sizeof(words[0]) && !is(p, words[i].word); i++)
			;
		if (i < sizeof(words) / sizeof(words[0]))
			words[i].read(p);
		else if (!is(p, ".entry"))
			stop(p, "an unknown directive");
		else if (entry(p, name))
			return true;
	}
	return !name;
}

static bool read_all(struct ptx *p, const char *name)
{
	return setjmp(p->given_up) == 0 && module(p, name);
}

struct ptx *ptx_read(const char *text, const char *name)
{
	struct ptx *p = calloc(1, sizeof(*p));

	p->at = text;
	p->reads = true;
	if (!read_all(p, name)) {
		free(p);
		return NULL;
	}
	p->reads = false;
	return p;
}

bool ptx_param(const struct ptx *p, uint32_t i, uint32_t *at, uint32_t *size)
{
	if (i >= p->n_params)
		return false;
	*at = p->params[i].at;
	*size = p->params[i].size;
	return true;
}

uint32_t ptx_shared(const struct ptx *p)
{
	return p->shared;
}

void ptx_free(struct ptx *p)
{
	free(p);
}

/* running */

static uint64_t cut(struct type type, uint64_t v)
{
	return type.bits == 64 ? v : v & ((UINT64_C(1) << type.bits) - 1);
}

/* As a number of 64 bits. */
static uint64_t widen(struct type type, uint64_t v)
{
	uint64_t sign = UINT64_C(1) << (type.bits - 1);

	v = cut(type, v);
	return type.kind == 's' ? (v ^ sign) - sign : v;
}

static double to_float(struct type type, uint64_t v)
{
	uint32_t half = (uint32_t)v;
	double d;
	float f;

	memcpy(&f, &half, sizeof(f));
	memcpy(&d, &v, sizeof(d));
	return type.bits == 32 ? (double)f : d;
}

static uint64_t from_float(struct type type, double d)
{
	float f = (float)d;
	uint32_t half;
	uint64_t v;

	memcpy(&half, &f, sizeof(f));
	memcpy(&v, &d, sizeof(d));
	return type.bits == 32 ? half : v;
}

/* Of floats of 32 bits the sum, difference and product as doubles, rounded once more, are what they
 * are as floats: a double has more than twice their bits and two (Figueroa, 1995). */
static uint64_t float_result(struct ptx *p, enum op op, struct type type, double a, double b)
{
	switch (op) {
	case OP_ADD:
		return from_float(type, a + b);
	case OP_SUB:
		return from_float(type, a - b);
	case OP_MUL:
		return from_float(type, a * b);
	default:
		stop(p, "not with floats");
	}
}

static uint64_t shifted(struct type type, enum op op, uint64_t a, uint64_t by)
{
	if (op == OP_SHL)
		return by < type.bits ? a << by : 0;
	if (type.kind == 's')
		return (uint64_t)((int64_t)a >> (by < 63 ? by : 63));
	return by < type.bits ? a >> by : 0;
}

static uint64_t result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	uint64_t a = widen(i->type, v[0]), b = widen(i->type, v[1]);

	if (i->type.kind == 'f' && i->op != OP_MOV)
		return float_result(p, i->op, i->type, to_float(i->type, v[0]),
				    to_float(i->type, v[1]));
	switch (i->op) {
	case OP_ADD:
		return a + b;
	case OP_SUB:
		return a - b;
	case OP_MUL:
		return a * b;
	case OP_MAD:
		return a * b + v[2];
	case OP_DIV:
		if (b == 0)
			stop(p, "division by 0");
		return i->type.kind == 's' ? (uint64_t)((int64_t)a / (int64_t)b) : a / b;
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
	case OP_SHF: /* .l.wrap: the upper half of b:a, so far to the left */
		return ((b << 32 | a) << (v[2] & 31)) >> 32;
	default:
		return v[0];
	}
}

static bool compare(const struct instruction *i, uint64_t x, uint64_t y)
{
	uint64_t a = widen(i->type, x), b = widen(i->type, y);
	int order = i->type.kind == 's' ? ((int64_t)a > (int64_t)b) - ((int64_t)a < (int64_t)b)
					: (a > b) - (a < b);
	bool unordered = false;

	if (i->type.kind == 'f') {
		double f = to_float(i->type, x), g = to_float(i->type, y);

		order = (f > g) - (f < g);
		unordered = f != f || g != g;
	}
	switch (i->compare) {
	case LT:
		return !unordered && order < 0;
	case LE:
		return !unordered && order <= 0;
	case GT:
		return !unordered && order > 0;
	case GE:
		return !unordered && order >= 0;
	case EQ:
		return !unordered && order == 0;
	case NE:
		return !unordered && order != 0;
	default: /* GTU */
		return unordered || order > 0;
	}
}

static uint64_t convert(struct ptx *p, const struct instruction *i, uint64_t v)
{
	if (i->type.kind == 'f')
		stop(p, "a conversion of a float");
	v = widen(i->type, v);
	if (i->to.kind != 'f')
		return v;
	return from_float(i->to, i->type.kind == 's' ? (double)(int64_t)v : (double)v);
}

static uint64_t special(const struct block *b, const struct thread *t, uint64_t which)
{
	const uint32_t *const sets[] = {t->id, b->launch->block, b->id, b->launch->grid};
	struct timespec now;

	if (which < TIME)
		return sets[which / 3][which % 3];
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t get(const struct block *b, const struct thread *t, const struct operand *o)
{
	switch (o->kind) {
	case REGISTER:
		return t->registers[o->value] + (uint64_t)o->offset;
	case SPECIAL:
		return special(b, t, o->value);
	case LOCAL:
		return (uint64_t)(uintptr_t)t->local + o->value + (uint64_t)o->offset;
	case DYNAMIC:
		return b->dynamic + (uint64_t)o->offset;
	default:
		return o->value + (uint64_t)o->offset;
	}
}

static uint8_t *address(const struct block *b, enum space space, uint64_t at)
{
	if (space == SPACE_PARAM)
		return (uint8_t *)(uintptr_t)b->launch->params + at;
	if (space == SPACE_SHARED)
		return b->shared + at;
	return (uint8_t *)(uintptr_t)at;
}

static uint64_t load(const struct instruction *i, const uint8_t *from)
{
	uint64_t v = 0;

	if (i->seen_by_others && i->type.bits == 32)
		return __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
	memcpy(&v, from, i->type.bits / 8);
	return v;
}

static void store(const struct instruction *i, uint8_t *to, uint64_t v)
{
	if (i->seen_by_others && i->type.bits == 64)
		__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELAXED);
	else
		memcpy(to, &v, i->type.bits / 8);
}

static void step(struct ptx *p, const struct block *b, struct thread *t)
{
	const struct instruction *i = &p->code[t->pc++];
	const struct operand *o = i->operands;
	uint64_t v[3] = {0}, r;
	uint32_t k, first = i->op == OP_ST ? 0 : 1;

	if (i->guarded && (t->registers[i->guard] & 1) == i->negated)
		return;
	for (k = 0; k + first < i->n && k < 3; k++)
		v[k] = get(b, t, &o[k + first]);
	switch (i->op) {
	case OP_BRA:
		t->pc = (uint32_t)o[0].value;
		return;
	case OP_BAR:
		t->waits = true;
		return;
	case OP_RET:
		t->over = true;
		return;
	case OP_ST:
		store(i, address(b, i->space, v[0]), v[1]);
		return;
	case OP_LD:
		r = load(i, address(b, i->space, v[0]));
		break;
	case OP_SETP:
		r = compare(i, v[0], v[1]);
		break;
	case OP_CVT:
		r = cut(i->to, convert(p, i, v[0]));
		break;
	default:
		r = result(p, i, v);
		r = i->wide ? r : cut(i->type, r);
		break;
	}
	t->registers[o[0].value] = r;
}

/* Each thread up to the next barrier, or its end; then again. Any may be the first. */
static void run_block(struct ptx *p, const struct block *b, struct thread *threads, uint32_t n)
{
	uint32_t k, left = n;

	while (left > 0) {
		uint32_t first = (uint32_t)draw(n);

		for (k = 0, left = 0; k < n; k++) {
			struct thread *t = &threads[(first + k) % n];

			for (t->waits = false; !t->waits && !t->over;)
				step(p, b, t);
			left += !t->over;
		}
	}
}

static void place_in(const uint32_t *size, uint64_t n, uint32_t *id)
{
	id[0] = (uint32_t)(n % size[0]);
	id[1] = (uint32_t)(n / size[0] % size[1]);
	id[2] = (uint32_t)(n / size[0] / size[1]);
}

void ptx_run(struct ptx *p, const struct ptx_launch *l)
{
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], i, other, swap;
	uint32_t n = l->block[0] * l->block[1] * l->block[2], k;
	size_t each = p->n_registers + (p->local + 7) / 8 + 1;
	uint64_t *order = malloc(blocks * sizeof(*order)), *memory = malloc(n * each * 8);
	struct thread *threads = malloc(n * sizeof(*threads));
	struct block b = {
		.launch = l,
		.shared = malloc(p->shared + l->shared + 1),
		.dynamic = p->shared,
	};

	for (i = 0; i < blocks; i++)
		order[i] = i;
	for (i = 0; i < blocks; i++) {
		other = i + draw(blocks - i);
		swap = order[i];
		order[i] = order[other];
		order[other] = swap;
		place_in(l->grid, order[i], b.id);
		if (l->begins)
			l->begins(l->data, i);
		/* what nobody has written is anything */
		memset(memory, (int)draw(256), n * each * 8);
		memset(b.shared, (int)draw(256), p->shared + l->shared);
		for (k = 0; k < n; k++) {
			uint64_t *registers = memory + k * each;

			threads[k] = (struct thread){
				.registers = registers,
				.local = (uint8_t *)(registers + p->n_registers),
			};
			place_in(l->block, k, threads[k].id);
		}
		run_block(p, &b, threads, n);
	}
	free(order);
	free(memory);
	free(threads);
	free(b.shared);
}
