/* SPDX-License-Identifier: MIT */
/*
 * vgpud-libvirt: tells vgpud which domains libvirt runs, whenever that changes and every minute:
 * VMs that vgpud does not know, claims that were changed with virsh metadata or virsh edit, VMs
 * that have ended. Attaches and detaches the devices that vgpud's answer names. A process of its
 * own, because libvirt's client takes more memory than vgpud and may block for minutes
 * (docs/decisions/0014).
 */
#include <errno.h>
#include <getopt.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "attach.h"
#include "claim.h"
#include "control_client.h"
#include "exit_code.h"
#include "host.h"
#include "hung.h"
#include "log.h"
#include "metadata.h"
#include "named.h"
#include "probe.h"
#include "set.h"
#include "trim.h"
#include "vgpu/clock.h"
#include "vgpu/output.h"

#define SOCKET "/run/vgpud/hook.sock"
#define LOOK_EVERY_S 60
#define KEEPALIVE_S 5
#define KEEPALIVES 3
#define LONGEST_BACKOFF_S 30
/* After a look there is no other one for this many times as long as it took: events without an end
 * keep neither libvirt nor vgpud busy. */
#define LOOK_RESTS 2u
/* Most bytes of XML that are kept during a listing; the longest are then left out, so that the rest
 * fits a request. */
#define KEEPS_MOST (4u * CLAIM_MAX_REQUEST)

static struct {
	const char *socket;
	virConnectPtr libvirt;
	char host[CLIENT_HOST_SIZE]; /* name of the libvirt */
	int events[4];		     /* numbers of the callbacks registered with libvirt */
	int vgpud;		     /* descriptor; -1: not connected */
	int vgpud_watch;
	bool look; /* libvirt or vgpud has changed: sync again */
	int rest;  /* the timer that says that the next look may come */
	bool rests;
	bool lost; /* the connection to libvirt is lost */
	unsigned seconds;
	bool told; /* the failure to reach vgpud was logged */
} a = {.vgpud = -1, .vgpud_watch = -1};

static volatile sig_atomic_t ended;

static void on_signal(int)
{
	ended = 1;
}

static const char *libvirts_words(void)
{
	const virError *e = virGetLastError();

	return e ? e->message : "no reason given";
}

/* vgpud-libvirt logs errors itself: keeps libvirt from printing them as well. */
static void on_error(void *, virErrorPtr)
{
}

static int on_lifecycle(virConnectPtr, virDomainPtr, int, int, void *)
{
	a.look = true;
	return 0;
}

static void on_metadata(virConnectPtr, virDomainPtr, int, const char *uri, void *)
{
	a.look |= uri && strcmp(uri, CLAIM_URI) == 0;
}

static void on_close(virConnectPtr, int, void *)
{
	a.lost = true;
}

static void drop_vgpud(void)
{
	if (a.vgpud_watch >= 0)
		virEventRemoveHandle(a.vgpud_watch);
	if (a.vgpud >= 0)
		close(a.vgpud);
	a.vgpud = a.vgpud_watch = -1;
}

/* vgpud sends nothing between calls: a readable socket means that it has ended. */
static void on_vgpud(int, int, int, void *)
{
	drop_vgpud();
}

static void reach_vgpud(void)
{
	struct vgpu_error err;

	if (a.vgpud >= 0)
		return;
	a.vgpud = client_connect(a.socket, &err);
	if (a.vgpud < 0) {
		if (!a.told)
			log_line(4, "waiting for vgpud", err.text);
		a.told = true;
		return;
	}
	if (a.told)
		log_line(5, "vgpud is reachable again", NULL);
	a.told = false;
	a.look = true;
	a.vgpud_watch =
		virEventAddHandle(a.vgpud, VIR_EVENT_HANDLE_READABLE | VIR_EVENT_HANDLE_HANGUP,
				  on_vgpud, NULL, NULL);
}

/* Returns a domain's XML if it has a claim or a device that may be a VF; else "". */
static struct json_object *claim_of(virDomainPtr d)
{
	char *xml = virDomainGetXMLDesc(d, 0);
	bool matters = xml && (strstr(xml, "<hostdev ") || claim_exists(xml));
	struct json_object *text = json_object_new_string(matters ? xml : "");

	free(xml);
	return text;
}

