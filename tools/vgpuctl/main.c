/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control_client.h"
#include "doctor.h"
#include "domain.h"
#include "validate.h"
#include "view.h"
#include "vgpu/number.h"

#define DEFAULT_SOCKET "/run/vgpud/control.sock"
/* Of a partition, in bytes: more is a mistake. */
#define MOST_MEMORY (UINT64_C(1) << 44)

/* Exit codes: scripts rely on them, and vgpuctl(8) lists them. */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_DENIED = 4,
	EXIT_NOT_FOUND = 5
};

struct options {
	const char *socket, *gpu, *svg, *output, *reason;
	bool json, force, save;
	int64_t ms, limit, count;
	double interval;
	char *words[33]; /* noun, verb, arguments, NULL */
	int n_words;
};

/* The commands: noun, verb, and vgpud's method that answers them. */
static const struct command {
	const char *noun, *verb;
	const char *method; /* NULL: answered without vgpud */
	const char *words;  /* its arguments */
	const char *help;
	void (*view)(struct json_object *o);
} commands[] = {
	{"gpu", "list", "gpu.list", "", "list the GPUs", view_gpu_list},
	{"gpu", "show", "gpu.show", "", "show the state of a GPU", view_gpu_show},
	{"vf", "list", "vf.list", "", "list the VFs: share promised and received", view_vf_list},
	{"vf", "show", "vf.show", "N", "show all figures of VF N", view_vf_show},
	{"vf", "set", "vf.set", "N NAME=VALUE...", "change parameters of VF N", view_params},
	{"vf", "reset", "vf.reset", "N", "reset VF N: its guest loses its work; ends a quarantine",
	 NULL},
	{"memory", "show", "memory.show", "", "show which VF has which part of the memory", NULL},
	{"memory", "plan", "memory.plan", "N SIZE",
	 "show what a resize of VF N would move and clear", view_memory_plan},
	{"memory", "set", "memory.set", "N SIZE", "resize VF N to SIZE: 512M, 2G or none",
	 view_memory_plan},
	{"memory", "compact", "memory.compact", "",
	 "move partitions until the free memory is one block", NULL},
	{"vm", "list", "vm.list", "", "list the VMs that have a VF", view_vm_list},
	{"vm", "explain", "vm.explain", "DOMAIN",
	 "show what a VM claims and has, or why it gets none", view_vm_explain},
	{"vm", "set", NULL, "DOMAIN NAME=VALUE...",
	 "change the claim in a VM's XML, and its VF if it runs", NULL},
	{"policy", "list", "policy.list", "", "list the policies and their parameters",
	 view_policy_list},
	{"policy", "show", "policy.show", "", "show the policy in force and its parameters",
	 view_policy_show},
	{"policy", "explain", "vf.list", "", "show what the policy promises to each VF",
	 view_policy_explain},
	{"policy", "set", "policy.set", "[POLICY] [NAME=VALUE...]",
	 "change the policy or its parameters", NULL},
	{"config", "diff", "config.diff", "", "show where vgpud differs from its configuration",
	 view_config_diff},
	{"config", "reload", "config.reload", "",
	 "check the configuration, and put into force what needs no restart", view_config_reload},
	{"top", NULL, "vf.list", "", "show the VFs' shares live", NULL},
	{"timeline", NULL, "timeline", "", "show which VF ran when", NULL},
	{"trace", NULL, "timeline", "", "print the timeline for Perfetto", NULL},
	{"stats", NULL, "stats", "", "show latencies and counters", view_stats},
	{"events", NULL, "events", "", "list hangs, resets and exclusive windows", view_events},
	{"doctor", NULL, NULL, "", "check whether this host is ready; changes nothing", NULL},
	{"validate", NULL, NULL, "FILE|DOMAIN", "check a domain's XML and print its claim", NULL},
	{"record", NULL, "record", "", "save the latest events for vgpu-sim replay", NULL},
	{NULL, NULL, NULL, NULL, NULL, NULL},
};

