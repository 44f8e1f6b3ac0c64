/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx_private.h"

/* The label behind the body of a function. No word can be the same. */
#define END "}"

static void call(struct ptx *p, const struct instruction *guard);

/* In the order of enum op and enum compare. */
static const char *const op_names[] = {"add",  "sub",  "mul",  "mad",  "div",	  "and",    "or",
				       "xor",  "not",  "shl",  "shr",  "shf",	  "setp",   "cvt",
				       "mov",  "ld",   "st",   "bra",  "bar",	  "ret",    "fma",
				       "neg",  "abs",  "min",  "max",  "rem",	  "selp",   "popc",
				       "clz",  "brev", "sqrt", "rcp",  "rsqrt",	  "ex2",    "lg2",
				       "atom", "red",  "shfl", "vote", "barrier", "membar", "fence",
				       "exit", "bfe",  "bfi",  "vadd"};
/* In the order of enum how. */
static const char *const how_names[] = {"",    "add",  "min", "max",	"and",	"or",
					"xor", "exch", "cas", "up",	"down", "bfly",
					"idx", "all",  "any", "ballot", "popc", "warp",
					"rni", "rzi",  "rmi", "rpi"};
static const char *const compare_names[] = {"lt",  "le",  "gt",	 "ge",	"eq",  "ne",
					    "ltu", "leu", "gtu", "geu", "equ", "neu"};

void ptx_stop(struct ptx *p, const char *what)
{
	fprintf(stderr, "PTX: %s at %s: %.60s\n", what, p->token, p->at);
	if (p->reads)
		longjmp(p->given_up, 1);
	abort();
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || strchr("_$%.", c);
}

/* Skips white space and comments. Returns whether anything follows. */
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
		ptx_stop(p, "it ends");
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
		ptx_stop(p, text);
}

/* Reads a number; the prefixes 0f and 0d mean the bits of a float. */
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
		ptx_stop(p, "no number");
	return negative ? -v : v;
}

static struct type type_of(char kind, uint32_t bits)
{
	const uint64_t top = bits ? UINT64_C(1) << (bits - 1) : 0;

	return (struct type){kind, (uint8_t)bits, top * 2 - 1, kind == 's' ? top : 0};
}

/* Reads the type in WORD, without its dot: pred, b8 to b64, u8 ..., s8 ..., f32, f64. */
static bool read_type(const char *word, size_t n, struct type *out)
{
	uint32_t bits;

	if (n == 4 && memcmp(word, "pred", 4) == 0) {
		*out = type_of('b', 1);
		return true;
	}
	if (n < 2 || n > 3 || !strchr("usfb", word[0]))
		return false;
	bits = (uint32_t)atoi(word + 1);
	if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
		return false;
	*out = type_of(word[0], bits);
	return true;
}

struct variable {
	char name[PTX_NAME];
	uint32_t align, size, count;
};

/* One that is no more than the bytes of the largest array. */
static uint32_t small_number(struct ptx *p)
{
	uint64_t n = number(p);

	if (n > MAX_GLOBALS)
		ptx_stop(p, "too large a number");
	return (uint32_t)n;
}

/* Reads a declaration after the word for its space: [.align N] .TYPE [.ptr ...] NAME [[N]]. */
static struct variable declaration(struct ptx *p)
{
	struct variable v = {.align = 1, .size = 1, .count = 1};
	bool pointer = false;
	struct type type;

	while (*next(p) == '.') {
		if (is(p, ".ptr")) {
			pointer = true;
		} else if (is(p, ".align")) {
			next(p);
			v.align = pointer ? v.align : small_number(p);
		} else if (read_type(p->token + 1, strlen(p->token + 1), &type)) {
			v.size = type.bits / 8;
			v.align = v.size > v.align ? v.size : v.align;
		}
	}
	snprintf(v.name, sizeof(v.name), "%s", p->token);
	if (*p->at == '[') {
		next(p);
		next(p);
		v.count = is(p, "]") ? 0 : small_number(p);
		v.size *= v.count;
		if (!is(p, "]"))
			want(p, "]");
	}
	return v;
}

/* Places a variable after all others of a space. Returns its offset. */
static uint32_t place(struct ptx *p, uint32_t *end, const struct variable *v)
{
	uint64_t at;

	if (v->align == 0)
		ptx_stop(p, "no alignment");
	at = ((uint64_t)*end + v->align - 1) / v->align * v->align;
	if (at + v->size > MAX_GLOBALS)
		ptx_stop(p, "too much memory");
	*end = (uint32_t)at + v->size;
	return (uint32_t)at;
}

