/* SPDX-License-Identifier: MIT */
/*
 * The control thread, over its real sockets, with an engine on the quick GPU: every request has an
 * answer, however many there are; a change is made for the policy that is in force when its turn
 * comes. The test plays the clients, and turns the control thread's event loop between their
 * actions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builtin.h"
#include "change.h"
#include "client.h"
#include "control.h"
#include "events.h"
#include "lease.h"
#include "listen.h"
#include "log.h"
#include "machine.h"
#include "plugin.h"
#include "fake_nvml.h"
#include "gim_kernel.h"
#include "nvidia_kernel.h"
#include "quick_gpu.h"
#include "suite.h"
#include "vm.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

/* A deadline far beyond the time that any step here takes. */
#define PATIENCE (20 * VGPU_SEC)
#define REQUESTS 740u /* as many of the shortest as one read of the socket brings */
#define LONGEST (1u << 20)

static struct control control;
static struct config config;
static char dir[] = "/tmp/test-control.XXXXXX";

/* A client's connection, and the bytes of its next answer that have arrived. */
struct peer {
	int fd;
	size_t n;
	char text[LONGEST];
};

static struct peer one, other;

static void turn(void)
{
	event_base_loop(control.base, EVLOOP_NONBLOCK);
}

static void join(struct peer *p, const char *path)
{
	p->n = 0;
	p->fd = vgpu_socket_connect(path, 0);
	CU_ASSERT_FATAL(p->fd >= 0);
}

static void say(struct peer *p, const char *text)
{
	CU_ASSERT_EQUAL_FATAL(write(p->fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Returns the next answer, which the caller frees; NULL if none arrives before the deadline. */
static struct json_object *hear(struct peer *p)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	struct json_object *answer;
	char *end;
	ssize_t n;

	while (!(end = memchr(p->text, '\n', p->n))) {
		if (vgpu_now() > until || p->n == LONGEST)
			return NULL;
		turn();
		if (poll(&fd, 1, 1) <= 0)
			continue;
		n = read(p->fd, p->text + p->n, LONGEST - p->n);
		if (n <= 0)
			return NULL;
		p->n += (size_t)n;
	}
	*end = '\0';
	answer = json_tokener_parse(p->text);
	p->n -= (size_t)(end + 1 - p->text);
	memmove(p->text, end + 1, p->n);
	return answer;
}

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) ? value : NULL;
}

static const char *text_at(struct json_object *o, const char *key, const char *then)
{
	const char *text = json_object_get_string(get(get(o, key), then));

	return text ? text : "";
}

/* Returns whether the next answer is an error with this code and these words. */
static bool refused(struct peer *p, const char *code, const char *words)
{
	struct json_object *o = hear(p);
	bool is = strcmp(text_at(o, "error", "code"), code) == 0 &&
		  strstr(text_at(o, "error", "message"), words);

	if (!is)
		printf("\n  not %s '%s': %s\n", code, words, json_object_to_json_string(o));
	json_object_put(o);
	return is;
}

/* Returns whether the next answer is a result in which KEY is VALUE. */
static bool says(struct peer *p, const char *key, const char *value)
{
	struct json_object *o = hear(p);
	bool is = strcmp(text_at(o, "result", key), value) == 0;

	if (!is)
		printf("\n  %s is not %s: %s\n", key, value, json_object_to_json_string(o));
	json_object_put(o);
	return is;
}

/* Repeats a request until KEY is VALUE in its result. Returns false at the deadline. */
static bool comes_to_say(struct peer *p, const char *request, const char *key, const char *value)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct json_object *o;
	bool is = false;

	while (!is && vgpu_now() < until) {
		say(p, request);
		o = hear(p);
		is = strcmp(text_at(o, "result", key), value) == 0;
		json_object_put(o);
	}
	return is;
}

static void begin_with(struct gpu_config *gpu, const struct engine_config *engine_config)
{
	struct engine *engine;
	struct vgpu_error err = {""};

	snprintf(config.socket, sizeof(config.socket), "%s/control", dir);
	snprintf(config.hook_socket, sizeof(config.hook_socket), "%s/hook", dir);
	snprintf(config.leases, sizeof(config.leases), "%s/leases", dir);
	snprintf(config.live, sizeof(config.live), "%s/live", dir);
	config.lease_s = 60;
	memcpy(gpu->params, engine_config->begin.params, sizeof(gpu->params));
	memcpy(gpu->vf_params, engine_config->begin.vf_params, sizeof(gpu->vf_params));
	CU_ASSERT_EQUAL_FATAL(control_start(&control, &config, &err), 0);
	CU_ASSERT_EQUAL_FATAL(engine_start(&engine, engine_config, &err), 0);
	CU_ASSERT_EQUAL_FATAL(control_add(&control, gpu, engine), 0);
	join(&one, config.socket);
	join(&other, config.socket);
}

static void begin(const char *policy)
{
	static struct gpu_config gpu = {.name = "gpu0", .device = "quick:", .vfs = QUICK_VFS};
	struct engine_config engine_config;

	quick_reset();
	gpu.ops = vgpu_builtin_policy(policy);
	quick_config(&engine_config, gpu.ops);
	begin_with(&gpu, &engine_config);
}

static void end(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;

	/* Calls that vgpud itself made may be under way; each of them must end. */
	while (control.calls && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(control.calls);
	CU_ASSERT_EQUAL(control.gpus[0].under_way, 0);
	close(one.fd);
	close(other.fd);
	control_stop(&control);
	unlink(config.leases);
	unlink(config.live);
}

/* As many requests as one read brings: each is answered under its id, with a result or with an
 * error that says why there is no result. */
static void every_request_is_answered(void)
{
	static char text[REQUESTS * 64];
	static bool had[REQUESTS];
	uint32_t i, k, n = 0, results = 0;
	struct json_object *o;

	begin("fair");
	memset(had, 0, sizeof(had));
	for (i = 0; i < REQUESTS; i++)
		n += (uint32_t)sprintf(text + n, "{\"method\":\"stats\",\"id\":%u}\n", i);
	say(&one, text);
	for (k = 0; k < REQUESTS; k++) {
		o = hear(&one);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		i = (uint32_t)json_object_get_int(get(o, "id"));
		CU_ASSERT_FATAL(i < REQUESTS && !had[i]);
		had[i] = true;
		results += get(o, "result") != NULL;
		if (!get(o, "result")) {
			CU_ASSERT_STRING_EQUAL(text_at(o, "error", "code"), "EAGAIN");
			CU_ASSERT_PTR_NOT_NULL(strstr(text_at(o, "error", "message"),
						      "of this connection are under way"));
		}
		json_object_put(o);
	}
	CU_ASSERT(results >= 16);
	CU_ASSERT_EQUAL(one.n, 0);
	say(&one, "{\"method\":\"gpu.show\"}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	end();
}

/* Hears N answers, and lets the peer go. Returns how many of them are refusals, for the reason WHY.
 */
static uint32_t count_refusals(struct peer *p, uint32_t n, const char *why)
{
	struct json_object *o;
	uint32_t refusals = 0;

	while (n-- > 0) {
		o = hear(p);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		if (!get(o, "result")) {
			refusals++;
			CU_ASSERT_STRING_EQUAL(text_at(o, "error", "code"), "EAGAIN");
			CU_ASSERT_PTR_NOT_NULL(strstr(text_at(o, "error", "message"), why));
		}
		json_object_put(o);
	}
	close(p->fd);
	free(p);
	return refusals;
}

/* Requests that only read fill the queue of an engine that does not answer. Some of them are
 * refused, with a message that says why; requests that change something wait and are carried
 * out. */
static void who_looks_does_not_keep_out(void)
{
	static struct peer *crowd[8];
	struct json_object *o;
	uint32_t i, k, refusals = 0;

	begin("fair");
	turn();
	quick_block();
	for (i = 0; i < 8; i++) {
		crowd[i] = calloc(1, sizeof(*crowd[i]));
		join(crowd[i], config.socket);
		for (k = 0; k < 10; k++)
			say(crowd[i], "{\"method\":\"stats\"}\n");
	}
	for (i = 0; i < 100; i++)
		turn();
	CU_ASSERT(control.gpus[0].under_way >= 40 && control.gpus[0].under_way < 64);
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"300\"}}}\n");
	for (i = 0; i < 20; i++)
		say(&other, "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n");
	turn();
	quick_unblock();
	CU_ASSERT(says(&one, "weight", "300"));
	for (i = 0; i < 8; i++)
		refusals += count_refusals(crowd[i], 10, "requests to gpu0 are under way");
	CU_ASSERT_EQUAL(refusals, 80 - 48);
	for (i = 0; i < 20; i++) {
		o = hear(&other);
		CU_ASSERT_PTR_NOT_NULL(get(o, i < 4 ? "error" : "result"));
		json_object_put(o);
	}
	end();
}

/* Changes from many connections, of which each may have 16 under way, fill the list of an engine
 * that does not answer. Those beyond it are refused with a message that says why; the others are
 * made when the engine answers again. */
static void changes_have_an_end(void)
{
	static struct peer *crowd[4];
	uint32_t i, k, refusals = 0;

	begin("fair");
	turn();
	quick_block();
	for (i = 0; i < 4; i++) {
		crowd[i] = calloc(1, sizeof(*crowd[i]));
		join(crowd[i], config.socket);
		for (k = 0; k < 15; k++)
			say(crowd[i], k % 2 ? "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n"
					    : "{\"method\":\"vf.set\",\"args\":{\"vf\":1,"
					      "\"params\":{\"weight\":\"300\"}}}\n");
	}
	for (i = 0; i < 100; i++)
		turn();
	quick_unblock();
	for (i = 0; i < 4; i++)
		refusals += count_refusals(crowd[i], 15, "48 changes of gpu0 are under way");
	CU_ASSERT_EQUAL(refusals, 60 - 48);
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"200\"}}}\n");
	CU_ASSERT(says(&one, "weight", "200"));
	end();
}