/* Returns whether a domain's CPUs do not run: it waits for its state, or was paused. */
static bool is_paused(virDomainPtr d)
{
	int state, reason;

	return virDomainGetState(d, &state, &reason, 0) < 0 || state != VIR_DOMAIN_RUNNING;
}

static struct json_object *new_args(void)
{
	struct json_object *args = json_object_new_object();

	json_object_object_add(args, "host", json_object_new_string(a.host));
	return args;
}

/* Makes the arguments of vm.sync from the domains that libvirt runs now; the caller frees them.
 * NULL: libvirt does not answer. */
static struct json_object *running(void)
{
	struct json_object *args, *domains, *paused, *text;
	size_t kept = 0;
	char uuid[VIR_UUID_STRING_BUFLEN];
	virDomainPtr *list = NULL;
	vgpu_nsec as_of = vgpu_now();
	int n, i;

	n = virConnectListAllDomains(a.libvirt, &list, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
	if (n < 0)
		return NULL;
	args = new_args();
	domains = json_object_new_object();
	paused = json_object_new_object();
	for (i = 0; i < n; i++) {
		if (virDomainGetUUIDString(list[i], uuid) == 0) {
			/* The state first: a domain that resumes meanwhile sends an event. */
			if (is_paused(list[i]))
				json_object_object_add(paused, uuid, json_object_new_boolean(true));
			text = claim_of(list[i]);
			kept += (size_t)json_object_get_string_len(text);
			json_object_object_add(domains, uuid, text);
		}
		if (kept > KEEPS_MOST) {
			trim(domains, CLAIM_MAX_REQUEST);
			kept = CLAIM_MAX_REQUEST;
		}
		virDomainFree(list[i]);
	}
	free(list);
	trim(domains, CLAIM_MAX_REQUEST);
	json_object_object_add(args, "as_of_ns", json_object_new_int64((int64_t)as_of));
	json_object_object_add(args, "domains", domains);
	json_object_object_add(args, "paused", paused);
	return args;
}

/* Calls vgpud, and logs an error with LEVEL (0: does not). Returns the result, which the caller
 * frees; NULL: vgpud refused, or has ended. */
static struct json_object *call(const char *method, struct json_object *args, int level)
{
	struct json_object *result = NULL;
	struct vgpu_error err;
	int r = client_call(a.vgpud, method, args, &result, &err);

	if (r < 0 && level)
		log_line(level, "vgpud", err.text);
	if (r == -ECONNRESET || r == -EHOSTDOWN)
		drop_vgpud();
	return result;
}

static void on_rested(int timer, void *)
{
	a.rests = false;
	virEventUpdateTimeout(timer, -1);
}

static void on_second(int, void *)
{
	struct json_object *hung;

	reach_vgpud();
	hung = a.vgpud >= 0 ? call("vm.hung", new_args(), 4) : NULL;
	pause_and_stop(a.libvirt, hung);
	json_object_put(hung);
	if (++a.seconds % LOOK_EVERY_S == 0)
		a.look = true;
}

/* Asks for the VFs that running VMs claim and lack: their claims have grown, or they were started
 * without. vgpud logs what it refuses. */
static void extend(struct json_object *domains, struct json_object *missing)
{
	size_t i, n = missing ? json_object_array_length(missing) : 0;

	for (i = 0; i < n && a.vgpud >= 0; i++) {
		const char *uuid = json_object_get_string(json_object_array_get_idx(missing, i));
		struct json_object *args = new_args(), *result;

		json_object_object_add(args, "xml",
				       json_object_get(json_object_object_get(domains, uuid)));
		result = call("vm.extend", args, 0);
		a.look |= result != NULL; /* the next sync attaches it */
		json_object_put(result);
	}
}

/* Asks what each VM's VFs would take to another host, and keeps it in the domain. */
static void note_travels(struct json_object *domains)
{
	struct json_object *want = json_object_new_object(), *args, *answer, *text;

	json_object_object_foreach(domains, uuid, xml)
	{
		if (a.vgpud < 0)
			break;
		if (!xml) /* too long: what is noted stays */
			json_object_object_add(want, uuid, NULL);
		if (!xml || !claim_is_possible(json_object_get_string(xml)))
			continue;
		args = new_args();
		json_object_object_add(args, "xml", json_object_get(xml));
		answer = call("vm.travel", args, 0);
		if (json_object_object_get_ex(answer, "travel", &text))
			json_object_object_add(want, uuid, json_object_get(text));
		json_object_put(answer);
	}
	if (a.vgpud >= 0)
		metadata_update(a.libvirt, want);
	else
		json_object_put(want); /* it ended meanwhile: what is noted stays */
}

static void tell(void)
{
	struct json_object *args = running(), *domains, *answer;

	if (!args) {
		log_line(4, "libvirt cannot list its domains", libvirts_words());
		return;
	}
	domains = json_object_get(json_object_object_get(args, "domains"));
	answer = call("vm.sync", args, 4);
	/* vgpud learns by the next sync that the VM has its VF. */
	a.look |= attach_and_detach(a.libvirt, answer);
	extend(domains, json_object_object_get(answer, "missing"));
	note_travels(domains);
	json_object_put(answer);
	json_object_put(domains);
}

/* Registers for events before the first sync, so that no change is missed. Returns false with the
 * reason in ERR. */
static bool connect_libvirt(const char *uri, struct vgpu_error *err)
{
	static const struct {
		int id;
		virConnectDomainEventGenericCallback callback;
	} events[] = {
		{VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle)},
		{VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, VIR_DOMAIN_EVENT_CALLBACK(on_metadata)},
		{VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, VIR_DOMAIN_EVENT_CALLBACK(on_device_removed)},
		{VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED,
		 VIR_DOMAIN_EVENT_CALLBACK(on_device_kept)},
	};
	size_t i;
	bool all = true;

