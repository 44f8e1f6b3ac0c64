/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "arguments.h"
#include "audit.h"
#include "commands.h"
#include "complete.h"
#include "container.h"
#include "doctor.h"
#include "domain.h"
#include "events.h"
#include "inventory.h"
#include "remote.h"
#include "run.h"
#include "screen.h"
#include "table.h"
#include "tenant.h"
#include "top.h"
#include "validate.h"
#include "verify.h"
#include "view.h"
#include "vm.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"
#include "vgpu/output.h"

static int cannot_write(const char *path)
{
	screen_end();
	fprintf(stderr, "vgpuctl: %s: %s\n", path, strerror(errno));
	return EXIT_FAILED;
}

static int save(const char *path, struct json_object *answer,
		void (*draw)(struct json_object *answer, FILE *to))
{
	FILE *f = fopen(path, "we");

	if (!f)
		return cannot_write(path);
	draw(answer, f);
	return fclose(f) == 0 ? EXIT_OK : cannot_write(path);
}

/* Writes a recording to the file of --output. vgpud sends it in hexadecimal, because JSON cannot
 * contain bytes. */
static int save_recording(const struct options *o, struct json_object *answer)
{
	const char *text = get_text(answer, "recording");
	FILE *f = o->output ? fopen(o->output, "we") : stdout;
	uint8_t byte;
	bool ok = f;

	if (f && (!*text || strcmp(text, "-") == 0)) {
		fprintf(stderr, "vgpuctl: vgpud has recorded no events yet\n");
		return EXIT_FAILED;
	}
	for (; ok && text[0] && text[1]; text += 2)
		ok = vgpu_parse_hex_byte(text, &byte) == 0 && fputc(byte, f) != EOF;
	if (o->output && (!ok || fclose(f) != 0))
		return cannot_write(o->output);
	return EXIT_OK;
}

static int show(const struct options *o, const struct command *c, struct json_object *answer)
{
	if (o->svg)
		return save(o->svg, answer, c->svg);
	if (o->html)
		return save(o->html, answer, c->html);
	if (strcmp(c->noun, "record") == 0)
		return save_recording(o, answer);
	if (o->json)
		print_json(answer);
	else if (c->view)
		c->view(answer);
	if (c->takes & TAKES_SAVE && !o->save)
		fputs("vgpuctl: this lasts until vgpud is restarted; --save keeps it\n", stderr);
	return EXIT_OK;
}

/* Asks about each GPU in turn, and shows the answers. A failure for one GPU does not keep the
 * others from being shown. */
static int show_each(struct session *s, const struct command *c, struct json_object *args)
{
	const struct options *o = s->options;
	struct json_object *answer, *copy;
	size_t i, n = count(s->gpus);
	int r, worst = EXIT_OK;

	if (n > 1 && (o->svg || o->html)) {
		fprintf(stderr,
			"vgpuctl: --svg and --html show one of the %zu GPUs: choose it with "
			"--gpu\n",
			n);
		return EXIT_USAGE;
	}
	if (strcmp(c->noun, "trace") == 0)
		return timeline_trace(s, args);
	for (i = 0; i < n; i++) {
		copy = NULL;
		json_object_deep_copy(args, &copy, NULL);
		r = session_call_gpu(s, i, c->method, copy, &answer);
		if (r == EXIT_OK) {
			table_csv_first("GPU", get_text(at(s->gpus, i), "gpu"));
			if (i > 0 && !o->json && !o->csv)
				putchar('\n');
			r = show(o, c, answer);
			json_object_put(answer);
		}
		worst = r > worst ? r : worst;
	}
	return worst;
}

static int show_one(struct session *s, const struct command *c, struct json_object *args)
{
	struct json_object *answer = NULL;
	int r;

	/* If there are several GPUs and none is named, vgpud's error says so. */
	if (c->scope == ONE_GPU && s->options->gpu && !get(args, "gpu"))
		r = session_call_gpu(s, 0, c->method, json_object_get(args), &answer);
	else
		r = session_call(s, c->method, json_object_get(args), &answer);
	if (r == EXIT_OK)
		r = show(s->options, c, answer);
	json_object_put(answer);
	return r;
}

/* Shows the answers of a command, once or repeatedly. Returns an exit code. */
static int watch(struct session *s, const struct command *c, struct json_object *args,
		 char *const *words)
{
	const struct options *o = s->options;
	vgpu_nsec due;
	int64_t n = 0;
	int r, key;

	if (o->watch) {
		screen_begin();
		view_colour = false;
	}
	do {
		if (o->watch)
			screen_open();
		r = strcmp(c->noun, "vm") == 0 && strcmp(c->verb, "show") == 0
			    ? vm_show(s, words[0])
		    : c->scope == EACH_GPU ? show_each(s, c, args)
					   : show_one(s, c, args);
		if (!o->watch || r != EXIT_OK)
			break;
		screen_draw(0);
		n++;
		due = vgpu_now() + (vgpu_nsec)(o->interval * 1e9);
		do
			key = o->count && n >= o->count ? KEY_END : screen_wait(due);
		while (key != KEY_END && key != KEY_NONE && key != KEY_AGAIN);
	} while (key != KEY_END && !ferror(stdout));
	if (o->watch)
		screen_end();
	return r;
}

static bool is_top(const struct command *c)
{
	return strcmp(c->verb ? c->verb : c->noun, "top") == 0;
}

static bool is_log(const struct command *c)
{
	return strcmp(c->noun, "dmon") == 0;
}

