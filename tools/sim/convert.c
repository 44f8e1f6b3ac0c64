/* SPDX-License-Identifier: MIT */
/*
 * Converts public traces under CC-BY 4.0, which are not shipped: Azure's LLM inference traces of
 * 2023 (AzurePublicDataset: TIMESTAMP,ContextTokens,GeneratedTokens) and the per-iteration times of
 * Alibaba's GPU cluster trace of 2020 (mini-batch-time, one number a line). They have arrivals, and
 * sizes in tokens and steps; the models named here give the times on the GPU.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

/* The model (assumed, mid-size, on one GPU): prefill per token of the prompt, decode per generated
 * token. */
#define PREFILL_NS_PER_TOKEN 25000u
#define PREFILL_NS 2000000u
#define DECODE_NS 2000000u

/* Reads "2023-11-16 18:17:03.9799600" as ns since the start of the day. */
static bool day_time(const char *text, uint64_t *ns)
{
	unsigned hour, minute;
	double second;

	if (sscanf(text, "%*u-%*u-%*u %u:%u:%lf", &hour, &minute, &second) != 3)
		return false;
	*ns = (uint64_t)((hour * 3600.0 + minute * 60.0 + second) * 1e9);
	return true;
}

static int azure_llm(FILE *from, FILE *to, uint32_t vf, struct vgpu_error *err)
{
	char line[256], *comma;
	unsigned long number = 0;
	uint64_t t, first = 0, prompt, tokens;
	bool begun = false;

	while (fgets(line, sizeof(line), from)) {
		number++;
		comma = strchr(line, ',');
		if (number == 1 && strncmp(line, "TIMESTAMP", 9) == 0)
			continue;
		if (!comma || !day_time(line, &t) ||
		    sscanf(comma + 1, "%" SCNu64 ",%" SCNu64, &prompt, &tokens) != 2 ||
		    tokens > 100000)
			return vgpu_error_set(err, -EINVAL,
					      "line %lu: want TIMESTAMP,ContextTokens,"
					      "GeneratedTokens",
					      number);
		if (!begun) {
			first = t;
			begun = true;
			fprintf(to, "0 %" PRIu32 " arrive\n", vf);
		}
		t = t >= first ? t - first : t + 86400 * VGPU_SEC - first;
		fprintf(to, "%" PRIu64 " %" PRIu32 " work %" PRIu64 "\n", t, vf,
			PREFILL_NS + prompt * PREFILL_NS_PER_TOKEN);
		for (; tokens > 0; tokens--)
			fprintf(to, "%" PRIu64 " %" PRIu32 " work %u\n", t, vf, DECODE_NS);
	}
	return 0;
}

static int alibaba_batches(FILE *from, FILE *to, uint32_t vf, struct vgpu_error *err)
{
	unsigned long number = 0;
	char line[256], *end;
	const char *last;
	double seconds;

	fprintf(to, "0 %" PRIu32 " arrive\n", vf);
	while (fgets(line, sizeof(line), from)) {
		number++;
		last = strrchr(line, ',');
		last = last ? last + 1 : line;
		seconds = strtod(last, &end);
		if (end == last && number == 1)
			continue; /* a header line */
		if (end == last || !(seconds > 0 && seconds < 3600))
			return vgpu_error_set(err, -EINVAL,
					      "line %lu: want the seconds of an iteration", number);
		fprintf(to, "0 %" PRIu32 " work %" PRIu64 "\n0 %" PRIu32 " think 1000000\n", vf,
			(uint64_t)(seconds * 1e9), vf);
	}
	return 0;
}

const struct converter converters[] = {
	{"azure-llm-2023", "AzureLLMInferenceTrace_*.csv: requests as prefill and decode steps",
	 azure_llm},
	{"alibaba-batches-2020", "job_*_norm.csv: iterations of a training job", alibaba_batches},
	{NULL, NULL, NULL},
};