	a.libvirt = virConnectOpen(uri);
	if (!a.libvirt) {
		vgpu_error_set(err, -EIO, "%s", libvirts_words());
		return false;
	}
	if (client_host(uri, a.host, err) < 0) { /* libvirt has made its directory by now */
		virConnectClose(a.libvirt);
		return false;
	}
	virConnectSetKeepAlive(a.libvirt, KEEPALIVE_S, KEEPALIVES);
	virConnectRegisterCloseCallback(a.libvirt, on_close, NULL, NULL);
	for (i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		a.events[i] = virConnectDomainEventRegisterAny(a.libvirt, NULL, events[i].id,
							       events[i].callback, &a.look, NULL);
		all &= a.events[i] >= 0;
	}
	if (!all)
		log_line(4, "libvirt does not offer all events; looking every minute instead",
			 libvirts_words());
	a.lost = false;
	a.look = true;
	return true;
}

/* Deregister callbacks first: a connection with callbacks is not closed. */
static void disconnect_libvirt(void)
{
	size_t i;

	for (i = 0; i < sizeof(a.events) / sizeof(a.events[0]); i++)
		if (a.events[i] >= 0)
			virConnectDomainEventDeregisterAny(a.libvirt, a.events[i]);
	virConnectUnregisterCloseCallback(a.libvirt, on_close);
	virConnectClose(a.libvirt);
}

static void follow(void)
{
	vgpu_nsec began;

	while (!ended && !a.lost && virEventRunDefaultImpl() == 0) {
		if (a.look && !a.rests && a.vgpud >= 0) {
			began = vgpu_now();
			a.look = false;
			tell();
			a.rests = true;
			virEventUpdateTimeout(a.rest,
					      (int)((vgpu_now() - began) * LOOK_RESTS / VGPU_MSEC) +
						      1);
		}
	}
}

/* Prints the XML of a running domain, or the definition of one that does not run. Returns an exit
 * code. */
static int print_xml(const char *uri, const char *domain)
{
	virConnectPtr c = virConnectOpenReadOnly(uri);
	virDomainPtr d = c ? domain_of(c, domain) : NULL;
	char *xml = d ? virDomainGetXMLDesc(d, 0) : NULL;
	int code = xml ? EXIT_OK : refused_code();

	if (xml)
		fputs(xml, stdout);
	else
		fprintf(stderr, "vgpud-libvirt: %s: %s\n", domain, libvirts_words());
	free(xml);
	if (d)
		virDomainFree(d);
	if (c)
		virConnectClose(c);
	return code;
}

