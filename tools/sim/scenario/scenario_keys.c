/* SPDX-License-Identifier: MIT */
/* Parts of a scenario's lines: durations, and keys with values. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "scenario_private.h"

const char *const scenario_works[] = {"always", "bursts",   "never",   "sleeper",
				      "script", "periodic", "windows", NULL};
const char *const scenario_kinds[] = {"arrive", "work", "think", "depart", "param",
				      "excl",	"hang", "mem",	 "prep",   NULL};
const char *const scenario_roles[] = {"none", "frames", "inference", "training", "desktop", NULL};
const char *const scenario_placements[] = {"round-robin", "first-fit", "least-loaded", NULL};

bool scenario_parse_time(const char *text, vgpu_nsec *out, const char **end)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *after;
	double v = strtod(text, &after);
	size_t i, n;

	if (after == text || !(v >= 0 && v < 1e18))
		return false;
	for (i = 0; i < 4; i++) {
		n = strlen(units[i].unit);
		if (strncmp(after, units[i].unit, n) == 0) {
			v *= units[i].ns;
			after += n;
			break;
		}
	}
	if (v >= 1e18)
		return false;
	*out = (vgpu_nsec)(v + 0.5);
	*end = after;
	return true;
}

/* Parses A..B, or A alone. Returns false if TEXT is neither. */
static bool parse_range(const char *text, struct vhost_range *out)
{
	const char *dots = strstr(text, ".."), *end;
	char first[32];

	if (!dots) {
		out->min = 0;
		if (!scenario_parse_time(text, &out->max, &end) || *end)
			return false;
		out->min = out->max;
		return true;
	}
	if ((size_t)(dots - text) >= sizeof(first))
		return false;
	memcpy(first, text, (size_t)(dots - text));
	first[dots - text] = '\0';
	return scenario_parse_time(first, &out->min, &end) && !*end &&
	       scenario_parse_time(dots + 2, &out->max, &end) && !*end && out->max >= out->min;
}

void scenario_time_text(vgpu_nsec ns, char *text, size_t size)
{
	if (ns && ns % VGPU_SEC == 0)
		snprintf(text, size, "%llus", (unsigned long long)(ns / VGPU_SEC));
	else if (ns && ns % VGPU_MSEC == 0)
		snprintf(text, size, "%llums", (unsigned long long)(ns / VGPU_MSEC));
	else if (ns && ns % VGPU_USEC == 0)
		snprintf(text, size, "%lluus", (unsigned long long)(ns / VGPU_USEC));
	else
		snprintf(text, size, "%llu", (unsigned long long)ns);
}

const struct key scenario_keys[] = {
	{"load", KEY_RANGE, offsetof(struct scenario, load), NULL},
	{"run", KEY_RANGE, offsetof(struct scenario, run), NULL},
	{"init", KEY_RANGE, offsetof(struct scenario, init), NULL},
	{"window", KEY_RANGE, offsetof(struct scenario, window), NULL},
	{"scrub", KEY_RANGE, offsetof(struct scenario, scrub), NULL},
	{"reset", KEY_RANGE, offsetof(struct scenario, reset), NULL},
	{"timer_late", KEY_RANGE, offsetof(struct scenario, timer_late), NULL},
	{"min_slice", KEY_TIME, offsetof(struct scenario, min_slice), NULL},
	{"min_run", KEY_TIME, offsetof(struct scenario, min_run), NULL},
	{"command_fails", KEY_PPM, offsetof(struct scenario, command_fails_ppm), NULL},
	{"reset_fails", KEY_PPM, offsetof(struct scenario, reset_fails_ppm), NULL},
	{"memory", KEY_NUMBER, offsetof(struct scenario, memory), NULL},
	{"gpu_reset", KEY_FLAG, offsetof(struct scenario, gpu_reset), NULL},
	{"ask_at_end", KEY_FLAG, offsetof(struct scenario, ask_at_end), NULL},
	{"chains", KEY_FLAG, offsetof(struct scenario, chains), NULL},
	{"windows_stick", KEY_FLAG, offsetof(struct scenario, windows_stick), NULL},
	{NULL, 0, 0, NULL},
};

const struct key scenario_governed_keys[] = {
	{"step", KEY_TIME, offsetof(struct scenario_governed, step), NULL},
	{"stop", KEY_TIME, offsetof(struct scenario_governed, stop), NULL},
	{"epoch", KEY_TIME, offsetof(struct scenario_governed, epoch), NULL},
	{"rotation", KEY_TIME, offsetof(struct scenario_governed, rotation), NULL},
	{"turn", KEY_TIME, offsetof(struct scenario_governed, turn), NULL},
	{"slack", KEY_TIME, offsetof(struct scenario_governed, slack), NULL},
	{"settle", KEY_TIME, offsetof(struct scenario_governed, settle), NULL},
	{"switch", KEY_TIME, offsetof(struct scenario_governed, switch_ns), NULL},
	{"tolerance", KEY_PPM, offsetof(struct scenario_governed, tolerance_ppm), NULL},
	{"freeze", KEY_TIME, offsetof(struct scenario_governed, freeze), NULL},
	{NULL, 0, 0, NULL},
};