static void usage(FILE *to)
{
	const struct command *c;
	char text[80];

	fputs("usage: vgpuctl [options] COMMAND\n\n", to);
	for (c = commands; c->noun; c++) {
		snprintf(text, sizeof(text), "%s%s%s %s", c->noun, c->verb ? " " : "",
			 c->verb ? c->verb : "", c->words);
		fprintf(to, "  %-38s %s\n", text, c->help);
	}
	fputs("\nOptions:\n"
	      "  --gpu NAME       the GPU; may be omitted if there is only one\n"
	      "  -o json          print the answer as JSON\n"
	      "  --socket PATH    vgpud's control socket ($VGPUD_SOCKET, or " DEFAULT_SOCKET ")\n"
	      "  --ms N           timeline, trace: how far back, milliseconds (1 to 60000; 100)\n"
	      "  --svg FILE       timeline, memory show: write a picture to FILE\n"
	      "  --interval S     top: seconds between two views (0.05 to 3600; 1)\n"
	      "  --count N        top: number of views (1 to 1000000; until interrupted)\n"
	      "  --limit N        events: number of events (1 to 1024; 50)\n"
	      "  --output FILE    record: write to FILE instead of stdout\n"
	      "  --force          memory set: reset the VF if a guest uses it\n"
	      "  --save           vf set, policy set: keep the change over a restart of vgpud\n"
	      "  --reason TEXT    with --save: why; stands beside the change in the configuration\n"
	      "  --help, --version\n"
	      "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 vgpud not reached,\n"
	      "4 permission denied, 5 no such GPU.\n",
	      to);
}

static bool number(const char *text, int64_t min, int64_t max, int64_t *out)
{
	return vgpu_parse_between(text, min, max, out) == 0;
}

__attribute__((format(printf, 1, 2))) static int wrong_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("vgpuctl: ", stderr);
	vfprintf(stderr, format, args);
	fputs("; see vgpuctl --help\n", stderr);
	va_end(args);
	return -EINVAL;
}

/* Options may stand anywhere on the command line, as --name VALUE or --name=VALUE. */
static int parse(int argc, char **argv, struct options *o)
{
	int64_t unused;
	int i;

	for (i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		char *joined = strncmp(a, "--", 2) == 0 ? strchr(argv[i], '=') : NULL;
		bool ok = true;

		if (joined) {
			*joined = '\0';
			value = joined + 1;
		}
		if (!joined && strcmp(a, "--help") == 0) {
			usage(stdout);
			exit(EXIT_OK);
		} else if (!joined && strcmp(a, "--version") == 0) {
			puts("vgpuctl " VGPU_VERSION);
			exit(EXIT_OK);
		} else if (!joined && strcmp(a, "--force") == 0) {
			o->force = true;
			continue;
		} else if (!joined && strcmp(a, "--save") == 0) {
			o->save = true;
			continue;
		} else if (a[0] != '-' || !a[1] || number(a, INT64_MIN, 0, &unused)) {
			if (o->n_words == 32)
				return wrong_usage("more than 32 arguments");
			o->words[o->n_words++] = argv[i];
			continue;
		} else if (!value) {
			return wrong_usage("%s: not an option, or its value is missing", a);
		} else if (strcmp(a, "-o") == 0) {
			ok = strcmp(value, "json") == 0 || strcmp(value, "text") == 0;
			o->json = strcmp(value, "json") == 0;
		} else if (strcmp(a, "--gpu") == 0) {
			o->gpu = value;
		} else if (strcmp(a, "--socket") == 0) {
			o->socket = value;
		} else if (strcmp(a, "--svg") == 0) {
			o->svg = value;
		} else if (strcmp(a, "--reason") == 0) {
			o->reason = value;
		} else if (strcmp(a, "--output") == 0) {
			o->output = value;
		} else if (strcmp(a, "--ms") == 0) {
			ok = number(value, 1, 60000, &o->ms);
		} else if (strcmp(a, "--limit") == 0) {
			ok = number(value, 1, 1024, &o->limit);
		} else if (strcmp(a, "--count") == 0) {
			ok = number(value, 1, 1000000, &o->count);
		} else if (strcmp(a, "--interval") == 0) {
			ok = vgpu_parse_real(value, 0.05, 3600, &o->interval) == 0;
		} else {
			return wrong_usage("%s: not an option", a);
		}
		if (!ok)
			return wrong_usage("%s %s: out of range", a, value);
		i += !joined;
	}
	return 0;
}

