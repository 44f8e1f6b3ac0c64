/* SPDX-License-Identifier: MIT */
#include "commands.h"

#include <string.h>

#include "options.h"
#include "text.h"
#include "tenant.h"
#include "view.h"

#define ASKS (TAKES_HOST | TAKES_SOCKET) /* commands that ask vgpud, on this or another host */
#define SHOWS (ASKS | TAKES_GPU | TAKES_FORMAT | TAKES_WATCH | TAKES_TIMES)
#define LISTS (ASKS | TAKES_FORMAT | TAKES_WATCH | TAKES_TIMES)
#define ACTS (ASKS | TAKES_GPU | TAKES_FORMAT)

const struct command commands[] = {
	{"gpu", "list", "gpu.list", "", "list the GPUs", NO_GPU, LISTS | TAKES_CSV, view_gpu_list,
	 NULL, NULL},
	{"gpu", "show", "gpu.show", "", "show the state of a GPU", EACH_GPU, SHOWS, view_gpu_show,
	 NULL, NULL},
	{"vf", "list", "vf.list", "", "list the VFs: share promised and received", EACH_GPU,
	 SHOWS | TAKES_CSV, view_vf_list, NULL, NULL},
	{"vf", "show", "vf.show", "VF", "show all figures of a VF", ONE_GPU, SHOWS, view_vf_show,
	 NULL, NULL},
	{"vf", "set", "vf.set", "VF NAME=VALUE...", "change parameters of a VF without a VM",
	 ONE_GPU, ACTS | TAKES_SAVE, view_params, NULL, NULL},
	{"vf", "reset", "vf.reset", "VF", "reset a VF: its guest loses its work; ends a quarantine",
	 ONE_GPU, ACTS, NULL, NULL, NULL},
	{"memory", "show", "memory.show", "", "show which VF has which part of the memory",
	 EACH_GPU, SHOWS | TAKES_SVG, view_memory, memory_svg, NULL},
	{"memory", "plan", "memory.plan", "VF SIZE",
	 "show what a resize of a VF would move and clear", ONE_GPU, ACTS, view_memory_plan, NULL,
	 NULL},
	{"memory", "set", "memory.set", "VF SIZE", "resize a VF to SIZE: 512M, 2G or none", ONE_GPU,
	 ACTS | TAKES_FORCE, view_memory_plan, NULL, NULL},
	{"memory", "compact", "memory.compact", "",
	 "move partitions until the free memory is one block", ONE_GPU, ACTS, NULL, NULL, NULL},
	{"vm", "list", "vm.list", "", "list the VMs that have a VF", NO_GPU, LISTS | TAKES_CSV,
	 view_vm_list, NULL, NULL},
	{"vm", "show", "vm.list", "VM", "show all figures of a VM's VFs", NO_GPU, LISTS, NULL, NULL,
	 NULL},
	{"vm", "top", "vf.list", "", "show the VMs' shares live", EACH_GPU,
	 ACTS | TAKES_TIMES | TAKES_SORT, NULL, NULL, NULL},
	{"vm", "explain", "vm.explain", "VM", "show what a VM claims and has, or why it gets none",
	 NO_GPU, ASKS | TAKES_FORMAT, view_vm_explain, NULL, NULL},
	{"vm", "set", NULL, "VM NAME=VALUE...",
	 "change the claim in a VM's XML, and its VF if it runs", NO_GPU, TAKES_HOST, NULL, NULL,
	 NULL},
	{"policy", "list", "policy.list", "", "list the policies and their parameters", NO_GPU,
	 ASKS | TAKES_FORMAT, view_policy_list, NULL, NULL},
	{"policy", "show", "policy.show", "", "show the policy in force and its parameters",
	 EACH_GPU, SHOWS, view_policy_show, NULL, NULL},
	{"policy", "explain", "policy.explain", "[POLICY] [NAME=VALUE...]",
	 "show what a policy promises to each VF, or would promise", EACH_GPU, SHOWS,
	 view_policy_explain, NULL, NULL},
	{"policy", "set", "policy.set", "[POLICY] [NAME=VALUE...]",
	 "change the policy or its parameters", ONE_GPU, ACTS | TAKES_SAVE | TAKES_FORCE,
	 view_policy_set, NULL, NULL},
	{"config", "diff", "config.diff", "",
	 "show differences between vgpud and its configuration", NO_GPU, LISTS, view_config_diff,
	 NULL, NULL},
	{"config", "reload", "config.reload", "",
	 "check the configuration, and put into force what needs no restart", NO_GPU,
	 ASKS | TAKES_FORMAT | TAKES_FORCE, view_config_reload, NULL, NULL},
	{"top", NULL, "vf.list", "", "show the VFs' shares live", EACH_GPU,
	 ACTS | TAKES_TIMES | TAKES_SORT, NULL, NULL, NULL},
	{"dmon", NULL, "vf.list", "", "log each VF's figures, one line in each interval", EACH_GPU,
	 ACTS | TAKES_CSV | TAKES_TIMES, NULL, NULL, NULL},
	{"timeline", NULL, "timeline", "", "show which VF ran when", EACH_GPU,
	 SHOWS | TAKES_MS | TAKES_SVG | TAKES_HTML, view_timeline, timeline_svg, timeline_html},
	{"trace", NULL, "timeline", "", "print the timeline for Perfetto", EACH_GPU,
	 ASKS | TAKES_GPU | TAKES_MS, NULL, NULL, NULL},
	{"stats", NULL, "stats", "", "show latencies and counters", EACH_GPU, SHOWS, view_stats,
	 NULL, NULL},
	{"events", NULL, "events", "", "list hangs, resets and exclusive windows", EACH_GPU,
	 ACTS | TAKES_TIMES | TAKES_LIMIT | TAKES_SINCE | TAKES_FOLLOW, NULL, NULL, NULL},
	{"inventory", NULL, "gpu.capacity", "", "print this host's capacity for VMs", EACH_GPU,
	 ACTS | TAKES_CSV | TAKES_OUTPUT | TAKES_INVENTORY, NULL, NULL, NULL},
	{"doctor", NULL, NULL, "", "check whether this host is ready; changes nothing", NO_GPU,
	 ASKS | TAKES_FORMAT, NULL, NULL, NULL},
	{"validate", NULL, NULL, "FILE|VM", "check a domain's XML and print its claim", NO_GPU,
	 TAKES_HOST | TAKES_FORMAT, NULL, NULL, NULL},
	{"record", NULL, "record", "", "save the latest events for vgpu-sim replay", ONE_GPU,
	 ASKS | TAKES_GPU | TAKES_OUTPUT, NULL, NULL, NULL},
	{"verify", NULL, "gpu.show", "[GPU]",
	 "measure what VFs get, against the policy's bounds; writes a report", NO_GPU,
	 TAKES_SOCKET | TAKES_GPU | TAKES_FORMAT | TAKES_OUTPUT | TAKES_VERIFY, NULL, NULL, NULL},
	{"run", NULL, "tenant.start", "[NAME=VALUE...] -- PROGRAM...",
	 "run a program with a VF of a GPU, for as long as it lives", NO_GPU,
	 TAKES_SOCKET | TAKES_GPU | TAKES_CLAIM | TAKES_LIMIT, NULL, NULL, NULL},
	{"tenant", "list", "tenant.list", "",
	 "list programs and containers that have a VF; for root all, and VMs", NO_GPU,
	 TAKES_SOCKET | TAKES_FORMAT | TAKES_CSV, view_tenant_list, NULL, NULL},
	{"container", "explain", "tenant.explain", "ID|last",
	 "show why the start of a container or program was refused", NO_GPU,
	 TAKES_SOCKET | TAKES_FORMAT, view_tenant_explain, NULL, NULL},
	{"container", "attach", "tenant.start", "ID [NAME=VALUE...]",
	 "give a container that runs a VF, where it has a slot for it", NO_GPU,
	 TAKES_SOCKET | TAKES_GPU | TAKES_CLAIM | TAKES_LIMIT, NULL, NULL, NULL},
	{"container", "detach", "tenant.stop", "ID", "take its VF from a container that runs",
	 NO_GPU, TAKES_SOCKET, NULL, NULL, NULL},
	{"container", "set", "tenant.set", "ID NAME=VALUE...",
	 "change what a container or program claims of the policy; ID: or a lease", NO_GPU,
	 TAKES_SOCKET | TAKES_FORMAT, NULL, NULL, NULL},
	{"container", "name", "tenant.name", "",
	 "ask podman, docker or nerdctl what containers with a VF are called, and tell vgpud",
	 NO_GPU, TAKES_SOCKET | TAKES_FOLLOW, NULL, NULL, NULL},
	{"audit", NULL, "tenant.list", "",
	 "compare leases of programs and containers with the processes that live", NO_GPU,
	 TAKES_SOCKET | TAKES_FORMAT | TAKES_PODMAN, NULL, NULL, NULL},
	{"bridge", NULL, NULL, "", "connect stdin and stdout to vgpud, for --host", NO_GPU,
	 TAKES_SOCKET, NULL, NULL, NULL},
	{"complete", NULL, NULL, "[WORD...]", "print shell completions of the last word", NO_GPU,
	 TAKES_SOCKET, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL, NO_GPU, 0, NULL, NULL, NULL},
};