static void global(struct ptx *p)
{
	struct variable v = declaration(p);
	uint32_t at, each;
	uint64_t n;

	if (p->linkage == EXTERN) {
		ptx_declare(p, v.name);
		want(p, ";");
		return;
	}
	at = place(p, &p->n_globals, &v);
	ptx_define(p, v.name, VALUE, (uint64_t)(uintptr_t)&p->globals[at], v.size);
	each = v.count ? v.size / v.count : 0;
	while (!is(p, ";"))
		if (isdigit((unsigned char)*next(p)) || is(p, "-")) {
			n = number(p);
			if (at + each > p->n_globals)
				ptx_stop(p, "too many values");
			if (!p->borrows)
				memcpy(&p->globals[at], &n, each);
			at += each;
		}
}

static void shared(struct ptx *p)
{
	struct variable v = declaration(p);

	ptx_add(p, v.name, v.size ? VALUE : DYNAMIC, place(p, &p->shared, &v));
	want(p, ";");
}

/* Goes on to the end of a statement or a body. What it names is used. */
static void skip(struct ptx *p)
{
	struct symbol *s;
	uint32_t depth = 0;

	do {
		next(p);
		depth += is(p, "{");
		depth -= is(p, "}");
		s = p->declares ? ptx_find(p, p->token) : NULL;
		if (s)
			s->used = true;
	} while (depth > 0 || !(is(p, ";") || is(p, "}")));
}

static void add_register(struct ptx *p, const char *name)
{
	if (p->n_registers == MAX_REGISTERS)
		ptx_stop(p, "too many registers");
	ptx_add(p, name, REGISTER, p->n_registers++);
}

/* Reads .reg .TYPE NAME[<N>]; or several names without numbers. */
static void registers(struct ptx *p)
{
	char name[64], each[80];
	uint64_t n, i;

	next(p);
	snprintf(name, sizeof(name), "%s", next(p));
	next(p);
	while (is(p, ",")) {
		add_register(p, name);
		snprintf(name, sizeof(name), "%s", next(p));
		next(p);
	}
	if (is(p, ";")) {
		add_register(p, name);
		return;
	}
	next(p);
	n = number(p);
	for (i = 0; i < n; i++) {
		snprintf(each, sizeof(each), "%s%llu", name, (unsigned long long)i);
		add_register(p, each);
	}
	want(p, ">");
	want(p, ";");
}

static struct operand operand(struct ptx *p)
{
	static const struct {
		const char *name;
		uint64_t number;
	} specials[] = {{"%tid.", TID},	      {"%ntid.", NTID},	      {"%ctaid.", CTAID},
			{"%nctaid.", NCTAID}, {"%globaltimer", TIME}, {"%laneid", LANE}};
	struct operand o = {.kind = VALUE};
	const struct symbol *s;
	size_t i, n;

