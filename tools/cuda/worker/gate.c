/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"

/* One word for each running block: its thread 0 decides whether the block runs, and all its threads
 * read the decision. */
static const char shared_text[] = "\n.shared .align 4 .b32 __vgpu_go;\n";
static const char param_text[] = "\n\t.param .align 8 .b8 __vgpu_gate[128]";
static const char prologue_text[] = "\n{\n"
				    "\t.reg .pred %vg_p<4>;\n"
				    "\t.reg .b32 %vg_r<12>;\n"
				    "\t.reg .b64 %vg_d<12>;\n"
				    "\tld.param.u64 %vg_d0, [__vgpu_gate];\n"
				    "\tsetp.eq.u64 %vg_p0, %vg_d0, 0;\n"
				    "\t@%vg_p0 bra __vgpu_run;\n"
				    "\tmov.u32 %vg_r0, %tid.x;\n"
				    "\tmov.u32 %vg_r1, %tid.y;\n"
				    "\tmov.u32 %vg_r2, %tid.z;\n"
				    "\tor.b32 %vg_r0, %vg_r0, %vg_r1;\n"
				    "\tor.b32 %vg_r0, %vg_r0, %vg_r2;\n"
				    "\tsetp.ne.u32 %vg_p1, %vg_r0, 0;\n"
				    "\t@%vg_p1 bra __vgpu_wait;\n"
				    /* the block's number: (z * ny + y) * nx + x */
				    "\tmov.u32 %vg_r3, %ctaid.z;\n"
				    "\tmov.u32 %vg_r4, %nctaid.y;\n"
				    "\tmov.u32 %vg_r5, %ctaid.y;\n"
				    "\tmad.lo.u32 %vg_r3, %vg_r3, %vg_r4, %vg_r5;\n"
				    "\tmov.u32 %vg_r4, %nctaid.x;\n"
				    "\tmov.u32 %vg_r5, %ctaid.x;\n"
				    "\tmad.lo.u32 %vg_r3, %vg_r3, %vg_r4, %vg_r5;\n"
				    "\tmul.wide.u32 %vg_d1, %vg_r3, 8;\n"
				    "\tcvta.to.global.u64 %vg_d0, %vg_d0;\n"
				    "\tadd.u64 %vg_d1, %vg_d0, %vg_d1;\n"
				    "\tld.param.u64 %vg_d2, [__vgpu_gate+8];\n"
				    "\tcvta.to.global.u64 %vg_d2, %vg_d2;\n"
				    "\tld.param.u64 %vg_d3, [__vgpu_gate+16];\n"
				    "\tcvta.to.global.u64 %vg_d3, %vg_d3;\n"
				    "\tld.param.u64 %vg_d4, [__vgpu_gate+24];\n"
				    "\tmov.u32 %vg_r6, 0;\n"
				    "\tld.global.u64 %vg_d5, [%vg_d1];\n"
				    "\tsetp.eq.u64 %vg_p2, %vg_d5, %vg_d4;\n"
				    "\t@%vg_p2 bra __vgpu_decided;\n"
				    "\tld.param.u64 %vg_d6, [__vgpu_gate+32];\n"
				    "\tcvta.to.global.u64 %vg_d6, %vg_d6;\n"
				    "\tld.param.u64 %vg_d7, [__vgpu_gate+40];\n"
				    /* another block has found the gate shut since it was opened */
				    "\tld.volatile.global.u64 %vg_d8, [%vg_d6+8];\n"
				    "\tsetp.eq.u64 %vg_p3, %vg_d8, %vg_d7;\n"
				    "\t@%vg_p3 bra __vgpu_shut;\n"
				    /* another block has found the gate open less than PERIOD ago */
				    "\tld.volatile.global.u64 %vg_d8, [%vg_d6];\n"
				    "\tmov.u64 %vg_d9, %globaltimer;\n"
				    "\tsub.u64 %vg_d10, %vg_d9, %vg_d8;\n"
				    "\tld.param.u64 %vg_d11, [__vgpu_gate+48];\n"
				    "\tsetp.lt.u64 %vg_p3, %vg_d10, %vg_d11;\n"
				    "\t@%vg_p3 bra __vgpu_open;\n"
				    "\tld.volatile.global.u32 %vg_r7, [%vg_d2];\n"
				    "\tsetp.eq.u32 %vg_p3, %vg_r7, 0;\n"
				    "\t@%vg_p3 st.volatile.global.u64 [%vg_d6], %vg_d9;\n"
				    "\t@%vg_p3 bra __vgpu_open;\n"
				    "\tst.volatile.global.u64 [%vg_d6+8], %vg_d7;\n"
				    "__vgpu_shut:\n"
				    "\tst.volatile.global.u64 [%vg_d3], %vg_d4;\n"
				    "\tbra __vgpu_decided;\n"
				    "__vgpu_open:\n"
				    "\tst.global.u64 [%vg_d1], %vg_d4;\n"
				    "\tmov.u32 %vg_r6, 1;\n"
				    "__vgpu_decided:\n"
				    "\tst.shared.u32 [__vgpu_go], %vg_r6;\n"
				    "__vgpu_wait:\n"
				    "\tbar.sync 0;\n"
				    "\tld.shared.u32 %vg_r8, [__vgpu_go];\n"
				    "\tsetp.ne.u32 %vg_p0, %vg_r8, 0;\n"
				    "\t@%vg_p0 bra __vgpu_run;\n"
				    "\tret;\n"
				    "__vgpu_run:\n"
				    "\tmov.u32 %vg_r9, 0;\n"
				    "}\n";