/* Connects, and makes a reader of the client that has come: the test is no other user. */
static void make_reader(struct peer *p)
{
	struct client *last;

	while (!control.clients || !control.clients->next)
		turn(); /* ONE and OTHER are there */
	last = control.clients;
	join(p, config.socket);
	while (control.clients == last)
		turn();
	control.clients->may_change = false;
}

/* Of a reader's requests, however many it sends, one is under way at a time; each gets its result.
 * Meanwhile root's are answered, and the reader changes nothing. */
static void one_at_a_time(void)
{
	static char text[REQUESTS * 64];
	static struct peer reader;
	struct json_object *o;
	uint32_t i, n = 0;

	begin("fair");
	make_reader(&reader);
	for (i = 0; i < REQUESTS; i++)
		n += (uint32_t)sprintf(text + n, "{\"method\":\"stats\",\"id\":%u}\n", i);
	say(&reader, text);
	for (i = 0; i < REQUESTS; i++) {
		o = hear(&reader);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		CU_ASSERT_EQUAL(json_object_get_int(get(o, "id")), (int32_t)i);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
		CU_ASSERT(control.gpus[0].for_readers <= 1);
		if (i % 100 == 0) {
			say(&one, "{\"method\":\"gpu.show\"}\n");
			CU_ASSERT(says(&one, "policy", "fair"));
		}
	}
	say(&reader, "{\"method\":\"vf.reset\",\"args\":{\"vf\":1}}\n");
	CU_ASSERT(refused(&reader, "EACCES", "only root may do this"));
	close(reader.fd);
	end();
}

/* Readers who go while their requests are under way leave their places, and their next requests
 * are not begun. */
static void gone(void)
{
	static struct peer readers[CLIENT_OF_USER];
	vgpu_nsec until;
	uint32_t i;

	begin("fair");
	turn();
	quick_block();
	for (i = 0; i < CLIENT_OF_USER; i++) {
		make_reader(&readers[i]);
		say(&readers[i], "{\"method\":\"stats\"}\n{\"method\":\"stats\"}\n");
	}
	until = vgpu_now() + PATIENCE;
	while (control.gpus[0].for_readers < CLIENT_OF_USER && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].for_readers, CLIENT_OF_USER);
	for (i = 0; i < CLIENT_OF_USER; i++)
		close(readers[i].fd);
	quick_unblock();
	while (control.clients != NULL && control.clients->next->next && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(control.calls);
	CU_ASSERT(control.clients->may_change && control.clients->next->may_change);
	end();
}

/* A reader with requests that the engine does not answer keeps no place from root's. */
static void readers_keep_nobody_out(void)
{
	static struct peer readers[CLIENT_OF_USER];
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct json_object *o;
	uint32_t i;

	begin("fair");
	turn();
	quick_block();
	for (i = 0; i < CLIENT_OF_USER; i++) {
		make_reader(&readers[i]);
		say(&readers[i], "{\"method\":\"stats\"}\n{\"method\":\"stats\"}\n");
	}
	while (control.gpus[0].for_readers < CLIENT_OF_USER && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].for_readers, CLIENT_OF_USER);
	for (i = 0; i < 16; i++)
		say(&one, "{\"method\":\"stats\"}\n");
	for (i = 0; i < 100; i++)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].for_readers, CLIENT_OF_USER);
	CU_ASSERT_EQUAL(control.gpus[0].under_way, CLIENT_OF_USER + 16);
	quick_unblock();
	for (i = 0; i < 16; i++) {
		o = hear(&one);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
	}
	for (i = 0; i < 2 * CLIENT_OF_USER; i++) {
		o = hear(&readers[i / 2]);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
	}
	for (i = 0; i < CLIENT_OF_USER; i++)
		close(readers[i].fd);
	end();
}

/* Makes VF 0 run, and not stop when it is asked to. */
static void keep_running(void)
{
	quick_stops(false);
	quick_busy(0, true);
	CU_ASSERT_FATAL(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "phase", "running"));
}

/* Several changes arrive in one read, and the first has to wait for its world switch. Each is made
 * for the policy that it will meet, none undoes another, and requests that only read are answered
 * meanwhile. */
static void changes_in_their_order(void)
{
	begin("fair");
	keep_running();
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"300\"}}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"slots\":\"3\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"params\":{\"idle\":\"donate\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"params\":{\"slice_us\":\"3000\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"policy\":\"prio\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"class\":\"2\"}}}\n");
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(refused(&one, "EINVAL", "policy strict: weight: no such parameter"));
	CU_ASSERT(says(&one, "slots", "3"));
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(says(&one, "policy", "strict"));
	/* The policy strict waits for its world switch, and prio waits for strict. */
	say(&other, "{\"method\":\"policy.show\"}\n{\"method\":\"gpu.show\"}\n{\"method\":\"vf."
		    "show\",\"args\":{\"vf\":1}}\n");
	CU_ASSERT(says(&other, "policy", "fair"));
	CU_ASSERT(says(&other, "next_policy", "strict"));
	json_object_put(hear(&other));
	quick_stops(true);
	CU_ASSERT(says(&one, "policy", "prio"));
	CU_ASSERT(says(&one, "class", "2"));
	CU_ASSERT(comes_to_say(&other, "{\"method\":\"policy.show\"}\n", "policy", "prio"));
	end();
}

/* A change that waits for another, which never takes effect, is refused after a time-out. The
 * change behind it is then carried out. */
static void waits_for_so_long(void)
{
	begin("fair");
	keep_running();
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"policy\":\"prio\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"slots\":\"3\"}}}\n");
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(refused(&one, "EBUSY", "another change of policy is under way"));
	CU_ASSERT(says(&one, "slots", "3"));
	quick_stops(true);
	end();
}

/* An evicted policy can be put back like any other. */
static void put_back(void)
{
	static const char *const ask =
		"{\"method\":\"policy.set\",\"args\":{\"policy\":\"hostile\"}}\n";
	struct vgpu_error err = {""};
	uint32_t i;

	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin_load(HOSTILE, &err));
	begin("fair");
	quick_busy(0, true);
	quick_busy(1, true);
	for (i = 1; i <= 3; i++) {
		char n[] = {(char)('0' + i), '\0'};

		say(&one, ask);
		CU_ASSERT(says(&one, "policy", "hostile"));
		CU_ASSERT(comes_to_say(&one, "{\"method\":\"stats\"}\n", "evictions", n));
		CU_ASSERT(comes_to_say(&one, "{\"method\":\"policy.show\"}\n", "policy", "equal"));
		say(&one, "{\"method\":\"gpu.show\"}\n");
		CU_ASSERT(says(&one, "evicted_policy", "hostile"));
	}
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	end();
}

