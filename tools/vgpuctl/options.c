/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "text.h"
#include "vgpu/number.h"

enum type { FLAG, TEXT, NUMBER, REAL, FORMAT };

/* Every option, in the order of the help. */
static const struct row {
	const char *name;  /* NULL: the option has only a letter */
	char letter;	   /* 0: the option has only a name */
	const char *value; /* NULL: the option has no value */
	enum type type;
	size_t at; /* offset in struct options */
	int64_t min, max;
	unsigned of; /* bits of the commands that take it; 0: all commands */
	const char *help;
} rows[] = {
#define AT(member) offsetof(struct options, member)
	{"gpu", 0, "NAME", TEXT, AT(gpu), 0, 0, TAKES_GPU,
	 "the GPU, by its name or PCI address; without it, all GPUs are shown"},
	{NULL, 'o', "json|csv", FORMAT, AT(json), 0, 0, TAKES_FORMAT,
	 "json: vgpud's answer, one object for each GPU (events -f: for each event); csv: lists as "
	 "comma-separated values; or text"},
	{"watch", 'w', NULL, FLAG, AT(watch), 0, 0, TAKES_WATCH,
	 "repeat the command until q or ^C"},
	{"interval", 0, "S", REAL, AT(interval), 0, 0, TAKES_TIMES,
	 "seconds between two views (0.05 to 3600; 1)"},
	{"count", 0, "N", NUMBER, AT(count), 1, 1000000, TAKES_TIMES,
	 "number of views (1 to 1000000; until interrupted)"},
	{"sort", 0, "COLUMN", TEXT, AT(sort), 0, 0, TAKES_SORT,
	 "top: vf, vm, now, received, wait, turns or overrun (vf)"},
	{"ms", 0, "N", NUMBER, AT(ms), 1, 60000, TAKES_MS,
	 "how far back, milliseconds (1 to 60000; 100)"},
	{"svg", 0, "FILE", TEXT, AT(svg), 0, 0, TAKES_SVG, "write a picture to FILE"},
	{"html", 0, "FILE", TEXT, AT(html), 0, 0, TAKES_HTML,
	 "write a page to FILE, which the mouse wheel zooms"},
	{"since", 0, "TIME", TEXT, AT(since), 0, 0, TAKES_SINCE,
	 "events since TIME: 30s, 10m, 2h or 1d ago, 14:30, or \"2026-01-31 14:30:05\""},
	{"weight", 0, "N", TEXT, AT(weight), 0, 0, TAKES_CLAIM,
	 "run: the program's weight, under policies that have weights"},
	{"memory", 0, "SIZE", TEXT, AT(memory), 0, 0, TAKES_CLAIM,
	 "run: least device memory for the program: 512M, 2G"},
	{"profile", 0, "NAME", TEXT, AT(profile), 0, 0, TAKES_CLAIM,
	 "run: what [profile NAME] of vgpud's configuration claims"},
	{"limit", 0, "N", TEXT, AT(limit), 0, 0, TAKES_LIMIT,
	 "number of events, the newest (1 to 1024; 50, or 1024 with --since); run: the largest "
	 "part of the GPU's time, like 40%, under policies that limit"},
	{"follow", 'f', NULL, FLAG, AT(follow), 0, 0, TAKES_FOLLOW,
	 "print further events as they happen; container name: go on for containers that start"},
	{"podman", 0, NULL, FLAG, AT(podman), 0, 0, TAKES_PODMAN,
	 "audit: compare with podman's own state of its containers, too"},
	{"output", 0, "FILE", TEXT, AT(output), 0, 0, TAKES_OUTPUT,
	 "write to FILE instead of stdout"},
	{"format", 0, "FORMAT", TEXT, AT(format), 0, 0, TAKES_INVENTORY,
	 "nova (provider.yaml), nova-pci, json, prometheus-sd or cdi (for containers)"},
	{"check", 0, NULL, FLAG, AT(check), 0, 0, TAKES_INVENTORY,
	 "with --output: change nothing, and fail if the file is out of date"},
	{"provider", 0, "PROVIDER", TEXT, AT(provider), 0, 0, TAKES_INVENTORY,
	 "with --format nova-pci: the host's resource provider (its host name)"},
	{"force", 0, NULL, FLAG, AT(force), 0, 0, TAKES_FORCE,
	 "memory set: reset the VF if a guest uses it, which loses its work; policy set and config "
	 "reload: even if VMs lose what they claim"},
	{"save", 0, NULL, FLAG, AT(save), 0, 0, TAKES_SAVE,
	 "keep the change over a restart of vgpud"},
	{"reason", 0, "TEXT", TEXT, AT(reason), 0, 0, TAKES_SAVE,
	 "with --save: the reason, which is written beside the change in the configuration"},
	{"seconds", 0, "N", NUMBER, AT(seconds), 2, 86400, TAKES_VERIFY,
	 "how long to measure (2 to 86400; 30)"},
	{"busy", 0, "VFS", TEXT, AT(busy), 0, 0, TAKES_VERIFY,
	 "these VFs always have work: all, or numbers with commas between; without it, vgpud's "
	 "observation decides"},
	{"change", 0, "VF", TEXT, AT(change), 0, 0, TAKES_VERIFY,
	 "double the weight of VF for at most 20 s, measure how soon that takes effect, and "
	 "restore it"},
	{"host", 0, "HOST", TEXT, AT(host), 0, 0, TAKES_HOST,
	 "the vgpud of another host, by ssh: [USER@]HOST or ssh://[USER@]HOST[:PORT]"},
	{"socket", 0, "PATH", TEXT, AT(socket), 0, 0, TAKES_SOCKET,
	 "vgpud's control socket ($VGPUD_SOCKET, or /run/vgpud/control.sock)"},
	{"help", 'h', NULL, FLAG, AT(help), 0, 0, 0, "show this help, or that of a command"},
	{"version", 'V', NULL, FLAG, AT(version), 0, 0, 0, "show the version"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

__attribute__((format(printf, 1, 2))) static int wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("vgpuctl: ", stderr);
	vfprintf(stderr, format, args);
	fputs(format[strlen(format) - 1] == '?' ? " See vgpuctl --help\n"
						: "; see vgpuctl --help\n",
	      stderr);
	va_end(args);
	return -EINVAL;
}

static void show_name(const struct row *row, char *out, size_t size)
{
	if (row->name)
		snprintf(out, size, "--%s", row->name);
	else
		snprintf(out, size, "-%c", row->letter);
}

static int store(const struct row *row, const char *value, struct options *o)
{
	void *to = (char *)o + row->at;
	char name[32];

	show_name(row, name, sizeof(name));
	o->given |= row->of;
	switch (row->type) {
	case FLAG:
		*(bool *)to = true;
		return 0;
	case TEXT:
		*(const char **)to = value;
		return *value ? 0 : wrong("%s: want %s", name, row->value);
	case NUMBER:
		if (vgpu_parse_between(value, row->min, row->max, to) < 0)
			return wrong("%s %s: want %" PRId64 " to %" PRId64, name, value, row->min,
				     row->max);
		return 0;
	case REAL:
		if (vgpu_parse_real(value, 0.05, 3600, to) < 0)
			return wrong("%s %s: want 0.05 to 3600", name, value);
		return 0;
	case FORMAT:
		o->json = strcmp(value, "json") == 0;
		o->csv = strcmp(value, "csv") == 0;
		if (!o->json && !o->csv && strcmp(value, "text") != 0)
			return wrong("%s %s: want json, csv or text", name, value);
		return 0;
	}
	return 0;
}

/* Reports an unknown option, and names one that the user may have meant. */
static int unknown(const char *word)
{
	size_t i, length = strcspn(word, "=");
	char name[64];
	const char *best = NULL;
	unsigned least = 3, d;

	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	for (i = 0; strncmp(name, "--", 2) == 0 && i < ROWS; i++) {
		d = rows[i].name ? text_distance(name + 2, rows[i].name) : least;
		if (d < least) {
			least = d;
			best = rows[i].name;
		}
	}
	if (best)
		return wrong("%s: not an option, did you mean --%s?", name, best);
	return wrong("%s: not an option", name);
}

int options_read(int argc, char **argv, struct options *o)
{
	struct option names[ROWS + 1] = {{0}};
	char letters[2 * ROWS + 2] = ":";
	size_t i, n = 0, l = 1;
	int c, r = 0;

	for (i = 0; i < ROWS; i++) {
		/* 256 + I identifies a long option, also one without a letter. */
		if (rows[i].name)
			names[n++] =
				(struct option){rows[i].name,
						rows[i].value ? required_argument : no_argument,
						NULL, 256 + (int)i};
		if (rows[i].letter) {
			letters[l++] = rows[i].letter;
			if (rows[i].value)
				letters[l++] = ':';
		}
	}
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		if (c == '?' && optopt >= 256)
			return wrong("--%s takes no value", rows[optopt - 256].name);
		if (c == '?' && optopt)
			return wrong("-%c: not an option", optopt);
		if (c == '?')
			return unknown(argv[optind - 1]);
		if (c == ':')
			return wrong("%s: its value is missing", argv[optind - 1]);
		for (i = 0; c < 256 && rows[i].letter != c;)
			i++;
		r = store(&rows[c < 256 ? i : (size_t)c - 256], optarg, o);
	}
	o->words = argv + optind;
	o->n_words = argc - optind;
	return r;
}

