/* SPDX-License-Identifier: MIT */
#include "check_running.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_check.h"
#include "engine/engine.h"

/* Writes the abilities of the GPUs that vgpud has opened. */
static void know(const struct config *config, const struct control *running,
		 struct config_known *out)
{
	const struct gpu_config *g, *runs;
	uint32_t i, k;

	for (i = 0; i < config->n_gpus; i++)
		for (k = 0; k < running->n_gpus; k++) {
			g = &config->gpus[i];
			runs = running->gpus[k].config;
			if (strcmp(runs->name, g->name) == 0 &&
			    strcmp(runs->device, g->device) == 0 &&
			    engine_policy(running->gpus[k].engine)->opened)
				out->gpus[i] = *engine_caps(running->gpus[k].engine);
		}
}

int config_check_running(const struct config *config, const struct control *running, FILE *errors)
{
	struct config_known *known = calloc(1, sizeof(*known));
	int wrong;

	if (!known)
		return -ENOMEM;
	know(config, running, known);
	wrong = config_check_gpus(config, known, errors);
	free(known);
	return wrong > 0 ? -EINVAL : 0;
}