/* A lease keeps the parameters of a VM's VF under policies that lack them. The next policy that
 * knows them gets them again, also when vgpud was restarted meanwhile. */
static void leases_remember(void)
{
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"u\","
		"\"domain\":\"d\",\"vf_name\":\"gpu\",\"params\":{\"weight\":\"300\"}}]\n";
	struct json_object *o;
	FILE *f;

	begin("fair");
	f = fopen(config.leases, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(saved, f);
	fclose(f);
	leases_load(&control);
	control_settle(&control);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->in_force.vf_params[1][0], 300);
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(says(&one, "policy", "equal"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "equal"));
	leases_save(&control);
	o = json_object_from_file(config.leases);
	CU_ASSERT_STRING_EQUAL(text_at(json_object_array_get_idx(o, 0), "params", "weight"), "300");
	json_object_put(o);
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[1][0], 300);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[2][0], 100);
	end();
}

#define VM_UUID "8a1f0b3c-0000-4000-8000-000000000001"
#define VM_XML                                                                                     \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>"                   \
	"<v:device gpu='gpu0' vf='1'/></v:vf></v:vgpu></metadata></domain>"

/* vgpud-libvirt reports that vm1 ran at an instant; returns how many VMs it is then asked about as
 * missing. */
static size_t sync_vm1(vgpu_nsec as_of)
{
	char text[1024];
	struct json_object *o;
	size_t missing;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.sync\",\"args\":{\"as_of_ns\":%llu,\"domains\":{\"" VM_UUID
		 "\":\"" VM_XML "\"}}}\n",
		 (unsigned long long)as_of);
	say(&one, text);
	o = hear(&one);
	missing = json_object_array_length(get(get(o, "result"), "missing"));
	json_object_put(o);
	return missing;
}

/* libvirt's list of its VMs is older than the end of one of them: that VM gets no lease, nor
 * another VF. */
static void a_list_older_than_the_end(void)
{
	const struct lease *l = &control.gpus[0].leases[1];
	vgpu_nsec before;

	begin("fair");
	CU_ASSERT_EQUAL(sync_vm1(vgpu_now()), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	before = vgpu_now();
	say(&other,
	    "{\"method\":\"hook\",\"args\":{\"operation\":\"release\",\"xml\":\"" VM_XML "\"}}\n");
	json_object_put(hear(&other));
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT_EQUAL(sync_vm1(before), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT_EQUAL(sync_vm1(vgpu_now()), 0); /* it runs again */
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	end();
}

#define NO_VM "8a1f0b3c-0000-4000-8000-000000000002"
#define CLAIM(vfs)                                                                                 \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>" vfs "</v:vgpu></metadata>"
#define UNCLAIMED "<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid>"
#define A "<v:vf name='a'><v:device gpu='gpu0' vf='1'/>"
#define HEAVY_A A "<v:sched><v:weight>300</v:weight></v:sched></v:vf>"
#define HEAVY "<v:vf name='a'><v:sched><v:weight>300</v:weight></v:sched></v:vf>"
#define HOSTDEV                                                                                    \
	"<devices><hostdev mode='subsystem' type='pci'><source><address domain='0x0000' "          \
	"bus='0x04' slot='0x10' function='0x2'/></source><alias name='ua-vgpud-a'/></hostdev>"     \
	"</devices>"
#define VF1 "0000:04:10.2"

/* Which libvirt calls, and whether the CPUs of its domains do not run. */
static const char *libvirt = "";
static bool paused;

/* Sends a call of libvirt's hook. */
static void hook(struct peer *p, const char *operation, const char *xml)
{
	char text[1400];

	snprintf(text, sizeof(text),
		 "{\"method\":\"hook\",\"args\":{\"operation\":\"%s\",\"host\":\"%s\",\"xml\":\"%"
		 "s\"}}"
		 "\n",
		 operation, libvirt, xml);
	say(p, text);
}

/* Returns whether the next answer is a result. */
static bool done(struct peer *p)
{
	struct json_object *o = hear(p);
	bool is = get(o, "result") != NULL;

	if (!is)
		printf("\n  no result: %s\n", json_object_to_json_string(o));
	json_object_put(o);
	return is;
}

/* Reports that libvirt runs one VM, with an XML or, if it is NULL, another VM. Returns how many
 * elements the list KEY of the answer has; the address in its first one is then in ADDRESS. */
static size_t sync_vm(const char *xml, const char *key, char address[32])
{
	char text[1400];
	struct json_object *o, *list;
	size_t n;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.sync\",\"args\":{\"as_of_ns\":%llu,\"host\":\"%s\",\"paused\":{%"
		 "s},"
		 "\"domains\":{\"%s\":\"%s\"}}}\n",
		 (unsigned long long)vgpu_now(), libvirt, paused ? "\"" VM_UUID "\":true" : "",
		 xml ? VM_UUID : NO_VM, xml ? xml : "");
	say(&one, text);
	o = hear(&one);
	list = get(get(o, "result"), key);
	CU_ASSERT_PTR_NOT_NULL_FATAL(list);
	n = json_object_array_length(list);
	address[0] = '\0';
	if (n && json_object_is_type(json_object_array_get_idx(list, 0), json_type_object))
		snprintf(address, 32, "%s",
			 json_object_get_string(
				 get(json_object_array_get_idx(list, 0), "address")));
	json_object_put(o);
	return n;
}

/* Begins with VFs that no tenant has: a reset ends the guest drivers of the quick GPU's. */
static void begin_free_with(const char *policy)
{
	char text[80];
	uint32_t vf;

	begin(policy);
	for (vf = 0; vf < QUICK_VFS; vf++) {
		snprintf(text, sizeof(text), "{\"method\":\"vf.reset\",\"args\":{\"vf\":%u}}\n",
			 vf);
		say(&one, text);
		CU_ASSERT(done(&one));
		snprintf(text, sizeof(text), "{\"method\":\"vf.show\",\"args\":{\"vf\":%u}}\n", vf);
		CU_ASSERT_FATAL(comes_to_say(&one, text, "state", "available"));
	}
}

static void begin_free(void)
{
	begin_free_with("fair");
}

static int64_t weight(uint32_t vf)
{
	return engine_policy(control.gpus[0].engine)->to_come.vf_params[vf][0];
}

static uint32_t n_leases(void)
{
	uint32_t vf, n = 0;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		n += control.gpus[0].leases[vf].state != LEASE_NONE;
	return n;
}

/* A claim for more memory than the GPU can free is refused with both sizes. The VFs that were tried
 * are free afterwards, for the next VM. */
static void too_little_memory(void)
{
	begin_free();
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:memory unit='MiB'>200</v:memory></v:vf>") "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "200 MiB are claimed; gpu0 can free at most"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RESERVED);
	CU_ASSERT_EQUAL(weight(1), 300);
	end();
}

/* Begins with a GPU that a driver of the host has. */
static void begin_gim(void)
{
	static struct gpu_config gpu = {.name = "gpu0", .device = "gim:" PF, .vfs = GIM_VFS};
	struct engine_config engine_config;
	uint32_t i;

	gpu.ops = vgpu_builtin_policy("fair");
	vgpu_param_defaults(gpu.ops->params, gpu.params);
	for (i = 0; i < GIM_VFS; i++)
		vgpu_param_defaults(gpu.ops->vf_params, gpu.vf_params[i]);
	config_to_engine(&gpu, &engine_config);
	engine_config.driver.layout = NULL;
	engine_config.realtime = false;
	begin_with(&gpu, &engine_config);
}

/* Waits until the first VF's slice is N times that of the last. */
static bool slices_come_to(uint32_t vf, uint32_t n)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	bool is = false;

	while (!is && vgpu_now() < until) {
		turn();
		reactive_lock();
		is = gim_slices[vf] == n * gim_slices[GIM_VFS - 1];
		reactive_unlock();
	}
	return is;
}

