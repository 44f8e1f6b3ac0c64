/* SPDX-License-Identifier: MIT */
/*
 * The inventory is made from vgpud's answers to gpu.capacity, so it offers what vgpud would admit.
 * A host with a lost GPU prints no inventory: with a smaller inventory, OpenStack's scheduler would
 * drop the allocations of VMs.
 */
#include "inventory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "inventory_cdi.h"
#include "offer.h"
#include "table.h"
#include "vgpu/file.h"

#define MIB (1 << 20)
#define LONGEST_FILE MIB

/* Where the inventory is written, and the GPUs in it. */
struct report {
	struct session *s;
	FILE *to;
	struct json_object *gpus; /* answers of gpu.capacity */
	size_t first;		  /* number of the first of them in the session */
};

static struct json_object *gpu_at(const struct report *r, size_t i)
{
	return at(r->gpus, i);
}

static int64_t mib(struct json_object *gpu, const char *key)
{
	return get_int(get(gpu, "memory"), key) / MIB;
}

/* Adds a GPU's resource class to the host's. Totals are summed; the most that one VM can book is
 * that of the largest GPU. */
static void add(struct offer_class *host, const struct offer_class *c)
{
	if (c->total <= 0)
		return;
	host->total += c->total;
	host->least = host->least == 0 || c->least < host->least ? c->least : host->least;
	host->most = c->most > host->most ? c->most : host->most;
	host->step = c->step > host->step ? c->step : host->step;
}

static void print_class(FILE *to, const char *name, const struct offer_class *c)
{
	if (c->total > 0)
		fprintf(to,
			"        - " OFFER_PREFIX "_%s: {total: %" PRId64
			", reserved: 0, min_unit: %" PRId64 ", max_unit: %" PRId64
			", step_size: %" PRId64 ", allocation_ratio: 1.0}\n",
			name, c->total, c->least, c->most, c->step);
}

/* Returns whether a GPU before number I has the trait TEXT as its number TRAIT. */
static bool was_printed(const struct report *r, size_t i, int trait, const char *text)
{
	char other[OFFER_TRAIT_SIZE];
	size_t j;

	for (j = 0; j < i; j++)
		if (offer_trait(gpu_at(r, j), trait, other) && strcmp(other, text) == 0)
			return true;
	return false;
}

/* Prints each distinct trait of the GPUs once. */
static void print_traits(const struct report *r)
{
	char text[OFFER_TRAIT_SIZE];
	size_t i;
	int trait;

	for (trait = 0; trait < OFFER_TRAITS; trait++)
		for (i = 0; i < count(r->gpus); i++)
			if (offer_trait(gpu_at(r, i), trait, text) &&
			    !was_printed(r, i, trait, text))
				fprintf(r->to, "        - %s\n", text);
}

/* Prints Nova's provider configuration (schema 1.0) for the provider that BY (name or uuid) and ID
 * identify. VFS: whether the provider also has the VFs. */
static void print_provider(const struct report *r, const char *by, const char *id, bool vfs)
{
	struct offer_class host[OFFER_CLASSES] = {{0}}, gpu[OFFER_CLASSES];
	int64_t any = 0;
	size_t i;
	int c;

	for (i = 0; i < count(r->gpus); i++) {
		offer_classes(gpu_at(r, i), gpu);
		for (c = 0; c < OFFER_CLASSES; c++)
			add(&host[c], &gpu[c]);
	}
	fprintf(r->to,
		"meta:\n  schema_version: '1.0'\nproviders:\n  - identification:\n      %s: '%s'\n",
		by, id);
	for (c = vfs ? OFFER_VFS : OFFER_SHARE; c < OFFER_CLASSES; c++)
		any += host[c].total;
	if (any > 0) /* nova-compute does not start if the list is empty */
		fputs("    inventories:\n      additional:\n", r->to);
	for (c = vfs ? OFFER_VFS : OFFER_SHARE; c < OFFER_CLASSES; c++)
		print_class(r->to, offer_names[c], &host[c]);
	fputs("    traits:\n      additional:\n        - " OFFER_PREFIX "\n", r->to);
	print_traits(r);
}

