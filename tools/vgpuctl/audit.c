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
#include "vgpu/names.h"
#include "vm.h"

/* What can be wrong; those after WRONG are only told. */
enum finding {
	WITHOUT_GPU,
	NOT_ATTACHED,
	ORPHAN,
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
	[NOT_ATTACHED] = {"not-attached",
			  "runs without its VF, which vgpud-libvirt has not attached: its log says "
			  "why (journalctl -u vgpud-libvirt)"},
	[ORPHAN] = {"orphan",
		    "libvirt has no such domain: the server is gone and its booking is not, or "
		    "this is a migration or resize that is not confirmed"},
	[NOT_BOOKED] = {"not-booked",
			"has a VF, and placement has booked none for it on this host"},
	[DIFFERS] = {"differs", "has another share, memory or number of VFs than was booked"},
	[ELSEWHERE] = {"elsewhere",
		       "has VFs of other GPUs than those that placement has booked: start it again "
		       "(openstack server reboot --hard)"},
	[UNKNOWN] = {"unknown",
		     "has no VF; whether it runs is unknown, because vgpud-libvirt gives no list"},
	[STOPPED] = {"stopped", "does not run"},
	[AGREES] = {"agrees", "has what was booked"},
};

/* Reads how much a list of BOOKED integers has of each class. */
static void amounts(struct json_object *list, int64_t *out)
{
	size_t i;

	for (i = 0; i < BOOKED; i++)
		out[i] = json_object_get_int64(at(list, i));
}

/* More than any partition has, MiB. */
#define ANY_SIZE (INT64_C(1) << 40)

/* What vgpud has given, by UUID: lists as placement_read makes them, the domains' names, the
 * numbers of VFs as placement_read_host counts them, and those that run without a VF of theirs. */
struct given {
	struct json_object *amounts, *names, *on, *bare;
	int64_t spare; /* MiB: a partition is larger than what was claimed by less than that */
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
	if (vm_lacks_device(vm))
		json_object_object_add(given->bare, uuid, json_object_new_boolean(true));
	return EXIT_OK;
}

static int ask(struct session *s, struct given *given)
{
	struct json_object *answer = NULL, *list;
	int r = session_call(s, "vm.list", NULL, &answer);
	int64_t spare;
	size_t i;

	for (i = 0; i < count(get(answer, "vms")) && r == EXIT_OK; i++)
		r = add_lease(s, given, at(get(answer, "vms"), i));
	json_object_put(answer);
	for (i = 0; i < count(s->gpus) && r == EXIT_OK; i++) {
		r = session_call_gpu(s, i, "memory.show", NULL, &list);
		if (r != EXIT_OK)
			break;
		spare = get_bool(list, "exact") ? get_int(list, "granule_bytes") >> 20 : ANY_SIZE;
		given->spare = spare > given->spare ? spare : given->spare;
		json_object_put(list);
	}
	return r;
}

/* Libvirt's domains: their names by UUID, and those that run. */
struct domains {
	struct json_object *names, *running;
};

/* Asks libvirt. Leaves *OUT empty if it cannot be asked. */
static void ask_libvirt(struct domains *out)
{
	char unused[] = "", verb[] = "list", *argv[] = {unused, verb, NULL}, *text, *line, *rest;
	char uuid[64], state[16];
	size_t size = 0;
	int code, name;

	text = domain_output(argv, &size, &code);
	if (text && code == 0) {
		out->names = json_object_new_object();
		out->running = json_object_new_object();
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
			/* Another host's shell may print lines of its own. */
			if (sscanf(line, "%63s %15s %n", uuid, state, &name) != 2 ||
			    strlen(uuid) >= VGPU_UUID_SIZE || vgpu_uuid_normal(uuid, uuid) < 0)
				continue;
			json_object_object_add(out->names, uuid,
					       json_object_new_string(line + name));
			if (strcmp(state, "running") == 0)
				json_object_object_add(out->running, uuid,
						       json_object_new_boolean(true));
		}
	}
	free(text);
}

/* What was claimed may be less than the VF's partition by less than SPARE for each VF. A flavor
 * that books no memory or no VF (Nova's PCI alias does) leaves both to others. */
static bool is_same(const int64_t *booked, const int64_t *has, int64_t spare)
{
	if (booked[BOOKED_VFS] && booked[BOOKED_VFS] != has[BOOKED_VFS])
		return false;
	if (booked[BOOKED_MEMORY] &&
	    (has[BOOKED_MEMORY] < booked[BOOKED_MEMORY] ||
	     has[BOOKED_MEMORY] >= booked[BOOKED_MEMORY] + spare * has[BOOKED_VFS]))
		return false;
	return booked[BOOKED_SHARE] == has[BOOKED_SHARE];
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

/* Judges a server that has booked something. ON: of which GPUs; NULL: not known. */
static enum finding judge(const char *uuid, struct json_object *booked, struct json_object *on,
			  const struct given *given, const struct domains *domains)
{
	struct json_object *has = get(given->amounts, uuid);
	int64_t b[BOOKED], h[BOOKED];

	amounts(booked, b);
	amounts(has, h);
	if (!has)
		return !domains->names		     ? UNKNOWN
		       : get(domains->running, uuid) ? WITHOUT_GPU
		       : get(domains->names, uuid)   ? STOPPED
						     : ORPHAN;
	if (get(given->bare, uuid))
		return NOT_ATTACHED;
	if (!is_same(b, h, given->spare))
		return DIFFERS;
	return is_elsewhere(on, get(given->on, uuid)) ? ELSEWHERE : AGREES;
}

/* Judges all servers that either side knows, into LIST; ON: what GPUs are booked. Returns whether
 * anything is wrong. */
static bool compare(struct json_object *booked, struct json_object *on, const struct given *given,
		    const struct domains *domains, struct json_object *list)
{
	bool wrong = false;

	json_object_object_foreach(booked, uuid, amount)
	{
		struct json_object *has = get(given->amounts, uuid);
		struct json_object *name = get(has ? given->names : domains->names, uuid);

		wrong |= report(list, uuid, name ? json_object_get_string(name) : NULL,
				judge(uuid, amount, get(on, uuid), given, domains), amount, has);
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
	struct json_object *booked = NULL, *on, *o, *list;
	struct given given = {.spare = 1};
	struct domains domains = {NULL, NULL};
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
	given.bare = json_object_new_object();
	r = ask(s, &given);
	if (r == EXIT_OK) {
		ask_libvirt(&domains);
		list = json_object_new_array();
		wrong = compare(booked, on, &given, &domains, list);
		o = json_object_new_object();
		json_object_object_add(o, "agree", json_object_new_boolean(!wrong));
		json_object_object_add(o, "servers", list);
		if (s->options->json)
			print_json(o);
		else
			print(list);
		r = wrong ? EXIT_FAILED : EXIT_OK;
		json_object_put(o);
		json_object_put(domains.names);
		json_object_put(domains.running);
	}
	json_object_put(booked);
	json_object_put(given.amounts);
	json_object_put(given.names);
	json_object_put(given.on);
	json_object_put(given.bare);
	json_object_put(on);
	return r;
}
