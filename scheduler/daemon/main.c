/* SPDX-License-Identifier: MIT */
/*
 * vgpud. Each file of this directory includes and calls only what stands below it here (tests/lint
 * checks it). A file that must reach upwards is given a function, as a call is given its method.
 *
 *   main.c             starts and ends vgpud
 *   uevents.c          reads what the kernel reports about PCI functions
 *   metrics.c          offers metrics
 *   metrics_text.c     writes them
 *   http.c             serves them over HTTP
 *   control.c          the sockets, their clients, and the loop of the control thread
 *   methods.c          the table of methods
 *   capacity.c         what a GPU has to offer to VMs
 *   hook.c             the method of libvirt's hook
 *   outgoing.c         what VMs would take to another host
 *   incoming.c         VMs that come with the state of their VFs
 *   history.c          the methods that show what has happened
 *   policy_methods.c   the methods policy.*, and vf.set
 *   policy_explain.c   what a policy promises, or would promise
 *   config_methods.c   the methods config.*
 *   vm_check.c         checks changed claims before they are written
 *   reconcile.c        compares leases with the VMs that run
 *   reserve.c          finds VFs for a VM
 *   booking.c          asks which GPU is booked for a VM
 *   booked.c           on which GPU each VF of a claim is booked
 *   fit.c              which VFs can take over the state that comes with a VM
 *   events.c           handles what the engines report
 *   libvirts.c         which libvirts report
 *   memory_methods.c   the methods memory.*
 *   vm.c               VMs and their VFs
 *   live.c             changes that are in force until a restart
 *   policy_change.c    prepares changes of policy and parameters
 *   promised.c         what a policy promises to a VF, as answers have it
 *   lease.c            which VF belongs to which VM
 *   hold.c             VFs of VMs that have not resumed yet
 *   change.c           changes of policy and parameters, in their order
 *   args.c             reads the arguments of a call
 *   call.c             a request, from its beginning to its answer
 *   client.c           a client of the control socket or the hook's
 *   door.c             accepts connections
 *   listen.c           sockets to listen on
 *   service.c          talks to the service manager
 *   saved.c            the drop-in for saved changes
 *   config_check.c     checks what the configuration's files do not tell
 *   trial.c            asks a core or a governor of its own whether a policy takes parameters
 *   state.h            what the control thread knows
 *   refusal.c          why a VM is refused a VF, and how often
 *   engine.c           the thread of an engine
 *   engine_switched.c  the time of a GPU by the core
 *   engine_governed.c  the time of a GPU by the governor
 *   engine_declared.c  the time of a GPU by its vendor's scheduler
 *   engine_unswitched.c what the last two have in common
 *   engine_serve.c     answers the control thread's requests
 *   engine_step.c      steps the core and carries out its actions
 *   engine_private.h   an engine
 *   gpu_memory.c       steps the memory reducer and carries out its actions
 *   config_show.c      writes the configuration
 *   config.c           reads the configuration
 *   config_keys.c      the table of its keys
 *   config.h           the configuration
 *   metrics_format.c   chooses between their formats
 *   metrics_address.c  reads the address of the metrics
 *   engine_request.h   what crosses between the control thread and an engine
 *   histogram.h        counts times by their length
 *   latest.h           a value that one thread publishes to another
 *   spsc.h             a queue between two threads
 *   trail.h            the last records of one thread, for all threads
 *   put.h              members of JSON objects
 *   share.c            the readers' share of the control thread
 *   log.c              the log
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "call.h"
#include "config.h"
#include "config_check.h"
#include "control.h"
#include "engine.h"
#include "lease.h"
#include "live.h"
#include "log.h"
#include "metrics.h"
#include "service.h"
#include "uevents.h"
#include "vfio/pci.h"
#include "vgpu/untrusted.h"

static void usage(FILE *to)
{
	fputs("usage: vgpud [options]\n"
	      "Schedules SR-IOV GPUs: gives each VF the engine in time slices, as a policy "
	      "decides.\n"
	      "Runs in the foreground. SIGTERM ends vgpud; GPUs, VFs and guests keep running.\n"
	      "\n"
	      "  --config FILE    read FILE and FILE.d/*.conf (" CONFIG_DEFAULT_FILE ")\n"
	      "  --check-config   check the configuration, print its mistakes, and exit\n"
	      "  --dump-config    print the configuration with all defaults, and exit\n"
	      "  --help-config    print all configuration keys and their meaning, and exit\n"
	      "  --release ADDRESS  remove the VFs of the PF at ADDRESS, return the PF to its "
	      "host\n"
	      "                   driver, and exit; refused while vgpud holds the PF or a process\n"
	      "                   uses a VF\n"
	      "  --help, --version\n",
	      to);
}

static void on_signal(evutil_socket_t number, short what, void *base)
{
	(void)number;
	(void)what;
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
		log_line(
			LOG_WARNING,
			"vgpud may open %llu descriptors: others' connections may keep root's out; "
			"raise LimitNOFILE to %u",
			(unsigned long long)limit.rlim_cur, DESCRIPTORS);
}

static void on_found(struct call *call)
{
	if (call->request.result == 0 && call->snapshot.found.adopted)
		log_about(about_gpu(call->gpu, LOG_GPU_ADOPTED), LOG_NOTICE,
			  "adopted as it was found, with %" PRIu32 " VFs: what runs goes on",
			  call->snapshot.n_vfs);
	call_drop(call);
}

/* Asks the engine whether its GPU was set up already, and logs it if so. */
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

