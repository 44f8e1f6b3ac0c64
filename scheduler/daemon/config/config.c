/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "builtin.h"
#include "config_keys.h"
#include "metrics_address.h"
#include "plugin.h"
#include "vfio/gpuiov.h"
#include "vgpu/file.h"
#include "vgpu/local_socket.h"
#include "vgpu/names.h"

/* A line with an unknown key: it may be a parameter, and is checked once the policy is known. */
struct deferred {
	struct config_place at;
	char name[48], value[64];
	uint32_t gpu;
	int vf; /* -1: a parameter of the GPU */
};

#define MAX_DEFERRED (64u * CONFIG_MAX_GPUS)
#define MAX_SEEN (128u * CONFIG_MAX_GPUS)

struct reader {
	struct config *config;
	FILE *errors;
	FILE *stream;
	struct config_place at; /* the present place */
	int wrong;
	/* "section\1key" of all files, with its last place: to find duplicates within one file, and
	 * the place of an error found later. */
	struct {
		char mark[96];
		struct config_place at;
	} seen[MAX_SEEN];
	uint32_t n_seen, n_files;
	struct deferred deferred[MAX_DEFERRED];
	uint32_t n_deferred;
	struct config_place profile_at[CONFIG_MAX_PROFILES][CLAIM_MAX_PARAMS];
	/* Bitmaps of GPUs with an error in that key, whose consequences are not reported. */
	uint64_t unsure_vfs, unsure_device;
};

void config_print_place(const struct config *config, struct config_place place, FILE *to)
{
	fputs(config->file, to);
	if (place.file)
		fprintf(to, ".d/%s", config->files[place.file]);
	if (place.line)
		fprintf(to, ":%u", place.line);
	fputs(": ", to);
}