static FILE *log_file;
static int kept_stderr;

/* The log goes to a file from here on, until log_comes_to_say(). */
static void keep_log(void)
{
	kept_stderr = dup(STDERR_FILENO);
	log_file = tmpfile();
	CU_ASSERT_FATAL(log_file && kept_stderr >= 0 && dup2(fileno(log_file), STDERR_FILENO) >= 0);
}

/* Waits until the log has WORDS, for a while. Returns whether it has. */
static bool log_comes_to_say(const char *words)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	char text[8192];
	bool is = false;
	ssize_t n;

	while (!is && vgpu_now() < until) {
		turn();
		n = pread(fileno(log_file), text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		is = strstr(text, words) != NULL;
	}
	dup2(kept_stderr, STDERR_FILENO);
	close(kept_stderr);
	fclose(log_file);
	return is;
}

/* A GPU that a driver of the host has hides its guests and its memory. Its VFs can be claimed all
 * the same, but not one that a process without a lease uses. */
static void guests_hidden(void)
{
	make_gim_machine();
	begin_gim();
	/* What there is to ask has an answer. */
	say(&one, "{\"method\":\"memory.show\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"gpu.capacity\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"stats\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"gpu.show\"}\n");
	CU_ASSERT(says(&one, "governor", "static"));
	say(&one, "{\"method\":\"memory.plan\",\"args\":{\"vf\":0,\"mib\":64}}\n");
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "set the VFs' memory in the"));
	/* VF 0 is in use by a process that vgpud knows nothing of. */
	put_file("qemu\n", "/proc/%s/comm", "4711");
	put_file("", "/proc/%s/fd/0", "4711");
	point("/dev/vfio/50", "/proc/4711/fd/9");
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='0'/></v:vf>") "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "is used by qemu (pid 4711), which has no lease"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "prepare", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RESERVED);
	CU_ASSERT(slices_come_to(1, 3));
	hook(&one, "release", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 0);
	CU_ASSERT(slices_come_to(1, 1));
	CU_ASSERT(gim_resets[1] == 1 && gim_resets[0] == 0);
	/* Nothing repeats a reset that fails. */
	reactive_lock();
	gim_reset_error = -ENOTTY;
	reactive_unlock();
	keep_log();
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(log_comes_to_say("vf reset of VF 2 failed, and vgpud does not repeat it: run "
				   "'vgpuctl vf reset 2' before another VM gets the VF"));
	end();
	remove_gim_machine();
}

/* The library answers so from now on; whether gpu.show comes to say that what it shows is old, or
 * no more. */
static bool becomes_stale(struct fake_nvml *fake, int result)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct json_object *o;
	bool is = result == NVML_OK;

	pthread_mutex_lock(&fake->lock);
	fake->running = result;
	pthread_mutex_unlock(&fake->lock);
	while (is == (result == NVML_OK) && vgpu_now() < until) {
		say(&one, "{\"method\":\"gpu.show\"}\n");
		o = hear(&one);
		is = get(get(get(o, "result"), "declared"), "stale") != NULL;
		json_object_put(o);
	}
	return is;
}

/* A VM that vgpud has not admitted begins on VF 3; whether its guest comes to be seen. */
static bool vgpu_begins(struct fake_nvml *fake)
{
	nvidia_vm(4711, 3, VM_UUID);
	pthread_mutex_lock(&fake->lock);
	fake->vm_ids = NVML_VM_IS_UUID;
	fake->vgpus[0].id = 70;
	snprintf(fake->vgpus[0].vm, NVML_ID_SIZE, "%s", VM_UUID);
	fake->n_vgpus = 1;
	pthread_mutex_unlock(&fake->lock);
	return comes_to_say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":3}}\n", "state",
			    "active");
}

/* A GPU with policies of its own: what it does is shown, and what it has not is refused. */
static void policies_of_its_own(void)
{
	static struct gpu_config gpu = {.name = "gpu0",
					.device = "nvidia:" PF,
					.vfs = NVIDIA_VFS,
					.vgpu_type = NVIDIA_TYPE};
	struct fake_nvml *fake = dlsym(dlopen("libnvidia-ml.so.1", RTLD_NOW), "fake_nvml");
	struct engine_config engine_config;
	struct json_object *o, *list;

	CU_ASSERT_PTR_NOT_NULL_FATAL(fake);
	strcpy(fake->gpu, PF);
	fake->caps = (struct nvml_caps){.policies = {1, 2, 3},
					.has_arr = 1,
					.min_frequency = 63,
					.max_frequency = 960};
	fake->policy = NVML_BEST_EFFORT;
	fake->arr = NVML_ARR_ON;
	fake->n_log = 1;
	fake->entries[0] = (struct nvml_entry2){5, 700, 700, 3, 2000, 50, 9};
	make_nvidia_machine();
	gpu.ops = vgpu_builtin_policy("equal");
	vgpu_param_defaults(gpu.ops->params, gpu.params);
	config_to_engine(&gpu, &engine_config);
	engine_config.driver.layout = NULL;
	engine_config.realtime = false;
	begin_with(&gpu, &engine_config);
	say(&one, "{\"method\":\"gpu.show\"}\n");
	o = hear(&one);
	CU_ASSERT_STRING_EQUAL(text_at(o, "result", "scheduler"), "driver");
	list = get(get(o, "result"), "declared");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(get(list, "policy")), "equal");
	CU_ASSERT_EQUAL(json_object_get_int64(get(list, "slice_ns")), 2000000);
	CU_ASSERT(!json_object_get_boolean(get(list, "waits")) && !get(list, "trouble"));
	list = json_object_array_get_idx(get(list, "runlists"), 0);
	CU_ASSERT(json_object_get_int(get(list, "id")) == 3 &&
		  json_object_get_int(get(list, "run_ns")) == 700 &&
		  json_object_get_int(get(list, "preempt_ns")) == 50 &&
		  json_object_get_int(get(list, "weight")) == 9);
	json_object_put(o);
	say(&one, "{\"method\":\"timeline\"}\n");
	o = hear(&one);
	CU_ASSERT_STRING_EQUAL(text_at(o, "result", "scheduler"), "driver");
	json_object_put(o);
	/* While the library fails, what was seen last is shown as old. */
	CU_ASSERT(becomes_stale(fake, NVML_UNKNOWN));
	CU_ASSERT_FALSE(becomes_stale(fake, NVML_OK));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "choose strict (fixed share)"));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"policy.explain\",\"args\":{\"policy\":\"equal\"}}\n");
	o = hear(&one);
	list = json_object_array_get_idx(get(get(o, "result"), "vfs"), 0);
	CU_ASSERT_PTR_NOT_NULL(list);
	CU_ASSERT_PTR_NULL(get(list, "wait_bound_ns"));
	json_object_put(o);
	/* A VM takes a VF, and gives it back: its vGPU type stays. */
	hook(&one, "prepare", CLAIM("<v:vf name='a'/>") "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].state, LEASE_RESERVED);
	hook(&one, "release", CLAIM("<v:vf name='a'/>") "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(n_leases() == 0 && nvidia_types[0] == NVIDIA_TYPE);
	/* Its driver resets VFs, not vgpud. */
	CU_ASSERT(vgpu_begins(fake));
	keep_log();
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":3}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(log_comes_to_say("VF 3 was not reset: its vGPU still exists"));
	pthread_mutex_lock(&fake->lock);
	fake->n_vgpus = 0;
	pthread_mutex_unlock(&fake->lock);
	end();
	CU_ASSERT(fake->policy == NVML_FIXED_SHARE && fake->inits == fake->shutdowns);
	remove_nvidia_machine();
}

/* The hook disconnects while its reservation is under way, because libvirt has given the start up:
 * the VF is free again, with its usual parameters. */
static void hook_leaves(void)
{
	static struct peer hooked;
	vgpu_nsec until = vgpu_now() + PATIENCE;

	begin_free();
	join(&hooked, config.socket);
	turn();
	quick_block();
	hook(&hooked, "prepare", CLAIM(HEAVY_A "<v:vf name='b'/>") "</domain>");
	while (!control.calls && vgpu_now() < until)
		turn();
	close(hooked.fd);
	while (control.clients && control.clients->next && control.clients->next->next &&
	       vgpu_now() < until)
		turn();
	quick_unblock();
	while (control.calls && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(n_leases(), 0);
	CU_ASSERT_EQUAL(weight(1), 100);
	end();
}

/* A reservation whose VM does not start within lease_s ends. It stays until then, and when the VF
 * is in use by then: the VM runs, though no hook has said so. */
static void reservations_expire(void)
{
	struct lease *l = &control.gpus[0].leases[1];
	vgpu_nsec before;

	begin_free();
	before = vgpu_now();
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(l->expires >= before + 60 * VGPU_SEC && l->expires <= vgpu_now() + 60 * VGPU_SEC);
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RESERVED);
	l->expires = before;
	control.gpus[0].in_use = 2;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>"); /* ends the lease before it */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_RESERVED);
	l->expires = before;
	control.gpus[0].in_use = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(n_leases(), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 100);
	end();
}

/* What vgpud-libvirt reports of a running VM decides: a VF without a device in its XML is to be
 * attached; one that is no longer claimed, but has the device that vgpud-libvirt attached, is to be
 * detached; the VF of a VM that is gone is free. */
static void synced(void)
{
	const struct lease *l = &control.gpus[0].leases[1];
	char address[32];

	make_machine();
	point("../" VF1, PCI_DEVICES "/" PF "/virtfn1");
	begin("fair");
	strcpy(control.gpus[0].config->device, "pci:" PF);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "attach", address), 1);
	CU_ASSERT_STRING_EQUAL(address, VF1);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) HOSTDEV "</domain>", "attach", address), 0);
	CU_ASSERT_EQUAL(sync_vm(UNCLAIMED HOSTDEV "</domain>", "detach", address), 1);
	CU_ASSERT_STRING_EQUAL(address, VF1);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING); /* the VM still has the device */
	CU_ASSERT_EQUAL(sync_vm(UNCLAIMED "</domain>", "detach", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) HOSTDEV "</domain>", "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(NULL, "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	strcpy(control.gpus[0].config->device, "quick:");
	end();
	remove_machine();
}

