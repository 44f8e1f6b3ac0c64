/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "plugin.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "metrics.h"
#include "vfio/gpuiov.h"

enum section { DAEMON, GPU, VF, PROFILE };
enum type { TEXT, INT, BOOL, CHOICE };

static const char *const section_names[] = {"daemon", "gpu NAME", "vf NAME/N", "profile NAME"};
static const char *const completions[] = {"poll", "interrupt", NULL};
static const char *const partitions[] = {"equal", "demand", NULL};
static const char *const pins[] = {"auto", "yes", "no", NULL};
static const char *const placements[] = {"best-fit", "profile", NULL};

/* Every key but the policies' parameters. */
static const struct key {
	enum section section;
	const char *name;
	enum type type;
	size_t at;   /* in struct config or struct gpu_config; of a VF, an array there */
	size_t size; /* of a text */
	int64_t min, max, def;
	const char *def_text;
	const char *const *choices;
	const char *help;
} keys[] = {
#define AT(s, f) offsetof(struct s, f), sizeof(((struct s *)0)->f)
	{DAEMON, "socket", TEXT, AT(config, socket), 0, 0, 0, "/run/vgpud/control.sock", NULL,
	 "control socket"},
	{DAEMON, "group", TEXT, AT(config, group), 0, 0, 0, "vgpu", NULL,
	 "members of this group may look, root may change"},
	{DAEMON, "policy_dir", TEXT, AT(config, policy_dir), 0, 0, 0, "", NULL,
	 "where policies that are not built in are loaded from, NAME.so; empty: nowhere"},
	{DAEMON, "hook_socket", TEXT, AT(config, hook_socket), 0, 0, 0, "", NULL,
	 "where libvirt's hook is answered, for root alone; empty: hook.sock beside socket"},
	{DAEMON, "leases", TEXT, AT(config, leases), 0, 0, 0, "", NULL,
	 "which VM has which VF, over a restart of vgpud; empty: leases.json beside socket"},
	{DAEMON, "lease_s", INT, AT(config, lease_s), 1, 86400, 120, NULL, NULL,
	 "how long a VF is reserved for a VM that is being started, seconds"},
	{DAEMON, "metrics", TEXT, AT(config, metrics), 0, 0, 0, "", NULL,
	 "figures for Prometheus: 127.0.0.1:PORT, [::1]:PORT or unix:PATH; empty: off"},
	{GPU, "device", TEXT, AT(gpu_config, device), 0, 0, 0, "", NULL,
	 "the PF: sysfs:ADDRESS, vfio:ADDRESS or vfio-user:PATH; required"},
	{GPU, "layout", TEXT, AT(gpu_config, layout), 0, 0, 0, "auto", NULL,
	 "GPU-IOV register layout: auto, navi or tonga"},
	{GPU, "vfs", INT, AT(gpu_config, vfs), 1, VGPU_GPU_MAX_VFS, 4, NULL, NULL,
	 "virtual functions to enable"},
	{GPU, "policy", TEXT, AT(gpu_config, policy), 0, 0, 0, "fair", NULL,
	 "who runs when: a policy that is built in, or NAME of policy_dir"},
	{GPU, "pool", TEXT, AT(gpu_config, pool), 0, 0, 0, "", NULL,
	 "a name that domains may give instead of the GPU's, shared by GPUs that are as good"},
	{GPU, "pf_reserve_mib", INT, AT(gpu_config, pf_reserve_mib), 0, 1 << 20, 16, NULL, NULL,
	 "memory kept for the PF, MiB"},
	{GPU, "partition", CHOICE, AT(gpu_config, on_demand), 0, 1, 0, NULL, partitions,
	 "memory of VFs without memory_mib: an equal part of the rest, or what a VM wishes, on "
	 "demand"},
	{GPU, "placement", CHOICE, AT(gpu_config, placement), 0, 1, 0, NULL, placements,
	 "where partitions lie: best-fit, or as profile, 1/1, 1/2, 1/4 ... of all, on multiples of "
	 "their size"},
	{GPU, "host_memory_mib", INT, AT(gpu_config, host_memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "VFs have so much together, MiB, instead of what the GPU has; those that have no room "
	 "there are swapped to host memory, which is locked; 0: none are"},
	{GPU, "host_huge_pages", BOOL, AT(gpu_config, huge_pages), 0, 1, 0, NULL, NULL,
	 "whether host memory is of huge pages"},
	{GPU, "host_node", INT, AT(gpu_config, host_node), -1, 1023, -1, NULL, NULL,
	 "NUMA node of host memory; -1: the GPU's"},
	{GPU, "epoch_ms", INT, AT(gpu_config, epoch_ms), 10, 600000, 2000, NULL, NULL,
	 "how long a VF with work keeps its place on the GPU, at least, while others wait for one, "
	 "milliseconds"},
	{GPU, "completion", CHOICE, AT(gpu_config, interrupts), 0, 1, 1, NULL, completions,
	 "how the end of a command is noticed: interrupt or poll"},
	{GPU, "gpu_reset", BOOL, AT(gpu_config, gpu_reset), 0, 1, 0, NULL, NULL,
	 "whether the whole GPU may be reset if a VF's reset fails; all tenants lose their work"},
	{GPU, "realtime", BOOL, AT(gpu_config, realtime), 0, 1, 1, NULL, NULL,
	 "run the engine thread as SCHED_FIFO"},
	{GPU, "min_slice_us", INT, AT(gpu_config, min_slice_us), 100, 100000, 500, NULL, NULL,
	 "shortest slice, microseconds"},
	{GPU, "grace_ms", INT, AT(gpu_config, grace_ms), 1, 10000, 50, NULL, NULL,
	 "a VF that does not stop within this time is reset, milliseconds"},
	{GPU, "window_max_ms", INT, AT(gpu_config, window_max_ms), 10, 10000, 1000, NULL, NULL,
	 "longest exclusive window of a guest driver, milliseconds"},
	{GPU, "lone_slice_ms", INT, AT(gpu_config, lone_slice_ms), 1, 10000, 500, NULL, NULL,
	 "slice of a VF that nobody contends with, milliseconds"},
	{GPU, "debt_cap_ms", INT, AT(gpu_config, debt_cap_ms), 1, 10000, 100, NULL, NULL,
	 "most that one turn is charged beyond its slice, milliseconds"},
	{VF, "memory_mib", INT, AT(gpu_config, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "partition, MiB; 0: as partition in [gpu NAME] says"},
	{VF, "pinned", CHOICE, AT(gpu_config, pinned), 0, 2, 0, NULL, pins,
	 "whether it is never swapped to host memory; auto: if its policy guarantees it time"},
	{PROFILE, "memory_mib", INT, AT(profile, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "partition, MiB, at least; 0: any; all other keys are parameters of the GPU's policy"},
#undef AT
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

/* A line that could not be judged before the policy was known. */
struct deferred {
	char file[160], name[48], value[64];
	int line;
	uint32_t gpu;
	int vf; /* -1: the policy's own */
};

#define MAX_DEFERRED 512u

struct reader {
	struct config *config;
	FILE *errors;
	const char *file;
	FILE *stream;
	int line, wrong;
	char seen[1024][96]; /* "section\1key" of this file */
	uint32_t n_seen;
	struct deferred deferred[MAX_DEFERRED];
	uint32_t n_deferred;
};

__attribute__((format(printf, 4, 5))) static void complain(struct reader *r, const char *file,
							   int line, const char *format, ...)
{
	va_list args;

	r->wrong++;
	fprintf(r->errors, "%s:%d: ", file, line);
	va_start(args, format);
	vfprintf(r->errors, format, args);
	va_end(args);
	fputc('\n', r->errors);
}

static int parse_bool(const char *text, int64_t *out)
{
	static const char *const words[] = {"no", "yes", NULL};

	return vgpu_parse_choice(words, text, out);
}

static void set_default(const struct key *key, void *base)
{
	if (key->type == TEXT)
		snprintf((char *)base + key->at, key->size, "%s", key->def_text);
	else
		memcpy((char *)base + key->at, &key->def, sizeof(key->def));
}

static void set_defaults(enum section section, void *base)
{
	size_t i;

	for (i = 0; i < N_KEYS; i++)
		if (keys[i].section == section && section != VF)
			set_default(&keys[i], base);
}

static void set_key(struct reader *r, const struct key *key, void *at, const char *value)
{
	char choices[100];
	int64_t v = 0;

	switch (key->type) {
	case TEXT:
		if (strlen(value) >= key->size)
			complain(r, r->file, r->line, "%s: longer than %zu characters", key->name,
				 key->size - 1);
		else
			strcpy(at, value);
		return;
	case BOOL:
		if (parse_bool(value, &v) < 0) {
			complain(r, r->file, r->line, "%s = %s: want yes or no", key->name, value);
			return;
		}
		break;
	case CHOICE:
		if (vgpu_parse_choice(key->choices, value, &v) < 0) {
			vgpu_join_choices(key->choices, choices, sizeof(choices));
			complain(r, r->file, r->line, "%s = %s: want one of: %s", key->name, value,
				 choices);
			return;
		}
		break;
	case INT:
		if (vgpu_parse_int(value, &v) < 0 || v < key->min || v > key->max) {
			complain(r, r->file, r->line, "%s = %s: want %" PRId64 " to %" PRId64,
				 key->name, value, key->min, key->max);
			return;
		}
		break;
	}
	memcpy(at, &v, sizeof(v));
}

static struct gpu_config *gpu_named(struct config *c, const char *name, bool make)
{
	uint32_t i;

	for (i = 0; i < c->n_gpus; i++)
		if (strcmp(c->gpus[i].name, name) == 0)
			return &c->gpus[i];
	if (!make || c->n_gpus == CONFIG_MAX_GPUS)
		return NULL;
	snprintf(c->gpus[i].name, sizeof(c->gpus[i].name), "%s", name);
	set_defaults(GPU, &c->gpus[i]);
	c->n_gpus++;
	return &c->gpus[i];
}

static bool is_name(const char *text)
{
	size_t n =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");

	return n > 0 && n < 32 && text[n] == '\0';
}

static void defer(struct reader *r, uint32_t gpu, int vf, const char *name, const char *value)
{
	struct deferred *d;

	if (r->n_deferred == MAX_DEFERRED || strlen(name) >= sizeof(d->name) ||
	    strlen(value) >= sizeof(d->value)) {
		complain(r, r->file, r->line, "%.40s: no such key", name);
		return;
	}
	d = &r->deferred[r->n_deferred++];
	snprintf(d->file, sizeof(d->file), "%s", r->file);
	strcpy(d->name, name);
	strcpy(d->value, value);
	d->line = r->line;
	d->gpu = gpu;
	d->vf = vf;
}

static const struct key *find_key(enum section section, const char *name)
{
	size_t i;

	for (i = 0; i < N_KEYS; i++)
		if (keys[i].section == section && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static void gpu_line(struct reader *r, const char *gpu_name, const char *name, const char *value)
{
	struct gpu_config *gpu;
	const struct key *key = find_key(GPU, name);

	if (!is_name(gpu_name)) {
		complain(r, r->file, r->line,
			 "[gpu %s]: a name has 1 to 31 of letters, digits and -_.:", gpu_name);
		return;
	}
	gpu = gpu_named(r->config, gpu_name, true);
	if (!gpu)
		complain(r, r->file, r->line, "[gpu %s]: more than %u GPUs", gpu_name,
			 CONFIG_MAX_GPUS);
	else if (key)
		set_key(r, key, (char *)gpu + key->at, value);
	else
		defer(r, (uint32_t)(gpu - r->config->gpus), -1, name, value);
}

static void vf_line(struct reader *r, char *which, const char *name, const char *value)
{
	const struct key *key = find_key(VF, name);
	struct gpu_config *gpu;
	char *slash = strchr(which, '/');
	int64_t vf;

	if (!slash || vgpu_parse_int(slash + 1, &vf) < 0 || vf < 0 || vf >= VGPU_GPU_MAX_VFS) {
		complain(r, r->file, r->line, "[vf %s]: want [vf NAME/N], N from 0 to %u", which,
			 VGPU_GPU_MAX_VFS - 1);
		return;
	}
	*slash = '\0';
	gpu = gpu_named(r->config, which, false);
	if (!gpu)
		complain(r, r->file, r->line, "[vf %s/...]: there is no [gpu %s] above", which,
			 which);
	else if (key)
		set_key(r, key, (char *)gpu + key->at + (size_t)vf * sizeof(int64_t), value);
	else
		defer(r, (uint32_t)(gpu - r->config->gpus), (int)vf, name, value);
}

const struct profile *config_profile(const struct config *config, const char *name)
{
	uint32_t i;

	for (i = 0; i < config->n_profiles; i++)
		if (strcmp(config->profiles[i].name, name) == 0)
			return &config->profiles[i];
	return NULL;
}

static void set_profile_param(struct reader *r, struct profile *p, const char *name,
			      const char *value)
{
	struct wish_param *param;
	uint32_t i;

	for (i = 0; i < p->n_params && strcmp(p->params[i].name, name) != 0; i++)
		;
	param = &p->params[i];
	if (i == WISH_MAX_PARAMS || strlen(name) >= sizeof(param->name) ||
	    strlen(value) >= sizeof(param->value)) {
		complain(r, r->file, r->line, "%.40s: no such key, or too many", name);
		return;
	}
	snprintf(param->name, sizeof(param->name), "%s", name);
	snprintf(param->value, sizeof(param->value), "%s", value);
	param->line = r->line;
	p->n_params += i == p->n_params;
}

static void profile_line(struct reader *r, const char *profile_name, const char *name,
			 const char *value)
{
	struct profile *p = (struct profile *)config_profile(r->config, profile_name);
	const struct key *key = find_key(PROFILE, name);

	if (!is_name(profile_name)) {
		complain(r, r->file, r->line,
			 "[profile %s]: a name has 1 to 31 of letters, digits and -_.:",
			 profile_name);
		return;
	}
	if (!p && r->config->n_profiles == CONFIG_MAX_PROFILES) {
		complain(r, r->file, r->line, "[profile %s]: more than %u profiles", profile_name,
			 CONFIG_MAX_PROFILES);
		return;
	}
	if (!p) {
		p = &r->config->profiles[r->config->n_profiles++];
		snprintf(p->name, sizeof(p->name), "%s", profile_name);
	}
	if (key)
		set_key(r, key, (char *)p + key->at, value);
	else
		set_profile_param(r, p, name, value);
}

static int on_line(void *data, const char *section, const char *name, const char *value)
{
	struct reader *r = data;
	const struct key *key;
	char mark[96], which[64];
	uint32_t i;

	snprintf(mark, sizeof(mark), "%.45s\1%.45s", section, name);
	for (i = 0; i < r->n_seen; i++)
		if (strcmp(r->seen[i], mark) == 0)
			complain(r, r->file, r->line, "%s: twice in [%s]", name, section);
	if (r->n_seen < 1024)
		strcpy(r->seen[r->n_seen++], mark);
	if (strcmp(section, "daemon") == 0) {
		key = find_key(DAEMON, name);
		if (key)
			set_key(r, key, (char *)r->config + key->at, value);
		else
			complain(r, r->file, r->line, "%s: no such key in [daemon]", name);
	} else if (strncmp(section, "gpu ", 4) == 0) {
		gpu_line(r, section + 4, name, value);
	} else if (strncmp(section, "profile ", 8) == 0) {
		profile_line(r, section + 8, name, value);
	} else if (strncmp(section, "vf ", 3) == 0) {
		snprintf(which, sizeof(which), "%s", section + 3);
		vf_line(r, which, name, value);
	} else {
		complain(r, r->file, r->line,
			 "[%s]: want [daemon], [gpu NAME], [vf NAME/N] or [profile NAME]", section);
	}
	return 1;
}

/* inih does not say where it is; we see each line go by. */
static char *next_line(char *text, int size, void *data)
{
	struct reader *r = data;

	r->line++;
	return fgets(text, size, r->stream);
}

static void read_file(struct reader *r, const char *file)
{
	int bad;

	r->file = file;
	r->line = 0;
	r->n_seen = 0;
	r->stream = fopen(file, "re");
	if (!r->stream) {
		r->wrong++;
		fprintf(r->errors, "%s: %s\n", file, strerror(errno));
		return;
	}
	bad = ini_parse_stream(next_line, r, on_line, r);
	if (bad > 0)
		complain(r, file, bad, "neither a [section] nor key = value");
	else if (bad < 0)
		complain(r, file, 0, "cannot be read");
	fclose(r->stream);
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return n > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static void read_drop_ins(struct reader *r, const char *file)
{
	char dir[256], path[600];
	struct dirent **entries = NULL;
	int n, i;

	snprintf(dir, sizeof(dir), "%s.d", file);
	n = scandir(dir, &entries, is_drop_in, alphasort);
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		read_file(r, path);
		free(entries[i]);
	}
	free(entries);
}

/* NAME in the directory of PATH, for a key that was left empty. */
static void beside(const char *path, const char *name, char *out, size_t size)
{
	const char *slash = strrchr(path, '/');

	if (!out[0])
		snprintf(out, size, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
}

/* Whether a parameter of a profile is one of a policy that a GPU has, or, without GPUs, that is
 * built in; else ERR says why not. */
static bool is_known(const struct config *c, const struct wish_param *p, struct vgpu_error *err)
{
	int64_t values[VGPU_MAX_PARAMS] = {0};
	uint32_t i;

	for (i = 0; i < c->n_gpus; i++)
		if (c->gpus[i].ops &&
		    vgpu_param_set(c->gpus[i].ops->vf_params, p->name, p->value, values, err) == 0)
			return true;
	for (i = 0; c->n_gpus == 0 && vgpu_builtin_policies[i]; i++)
		if (vgpu_param_set(vgpu_builtin_policies[i]->vf_params, p->name, p->value, values,
				   err) == 0)
			return true;
	return false;
}

static void check_profiles(struct reader *r)
{
	const struct config *c = r->config;
	struct vgpu_error err = {""};
	uint32_t i, k;

	for (i = 0; i < c->n_profiles; i++)
		for (k = 0; k < c->profiles[i].n_params; k++)
			if (!is_known(c, &c->profiles[i].params[k], &err))
				complain(r, r->file, c->profiles[i].params[k].line,
					 "[profile %s]: no GPU's policy has that: %s",
					 c->profiles[i].name, err.text);
}

/* What only the whole can tell: policies, their parameters, and what does not go together. */
static void finish(struct reader *r)
{
	struct config *c = r->config;
	struct vgpu_error err;
	char names[160] = "";
	uint32_t i, vf;

	if (c->metrics[0] && !metrics_is_address(c->metrics))
		complain(r, r->file, 0,
			 "[daemon]: metrics = %s: want 127.0.0.1:PORT, [::1]:PORT or unix:PATH",
			 c->metrics);
	beside(c->socket, "hook.sock", c->hook_socket, sizeof(c->hook_socket));
	beside(c->socket, "leases.json", c->leases, sizeof(c->leases));
	for (i = 0; vgpu_builtin_policies[i]; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", vgpu_builtin_policies[i]->name);
	for (i = 0; i < c->n_gpus; i++) {
		struct gpu_config *g = &c->gpus[i];

		if (!g->device[0])
			complain(r, r->file, 0, "[gpu %s]: device is missing", g->name);
		if (strcmp(g->layout, "auto") != 0 && !gpuiov_layout_by_name(g->layout))
			complain(r, r->file, 0, "[gpu %s]: layout = %s: want auto, navi or tonga",
				 g->name, g->layout);
		if (g->lone_slice_ms * 1000 < g->min_slice_us)
			complain(r, r->file, 0,
				 "[gpu %s]: lone_slice_ms is shorter than min_slice_us", g->name);
		for (vf = (uint32_t)g->vfs; vf < VGPU_GPU_MAX_VFS; vf++)
			if (g->memory_mib[vf])
				complain(r, r->file, 0,
					 "[vf %s/%u]: the GPU has only %" PRId64 " VFs", g->name,
					 vf, g->vfs);
		g->ops = plugin_policy(c->policy_dir, g->policy, &err);
		if (!g->ops) {
			complain(r, r->file, 0, "[gpu %s]: policy = %s: want one of: %s; %s",
				 g->name, g->policy, names, err.text);
			continue;
		}
		vgpu_param_defaults(g->ops->params, g->params);
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			vgpu_param_defaults(g->ops->vf_params, g->vf_params[vf]);
	}
	for (i = 0; i < r->n_deferred; i++) {
		struct deferred *d = &r->deferred[i];
		struct gpu_config *g = &c->gpus[d->gpu];

		if (!g->ops)
			continue;
		if (d->vf >= g->vfs)
			complain(r, d->file, d->line,
				 "[vf %s/%d]: the GPU has only %" PRId64 " VFs", g->name, d->vf,
				 g->vfs);
		else if (vgpu_param_set(d->vf < 0 ? g->ops->params : g->ops->vf_params, d->name,
					d->value, d->vf < 0 ? g->params : g->vf_params[d->vf],
					&err) < 0)
			complain(r, d->file, d->line, "policy %s: %s", g->ops->name, err.text);
	}
	check_profiles(r);
}

int config_read(struct config *out, const char *file, FILE *errors)
{
	struct reader *r = calloc(1, sizeof(*r));
	int wrong;

	if (!r)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	set_defaults(DAEMON, out);
	r->config = out;
	r->errors = errors;
	read_file(r, file);
	read_drop_ins(r, file);
	r->file = file;
	if (r->wrong == 0)
		finish(r);
	wrong = r->wrong;
	free(r);
	return wrong ? -EINVAL : 0;
}

static void dump_section(FILE *to, enum section section, const void *base)
{
	int64_t v;
	size_t i;

	for (i = 0; i < N_KEYS; i++) {
		const struct key *k = &keys[i];

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

void config_to_engine(const struct gpu_config *g, struct engine_config *out)
{
	uint32_t i;

	*out = (struct engine_config){
		.policy = g->ops,
		.realtime = g->realtime,
		.driver =
			{
				.device = g->device,
				.layout = strcmp(g->layout, "auto") ? g->layout : NULL,
				.n_vfs = (uint32_t)g->vfs,
				.pf_reserve = (uint64_t)g->pf_reserve_mib << 20,
				.host = (uint64_t)g->host_memory_mib << 20,
				.huge_pages = g->huge_pages,
				.host_node = (int)g->host_node,
				.interrupts = g->interrupts,
			},
		.epoch = (vgpu_nsec)g->epoch_ms * VGPU_MSEC,
	};
	out->driver.placement = (enum vgpu_placement)g->placement;
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++) {
		out->driver.pinned |= (uint32_t)(g->pinned[i] == PINNED_YES) << i;
		out->swappable |= (uint32_t)(g->pinned[i] == PINNED_NO) << i;
		out->driver.sizes[i] = g->on_demand && !g->memory_mib[i]
					       ? VGPU_SIZE_NONE
					       : (uint64_t)g->memory_mib[i] << 20;
	}
	vgpu_core_defaults(&out->core, (uint32_t)g->vfs);
	out->core.gpu_reset = g->gpu_reset;
	out->core.min_slice = (vgpu_nsec)g->min_slice_us * VGPU_USEC;
	out->core.grace = (vgpu_nsec)g->grace_ms * VGPU_MSEC;
	out->core.window_max = (vgpu_nsec)g->window_max_ms * VGPU_MSEC;
	out->core.lone_slice = (vgpu_nsec)g->lone_slice_ms * VGPU_MSEC;
	out->core.debt_cap = (vgpu_nsec)g->debt_cap_ms * VGPU_MSEC;
	memcpy(out->params, g->params, sizeof(out->params));
	memcpy(out->vf_params, g->vf_params, sizeof(out->vf_params));
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
		fprintf(to, "[%s]\n", section_names[s]);
		for (i = 0; i < N_KEYS; i++) {
			const struct key *k = &keys[i];

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
