/* SPDX-License-Identifier: MIT */
/*
 * printf() of GPU kernels. The format and its arguments are the GPU kernel's: each conversion is
 * read here and written anew, so that the C library only gets one that fits its argument. What is
 * no conversion is printed as it is, as CUDA does.
 */
#include <stdio.h>
#include <string.h>

#include "ptx_private.h"

/* CUDA's printf() takes no more arguments behind the format. */
#define MOST_ARGUMENTS 32

struct conversion {
	char flags[6]; /* each of them once */
	int width, precision;
	bool has_precision, wide; /* WIDE: 64 bits */
	uint32_t halves;	  /* how often h was there, at most twice */
	char type;
};

struct arguments {
	const uint8_t *at;
	size_t used;
	int n;
};

/* Copies the next argument to TO: it lies at a multiple of its size. */
static void take(struct arguments *a, void *to, size_t size)
{
	a->used = (a->used + size - 1) / size * size;
	memcpy(to, a->at + a->used, size);
	a->used += size;
	a->n++;
}

/* A number in the format, or an argument of it. More than a text can have is one more than that. */
static int number(const char **format, struct arguments *a)
{
	const int most = PTX_PRINT_MOST + 1;
	int n = 0;

	if (**format == '*') {
		++*format;
		take(a, &n, sizeof(n));
		return n > most ? most : n < -most ? -most : n;
	}
	for (; **format >= '0' && **format <= '9'; ++*format)
		n = n > most ? most : n * 10 + (**format - '0');
	return n;
}

/* Reads the conversion at FORMAT, behind its %. Returns where it ends; NULL: it is none. */
static const char *read_conversion(const char *format, struct arguments *a, struct conversion *c)
{
	size_t n = 0;

	*c = (struct conversion){.flags = ""};
	for (; *format && strchr("-+ #0", *format); format++)
		if (!strchr(c->flags, *format))
			c->flags[n++] = *format;
	c->width = number(&format, a);
	c->has_precision = *format == '.';
	if (c->has_precision) {
		format++;
		c->precision = number(&format, a);
	}
	for (; *format == 'h'; format++)
		c->halves += c->halves < 2;
	for (; *format && strchr("ljzt", *format); format++)
		c->wide = true;
	c->type = *format;
	return c->type && strchr("diouxXcsaAeEfFgGp", c->type) ? format + 1 : NULL;
}

/* What the C library is to read: FLAGS, a width, and if PRECISION is set, a precision, as
 * arguments. */
static void write_format(char *format, size_t n, const char *flags, bool precision,
			 const char *size, char type)
{
	snprintf(format, n, "%%%s*%s%s%c", flags, precision ? ".*" : "", size, type);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* Converts the next argument as C says. Returns as snprintf(). */
static int convert(char *out, size_t room, const struct conversion *c, struct arguments *a)
{
	static const char *const sizes[] = {"", "h", "hh"};
	const char *left = strchr(c->flags, '-') ? "-" : "", *text;
	int precision = c->has_precision ? c->precision : -1;
	char format[20];
	uint64_t wide;
	uint32_t word;
	double real;

	switch (c->type) {
	case 's':
		take(a, &text, sizeof(text));
		/* the text may have no end */
		if (precision < 0 || precision > (int)room)
			precision = (int)room;
		write_format(format, sizeof(format), left, true, "", 's');
		return snprintf(out, room, format, c->width, precision, text ? text : "(null)");
	case 'p':
		take(a, &text, sizeof(text));
		write_format(format, sizeof(format), left, false, "", 'p');
		return snprintf(out, room, format, c->width, text);
	case 'c':
		take(a, &word, sizeof(word));
		write_format(format, sizeof(format), left, false, "", 'c');
		return snprintf(out, room, format, c->width, (int)word);
	case 'd':
	case 'i':
	case 'o':
	case 'u':
	case 'x':
	case 'X':
		write_format(format, sizeof(format), c->flags, true,
			     c->wide ? "ll" : sizes[c->halves], c->type);
		if (c->wide) {
			take(a, &wide, sizeof(wide));
			return snprintf(out, room, format, c->width, precision,
					(unsigned long long)wide);
		}
		take(a, &word, sizeof(word));
		return snprintf(out, room, format, c->width, precision, word);
	default:
		take(a, &real, sizeof(real));
		write_format(format, sizeof(format), c->flags, true, "", c->type);
		return snprintf(out, room, format, c->width, precision, real);
	}
}
#pragma GCC diagnostic pop

int ptx_print(char *out, size_t *bytes, const char *format, const void *arguments)
{
	struct arguments a = {.at = arguments};
	struct conversion c;
	const char *end;
	size_t used = 0;
	int n;

	if (!format)
		return -1;
	while (*format) {
		struct arguments before = a;

		end = *format == '%' ? read_conversion(format + 1, &a, &c) : NULL;
		if (end && a.n < MOST_ARGUMENTS) {
			n = convert(out + used, PTX_PRINT_MOST - used, &c, &a);
			format = end;
		} else {
			a = before;
			n = 1;
			out[used] = *format;
			format += *format == '%' && format[1] == '%' ? 2 : 1;
		}
		if (n < 0 || (size_t)n >= PTX_PRINT_MOST - used)
			return -2;
		used += (size_t)n;
	}
	*bytes = used;
	return a.n;
}
