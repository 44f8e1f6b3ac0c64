/* SPDX-License-Identifier: MIT */
/* Prints the configuration in effect (--dump-config) and all keys (--help-config). */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "builtin.h"
#include "config_keys.h"

/* The state of a config_walk. */
struct walk {
	config_see *see;
	void *data;
	char section[64];
};

static void walk_section(const struct walk *w, enum section section, const void *base)
{
	char text[256];
	int64_t v;
	size_t i;

	for (i = 0; config_keys[i].name; i++) {
		const struct config_key *k = &config_keys[i];

		if (k->section != section)
			continue;
		memcpy(&v, (const char *)base + k->at, sizeof(v));
		if (k->type == TEXT)
			snprintf(text, sizeof(text), "%s", (const char *)base + k->at);
		else if (k->type == BOOL)
			snprintf(text, sizeof(text), "%s", v ? "yes" : "no");
		else if (k->type == CHOICE)
			snprintf(text, sizeof(text), "%s", k->choices[v]);
		else
			snprintf(text, sizeof(text), "%" PRId64, v);
		w->see(w->data, w->section, k->name, text, k->when == LIVE);
	}
}

static void walk_params(const struct walk *w, const struct vgpu_param *table, const int64_t *values)
{
	char text[64];
	int i;

	for (i = 0; table[i].name; i++) {
		vgpu_param_text(&table[i], values[i], text, sizeof(text));
		w->see(w->data, w->section, table[i].name, text, true);
	}
}

void config_walk(const struct config *c, config_see *see, void *data)
{
	struct walk w = {see, data, "daemon"};
	uint32_t i, vf;

	walk_section(&w, DAEMON, c);
	for (i = 0; i < c->n_gpus; i++) {
		const struct gpu_config *g = &c->gpus[i];

		snprintf(w.section, sizeof(w.section), "gpu %s", g->name);
		walk_section(&w, GPU, g);
		walk_params(&w, g->ops->params, g->params);
		for (vf = 0; vf < g->vfs; vf++) {
			snprintf(w.section, sizeof(w.section), "vf %s/%u", g->name, vf);
			walk_section(&w, VF, (const char *)g + vf * sizeof(int64_t));
			walk_params(&w, g->ops->vf_params, g->vf_params[vf]);
		}
	}
	for (i = 0; i < c->n_tenants; i++) {
		snprintf(w.section, sizeof(w.section), "tenant %s", c->tenants[i].name);
		walk_section(&w, TENANT, &c->tenants[i]);
	}
	for (i = 0; i < c->n_profiles; i++) {
		const struct profile *p = &c->profiles[i];
		uint32_t k;

		snprintf(w.section, sizeof(w.section), "profile %s", p->name);
		walk_section(&w, PROFILE, p);
		for (k = 0; k < p->n_params; k++)
			see(data, w.section, p->params[k].name, p->params[k].value, true);
	}
}

struct dump {
	FILE *to;
	char section[64]; /* the last section */
};

static void dump_key(void *data, const char *section, const char *key, const char *value, bool)
{
	struct dump *d = data;

	if (strcmp(d->section, section) != 0)
		fprintf(d->to, "%s[%s]\n", d->section[0] ? "\n" : "", section);
	snprintf(d->section, sizeof(d->section), "%s", section);
	fprintf(d->to, "%s = %s\n", key, value);
}

void config_dump(const struct config *c, FILE *to)
{
	struct dump d = {to, ""};

	config_walk(c, dump_key, &d);
}

static void help_params(FILE *to, const struct vgpu_param *table)
{
	char range[80], def[32];
	int i;

	for (i = 0; table[i].name; i++) {
		const struct vgpu_param *p = &table[i];

		if (p->type == VGPU_PARAM_CHOICE)
			vgpu_join_choices(p->choices, range, sizeof(range));
		else
			snprintf(range, sizeof(range), "%" PRId64 " to %" PRId64 "%s%s", p->min,
				 p->max, *p->unit ? " " : "", p->unit);
		vgpu_param_text(p, p->def, def, sizeof(def));
		fprintf(to, "  %-18s %s (%s; %s)\n", p->name, p->help, range, def);
	}
}

void config_help(FILE *to)
{
	enum section s;
	size_t i;

	for (s = DAEMON; s <= TENANT; s++) {
		fprintf(to, "[%s]\n", config_sections[s]);
		for (i = 0; config_keys[i].name; i++) {
			const struct config_key *k = &config_keys[i];
			char more[VGPU_FORMS_SIZE] = "";

			if (k->section != s)
				continue;
			if (k->section == GPU && strcmp(k->name, "device") == 0)
				vgpu_device_forms(more, sizeof(more), true);
			if (k->type == TEXT && !*k->def_text)
				fprintf(to, "  %-18s %s%s\n", k->name, k->help, more);
			else if (k->type == TEXT)
				fprintf(to, "  %-18s %s (%s)\n", k->name, k->help, k->def_text);
			else if (k->type == BOOL)
				fprintf(to, "  %-18s %s (%s)\n", k->name, k->help,
					k->def ? "yes" : "no");
			else if (k->type == CHOICE)
				fprintf(to, "  %-18s %s (%s)\n", k->name, k->help,
					k->choices[k->def]);
			else
				fprintf(to,
					"  %-18s %s (%" PRId64 " to %" PRId64 "; %" PRId64 ")\n",
					k->name, k->help, k->min, k->max, k->def);
		}
	}
	for (i = 0; vgpu_builtin_policies[i]; i++) {
		fprintf(to, "policy = %s, in [gpu NAME]\n", vgpu_builtin_policies[i]->name);
		help_params(to, vgpu_builtin_policies[i]->params);
		fprintf(to, "policy = %s, in [vf NAME/N]\n", vgpu_builtin_policies[i]->name);
		help_params(to, vgpu_builtin_policies[i]->vf_params);
	}
}
