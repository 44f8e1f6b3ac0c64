/* SPDX-License-Identifier: MIT */
/* The report: a JSON file that contains what was measured, where and how. It contains no name of a
 * VM or a host. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "table.h"
#include "verify.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"

#define FORMAT "vgpud-verify-1"
#define MODE 0666 /* before the umask, as for other programs' files */
#define NOTHING "nothing could be judged: have VFs work all the time, or measure longer"

static const char *const verdicts[VERDICTS] = {"kept", "BROKEN", "not judged", "measured"};

static void put_ns(struct json_object *o, const char *key, int64_t ns)
{
	json_object_object_add(o, key, ns < 0 ? NULL : json_object_new_int64(ns));
}

static void put_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

void verify_found(struct verify *v, const char *check, int vf, enum verdict verdict,
		  int64_t measured, int64_t allowed, const char *text, ...)
{
	struct json_object *o = json_object_new_object();
	char line[200];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	put_text(o, "check", check);
	if (vf >= 0)
		json_object_object_add(o, "vf", json_object_new_int(vf));
	put_text(o, "verdict", verdicts[verdict]);
	put_ns(o, "measured_ns", measured);
	put_ns(o, "allowed_ns", allowed);
	put_text(o, "what", line);
	json_object_array_add(v->checks, o);
}

static bool has(const struct verify *v, enum verdict verdict)
{
	size_t i;

	for (i = 0; i < count(v->checks); i++)
		if (strcmp(get_text(at(v->checks, i), "verdict"), verdicts[verdict]) == 0)
			return true;
	return false;
}

/* Returns whether CHECK is about a promise of the policy; that counters add up, never decrease and
 * change is not. */
static bool is_promised(struct json_object *check)
{
	return strncmp(get_text(check, "check"), "counter", 7) != 0;
}

enum verdict verify_result(const struct verify *v)
{
	size_t i;

	if (has(v, BROKEN))
		return BROKEN;
	for (i = 0; i < count(v->checks); i++)
		if (is_promised(at(v->checks, i)) &&
		    strcmp(get_text(at(v->checks, i), "verdict"), verdicts[KEPT]) == 0)
			return KEPT;
	return NOT_JUDGED;
}

/* Returns a copy of ANSWER without the names of VMs, which must not leave the host. */
static struct json_object *without_names(struct json_object *answer)
{
	struct json_object *list = get(answer, "vfs");
	size_t i;

	for (i = 0; i < (json_object_is_type(list, json_type_array) ? count(list) : 0); i++)
		json_object_object_del(at(list, i), "domain");
	return json_object_get(answer);
}

/* Returns an array with a row for each sample: [now, wall, [run...], [bitmap of VFs with work]]. */
static struct json_object *samples(const struct verify *v)
{
	struct json_object *list = json_object_new_array(), *row, *runs;
	uint64_t k, works;
	int i;

	for (k = 0; k < v->n; k++) {
		row = json_object_new_array();
		runs = json_object_new_array();
		works = 0;
		for (i = 0; i < v->n_vfs; i++) {
			json_object_array_add(runs,
					      json_object_new_int64(v->samples[k].vfs[i].run));
			works |= (uint64_t)v->samples[k].vfs[i].works << i;
		}
		json_object_array_add(row, json_object_new_int64(v->samples[k].now));
		json_object_array_add(row, json_object_new_int64(v->samples[k].wall));
		json_object_array_add(row, runs);
		json_object_array_add(row, json_object_new_int64((int64_t)works));
		json_object_array_add(list, row);
	}
	return list;
}

static struct json_object *host(void)
{
	struct json_object *o = json_object_new_object();
	struct utsname u;

	if (uname(&u) == 0) {
		put_text(o, "kernel", u.release);
		put_text(o, "machine", u.machine);
	}
	json_object_object_add(o, "cpus",
			       json_object_new_int64((int64_t)sysconf(_SC_NPROCESSORS_ONLN)));
	return o;
}

static struct json_object *asked(const struct verify *v)
{
	const struct options *from = v->session->options;
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "seconds", json_object_new_int64(from->seconds));
	json_object_object_add(o, "busy", json_object_new_int64(v->busy));
	json_object_object_add(o, "change",
			       from->change ? json_object_new_string(from->change) : NULL);
	return o;
}

