/* SPDX-License-Identifier: MIT */
#include "saved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_running.h"
#include "vgpu/file.h"

#define MAX_BYTES (1u << 20)
#define MAX_ENTRIES 4096u
#define HEAD                                                                                       \
	"# Written by vgpud, for changes with --save; 'vgpuctl config diff' shows what is not "    \
	"here.\n"                                                                                  \
	"# Each key has a comment of its own. Other comments are not kept.\n"

/* One key of the drop-in. */
struct entry {
	char section[48], key[32], value[64], why[168];
};

struct drop_in {
	uint32_t n;
	struct entry entries[MAX_ENTRIES];
};

void saving_add(struct saving *saving, const char *key, const char *value)
{
	snprintf(saving->keys[saving->n].key, sizeof(saving->keys[0].key), "%s", key);
	snprintf(saving->keys[saving->n].value, sizeof(saving->keys[0].value), "%s", value);
	saving->n++;
}

static int full(struct vgpu_error *err)
{
	return vgpu_error_set(err, -E2BIG, "more than %u keys are saved", MAX_ENTRIES);
}

/* Reads the drop-in's lines; leaves alone lines of another form. */
static int parse(struct drop_in *d, char *text, struct vgpu_error *err)
{
	struct entry now = {.section = ""};
	char *line, *rest = text, end;
	int n;

	for (n = 1; (line = strsep(&rest, "\n")); n++) {
		if (line[0] == '\0')
			continue;
		if (line[0] == '#') {
			snprintf(now.why, sizeof(now.why), "%s", line);
		} else if (sscanf(line, "[%47[^]]%c", now.section, &end) == 2 && end == ']') {
			now.why[0] = '\0';
		} else if (now.section[0] &&
			   sscanf(line, "%31[^ =] = %63[^\n]", now.key, now.value) == 2) {
			if (d->n == MAX_ENTRIES)
				return full(err);
			d->entries[d->n++] = now;
			now.why[0] = '\0';
		} else {
			return vgpu_error_set(err, -EINVAL,
					      "line %d of " CONFIG_SAVED
					      " was not written by vgpud: move it to a drop-in of "
					      "your own",
					      n);
		}
	}
	return 0;
}

static int load(struct drop_in *d, const char *path, struct vgpu_error *err)
{
	char *text;
	size_t size;
	int r = vgpu_file_read(path, MAX_BYTES, &text, &size);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return vgpu_error_set(err, -EIO, "%s: %s", path, strerror(-r));
	r = parse(d, text, err);
	free(text);
	return r;
}

static bool is_param_of(const struct vgpu_param *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return true;
	return false;
}

static bool saves_policy(const struct saving *s)
{
	uint32_t i;

	for (i = 0; i < s->n && strcmp(s->keys[i].key, "policy") != 0; i++)
		;
	return i < s->n;
}

/* Returns whether only the GPU's former policy has this parameter. A policy that was not saved does
 * not make another one a former one. */
static bool is_stale(const struct entry *e, const struct saving *s)
{
	const struct vgpu_policy_ops *old = s->gpu->ops;
	size_t n = strlen(s->gpu->name);

	if (!saves_policy(s))
		return false;
	if (strncmp(e->section, "gpu ", 4) == 0 && strcmp(e->section + 4, s->gpu->name) == 0)
		return is_param_of(old->params, e->key) && !is_param_of(s->policy->params, e->key);
	if (strncmp(e->section, "vf ", 3) == 0 && strncmp(e->section + 3, s->gpu->name, n) == 0 &&
	    e->section[3 + n] == '/')
		return is_param_of(old->vf_params, e->key) &&
		       !is_param_of(s->policy->vf_params, e->key);
	return false;
}

static int merge(struct drop_in *d, const struct saving *s, struct vgpu_error *err)
{
	struct entry *e;
	uint32_t i, k, kept = 0;

	for (i = 0; i < d->n; i++)
		if (!is_stale(&d->entries[i], s))
			d->entries[kept++] = d->entries[i];
	d->n = kept;
	for (k = 0; k < s->n; k++) {
		for (i = 0; i < d->n; i++)
			if (strcmp(d->entries[i].section, s->section) == 0 &&
			    strcmp(d->entries[i].key, s->keys[k].key) == 0)
				break;
		if (i == MAX_ENTRIES)
			return full(err);
		d->n += i == d->n;
		e = &d->entries[i];
		memcpy(e->section, s->section, sizeof(e->section));
		memcpy(e->key, s->keys[k].key, sizeof(e->key));
		memcpy(e->value, s->keys[k].value, sizeof(e->value));
		snprintf(e->why, sizeof(e->why), "# %s", s->why);
	}
	return 0;
}