/* Parses "512M", "2G" or "none" (0) to MiB. */
static bool size_in_mib(const char *text, int64_t *mib)
{
	uint64_t bytes;

	*mib = 0;
	if (strcmp(text, "none") == 0)
		return true;
	if (!strpbrk(text, "MG") || vgpu_parse_size(text, MOST_MEMORY, &bytes) < 0 || bytes == 0)
		return false;
	*mib = (int64_t)(bytes >> 20);
	return true;
}

/* Makes the method's arguments from the words after the command. NULL on wrong usage, with the
 * reason on stderr. */
static struct json_object *arguments(const struct options *o, const struct command *c, int first)
{
	struct json_object *args = json_object_new_object(), *params = json_object_new_object();
	bool wants_vf = c->words[0] == 'N', wants_params = strchr(c->words, '=') != NULL;
	bool wants_size = strcmp(c->words, "N SIZE") == 0;
	int64_t vf, mib;
	size_t size;
	int i = first;

	if (o->gpu)
		json_object_object_add(args, "gpu", json_object_new_string(o->gpu));
	if (strcmp(c->method, "timeline") == 0 && o->ms)
		json_object_object_add(args, "ms", json_object_new_int64(o->ms));
	if (strcmp(c->method, "events") == 0 && o->limit)
		json_object_object_add(args, "limit", json_object_new_int64(o->limit));
	if (wants_vf) {
		if (i >= o->n_words || !number(o->words[i], 0, 1000000, &vf)) {
			fprintf(stderr,
				"vgpuctl: %s %s: want the number of a VF, as in 'vgpuctl vf "
				"list'\n",
				c->noun, c->verb);
			goto wrong;
		}
		json_object_object_add(args, "vf", json_object_new_int64(vf));
		i++;
	}
	if (wants_size) {
		if (i >= o->n_words || !size_in_mib(o->words[i], &mib)) {
			fprintf(stderr, "vgpuctl: %s %s: want a size like 512M or 2G, or none\n",
				c->noun, c->verb);
			goto wrong;
		}
		json_object_object_add(args, "mib", json_object_new_int64(mib));
		i++;
	}
	if (o->save)
		json_object_object_add(args, "save", json_object_new_boolean(true));
	if (o->reason)
		json_object_object_add(args, "reason", json_object_new_string(o->reason));
	if (strcmp(c->method, "memory.set") == 0 && o->force)
		json_object_object_add(args, "force", json_object_new_boolean(true));
	if (strcmp(c->method, "vm.explain") == 0) {
		char *xml = i < o->n_words ? domain_xml(o->words[i++], &size) : NULL;

		if (!xml) {
			if (i == first)
				fputs("vgpuctl: vm explain: want the name of a domain\n", stderr);
			goto wrong;
		}
		json_object_object_add(args, "xml", json_object_new_string(xml));
		free(xml);
	}
	if (strcmp(c->method, "policy.set") == 0 && i < o->n_words && !strchr(o->words[i], '='))
		json_object_object_add(args, "policy", json_object_new_string(o->words[i++]));
	for (; i < o->n_words; i++) {
		char *eq = wants_params ? strchr(o->words[i], '=') : NULL;

		if (!eq) {
			fprintf(stderr,
				wants_params ? "vgpuctl: %s: want NAME=VALUE\n"
					     : "vgpuctl: unexpected argument \"%s\"\n",
				o->words[i]);
			goto wrong;
		}
		*eq = '\0';
		json_object_object_add(params, o->words[i], json_object_new_string(eq + 1));
	}
	if (wants_params && json_object_object_length(params) == 0 && wants_vf) {
		fprintf(stderr, "vgpuctl: %s %s: want NAME=VALUE\n", c->noun, c->verb);
		goto wrong;
	}
	if (json_object_object_length(params) > 0)
		json_object_object_add(args, "params", params);
	else
		json_object_put(params);
	return args;
wrong:
	json_object_put(args);
	json_object_put(params);
	return NULL;
}