/* A claim that was changed while its VM runs gets its parameters with the next report; one that the
 * policy refuses changes nothing. */
static void repaired(void)
{
	char address[32];

	begin("fair");
	CU_ASSERT_EQUAL(sync_vm(CLAIM(A "</v:vf>") "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 100);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM(A "<v:sched><v:weight>99999</v:weight></v:sched></v:vf>") "</domain>",
			"missing", address),
		0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT(strstr(control.gpus[0].leases[1].said, "99999") != NULL);
	CU_ASSERT_EQUAL(control.n_unreadable, 0);
	/* One that cannot be read is shown by the VM's name for as long as it stands. */
	sync_vm(CLAIM(A "<v:sched><v:weigth>7</v:weigth></v:sched></v:vf>") "</domain>", "missing",
		address);
	CU_ASSERT_EQUAL(control.n_unreadable, 1);
	CU_ASSERT_STRING_EQUAL(control.unreadable[0].domain, "vm1");
	CU_ASSERT_PTR_NOT_NULL(strstr(control.unreadable[0].why, "<weigth> is not known"));
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(control.n_unreadable, 0);
	CU_ASSERT_STRING_EQUAL(control.gpus[0].leases[1].said, "");
	end();
}

#define VFIO_USER                                                                                  \
	"<q:arg "                                                                                  \
	"value='{\\\"driver\\\":\\\"vfio-user-pci\\\",\\\"id\\\":\\\"ua-vgpu0\\\",\\\"socket\\\":" \
	"{\\\"path\\\":\\\"/run/softgpu/vf1.sock\\\"}}'/>"
#define COMMANDLINE(args)                                                                          \
	"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>" args                \
	"</q:commandline></domain>"

/* Whether vgpud has warned that the state of vm1's VF may be lost. */
static bool warns(const char *xml)
{
	char address[32];

	sync_vm(xml, "missing", address);
	return get(get(control.warned[CONTROL_MAY_LOSE_STATE], libvirt), VM_UUID) != NULL;
}

/* QEMU saves a VM without the state of a vfio-user device: vgpud warns of a VM that could be saved,
 * and refuses one that comes back so. */
static void state_of_vfio_user(void)
{
	static const char with[] = CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER);

	begin_free();
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) "</domain>"));
	CU_ASSERT(warns(with));
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) COMMANDLINE(
		VFIO_USER "<q:arg value='driver=vvfat,node-name=n,dir=/d,rw=on'/>")));
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) COMMANDLINE(
		VFIO_USER "<q:arg value='{\\\"driver\\\":\\\"vvfat\\\",\\\"rw\\\":true}'/>")));
	/* One that is read only can be migrated. */
	CU_ASSERT(warns(CLAIM(HEAVY_A)
				COMMANDLINE(VFIO_USER "<q:arg value='driver=vvfat,dir=/d'/>")));
	CU_ASSERT_FALSE(warns(UNCLAIMED COMMANDLINE(VFIO_USER)));
	hook(&one, "restore", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	hook(&one, "restore", with);
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "without the state of its VF"));
	hook(&one, "restore", UNCLAIMED COMMANDLINE(VFIO_USER));
	CU_ASSERT(done(&one));
	end();
}

/* HOST has not reported for longer than vgpud waits. */
static void be_silent(const char *host)
{
	uint32_t i;

	for (i = 0; i < LIBVIRTS; i++)
		if (strcmp(control.libvirts[i].host, host) == 0)
			control.libvirts[i].heard -= 181 * VGPU_SEC;
}

/* What vgpud shows of a libvirt's VMs stays while that libvirt reports, and no longer: it may have
 * been made anew, under another name. */
static void silent_libvirt(void)
{
	char address[32];

	begin_free();
	libvirt = "there";
	CU_ASSERT(warns(CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER)));
	libvirt = "then";
	sync_vm(CLAIM("<v:weight>1</v:weight>") "</domain>", "missing", address);
	libvirt = "here";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_PTR_NOT_NULL(get(control.warned[CONTROL_MAY_LOSE_STATE], "there"));
	CU_ASSERT_EQUAL(control.n_unreadable, 1);
	be_silent("there");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_PTR_NULL(get(control.warned[CONTROL_MAY_LOSE_STATE], "there"));
	CU_ASSERT_PTR_NULL(get(control.warned[CONTROL_UNADMITTED], "there"));
	CU_ASSERT_EQUAL(control.n_unreadable, 1);
	be_silent("then");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(control.n_unreadable, 0);
	CU_ASSERT_PTR_NOT_NULL(get(control.warned[CONTROL_MAY_LOSE_STATE], "here"));
	libvirt = "";
	end();
}

#define COMES(function, travel)                                                                    \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>"                                  \
	"<v:vf name='a'><v:sched><v:weight>300</v:weight></v:sched></v:vf></v:vgpu>" travel        \
	"</metadata><devices><hostdev mode='subsystem' type='pci'><source>"                        \
	"<address domain='0x0000' bus='0x04' slot='0x10' function='" function "'/></source>"       \
	"<alias name='ua-vgpud-a'/></hostdev></devices></domain>"
#define TRAVEL(owed)                                                                               \
	"<t:travel xmlns:t='urn:vgpud:xmlns:travel:1'><t:vf name='a' gpu='1234:5347:00' "          \
	"driver='xe-vfio-pci' memory='0' vfs='3' owed-us='" owed "'/></t:travel>"
#define INCOMING "{\"method\":\"vf.show\",\"args\":{\"vf\":1}}\n"

