/* SPDX-License-Identifier: MIT */
/* vgpu-sim: the scheduler core and its policies in virtual time. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "admission.h"
#include "apart.h"
#include "audit.h"
#include "builtin.h"
#include "compare.h"
#include "fleet.h"
#include "generate.h"
#include "govern_report.h"
#include "peer.h"
#include "plugin.h"
#include "prove.h"
#include "replay.h"
#include "report.h"
#include "vgpu/options.h"
#include "vgpu/output.h"

#define LOG_MAX 1000000u
#define LATENCIES_MAX 200000u
#define LINES_MAX 64u

struct options {
	const char *policy, *svg, *save, *admission, *cover, *plugin, *mix;
	const struct vgpu_policy_ops *loaded; /* from the plug-in */
	const char *with[LINES_MAX];
	unsigned n_with;
	bool json, log, check, monitor, vary, reclaim;
	uint64_t decisions, seed, sets, seeds, cap_pct;
	vgpu_nsec until, switch_ns, min_slice, late, from;
	uint32_t vf, background;
	char **args;
	int n_args;
};

static int usage_error(const char *what)
{
	fprintf(stderr, "vgpu-sim: %s; see vgpu-sim --help\n", what);
	return 2;
}

/* Shows a progress bar if stderr is a terminal. */
static void progress(double done)
{
	static int last = -1;
	int now = (int)(done * 40), i;

	if (!isatty(STDERR_FILENO) || now == last)
		return;
	last = now;
	fputs("\r[", stderr);
	for (i = 0; i < 40; i++)
		fputc(i < now ? '=' : ' ', stderr);
	fprintf(stderr, "] %3.0f %%%s", 100 * (done < 1 ? done : 1), done >= 1 ? "\n" : "");
}

/* Prints which VFs the policy refused, and why. */
static void print_refused(const struct running *r)
{
	struct vgpu_core_view core;
	uint32_t i;

	vgpu_core_view(r->host.core, &core);
	for (i = 0; i < r->host.n_vfs; i++) {
		if (!r->host.vfs[i].refused)
			continue;
		fprintf(stderr, "vgpu-sim: VF %u: %s refuses it: %s\n", r->vfs[i],
			core.policy->name, r->host.vfs[i].refused);
	}
}

static int run_gpu(const struct scenario *s, uint32_t gpu, const struct vgpu_policy_ops *policy,
		   const struct options *o, struct report *report, struct vgpu_error *err)
{
	struct vhost_dispatch *log = NULL;
	struct running r;
	vgpu_nsec t;
	uint32_t i;
	int e = running_start(&r, s, gpu, policy, o->check, VHOST_MEMORY_NONE, peer_or_policy, err);

	if (e < 0)
		return e;
	if (o->check || o->monitor)
		r.host.monitor = monitor_new(&r.host, prove_judges(s));
	r.host.quiet = r.host.goes_on = o->monitor;
	for (i = 0; i < r.host.n_vfs; i++)
		if (r.host.vfs[i].work != VHOST_ALWAYS && s->n_vfs <= 1000)
			vhost_keep_latencies(&r.host, i, LATENCIES_MAX);
	if (o->log || o->svg) {
		log = calloc(LOG_MAX, sizeof(*log));
		r.host.log = log;
		r.host.log_max = LOG_MAX;
	}
	for (t = 0; t < s->until && r.host.violations == 0;) {
		t = t + s->until / 40 + 1 < s->until ? t + s->until / 40 + 1 : s->until;
		running_run(&r, t);
		progress(((double)gpu + (double)t / (double)s->until) / s->n_gpus);
	}
	report_add(report, &r);
	if (!o->monitor)
		print_refused(&r);
	if (o->log)
		report_log(&r.host, stdout);
	if (o->svg && gpu == 0)
		e = report_svg(&r.host, o->svg, s->work_from,
			       s->until - s->work_from > 200 * VGPU_MSEC
				       ? s->work_from + 200 * VGPU_MSEC
				       : s->until,
			       err);
	monitor_free(r.host.monitor);
	running_finish(&r);
	free(log);
	return e;
}

