/* SPDX-License-Identifier: MIT */
/* Latencies and faults: reads them from the command line, and draws them from the seed. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "vgpu/number.h"

static const char *const timed_names[SOFTGPU_TIMED] = {
	"idle", "save", "load", "run", "init", "shutdown", "config", "flr", "gpu-reset",
};

static const char *const fault_names[] = {
	[SOFTGPU_FAULT_HANG] = "hang",
	[SOFTGPU_FAULT_LATE_IDLE] = "late-idle",
	[SOFTGPU_FAULT_LOSE_IRQ] = "lose-irq",
	[SOFTGPU_FAULT_REFUSE_RESET] = "refuse-reset",
	[SOFTGPU_FAULT_DIE] = "die",
	[SOFTGPU_FAULT_BRICK] = "brick",
	[SOFTGPU_FAULT_SKIP_CLEAR] = "skip-clear",
	[SOFTGPU_FAULT_REFUSE_PLAN] = "refuse-plan",
	[SOFTGPU_FAULT_FREEZE] = "freeze-counters",
};

uint64_t softgpu_random(struct softgpu *gpu)
{
	/* xorshift64*, Vigna 2016 */
	gpu->rng ^= gpu->rng >> 12;
	gpu->rng ^= gpu->rng << 25;
	gpu->rng ^= gpu->rng >> 27;
	return gpu->rng * UINT64_C(2685821657736338717);
}

static double uniform(struct softgpu *gpu)
{
	return ((double)(softgpu_random(gpu) >> 11) + 0.5) / 9007199254740992.0;
}

vgpu_nsec latency_draw(struct softgpu *gpu, enum softgpu_timed what)
{
	const struct softgpu_latency *l = &gpu->config.latency[what];
	double normal;

	if (l->sigma > 0) {
		/* Box and Muller */
		normal = sqrt(-2 * log(uniform(gpu))) * cos(2 * M_PI * uniform(gpu));
		return (vgpu_nsec)((double)l->a * exp(l->sigma * normal));
	}
	if (l->b > l->a)
		return l->a + softgpu_random(gpu) % (l->b - l->a + 1);
	return l->a;
}

/* Draws whether a fault of KIND happens now. Returns it, or NULL. Each call is one occasion for the
 * faults' skip=, count= and ppm=. */
const struct softgpu_fault *fault_happens(struct softgpu *gpu, enum softgpu_fault_kind kind, int vf,
					  int command)
{
	uint32_t i;

	for (i = 0; i < gpu->config.n_faults; i++) {
		struct softgpu_fault *f = &gpu->config.faults[i];

		if (f->kind != kind || (f->vf >= 0 && f->vf != vf) ||
		    (f->command >= 0 && f->command != command) || f->count == 0)
			continue;
		if (f->skip > 0) {
			f->skip--;
			continue;
		}
		if (f->ppm < 1000000 && softgpu_random(gpu) % 1000000 >= f->ppm)
			continue;
		if (f->count != UINT32_MAX)
			f->count--;
		return f;
	}
	return NULL;
}

static int name_index(const char *const *names, size_t n, const char *text, size_t length)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
			return (int)i;
	return -1;
}

/* Parses microseconds: a decimal number, up to an hour. Returns where the number ends; NULL: it is
 * wrong. */
static const char *parse_us(const char *text, vgpu_nsec *out)
{
	char *end;
	double us = strtod(text, &end);

	if (end == text || !(us >= 0) || us > 3.6e9)
		return NULL;
	*out = (vgpu_nsec)(us * 1000);
	return end;
}

/* Parses MICROSECONDS or MIN-MAX, as above. */
static const char *parse_range(const char *text, vgpu_nsec *min, vgpu_nsec *max)
{
	text = parse_us(text, min);
	*max = *min;
	if (text && *text == '-')
		text = parse_us(text + 1, max);
	return text && *max >= *min ? text : NULL;
}