/* The most entries of one text. An entry needs few characters and gets the whole prologue, so that
 * text could grow by a factor of 200. */
#define MOST_ENTRIES 16384u

struct scan {
	const char *text;
	size_t n, at, copied;
	uint32_t entries;
	bool reserved; /* the text uses a name that is reserved for the gate */
	FILE *out;
};

static size_t line_of(const struct scan *s)
{
	size_t line = 1, i;

	for (i = 0; i < s->at && i < s->n; i++)
		line += s->text[i] == '\n';
	return line;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool starts(const struct scan *s, const char *with)
{
	size_t n = strlen(with);

	return s->n - s->at >= n && memcmp(s->text + s->at, with, n) == 0;
}

/* Skips white space and comments. */
static void skip(struct scan *s)
{
	while (s->at < s->n) {
		if (isspace((unsigned char)s->text[s->at])) {
			s->at++;
		} else if (starts(s, "//")) {
			while (s->at < s->n && s->text[s->at] != '\n')
				s->at++;
		} else if (starts(s, "/*")) {
			for (s->at += 2; s->at < s->n && !starts(s, "*/");)
				s->at++;
			s->at = s->at + 2 < s->n ? s->at + 2 : s->n;
		} else {
			return;
		}
	}
}

/* Reads the next token: a word, which may begin with a dot, a string, or one other character.
 * Returns its length; 0 at the end. ".visible.entry" is two tokens, as for NVIDIA's compiler. */
static size_t token(struct scan *s, const char **begin)
{
	size_t from;

	skip(s);
	from = s->at;
	*begin = s->text + from;
	if (from == s->n)
		return 0;
	if (s->text[s->at] == '"') {
		for (s->at++; s->at < s->n && s->text[s->at] != '"';)
			s->at += s->text[s->at] == '\\' ? 2 : 1;
		s->at = s->at < s->n ? s->at + 1 : s->n;
	} else if (is_word(s->text[s->at]) || s->text[s->at] == '.') {
		do
			s->at++;
		while (s->at < s->n && is_word(s->text[s->at]));
	} else {
		s->at++;
	}
	s->reserved = s->reserved || (s->at - from > 6 && memcmp(*begin, "__vgpu", 6) == 0);
	return s->at - from;
}

static bool is(const char *token_text, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(token_text, word, n) == 0;
}

/* Copies the text up to the current place unchanged, then appends TEXT. */
static void insert(struct scan *s, const char *text)
{
	fwrite(s->text + s->copied, 1, s->at - s->copied, s->out);
	fputs(text, s->out);
	s->copied = s->at;
}

static int bad(const struct scan *s, const char *what, struct vgpu_error *err)
{
	return vgpu_error_set(err, -EINVAL, "PTX, line %zu: %s", line_of(s), what);
}

/* Rewrites what follows ".entry": the name, the parameters, and the beginning of the body. */
static int entry(struct scan *s, struct vgpu_error *err)
{
	const char *t;
	size_t n = token(s, &t);
	int depth = 1;
	bool empty = true;

	if (n == 0 || !is_word(*t))
		return bad(s, "this entry has no name", err);
	if (++s->entries > MOST_ENTRIES)
		return bad(s, "a module with a gate has 16384 entries at most", err);
	skip(s);
	if (s->at < s->n && s->text[s->at] == '(') {
		s->at++;
		insert(s, param_text);
		while (depth > 0) {
			n = token(s, &t);
			if (n == 0)
				return bad(s, "the parameters of this entry have no end", err);
			if (empty && !is(t, n, ")")) {
				s->at -= n;
				insert(s, ",\n\t");
				s->at += n;
			}
			empty = false;
			depth += is(t, n, "(") - is(t, n, ")");
		}
	} else {
		insert(s, " (");
		insert(s, param_text);
		insert(s, "\n)\n");
	}
	do {
		n = token(s, &t);
	} while (n > 0 && *t != '{' && *t != ';');
	if (n == 0)
		return bad(s, "this entry has no body", err);
	if (*t == '{')
		insert(s, prologue_text);
	return 0;
}

static int rewrite(struct scan *s, struct vgpu_error *err)
{
	bool addressed = false;
	const char *t;
	size_t n;
	int r;

	while ((n = token(s, &t)) > 0) {
		if (is(t, n, ".address_size") && !addressed) {
			n = token(s, &t);
			if (!is(t, n, "64"))
				return bad(s, ".address_size must be 64", err);
			insert(s, shared_text);
			addressed = true;
		} else if (is(t, n, ".entry")) {
			if (!addressed)
				return bad(s, ".address_size must come before the first entry",
					   err);
			r = entry(s, err);
			if (r < 0)
				return r;
		}
		if (s->reserved)
			return bad(s, "names that begin with __vgpu are reserved for the gate",
				   err);
	}
	if (!addressed)
		return bad(s, ".address_size is missing", err);
	insert(s, "");
	return 0;
}

bool gate_is_ptx(const uint8_t *image, size_t n)
{
	struct scan s = {.text = (const char *)image, .n = n};
	const char *t;
	size_t length = token(&s, &t);

	return is(t, length, ".version") && !memchr(image, 0, n);
}

int gate_ptx(const char *text, size_t n, char **out, struct vgpu_error *err)
{
	struct scan s = {.text = text, .n = n};
	size_t size;
	int r;

	*out = NULL;
	s.out = open_memstream(out, &size);
	if (!s.out)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = rewrite(&s, err);
	if (fclose(s.out) != 0 && r == 0)
		r = vgpu_error_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		free(*out);
		*out = NULL;
	}
	return r;
}