static int as_nova(struct report *r)
{
	fputs("# Made by 'vgpuctl inventory --format nova'. nova-compute reads it at its start.\n",
	      r->to);
	print_provider(r, "uuid", "$COMPUTE_NODE", true);
	return EXIT_OK;
}

/* Returns the host's name, as vgpud on that host gives it. */
static const char *host_of(const struct report *r)
{
	return get_text(gpu_at(r, 0), "host");
}

/* Prints Nova's [pci] device_spec for each VF, as comments, and the provider of the PF. */
static int as_nova_pci(struct report *r)
{
	const char *gpu = get_text(gpu_at(r, 0), "gpu"), *pf = get_text(gpu_at(r, 0), "pf_address");
	struct json_object *answer = NULL, *vfs;
	char id[300];
	size_t i;
	int code;

	if (count(r->gpus) != 1 || strcmp(pf, "-") == 0) {
		fprintf(stderr,
			"vgpuctl: --format nova-pci is for hosts with one GPU, a PCI device: "
			"%s\n",
			count(r->gpus) != 1 ? "with several, a server could get a VF of one and "
					      "the share of another; use --format nova"
					    : "VFs of this GPU are not; use --format nova");
		return EXIT_FAILED;
	}
	code = session_call_gpu(r->s, r->first, "vf.list", NULL, &answer);
	if (code != EXIT_OK)
		return code;
	fprintf(r->to,
		"# Made by 'vgpuctl inventory --format nova-pci' for %s. nova.conf on this host "
		"needs\n#   [pci]\n#   report_in_placement = True\n",
		gpu);
	vfs = get(answer, "vfs");
	for (i = 0; i < count(vfs); i++)
		fprintf(r->to,
			"#   device_spec = {\"address\": \"%s\", \"managed\": \"no\", "
			"\"resource_class\": \"CUSTOM_VGPUD_VF\", \"traits\": \"CUSTOM_VGPUD\"}\n",
			get_text(at(vfs, i), "address"));
	fputs("# and on the hosts of nova-api and nova-scheduler\n"
	      "#   [filter_scheduler]\n#   pci_in_placement = True\n#   [pci]\n"
	      "#   alias = {\"name\": \"vgpud\", \"device_type\": \"type-VF\", "
	      "\"resource_class\": \"CUSTOM_VGPUD_VF\"}\n",
	      r->to);
	json_object_put(answer);
	snprintf(id, sizeof(id), "%s_%s",
		 r->s->options->provider ? r->s->options->provider : host_of(r), pf);
	print_provider(r, "name", id, false);
	return EXIT_OK;
}

/* Adds to a GPU's answer its resources in placement's terms, for vgpud-openstack. */
static void add_offer(struct json_object *gpu)
{
	struct json_object *all = json_object_new_object(), *traits = json_object_new_array(), *one;
	struct offer_class classes[OFFER_CLASSES];
	char text[OFFER_TRAIT_SIZE];
	int c, i;

	offer_classes(gpu, classes);
	for (c = 0; c < OFFER_CLASSES; c++) {
		if (classes[c].total <= 0)
			continue;
		snprintf(text, sizeof(text), OFFER_PREFIX "_%s", offer_names[c]);
		one = json_object_new_object();
		json_object_object_add(one, "total", json_object_new_int64(classes[c].total));
		json_object_object_add(one, "min_unit", json_object_new_int64(classes[c].least));
		json_object_object_add(one, "max_unit", json_object_new_int64(classes[c].most));
		json_object_object_add(one, "step_size", json_object_new_int64(classes[c].step));
		json_object_object_add(all, text, one);
	}
	json_object_array_add(traits, json_object_new_string(OFFER_PREFIX));
	for (i = 0; i < OFFER_TRAITS; i++)
		if (offer_trait(gpu, i, text))
			json_object_array_add(traits, json_object_new_string(text));
	json_object_object_add(gpu, "inventories", all);
	json_object_object_add(gpu, "traits", traits);
}