static int run_scenario(struct scenario *s, const struct vgpu_policy_ops *policy,
			const struct options *o, struct report *report)
{
	struct vgpu_error err;
	uint32_t gpu;
	int e = scenario_place(s, &err);

	*report = (struct report){.decisions = 0};
	if (o->until)
		s->until = o->until;
	for (gpu = 0; gpu < s->n_gpus && e == 0; gpu++)
		e = run_gpu(s, gpu, policy, o, report, &err);
	if (e < 0)
		fprintf(stderr, "vgpu-sim: %s\n", err.text);
	return e;
}

static int read_one(struct scenario *s, const struct options *o)
{
	struct vgpu_error err;

	if (o->n_args != 1)
		return -usage_error("give one scenario file, or - for standard input");
	if (scenario_read(s, o->args[0], &err) < 0) {
		fprintf(stderr, "vgpu-sim: %s\n", err.text);
		return -EINVAL;
	}
	return 0;
}

static const struct vgpu_policy_ops *policy_option(const struct options *o, bool *ok)
{
	const struct vgpu_policy_ops *policy = o->policy ? peer_or_policy(o->policy) : NULL;

	*ok = policy || !o->policy;
	if (!*ok)
		fprintf(stderr, "vgpu-sim: %s: no such policy; see vgpu-sim policies\n", o->policy);
	return policy;
}

static int cmd_run(const struct options *o)
{
	const struct vgpu_policy_ops *policy;
	struct report report;
	struct scenario s;
	bool ok;
	int r;

	policy = policy_option(o, &ok);
	if (!ok || read_one(&s, o) < 0)
		return 2;
	r = run_scenario(&s, policy, o, &report);
	if (r == 0 && o->json)
		report_json(&report, stdout);
	else if (r == 0 && !o->log)
		report_table(&report, stdout);
	r = r < 0 || report.refused ? 2 : report.violations ? 1 : 0;
	report_free(&report);
	scenario_free(&s);
	return r;
}

/* Makes the scenario of a mix from SEED. */
static int read_mix(struct scenario *s, const struct mix *mix, vgpu_nsec until, uint64_t seed)
{
	struct vgpu_error err;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int e;

	mix_write(mix, f, until ? until : 10 * VGPU_SEC, seed);
	fclose(f);
	f = fmemopen(text, size, "r");
	e = scenario_read_from(s, f, mix->name, &err);
	fclose(f);
	free(text);
	if (e < 0)
		fprintf(stderr, "vgpu-sim: %s\n", err.text);
	return e;
}

/* Adds a line for the plug-in, if one is loaded, to the N lines that there are. Returns how many
 * there are then. */
static unsigned add_plugin(const struct options *o, struct compare_line *lines, unsigned n)
{
	struct vgpu_error err;

	if (o->loaded && n < LINES_MAX)
		compare_parse(&lines[n++], o->loaded->name, &err);
	return n;
}

/* Writes the requested lines, or all. Returns how many; 0 if one of them is invalid, with the
 * reason on stderr. */
static unsigned lines_of(const struct options *o, struct compare_line *lines)
{
	struct vgpu_error err;
	unsigned i;

	if (o->n_with == 0)
		return add_plugin(o, lines, compare_all(lines, LINES_MAX));
	for (i = 0; i < o->n_with; i++) {
		if (compare_parse(&lines[i], o->with[i], &err) < 0) {
			fprintf(stderr, "vgpu-sim: --with '%s': %s\n", o->with[i], err.text);
			return 0;
		}
	}
	return o->n_with;
}

/* Runs each of N LINES on S. Returns 0 or -errno. */
static int compare_lines(struct compare_line *lines, unsigned n, struct scenario *s)
{
	struct vgpu_error err;
	unsigned i;
	int e = 0;

	for (i = 0; i < n && e == 0; i++)
		e = compare_run(&lines[i], s, &err);
	if (e < 0)
		fprintf(stderr, "vgpu-sim: %s: %s\n", lines[i - 1].label, err.text);
	return e;
}