/* A machine with a GPU whose VF 1 has a driver that moves states. */
static void begin_movable(void)
{
	make_machine();
	function(VF1, "0x038000", "91");
	point("../" VF1, PCI_DEVICES "/" PF "/virtfn1");
	point("../../../bus/pci/drivers/xe-vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	put_file("0x00\n", PCI_DEVICES "/" PF "/revision");
	begin_free();
	config.incoming_s = 60;
	strcpy(control.gpus[0].config->device, "pci:" PF);
}

static void end_movable(void)
{
	control_settle(&control);
	strcpy(control.gpus[0].config->device, "quick:");
	libvirt = "";
	paused = false;
	end();
	remove_machine();
}

/* A VM comes from another host: its VF gets no turns until it resumes, and then owes what it owed.
 * What another libvirt reports changes nothing. */
static void incoming(void)
{
	struct lease *l = &control.gpus[0].leases[1];
	struct json_object *o, *devices;
	char address[32];

	begin_movable();
	libvirt = "here";
	hook(&one, "migrate", COMES("0x6", TRAVEL("40000")));
	o = hear(&one);
	devices = get(get(o, "result"), "devices");
	CU_ASSERT_EQUAL_FATAL(json_object_array_length(devices), 1);
	CU_ASSERT_STRING_EQUAL(json_object_get_string(
				       get(json_object_array_get_idx(devices, 0), "from")),
			       "0000:04:10.6");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(
				       get(json_object_array_get_idx(devices, 0), "to")),
			       VF1);
	json_object_put(o);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	hook(&one, "prepare", COMES("0x2", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	hook(&one, "started", COMES("0x2", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	paused = true;
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	hook(&one, "release", COMES("0x6", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	libvirt = "here";
	paused = false;
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	CU_ASSERT(comes_to_say(&one, INCOMING, "brought_ns", "40000000"));
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	/* "here" has not reported for long; but somebody has the VF */
	be_silent("here");
	put_file("1\n", PCI_DEVICES "/" VF1 "/enable");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	put_file("0\n", PCI_DEVICES "/" VF1 "/enable");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	/* it reports again, and its VM runs */
	libvirt = "here";
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "here";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	end_movable();
}

/* A VM that does not come leaves nothing behind; one that is not seen to resume gets its turns. The
 * wait outlives vgpud. */
static void not_resumed(void)
{
	struct lease *l = &control.gpus[0].leases[1];

	begin_movable();
	hook(&one, "restore", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	hook(&one, "release", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	CU_ASSERT_FATAL(comes_to_say(&one, INCOMING, "state", "available"));

	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	lease_clear(l);
	leases_load(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT_EQUAL(l->owed, 5 * VGPU_USEC);
	control.gpus[0].in_use = 2;
	l->expires = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT(l->expires > vgpu_now());
	l->resumes_by = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	/* libvirt refuses a second VM of that UUID, after the hook: the first one keeps its VF. */
	hook(&one, "migrate", COMES("0x6", ""));
	CU_ASSERT(refused(&one, "EBUSY", "domain vm1 is here already, and uses VF 1 of gpu0"));
	hook(&one, "restore", COMES("0x2", ""));
	CU_ASSERT(refused(&one, "EBUSY", "is here already"));
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(weight(1), 300);
	/* Its end was not reported: what comes ends its lease. */
	control.gpus[0].in_use = 0;
	hook(&one, "migrate", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	l->expires = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	/* A start of the VM that it is here, not a VM that comes. */
	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	end_movable();
}

/* The GPU is lost and comes back while a VM is on its way: its VF still waits for it. */
static void lost_meanwhile(void)
{
	const struct gpu *gpu = &control.gpus[0];
	vgpu_nsec until = vgpu_now() + PATIENCE;

	begin_movable();
	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	quick_present(false);
	while (!gpu->trouble && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NOT_NULL(gpu->trouble);
	quick_present(true);
	while (gpu->trouble && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(gpu->trouble);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	CU_ASSERT_EQUAL(gpu->leases[1].state, LEASE_INCOMING);
	hook(&one, "release", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	end_movable();
}

/* A state goes only to a VF that can take it over. */
static void misfits(void)
{
	begin_movable();
	point("../../../bus/pci/drivers/vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	hook(&one, "migrate", COMES("0x2", TRAVEL("0")));
	CU_ASSERT(refused(&one, "EBUSY", "does not move their state"));
	point("../../../bus/pci/drivers/xe-vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	put_file("0x01\n", PCI_DEVICES "/" PF "/revision");
	hook(&one, "migrate", COMES("0x2", TRAVEL("0")));
	CU_ASSERT(refused(&one, "EBUSY", "and gpu0 is 1234:5347:01"));
	hook(&one, "migrate", COMES("0x2", TRAVEL("-1")));
	CU_ASSERT(refused(&one, "EINVAL", "no usable owed-us"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "migrate", CLAIM(HEAVY_A) "</domain>"); /* it brings no device */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 0);
	end_movable();
}

/* vgpud is restarted while a VM runs with two VFs, one of which is no longer configured: the other
 * stays the VM's, and the VM is reported as lacking one. */
static void one_of_two(void)
{
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"" VM_UUID "\","
		"\"domain\":\"vm1\",\"vf_name\":\"a\",\"params\":{\"weight\":\"300\"}},"
		"{\"gpu\":\"gpu0\",\"vf\":5,\"state\":\"running\",\"uuid\":\"" VM_UUID "\","
		"\"domain\":\"vm1\",\"vf_name\":\"b\",\"params\":{}}]\n";
	char address[32];
	FILE *f;

	begin("fair");
	f = fopen(config.leases, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(saved, f);
	fclose(f);
	leases_load(&control);
	control_settle(&control);
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(weight(1), 300);
	hook(&other, "started",
	     CLAIM(HEAVY_A "<v:vf name='b'><v:device gpu='gpu0' vf='5'/></v:vf>") "</domain>");
	CU_ASSERT(done(&other));
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM(HEAVY_A
			      "<v:vf name='b'><v:device gpu='gpu0' vf='5'/></v:vf>") "</domain>",
			"missing", address),
		1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RUNNING);
	end();
}

#define SHARE(percent) A "<v:sched><v:share min='" percent "'/></v:sched></v:vf>"
#define WEIGHT(w) A "<v:sched><v:weight>" w "</v:weight></v:sched></v:vf>"

/* Asks whether vm1 may have a changed claim. */
static void check_claim(const char *xml, const char *vfs, bool next_start)
{
	char text[2000];

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.check\",\"args\":{\"xml\":\"%s\",\"claim\":\""
		 "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>%s</v:vgpu>\","
		 "\"next_start\":%s}}\n",
		 xml, vfs, next_start ? "true" : "false");
	say(&one, text);
}

/* A claim that would be refused is refused before it is written, and a check changes nothing:
 * values out of range, guarantees beyond the GPU, and, for a VM that runs, guarantees beyond what
 * the others leave. */
static void checked_first(void)
{
	static const char xml[] = CLAIM(A "</v:vf>") "</domain>";
	static const char broken[] = CLAIM(A "<v:weigth/></v:vf>") "</domain>";
	int64_t before[VGPU_MAX_PARAMS];
	char address[32];

	begin("qos");
	CU_ASSERT_EQUAL(sync_vm(xml, "missing", address), 0);
	control_settle(&control);
	memcpy(before, engine_policy(control.gpus[0].engine)->to_come.vf_params[1], sizeof(before));
	check_claim(xml, WEIGHT("0"), false);
	CU_ASSERT(refused(&one, "EINVAL", "line 1: <weight>: '0' is not a whole number above 0"));
	check_claim(xml, A "<v:sched><v:param name='weight' value='0'/></v:sched></v:vf>", false);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: gpu0: policy qos: weight = 0: want 1 to"));
	check_claim(xml, A "<v:sched><v:param name='weigth' value='3'/></v:sched></v:vf>", true);
	CU_ASSERT(refused(&one, "EINVAL", "weigth: no such parameter"));
	check_claim(xml, A "<v:sched policy='fair'/></v:vf>", true);
	CU_ASSERT(refused(&one, "EINVAL", "gpu0 has policy qos, but the claim wants fair"));
	check_claim(xml, "<v:vf name='a'><v:device gpu='gpu7'/></v:vf>", true);
	CU_ASSERT(refused(&one, "ENOENT", "vm1/a: there is no GPU for it"));
	check_claim(xml, SHARE("100"), true);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: policy qos: "));
	check_claim(xml, SHARE("50"), true);
	CU_ASSERT(done(&one));
	say(&one,
	    "{\"method\":\"vf.set\",\"args\":{\"vf\":0,\"params\":{\"min_ppm\":\"600000\"}}}\n");
	CU_ASSERT(done(&one));
	check_claim(xml, SHARE("50"), true);
	CU_ASSERT(done(&one));
	check_claim(xml, SHARE("50"), false);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: policy qos: "));
	check_claim(broken, WEIGHT("7"), false); /* a claim that cannot be read can be mended */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(memcmp(&engine_policy(control.gpus[0].engine)->to_come.vf_params[1], before,
			       sizeof(before)),
			0);
	end();
}

/* A figure of the shares of gpu.capacity. */
static int64_t share_of(const char *name)
{
	struct json_object *o;
	int64_t value;

	say(&one, "{\"method\":\"gpu.capacity\"}\n");
	o = hear(&one);
	value = json_object_get_int64(get(get(get(o, "result"), "shares"), name));
	json_object_put(o);
	return value;
}

/* Guarantees VF a share, per mille. Returns whether it is admitted. */
static bool guarantee(uint32_t vf, int64_t share)
{
	struct json_object *o;
	char text[120];
	bool is;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vf.set\",\"args\":{\"vf\":%u,\"params\":{\"min_ppm\":\"%lld\"}}}\n",
		 vf, (long long)share * 1000);
	say(&one, text);
	o = hear(&one);
	is = get(o, "result") != NULL;
	json_object_put(o);
	return is;
}

/* The largest share that is offered is admitted, and no larger one, also where little more is left
 * than the least that there is. */
static void offers(void)
{
	static struct gpu_config gpu = {.name = "gpu0",
					.device = "quick:",
					.vfs = QUICK_VFS,
					.min_slice_us = 500,
					.grace_ms = 50,
					.window_max_ms = 500,
					.lone_slice_ms = 100,
					.debt_cap_ms = 100};
	int64_t least, most, had, now, offered = 0;
	struct engine_config engine_config;

	quick_reset();
	gpu.ops = vgpu_builtin_policy("qos");
	quick_config(&engine_config, gpu.ops);
	begin_with(&gpu, &engine_config);
	/* VF 0 has no guest any more: it can be given to a VM. */
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":0}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.capacity\"}\n", "free_vfs", "1"));
	least = share_of("least");
	most = share_of("most");
	CU_ASSERT_FATAL(least > 1 && most > 300);
	for (had = most - 300; had <= most; had += least / 2 + 1) {
		CU_ASSERT_FATAL(guarantee(QUICK_VFS - 1, had));
		now = share_of("largest_free");
		offered += now >= least && now < 2 * least;
		if (now > 0)
			CU_ASSERT(guarantee(0, now));
		CU_ASSERT_FALSE(guarantee(0, now > 0 ? now + 1 : least));
		CU_ASSERT(guarantee(0, 0));
	}
	CU_ASSERT(offered > 0);
	end();
}

static void write_file(const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

static void set_weight(const char *more)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "{\"method\":\"vf.set\",\"args\":{\"vf\":2,\"params\":{\"weight\":\"70\"}%s}}\n",
		 more);
	say(&one, text);
}

/* A change of a VF that is not saved is in the file of live changes, until the VF is leased or the
 * change is saved. It is saved only if the configuration reads back with it. */
static void kept_or_saved(void)
{
	static const char *const files[] = {"conf.d/zzz.conf", "conf.d/zz-saved.conf", "conf",
					    "conf.d"};
	char address[32], path[300];
	struct json_object *o;
	size_t i;

	begin("fair");
	set_weight("");
	CU_ASSERT(says(&one, "weight", "70"));
	o = json_object_from_file(config.live);
	CU_ASSERT_EQUAL(json_object_array_length(o), 1);
	CU_ASSERT_STRING_EQUAL(text_at(json_object_array_get_idx(o, 0), "params", "weight"), "70");
	json_object_put(o);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='2'/></v:vf>") "</domain>",
			"missing", address),
		0);
	CU_ASSERT(access(config.live, F_OK) < 0);
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EBUSY", "VF 2 of gpu0 belongs to VM vm1"));
	sync_vm(NULL, "missing", address);
	control_settle(&control);
	snprintf(config.file, sizeof(config.file), "%s/conf", dir);
	write_file("conf", "[gpu gpu0]\ndevice = null:\n");
	set_weight(",\"save\":true,\"reason\":\"test\"");
	CU_ASSERT(says(&one, "weight", "70"));
	CU_ASSERT(access(config.live, F_OK) < 0);
	CU_ASSERT_EQUAL(control.gpus[0].config->vf_params[2][0], 70);
	write_file("conf.d/zzz.conf", "[vf gpu0/2]\nweight = 9\n");
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EEXIST", "a drop-in that is read after zz-saved.conf"));
	write_file("conf", "[gpu gpu0]\n");
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EINVAL", "the configuration would be wrong"));
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		CU_ASSERT_EQUAL(remove(path), 0);
	}
	end();
}

static uint32_t makes, wrong, results[2];

/* Makes a change; the first WRONG attempts are for a policy that is no longer in force. */
static int make_late(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *gone = vgpu_builtin_policy("best-effort");
	struct policy_values then = *now;

	(void)err;
	then.policy = ++makes <= wrong ? gone : now->policy;
	memcpy(call->params, now->vf_params[call->vf], sizeof(call->params));
	change_set_vf(call, &then);
	return 0;
}

static void on_late(struct call *call)
{
	results[makes > 3] = (uint32_t)-call->request.result;
	if (call->request.result < 0)
		CU_ASSERT_PTR_NOT_NULL(strstr(call->request.why, "was replaced 4 times"));
	call_drop(call);
}

/* A change whose policy was replaced before it arrived is made again. After four attempts it is
 * refused. */
static void made_again(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct call *call;
	uint32_t i;

	begin("fair");
	for (i = 2; i <= 4; i += 2) {
		makes = 0;
		call = call_new(&control, &control.gpus[0]);
		call->vf = 1;
		wrong = i;
		call->then = on_late;
		change_begin(call, make_late);
		while (control.calls && vgpu_now() < until)
			turn();
		CU_ASSERT_EQUAL(makes, i == 2 ? 3 : 4);
	}
	CU_ASSERT_EQUAL(results[0], 0);
	CU_ASSERT_EQUAL(results[1], ESTALE);
	end();
}

/* A client whose credentials cannot be read is refused, and not taken for root. */
static void strangers(void)
{
	struct ucred peer = {.uid = 7};
	int fds[2], pair[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL(listen_peer(fds[0], &peer), -ENOTSOCK);
	CU_ASSERT_EQUAL(peer.uid, 7);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CU_ASSERT_EQUAL(listen_peer(pair[0], &peer), 0);
	CU_ASSERT_EQUAL(peer.uid, getuid());
	close(pair[0]);
	close(pair[1]);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0); /* has no peer credentials */
	CU_ASSERT(listen_peer(pair[0], &peer) < 0);
	close(pair[0]);
	close(fds[0]);
	close(fds[1]);
}

/* Requests that are JSON but lack what their method needs. */
static void not_wanted(void)
{
	static const char *const requests[][2] = {
		{"{\"method\":\"policy.set\",\"args\":{\"params\":{\"slice_us\":null}}}\n",
		 "slice_us = null: want a value"},
		{"{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":null}}}\n",
		 "weight = null: want a value"},
		{"{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":[1]}}}\n",
		 "weight = [ 1 ]: want"},
		{"{\"method\":\"policy.set\",\"args\":{\"policy\":null}}\n", "policy: want string"},
		{"{\"method\":\"policy.set\",\"args\":{\"params\":null}}\n", "params: want object"},
		{"{\"method\":null}\n", "method is missing"},
		{"null\n", "want one JSON object"},
	};
	size_t i;

	begin("fair");
	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		say(&one, requests[i][0]);
		CU_ASSERT(refused(&one, "EINVAL", requests[i][1]));
	}
	end();
}