int softgpu_parse_latency(struct softgpu_config *config, const char *text, struct vgpu_error *err)
{
	struct softgpu_latency l;
	const char *p = text, *eq, *end;
	char *stop;
	int what;

	for (;;) {
		eq = strchr(p, '=');
		what = eq ? name_index(timed_names, SOFTGPU_TIMED, p, (size_t)(eq - p)) : -1;
		if (what < 0)
			return vgpu_error_set(err, -EINVAL,
					      "--latency %s: want idle, save, load, run, init, "
					      "shutdown, config, flr or gpu-reset, each "
					      "=MICROSECONDS",
					      text);
		l = (struct softgpu_latency){0};
		if (eq[1] == '~') {
			end = parse_us(eq + 2, &l.a);
			if (end && *end == '/') {
				l.sigma = strtod(end + 1, &stop);
				end = stop > end + 1 && l.sigma > 0 && l.sigma <= 3 ? stop : NULL;
			} else {
				end = NULL;
			}
		} else {
			end = parse_range(eq + 1, &l.a, &l.b);
		}
		if (!end || (*end != '\0' && *end != ','))
			return vgpu_error_set(err, -EINVAL,
					      "--latency %s: want US, MIN-MAX or ~MEDIAN/SIGMA "
					      "(up to 3) in microseconds, at '%s'",
					      text, eq + 1);
		config->latency[what] = l;
		if (*end == '\0')
			return 0;
		p = end + 1;
	}
}

static bool parse_u32(const char *text, size_t length, uint32_t max, uint32_t *out)
{
	char number[16];
	uint64_t value;

	if (length >= sizeof(number))
		return false;
	memcpy(number, text, length);
	number[length] = '\0';
	if (vgpu_parse_unsigned(number, max, &value) < 0)
		return false;
	*out = (uint32_t)value;
	return true;
}

/* Parses one KEY=VALUE of a fault. Returns whether it is valid. */
static bool fault_key(struct softgpu_fault *f, const char *key, size_t key_length,
		      const char *value, size_t length)
{
	uint32_t n;

	if (key_length == 2 && strncmp(key, "vf", 2) == 0) {
		if (!parse_u32(value, length, SOFTGPU_MAX_VFS - 1, &n))
			return false;
		f->vf = (int)n;
	} else if (key_length == 3 && strncmp(key, "cmd", 3) == 0) {
		f->command = name_index(timed_names, SOFTGPU_T_FLR, value, length);
		return f->command >= 0;
	} else if (key_length == 4 && strncmp(key, "skip", 4) == 0) {
		return parse_u32(value, length, 1000000000, &f->skip);
	} else if (key_length == 5 && strncmp(key, "count", 5) == 0) {
		return parse_u32(value, length, 1000000000, &f->count);
	} else if (key_length == 3 && strncmp(key, "ppm", 3) == 0) {
		return parse_u32(value, length, 1000000, &f->ppm);
	} else if (key_length == 2 && strncmp(key, "us", 2) == 0) {
		return parse_range(value, &f->min, &f->max) == value + length;
	} else {
		return false;
	}
	return true;
}

int softgpu_parse_fault(struct softgpu_config *config, const char *text, struct vgpu_error *err)
{
	struct softgpu_fault f = {.vf = -1, .command = -1, .count = UINT32_MAX, .ppm = 1000000};
	size_t length = strcspn(text, ",");
	int kind =
		name_index(fault_names, sizeof(fault_names) / sizeof(fault_names[0]), text, length);
	const char *p = text + length, *eq;

	if (config->n_faults == SOFTGPU_MAX_FAULTS)
		return vgpu_error_set(err, -EINVAL, "--fault %s: more than %u faults", text,
				      SOFTGPU_MAX_FAULTS);
	if (kind < 0)
		return vgpu_error_set(err, -EINVAL,
				      "--fault %s: want hang, late-idle, lose-irq, refuse-reset, "
				      "die, brick, skip-clear, refuse-plan or freeze-counters, "
				      "then ,KEY=VALUE ...",
				      text);
	f.kind = (enum softgpu_fault_kind)kind;
	while (*p == ',') {
		p++;
		eq = strchr(p, '=');
		length = strcspn(p, ",");
		if (!eq || eq > p + length ||
		    !fault_key(&f, p, (size_t)(eq - p), eq + 1, (size_t)(p + length - eq - 1)))
			return vgpu_error_set(err, -EINVAL,
					      "--fault %s: want vf=0..30, cmd=NAME, skip=N, "
					      "count=N, ppm=0..1000000 or us=MIN-MAX, at '%.*s'",
					      text, (int)length, p);
		p += length;
	}
	config->faults[config->n_faults++] = f;
	return 0;
}