/* Compares policies on a mix, or another workload with roles, over some seeds. FROM: the workload;
 * NULL: the mix of the options. */
static int compare_roles(const struct options *o, struct scenario *from)
{
	struct compare_line *lines = calloc(LINES_MAX, sizeof(*lines));
	const struct mix *mix = from ? NULL : mix_find(o->mix);
	unsigned n = lines_of(o, lines);
	struct scenario s;
	uint64_t i;
	int e = n ? 0 : -EINVAL;

	for (i = 0; i < o->seeds && e == 0; i++) {
		if (from) {
			from->seed = from->seed + (i > 0);
			e = compare_lines(lines, n, from);
		} else {
			e = read_mix(&s, mix, o->until, o->seed + i);
			if (e < 0)
				break;
			e = compare_lines(lines, n, &s);
			scenario_free(&s);
		}
		progress((double)(i + 1) / (double)o->seeds);
	}
	if (e == 0 && o->json)
		compare_json(lines, n, stdout);
	else if (e == 0)
		compare_table(lines, n, stdout);
	free(lines);
	return e < 0 ? 2 : 0;
}

/* Compares policies on a GPU whose firmware schedules. The scenario's own policy has the parameters
 * that the scenario gives it. */
static int compare_governed(const struct options *o, const struct scenario *s)
{
	struct compare_line *lines = calloc(LINES_MAX, sizeof(*lines));
	unsigned n = o->n_with ? lines_of(o, lines)
			       : add_plugin(o, lines, compare_builtin(lines, LINES_MAX)),
		 i;
	int r;

	for (i = 0; i < n && !o->n_with; i++)
		if (strcmp(lines[i].policy->name, s->policy) == 0)
			lines[i].params = s->params;
	r = n ? govern_compare_policies(s, lines, n, o->json, stdout) : 2;
	free(lines);
	return r;
}

