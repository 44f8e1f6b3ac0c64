/* SPDX-License-Identifier: MIT */
/*
 * vgpud. Each file includes and calls only what stands below it here (tests/lint checks it), so the
 * wings do, too. A file that must reach upwards is given a function, as a call is given its method.
 *
 *   main.c                      starts and ends vgpud
 *   uevents.c                   reads what the kernel reports about PCI functions
 *   control.c                   the sockets, their clients, and the loop of the control thread
 *   events.c                    handles what the engines report
 *   metrics/metrics.c           offers metrics
 *   metrics/metrics_text.c      writes them
 *   metrics/http.c              serves them over HTTP
 *   metrics/metrics_format.c    chooses between their formats
 *   methods/methods.c           the table of methods
 *   methods/capacity.c          what a GPU has to offer to VMs
 *   methods/history.c           the methods that show what has happened
 *   methods/policy_methods.c    the methods policy.*, and vf.set
 *   methods/policy_explain.c    what a policy promises, or would promise
 *   methods/config_methods.c    the methods config.*
 *   methods/tenant_methods.c    the methods tenant.*
 *   methods/promised.c          what a policy promises to a VF, as answers have it
 *   methods/saved.c             the drop-in for saved changes
 *   methods/check_running.c     checks a configuration that would be read while vgpud runs
 *   tenants/limits.c            what root allows a user's programs and containers
 *   tenants/asked.c             what they ask for
 *   tenants/tenant.c            their leases
 *   tenants/passage.c           the socket of a lease
 *   tenants/explained.c         why they got none
 *   vms/hook.c                  the method of libvirt's hook
 *   vms/outgoing.c              what VMs would take to another host
 *   vms/incoming.c              VMs that come with the state of their VFs
 *   vms/vm_check.c              checks changed claims before they are written
 *   vms/reconcile.c             compares leases with the VMs that run
 *   vms/reserve.c               finds VFs for a VM
 *   vms/booking.c               asks which GPU is booked for a VM
 *   vms/booked.c                on which GPU each VF of a claim is booked
 *   vms/fit.c                   which VFs can take over the state that comes with a VM
 *   vms/libvirts.c              which libvirts report
 *   vms/memory_methods.c        the methods memory.*
 *   vms/vm.c                    VMs and their VFs
 *   vms/seat.c                  who has a VF of a gated GPU
 *   vms/live.c                  changes that are in force until a restart
 *   vms/policy_change.c         prepares changes of policy and parameters
 *   vms/clearing.c              VFs that must be reset before another VM gets them
 *   vms/lease.c                 which VF belongs to which VM
 *   vms/hold.c                  VFs of VMs that have not resumed yet
 *   vms/claimed.c               what VMs claim of their policies, and what of it is not in force
 *   vms/vm_door.c               where vgpud-qemu finds the door of a gated GPU
 *   control/change.c            changes of policy and parameters, in their order
 *   control/args.c              reads the arguments of a call
 *   control/call.c              a request, from its beginning to its answer
 *   control/client.c            a client of the control socket or the hook's
 *   control/caller.c            who has connected
 *   control/heard.c             rare records, and who had their VFs
 *   control/offers.c            says that what containers may ask for has changed
 *   control/door.c              accepts connections
 *   control/listen.c            sockets to listen on
 *   control/service.c           talks to the service manager
 *   control/state.h             what the control thread knows
 *   control/refusal.c           why a VM is refused a VF, and how often
 *   control/put.h               members of JSON objects
 *   control/share.c             the readers' share of the control thread
 *   control/log.c               the log
 *   config/running.c            asks another vgpud, which runs
 *   config/names.c              finds users and groups
 *   config/config_check.c       checks what the configuration's files do not tell
 *   config/trial.c              asks whether a policy takes parameters
 *   config/config_show.c        writes the configuration
 *   config/config.c             reads the configuration
 *   config/config_keys.c        the table of its keys
 *   config/config.h             the configuration
 *   config/metrics_address.c    reads the address of the metrics
 *   engine/engine.c             the thread of an engine
 *   engine/engine_switched.c    the time of a GPU by the core
 *   engine/engine_governed.c    the time of a GPU by the governor
 *   engine/engine_declared.c    the time of a GPU by its vendor's scheduler
 *   engine/engine_unswitched.c  what the last two have in common
 *   engine/engine_serve.c       answers the control thread's requests
 *   engine/engine_step.c        steps the core and carries out its actions
 *   engine/engine_spent.c       what VFs take of the host's CPUs
 *   engine/engine_tell.c        what an engine tells beside its core's records
 *   engine/engine_private.h     an engine
 *   engine/gpu_memory.c         steps the memory reducer and carries out its actions
 *   engine/engine_request.h     what crosses between the control thread and an engine
 *   engine/histogram.h          counts times by their length
 *   engine/latest.h             a value that one thread publishes to another
 *   engine/spsc.h               a queue between two threads
 *   engine/trail.h              the last records of one thread, for all threads
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "control/call.h"
#include "config/config.h"
#include "config/config_check.h"
#include "methods/config_methods.h"
#include "control.h"
#include "engine/engine.h"
#include "events.h"
#include "vms/lease.h"
#include "control/listen.h"
#include "vms/live.h"
#include "control/log.h"
#include "control/offers.h"
#include "metrics/metrics.h"
#include "config/names.h"
#include "config/running.h"
#include "control/service.h"
#include "uevents.h"
#include "vfio/pci.h"
#include "vgpu/note.h"
#include "vgpu/options.h"
#include "vgpu/output.h"
#include "vgpu/untrusted.h"

static void on_signal(evutil_socket_t, short, void *base)
{
	event_base_loopbreak(base);
}

static void lock_memory(void)
{
	/* MCL_ONFAULT locks pages when they are first touched, so that unused ones take no
	 * memory. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
		log_line(LOG_NOTICE,
			 "cannot lock memory: %s; slices may end late when memory is short; raise "
			 "LimitMEMLOCK",
			 strerror(errno));
}

/* Descriptors for all connections that may be open at a time, and for the GPUs. */
#define DESCRIPTORS 1024u