static int with_vgpud(const struct options *o, const struct command *c, char *const *words)
{
	struct json_object *args = NULL;
	struct session s = {.options = o, .fd = -1};
	int r = arguments(&s, c, words, &args);

	if (r == EXIT_OK)
		r = session_open(&s);
	if (r != EXIT_OK)
		;
	else if (is_top(c))
		r = top(&s, strcmp(c->noun, "vm") == 0);
	else if (is_log(c))
		r = dmon(&s);
	else if (strcmp(c->noun, "events") == 0)
		r = events(&s);
	else if (strcmp(c->noun, "inventory") == 0)
		r = inventory(&s);
	else if (strcmp(c->noun, "verify") == 0)
		r = verify(&s);
	else
		r = watch(&s, c, args, words);
	json_object_put(args);
	session_close(&s);
	return r;
}

/* Runs doctor on another host, with that host's vgpuctl. */
static int doctor_there(const struct options *o)
{
	char program[] = "vgpuctl", verb[] = "doctor", format[] = "-o", json[] = "json";
	char text[] = "text", option[] = "--socket", *socket = o->socket ? strdup(o->socket) : NULL;
	char *argv[] = {program, verb, format, o->json ? json : text, socket ? option : NULL,
			socket,	 NULL};
	char *said;
	size_t size;
	int code;

	if (!o->json) {
		code = remote_wait(argv, "");
	} else {
		said = remote_output(argv, "", &size, &code);
		code = remote_code(code);
		if (said && remote_skip(said, '[') > 0)
			fputs(said, stdout);
		free(said);
	}
	free(socket);
	return code;
}

/* Runs a command that does not ask vgpud. Returns its exit code, or EXIT_USAGE if its words are
 * wrong. */
static int without_vgpud(const struct options *o, const struct command *c, char **words)
{
	if (strcmp(c->noun, "bridge") == 0 && !words[0])
		return remote_bridge(session_path(o));
	if (strcmp(c->noun, "doctor") == 0 && !words[0] && o->host)
		return doctor_there(o);
	if (strcmp(c->noun, "doctor") == 0 && !words[0])
		return doctor(o, view_colour) ? EXIT_OK : EXIT_FAILED;
	if (strcmp(c->noun, "validate") == 0 && words[0] && !words[1])
		return validate(words[0], o->host, o->json);
	if (strcmp(c->noun, "vm") == 0 && words[0] && words[1])
		return domain_run(o->words); /* the program's name replaces the noun */
	if (strcmp(c->noun, "complete") == 0)
		return complete(o, words);
	fprintf(stderr, "vgpuctl: %s%s%s: want %s\n", c->noun, c->verb ? " " : "",
		c->verb ? c->verb : "", c->words[0] ? c->words : "no argument");
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct options o = {.interval = 1, .seconds = 30, .socket = getenv("VGPUD_SOCKET")};
	const struct command *c;
	const char *refused;
	int used;

	vgpu_output_check("vgpuctl");
	setlocale(LC_CTYPE, "");
	if (options_read(argc, argv, &o) < 0)
		return EXIT_USAGE;
	if (o.version) {
		puts("vgpuctl " VGPU_VERSION);
		return EXIT_OK;
	}
	used = o.n_words > 0 && strcmp(o.words[0], "help") == 0;
	if (o.help || used)
		return command_help(stdout, o.words + used, o.n_words - used) ? EXIT_OK
									      : EXIT_USAGE;
	if (o.n_words == 0) {
		command_help(stderr, o.words, 0);
		return EXIT_USAGE;
	}
	c = command_find(o.words, o.n_words, &used);
	if (!c)
		return EXIT_USAGE;
	refused = options_refused(o.given, c->takes);
	if (refused) {
		fprintf(stderr, "vgpuctl: %s%s%s takes no %s; see vgpuctl %s%s%s --help\n", c->noun,
			c->verb ? " " : "", c->verb ? c->verb : "", refused, c->noun,
			c->verb ? " " : "", c->verb ? c->verb : "");
		return EXIT_USAGE;
	}
	/* Only top and dmon repeat without --watch or --follow. */
	if (o.given & TAKES_TIMES && !o.watch && !o.follow && !is_top(c) && !is_log(c)) {
		fprintf(stderr, "vgpuctl: --interval and --count need %s\n",
			c->takes & TAKES_FOLLOW ? "--follow" : "--watch");
		return EXIT_USAGE;
	}
	if (o.host) {
		if (remote_check(o.host) < 0)
			return EXIT_USAGE;
		remote_set(o.host);
		if (o.socket == getenv("VGPUD_SOCKET")) /* VGPUD_SOCKET names a socket of this host,
							 * not of --host's */
			o.socket = NULL;
	}
	table_csv = o.csv;
	if (o.csv && !(c->takes & TAKES_CSV)) {
		fputs("vgpuctl: -o csv is for gpu list, vf list, vm list, tenant list, dmon and "
		      "inventory\n",
		      stderr);
		return EXIT_USAGE;
	}
	view_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	if (strcmp(c->noun, "run") == 0)
		return run(&o, o.words + used);
	if (strcmp(c->noun, "audit") == 0)
		return audit(&o, o.words + used);
	if (c->method && strncmp(c->method, "tenant.", 7) == 0 && !c->view)
		return container(&o, c, o.words + used);
	if (c->method && strncmp(c->method, "tenant.", 7) == 0)
		return tenant(&o, c, o.words + used);
	return c->method ? with_vgpud(&o, c, o.words + used) : without_vgpud(&o, c, o.words + used);
}