static int cmd_compare(const struct options *o)
{
	const struct vgpu_policy_ops *all[64];
	struct options monitored = *o;
	struct report report;
	struct scenario s;
	unsigned n = 0, i;
	int r = 0;

	for (i = 0; vgpu_builtin_policies[i]; i++)
		all[n++] = vgpu_builtin_policies[i];
	for (i = 0; peers[i]; i++)
		all[n++] = peers[i];
	if (o->loaded)
		all[n++] = o->loaded;
	if (o->mix && o->n_args)
		return usage_error("compare: give either a mix or a file");
	if (o->mix)
		return mix_find(o->mix) ? compare_roles(o, NULL)
					: usage_error("no such mix; see vgpu-sim policies");
	if (read_one(&s, o) < 0)
		return 2;
	s.until = o->until ? o->until : s.until;
	if (s.governed.on || (s.n_gpus == 1 && (o->n_with || compare_has_roles(&s)))) {
		r = s.governed.on ? compare_governed(o, &s) : compare_roles(o, &s);
		scenario_free(&s);
		return r;
	}
	monitored.monitor = s.n_vfs <= 64;
	if (o->json)
		puts("[");
	else
		report_compare_head(stdout);
	for (i = 0; i < n && r == 0; i++) {
		r = run_scenario(&s, all[i], &monitored, &report);
		if (r == 0 && o->json) {
			report_json(&report, stdout);
			puts(i + 1 < n ? "," : "]");
		} else if (r == 0) {
			report_compare_line(&report, stdout);
		}
		fflush(stdout);
		report_free(&report);
	}
	scenario_free(&s);
	return r < 0 ? 2 : 0;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_ratios(const struct monitor_result *m)
{
	printf("lag/bound %.3f, pairs %.3f, wait %.3f, limit %.3f, strategy %.3f; %" PRIu64
	       " of %" PRIu64 " budgets missed",
	       m->lag, m->pairs, m->wait, m->limit, m->strategy, m->missed, m->deadlines);
	if (m->missed)
		printf(", by up to %.6f ms", (double)m->worst_miss / 1e6);
}

static int prove_one(const struct vgpu_policy_ops *policy, const struct options *o)
{
	double began = now_s();
	const char *path = o->save ? o->save : "failing.scn";
	struct proof p;
	FILE *f;

	prove(policy, o->decisions, o->seed, progress, &p);
	if (!p.failed) {
		printf("%-12s %" PRIu64 " decisions in %" PRIu64 " scenarios, no violation; ",
		       policy->name, p.decisions, p.scenarios);
		print_ratios(&p.result);
		printf("; %.0f decisions/s\n", (double)p.decisions / (now_s() - began));
		return 0;
	}
	f = fopen(path, "w");
	if (f) {
		fprintf(f, "# %s\n", p.violation);
		scenario_write(&p.smallest, f);
		fclose(f);
	}
	printf("%s: broken in scenario %" PRIu64 " of seed %" PRIu64 ": %s\n", policy->name,
	       p.scenarios, o->seed, p.violation);
	printf("the smallest scenario that shows it is in %s; repeat with: vgpu-sim check "
	       "%s%s%s%s\n",
	       path, o->plugin ? "--plugin " : "", o->plugin ? o->plugin : "", o->plugin ? " " : "",
	       path);
	scenario_free(&p.smallest);
	return 1;
}

static int cmd_prove(const struct options *o)
{
	const struct vgpu_policy_ops *policy;
	bool ok;
	int r = 0;
	unsigned i;

	policy = policy_option(o, &ok);
	if (!ok || o->n_args)
		return usage_error("prove [--policy P] [--decisions N] [--seed S]");
	if (policy)
		return prove_one(policy, o);
	for (i = 0; vgpu_builtin_policies[i] && r == 0; i++)
		r = prove_one(vgpu_builtin_policies[i], o);
	return r;
}

/* Runs one scenario under all invariants, as prove does. */
static int cmd_check(const struct options *o)
{
	const struct vgpu_policy_ops *policy;
	struct proof p = {.decisions = 0};
	struct scenario s;
	bool ok;

	if (read_one(&s, o) < 0)
		return 2;
	policy = peer_or_policy(s.policy);
	if (!policy) {
		fprintf(stderr, "vgpu-sim: %s: no such policy\n", s.policy);
		scenario_free(&s);
		return 2;
	}
	ok = prove_scenario(&s, policy, 0, &p);
	printf("%" PRIu64 " decisions, ", p.decisions);
	if (ok)
		printf("no violation; ");
	else
		printf("broken: %s; ", p.violation);
	print_ratios(&p.result);
	putchar('\n');
	scenario_free(&s);
	return ok ? 0 : 1;
}

/* The policies that are governed. */
static const char *const governed[] = {"fair", "equal", "wdrr", "strict", "prio", "qos", NULL};

static int cmd_govern(const struct options *o)
{
	const char *path = o->save ? o->save : "failing.scn";
	struct scenario s;
	int r = 0, i;

	if (o->n_args) {
		if (read_one(&s, o) < 0)
			return 2;
		s.until = o->until ? o->until : s.until;
		r = govern_compare(&s, o->json, stdout);
		scenario_free(&s);
		return r;
	}
	if (o->policy)
		return govern_prove(o->policy, o->decisions, o->seed, path, stdout);
	for (i = 0; governed[i] && r == 0; i++)
		r = govern_prove(governed[i], o->decisions, o->seed, path, stdout);
	return r;
}

static void print_study(const struct admission_options *o, const struct admission_study *a)
{
	printf("%s: %" PRIu64 " sets, %" PRIu64 " admitted, %" PRIu64 " scaled to the boundary of "
	       "admission; %" PRIu64 " of %" PRIu64
	       " runs with a miss (%.1f %%, by up to %.3f ms), "
	       "%" PRIu64 " deadlines",
	       o->policy->name, a->sets, a->admitted, a->scaled, a->missed, a->runs,
	       a->runs ? 100.0 * (double)a->missed / (double)a->runs : 0,
	       (double)a->worst_miss / 1e6, a->deadlines);
	if (!o->mode && !o->cover)
		printf("; %" PRIu64 " refused would have been kept: %.1f %% accepted of those that "
		       "can be",
		       a->kept_but_refused,
		       100.0 * (double)a->admitted /
			       (double)(a->admitted + a->kept_but_refused +
					(a->admitted + a->kept_but_refused == 0)));
	if (a->compared)
		printf("; the boundary is at %.1f %% of the largest scale that can be kept",
		       100 * a->reached / (double)a->compared);
	putchar('\n');
}

static int cmd_admission(const struct options *o)
{
	struct admission_options options = {.sets = o->sets,
					    .seed = o->seed,
					    .switch_ns = o->switch_ns,
					    .min_slice = o->min_slice,
					    .late = o->late,
					    .background = o->background,
					    .cap_pct = (int64_t)o->cap_pct,
					    .vary = o->vary,
					    .reclaim = o->reclaim,
					    .cover = o->cover,
					    .mode = o->admission,
					    .compares = true,
					    .save = o->save};
	struct admission_study a;
	bool ok;

	options.policy = policy_option(o, &ok);
	if (!options.policy || (strcmp(options.policy->name, "qos") != 0 &&
				strcmp(options.policy->name, "deadline") != 0))
		return usage_error("admission --policy deadline|qos [--sets N] [--switch US] "
				   "[--vary] [--min-slice US] [--late US] [--cap PCT] "
				   "[--reclaim] [--background N] [--cover grace|windows] "
				   "[--admission MODE] [--save FILE]");
	if (o->reclaim && strcmp(options.policy->name, "deadline") != 0)
		return usage_error("--reclaim is for deadline");
	if (o->cover && (strcmp(options.policy->name, "deadline") != 0 || o->save ||
			 (strcmp(o->cover, "grace") != 0 && strcmp(o->cover, "windows") != 0)))
		return usage_error("--cover grace|windows is for deadline, without --save");
	if (admission_study(&options, progress, &a) < 0) {
		fprintf(stderr, "vgpu-sim: %s: cannot be written\n", o->save);
		return 2;
	}
	print_study(&options, &a);
	return a.missed && !o->admission ? 1 : 0;
}

static int cmd_generate(const struct options *o)
{
	uint32_t vf = o->vf;
	vgpu_nsec length = o->until ? o->until : 10 * VGPU_SEC;
	int i, k;

	if (o->mix && (o->n_args || !mix_find(o->mix)))
		return usage_error("generate --mix MIX: vgpu-sim policies lists the mixes");
	if (o->mix) {
		mix_write(mix_find(o->mix), stdout, length, o->seed);
		return 0;
	}
	if (o->n_args == 0)
		return usage_error("generate KIND...: one VF of each kind; vgpu-sim policies "
				   "lists the kinds");
	if (vf == 0)
		generate_head(stdout, (uint32_t)o->n_args, length, o->seed);
	for (i = 0; i < o->n_args; i++, vf++) {
		for (k = 0; generators[k].name && strcmp(generators[k].name, o->args[i]) != 0; k++)
			;
		if (!generators[k].name)
			return usage_error(o->args[i]);
		generators[k].write(stdout, vf, length, o->seed);
	}
	return 0;
}

static int cmd_convert(const struct options *o)
{
	struct vgpu_error err;
	FILE *from;
	int k, r;

	if (o->n_args != 2)
		return usage_error("convert FORMAT FILE");
	for (k = 0; converters[k].name && strcmp(converters[k].name, o->args[0]) != 0; k++)
		;
	if (!converters[k].name)
		return usage_error("no such format");
	from = fopen(o->args[1], "r");
	if (!from) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", o->args[1], strerror(errno));
		return 2;
	}
	r = converters[k].convert(from, stdout, o->vf, &err);
	fclose(from);
	if (r < 0)
		fprintf(stderr, "vgpu-sim: %s: %s\n", o->args[1], err.text);
	return r < 0 ? 2 : 0;
}

