/* SPDX-License-Identifier: MIT */
#include "scenario_private.h"

static void settings_write(const struct settings *s, FILE *to)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		fprintf(to, " %s=%s", s->list[i].name, s->list[i].value);
}

void scenario_write(const struct scenario *s, FILE *to)
{
	static const char *const of_vf[] = {[OP_SET] = "vf",
					    [OP_RESET] = "reset",
					    [OP_COMES] = "comes",
					    [OP_RESUMES] = "resumes"};
	char text[32];
	uint32_t i;
	size_t k;

	fprintf(to, "vfs %u\n", s->n_vfs);
	if (s->n_gpus > 1)
		fprintf(to, "gpus %u %s\n", s->n_gpus, scenario_placements[s->placement]);
	fprintf(to, "seed %llu\n", (unsigned long long)s->seed);
	scenario_time_text(s->until, text, sizeof(text));
	fprintf(to, "until %s\n", text);
	if (s->work_from) {
		scenario_time_text(s->work_from, text, sizeof(text));
		fprintf(to, "work_from %s\n", text);
	}
	fprintf(to, "gpu");
	scenario_keys_write(scenario_keys, s, to, " ");
	if (s->governed.on) {
		fprintf(to, "\ngoverned");
		scenario_keys_write(scenario_governed_keys, &s->governed, to, " ");
	}
	fprintf(to, "\npolicy %s", s->policy);
	settings_write(&s->params, to);
	fputc('\n', to);
	for (i = 0; i < s->n_vfs; i++) {
		fprintf(to, "vf %u work=%s", i, scenario_works[s->vfs[i].work]);
		scenario_keys_write(scenario_vf_keys, &s->vfs[i], to, " ");
		settings_write(&s->vfs[i].params, to);
		fputc('\n', to);
	}
	for (k = 0; k < s->n_ops; k++) {
		const struct scenario_op *op = &s->ops[k];

		scenario_time_text(op->t, text, sizeof(text));
		fprintf(to, "at %s ", text);
		if (op->type == OP_POLICY)
			fprintf(to, "policy %s", op->policy);
		else if (op->type == OP_SET_POLICY)
			fprintf(to, "params");
		else if (op->type == OP_RESTART)
			fprintf(to, "restart");
		else
			fprintf(to, "%s %u", of_vf[op->type], op->vf);
		if (op->type == OP_RESUMES) {
			scenario_time_text(op->owed, text, sizeof(text));
			fprintf(to, " %s", text);
		}
		settings_write(&op->params, to);
		fputc('\n', to);
	}
	for (i = 0; i < s->n_vfs; i++) {
		for (k = 0; k < s->vfs[i].n_items; k++) {
			const struct scenario_item *it = &s->vfs[i].items[k];

			fprintf(to, "%llu %u %s", (unsigned long long)it->t, i,
				scenario_kinds[it->kind]);
			if (it->kind == VHOST_PARAM)
				settings_write(&it->params, to);
			else if (it->kind != VHOST_ARRIVE && it->kind != VHOST_DEPART &&
				 it->kind != VHOST_HANG)
				fprintf(to, " %llu", (unsigned long long)it->value);
			fputc('\n', to);
		}
	}
}