static void name_of(const struct command *c, char *out, size_t size)
{
	snprintf(out, size, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
}

static void row(FILE *to, const struct command *c)
{
	char text[80];

	snprintf(text, sizeof(text), "%s%s%s %s", c->noun, c->verb ? " " : "",
		 c->verb ? c->verb : "", c->words);
	fprintf(to, "  %-38s %s\n", text, c->help);
}

/* Returns whether a command begins with the words; words beyond the command's name are
 * arguments. */
static bool begins(const struct command *c, char *const *words, int n)
{
	return (n < 1 || strcmp(c->noun, words[0]) == 0) &&
	       (n < 2 || !c->verb || strcmp(c->verb, words[1]) == 0);
}

/* Reports an unknown command, and names one that the user may have meant. */
static void unknown(char *const *words, int n)
{
	char wanted[80], name[40], best[40] = "";
	const struct command *c;
	unsigned least = 4, d;

	snprintf(wanted, sizeof(wanted), "%.38s%s%.38s", words[0], n > 1 ? " " : "",
		 n > 1 ? words[1] : "");
	for (c = commands; c->noun; c++) {
		name_of(c, name, sizeof(name));
		d = text_distance(c->verb ? wanted : words[0], name);
		if (d < least && d < strlen(name)) {
			least = d;
			snprintf(best, sizeof(best), "%s", name);
		}
	}
	fprintf(stderr, "vgpuctl: %s: no such command", wanted);
	if (best[0])
		fprintf(stderr, "; did you mean '%s'?", best);
	fputs(best[0] ? " See vgpuctl --help\n" : "; see vgpuctl --help\n", stderr);
}

/* Prints the verbs of a noun. */
static void want_verb(const char *noun)
{
	const struct command *c;
	const char *before = "want ";

	fprintf(stderr, "vgpuctl: %s: ", noun);
	for (c = commands; c->noun; c++) {
		if (strcmp(c->noun, noun) != 0)
			continue;
		fprintf(stderr, "%s%s", before, c->verb);
		before = c[1].noun && c[2].noun && strcmp(c[1].noun, noun) == 0 &&
					 strcmp(c[2].noun, noun) != 0
				 ? " or "
				 : ", ";
	}
	fprintf(stderr, "; see vgpuctl %s --help\n", noun);
}

const struct command *command_find(char *const *words, int n, int *used)
{
	const struct command *c;
	bool noun = false;

	for (c = commands; c->noun; c++) {
		*used = c->verb ? 2 : 1;
		if (n >= *used && begins(c, words, n))
			return c;
		noun = noun || strcmp(c->noun, words[0]) == 0;
		/* "vm" alone means "vm list". */
		if (n == 1 && strcmp(words[0], "vm") == 0 && begins(c, words, n)) {
			*used = 1;
			return c;
		}
	}
	if (noun && n == 1)
		want_verb(words[0]);
	else
		unknown(words, n);
	return NULL;
}

bool command_help(FILE *to, char *const *words, int n)
{
	const struct command *c, *only = NULL;
	unsigned takes = 0, found = 0;

	for (c = commands; c->noun; c++)
		if (begins(c, words, n)) {
			only = c;
			takes |= c->takes;
			found++;
		}
	if (found == 0) {
		unknown(words, n);
		return false;
	}
	if (found > 1) {
		fprintf(to, "usage: vgpuctl [options] %s\n\n", n ? words[0] : "COMMAND");
		for (c = commands; c->noun; c++)
			if (begins(c, words, n))
				row(to, c);
	} else {
		fprintf(to, "usage: vgpuctl %s%s%s%s%s [options]\n\n  %s\n", only->noun,
			only->verb ? " " : "", only->verb ? only->verb : "",
			only->words[0] ? " " : "", only->words, only->help);
	}
	fputs("\nOptions:\n", to);
	options_help(to, takes);
	if (n == 0)
		fputs("\nA VF is a number, a PCI address or the path of a vfio-user socket.\n"
		      "vgpuctl COMMAND --help shows what one command takes.\n"
		      "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 vgpud not "
		      "reached,\n"
		      "4 permission denied, 5 no such GPU or VM.\n",
		      to);
	return true;
}