static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < DESCRIPTORS)
		log_line(LOG_WARNING,
			 "vgpud may open only %llu descriptors, so other users' connections can "
			 "use up those that root needs: set LimitNOFILE=%u (systemctl edit vgpud)",
			 (unsigned long long)limit.rlim_cur, DESCRIPTORS);
}

static void on_found(struct call *call)
{
	if (call->request.result == 0 && call->snapshot.found.adopted)
		log_about(about_gpu(call->gpu, LOG_GPU_ADOPTED), LOG_NOTICE,
			  "adopted as it was found, with %" PRIu32 " VFs; their work continues",
			  call->snapshot.n_vfs);
	call_drop(call);
}

/* Asks the engine whether its GPU was already set up, and logs it. */
static void look_for_adoption(struct gpu *gpu)
{
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	call->then = on_found;
	call->request =
		(struct engine_request){.ask = ENGINE_SNAPSHOT, .snapshot = &call->snapshot};
	call_queue(call);
}

/* Starts the engines of all GPUs, also of those that cannot be opened, which it counts in *N_LOST:
 * one missing GPU does not stop the scheduling of the others. */
static int start_gpus(struct control *control, struct config *config, uint32_t *n_lost,
		      struct vgpu_error *err)
{
	struct engine_config engine_config;
	struct engine *engine;
	uint32_t i;
	int r, lost;

	for (i = 0; i < config->n_gpus; i++) {
		struct gpu_config *g = &config->gpus[i];
		struct gpu *gpu = &control->gpus[i];

		config_to_engine(g, &engine_config);
		lost = engine_start(&engine, &engine_config, err);
		if (lost < 0)
			return vgpu_error_prefix(err, lost, "gpu %s", g->name);
		r = control_add(control, g, engine);
		if (r < 0)
			return vgpu_error_set(err, r, "gpu %s: out of memory", g->name);
		*n_lost += lost > 0;
		if (lost > 0) {
			events_begin_lost(gpu, err->text);
			continue;
		}
		if (g->realtime && !engine_is_realtime(engine))
			log_about(about_gpu(gpu, LOG_PLAIN), LOG_NOTICE,
				  "the engine thread runs without real-time priority: slices may "
				  "end late on a loaded host; grant CAP_SYS_NICE");
		if (strncmp(g->device, "vfio:", 5) == 0 && !service_holds())
			log_about(about_gpu(gpu, LOG_PLAIN), LOG_NOTICE,
				  "a restart of vgpud resets this PF, because nothing holds its "
				  "descriptors meanwhile: use systemd or vgpud-keeper");
		log_about(about_gpu(gpu, LOG_PLAIN), LOG_INFO, "scheduling %s: %lld VFs, policy %s",
			  g->device, (long long)g->vfs, g->policy);
		look_for_adoption(gpu);
	}
	return 0;
}