	if (is(p, "_") && !ptx_find(p, "_")) /* where nobody looks */
		add_register(p, "_");
	s = ptx_find(p, p->token);
	if (s) {
		if (s->kind >= LABEL)
			ptx_stop(p, "no operand");
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

/* Reads x, x+4, [x] or [x+4]. */
static struct operand memory_operand(struct ptx *p)
{
	const bool bracket = is(p, "[");
	struct operand o;

	if (bracket)
		next(p);
	o = operand(p);
	if (more(p) && *p->at == '+') {
		next(p);
		next(p);
		o.offset = (int64_t)number(p);
	}
	if (bracket)
		want(p, "]");
	return o;
}

/* Reads the words of an opcode, which dots separate. */
static void opcode(struct ptx *p, struct instruction *i)
{
	static const struct {
		const char *name;
		int mode;
	} roundings[] = {{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
	const char *word = p->token;
	size_t n = strcspn(word, "."), k;
	bool known = n == 4 && memcmp(word, "cvta", n) == 0, compares = false;

	/* An address in shared memory is an offset. All other addresses are the same everywhere. */
	if (known && strncmp(word, "cvta.shared.", 12) == 0)
		i->op = OP_ADD;
	else if (known)
		i->op = strncmp(word, "cvta.to.shared.", 15) == 0 ? OP_SUB : OP_MOV;
	for (k = 0; k < sizeof(op_names) / sizeof(op_names[0]) && !known; k++)
		if (strlen(op_names[k]) == n && memcmp(op_names[k], word, n) == 0) {
			i->op = (enum op)k;
			known = true;
		}
	if (!known)
		ptx_stop(p, "an unknown instruction");
	for (word += n; *word; word += n) {
		struct type type;

		n = strcspn(++word, ".");
		for (k = 0; k < sizeof(compare_names) / sizeof(compare_names[0]); k++)
			if (strncmp(word, compare_names[k], n) == 0 && !compare_names[k][n]) {
				i->compare = (enum compare)k;
				compares = true;
			}
		for (k = 1; k < sizeof(how_names) / sizeof(how_names[0]); k++)
			if (strncmp(word, how_names[k], n) == 0 && !how_names[k][n])
				i->how = (enum how)k;
		if (n == 2 && word[0] == 'v')
			i->width = (uint32_t)(word[1] - '0');
		for (k = 0; k < sizeof(roundings) / sizeof(roundings[0]); k++)
			if (n == 2 && memcmp(word, roundings[k].name, 2) == 0)
				i->rounding = roundings[k].mode;
		i->shared |= n == 6 && memcmp(word, "shared", 6) == 0;
		i->saturates |= n == 3 && memcmp(word, "sat", 3) == 0;
		i->flushes |= n == 3 && memcmp(word, "ftz", 3) == 0;
		i->high |= n == 2 && memcmp(word, "hi", 2) == 0;
		i->wide |= n == 4 && memcmp(word, "wide", 4) == 0;
		i->seen_by_others |= n == 8 && memcmp(word, "volatile", 8) == 0;
		if (read_type(word, n, &type)) {
			i->to = i->type.bits ? i->to : type;
			i->type = type;
		}
	}
	if (i->op == OP_SETP && !compares)
		ptx_stop(p, "an unknown comparison");
	if (i->op == OP_VADD && (i->how != HOW_ADD || i->type.bits != 32))
		ptx_stop(p, "an unknown sum");
	if (i->saturates && i->type.kind != 'f')
		ptx_stop(p, "an integer that saturates");
}

static struct instruction *emit(struct ptx *p, const struct instruction *what)
{
	struct instruction *i = &p->code[p->n_code++];

	if (p->n_code == MAX_CODE)
		ptx_stop(p, "too much code");
	*i = *what;
	return i;
}

/* Reads the predicate that an instruction may begin with. */
static void guard(struct ptx *p, struct instruction *i)
{
	if (!is(p, "@"))
		return;
	i->guarded = true;
	i->negated = *next(p) == '!';
	if (i->negated)
		next(p);
	i->guard = operand(p).value;
	next(p);
}

/* Reads the list {a, b, ...} up to its end. */
static uint32_t elements(struct ptx *p, struct operand *list)
{
	uint32_t n = 0;

	for (next(p); !is(p, "}"); next(p)) {
		if (is(p, ","))
			continue;
		if (n == MAX_OPERANDS)
			ptx_stop(p, "too many operands");
		list[n++] = operand(p);
	}
	return n;
}

/* mov of a register to a list, the lowest bits first: FIRST becomes a bfe, and one for each other
 * element follows it. */
static void unpack(struct ptx *p, struct instruction *first)
{
	struct operand list[MAX_OPERANDS], from;
	const uint32_t n = elements(p, list), bits = n ? first->type.bits / n : 0;
	struct instruction bfe = *first;
	uint32_t k;

	p->n_code--;
	want(p, ",");
	next(p);
	from = operand(p);
	want(p, ";");
	bfe.op = OP_BFE;
	bfe.type = type_of('u', first->type.bits);
	bfe.n = 4;
	bfe.sources = 3;
	for (k = 0; k < n; k++) {
		bfe.operands[0] = list[k];
		bfe.operands[1] = from;
		bfe.operands[2].value = k * bits;
		bfe.operands[3].value = bits;
		emit(p, &bfe);
	}
}

/* mov of a list to a register: FIRST moves the highest element, and a mad for each other one
 * shifts what is there and adds it. */
static void pack(struct ptx *p, struct instruction *first)
{
	struct operand list[MAX_OPERANDS];
	const uint32_t n = elements(p, list), bits = n ? first->type.bits / n : 0;
	struct instruction mad = *first;
	uint32_t k;

	if (n == 0)
		ptx_stop(p, "an empty list");
	want(p, ";");
	for (k = 0; k < n; k++)
		if (list[k].kind == VALUE)
			list[k].value &= type_of('u', bits).mask;
	first->operands[1] = list[n - 1];
	first->n = 2;
	first->sources = 1;
	mad.op = OP_MAD;
	mad.type = type_of('u', first->type.bits);
	mad.operands[1] = first->operands[0];
	mad.n = 4;
	mad.sources = 3;
	for (k = n - 1; k > 0; k--) {
		mad.operands[2].value = UINT64_C(1) << bits;
		mad.operands[3] = list[k - 1];
		emit(p, &mad);
	}
}

static void instruction(struct ptx *p)
{
	struct instruction begun = {.width = 1, .rounding = FE_TONEAREST}, *i;

	guard(p, &begun);
	if (is(p, "call") || is(p, "call.uni")) {
		call(p, &begun);
		return;
	}
	i = emit(p, &begun);
	opcode(p, i);
	next(p);
	if (i->op == OP_MOV && is(p, "{")) {
		unpack(p, i);
		return;
	}
	for (; !is(p, ";"); next(p)) {
		if (i->op == OP_MOV && is(p, "{")) {
			pack(p, i);
			return;
		}
		if (is(p, ",") || is(p, "{") || is(p, "}"))
			continue;
		if (is(p, "|")) {
			next(p);
			i->paired = true;
			i->second = operand(p).value;
			continue;
		}
		if (i->op == OP_BRA)
			snprintf(i->label, sizeof(i->label), "%s", p->token);
		else if (i->n < MAX_OPERANDS)
			i->operands[i->n++] = memory_operand(p);
		else
			ptx_stop(p, "too many operands");
	}
	if (i->shared && (i->op == OP_ADD || i->op == OP_SUB))
		i->operands[i->n++] = (struct operand){.kind = SPECIAL, .value = SHARED_AT};
	i->sources = i->n > 4 ? 4 : i->n > 0 ? i->n - 1 : 0;
	if (i->op == OP_BRA && !i->label[0])
		ptx_stop(p, "no label");
	if (i->op == OP_RET && p->depth > 0) {
		i->op = OP_BRA;
		snprintf(i->label, sizeof(i->label), END);
	}
}

/* What the line says is for debuggers. */
static void line(struct ptx *p)
{
	p->at += strcspn(p->at, "\n");
}

/* A thread's own memory; or what a call passes, which is no different. */
static void local(struct ptx *p)
{
	struct variable v = declaration(p);

	ptx_add(p, v.name, LOCAL, place(p, &p->local, &v))->bytes = v.size;
	want(p, ";");
}

/* An entry's. A function has its own only once, wherever it is called: compilers put that outside
 * of it. */
static void own_shared(struct ptx *p)
{
	if (p->depth > 0)
		ptx_stop(p, "shared memory in a function");
	shared(p);
}

static void body(struct ptx *p)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p);
	} words[] = {{".reg", registers},
		     {".shared", own_shared},
		     {".local", local},
		     {".param", local},
		     {".loc", line}};
	const uint32_t outer = p->scope++;
	size_t i;

	while (p->scope > outer) {
		next(p);
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (is(p, words[i].word))
				break;
		if (i < sizeof(words) / sizeof(words[0]))
			words[i].read(p);
		else if (is(p, ".pragma"))
			skip(p);
		else if (is(p, "{"))
			p->scope++;
		else if (is(p, "}"))
			ptx_close_scope(p);
		else if (*p->at == ':' && *p->at++)
			ptx_add(p, p->token, LABEL, p->n_code);
		else
			instruction(p);
	}
}

/* Resolves the branches of a body last, because a branch may precede its label. The body's code
 * begins at FIRST. */
static void resolve(struct ptx *p, uint32_t first)
{
	const struct symbol *s;
	uint32_t i;

	for (i = first; i < p->n_code; i++) {
		if (!p->code[i].label[0])
			continue;
		s = ptx_find(p, p->code[i].label);
		if (!s || s->kind != LABEL)
			ptx_stop(p, p->code[i].label);
		p->code[i].operands[0].value = s->value;
		p->code[i].label[0] = 0;
	}
}

/* Ends a body: what it has taken is free again, and a thread needs the most that is taken at a
 * time. */
static void give_back(struct ptx *p, uint32_t n_registers, uint32_t local)
{
	if (p->most_registers < p->n_registers)
		p->most_registers = p->n_registers;
	if (p->most_local < p->local)
		p->most_local = p->local;
	p->n_registers = n_registers;
	p->local = local;
}

struct arguments {
	struct {
		struct operand operand;
		uint32_t bytes; /* of a variable that is passed */
	} at[MAX_PARAMS];
	uint32_t n;
};

/* Reads what a call passes, behind the opening parenthesis. */
static void read_arguments(struct ptx *p, struct arguments *a)
{
	const struct symbol *s;

	for (next(p); !is(p, ")"); next(p)) {
		if (is(p, ","))
			continue;
		if (a->n == MAX_PARAMS)
			ptx_stop(p, "too many arguments");
		s = ptx_find(p, p->token);
		a->at[a->n].operand = operand(p);
		a->at[a->n++].bytes = s ? s->bytes : 0;
	}
}

/* A register of the function that begins with a copy of what is passed. */
static void copied(struct ptx *p, const struct variable *v, const struct operand *from)
{
	const struct instruction mov = {
		.op = OP_MOV,
		.type = type_of('b', v->size * 8),
		.operands = {{.kind = REGISTER, .value = p->n_registers}, *from},
		.n = 2,
		.sources = 1,
	};

	add_register(p, v->name);
	emit(p, &mov);
}

/* Reads the declaration of a function's result or parameter, which is argument N of the call.
 * Variables and registers for results are the caller's own. */
static void bind(struct ptx *p, const struct arguments *a, uint32_t n, bool result)
{
	const bool in_memory = strcmp(next(p), ".param") == 0;
	const struct operand *o = &a->at[n].operand;
	struct variable v;
	bool fits;

	if (!in_memory && !is(p, ".reg"))
		ptx_stop(p, "no parameter");
	v = declaration(p);
	if (in_memory)
		fits = n < a->n && o->kind == LOCAL && a->at[n].bytes == v.size;
	else
		fits = n < a->n && (o->kind == REGISTER || (o->kind == VALUE && !result));
	if (!fits)
		ptx_stop(p, "an argument of another kind");
	if (in_memory || result)
		ptx_add(p, v.name, o->kind, o->value)->bytes = v.size;
	else
		copied(p, &v, o);
}

/* Reads the list of a function's results or parameters, if it has one. */
static void bind_all(struct ptx *p, const struct arguments *a, bool results)
{
	uint32_t n = 0;

	if (more(p) && *p->at == '(') {
		next(p);
		while (more(p) && *p->at != ')') {
			bind(p, a, n++, results);
			if (more(p) && *p->at == ',')
				next(p);
		}
		next(p);
	}
	if (n != a->n)
		ptx_stop(p, "too many arguments");
}

/* Reads function F once more, in the place of a call. */
static void inlined(struct ptx *p, const struct symbol *f, const struct arguments *results,
		    const struct arguments *given)
{
	const char *at = p->at;
	const uint32_t file = p->file, bottom = p->bottom, n_symbols = p->n_symbols;
	const uint32_t n_registers = p->n_registers, local = p->local, first = p->n_code;

	if (p->depth++ == MAX_DEPTH)
		ptx_stop(p, "calls that are nested too deep, or for ever");
	if (p->n_calls++ == MAX_CALLS)
		ptx_stop(p, "too many calls");
	p->at = (const char *)(uintptr_t)f->value;
	p->file = f->file;
	p->bottom = ++p->scope;
	bind_all(p, results, true);
	next(p);
	bind_all(p, given, false);
	while (!is(p, "{"))
		next(p);
	body(p);
	ptx_add(p, END, LABEL, p->n_code);
	resolve(p, first);
	give_back(p, n_registers, local);
	p->n_symbols = n_symbols;
	p->scope--;
	p->bottom = bottom;
	p->file = file;
	p->at = at;
	p->depth--;
}

/* Reads [(RESULTS),] NAME [, (ARGUMENTS)]; with the call's predicate in GUARD. */
static void call(struct ptx *p, const struct instruction *guard)
{
	struct arguments results = {.n = 0}, given = {.n = 0};
	struct instruction *over;
	const struct symbol *f;

	if (*next(p) == '(') {
		read_arguments(p, &results);
		want(p, ",");
		next(p);
	}
	f = ptx_find(p, p->token);
	if (!f || f->kind != FUNCTION)
		ptx_stop(p, "a call of what is no function");
	if (*next(p) == ',') {
		want(p, "(");
		read_arguments(p, &given);
		next(p);
	}
	if (!is(p, ";"))
		ptx_stop(p, "no ;");
	if (!guard->guarded) {
		inlined(p, f, &results, &given);
		return;
	}
	over = emit(p, guard);
	over->op = OP_BRA;
	over->negated = !guard->negated;
	inlined(p, f, &results, &given);
	over->operands[0].value = p->n_code;
}

static void parameters(struct ptx *p)
{
	struct variable v;
	uint32_t at;

	while (more(p) && *p->at != ')') {
		want(p, ".param");
		v = declaration(p);
		if (p->n_params == MAX_PARAMS)
			ptx_stop(p, "too many parameters");
		at = place(p, &p->params_end, &v);
		p->params[p->n_params++] = (struct place){at, v.size};
		ptx_add(p, v.name, PARAM, at);
		if (more(p) && *p->at == ',')
			next(p);
	}
	next(p);
}

static void entry_body(struct ptx *p, const struct symbol *e)
{
	p->at = (const char *)(uintptr_t)e->value;
	p->file = e->file;
	p->bottom = p->scope = 1;
	next(p);
	if (more(p) && *p->at == '(') {
		next(p);
		parameters(p);
	}
	while (!is(p, "{")) {
		if (is(p, ".maxntid")) {
			next(p);
			p->most_threads = (uint32_t)number(p);
		}
		next(p);
	}
	body(p);
	emit(p, &(struct instruction){.op = OP_RET}); /* it may end without one */
	resolve(p, 0);
	give_back(p, 0, 0);
	p->n_registers = p->most_registers;
	p->local = p->most_local;
	ptx_prepare(p);
}

/* An entry or a function, whose body is read when it is needed. Its name follows its results. */
static void routine(struct ptx *p, enum kind kind)
{
	const char *at = p->at;
	char name[PTX_NAME];

	if (*next(p) == '(') {
		while (!is(p, ")"))
			next(p);
		next(p);
	}
	snprintf(name, sizeof(name), "%s", p->token);
	skip(p);
	if (is(p, ";"))
		ptx_declare(p, name);
	else
		ptx_define(p, name, kind, (uintptr_t)at, 0);
}

static void entry(struct ptx *p)
{
	routine(p, ENTRY);
}

static void function(struct ptx *p)
{
	routine(p, FUNCTION);
}

static void value(struct ptx *p)
{
	next(p);
}

static void version(struct ptx *p)
{
	next(p);
	p->file++;
}

/* Reads all that is outside of bodies. */
static void module(struct ptx *p)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p); /* NULL: the word says who knows the next name */
		enum linkage linkage;
	} words[] = {
		{".const", global, OWN},     {".global", global, OWN},
		{".shared", shared, OWN},    {".func", function, OWN},
		{".entry", entry, OWN},	     {".version", version, OWN},
		{".target", value, OWN},     {".address_size", value, OWN},
		{".visible", NULL, VISIBLE}, {".extern", NULL, EXTERN},
		{".common", NULL, WEAK},     {".weak", NULL, WEAK},
		{".file", line, OWN},
	};
	size_t i;

	while (more(p)) {
		next(p);
		for (i = 0; i < sizeof(words) / sizeof(words[0]) && !is(p, words[i].word); i++)
			;
		if (i == sizeof(words) / sizeof(words[0]))
			ptx_stop(p, "an unknown directive");
		if (words[i].read)
			words[i].read(p);
		p->linkage = words[i].linkage;
	}
}

