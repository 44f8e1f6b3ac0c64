/* SPDX-License-Identifier: MIT */
#include "vgpu/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "vgpu/number.h"
#include "vgpu/output.h"

#define MOST 40 /* largest number of options of a program */
#define WIDTH 80u
#define MOST_BYTES (UINT64_C(1) << 40)

static int store_whole(const struct vgpu_option *o, const char *value, void *to)
{
	uint64_t v, most = o->kind == VGPU_OPTION_WHOLE32 ? UINT32_MAX : UINT64_MAX;

	if (vgpu_parse_unsigned(value, o->max > 0 ? (uint64_t)o->max : most, &v) < 0 ||
	    (double)v < o->min)
		return -EINVAL;
	if (o->kind == VGPU_OPTION_WHOLE32)
		*(uint32_t *)to = (uint32_t)v;
	else
		*(uint64_t *)to = v;
	return 0;
}

static int store_real(const struct vgpu_option *o, const char *value, void *to)
{
	double v, most = o->kind == VGPU_OPTION_TIMES ? 1e18 / o->scale : 1e18;

	if (vgpu_parse_real(value, o->min, o->max > 0 ? o->max : most, &v) < 0)
		return -EINVAL;
	if (o->kind == VGPU_OPTION_TIMES)
		*(uint64_t *)to = (uint64_t)(v * o->scale + 0.5);
	else
		*(double *)to = v;
	return 0;
}

static int store(const struct vgpu_option *o, char *value, void *options, struct vgpu_error *err)
{
	void *to = (char *)options + o->at;
	int r = 0;

	switch (o->kind) {
	case VGPU_OPTION_FLAG:
		*(bool *)to = true;
		return 0;
	case VGPU_OPTION_TEXT:
		*(const char **)to = value;
		return 0;
	case VGPU_OPTION_TAKE:
		return o->take(options, value, err);
	case VGPU_OPTION_SIZE:
		if (vgpu_parse_size(value, MOST_BYTES, to) == 0)
			return 0;
		return vgpu_error_set(err, -EINVAL,
				      "--%s %s: want a number with M or G, up to 1024G", o->name,
				      value);
	case VGPU_OPTION_WHOLE:
	case VGPU_OPTION_WHOLE32:
		r = store_whole(o, value, to);
		break;
	case VGPU_OPTION_REAL:
	case VGPU_OPTION_TIMES:
		r = store_real(o, value, to);
		break;
	}
	if (r == 0)
		return 0;
	if (o->max > 0)
		return vgpu_error_set(err, -EINVAL, "--%s %s: want a number from %.12g to %.12g",
				      o->name, value, o->min, o->max);
	return vgpu_error_set(err, -EINVAL, "--%s %s: want a number", o->name, value);
}

int vgpu_options_read(const char *program, const struct vgpu_option *table, void (*usage)(FILE *to),
		      int argc, char **argv, void *options)
{
	enum { HELP = MOST, VERSION };
	struct option names[MOST + 3] = {{0}};
	struct vgpu_error err = {""};
	int n, c, r = 0;

	for (n = 0; n < MOST && table[n].name; n++)
		names[n] =
			(struct option){table[n].name, table[n].kind != VGPU_OPTION_FLAG, NULL, n};
	names[n++] = (struct option){"help", no_argument, NULL, HELP};
	names[n] = (struct option){"version", no_argument, NULL, VERSION};
	while (r == 0 && (c = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (c == '?')
			return -EINVAL;
		if (c == 'h')
			c = HELP;
		if (c == HELP || c == VERSION)
			vgpu_output_check(program);
		if (c == HELP) {
			usage(stdout);
			return 1;
		}
		if (c == VERSION) {
			printf("%.*s " VGPU_VERSION "\n", (int)strcspn(program, " :"), program);
			return 1;
		}
		r = store(&table[c], optarg, options, &err);
	}
	if (r < 0)
		fprintf(stderr, "%s: %s; see --help\n", program, err.text);
	return r < 0 ? -EINVAL : 0;
}

/* Prints TEXT from COLUMN on, and a newline. AT: the present column of the line. */
static void print_wrapped(const char *text, unsigned at, unsigned column, FILE *to)
{
	unsigned word;

	while (*text) {
		word = (unsigned)strcspn(text, " ");
		if (at >= WIDTH || (at > column && at + 1 + word > WIDTH)) {
			fputc('\n', to);
			at = 0;
		}
		at += (unsigned)fprintf(to, "%*s", at < column ? (int)(column - at) : at > column,
					"");
		at += (unsigned)fprintf(to, "%.*s", (int)word, text);
		text += word + (text[word] == ' ');
	}
	fputc('\n', to);
}

void vgpu_options_list(const struct vgpu_option *table, unsigned column, FILE *to)
{
	const struct vgpu_option *o;
	unsigned at;

	for (o = table; o->name; o++) {
		if (!o->help)
			continue;
		at = (unsigned)fprintf(to, "  --%s%s%s", o->name, o->value ? " " : "",
				       o->value ? o->value : "");
		print_wrapped(o->help, at < column ? at : WIDTH, column, to);
	}
	fputs("  --help, --version\n", to);
}