static int start_gpus(struct control *control, struct config *config, struct vgpu_error *err)
{
	struct engine_config engine_config;
	struct engine *engine;
	uint32_t i;
	int r;

	for (i = 0; i < config->n_gpus; i++) {
		struct gpu_config *g = &config->gpus[i];
		struct gpu *gpu = &control->gpus[i];

		config_to_engine(g, &engine_config);
		r = engine_start(&engine, &engine_config, err);
		if (r < 0)
			return vgpu_error_prefix(err, r, "gpu %s", g->name);
		r = control_add(control, g, engine);
		if (r < 0)
			return vgpu_error_set(err, r, "gpu %s: out of memory", g->name);
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

static int run(struct config *config)
{
	static struct control control;
	struct event *term, *interrupt;
	struct uevents *uevents;
	struct metrics *metrics = NULL;
	struct vgpu_error err = {""};
	int r;

	lock_memory();
	raise_descriptors();
	service_start();
	r = control_start(&control, config, &err);
	if (r == 0)
		r = start_gpus(&control, config, &err);
	if (r == 0)
		r = metrics_start(&metrics, &control, config->metrics, &err);
	if (r == 0) {
		leases_load(&control);
		live_load(&control);
		/* Before clients connect, all VFs have the parameters that they had. */
		control_settle(&control);
	}
	if (r < 0) {
		log_line(LOG_ERR, "%s", err.text);
		/* Without a listener, the sockets may belong to another vgpud: they stay. */
		if (control.door)
			control_stop(&control);
		return 1;
	}
	term = evsignal_new(control.base, SIGTERM, on_signal, control.base);
	interrupt = evsignal_new(control.base, SIGINT, on_signal, control.base);
	event_add(term, NULL);
	event_add(interrupt, NULL);
	signal(SIGPIPE, SIG_IGN);
	uevents = uevents_start(&control, &err);
	if (!uevents)
		log_line(LOG_NOTICE, "%s", err.text);
	service_drop_unused();
	if (config->n_gpus == 0)
		log_line(LOG_NOTICE, "the configuration has no [gpu NAME] section: vgpud has "
				     "nothing to schedule");
	log_about(((struct log_about){.message = LOG_READY, .vf = -1}), LOG_INFO, "ready at %s",
		  config->socket);
	service_ready();
	event_base_dispatch(control.base);
	event_free(term);
	event_free(interrupt);
	service_stopping();
	uevents_stop(uevents);
	metrics_stop(metrics);
	live_end(&control);
	control_stop(&control);
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

int main(int argc, char **argv)
{
	enum { CONFIG = 1, CHECK, DUMP, HELP_CONFIG, RELEASE, HELP, VERSION };
	static const struct option options[] = {
		{"config", required_argument, NULL, CONFIG},
		{"check-config", no_argument, NULL, CHECK},
		{"dump-config", no_argument, NULL, DUMP},
		{"help-config", no_argument, NULL, HELP_CONFIG},
		{"release", required_argument, NULL, RELEASE},
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
		{NULL, 0, NULL, 0},
	};
	static struct config config;
	const char *file = CONFIG_DEFAULT_FILE;
	bool check = false, dump = false;
	int option, r, wrong;

	if (vgpu_untrusted_main(argc, argv))
		return 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case CONFIG:
			file = optarg;
			break;
		case CHECK:
			check = true;
			break;
		case DUMP:
			dump = true;
			break;
		case HELP_CONFIG:
			config_help(stdout);
			return 0;
		case RELEASE:
			return release(optarg);
		case HELP:
			usage(stdout);
			return 0;
		case VERSION:
			puts("vgpud " VGPU_VERSION);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "vgpud: unexpected argument \"%s\"; see vgpud --help\n",
			argv[optind]);
		return 2;
	}
	r = config_read(&config, file, stderr);
	wrong = r < 0 ? 1 : config_check_policies(&config, NULL, stderr);
	if (check && r != -ENOMEM)
		wrong += config_check_host(&config, stderr);
	if (wrong)
		return EX_CONFIG; /* the unit does not restart vgpud then */
	if (dump)
		config_dump(&config, stdout);
	return check || dump ? 0 : run(&config);
}