static int exit_code(int r)
{
	return r == -EACCES	  ? EXIT_DENIED
	       : r == -ENOENT	  ? EXIT_NOT_FOUND
	       : r == -ECONNRESET ? EXIT_NO_DAEMON
				  : EXIT_FAILED;
}

static int fail(int r, const struct vgpu_error *err)
{
	fprintf(stderr, "vgpuctl: %s\n", err->text);
	return exit_code(r);
}

static void print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
}

static volatile sig_atomic_t interrupted;

static void on_signal(int n)
{
	(void)n;
	interrupted = 1;
}

static int top(int fd, const struct options *o, struct json_object *args)
{
	struct timespec pause = {(time_t)o->interval,
				 (long)((o->interval - (double)(time_t)o->interval) * 1e9)};
	struct json_object *now = NULL, *before = NULL;
	struct sigaction action = {.sa_handler = on_signal};
	struct vgpu_error err = {""};
	int64_t n;
	int r = 0;

	sigaction(SIGINT, &action, NULL);
	for (n = 0; !interrupted && r == 0 && (o->count == 0 || n <= o->count); n++) {
		r = client_call(fd, "vf.list", json_object_get(args), &now, &err);
		if (r < 0)
			break;
		/* A view shows what changed since the answer before: the first has none. */
		if (n > 0 && o->json) {
			print_json(now);
		} else if (n > 0) {
			if (isatty(STDOUT_FILENO))
				fputs("\033[H\033[J", stdout);
			view_top(now, before);
			fflush(stdout);
		}
		json_object_put(before);
		before = now;
		if (o->count == 0 || n < o->count)
			nanosleep(&pause, NULL);
	}
	json_object_put(before);
	return r < 0 ? fail(r, &err) : EXIT_OK;
}

