/* SPDX-License-Identifier: MIT */
/* The methods timeline, events and record. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/printbuf.h>
#include <stdlib.h>
#include <string.h>

#include "control/heard.h"
#include "engine/engine.h"
#include "history.h"
#include "vms/lease.h"
#include "policy_methods.h"

static const char *code_name(const struct vgpu_record *r)
{
	static const char *const work[] = {
		[VGPU_GOVERNED_ASLEEP] = "asleep",
		[VGPU_GOVERNED_PARTIAL] = "partial",
		[VGPU_GOVERNED_BUSY] = "busy",
	};

	switch ((enum vgpu_record_type)r->type) {
	case VGPU_REC_STOP:
	case VGPU_REC_PREEMPT:
		return vgpu_end_names[r->code];
	case VGPU_REC_COMMAND:
		return vgpu_command_names[r->code];
	case VGPU_REC_STATE:
		return vgpu_vf_state_names[r->code];
	case VGPU_REC_RESET:
	case VGPU_REC_RESET_DONE:
		return vgpu_reset_names[r->code];
	case VGPU_REC_HANG:
		return vgpu_phase_names[r->code];
	case VGPU_REC_EVICTED:
		return vgpu_fault_text((enum vgpu_fault)r->code);
	case VGPU_REC_VIOLATION:
		return vgpu_violation_names[r->code];
	case VGPU_REC_WINDOW:
	case VGPU_REC_WINDOW_END:
	case VGPU_REC_REFUSED:
		return r->code == VGPU_WINDOW_INIT   ? "init"
		       : r->code == VGPU_WINDOW_FINI ? "fini"
						     : "reset";
	case VGPU_REC_CLAIM:
		return r->code ? "not in force" : "in force";
	case VGPU_REC_CPU:
		return r->code ? "above its share" : "its share";
	case VGPU_REC_SERVED:
		return work[r->code];
	default:
		return "";
	}
}

/* The records of a trail to print. */
struct selection {
	const struct gpu *gpu; /* their GPU; NULL: prints no names */
	const struct trail *trail;
	vgpu_nsec since;
	uint64_t limit; /* largest number, of the newest */
};

/* NAME: the VF's tenant; "": omitted. */
static void print_record(struct printbuf *to, const struct vgpu_record *r, const char *name,
			 bool first)
{
	char text[256], vf[24] = "", what[120] = "";
	json *quoted;
	int n;

	if (r->vf != VGPU_NO_VF)
		snprintf(vf, sizeof(vf), ",\"vf\":%" PRIu32, r->vf);
	if (*code_name(r))
		snprintf(what, sizeof(what), ",\"what\":\"%s\"", code_name(r));
	n = snprintf(text, sizeof(text),
		     "%s{\"t_ns\":%" PRIu64 ",\"type\":\"%s\"%s%s,\"a\":%" PRId64 ",\"b\":%" PRId64,
		     first ? "" : ",", r->t, vgpu_record_names[r->type], vf, what, (int64_t)r->a,
		     (int64_t)r->b);
	printbuf_memappend(to, text, n);
	if (*name) {
		quoted = json_object_new_string(name);
		printbuf_strappend(to, ",\"domain\":");
		n = (int)strlen(json_object_to_json_string(quoted));
		printbuf_memappend(to, json_object_to_json_string(quoted), n);
		json_object_put(quoted);
	}
	printbuf_memappend(to, "}", 1);
}

/* Prints records as json-c would print a list of objects, which would take a hundred times the
 * memory and ten times the time. */
static int print_records(json *list, struct printbuf *to, int, int)
{
	const struct selection *s = json_object_get_userdata(list);
	uint64_t end = trail_end(s->trail), i = trail_begin(s->trail), printed = 0;
	struct vgpu_record record;

	if (end > s->limit && i < end - s->limit)
		i = end - s->limit;
	printbuf_memappend(to, "[", 1);
	for (; i < end; i++)
		if (trail_read(s->trail, i, &record) && record.t >= s->since)
			print_record(to, &record, s->gpu ? heard_name(s->gpu, i) : "",
				     printed++ == 0);
	return printbuf_memappend(to, "]", 1);
}