/* A VM's claim decides about its VF: vf.set is refused, and says what to use. */
static void claims_decide(void)
{
	struct lease *l;

	begin("fair");
	l = &control.gpus[0].leases[1];
	snprintf(l->domain, sizeof(l->domain), "web");
	snprintf(l->vf_name, sizeof(l->vf_name), "a");
	l->state = LEASE_RESERVED;
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":200}}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "'vgpuctl vm set web a:weight=200'"));
	l->state = LEASE_NONE;
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":200}}}\n");
	CU_ASSERT(says(&one, "weight", "200"));
	end();
}

/* A name with control characters neither ends a line of the log nor begins one. */
static void one_line_each(void)
{
	char text[200] = "";
	int keep = dup(STDERR_FILENO);
	FILE *f = tmpfile();

	CU_ASSERT_FATAL(f && keep >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	log_line(LOG_INFO, "%s", "VM a\n<3>vgpud: VM b\r\033[2J: c");
	dup2(keep, STDERR_FILENO);
	close(keep);
	rewind(f);
	CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof(text), f));
	CU_ASSERT_STRING_EQUAL(text, "<6>vgpud: VM a?<3>vgpud: VM b??[2J: c\n");
	fclose(f);
}

/* One refusal of each kind that the quick GPU can make. */
static const struct {
	const char *operation; /* NULL: vm.extend */
	const char *xml, *code, *words;
	enum refusal_request request;
	enum refusal_reason reason;
} refusals[] = {
	{"prepare", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain",
	 REFUSAL_START, REFUSAL_CLAIM},
	{"start", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain", REFUSAL_START,
	 REFUSAL_CLAIM},
	{"migrate", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain",
	 REFUSAL_INCOMING, REFUSAL_CLAIM},
	{"restore", CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER), "EOPNOTSUPP", "without the state",
	 REFUSAL_INCOMING, REFUSAL_STATE},
	{"prepare", CLAIM("<v:vf name='a'><v:device pool='x'/></v:vf>") "</domain>", "EBUSY",
	 "there is no GPU in pool x", REFUSAL_START, REFUSAL_NO_GPU},
	{"prepare", CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='30'/></v:vf>") "</domain>",
	 "EBUSY", "no VF 30", REFUSAL_START, REFUSAL_NO_GPU},
	{"prepare", CLAIM("<v:vf name='a'><v:sched policy='fair'/></v:vf>") "</domain>", "EBUSY",
	 "the claim wants fair", REFUSAL_START, REFUSAL_POLICY},
	{"prepare", CLAIM("<v:vf name='a' alias='ua-x'/>") "</domain>", "EBUSY",
	 "has no <hostdev> with alias ua-x", REFUSAL_START, REFUSAL_DEVICE},
	{"prepare", CLAIM("<v:vf name='a'><v:memory unit='MiB'>200</v:memory></v:vf>") "</domain>",
	 "EBUSY", "200 MiB are claimed", REFUSAL_START, REFUSAL_MEMORY},
	{"prepare", CLAIM(SHARE("100")) "</domain>", "EBUSY", "policy qos: ", REFUSAL_START,
	 REFUSAL_TIME},
	{NULL, CLAIM(HEAVY_A) "</domain>", "EBUSY", "are not PCI devices", REFUSAL_ATTACH,
	 REFUSAL_DEVICE},
};