static int save_svg(const struct options *o, struct json_object *answer,
		    void (*draw)(struct json_object *o, FILE *to))
{
	FILE *f = fopen(o->svg, "we");

	if (!f) {
		fprintf(stderr, "vgpuctl: %s: %s\n", o->svg, strerror(errno));
		return EXIT_FAILED;
	}
	draw(answer, f);
	if (fclose(f) != 0) {
		fprintf(stderr, "vgpuctl: %s: %s\n", o->svg, strerror(errno));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

/* vgpud sends the recording in hexadecimal, because JSON has no bytes. */
static int save_recording(const struct options *o, struct json_object *answer)
{
	const char *text = get_text(answer, "recording");
	FILE *f = o->output ? fopen(o->output, "we") : stdout;
	uint8_t byte;
	bool ok = f;

	if (f && !*text) {
		fprintf(stderr, "vgpuctl: vgpud has recorded no events yet\n");
		return EXIT_FAILED;
	}
	for (; ok && text[0] && text[1]; text += 2)
		ok = vgpu_parse_hex_byte(text, &byte) == 0 && fputc(byte, f) != EOF;
	if (!ok || fflush(f) != 0 || (o->output && fclose(f) != 0)) {
		fprintf(stderr, "vgpuctl: %s: %s\n", o->output ? o->output : "stdout",
			strerror(errno));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int show(const struct options *o, const struct command *c, struct json_object *answer)
{
	const char *columns = getenv("COLUMNS");
	int64_t width = 100;

	if (strcmp(c->noun, "record") == 0)
		return save_recording(o, answer);
	if (columns && number(columns, 40, 1000, &width))
		width -= 8;
	if (strcmp(c->noun, "trace") == 0) {
		timeline_trace(answer, stdout);
	} else if (o->json) {
		print_json(answer);
	} else if (strcmp(c->noun, "timeline") == 0) {
		if (o->svg)
			return save_svg(o, answer, timeline_svg);
		view_timeline(answer, (unsigned)width);
	} else if (strcmp(c->method, "memory.show") == 0) {
		if (o->svg)
			return save_svg(o, answer, memory_svg);
		view_memory(answer, (unsigned)width);
	} else if (c->view) {
		c->view(answer);
	} else if (strcmp(c->method, "policy.set") == 0) {
		printf("policy %s\n", get_text(answer, "policy"));
		view_params(get(answer, "params"));
	}
	if ((strcmp(c->method, "policy.set") == 0 || strcmp(c->method, "vf.set") == 0) && !o->save)
		fputs("vgpuctl: this lasts until vgpud is restarted; --save keeps it\n", stderr);
	return EXIT_OK;
}

static const struct command *find(const struct options *o, int *first)
{
	const struct command *c;

	for (c = commands; c->noun; c++) {
		*first = c->verb ? 2 : 1;
		if (o->n_words >= *first && strcmp(c->noun, o->words[0]) == 0 &&
		    (!c->verb || strcmp(c->verb, o->words[1]) == 0))
			return c;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct options o = {.interval = 1, .socket = getenv("VGPUD_SOCKET")};
	struct json_object *args, *answer = NULL;
	struct vgpu_error err = {""};
	const struct command *c;
	int first, fd, r;

	if (parse(argc, argv, &o) < 0)
		return EXIT_USAGE;
	c = find(&o, &first);
	if (!c) {
		if (o.n_words)
			fprintf(stderr, "vgpuctl: %s%s%s: no such command; these exist:\n",
				o.words[0], o.n_words > 1 ? " " : "",
				o.n_words > 1 ? o.words[1] : "");
		usage(stderr);
		return EXIT_USAGE;
	}
	view_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	/* These commands work while vgpud is down. */
	if (strcmp(c->noun, "doctor") == 0)
		return doctor(o.json, view_colour) ? EXIT_OK : EXIT_FAILED;
	if (strcmp(c->noun, "validate") == 0 && o.n_words == 2)
		return validate(o.words[1], o.json) ? EXIT_OK : EXIT_FAILED;
	if (strcmp(c->noun, "vm") == 0 && !c->method && o.n_words > 3) {
		domain_run(o.words); /* the words after the noun: "set", DOMAIN, NAME=VALUE... */
		return EXIT_FAILED;
	}
	if (!c->method) {
		fprintf(stderr, "vgpuctl: %s: want %s\n", c->noun, c->words);
		return EXIT_USAGE;
	}
	args = arguments(&o, c, first);
	if (!args)
		return EXIT_USAGE;
	fd = client_connect(o.socket ? o.socket : DEFAULT_SOCKET, &err);
	if (fd < 0) {
		json_object_put(args);
		fprintf(stderr, "vgpuctl: %s\n", err.text);
		return fd == -EACCES ? EXIT_DENIED : EXIT_NO_DAEMON;
	}
	if (strcmp(c->noun, "top") == 0) {
		r = top(fd, &o, args);
		json_object_put(args);
		close(fd);
		return r;
	}
	r = client_call(fd, c->method, args, &answer, &err);
	r = r < 0 ? fail(r, &err) : show(&o, c, answer);
	json_object_put(answer);
	close(fd);
	return r;
}
