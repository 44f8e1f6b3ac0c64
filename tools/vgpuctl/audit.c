/* SPDX-License-Identifier: MIT */
/*
 * Placement counts what it has booked and never looks at a host; vgpud gives what a claim says and
 * never looks at placement. They differ when a flavor books and claims nothing (its server starts
 * without a GPU), when an operator changes a claim, and when a server has gone on one side only.
 * The server's UUID is the domain's.
 */
#include "audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "domain.h"
#include "placement.h"
#include "table.h"

/* What can be wrong; those after WRONG are only told. */
enum finding {
	WITHOUT_GPU,
	NOT_BOOKED,
	DIFFERS,
	ELSEWHERE,
	WRONG,
	UNKNOWN = WRONG,
	STOPPED,
	AGREES,
	FINDINGS
};
static const struct {
	const char *name, *text;
} findings[FINDINGS] = {
	[WITHOUT_GPU] = {"without-gpu",
			 "runs without a VF: its flavor claims none (Nova up to 31: the flavor "
			 "must be named vgpud.NAME), or the hook was not called (vgpuctl doctor)"},
	[NOT_BOOKED] = {"not-booked",
			"has a VF, and placement has booked none for it on this host"},
	[DIFFERS] = {"differs", "has another share, memory or number of VFs than was booked"},
	[ELSEWHERE] = {"elsewhere",
		       "has VFs of other GPUs than those that placement has booked: start it again "
		       "(openstack server reboot --hard)"},
	[UNKNOWN] = {"unknown",
		     "has no VF; whether it runs cannot be told, because vgpud-libvirt gives no "
		     "list"},
	[STOPPED] = {"stopped", "does not run here"},
	[AGREES] = {"agrees", "has what was booked"},
};

/* Reads how much a list of BOOKED integers has of each class. */
static void amounts(struct json_object *list, int64_t *out)
{
	size_t i;

	for (i = 0; i < BOOKED; i++)
		out[i] = json_object_get_int64(at(list, i));
}

/* What vgpud has given, by UUID: lists as placement_read makes them, the domains' names, and the
 * numbers of VFs as placement_read_host counts them. */
struct given {
	struct json_object *amounts, *names, *on;
	int64_t granule; /* MiB: partitions are multiples of it */
};

/* Counts a VF of GPU. */
static void add_vf(struct json_object *on, const char *uuid, const char *gpu)
{
	struct json_object *server = get(on, uuid);

	if (!server) {
		server = json_object_new_object();
		json_object_object_add(on, uuid, server);
	}
	json_object_object_add(server, gpu, json_object_new_int64(get_int(server, gpu) + 1));
}

/* Adds one lease. */
static int add_lease(struct session *s, struct given *given, struct json_object *vm)
{
	struct json_object *args = json_object_new_object(), *vf = NULL, *list;
	const char *uuid = get_text(vm, "uuid");
	int64_t sum[BOOKED];
	size_t i;
	int r;

	json_object_object_add(args, "gpu", json_object_get(get(vm, "gpu")));
	json_object_object_add(args, "vf", json_object_get(get(vm, "vf")));
	r = session_call(s, "vf.show", args, &vf);
	if (r != EXIT_OK)
		return r;
	amounts(get(given->amounts, uuid), sum);
	sum[BOOKED_VFS]++;
	sum[BOOKED_SHARE] += get_int(get(vf, "params"), "min_ppm") / 1000;
	sum[BOOKED_MEMORY] += get_int(vf, "memory_bytes") >> 20;
	json_object_put(vf);
	list = json_object_new_array();
	for (i = 0; i < BOOKED; i++)
		json_object_array_add(list, json_object_new_int64(sum[i]));
	json_object_object_add(given->amounts, uuid, list);
	json_object_object_add(given->names, uuid, json_object_get(get(vm, "domain")));
	add_vf(given->on, uuid, get_text(vm, "gpu"));
	return EXIT_OK;
}