/* Returns a list of the newest LIMIT records of a trail since SINCE, read when the list is printed.
 * The caller frees it before the trail. */
static json *records_json(const struct gpu *gpu, const struct trail *trail, vgpu_nsec since,
			  uint64_t limit)
{
	struct selection *s = malloc(sizeof(*s));
	json *list = json_object_new_array();

	if (!s)
		return list;
	*s = (struct selection){gpu, trail, since, limit};
	json_object_set_serializer(list, print_records, s, json_object_free_userdata);
	return list;
}

/* The name of each VF's VM; null: none. */
static json *domains_json(const struct call *call)
{
	json *list = json_object_new_array();
	const struct lease *l;
	uint32_t vf;

	for (vf = 0; vf < call->snapshot.n_vfs; vf++) {
		l = &call->gpu->leases[vf];
		json_object_array_add(list, l->state == LEASE_NONE
						    ? NULL
						    : json_object_new_string(l->domain));
	}
	return list;
}

json *finish_timeline(struct call *call)
{
	json *o = json_object_new_object();
	/* An epoch of a governed GPU is as long as a hundred turns of a switched one. */
	int64_t usual = call->snapshot.governed ? 10000 : 100;
	vgpu_nsec span = (vgpu_nsec)call_int(call, "ms", usual) * VGPU_MSEC;
	vgpu_nsec now = call->snapshot.now;

	put_text(o, "gpu", call->gpu->config->name);
	put_scheduler(o, &call->snapshot);
	put_int(o, "vfs", call->snapshot.n_vfs);
	json_object_object_add(o, "domains", domains_json(call));
	put_int(o, "now_ns", now);
	put_int(o, "since_ns", now > span ? now - span : 0);
	json_object_object_add(o, "records",
			       records_json(NULL, engine_records(call->gpu->engine),
					    now > span ? now - span : 0, UINT64_MAX));
	return o;
}

json *finish_events(struct call *call)
{
	json *o = json_object_new_object();

	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "now_ns", call->snapshot.now);
	json_object_object_add(o, "records",
			       records_json(call->gpu, &call->gpu->heard.events,
					    (vgpu_nsec)call_int(call, "since_ns", 0),
					    (uint64_t)call_int(call, "limit", 50)));
	return o;
}

static const char hex[] = "0123456789abcdef";

/* The recording in the format of vgpu-sim, in hexadecimal: JSON has no bytes. */
static json *recording_json(const struct recording *recording)
{
	json *o = json_object_new_object();
	char *file = NULL, *text;
	size_t size = 0, i;
	FILE *f = open_memstream(&file, &size);

	if (!f || recording_write(recording, f, NULL) < 0) {
		if (f)
			fclose(f);
		free(file);
		return o;
	}
	fclose(f);
	text = malloc(2 * size);
	for (i = 0; text && i < size; i++) {
		text[2 * i] = hex[(uint8_t)file[i] >> 4];
		text[2 * i + 1] = hex[file[i] & 15];
	}
	if (text)
		json_object_object_add(o, "recording",
				       json_object_new_string_len(text, (int)(2 * size)));
	put_int(o, "events", recording->header.n_entries);
	free(text);
	free(file);
	return o;
}

json *finish_record(struct call *call)
{
	struct recording recording;
	json *o, *about;
	char *config = NULL;
	size_t size = 0;
	FILE *f;
	int r;

	do
		r = engine_recording(call->gpu->engine, &recording);
	while (r == -EAGAIN);
	if (r < 0)
		return json_object_new_object();
	about = json_object_new_object();
	put_text(about, "vgpud", VGPU_VERSION);
	put_text(about, "gpu", call->gpu->config->name);
	f = open_memstream(&config, &size);
	if (f) {
		config_dump(call->control->config, f);
		fclose(f);
		put_text(about, "configuration", config);
		free(config);
	}
	json_object_object_add(about, "policy", finish_policy_show(call));
	free(recording.text);
	recording.text = strdup(json_object_to_json_string_ext(about, JSON_C_TO_STRING_PLAIN));
	json_object_put(about);
	o = recording.text ? recording_json(&recording) : json_object_new_object();
	recording_free(&recording);
	return o;
}