static int replay(void *options)
{
	const struct options *o = options;

	return replay_file(o->args[0], o->log);
}

static int cmd_replay(const struct options *o)
{
	if (o->n_args != 1)
		return usage_error("replay FILE");
	return run_apart(replay, (void *)o);
}

static int audit(void *options)
{
	const struct options *o = options;

	return audit_files(o->args, o->n_args, o->late, o->from, o->json, stdout);
}

static int cmd_audit(const struct options *o)
{
	if (o->n_args == 0)
		return usage_error("audit FILE...: recordings, the oldest first");
	return run_apart(audit, (void *)o);
}

static int cmd_fleet(const struct options *o)
{
	struct fleet_options options;
	struct fleet_result result;
	struct vgpu_error err;
	int r = fleet_read(&options, o->args, o->n_args, &err);

	if (r == 0)
		r = fleet_run(&options, &result, &err);
	if (r < 0) {
		fprintf(stderr, "vgpu-sim: fleet: %s\n", err.text);
		return 2;
	}
	fleet_report(&options, &result, o->json, stdout);
	return 0;
}

static int cmd_policies(const struct options *)
{
	unsigned i;

	puts("policies:");
	for (i = 0; vgpu_builtin_policies[i]; i++)
		printf("  %-22s %s\n", vgpu_builtin_policies[i]->name,
		       vgpu_builtin_policies[i]->help);
	puts("models of other schedulers:");
	for (i = 0; peers[i]; i++)
		printf("  %-22s %s\n", peers[i]->name, peers[i]->help);
	puts("kinds of tenants to generate:");
	for (i = 0; generators[i].name; i++)
		printf("  %-22s %s\n", generators[i].name, generators[i].help);
	puts("mixes of tenants:");
	for (i = 0; mixes[i].name; i++)
		printf("  %-22s %s\n", mixes[i].name, mixes[i].help);
	puts("mixes of servers for fleets:");
	for (i = 0; fleet_mixes[i].name; i++)
		printf("  %-22s %s\n", fleet_mixes[i].name, fleet_mixes[i].help);
	puts("formats to convert:");
	for (i = 0; converters[i].name; i++)
		printf("  %-22s %s\n", converters[i].name, converters[i].help);
	return 0;
}

