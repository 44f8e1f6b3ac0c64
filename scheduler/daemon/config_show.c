/* SPDX-License-Identifier: MIT */
/* Prints the configuration in effect (--dump-config) and all keys (--help-config). */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "builtin.h"
#include "config_keys.h"

static void dump_section(FILE *to, enum section section, const void *base)
{
	int64_t v;
	size_t i;

	for (i = 0; config_keys[i].name; i++) {
		const struct config_key *k = &config_keys[i];

		if (k->section != section)
			continue;
		memcpy(&v, (const char *)base + k->at, sizeof(v));
		if (k->type == TEXT)
			fprintf(to, "%s = %s\n", k->name, (const char *)base + k->at);
		else if (k->type == BOOL)
			fprintf(to, "%s = %s\n", k->name, v ? "yes" : "no");
		else if (k->type == CHOICE)
			fprintf(to, "%s = %s\n", k->name, k->choices[v]);
		else
			fprintf(to, "%s = %" PRId64 "\n", k->name, v);
	}
}

static void dump_params(FILE *to, const struct vgpu_param *table, const int64_t *values)
{
	char text[64];
	int i;

	for (i = 0; table[i].name; i++) {
		vgpu_param_text(&table[i], values[i], text, sizeof(text));
		fprintf(to, "%s = %s\n", table[i].name, text);
	}
}

void config_dump(const struct config *c, FILE *to)
{
	uint32_t i, vf;

	fputs("[daemon]\n", to);
	dump_section(to, DAEMON, c);
	for (i = 0; i < c->n_gpus; i++) {
		const struct gpu_config *g = &c->gpus[i];

		fprintf(to, "\n[gpu %s]\n", g->name);
		dump_section(to, GPU, g);
		dump_params(to, g->ops->params, g->params);
		for (vf = 0; vf < g->vfs; vf++) {
			fprintf(to, "\n[vf %s/%u]\n", g->name, vf);
			dump_section(to, VF, (const char *)g + vf * sizeof(int64_t));
			dump_params(to, g->ops->vf_params, g->vf_params[vf]);
		}
	}
	for (i = 0; i < c->n_profiles; i++) {
		const struct profile *p = &c->profiles[i];
		uint32_t k;

		fprintf(to, "\n[profile %s]\n", p->name);
		dump_section(to, PROFILE, p);
		for (k = 0; k < p->n_params; k++)
			fprintf(to, "%s = %s\n", p->params[k].name, p->params[k].value);
	}
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

	for (s = DAEMON; s <= PROFILE; s++) {
		fprintf(to, "[%s]\n", config_sections[s]);
		for (i = 0; config_keys[i].name; i++) {
			const struct config_key *k = &config_keys[i];

			if (k->section != s)
				continue;
			if (k->type == TEXT && !*k->def_text)
				fprintf(to, "  %-18s %s\n", k->name, k->help);
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