static struct json_object *report(const struct verify *v)
{
	struct json_object *o = json_object_new_object();
	time_t now = time(NULL);
	struct tm tm;
	char date[40];

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	put_text(o, "format", FORMAT);
	put_text(o, "vgpuctl", VGPU_VERSION);
	put_text(o, "at", date);
	put_text(o, "result", verdicts[verify_result(v)]);
	json_object_object_add(o, "interrupted", json_object_new_boolean(v->interrupted));
	json_object_object_add(o, "asked", asked(v));
	json_object_object_add(o, "host", host());
	json_object_object_add(o, "checks", json_object_get(v->checks));
	json_object_object_add(o, "gpu", without_names(v->gpu));
	json_object_object_add(o, "vfs", without_names(v->vfs));
	json_object_object_add(o, "samples", samples(v));
	json_object_object_add(o, "epochs", json_object_get(v->epochs));
	json_object_object_add(o, "epochs_left_out", json_object_new_int64((int64_t)v->left_out));
	return o;
}

/*
 * Returns whether the report at PATH replaces a file: then it is written under another name, which
 * is opened before anything is measured, and renamed at the end, so that an earlier report stays
 * until then. A device or a pipe cannot be replaced, so it is opened at once.
 */
static bool is_replaced(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 || S_ISREG(st.st_mode);
}

static int refuse(const struct verify *v, int r)
{
	fprintf(stderr,
		"vgpuctl: the report cannot be written to %s: %s; name another file by --output\n",
		v->path, strerror(-r));
	return EXIT_FAILED;
}

/* Opens PATH if it cannot be replaced, else makes a file beside it. Returns 0 or -errno. */
static int open_report(struct verify *v)
{
	int r;

	if (!is_replaced(v->path)) {
		v->to = open(v->path, O_WRONLY | O_CLOEXEC);
		return v->to < 0 ? -errno : 0;
	}
	/* A user who may not write the file must not replace it. */
	if (access(v->path, W_OK) < 0 && (errno != ENOENT || !*v->path))
		return -errno;
	r = vgpu_file_stage(v->path, MODE, "", 0);
	v->is_staged = r == 0;
	return r;
}

int verify_claim(struct verify *v, const char *path)
{
	char *resolved = realpath(path, NULL); /* so that the target of a link is replaced, not the
						* link */
	int r;

	v->to = -1;
	v->path = resolved ? resolved : strdup(path);
	r = open_report(v);
	return r < 0 ? refuse(v, r) : EXIT_OK;
}

/* Writes TEXT to the report's file. Returns 0 or -errno. */
static int write_report(struct verify *v, const char *text)
{
	if (!v->is_staged)
		return dprintf(v->to, "%s", text) < 0 ? -errno : 0;
	v->is_staged = false;
	return vgpu_file_replace(v->path, MODE, text, strlen(text));
}

int verify_save(struct verify *v)
{
	struct json_object *o = report(v);
	char *text = NULL;
	int r = -ENOMEM;

	if (asprintf(&text, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY)) > 0)
		r = write_report(v, text);
	free(text);
	json_object_put(o);
	return r < 0 ? refuse(v, r) : EXIT_OK;
}

void verify_unclaim(struct verify *v)
{
	if (v->is_staged)
		vgpu_file_discard(v->path);
	vgpu_close(&v->to);
	free(v->path);
}

static void ms_cell(struct table *t, struct json_object *check, const char *key)
{
	if (get(check, key))
		cell(t, "%.2f ms", get_ms(check, key));
	else
		cell(t, "-");
}

void verify_print(struct verify *v)
{
	static const char *const heads[] = {"CHECK",	">VF",	"RESULT", ">MEASURED",
					    ">ALLOWED", "WHAT", NULL};
	static const char *const results[VERDICTS] = {
		[KEPT] = "every bound that could be judged was kept",
		[BROKEN] = "a bound was broken",
		[NOT_JUDGED] = NOTHING,
	};
	struct table *t = table_new(heads);
	struct json_object *c;
	size_t i;

	for (i = 0; i < count(v->checks); i++) {
		c = at(v->checks, i);
		cell(t, "%s", get_text(c, "check"));
		if (get(c, "vf"))
			cell(t, "%" PRId64, get_int(c, "vf"));
		else
			cell(t, "-");
		cell(t, "%s", get_text(c, "verdict"));
		ms_cell(t, c, "measured_ns");
		ms_cell(t, c, "allowed_ns");
		cell(t, "%s", get_text(c, "what"));
	}
	printf("%s (%s), scheduled by %s, policy %s\n", get_text(v->gpu, "gpu"),
	       get_text(v->gpu, "model"), get_text(v->gpu, "scheduler"),
	       get_text(v->gpu, "policy"));
	table_print(t);
	printf("%s%s. The report is %s\n", v->interrupted ? "interrupted; until then, " : "",
	       results[verify_result(v)], v->path);
}