/* Returns the text of the drop-in, which the caller frees; NULL: out of memory. */
static char *write_text(const struct drop_in *d)
{
	char *text = NULL;
	size_t size;
	uint32_t i, k;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs(HEAD, f);
	for (i = 0; i < d->n; i++) {
		const char *section = d->entries[i].section;

		/* All keys of a section go where its first one is. */
		for (k = 0; k < i && strcmp(d->entries[k].section, section) != 0; k++)
			;
		if (k < i)
			continue;
		fprintf(f, "\n[%s]\n", section);
		for (; k < d->n; k++) {
			const struct entry *e = &d->entries[k];

			if (strcmp(e->section, section) == 0)
				fprintf(f, "%s%s%s = %s\n", e->why, e->why[0] ? "\n" : "", e->key,
					e->value);
		}
	}
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/* Counts the saved keys that have the saved values. */
struct reading {
	const struct saving *saving;
	uint32_t right;
};

static void compare(void *data, const char *section, const char *key, const char *value, bool)
{
	struct reading *r = data;
	uint32_t i;

	for (i = 0; i < r->saving->n; i++)
		r->right += strcmp(section, r->saving->section) == 0 &&
			    strcmp(key, r->saving->keys[i].key) == 0 &&
			    strcmp(value, r->saving->keys[i].value) == 0;
}

/* Reads the configuration with the staged file. */
static int read_back(struct config *out, const struct control *control, const struct saving *s,
		     struct vgpu_error *err)
{
	struct reading reading = {s, 0};
	char *said = NULL;
	size_t size;
	FILE *errors = open_memstream(&said, &size);
	int r;

	if (!errors)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = config_read_staged(out, control->config->file, errors);
	if (r == 0)
		r = config_check_running(out, control, errors);
	fclose(errors);
	if (r < 0)
		vgpu_error_set(err, r, "the configuration would be wrong: %.*s",
			       (int)strcspn(said, "\n"), said);
	free(said);
	if (r < 0)
		return r;
	config_walk(out, compare, &reading);
	if (reading.right == s->n)
		return 0;
	return vgpu_error_set(err, -EEXIST,
			      "a drop-in that is read after " CONFIG_SAVED
			      " sets the same key: rename it");
}

/* Copies the saved keys that are in TABLE. */
static void adopt_params(const struct saving *s, const struct vgpu_param *table,
			 const int64_t *from, int64_t *to)
{
	uint32_t i, p;

	for (i = 0; i < s->n; i++)
		for (p = 0; table[p].name; p++)
			if (strcmp(table[p].name, s->keys[i].key) == 0)
				to[p] = from[p];
}

/* Takes over the saved keys, for a policy with all its parameters, and no other edits of the files:
 * those need a reload. */
static void adopt(const struct config *from, const struct saving *s)
{
	struct gpu_config *gpu = s->gpu;
	const char *vf = strchr(s->section, '/');
	const struct gpu_config *g;
	uint32_t n = vf ? (uint32_t)strtoul(vf + 1, NULL, 10) : 0;

	for (g = from->gpus; g < from->gpus + from->n_gpus; g++) {
		if (strcmp(g->name, gpu->name) != 0)
			continue;
		if (saves_policy(s)) {
			memcpy(gpu->policy, g->policy, sizeof(gpu->policy));
			gpu->ops = g->ops;
			memcpy(gpu->params, g->params, sizeof(gpu->params));
			memcpy(gpu->vf_params, g->vf_params, sizeof(gpu->vf_params));
		} else if (g->ops == gpu->ops && vf) {
			adopt_params(s, g->ops->vf_params, g->vf_params[n], gpu->vf_params[n]);
		} else if (g->ops == gpu->ops) {
			adopt_params(s, g->ops->params, g->params, gpu->params);
		}
	}
}

/* Maps an error of the file system to one of vgpud: -EACCES or -ENOENT would tell the client that
 * it lacks the permission, or that there is no such VF. */
static int cannot_write(const char *path, int r, struct vgpu_error *err)
{
	return vgpu_error_set(err, -EIO, "cannot write %s: %s", path, strerror(-r));
}

/* The state for reading back. */
struct work {
	struct drop_in drop_in;
	struct config config;
};

static int stage(struct work *w, const char *path, const struct control *control,
		 const struct saving *s, struct vgpu_error *err)
{
	char *text;
	int r = load(&w->drop_in, path, err);

	if (r == 0)
		r = merge(&w->drop_in, s, err);
	if (r < 0)
		return r;
	text = write_text(&w->drop_in);
	if (!text)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = vgpu_make_parent(path);
	if (r == 0)
		r = vgpu_file_stage(path, 0644, text, strlen(text));
	free(text);
	if (r < 0)
		return cannot_write(path, r, err);
	r = read_back(&w->config, control, s, err);
	if (r < 0)
		vgpu_file_discard(path);
	return r;
}

static int save(const struct control *control, const struct saving *s, bool commit,
		struct vgpu_error *err)
{
	struct work *w = calloc(1, sizeof(*w));
	char path[300];
	int r;

	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	config_saved_path(control->config->file, path, sizeof(path));
	r = stage(w, path, control, s, err);
	if (r == 0 && !commit) {
		vgpu_file_discard(path);
	} else if (r == 0) {
		r = vgpu_file_commit(path);
		if (r < 0)
			r = cannot_write(path, r, err);
		else
			adopt(&w->config, s);
	}
	free(w);
	return r;
}

int saved_check(const struct control *control, const struct saving *saving, struct vgpu_error *err)
{
	return save(control, saving, false, err);
}

int saved_write(const struct control *control, const struct saving *saving, struct vgpu_error *err)
{
	return save(control, saving, true, err);
}
