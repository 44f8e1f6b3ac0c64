/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "config.h"
#include "control.h"
#include "log.h"
#include "metrics.h"
#include "service.h"
#include "uevents.h"

#include "vfio/pci.h"

static void usage(FILE *to)
{
	fputs("usage: vgpud [options]\n"
	      "The time-slicing scheduler for SR-IOV GPUs. Runs in the foreground; SIGTERM ends "
	      "it\n"
	      "and leaves the GPUs, and what runs on them, as they are.\n"
	      "\n"
	      "  --config FILE    the configuration (" CONFIG_DEFAULT_FILE ", and FILE.d/*.conf)\n"
	      "  --check-config   read it, say what is wrong with it, and exit\n"
	      "  --dump-config    print it with all defaults, and exit\n"
	      "  --help-config    print all keys and what they mean, and exit\n"
	      "  --release ADDRESS  take a PF's VFs away, give it back to its host's driver, and\n"
	      "                   exit; not while vgpud holds it, nor while a VF is in use\n"
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
	/* Pages are locked once they are touched: all that is ever used, and no more. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
		log_line(LOG_NOTICE,
			 "memory is not locked: %s; slices may end late when memory "
			 "is short",
			 strerror(errno));
}

static int start_gpus(struct control *control, struct config *config, struct vgpu_error *err)
{
	struct engine_config engine_config;
	struct engine *engine;
	uint32_t i;
	int r;

	for (i = 0; i < config->n_gpus; i++) {
		struct gpu_config *g = &config->gpus[i];

		config_to_engine(g, &engine_config);
		r = engine_start(&engine, &engine_config, err);
		if (r < 0)
			return vgpu_error_prefix(err, r, "gpu %s", g->name);
		r = control_add(control, g, engine);
		if (r < 0)
			return vgpu_error_set(err, r, "gpu %s: out of memory", g->name);
		if (g->realtime && !engine_is_realtime(engine))
			log_line(
				LOG_NOTICE,
				"no SCHED_FIFO for the engine thread: slices may end late when the "
				"machine is busy gpu=%s",
				g->name);
		if (strncmp(g->device, "vfio:", 5) == 0 && !service_holds())
			log_line(
				LOG_NOTICE,
				"nobody holds the descriptors of this PF while vgpud is restarted: "
				"use systemd or vgpud-keeper gpu=%s",
				g->name);
		log_line(LOG_INFO, "scheduling %s: %lld VFs, policy %s gpu=%s", g->device,
			 (long long)g->vfs, g->policy, g->name);
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
	service_start();
	r = control_start(&control, config, &err);
	r = r ? r : start_gpus(&control, config, &err);
	r = r ? r : metrics_start(&metrics, &control, config->metrics, &err);
	if (r == 0) {
		leases_load(&control);
		/* Nobody finds them with other parameters than they had. */
		control_settle(&control);
	}
	if (r < 0) {
		log_line(LOG_ERR, "%s", err.text);
		/* A socket that belongs to another vgpud stays. */
		if (control.listener)
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
		log_line(LOG_NOTICE,
			 "the configuration has no [gpu NAME]: nothing to schedule yet");
	log_line(LOG_INFO, "ready at %s", config->socket);
	service_ready();
	event_base_dispatch(control.base);
	event_free(term);
	event_free(interrupt);
	service_stopping();
	uevents_stop(uevents);
	metrics_stop(metrics);
	control_stop(&control);
	log_line(LOG_INFO, "stopped; the GPUs go on as they are");
	return 0;
}

static int release(const char *address)
{
	struct vgpu_error err;

	if (pci_release(address, &err) == 0)
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
	int option;

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
		fprintf(stderr, "vgpud: %s: not an option\n", argv[optind]);
		return 2;
	}
	if (config_read(&config, file, stderr) < 0)
		return 1;
	if (dump)
		config_dump(&config, stdout);
	return check || dump ? 0 : run(&config);
}