const struct key scenario_vf_keys[] = {
	{"role", KEY_CHOICE, offsetof(struct scenario_vf, role), scenario_roles},
	{"burst", KEY_RANGE, offsetof(struct scenario_vf, burst), NULL},
	{"think", KEY_RANGE, offsetof(struct scenario_vf, think), NULL},
	{"period", KEY_RANGE, offsetof(struct scenario_vf, period), NULL},
	{"late", KEY_RANGE, offsetof(struct scenario_vf, late), NULL},
	{"save", KEY_RANGE, offsetof(struct scenario_vf, save), NULL},
	{"rare", KEY_RANGE, offsetof(struct scenario_vf, rare), NULL},
	{"window", KEY_RANGE, offsetof(struct scenario_vf, window), NULL},
	{"strategist", KEY_FLAG, offsetof(struct scenario_vf, strategist), NULL},
	{"quantum", KEY_RANGE, offsetof(struct scenario_vf, quantum), NULL},
	{"late_span", KEY_RANGE, offsetof(struct scenario_vf, late_span), NULL},
	{"rare_ppm", KEY_PPM, offsetof(struct scenario_vf, rare_ppm), NULL},
	{"hang_ppm", KEY_PPM, offsetof(struct scenario_vf, hang_ppm), NULL},
	{"reset_ppm", KEY_PPM, offsetof(struct scenario_vf, reset_ppm), NULL},
	{"window_ppm", KEY_PPM, offsetof(struct scenario_vf, window_ppm), NULL},
	{NULL, 0, 0, NULL},
};

int scenario_key_set(const struct key *keys, void *base, const char *name, const char *value)
{
	const struct key *k;
	const char *end;
	int64_t v;
	void *at;

	for (k = keys; k->name && strcmp(k->name, name) != 0; k++)
		;
	if (!k->name)
		return -ENOENT;
	at = (char *)base + k->offset;
	switch (k->type) {
	case KEY_RANGE:
		return parse_range(value, at) ? 0 : -EINVAL;
	case KEY_TIME:
		return scenario_parse_time(value, at, &end) && !*end ? 0 : -EINVAL;
	case KEY_PPM:
		if (vgpu_parse_int(value, &v) < 0 || v < 0 || v > 1000000)
			return -EINVAL;
		*(uint32_t *)at = (uint32_t)v;
		return 0;
	case KEY_NUMBER:
		if (vgpu_parse_int(value, &v) < 0 || v < 0)
			return -EINVAL;
		*(uint64_t *)at = (uint64_t)v;
		return 0;
	case KEY_FLAG:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return -EINVAL;
		*(bool *)at = value[0] == 'y';
		return 0;
	case KEY_CHOICE:
		if (vgpu_parse_choice(k->choices, value, &v) < 0)
			return -EINVAL;
		*(uint32_t *)at = (uint32_t)v;
		return 0;
	}
	return -ENOENT;
}

void scenario_keys_write(const struct key *keys, const void *base, FILE *to, const char *before)
{
	char a[32], b[32];
	const struct key *k;

	for (k = keys; k->name; k++) {
		const void *at = (const char *)base + k->offset;
		const struct vhost_range *range = at;

		if (k->type == KEY_RANGE && range->max > 0) {
			scenario_time_text(range->min, a, sizeof(a));
			scenario_time_text(range->max, b, sizeof(b));
			fprintf(to, "%s%s=%s", before, k->name, a);
			if (range->max != range->min)
				fprintf(to, "..%s", b);
		} else if (k->type == KEY_TIME) {
			scenario_time_text(*(const vgpu_nsec *)at, a, sizeof(a));
			fprintf(to, "%s%s=%s", before, k->name, a);
		} else if (k->type == KEY_PPM && *(const uint32_t *)at) {
			fprintf(to, "%s%s=%u", before, k->name, *(const uint32_t *)at);
		} else if (k->type == KEY_NUMBER && *(const uint64_t *)at) {
			fprintf(to, "%s%s=%llu", before, k->name,
				(unsigned long long)*(const uint64_t *)at);
		} else if (k->type == KEY_FLAG && *(const bool *)at) {
			fprintf(to, "%s%s=yes", before, k->name);
		} else if (k->type == KEY_CHOICE && *(const uint32_t *)at) {
			fprintf(to, "%s%s=%s", before, k->name, k->choices[*(const uint32_t *)at]);
		}
	}
}
