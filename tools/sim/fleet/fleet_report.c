/* SPDX-License-Identifier: MIT */
/* The options of a study of a fleet, and its report. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "fleet.h"
#include "vgpu/number.h"

static const struct fleet_options defaults = {
	.hosts = 10,
	.gpus = 1,
	.vfs = 8,
	.memory_mib = 16368, /* 16 GiB, of which the PF keeps a granule */
	.granule_mib = 16,
	.switch_ns = 100 * VGPU_USEC,
	.mix = "halves",
	.load_pct = 90,
	.seed = 1,
};

/* The options that are whole numbers. */
static const struct {
	const char *name;
	size_t at;
	bool wide; /* 64 bits */
	int64_t min, max, factor;
} numbers[] = {
#define AT(member) offsetof(struct fleet_options, member)
	{"hosts", AT(hosts), false, 1, 100000, 1},
	{"gpus", AT(gpus), false, 1, FLEET_MAX_GPUS, 1},
	{"vfs", AT(vfs), false, 1, VGPU_GPU_MAX_VFS, 1},
	{"memory_mib", AT(memory_mib), true, 64, 1 << 20, 1},
	{"granule_mib", AT(granule_mib), true, 1, 64, 1},
	{"switch_us", AT(switch_ns), true, 1, 100000, VGPU_USEC},
	{"servers", AT(servers), true, 0, 100000000, 1},
	{"load_pct", AT(load_pct), false, 1, 1000, 1},
	{"seed", AT(seed), true, 0, INT64_MAX, 1},
};

static int read_number(struct fleet_options *o, const char *name, const char *value,
		       struct vgpu_error *err)
{
	size_t i, n = sizeof(numbers) / sizeof(numbers[0]);
	int64_t v;

	for (i = 0; i < n && strcmp(numbers[i].name, name) != 0; i++)
		;
	if (i == n)
		return vgpu_error_set(err, -EINVAL, "%s: no such setting", name);
	if (vgpu_parse_between(value, numbers[i].min, numbers[i].max, &v) < 0)
		return vgpu_error_set(err, -EINVAL, "%s = %s: want %" PRId64 " to %" PRId64, name,
				      value, numbers[i].min, numbers[i].max);
	if (numbers[i].wide)
		*(uint64_t *)((char *)o + numbers[i].at) = (uint64_t)(v * numbers[i].factor);
	else
		*(uint32_t *)((char *)o + numbers[i].at) = (uint32_t)(v * numbers[i].factor);
	return 0;
}

/* Reads one of two words. */
static int read_word(const char *name, const char *value, const char *no, const char *yes,
		     bool *out, struct vgpu_error *err)
{
	*out = strcmp(value, yes) == 0;
	return *out || strcmp(value, no) == 0
		       ? 0
		       : vgpu_error_set(err, -EINVAL, "%s = %s: want %s or %s", name, value, no,
					yes);
}

static int read_mix(struct fleet_options *o, const char *value, struct vgpu_error *err)
{
	const struct fleet_mix *m = fleet_mixes;

	while (m->name && strcmp(m->name, value) != 0)
		m++;
	o->mix = m->name;
	return m->name ? 0
		       : vgpu_error_set(err, -EINVAL,
					"mix = %s: no such mix; see vgpu-sim policies", value);
}