static uint64_t all_counted(void)
{
	const struct refusal_counts *c = &control.refusals;
	uint64_t sum = 0;
	uint32_t i, j;

	for (i = 0; i < REFUSAL_REQUESTS; i++) {
		sum += c->granted[i];
		for (j = 0; j < REFUSAL_REASONS; j++)
			sum += c->refused[i][j];
	}
	return sum;
}

static void ask(const char *method, const char *xml)
{
	char text[1400];

	snprintf(text, sizeof(text), "{\"method\":\"%s\",\"args\":{\"xml\":\"%s\"}}\n", method,
		 xml);
	say(&one, text);
}

/* Each refusal is counted once, under the reason that its sentence says, and nothing else is. */
static void reasons_counted(void)
{
	const struct refusal_counts *c = &control.refusals;
	uint64_t before, all;
	uint32_t i;

	begin_free_with("qos");
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		before = c->refused[refusals[i].request][refusals[i].reason];
		all = all_counted();
		if (refusals[i].operation)
			hook(&one, refusals[i].operation, refusals[i].xml);
		else
			ask("vm.extend", refusals[i].xml);
		CU_ASSERT(refused(&one, refusals[i].code, refusals[i].words));
		CU_ASSERT_EQUAL(c->refused[refusals[i].request][refusals[i].reason], before + 1);
		CU_ASSERT_EQUAL(all_counted(), all + 1);
	}
	/* vgpud-libvirt asks again and again for a VM that runs. Questions, ends and VMs without a
	 * claim are not counted. */
	all = all_counted();
	ask("vm.extend", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "are not PCI devices"));
	ask("vm.explain", CLAIM(SHARE("100")) "</domain>");
	CU_ASSERT(done(&one));
	hook(&one, "release", CLAIM("<v:fv/>") "</domain>");
	CU_ASSERT(refused(&one, "EINVAL", "<metadata> of the domain"));
	hook(&one, "prepare", UNCLAIMED "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(all_counted(), all);
	/* A VM gets its VF; the next one does not get the same. One that does not need it is
	 * refused it, too. */
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(c->granted[REFUSAL_START], 1);
	hook(&one, "start", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(all_counted(), all + 1);
	hook(&one, "prepare",
	     "<domain type='kvm'><name>vm2</name><uuid>" NO_VM
	     "</uuid><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' "
	     "required='no'>" HEAVY_A "</v:vgpu></metadata></domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(c->refused[REFUSAL_START][REFUSAL_NO_VF], 1);
	CU_ASSERT_EQUAL(all_counted(), all + 2);
	/* A lost GPU. */
	hook(&one, "release", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	quick_present(false);
	while (!control.gpus[0].trouble)
		turn();
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "gpu0 is lost"));
	CU_ASSERT_EQUAL(c->refused[REFUSAL_START][REFUSAL_GPU_LOST], 1);
	CU_ASSERT_EQUAL(all_counted(), all + 3);
	quick_present(true);
	end();
}

static const struct test tests[] = {
	{"every request is answered", every_request_is_answered},
	{"requests that only read do not block changes", who_looks_does_not_keep_out},
	{"changes of one GPU are limited over all connections", changes_have_an_end},
	{"a reader has one request at a time", one_at_a_time},
	{"readers who have gone leave their places", gone},
	{"readers' requests leave places to root's", readers_keep_nobody_out},
	{"changes are made in their order", changes_in_their_order},
	{"a change that waits too long is refused", waits_for_so_long},
	{"what is offered is admitted", offers},
	{"an evicted policy can be put back", put_back},
	{"a change for a replaced policy is made again", made_again},
	{"leases keep parameters across policies", leases_remember},
	{"a list of VMs that is older than a VM's end", a_list_older_than_the_end},
	{"a claim for too much memory leaves nothing reserved", too_little_memory},
	{"VFs of a GPU of the host can be claimed", guests_hidden},
	{"a GPU with policies of its own", policies_of_its_own},
	{"a hook that leaves takes its reservation along", hook_leaves},
	{"reservations end after lease_s", reservations_expire},
	{"VMs that come wait until they resume", incoming},
	{"VMs that do not come, or are not seen to resume", not_resumed},
	{"the GPU is lost while a VM comes", lost_meanwhile},
	{"states that do not fit", misfits},
	{"VFs are attached, detached and freed as libvirt's list says", synced},
	{"a changed claim of a running VM is applied", repaired},
	{"a VM whose VF has no state that is saved is reported", state_of_vfio_user},
	{"what is shown of a libvirt ends with its reports", silent_libvirt},
	{"refusals are counted by their reasons", reasons_counted},
	{"a changed claim is checked before it is written", checked_first},
	{"changes are kept over a crash, or saved", kept_or_saved},
	{"a VM keeps one of two VFs across a restart", one_of_two},
	{"a client without credentials is refused", strangers},
	{"vf.set is refused for a VM's VF", claims_decide},
	{"requests with unsuitable arguments are refused", not_wanted},
	{"a log message stays on one line", one_line_each},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct test *const tables[] = {tests, NULL};
	int r;

	if (!mkdtemp(dir))
		return 1;
	r = suite_main("control", tables, argc, argv);
	rmdir(dir);
	return r;
}