static int as_json(struct report *r)
{
	struct json_object *o = json_object_new_object();
	size_t i;

	for (i = 0; i < count(r->gpus); i++)
		add_offer(gpu_at(r, i));
	json_object_object_add(o, "host", json_object_new_string(host_of(r)));
	json_object_object_add(o, "gpus", json_object_get(r->gpus));
	fprintf(r->to, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
	return EXIT_OK;
}

/* Prints one target with its labels, in the form of Prometheus' file_sd_configs and
 * http_sd_configs. */
static int as_prometheus(struct report *r)
{
	struct json_object *list = json_object_new_array(), *o = json_object_new_object();
	struct json_object *targets = json_object_new_array(), *labels = json_object_new_object();
	const char *metrics = get_text(gpu_at(r, 0), "metrics"), *port = strrchr(metrics, ':');
	char target[300], pools[512] = ",";
	size_t i;

	if (!port || strncmp(metrics, "unix:", 5) == 0) {
		fprintf(stderr,
			"vgpuctl: inventory: Prometheus cannot reach vgpud's metrics at '%s': set "
			"[daemon] metrics to an address with a port ('man vgpud.conf')\n",
			metrics);
		json_object_put(list);
		json_object_put(o);
		json_object_put(targets);
		json_object_put(labels);
		return EXIT_FAILED;
	}
	snprintf(target, sizeof(target), "%s%s", host_of(r), port);
	for (i = 0; i < count(r->gpus); i++) {
		const char *pool = get_text(gpu_at(r, i), "pool");
		char word[40];

		snprintf(word, sizeof(word), ",%s,", pool);
		if (pool[0] && !strstr(pools, word))
			snprintf(pools + strlen(pools), sizeof(pools) - strlen(pools), "%s,", pool);
	}
	json_object_array_add(targets, json_object_new_string(target));
	json_object_object_add(o, "targets", targets);
	json_object_object_add(labels, "vgpud_host", json_object_new_string(host_of(r)));
	json_object_object_add(labels, "vgpud_pools",
			       json_object_new_string(pools[1] ? pools : ""));
	json_object_object_add(o, "labels", labels);
	json_object_array_add(list, o);
	fprintf(r->to, "%s\n", json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY));
	json_object_put(list);
	return EXIT_OK;
}

static int as_cdi(struct report *r)
{
	inventory_cdi(r->gpus, r->to);
	return EXIT_OK;
}

static int as_text(struct report *r)
{
	static const char *const heads[] = {"GPU",	 "POOL",      "POLICY",	  ">FREE VFS",
					    ">SHARES",	 ">PROMISED", ">LARGEST", ">MEMORY",
					    ">ONE VF'S", NULL};
	struct table *t = table_new(heads);
	size_t i;

	for (i = 0; i < count(r->gpus); i++) {
		struct json_object *gpu = gpu_at(r, i), *shares = get(gpu, "shares");

		cell(t, "%s", get_text(gpu, "gpu"));
		cell(t, "%s", get_text(gpu, "pool"));
		cell(t, "%s", get_text(gpu, "policy"));
		cell(t, "%" PRId64 " of %" PRId64, get_int(gpu, "free_vfs"), get_int(gpu, "vfs"));
		cell(t, shares ? "%.1f %%" : "-", (double)get_int(shares, "total") / 10);
		cell(t, "%.1f %%", (double)get_int(gpu, "promised_ppm") / 1e4);
		cell(t, shares ? "%.1f %%" : "-", (double)get_int(shares, "largest_free") / 10);
		cell(t, "%" PRId64 " MiB", mib(gpu, "total_bytes"));
		cell(t, "%" PRId64 " MiB", mib(gpu, "most_bytes"));
	}
	table_print(t);
	return EXIT_OK;
}

static const struct {
	const char *name;
	int (*print)(struct report *r);
	bool provider; /* the text has the name of the host's provider */
	bool all;      /* includes GPUs whose VFs are not for VMs */
	bool empty;    /* also printed for a host without a GPU */
} formats[] = {
	{"nova", as_nova, false, false, false},
	{"nova-pci", as_nova_pci, true, false, false},
	{"json", as_json, false, false, false},
	{"prometheus-sd", as_prometheus, false, true, false},
	{"cdi", as_cdi, false, true, true},
};

/* Asks vgpud about all GPUs; about those whose VFs are not for VMs only with ALL. Refuses if one of
 * them is lost, or, unless EMPTY, if there is none. */