static void on_reload(evutil_socket_t, short, void *control)
{
	config_reload_begin_alone(control);
}

static struct event *watch(struct control *control, int signal, event_callback_fn then, void *data)
{
	struct event *event = evsignal_new(control->base, signal, then, data);

	event_add(event, NULL);
	return event;
}

/* A signal that ends vgpud waits until vgpud serves: before that, the sockets would not be
 * removed. */
static void hold_back(int how)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(how, &ends, NULL);
}

/* Serves until a signal ends it. */
static void serve(struct control *control, struct metrics *metrics)
{
	struct event *signals[] = {watch(control, SIGTERM, on_signal, control->base),
				   watch(control, SIGINT, on_signal, control->base),
				   watch(control, SIGHUP, on_reload, control)};
	struct vgpu_error err = {""};
	struct uevents *uevents = uevents_start(control, &err);
	size_t i;

	if (!uevents)
		log_line(LOG_NOTICE, "%s", err.text);
	hold_back(SIG_UNBLOCK);
	event_base_dispatch(control->base);
	hold_back(SIG_BLOCK); /* a second signal does not cut the shutdown short */
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		event_free(signals[i]);
	service_stopping();
	uevents_stop(uevents);
	metrics_stop(metrics);
	live_end(control);
}

/* The notes for clients while no vgpud serves the sockets. */
static void note(const struct config *config, enum vgpu_note what, const char *why)
{
	vgpu_note_write(config->socket, what, why);
	vgpu_note_write(config->hook_socket, what, why);
	vgpu_note_write(config->tenant_socket, what, why);
}

/* Returns whether the notes beside the sockets would describe this vgpud: no other one serves them.
 */
static bool notes_are_ours(const struct config *config)
{
	return config->hook_socket[0] && listen_is_free("control", config->socket);
}

static int run(struct config *config)
{
	static struct control control;
	struct metrics *metrics;
	struct vgpu_error err = {""};
	bool listens, ours = notes_are_ours(config);
	uint32_t n_lost = 0;
	int r;

	lock_memory();
	raise_descriptors();
	r = control_start(&control, config, &err);
	listens = control.doors.control != NULL;
	if (r == 0) {
		note(config, VGPU_NOTE_STARTING, NULL);
		r = start_gpus(&control, config, &n_lost, &err);
	}
	if (r == 0)
		r = metrics_start(&metrics, &control, config->metrics, &err);
	if (r == 0) {
		leases_load(&control);
		live_load(&control);
		/* Before clients connect, restores the parameters of all VFs. */
		control_settle(&control);
	}
	if (r < 0) {
		log_line(LOG_ERR, "%s", err.text);
		/* Without a listener, the sockets may belong to another vgpud: they stay. */
		if (listens)
			control_stop(&control);
		if (ours || listens)
			note(config, VGPU_NOTE_FAILED, err.text);
		return r == -ENOMEM ? 1 : EX_CONFIG;
	}
	if (n_lost == 0) /* keeps those of a GPU that may return */
		service_drop_unused();
	if (config->n_gpus == 0)
		log_line(LOG_NOTICE, "the configuration has no [gpu NAME] section: vgpud has "
				     "nothing to schedule");
	log_about(((struct log_about){.message = LOG_READY, .vf = -1}), LOG_INFO, "ready at %s",
		  config->socket);
	vgpu_note_remove(config->socket);
	vgpu_note_remove(config->hook_socket);
	vgpu_note_remove(config->tenant_socket);
	service_ready();
	offers_changed(&control);
	serve(&control, metrics);
	control_stop(&control);
	note(config, VGPU_NOTE_STOPPED, NULL);
	log_line(LOG_INFO, "stopped; GPUs, VFs and guests keep running");
	return 0;
}

static int release(const char *text)
{
	char address[PCI_ADDRESS_SIZE];
	struct vgpu_error err;

	if (pci_address_normal(text, address) < 0)
		vgpu_error_set(&err, -EINVAL, "%s: not a PCI address; want one like 0000:01:00.0",
			       text);
	else if (pci_release(address, &err) == 0)
		return 0;
	fprintf(stderr, "vgpud: %s\n", err.text);
	return 1;
}

/* Reads and checks the configuration, and prints its mistakes. Returns their number. */
static int read_config(struct config *config, const char *file, FILE *errors)
{
	if (config_read(config, file, errors) < 0)
		return 1;
	names_find(config, NAMES_START_MS);
	return config_check_gpus(config, NULL, errors);
}