static int ask(struct session *s, struct given *given)
{
	struct json_object *answer = NULL, *list;
	int r = session_call(s, "vm.list", NULL, &answer);
	int64_t granule;
	size_t i;

	for (i = 0; i < count(get(answer, "vms")) && r == EXIT_OK; i++)
		r = add_lease(s, given, at(get(answer, "vms"), i));
	json_object_put(answer);
	for (i = 0; i < count(s->gpus) && r == EXIT_OK; i++) {
		r = session_call_gpu(s, i, "memory.show", NULL, &list);
		if (r != EXIT_OK)
			break;
		granule = get_int(list, "granule_bytes") >> 20;
		given->granule = granule > given->granule ? granule : given->granule;
		json_object_put(list);
	}
	return r;
}

/* Asks libvirt which domains run, by UUID; NULL: it cannot be asked. */
static struct json_object *running(void)
{
	char unused[] = "", verb[] = "list", *argv[] = {unused, verb, NULL}, *text, *line, *rest;
	struct json_object *out = NULL;
	size_t size = 0;
	int status;

	text = domain_output(argv, &size, &status);
	if (text && status == 0) {
		out = json_object_new_object();
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
			size_t uuid = strcspn(line, " ");
			const char *name = line + uuid + (line[uuid] == ' ');

			line[uuid] = '\0';
			json_object_object_add(out, line, json_object_new_string(name));
		}
	}
	free(text);
	return out;
}

/* What was claimed may be less than the VF's partition by less than a granule for each VF. A flavor
 * that books no memory or no VF (Nova's PCI alias does) leaves both to others. */
static bool is_same(const int64_t *booked, const int64_t *has, int64_t granule)
{
	if (booked[BOOKED_VFS] && booked[BOOKED_VFS] != has[BOOKED_VFS])
		return false;
	if (booked[BOOKED_MEMORY] &&
	    (has[BOOKED_MEMORY] < booked[BOOKED_MEMORY] ||
	     has[BOOKED_MEMORY] >= booked[BOOKED_MEMORY] + granule * has[BOOKED_VFS]))
		return false;
	return booked[BOOKED_SHARE] == has[BOOKED_SHARE];
}

static enum finding judge(struct json_object *booked, struct json_object *has, int64_t granule,
			  struct json_object *runs, const char *uuid)
{
	int64_t b[BOOKED], h[BOOKED];

	amounts(booked, b);
	amounts(has, h);
	if (!has)
		return !runs ? UNKNOWN : get(runs, uuid) ? WITHOUT_GPU : STOPPED;
	return !booked ? NOT_BOOKED : is_same(b, h, granule) ? AGREES : DIFFERS;
}

static struct json_object *by_class(struct json_object *list)
{
	struct json_object *o = list ? json_object_new_object() : NULL;
	size_t i;

	for (i = 0; list && i < BOOKED; i++)
		json_object_object_add(o, placement_classes[i], json_object_get(at(list, i)));
	return o;
}

/* Adds a server to LIST. Returns whether something is wrong with it. */
static bool report(struct json_object *list, const char *uuid, const char *name,
		   enum finding finding, struct json_object *booked, struct json_object *has)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "uuid", json_object_new_string(uuid));
	json_object_object_add(o, "domain", name ? json_object_new_string(name) : NULL);
	json_object_object_add(o, "finding", json_object_new_string(findings[finding].name));
	json_object_object_add(o, "text", json_object_new_string(findings[finding].text));
	json_object_object_add(o, "booked", by_class(booked));
	json_object_object_add(o, "has", by_class(has));
	json_object_array_add(list, o);
	return finding < WRONG;
}

