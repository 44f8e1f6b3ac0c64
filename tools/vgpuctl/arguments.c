/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <stdlib.h>
#include <string.h>

#include "domain.h"
#include "vgpu/number.h"

/* The largest accepted size of a partition, bytes. */
#define MOST_MEMORY (UINT64_C(1) << 44)

struct reading {
	struct session *s;
	const struct command *c;
	char *const *word; /* the next word */
	struct json_object *args;
};

static int want(const struct reading *in, const char *what)
{
	fprintf(stderr, "vgpuctl: %s%s%s: want %s\n", in->c->noun, in->c->verb ? " " : "",
		in->c->verb ? in->c->verb : "", what);
	return EXIT_USAGE;
}

static int read_vf(struct reading *in)
{
	if (!*in->word)
		return want(in, "the number or the address of a VF, as in 'vgpuctl vf list'");
	return session_find_vf(in->s, *in->word++, in->args);
}

/* Reads the GPU, which may be omitted. */
static int read_gpu(struct reading *in)
{
	if (*in->word)
		in->s->named = *in->word++;
	return EXIT_OK;
}

/* Reads "512M", "2G" or "none". */
static int read_memory(struct reading *in)
{
	uint64_t bytes = 0;

	if (!*in->word || (strcmp(*in->word, "none") != 0 &&
			   (!strpbrk(*in->word, "MG") ||
			    vgpu_parse_size(*in->word, MOST_MEMORY, &bytes) < 0 || bytes == 0)))
		return want(in, "a size like 512M or 2G, or none");
	in->word++;
	json_object_object_add(in->args, "mib", json_object_new_int64((int64_t)(bytes >> 20)));
	return EXIT_OK;
}

static int read_domain(struct reading *in)
{
	size_t size;
	char *xml;
	int r;

	if (!*in->word)
		return want(in, "the name of a VM");
	if (strcmp(in->c->method, "vm.explain") != 0) {
		in->word++;
		return EXIT_OK;
	}
	r = domain_xml(*in->word++, &xml, &size);
	if (r != EXIT_OK)
		return r;
	json_object_object_add(in->args, "xml", json_object_new_string(xml));
	free(xml);
	return EXIT_OK;
}

static int read_policy(struct reading *in)
{
	if (*in->word && !strchr(*in->word, '='))
		json_object_object_add(in->args, "policy", json_object_new_string(*in->word++));
	return EXIT_OK;
}

static int read_params(struct reading *in)
{
	struct json_object *params = json_object_new_object();
	char *equals;

	if (!*in->word && in->c->words[0] != '[') {
		json_object_put(params);
		return want(in, "NAME=VALUE");
	}
	for (; *in->word; in->word++) {
		equals = strchr(*in->word, '=');
		if (!equals || equals == *in->word) {
			fprintf(stderr, "vgpuctl: %s: want NAME=VALUE\n", *in->word);
			json_object_put(params);
			return EXIT_USAGE;
		}
		*equals = '\0';
		json_object_object_add(params, *in->word, json_object_new_string(equals + 1));
		*equals = '=';
	}
	if (json_object_object_length(params) > 0)
		json_object_object_add(in->args, "params", params);
	else
		json_object_put(params);
	return EXIT_OK;
}

/* The words that commands.c uses for arguments, and the function that reads each of them. */
static const struct {
	const char *word;
	int (*read)(struct reading *in);
} readers[] = {
	{"VF", read_vf},     {"SIZE", read_memory},	{"VM", read_domain},
	{"[GPU]", read_gpu}, {"[POLICY]", read_policy}, {"NAME=VALUE", read_params},
};

int arguments(struct session *s, const struct command *c, char *const *words,
	      struct json_object **out)
{
	struct reading in = {s, c, words, json_object_new_object()};
	int r = EXIT_OK;
	size_t i;

	for (i = 0; i < sizeof(readers) / sizeof(readers[0]) && r == EXIT_OK; i++)
		if (strstr(c->words, readers[i].word))
			r = readers[i].read(&in);
	if (r == EXIT_OK && *in.word) {
		fprintf(stderr, "vgpuctl: unexpected argument \"%s\"\n", *in.word);
		r = EXIT_USAGE;
	}
	if (r == EXIT_OK && s->options->ms)
		json_object_object_add(in.args, "ms", json_object_new_int64(s->options->ms));
	if (r == EXIT_OK && s->options->force)
		json_object_object_add(in.args, "force", json_object_new_boolean(true));
	if (r == EXIT_OK && s->options->save)
		json_object_object_add(in.args, "save", json_object_new_boolean(true));
	if (r == EXIT_OK && s->options->reason)
		json_object_object_add(in.args, "reason",
				       json_object_new_string(s->options->reason));
	if (r == EXIT_OK)
		*out = in.args;
	else
		json_object_put(in.args);
	return r;
}