int fleet_read(struct fleet_options *o, char *const *words, int n, struct vgpu_error *err)
{
	char name[32];
	const char *value;
	int i, r = 0;

	*o = defaults;
	for (i = 0; i < n && r == 0; i++) {
		value = strchr(words[i], '=');
		if (!value || (size_t)(value - words[i]) >= sizeof(name))
			return vgpu_error_set(err, -EINVAL, "%s: want NAME=VALUE", words[i]);
		snprintf(name, sizeof(name), "%.*s", (int)(value - words[i]), words[i]);
		value++;
		if (strcmp(name, "providers") == 0)
			r = read_word(name, value, "hosts", "gpus", &o->per_gpu, err);
		else if (strcmp(name, "choice") == 0)
			r = read_word(name, value, "booked", "host", &o->free_choice, err);
		else if (strcmp(name, "weigher") == 0)
			r = read_word(name, value, "spread", "pack", &o->pack, err);
		else if (strcmp(name, "placement") == 0)
			r = read_word(name, value, "best-fit", "profile", &o->profile, err);
		else if (strcmp(name, "mix") == 0)
			r = read_mix(o, value, err);
		else
			r = read_number(o, name, value, err);
	}
	return r;
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void as_json(const struct fleet_options *o, const struct fleet_result *r, FILE *to)
{
	fprintf(to,
		"{\"hosts\":%u,\"gpus\":%u,\"vfs\":%u,\"providers\":\"%s\",\"choice\":\"%s\","
		"\"weigher\":\"%s\",\"placement\":\"%s\","
		"\"mix\":\"%s\",\"switch_us\":%" PRIu64 ",\"load_pct\":%u,\"seed\":%" PRIu64 ",",
		o->hosts, o->gpus, o->vfs, o->per_gpu ? "gpus" : "hosts",
		o->free_choice ? "host" : "booked", o->pack ? "pack" : "spread",
		o->profile ? "profile" : "best-fit", o->mix, o->switch_ns / VGPU_USEC,
		o->servers ? o->load_pct : 0, o->seed);
	fprintf(to,
		"\"share_total\":%" PRIu64 ",\"share_least\":%" PRIu64 ",\"arrived\":%" PRIu64
		",\"placed\":%" PRIu64 ",\"no_host\":%" PRIu64 ",\"gave_up\":%" PRIu64
		",\"sent\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"refused_shares\":%" PRIu64
		",\"refused_memory\":%" PRIu64 ",\"refused_pct\":%.3f,\"candidates\":%.1f,"
		"\"used_pct\":%.2f",
		r->inventory.total[FLEET_SHARE], r->inventory.least[FLEET_SHARE], r->arrived,
		r->placed, r->no_host, r->gave_up, r->sent, r->refused, r->refused_shares,
		r->refused_memory, 100 * ratio(r->refused, r->sent),
		ratio(r->candidates, r->arrived), (double)r->used_ppm / 1e4);
	if (!o->servers)
		fprintf(to, ",\"whole_gpus_pct\":%.2f,\"profiles_pct\":%.2f",
			(double)r->whole_ppm / 1e4, (double)r->profiles_ppm / 1e4);
	fprintf(to, ",\"us_per_server\":%.1f}\n", 1e6 * r->seconds / (double)r->arrived);
}

static void as_text(const struct fleet_options *o, const struct fleet_result *r, FILE *to)
{
	fprintf(to,
		"%u hosts, %u GPUs each, %u VFs of each GPU; one GPU offers %" PRIu64
		" per mille in shares of %" PRIu64 " or more\n",
		o->hosts, o->gpus, o->vfs, r->inventory.total[FLEET_SHARE],
		r->inventory.least[FLEET_SHARE]);
	fprintf(to,
		"%" PRIu64 " servers arrived: %" PRIu64 " placed, %" PRIu64
		" found no host, %" PRIu64 " were refused by all hosts that were tried\n",
		r->arrived, r->placed, r->no_host, r->gave_up);
	fprintf(to,
		"%" PRIu64 " times a host was asked, and %" PRIu64
		" times it refused (%.3f %%): %" PRIu64 " for time, %" PRIu64 " for memory\n",
		r->sent, r->refused, 100 * ratio(r->refused, r->sent), r->refused_shares,
		r->refused_memory);
	fprintf(to, "guaranteed of all GPUs' time: %.1f %%\n", (double)r->used_ppm / 1e4);
	if (!o->servers)
		fprintf(to, "the same servers: whole GPUs %.1f %%, equal profiles %.1f %%\n",
			(double)r->whole_ppm / 1e4, (double)r->profiles_ppm / 1e4);
	fprintf(to, "%.1f candidates and %.1f us of this CPU for each server\n",
		ratio(r->candidates, r->arrived), 1e6 * r->seconds / (double)r->arrived);
}

void fleet_report(const struct fleet_options *o, const struct fleet_result *r, bool json, FILE *to)
{
	if (json)
		as_json(o, r, to);
	else
		as_text(o, r, to);
}