static const struct command {
	const char *name, *args, *help;
	int (*run)(const struct options *o);
} commands[] = {
	{"run", "FILE", "run a scenario; --policy, --json, --log, --svg OUT, --check, --until",
	 cmd_run},
	{"compare", "FILE",
	 "run a scenario under all policies and models of other schedulers, or a governed GPU "
	 "under "
	 "all policies, each beside static quanta; --json, --until, --with 'POLICY NAME=VALUE...'",
	 cmd_compare},
	{"compare", "--mix MIX",
	 "run a named mix; --seeds N, --until, --with 'POLICY [ROLE.]NAME=VALUE...'", cmd_compare},
	{"prove", "", "try to break policies: --policy P --decisions N --seed S [--save FILE]",
	 cmd_prove},
	{"check", "FILE", "run a scenario under all invariants", cmd_check},
	{"govern", "FILE",
	 "run a governed GPU with epochs of several lengths, beside static quanta; --json, --until",
	 cmd_govern},
	{"govern", "",
	 "try to break governed shares: --policy P --decisions N (epochs) --seed S [--save FILE]",
	 cmd_govern},
	{"admission", "",
	 "test random budgets: --policy P --sets N --seed S --switch US --min-slice US --vary "
	 "--late US --cap PCT --reclaim --background N --cover C --admission MODE [--save FILE]",
	 cmd_admission},
	{"fleet", "NAME=VALUE...",
	 "place servers on many hosts: hosts, gpus, vfs, memory_mib, granule_mib, switch_us, "
	 "providers=hosts|gpus, choice=booked|host, placement=best-fit|profile, "
	 "weigher=spread|pack, mix, servers, load_pct, seed; --json",
	 cmd_fleet},
	{"generate", "KIND...",
	 "write a workload of one VF for each kind, or --mix MIX; --seed, --until, --vf N",
	 cmd_generate},
	{"convert", "FORMAT FILE", "write a public trace as a workload; --vf N", cmd_convert},
	{"replay", "FILE",
	 "replay what vgpuctl record saved; --log: print its version and configuration",
	 cmd_replay},
	{"audit", "FILE...",
	 "compare what vgpuctl record saved with the policy's bounds; --json, --late US, --from S",
	 cmd_audit},
	{"policies", "", "list policies, models, kinds, mixes and formats", cmd_policies},
	{NULL, NULL, NULL, NULL},
};