/* Prints of each domain its UUID, whether it runs, and its name. Returns an exit code. */
static int print_domains(const char *uri)
{
	virConnectPtr c = virConnectOpenReadOnly(uri);
	char uuid[VIR_UUID_STRING_BUFLEN];
	virDomainPtr *list = NULL;
	int n, i, code = EXIT_OK;

	n = c ? virConnectListAllDomains(c, &list, 0) : -1;
	if (n < 0) {
		code = refused_code();
		fprintf(stderr, "vgpud-libvirt: %s\n", libvirts_words());
	}
	for (i = 0; i < n; i++) {
		if (virDomainGetUUIDString(list[i], uuid) == 0)
			printf("%s %s %s\n", uuid,
			       virDomainIsActive(list[i]) == 1 ? "running" : "stopped",
			       virDomainGetName(list[i]));
		virDomainFree(list[i]);
	}
	free(list);
	if (c)
		virConnectClose(c);
	return code;
}

static void usage(FILE *to)
{
	fputs("usage: vgpud-libvirt [--connect URI] [--socket PATH]\n"
	      "       vgpud-libvirt [--connect URI] [--socket PATH] set DOMAIN [VF:]NAME=VALUE...\n"
	      "       vgpud-libvirt [--connect URI] xml DOMAIN\n"
	      "       vgpud-libvirt [--connect URI] list\n"
	      "       vgpud-libvirt [--connect URI] probe-hook\n"
	      "Tells vgpud which VMs libvirt runs and when their claims change, and attaches\n"
	      "VFs to them. With set: asks vgpud, then changes parameters in a domain's claim,\n"
	      "as \"vgpuctl vm set\" does. With xml: prints a domain's XML. With list: prints\n"
	      "of each domain its UUID, \"running\" or \"stopped\", and its name. With\n"
	      "probe-hook: asks libvirt to start a VM that cannot start, and prints whether\n"
	      "libvirt called vgpud's hook for it.\n"
	      "  --connect URI   URI of libvirt (qemu:///system)\n"
	      "  --socket PATH   vgpud's hook socket (" SOCKET ")\n",
	      to);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"connect", required_argument, NULL, 'c'},
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	struct sigaction action = {.sa_handler = on_signal};
	const char *uri = "qemu:///system";
	unsigned backoff = 1, left;
	struct vgpu_error err;
	bool told = false;
	int option;

	vgpu_output_check("vgpud-libvirt");
	a.socket = SOCKET;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'c')
			uri = optarg;
		else if (option == 's')
			a.socket = optarg;
		else if (option == 'v')
			return puts("vgpud-libvirt " VGPU_VERSION) < 0;
		else
			return usage(option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2;
	}
	virSetErrorFunc(NULL, on_error);
	/* libvirt's client writes to a libvirtd that has just ended, too. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* there is no configuration to reload */
	if (optind < argc && strcmp(argv[optind], "set") == 0)
		return set(uri, a.socket, argc - optind - 1, argv + optind + 1);
	if (optind + 2 == argc && strcmp(argv[optind], "xml") == 0)
		return print_xml(uri, argv[optind + 1]);
	if (optind + 1 == argc && strcmp(argv[optind], "list") == 0)
		return print_domains(uri);
	if (optind + 1 == argc && strcmp(argv[optind], "probe-hook") == 0)
		return probe_hook(uri);
	if (optind < argc) {
		usage(stderr);
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0 ||
	    virEventAddTimeout(1000, on_second, NULL, NULL) < 0 ||
	    (a.rest = virEventAddTimeout(-1, on_rested, NULL, NULL)) < 0) {
		log_line(3, "cannot start libvirt's event loop", libvirts_words());
		return 1;
	}
	reach_vgpud();
	sd_notify(0, "READY=1");
	while (!ended) {
		if (connect_libvirt(uri, &err)) {
			log_line(6, "connected to libvirt", uri);
			told = false;
			backoff = 1;
			follow();
			disconnect_libvirt();
			if (!ended)
				log_line(
					5,
					"libvirt has closed the connection; its VMs keep their VFs",
					NULL);
			continue;
		}
		if (!told)
			log_line(4, "waiting for libvirt", err.text);
		told = true;
		for (left = backoff; left > 0 && !ended; left--)
			sleep(1);
		backoff = backoff * 2 < LONGEST_BACKOFF_S ? backoff * 2 : LONGEST_BACKOFF_S;
	}
	drop_vgpud();
	return 0;
}
