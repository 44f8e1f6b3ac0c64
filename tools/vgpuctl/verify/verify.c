/* SPDX-License-Identifier: MIT */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "screen.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"

/* The time between samples; it is longer if a report would otherwise have more than SAMPLES_WANTED
 * of them. */
#define LOOK_EACH (200 * (int64_t)VGPU_MSEC)
#define SAMPLES_WANTED 1500

static int64_t interval_of(int64_t seconds)
{
	int64_t seldom = seconds * (int64_t)VGPU_SEC / SAMPLES_WANTED;

	return seldom > LOOK_EACH ? seldom : LOOK_EACH;
}

/* Reads "all", or numbers of VFs separated by commas. */
static int read_busy(struct verify *v, const char *text)
{
	char *copy, *word, *rest = NULL;
	int64_t vf;
	int r = EXIT_OK;

	if (strcmp(text, "all") == 0) {
		v->busy = vgpu_first_vfs((uint32_t)v->n_vfs);
		return EXIT_OK;
	}
	copy = strdup(text);
	for (word = strtok_r(copy, ",", &rest); word && r == EXIT_OK;
	     word = strtok_r(NULL, ",", &rest)) {
		if (vgpu_parse_between(word, 0, v->n_vfs - 1, &vf) == 0)
			v->busy |= VGPU_VF_BIT(vf);
		else
			r = EXIT_USAGE;
	}
	free(copy);
	if (r == EXIT_OK && v->busy)
		return EXIT_OK;
	fprintf(stderr,
		"vgpuctl: --busy %s: want all, or numbers of VFs from 0 to %d with commas "
		"between\n",
		text, v->n_vfs - 1);
	return EXIT_USAGE;
}

static int measure(struct verify *v)
{
	const struct options *o = v->session->options;
	int64_t seconds = o->seconds, each = interval_of(seconds);
	int r = verify_begin(v);

	if (r == EXIT_OK && o->busy)
		r = read_busy(v, o->busy);
	if (r != EXIT_OK)
		return r;
	if (!o->json)
		fprintf(stderr, "vgpuctl: measuring %s for %d s; %s\n", get_text(v->gpu, "gpu"),
			(int)seconds,
			o->change ? "then a weight is changed" : "nothing is changed");
	screen_catch();
	r = verify_look(v);
	if (r == EXIT_OK)
		r = verify_watch(v, (int64_t)vgpu_now() + seconds * (int64_t)VGPU_SEC, each);
	if (r == EXIT_OK)
		verify_shares(v); /* before a weight changes them */
	if (r == EXIT_OK && o->change && !v->interrupted)
		r = verify_change(v, o->change, each);
	return r;
}

static int code_of(const struct verify *v)
{
	enum verdict result = verify_result(v);

	if (result == BROKEN)
		return EXIT_BROKEN;
	if (v->interrupted)
		return EXIT_FAILED;
	return result == KEPT ? EXIT_OK : EXIT_NOT_JUDGED;
}

int verify(struct session *s)
{
	struct verify v = {.session = s};
	const char *path = s->options->output ? s->options->output : "vgpud-verify.json";
	int r;

	if (count(s->gpus) != 1) {
		fprintf(stderr,
			"vgpuctl: verify: %zu GPUs are configured: choose one, as in 'vgpuctl "
			"verify gpu0' ('vgpuctl gpu list' shows them)\n",
			count(s->gpus));
		return EXIT_USAGE;
	}
	r = verify_claim(&v, path);
	if (r == EXIT_OK)
		r = measure(&v);
	if (r == EXIT_OK) {
		verify_judge(&v);
		r = verify_save(&v);
	}
	if (r == EXIT_OK && s->options->json)
		print_json(v.checks);
	else if (r == EXIT_OK)
		verify_print(&v);
	r = r == EXIT_OK ? code_of(&v) : r;
	verify_unclaim(&v);
	verify_end(&v);
	return r;
}