/* Reads what is outside of bodies, and then the body of the entry NAME. */
static bool read_all(struct ptx *p, const char *name)
{
	uint32_t i;

	if (setjmp(p->given_up))
		return false;
	module(p);
	for (i = 0; name && i < p->n_symbols; i++)
		if (p->symbols[i].kind == ENTRY && strcmp(p->symbols[i].name, name) == 0) {
			entry_body(p, &p->symbols[i]);
			return true;
		}
	return !name;
}

struct ptx *ptx_read(const char *text, const char *name)
{
	return ptx_read_in(NULL, text, name);
}

struct ptx *ptx_read_in(const struct ptx *module, const char *text, const char *name)
{
	struct ptx *p = calloc(1, sizeof(*p));

	p->at = text;
	p->reads = true;
	p->borrows = module;
	p->globals = module ? module->globals
			    : mmap(NULL, MAX_GLOBALS, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->globals == MAP_FAILED)
		abort();
	if (!read_all(p, name)) {
		ptx_free(p);
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

uint32_t ptx_most_threads(const struct ptx *p)
{
	return p->most_threads ? p->most_threads : 1024;
}

uint32_t ptx_shared(const struct ptx *p)
{
	return p->shared;
}

uint32_t ptx_local(const struct ptx *p)
{
	return p->local;
}

uint32_t ptx_globals(const struct ptx *p)
{
	return p->n_globals;
}

void ptx_free(struct ptx *p)
{
	if (!p->borrows)
		munmap(p->globals, MAX_GLOBALS);
	free(p);
}