__attribute__((format(printf, 3, 4))) static void complain(struct reader *r, struct config_place at,
							   const char *format, ...)
{
	va_list args;

	r->wrong++;
	config_print_place(r->config, at, r->errors);
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

static void set_default(const struct config_key *key, void *base)
{
	if (key->type == TEXT)
		snprintf((char *)base + key->at, key->size, "%s", key->def_text);
	else
		memcpy((char *)base + key->at, &key->def, sizeof(key->def));
}

static void set_defaults(enum section section, void *base)
{
	size_t i;

	for (i = 0; config_keys[i].name; i++)
		if (config_keys[i].section == section && section != VF)
			set_default(&config_keys[i], base);
}

static void set_key(struct reader *r, const struct config_key *key, void *at, const char *value)
{
	char choices[100];
	int64_t v = 0;

	switch (key->type) {
	case TEXT:
		if (strlen(value) >= key->size)
			complain(r, r->at, "%s: longer than %zu characters", key->name,
				 key->size - 1);
		else if (value[0] == ';')
			complain(r, r->at, "%s =%s: a comment needs a space before the ;",
				 key->name, value);
		else
			strcpy(at, value);
		return;
	case BOOL:
		if (parse_bool(value, &v) < 0) {
			complain(r, r->at, "%s = %s: want yes or no", key->name, value);
			return;
		}
		break;
	case CHOICE:
		if (vgpu_parse_choice(key->choices, value, &v) < 0) {
			vgpu_join_choices(key->choices, choices, sizeof(choices));
			complain(r, r->at, "%s = %s: want one of: %s", key->name, value, choices);
			return;
		}
		break;
	case INT:
		if (vgpu_parse_int(value, &v) < 0 || v < key->min || v > key->max) {
			complain(r, r->at, "%s = %s: want %" PRId64 " to %" PRId64, key->name,
				 value, key->min, key->max);
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
	memset(&c->gpus[i], 0, sizeof(c->gpus[i]));
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
		complain(r, r->at, "%.40s: no such key", name);
		return;
	}
	d = &r->deferred[r->n_deferred++];
	d->at = r->at;
	strcpy(d->name, name);
	strcpy(d->value, value);
	d->gpu = gpu;
	d->vf = vf;
}

static const struct config_key *find_key(enum section section, const char *name)
{
	size_t i;

	for (i = 0; config_keys[i].name; i++)
		if (config_keys[i].section == section && strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

static void set_gpu_key(struct reader *r, struct gpu_config *gpu, const struct config_key *key,
			void *at, const char *value)
{
	uint64_t bit = UINT64_C(1) << (gpu - r->config->gpus);
	int wrong = r->wrong;

	set_key(r, key, at, value);
	if (r->wrong == wrong)
		return;
	gpu->mistaken = true;
	r->unsure_vfs |= strcmp(key->name, "vfs") == 0 ? bit : 0;
	r->unsure_device |= strcmp(key->name, "device") == 0 ? bit : 0;
}

static void gpu_line(struct reader *r, const char *gpu_name, const char *name, const char *value)
{
	struct gpu_config *gpu;
	const struct config_key *key = find_key(GPU, name);

	if (!is_name(gpu_name)) {
		complain(r, r->at,
			 "[gpu %s]: want a name of 1 to 31 letters, digits or -_.:", gpu_name);
		return;
	}
	gpu = gpu_named(r->config, gpu_name, true);
	if (!gpu)
		complain(r, r->at, "[gpu %s]: more than %u GPUs", gpu_name, CONFIG_MAX_GPUS);
	else if (key)
		set_gpu_key(r, gpu, key, (char *)gpu + key->at, value);
	else
		defer(r, (uint32_t)(gpu - r->config->gpus), -1, name, value);
	if (gpu && (!key || strcmp(name, "policy") == 0 || !gpu->policy_at.line))
		gpu->policy_at = r->at;
}

static void vf_line(struct reader *r, char *which, const char *name, const char *value)
{
	const struct config_key *key = find_key(VF, name);
	struct gpu_config *gpu;
	char *slash = strchr(which, '/');
	int64_t vf;

	if (!slash || vgpu_parse_int(slash + 1, &vf) < 0 || vf < 0 || vf >= VGPU_GPU_MAX_VFS) {
		complain(r, r->at, "[vf %s]: want [vf NAME/N], N from 0 to %u", which,
			 VGPU_GPU_MAX_VFS - 1);
		return;
	}
	*slash = '\0';
	gpu = gpu_named(r->config, which, false);
	if (!gpu)
		complain(r, r->at, "[vf %s/...]: no section [gpu %s] precedes this one", which,
			 which);
	else if (key)
		set_gpu_key(r, gpu, key, (char *)gpu + key->at + (size_t)vf * sizeof(int64_t),
			    value);
	else
		defer(r, (uint32_t)(gpu - r->config->gpus), (int)vf, name, value);
	if (gpu)
		gpu->vf_at[vf] = r->at;
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
	struct claim_param *param;
	uint32_t i;

	for (i = 0; i < p->n_params && strcmp(p->params[i].name, name) != 0; i++)
		;
	param = &p->params[i];
	if (i == CLAIM_MAX_PARAMS || strlen(name) >= sizeof(param->name) ||
	    strlen(value) >= sizeof(param->value)) {
		complain(r, r->at,
			 "%.40s: no such key, or more than the parameters that a profile can hold",
			 name);
		return;
	}
	snprintf(param->name, sizeof(param->name), "%s", name);
	snprintf(param->value, sizeof(param->value), "%s", value);
	r->profile_at[p - r->config->profiles][i] = r->at;
	p->n_params += i == p->n_params;
}

static void profile_line(struct reader *r, const char *profile_name, const char *name,
			 const char *value)
{
	struct profile *p = (struct profile *)config_profile(r->config, profile_name);
	const struct config_key *key = find_key(PROFILE, name);

	if (!is_name(profile_name)) {
		complain(r, r->at, "[profile %s]: want a name of 1 to 31 letters, digits or -_.:",
			 profile_name);
		return;
	}
	if (!p && r->config->n_profiles == CONFIG_MAX_PROFILES) {
		complain(r, r->at, "[profile %s]: more than %u profiles", profile_name,
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

void config_tenant_default(struct tenant_config *out)
{
	memset(out, 0, sizeof(*out));
	set_defaults(TENANT, out);
}

/* Parses WHO of a section [tenant WHO], unless it is a name. */
static void say_whose(struct tenant_config *t, const char *who)
{
	int64_t number;

	snprintf(t->name, sizeof(t->name), "%s", who);
	t->who = strcmp(who, "*") == 0 ? TENANT_OTHERS : who[0] == '@' ? TENANT_GROUP : TENANT_USER;
	if (t->who == TENANT_OTHERS)
		return;
	who += t->who == TENANT_GROUP;
	if (vgpu_parse_between(who, 0, UINT32_MAX - 1, &number) == 0) {
		t->number = (uint32_t)number;
		return;
	}
	t->number = CONFIG_NOBODY;
	t->unanswered = true;
}

static void tenant_line(struct reader *r, const char *who, const char *name, const char *value)
{
	const struct config_key *key = find_key(TENANT, name);
	struct config *c = r->config;
	struct tenant_config *t;
	uint32_t i;

	for (i = 0; i < c->n_tenants && strcmp(c->tenants[i].name, who) != 0; i++)
		;
	if (i == CONFIG_MAX_TENANTS || strlen(who) >= sizeof(c->tenants[0].name)) {
		complain(r, r->at, "[tenant %.40s]: more than %u such sections, or a long name",
			 who, CONFIG_MAX_TENANTS);
		return;
	}
	t = &c->tenants[i];
	if (i == c->n_tenants) {
		config_tenant_default(t);
		c->n_tenants++;
		say_whose(t, who);
	}
	if (t->at.file != r->at.file || !t->at.line) /* the section's own place */
		t->at = r->at;
	if (key)
		set_key(r, key, (char *)t + key->at, value);
	else
		complain(r, r->at, "%.40s: no such key in [tenant WHO]", name);
}

/* Records the place of a key, which may occur only once in a file. */
static void note_place(struct reader *r, const char *section, const char *name)
{
	char mark[sizeof(r->seen[0].mark)];
	uint32_t i;

	snprintf(mark, sizeof(mark), "%.45s\1%.45s", section, name);
	for (i = 0; i < r->n_seen && strcmp(r->seen[i].mark, mark) != 0; i++)
		;
	if (i < r->n_seen && r->seen[i].at.file == r->at.file)
		complain(r, r->at, "%s: given twice in [%s]", name, section);
	if (i == MAX_SEEN)
		return;
	strcpy(r->seen[i].mark, mark);
	r->seen[i].at = r->at;
	r->n_seen += i == r->n_seen;
}

/* The place of a section's key, or else of the first key of that section. */
static struct config_place place_of(const struct reader *r, const char *section, const char *name)
{
	struct config_place first = {0, 0};
	size_t n = strlen(section) < 45 ? strlen(section) : 45;
	uint32_t i;

	for (i = 0; i < r->n_seen; i++) {
		const char *mark = r->seen[i].mark;

		if (strncmp(mark, section, n) != 0 || mark[n] != '\1')
			continue;
		if (strncmp(mark + n + 1, name, 45) == 0 && strlen(mark + n + 1) == strlen(name))
			return r->seen[i].at;
		first = first.line ? first : r->seen[i].at;
	}
	return first;
}

static struct config_place place_in_gpu(const struct reader *r, const struct gpu_config *g,
					const char *name)
{
	char section[48];

	snprintf(section, sizeof(section), "gpu %s", g->name);
	return place_of(r, section, name);
}

static int on_line(void *data, const char *section, const char *name, const char *value)
{
	struct reader *r = data;
	const struct config_key *key;
	char which[64];

	note_place(r, section, name);
	if (strcmp(section, "daemon") == 0) {
		key = find_key(DAEMON, name);
		if (key)
			set_key(r, key, (char *)r->config + key->at, value);
		else
			complain(r, r->at, "%s: no such key in [daemon]", name);
	} else if (strncmp(section, "gpu ", 4) == 0) {
		gpu_line(r, section + 4, name, value);
	} else if (strncmp(section, "profile ", 8) == 0) {
		profile_line(r, section + 8, name, value);
	} else if (strncmp(section, "tenant ", 7) == 0) {
		tenant_line(r, section + 7, name, value);
	} else if (strncmp(section, "vf ", 3) == 0) {
		snprintf(which, sizeof(which), "%s", section + 3);
		vf_line(r, which, name, value);
	} else {
		complain(r, r->at,
			 "[%s]: want [daemon], [gpu NAME], [vf NAME/N], [profile NAME] or [tenant "
			 "WHO]",
			 section);
	}
	return 1;
}

/* Returns whether inih finds a section or a key in a line. inih reports only the first bad line, so
 * each one is checked here. An indented line continues the previous one. */
static bool is_meant(const char *text)
{
	const char *end;

	text += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* byte order mark of an editor */
	end = text + strcspn(text, "\r\n");
	if (text == end || strchr("#; \t", text[0]))
		return true;
	return strcspn(text, text[0] == '[' ? "]" : "=:") < (size_t)(end - text);
}

/* Removes a comment behind a value. inih does so only for comments that begin with a semicolon. */
static void cut_comment(char *text)
{
	char *at;

	for (at = text; (at = strchr(at, '#')); at++)
		if (at > text && (at[-1] == ' ' || at[-1] == '\t')) {
			strcpy(at, "\n");
			return;
		}
}

/*
 * Counts lines as inih reads them, because its callbacks get no line number. inih would read the
 * rest of a line that exceeds its buffer as another line: for a comment, that rest is dropped;
 * otherwise it is an error.
 */
static char *next_line(char *text, int size, void *data)
{
	struct reader *r = data;
	char *last = &text[size - 2];
	int c;

	r->at.line += r->at.line < UINT16_MAX;
	*last = '\0';
	if (!fgets(text, size, r->stream))
		return NULL;
	if (*last != '\0' && *last != '\n') {
		c = getc(r->stream);
		if (c != EOF && c != '\n') {
			while (c != EOF && c != '\n')
				c = getc(r->stream);
			c = text[strspn(text, " \t")];
			if (c != '#' && c != ';')
				complain(r, r->at, "a line has at most %d bytes", size - 1);
			text[0] = '\0';
			return text;
		}
	}
	cut_comment(text);
	if (!is_meant(text)) {
		complain(r, r->at, "neither a [section] nor key = value");
		text[0] = '\0';
	}
	return text;
}

/* Begins a file: NAME in the directory of drop-ins, or "", the main one. */
static void begin_file(struct reader *r, const char *name)
{
	r->at = (struct config_place){0, 0};
	if (!name[0])
		return;
	if (r->n_files + 1 == CONFIG_MAX_FILES) {
		complain(r, r->at, "more than %u files", CONFIG_MAX_FILES - 1);
		return;
	}
	r->at.file = (uint16_t)++r->n_files;
	snprintf(r->config->files[r->n_files], CONFIG_FILE_NAME, "%s", name);
}

/* Reads the file at PATH, NAME for begin_file. */
static void read_file(struct reader *r, const char *path, const char *name)
{
	struct stat s;
	int bad;

	begin_file(r, name);
	r->stream = fopen(path, "re");
	if (!r->stream) {
		complain(r, r->at, "%s", strerror(errno));
		return;
	}
	/* A directory can be opened, and reads as an empty file. */
	if (fstat(fileno(r->stream), &s) == 0 && S_ISDIR(s.st_mode)) {
		complain(r, r->at, "it is a directory; want a file");
		fclose(r->stream);
		return;
	}
	bad = ini_parse_stream(next_line, r, on_line, r);
	if (bad > 0)
		r->at.line = (uint16_t)bad;
	if (bad > 0)
		complain(r, r->at, "neither a [section] nor key = value");
	else if (bad < 0 || ferror(r->stream))
		complain(r, (struct config_place){r->at.file, 0}, "cannot be read");
	fclose(r->stream);
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return n > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static void read_staged(struct reader *r, const char *saved)
{
	char staged[PATH_MAX];

	snprintf(staged, sizeof(staged), "%s" VGPU_FILE_STAGED, saved);
	read_file(r, staged, CONFIG_SAVED);
}

/* STAGED: reads the staged file instead of CONFIG_SAVED, at its place in the order. */
static void read_drop_ins(struct reader *r, const char *file, bool staged)
{
	char dir[300], path[600], saved[300];
	struct dirent **entries = NULL;
	int n, i, order;

	config_saved_path(file, saved, sizeof(saved));
	snprintf(dir, sizeof(dir), "%s.d", file);
	n = scandir(dir, &entries, is_drop_in, alphasort);
	if (n < 0 && errno != ENOENT && errno != ENOTDIR) {
		r->wrong++;
		fprintf(r->errors, "%s: %s\n", dir, strerror(errno));
	}
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		order = staged ? strcoll(entries[i]->d_name, CONFIG_SAVED) : -1;
		if (order > 0) {
			read_staged(r, saved);
			staged = false;
		}
		if (order != 0)
			read_file(r, path, entries[i]->d_name);
		free(entries[i]);
	}
	if (staged)
		read_staged(r, saved);
	free(entries);
}

void config_saved_path(const char *file, char *out, size_t size)
{
	snprintf(out, size, "%s.d/" CONFIG_SAVED, file);
}

/* Sets an empty OUT to NAME in the directory of PATH. */
static void beside(const char *path, const char *name, char *out, size_t size)
{
	const char *slash = strrchr(path, '/');

	if (!out[0])
		snprintf(out, size, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
}

/* Returns whether TABLE has P. Converts a parameter in percent to parts per million, as claims do.
 */
static bool takes(const struct vgpu_param *table, struct claim_param *p, int64_t *values,
		  struct vgpu_error *err)
{
	const struct vgpu_param *in_ppm;
	int64_t ppm;

	if (vgpu_param_set(table, p->name, p->value, values, err) < 0)
		return false;
	in_ppm = vgpu_param_in_percent(table, p->name, p->value, &ppm);
	if (in_ppm) {
		p->written_in = CLAIM_PERCENT;
		snprintf(p->name, sizeof(p->name), "%s", in_ppm->name);
		snprintf(p->value, sizeof(p->value), "%" PRId64, ppm);
	}
	return true;
}

/* Returns whether P is a valid VF parameter of the policy of some configured GPU, or, without GPUs,
 * of some built-in policy. If not, ERR says why. */
static bool is_known(const struct config *c, struct claim_param *p, struct vgpu_error *err)
{
	int64_t values[VGPU_MAX_PARAMS] = {0};
	uint32_t i;

	for (i = 0; i < c->n_gpus; i++)
		if (c->gpus[i].ops && takes(c->gpus[i].ops->vf_params, p, values, err))
			return true;
	for (i = 0; c->n_gpus == 0 && vgpu_builtin_policies[i]; i++)
		if (takes(vgpu_builtin_policies[i]->vf_params, p, values, err))
			return true;
	return false;
}

static void check_profiles(struct reader *r)
{
	struct config *c = r->config;
	struct vgpu_error err = {""};
	uint32_t i, k;

	for (i = 0; i < c->n_profiles; i++)
		for (k = 0; k < c->profiles[i].n_params; k++)
			if (!is_known(c, &c->profiles[i].params[k], &err))
				complain(r, r->profile_at[i][k],
					 "[profile %s]: no GPU's policy takes this parameter: %s",
					 c->profiles[i].name, err.text);
}

/* A device without its transport and options: two sections must not name the same one. */
static int device_name(const char *device, const char **name)
{
	const char *colon = strchr(device, ':');

	*name = colon ? colon + 1 : device;
	return strncmp(device, "null", 4) == 0 ? 0 : (int)strcspn(*name, ",");
}

/* Gives a PCI address its normal form, for comparisons. An overlong one is left as it is: no
 * function has such an address. */
static void name_device(struct gpu_config *g)
{
	char device[sizeof(g->device)];

	if (vgpu_device_normal(g->device, device, sizeof(device)) == 0)
		snprintf(g->device, sizeof(g->device), "%s", device);
}

/* Names the door after the GPU: the doors of several GPUs lie in one directory. */
static void name_door(const struct config *c, struct gpu_config *g)
{
	char name[sizeof(g->name) + 8];

	snprintf(name, sizeof(name), "%s.door", g->name);
	beside(c->socket, name, g->door, sizeof(g->door));
}

static void check_twice(struct reader *r, uint32_t gpu)
{
	const struct config *c = r->config;
	const char *name, *other;
	int n = device_name(c->gpus[gpu].device, &name);
	uint32_t i;

	for (i = 0; i < gpu && n > 0; i++)
		if (device_name(c->gpus[i].device, &other) == n &&
		    strncmp(name, other, (size_t)n) == 0)
			complain(r, place_in_gpu(r, &c->gpus[gpu], "device"),
				 "[gpu %s]: device = %s: [gpu %s] has it already",
				 c->gpus[gpu].name, c->gpus[gpu].device, c->gpus[i].name);
}

/* The GPUs that a section [tenant WHO] names must exist. */
static void check_tenants(struct reader *r)
{
	struct config *c = r->config;
	const char *at;
	char name[40];
	uint32_t i;
	size_t n;

	for (i = 0; i < c->n_tenants; i++)
		for (at = c->tenants[i].gpus; *at; at += n) {
			at += strspn(at, " ");
			n = strcspn(at, " ");
			snprintf(name, sizeof(name), "%.*s", (int)n, at);
			if (n > 0 && !gpu_named(c, name, false))
				complain(r, c->tenants[i].at,
					 "[tenant %s]: gpus: there is no [gpu %s]",
					 c->tenants[i].name, name);
		}
}

/* The checks that need the whole configuration: policies, their parameters, and keys that depend on
 * each other. */
static void finish(struct reader *r)
{
	struct config *c = r->config;
	struct vgpu_error err;
	char names[160] = "";
	uint32_t i, vf;

	if (c->metrics[0] && !metrics_is_address(c->metrics))
		complain(r, place_of(r, "daemon", "metrics"),
			 "[daemon]: metrics = %s: want " METRICS_ADDRESS_WANT, c->metrics);
	beside(c->socket, "hook.sock", c->hook_socket, sizeof(c->hook_socket));
	if (!c->tenant_socket[0])
		vgpu_socket_of_tenants(c->socket, c->tenant_socket, sizeof(c->tenant_socket));
	beside(c->socket, "leases.json", c->leases, sizeof(c->leases));
	beside(c->socket, "live.json", c->live, sizeof(c->live));
	for (i = 0; vgpu_builtin_policies[i]; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", vgpu_builtin_policies[i]->name);
	for (i = 0; i < c->n_gpus; i++) {
		struct gpu_config *g = &c->gpus[i];

		name_device(g);
		name_door(c, g);
		if (!g->device[0] && !(r->unsure_device >> i & 1))
			complain(r, place_in_gpu(r, g, "device"), "[gpu %s]: device is missing",
				 g->name);
		check_twice(r, i);
		if (strcmp(g->layout, "auto") != 0 && !gpuiov_layout_by_name(g->layout))
			complain(r, place_in_gpu(r, g, "layout"),
				 "[gpu %s]: layout = %s: want auto, navi, tonga or soft", g->name,
				 g->layout);
		if (g->vgpu_type && strncmp(g->device, "nvidia:", 7) != 0)
			complain(r, place_in_gpu(r, g, "vgpu_type"),
				 "[gpu %s]: vgpu_type is only for device = nvidia:ADDRESS: remove "
				 "it",
				 g->name);
		if (g->lone_slice_ms && g->lone_slice_ms * 1000 < g->min_slice_us)
			complain(r, place_in_gpu(r, g, "lone_slice_ms"),
				 "[gpu %s]: lone_slice_ms is shorter than min_slice_us", g->name);
		for (vf = (uint32_t)g->vfs; vf < VGPU_GPU_MAX_VFS; vf++)
			if (g->memory_mib[vf] && !(r->unsure_vfs >> i & 1))
				complain(r, g->vf_at[vf],
					 "[vf %s/%u]: the GPU has only %" PRId64 " VFs", g->name,
					 vf, g->vfs);
		g->ops = plugin_policy(c->policy_dir, g->policy, &err);
		if (!g->ops) {
			complain(r, place_in_gpu(r, g, "policy"),
				 "[gpu %s]: policy = %s: want one of: %s; %s", g->name, g->policy,
				 names, err.text);
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
		if (d->vf >= g->vfs && !(r->unsure_vfs >> d->gpu & 1))
			complain(r, d->at, "[vf %s/%d]: the GPU has only %" PRId64 " VFs", g->name,
				 d->vf, g->vfs);
		else if (vgpu_param_set(d->vf < 0 ? g->ops->params : g->ops->vf_params, d->name,
					d->value, d->vf < 0 ? g->params : g->vf_params[d->vf],
					&err) < 0)
			complain(r, d->at, "policy %s: %s", g->ops->name, err.text);
		else
			continue;
		g->mistaken = true;
	}
	check_profiles(r);
	check_tenants(r);
}

static int read_all(struct config *out, const char *file, bool staged, FILE *errors)
{
	struct reader *r = calloc(1, sizeof(*r));
	int wrong;

	if (!r)
		return -ENOMEM;
	memset(out, 0, offsetof(struct config, gpus));
	set_defaults(DAEMON, out);
	if (strlen(file) >= sizeof(out->file)) {
		fprintf(errors, "%s: the path is longer than %zu characters\n", file,
			sizeof(out->file) - 1);
		free(r);
		return -EINVAL;
	}
	strcpy(out->file, file);
	r->config = out;
	r->errors = errors;
	read_file(r, file, "");
	read_drop_ins(r, file, staged);
	finish(r);
	wrong = r->wrong;
	free(r);
	return wrong ? -EINVAL : 0;
}

int config_read(struct config *out, const char *file, FILE *errors)
{
	return read_all(out, file, false, errors);
}

int config_read_staged(struct config *out, const char *file, FILE *errors)
{
	return read_all(out, file, true, errors);
}

void config_usual(const struct gpu_config *gpu, const struct vgpu_policy_ops *policy, int64_t *out)
{
	if (policy == gpu->ops)
		memcpy(out, gpu->params, VGPU_MAX_PARAMS * sizeof(*out));
	else
		vgpu_param_defaults(policy->params, out);
}

void config_vf_usual(const struct gpu_config *gpu, uint32_t vf,
		     const struct vgpu_policy_ops *policy, int64_t *out)
{
	if (policy == gpu->ops)
		memcpy(out, gpu->vf_params[vf], VGPU_MAX_PARAMS * sizeof(*out));
	else
		vgpu_param_defaults(policy->vf_params, out);
}

bool config_is_gated(const struct gpu_config *g)
{
	return strncmp(g->device, "vulkan:", 7) == 0;
}

bool config_takes_tenants(const struct gpu_config *g)
{
	return config_is_gated(g) || strncmp(g->device, "vfio-user:", 10) == 0 ||
	       strncmp(g->device, "null:", 5) == 0;
}

void config_to_engine(const struct gpu_config *g, struct engine_config *out)
{
	uint32_t i;

	*out = (struct engine_config){
		.begin.policy = g->ops,
		.realtime = g->realtime,
		.spin = (vgpu_nsec)g->spin_us * VGPU_USEC,
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
				.vgpu_type = (uint32_t)g->vgpu_type,
				.door = g->door,
				.wall = g->wall,
				.watch = (enum vgpu_watch)g->watch,
			},
		.epoch = (vgpu_nsec)g->epoch_ms * VGPU_MSEC,
	};
	out->driver.placement = (enum vgpu_placement)g->placement;
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++) {
		out->driver.pinned |= (vgpu_vf_set)(g->pinned[i] == PINNED_YES) << i;
		out->swappable |= (vgpu_vf_set)(g->pinned[i] == PINNED_NO) << i;
		out->driver.sizes[i] = g->on_demand && !g->memory_mib[i]
					       ? VGPU_SIZE_NONE
					       : (uint64_t)g->memory_mib[i] << 20;
	}
	vgpu_core_defaults(&out->core, (uint32_t)g->vfs);
	out->core.gpu_reset = g->gpu_reset;
	out->core.min_slice = (vgpu_nsec)g->min_slice_us * VGPU_USEC;
	out->core.switch_nominal = (vgpu_nsec)g->switch_least_us * VGPU_USEC;
	out->core.grace = (vgpu_nsec)g->grace_ms * VGPU_MSEC;
	out->core.window_max = (vgpu_nsec)g->window_max_ms * VGPU_MSEC;
	out->lone_slice_by_kind = g->lone_slice_ms == 0;
	if (g->lone_slice_ms)
		out->core.lone_slice = (vgpu_nsec)g->lone_slice_ms * VGPU_MSEC;
	out->core.debt_cap = (vgpu_nsec)g->debt_cap_ms * VGPU_MSEC;
	memcpy(out->begin.params, g->params, sizeof(out->begin.params));
	memcpy(out->begin.vf_params, g->vf_params, sizeof(out->begin.vf_params));
}