static int ask_gpus(struct report *r, bool all, bool empty)
{
	struct json_object *answer;
	int code = EXIT_OK;
	size_t i;

	r->gpus = json_object_new_array();
	if (count(r->s->gpus) == 0 && !empty) {
		fputs("vgpuctl: vgpud has no GPU, and no inventory: name one in its "
		      "configuration ('man vgpud.conf')\n",
		      stderr);
		return EXIT_FAILED;
	}
	for (i = 0; i < count(r->s->gpus) && code == EXIT_OK; i++) {
		code = session_call_gpu(r->s, i, "gpu.capacity", NULL, &answer);
		if (code != EXIT_OK)
			return code;
		if (!all && get_bool(answer, "for_programs")) {
			json_object_put(answer);
			continue;
		}
		r->first = count(r->gpus) == 0 ? i : r->first;
		json_object_array_add(r->gpus, answer);
		if (strcmp(get_text(answer, "state"), "running") != 0) {
			fprintf(stderr,
				"vgpuctl: %s is lost (vgpuctl gpu show): there is no inventory "
				"without it, because a scheduler would take its VMs for surplus\n",
				get_text(answer, "gpu"));
			code = EXIT_FAILED;
		}
	}
	if (code == EXIT_OK && count(r->gpus) == 0 && !empty) {
		fputs("vgpuctl: all of vgpud's GPUs are for programs (vgpuctl run): there is no "
		      "inventory for VMs\n",
		      stderr);
		code = EXIT_FAILED;
	}
	return code;
}

/* Compares FILE with TEXT, and prints where they differ. */
static int check(const char *file, const char *text)
{
	char *has = NULL;
	size_t size, line = 1, start = 0, i;
	int r = vgpu_file_read(file, LONGEST_FILE, &has, &size);

	if (r < 0) {
		fprintf(stderr, "vgpuctl: %s: %s\n", file, strerror(-r));
		return EXIT_FAILED;
	}
	for (i = 0; has[i] && has[i] == text[i]; i++)
		if (has[i] == '\n') {
			line++;
			start = i + 1;
		}
	if (has[i] == text[i])
		printf("%s: up to date\n", file);
	else
		printf("%s differs in line %zu:\n-%.*s\n+%.*s\n", file, line,
		       (int)strcspn(has + start, "\n"), has + start,
		       (int)strcspn(text + start, "\n"), text + start);
	r = has[i] == text[i] ? EXIT_OK : EXIT_FAILED;
	free(has);
	return r;
}

static int put_out(const struct options *o, const char *text, size_t size)
{
	int r = 0;

	if (o->check)
		return check(o->output, text);
	if (o->output)
		r = vgpu_file_replace(o->output, 0644, text, size);
	else
		fputs(text, stdout);
	if (r < 0)
		fprintf(stderr, "vgpuctl: %s: %s\n", o->output, strerror(-r));
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

int inventory(struct session *s)
{
	const struct options *o = s->options;
	const char *format = o->format ? o->format : o->json ? "json" : NULL;
	size_t i, n = sizeof(formats) / sizeof(formats[0]), size = 0;
	struct report r = {.s = s};
	char *text = NULL;
	bool stray;
	int code;

	for (i = 0; format && i < n && strcmp(formats[i].name, format) != 0; i++)
		;
	stray = o->provider && !(format && i < n && formats[i].provider);
	if (i == n || (o->check && !(o->output && format)) || (o->output && !format) || stray) {
		fprintf(stderr, "vgpuctl: inventory: want %s\n",
			i == n	? "--format nova, nova-pci, json, prometheus-sd or cdi"
			: stray ? "--format nova-pci beside --provider"
				: "--format beside --output, and both beside --check");
		return EXIT_USAGE;
	}
	code = session_open(s);
	if (code == EXIT_OK)
		code = ask_gpus(&r, format && formats[i].all, format && formats[i].empty);
	if (code == EXIT_OK && !format)
		code = as_text(&r);
	else if (code == EXIT_OK && (r.to = open_memstream(&text, &size))) {
		code = formats[i].print(&r);
		fclose(r.to);
		if (code == EXIT_OK)
			code = put_out(o, text, size);
	}
	free(text);
	json_object_put(r.gpus);
	return code;
}
