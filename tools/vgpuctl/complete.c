/* SPDX-License-Identifier: MIT */
/*
 * Completion for all shells. The kind of the next word is in the table of commands; vgpuctl asks
 * vgpud for the names of GPUs, VFs, policies and parameters. If vgpud does not answer, vgpuctl
 * offers no names and reports nothing.
 */
#include "complete.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "commands.h"
#include "session.h"

#define MAX_WORDS 40

/* The words before the last one, without options and their values. */
struct line {
	const struct options *options;
	const char *words[MAX_WORDS];
	int n;
};

static void offer_each(struct json_object *list, const char *key, const char *after)
{
	size_t i;

	for (i = 0; i < count(list); i++)
		printf("%s%s\n", get_text(at(list, i), key), after);
}

/* Asks vgpud. Returns the answer, which the caller frees; NULL if vgpud does not answer, or with
 * --host, because ssh might ask for a password. */
static struct json_object *ask_vgpud(const struct line *line, const char *method, const char *vf)
{
	struct session s = {.options = line->options, .fd = -1};
	struct json_object *args, *answer = NULL;

	if (line->options->host)
		return NULL;
	args = json_object_new_object();
	if (session_open(&s) == EXIT_OK && (!vf || session_find_vf(&s, vf, args) == EXIT_OK)) {
		if (line->options->gpu && count(s.gpus) == 1)
			json_object_object_add(args, "gpu",
					       json_object_get(get(at(s.gpus, 0), "gpu")));
		session_call(&s, method, json_object_get(args), &answer);
	}
	json_object_put(args);
	session_close(&s);
	return answer;
}

static void offer_asked(const struct line *line, const char *method, const char *list,
			const char *key)
{
	struct json_object *answer = ask_vgpud(line, method, NULL);

	offer_each(get(answer, list), key, "");
	json_object_put(answer);
}

static void offer_keys(struct json_object *o)
{
	json_object_object_foreach(members(o), key, value)
	{
		(void)value;
		printf("%s=\n", key);
	}
}

/* Offers the parameters of a VF, or of the policy that is named or in use. */
static void offer_params(const struct line *line, const struct command *c)
{
	struct json_object *answer, *list;
	size_t i;

	if (strcmp(c->method, "vf.set") == 0) {
		answer = ask_vgpud(line, "vf.show", line->words[2]);
		if (get(answer, "params"))
			offer_keys(get(answer, "params"));
		json_object_put(answer);
		return;
	}
	if (line->n <= 2 || strchr(line->words[2], '=')) {
		answer = ask_vgpud(line, "policy.show", NULL);
		offer_each(get(answer, "params"), "name", "=");
		json_object_put(answer);
		return;
	}
	answer = ask_vgpud(line, "policy.list", NULL);
	list = get(answer, "policies");
	for (i = 0; i < count(list); i++)
		if (strcmp(get_text(at(list, i), "policy"), line->words[2]) == 0)
			offer_each(get(at(list, i), "params"), "name", "=");
	json_object_put(answer);
}

/* Offers values of the argument that the command has at the place of the last word. */
static void offer_arguments(const struct line *line, const struct command *c, int used)
{
	bool is_first = line->n == used;

	if (is_first && strncmp(c->words, "VF", 2) == 0)
		offer_asked(line, "vf.list", "vfs", "vf");
	else if (is_first && strcmp(c->words, "[GPU]") == 0)
		offer_asked(line, "gpu.list", "gpus", "gpu");
	else if (is_first && strcmp(c->words, "FILE|VM") == 0)
		fputs(":files\n:vms\n", stdout);
	else if (is_first && strcmp(c->method ? c->method : "", "vm.list") == 0 && c->words[0])
		offer_asked(line, "vm.list", "vms", "domain");
	else if (is_first && strncmp(c->words, "VM", 2) == 0)
		fputs(":vms\n", stdout);
	else if (line->n == used + 1 && strcmp(c->words, "VF SIZE") == 0)
		fputs("none\n", stdout);
	else if (c->method && strstr(c->words, "NAME=VALUE"))
		offer_params(line, c);
	if (is_first && strncmp(c->words, "[POLICY]", 8) == 0)
		offer_asked(line, "policy.list", "policies", "policy");
}

/* Offers nouns, or the verbs of a noun. */
static void offer_commands(const struct line *line)
{
	const struct command *c, *before;

	for (c = commands; c->noun; c++) {
		if (line->n == 1 && c->verb && strcmp(c->noun, line->words[0]) == 0)
			puts(c->verb);
		for (before = commands; before < c && strcmp(before->noun, c->noun) != 0; before++)
			;
		if (line->n == 0 && before == c)
			puts(c->noun);
	}
}

static const struct command *find(const struct line *line, int *used)
{
	const struct command *c;

	for (c = commands; c->noun; c++) {
		*used = c->verb ? 2 : 1;
		if (line->n >= *used && strcmp(line->words[0], c->noun) == 0 &&
		    (!c->verb || strcmp(line->words[1], c->verb) == 0))
			return c;
	}
	return NULL;
}

static void offer_values(const struct line *line, const char *value)
{
	if (strcmp(value, "NAME") == 0)
		offer_asked(line, "gpu.list", "gpus", "gpu");
	else if (strncmp(value, "FILE", 4) == 0 || strcmp(value, "PATH") == 0)
		puts(":files");
	else if (strcmp(value, "FORMAT") == 0)
		puts("nova\nnova-pci\njson\nprometheus-sd");
	else if (strcmp(value, "VF") == 0)
		offer_asked(line, "vf.list", "vfs", "vf");
	else if (strcmp(value, "VFS") == 0)
		puts("all");
	else if (strcmp(value, "json|csv") == 0)
		puts("json\ncsv\ntext");
	else if (strcmp(value, "COLUMN") == 0)
		puts("vf\nvm\nnow\nreceived\nwait\nturns\noverrun");
}

int complete(const struct options *options, char **words)
{
	struct options asked = *options;
	struct line line = {.options = &asked};
	const char *last = "", *value = NULL;
	const struct command *c;
	int used = 0, i, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* Messages would garble the shell's line, so they are discarded. */
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	for (i = 0; words[i]; i++) {
		last = words[i];
		if (!words[i + 1])
			break;
		if (value) {
			if (strcmp(value, "NAME") == 0)
				asked.gpu = words[i];
			if (strcmp(value, "PATH") == 0)
				asked.socket = words[i];
			if (strcmp(value, "HOST") == 0)
				asked.host = words[i];
			value = NULL;
		} else if (words[i][0] == '-') {
			value = options_value(words[i]);
		} else if (line.n < MAX_WORDS) {
			line.words[line.n++] = words[i];
		}
	}
	c = find(&line, &used);
	if (value)
		offer_values(&line, value);
	else if (last[0] == '-')
		options_names(stdout, c ? c->takes : UINT32_MAX);
	else if (c)
		offer_arguments(&line, c, used);
	else
		offer_commands(&line);
	if (null >= 0)
		close(null);
	return EXIT_OK;
}