static void print(struct json_object *list)
{
	static const char *const heads[] = {"SERVER", "FINDING", "BOOKED", "HAS", "", NULL};
	struct table *t = table_new(heads);
	size_t i, k;

	for (i = 0; i < count(list); i++) {
		struct json_object *o = at(list, i);
		struct json_object *const sides[] = {get(o, "booked"), get(o, "has")};

		cell(t, "%s%s%s", get_text(o, "uuid"), get(o, "domain") ? " " : "",
		     get(o, "domain") ? get_text(o, "domain") : "");
		cell(t, "%s", get_text(o, "finding"));
		for (k = 0; k < 2; k++)
			cell(t,
			     sides[k] ? "%" PRId64 " VF, %" PRId64 " permille, %" PRId64 " MiB"
				      : "-",
			     get_int(sides[k], "VF"), get_int(sides[k], "SHARE"),
			     get_int(sides[k], "MEMORY_MB"));
		cell(t, "%s", get_text(o, "text"));
	}
	table_print(t);
}

/* Whether a server that has what was booked has it of other GPUs. BOOKED_ON may be NULL: it has
 * booked no GPU by its own provider. Flavors that book no VFs leave their number open. */
static bool is_elsewhere(struct json_object *booked_on, struct json_object *has_on)
{
	if (!booked_on)
		return false;
	json_object_object_foreach(booked_on, gpu, vfs)
	{
		if (json_object_get_int64(vfs) ? json_object_get_int64(vfs) != get_int(has_on, gpu)
					       : !get(has_on, gpu))
			return true;
	}
	return json_object_object_length(booked_on) != json_object_object_length(has_on);
}

/* Judges all servers that either side knows, into LIST; ON: what GPUs are booked. Returns whether
 * anything is wrong. */
static bool compare(struct json_object *booked, struct json_object *on, const struct given *given,
		    struct json_object *runs, struct json_object *list)
{
	enum finding finding;
	bool wrong = false;

	json_object_object_foreach(booked, uuid, amount)
	{
		struct json_object *has = get(given->amounts, uuid);
		struct json_object *name = get(has ? given->names : runs, uuid);

		finding = judge(amount, has, given->granule, runs, uuid);
		if (finding == AGREES && is_elsewhere(get(on, uuid), get(given->on, uuid)))
			finding = ELSEWHERE;
		wrong |= report(list, uuid, name ? json_object_get_string(name) : NULL, finding,
				amount, has);
	}
	json_object_object_foreach(given->amounts, server, has)
	{
		if (!get(booked, server))
			wrong |= report(list, server, get_text(given->names, server), NOT_BOOKED,
					NULL, has);
	}
	return wrong;
}

int audit(struct session *s)
{
	const char *where = s->options->placement, *host = s->options->provider;
	struct json_object *booked = NULL, *on, *runs, *o, *list;
	struct given given = {.granule = 1};
	bool wrong;
	int r;

	if (!where || (host && !placement_is_url(where))) {
		fprintf(stderr, "vgpuctl: audit: want --placement %s\n",
			host ? "URL beside --provider" : "FILE or URL");
		return EXIT_USAGE;
	}
	on = json_object_new_object();
	r = session_open(s);
	if (r == EXIT_OK)
		booked = host ? placement_read_host(where, host, on) : placement_read(where);
	if (!booked) {
		json_object_put(on);
		return r == EXIT_OK ? EXIT_FAILED : r;
	}
	given.amounts = json_object_new_object();
	given.names = json_object_new_object();
	given.on = json_object_new_object();
	r = ask(s, &given);
	if (r == EXIT_OK) {
		runs = running();
		list = json_object_new_array();
		wrong = compare(booked, on, &given, runs, list);
		o = json_object_new_object();
		json_object_object_add(o, "agree", json_object_new_boolean(!wrong));
		json_object_object_add(o, "servers", list);
		if (s->options->json)
			print_json(o);
		else
			print(list);
		r = wrong ? EXIT_FAILED : EXIT_OK;
		json_object_put(o);
		json_object_put(runs);
	}
	json_object_put(booked);
	json_object_put(given.amounts);
	json_object_put(given.names);
	json_object_put(given.on);
	json_object_put(on);
	return r;
}