const char *options_refused(unsigned given, unsigned takes)
{
	static char name[32];
	size_t i;

	for (i = 0; i < ROWS; i++)
		if (given & rows[i].of & ~takes) {
			show_name(&rows[i], name, sizeof(name));
			return name;
		}
	return NULL;
}

static bool is_of(const struct row *row, unsigned takes)
{
	return row->of == 0 || row->of & takes;
}

void options_help(FILE *to, unsigned takes)
{
	char text[64], name[32];
	size_t i;

	for (i = 0; i < ROWS; i++) {
		if (!is_of(&rows[i], takes))
			continue;
		show_name(&rows[i], name, sizeof(name));
		snprintf(text, sizeof(text), "%s%s%s", name, rows[i].value ? " " : "",
			 rows[i].value ? rows[i].value : "");
		if (rows[i].name && rows[i].letter)
			snprintf(text, sizeof(text), "%s, -%c", name, rows[i].letter);
		fprintf(to, "  %-16s %s\n", text, rows[i].help);
	}
}

void options_names(FILE *to, unsigned takes)
{
	char name[32];
	size_t i;

	for (i = 0; i < ROWS; i++) {
		if (!is_of(&rows[i], takes))
			continue;
		show_name(&rows[i], name, sizeof(name));
		fprintf(to, "%s\n", name);
	}
}

const char *options_value(const char *word)
{
	char name[32];
	size_t i;

	for (i = 0; i < ROWS; i++) {
		show_name(&rows[i], name, sizeof(name));
		if (strcmp(word, name) == 0)
			return rows[i].value;
	}
	return NULL;
}