static void usage(FILE *to)
{
	const struct command *c;
	char text[64];

	fputs("usage: vgpu-sim COMMAND [options]\nRuns vgpud's scheduler core in virtual "
	      "time.\n\n",
	      to);
	for (c = commands; c->name; c++) {
		snprintf(text, sizeof(text), "%s %s", c->name, c->args);
		fprintf(to, "  %-22s %s\n", text, c->help);
	}
	fputs("\n--plugin FILE loads a policy, and uses it unless --policy names another.\n"
	      "Scenarios are text; docs/simulator.md describes them. Exit status: 0: all promises "
	      "were kept;\n1: a promise was broken; 2: wrong usage, or a failure.\n",
	      to);
}

static int take_plugin(void *options, char *file, struct vgpu_error *err)
{
	struct options *o = options;

	o->loaded = plugin_load(file, err);
	if (!o->loaded)
		return -EINVAL;
	o->policy = o->loaded->name;
	o->plugin = file;
	return 0;
}

static int take_line(void *options, char *line, struct vgpu_error *err)
{
	struct options *o = options;

	if (o->n_with == LINES_MAX)
		return vgpu_error_set(err, -EINVAL, "--with: there are more than %u", LINES_MAX);
	o->with[o->n_with++] = line;
	return 0;
}

#define ROW(name, kind, member, ...)                                                               \
	VGPU_OPTION(name, NULL, NULL, kind, offsetof(struct options, member), __VA_ARGS__)
/* The help of each command names its options. */
static const struct vgpu_option rows[] = {
	ROW("policy", TEXT, policy),
	ROW("svg", TEXT, svg),
	ROW("save", TEXT, save),
	ROW("json", FLAG, json),
	ROW("log", FLAG, log),
	ROW("check", FLAG, check),
	ROW("decisions", TIMES, decisions, .scale = 1),
	ROW("seed", TIMES, seed, .scale = 1),
	ROW("sets", TIMES, sets, .scale = 1),
	ROW("until", TIMES, until, .scale = 1e9),
	ROW("switch", TIMES, switch_ns, .scale = 1e3),
	ROW("min-slice", TIMES, min_slice, .scale = 1e3),
	ROW("late", TIMES, late, .scale = 1e3),
	ROW("from", TIMES, from, .scale = 1e9),
	ROW("vf", WHOLE32, vf, .max = 99999),
	ROW("admission", TEXT, admission),
	ROW("plugin", TAKE, plugin, .take = take_plugin),
	ROW("mix", TEXT, mix),
	ROW("seeds", TIMES, seeds, .scale = 1, .min = 1),
	ROW("with", TAKE, with, .take = take_line),
	ROW("vary", FLAG, vary),
	ROW("reclaim", FLAG, reclaim),
	ROW("cap", WHOLE, cap_pct, .min = 1, .max = 100),
	ROW("background", WHOLE32, background, .max = 64),
	ROW("cover", TEXT, cover),
	{.name = NULL},
};

int main(int argc, char **argv)
{
	struct options o = {.decisions = 1000000,
			    .seed = 1,
			    .sets = 1000,
			    .seeds = 1,
			    .switch_ns = 300 * VGPU_USEC,
			    .min_slice = 500 * VGPU_USEC,
			    .late = 200 * VGPU_USEC,
			    .cap_pct = 100};
	const struct command *c;
	int r;

	vgpu_output_check("vgpu-sim");
	r = vgpu_options_read("vgpu-sim", rows, usage, argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	if (optind == argc)
		return usage_error("no command is given");
	for (c = commands; c->name; c++)
		if (strcmp(c->name, argv[optind]) == 0)
			break;
	if (!c->name)
		return usage_error(argv[optind]);
	o.args = argv + optind + 1;
	o.n_args = argc - optind - 1;
	return c->run(&o);
}