/* As read_config, and also checks this host. Only a running vgpud knows the GPUs that it has
 * opened, so it is asked about them. */
static int read_config_here(struct config *config, const char *file, FILE *errors)
{
	static struct config_known known;
	char *untold = NULL;
	size_t size;
	FILE *notes = open_memstream(&untold, &size);
	int r = notes ? config_read(config, file, errors) : -ENOMEM, wrong = r < 0, asked;

	if (r != -ENOMEM) {
		names_find(config, NAMES_START_MS);
		wrong += config_check_host(config, &known, errors, notes);
	}
	if (r == 0)
		wrong += config_check_gpus(config, &known, errors);
	if (notes)
		fclose(notes);
	if (wrong == 0 && untold && *untold) {
		asked = running_takes(config, errors);
		wrong = asked > 0;
		if (asked < 0)
			fprintf(errors, "not everything can be checked before a start: %s", untold);
	}
	free(untold);
	return wrong;
}

/* --check-config, and --dump-config. */
static int look_at(struct config *config, const char *file, bool check)
{
	int wrong =
		check ? read_config_here(config, file, stderr) : read_config(config, file, stderr);

	if (wrong > 0)
		return EX_CONFIG;
	if (!check)
		config_dump(config, stdout);
	return 0;
}

/* Reads the configuration for a start. If it is unusable, reports why to the log and to clients:
 * the unit then does not restart vgpud. */
static bool is_usable(struct config *config, const char *file)
{
	char *said = NULL, *line, *rest = NULL, first[300] = "";
	size_t size, n = 0;
	FILE *errors = open_memstream(&said, &size);
	int wrong;

	if (!errors)
		return false;
	wrong = read_config(config, file, errors);
	fclose(errors);
	fputs(said, stderr);
	for (line = strtok_r(said, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (n++ == 0)
			snprintf(first, sizeof(first), "%s", line);
	free(said);
	if (n > 1)
		snprintf(first + strlen(first), sizeof(first) - strlen(first),
			 " (and %zu more: vgpud --check-config)", n - 1);
	if (wrong && notes_are_ours(config))
		note(config, VGPU_NOTE_FAILED, first);
	return wrong == 0;
}

struct options {
	const char *file, *release;
	bool check, dump, help;
};

#define ROW(name, value, kind, member, help)                                                       \
	VGPU_OPTION(name, value, help, kind, offsetof(struct options, member))
static const struct vgpu_option rows[] = {
	ROW("config", "FILE", TEXT, file, "read FILE and FILE.d/*.conf (" CONFIG_DEFAULT_FILE ")"),
	ROW("check-config", NULL, FLAG, check,
	    "check the configuration, print its mistakes, and exit"),
	ROW("dump-config", NULL, FLAG, dump, "print the configuration with all defaults, and exit"),
	ROW("help-config", NULL, FLAG, help,
	    "print all configuration keys and their meaning, and exit"),
	ROW("release", "ADDRESS", TEXT, release,
	    "remove the VFs of the PF at ADDRESS, return the PF to its host driver, and exit; "
	    "refused while vgpud holds the PF or a process "
	    "uses a VF"),
	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("usage: vgpud [options]\n"
	      "Schedules SR-IOV GPUs: gives each VF the engine in time slices, as a policy "
	      "decides.\n"
	      "Runs in the foreground. SIGTERM ends vgpud; GPUs, VFs and guests keep running.\n\n",
	      to);
	vgpu_options_list(rows, 19, to);
}

int main(int argc, char **argv)
{
	struct options o = {.file = CONFIG_DEFAULT_FILE};
	static struct config config;
	int r;

	if (vgpu_untrusted_main(argc, argv) || names_main(argc, argv))
		return 0;
	vgpu_output_check("vgpud");
	r = vgpu_options_read("vgpud", rows, usage, argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	if (optind < argc) {
		fprintf(stderr, "vgpud: unexpected argument \"%s\"; see vgpud --help\n",
			argv[optind]);
		return 2;
	}
	if (o.help) {
		config_help(stdout);
		return 0;
	}
	if (o.release)
		return release(o.release);
	signal(SIGPIPE, SIG_IGN);
	if (o.check || o.dump)
		return look_at(&config, o.file, o.check);
	signal(SIGHUP, SIG_IGN); /* until vgpud can reload */
	service_start();
	if (!is_usable(&config, o.file))
		return EX_CONFIG;
	hold_back(SIG_BLOCK);
	return run(&config);
}
