/* SPDX-License-Identifier: MIT */
/*
 * The methods of the control socket and of libvirt's hook, with engines on two GPUs without a
 * device behind them: calls with any arguments, in any order, of root and of readers, over several
 * connections, some of which close before they are answered. Each call has one answer, a result or
 * an error that says why; a reader changes nothing; and nothing is under way at the end.
 */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/client.h"
#include "control.h"
#include "engine/engine.h"
#include "fuzz.h"
#include "vms/lease.h"
#include "methods/methods.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

#define MAX_CALLS 24u
/* Who calls: root and a reader on the control socket, and libvirt's hook. */
enum { ROOT, HOOK, READER, PEERS };
/* What waits for a time-out of vgpud's, 2 s for a policy and 8 s for memory, is answered by then.
 */
#define PATIENCE (20 * VGPU_SEC)
#define LONGEST (8u << 20)

static struct control control;
static struct config config;
static char dir[64];

static struct peer {
	int fd;
	uint32_t sent, had;
	bool changes[MAX_CALLS]; /* by its id, whether a call is of a method that changes things */
	char *text;
	size_t n;
} peers[PEERS];

static const char domain[] =
	"<domain type='kvm'><name>vm%u</name><uuid>8a1f0b3c-0000-4000-8000-00000000000%u</uuid>"
	"<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>%s</v:vf>"
	"<v:vf name='b'/></v:vgpu></metadata></domain>";
static const char *const inside[] = {"",
				     "<v:memory unit='MiB'>64</v:memory>",
				     "<v:device gpu='gpu1'/>",
				     "<v:device gpu='gpu0' vf='2'/>",
				     "<v:sched><v:weight>300</v:weight></v:sched>",
				     "<v:sched><v:param name='slots' value='2'/></v:sched>",
				     "<v:profile>p</v:profile>",
				     "<v:memory unit='GiB'>4</v:memory>"};
static const char *const texts[] = {"gpu0",    "gpu1",	    "",	       "fair",
				    "strict",  "equal",	    "prio",    "nobody",
				    "prepare", "start",	    "started", "stopped",
				    "release", "reconnect", "migrate", "-"};
static const char *const params[][2] = {{"weight", "300"},  {"slots", "2"},
					{"class", "3"},	    {"slice_us", "3000"},
					{"idle", "donate"}, {"min_ppm", "1000"},
					{"budget_us", "1"}, {"none", "x"}};

static void end_control(void)
{
	control_stop(&control);
	unlink(config.leases);
	rmdir(dir);
}

static void begin_control(void)
{
	static const char text[] = "[daemon]\nsocket = %s/control\nhook_socket = %s/hook\n"
				   "leases = %s/leases\nlease_s = 60\n"
				   "[gpu gpu0]\ndevice = null:memory_mib=512\nvfs = 3\n"
				   "policy = fair\nrealtime = no\n"
				   "[gpu gpu1]\ndevice = null:memory_mib=512,busy=1\nvfs = 4\n"
				   "policy = strict\nrealtime = no\n"
				   "[profile p]\nmemory_mib = 32\nweight = 200\n";
	struct vgpu_error err = {.text = ""};
	struct engine_config engine_config;
	struct engine *engine;
	char path[80];
	uint32_t i;
	FILE *f;

	strcpy(dir, "/tmp/fuzz-methods.XXXXXX");
	HOLDS(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/conf", dir);
	f = fopen(path, "w");
	HOLDS(f);
	fprintf(f, text, dir, dir, dir);
	fclose(f);
	HOLDS(config_read(&config, path, stderr) == 0);
	unlink(path);
	HOLDS(control_start(&control, &config, &err) == 0);
	for (i = 0; i < config.n_gpus; i++) {
		config_to_engine(&config.gpus[i], &engine_config);
		HOLDS(engine_start(&engine, &engine_config, &err) == 0);
		HOLDS(control_add(&control, &config.gpus[i], engine) == 0);
	}
}

static void check(struct peer *p, struct json_object *answer, bool is_reader)
{
	int64_t id = json_object_get_int64(json_object_object_get(answer, "id"));
	struct json_object *error = json_object_object_get(answer, "error");
	const char *code = json_object_get_string(json_object_object_get(error, "code"));

	HOLDS(json_object_is_type(answer, json_type_object) && id >= 0 && id < p->sent);
	HOLDS((error == NULL) == json_object_object_get_ex(answer, "result", NULL));
	HOLDS(!error || json_object_get_string_len(json_object_object_get(error, "message")) > 0);
	HOLDS(!error || (code && code[0] == 'E'));
	HOLDS(!is_reader || !p->changes[id] || (code && strcmp(code, "EACCES") == 0));
	p->had++;
	HOLDS(p->had <= p->sent);
}

/* Lets the control thread's loop turn once, and receives what it has sent, waiting for that so
 * long. */
static void turn(int wait_ms)
{
	struct pollfd fds[PEERS];
	struct json_object *answer;
	char *end;
	ssize_t n;
	uint32_t i;

	event_base_loop(control.base, EVLOOP_NONBLOCK);
	for (i = 0; i < PEERS; i++)
		fds[i] = (struct pollfd){.fd = peers[i].fd, .events = POLLIN};
	poll(fds, PEERS, wait_ms);
	for (i = 0; i < PEERS; i++) {
		struct peer *p = &peers[i];

		if (p->fd < 0 || !fds[i].revents)
			continue;
		n = read(p->fd, p->text + p->n, LONGEST - p->n);
		HOLDS(n > 0); /* vgpud does not close it */
		p->n += (size_t)n;
		while ((end = memchr(p->text, '\n', p->n))) {
			*end = '\0';
			answer = json_tokener_parse(p->text);
			check(p, answer, i == READER);
			json_object_put(answer);
			p->n -= (size_t)(end + 1 - p->text);
			memmove(p->text, end + 1, p->n);
		}
	}
}

static void join(uint32_t who)
{
	struct peer *p = &peers[who];
	uint32_t i;

	p->fd = vgpu_socket_connect(who == HOOK ? config.hook_socket : config.socket,
				    SOCK_NONBLOCK);
	HOLDS(p->fd >= 0);
	p->sent = p->had = 0;
	p->n = 0;
	for (i = 0; i < 3; i++)
		turn(0);
	/* Only another user would be a reader: makes one of the client that has just come. */
	HOLDS(control.clients);
	control.clients->may_change = who != READER;
}

static struct json_object *any_text(struct input *in)
{
	char text[1024];
	uint64_t how = input_number(in, 1), which = input_number(in, 1);

	if (how % 4 == 0) {
		snprintf(text, sizeof(text), domain, (unsigned)which % 3, (unsigned)which % 3,
			 inside[which / 3 % 8]);
		return json_object_new_string(text);
	}
	if (how % 4 == 1) {
		input_bytes(in, text, which % 64);
		return json_object_new_string_len(text, (int)(which % 64));
	}
	return json_object_new_string(texts[which % 16]);
}

static struct json_object *any_object(struct input *in)
{
	struct json_object *o = json_object_new_object();
	uint64_t n = input_number(in, 1) % 4, which;
	char uuid[48];

	while (n-- > 0) {
		which = input_number(in, 1);
		if (which & 128) {
			snprintf(uuid, sizeof(uuid), "8a1f0b3c-0000-4000-8000-00000000000%u",
				 (unsigned)which % 3);
			json_object_object_add(o, uuid, any_text(in));
		} else if (which & 64) {
			json_object_object_add(o, params[which % 8][0],
					       which & 32 ? NULL
							  : json_object_new_int64((int64_t)which));
		} else {
			json_object_object_add(o, params[which % 8][0],
					       json_object_new_string(params[which % 8][1]));
		}
	}
	return o;
}

static struct json_object *any_value(struct input *in, const struct arg *arg)
{
	int64_t number;

	switch (arg->type) {
	case ARG_STRING:
		return any_text(in);
	case ARG_INT:
		number = (int64_t)input_number(in, 1);
		/* mostly small numbers, as VFs and sizes are */
		return json_object_new_int64(number < 200 ? number % 48
							  : (int64_t)input_number(in, 8));
	case ARG_OBJECT:
		return any_object(in);
	default:
		return json_object_new_boolean((int)input_number(in, 1) & 1);
	}
}

static void call(struct input *in, struct peer *p)
{
	struct json_object *root = json_object_new_object(), *args = json_object_new_object();
	const struct method *method;
	const char *text;
	uint64_t which, n = 0, given = input_number(in, 1);
	unsigned i;

	while (methods[n].name)
		n++;
	which = input_number(in, 1) % n;
	method = &methods[which];
	for (i = 0; method->args[i].name; i++)
		if (strcmp(method->args[i].name, "host") == 0 && !(given >> i & 1))
			json_object_object_add(args, "host", json_object_new_string("here"));
		else if (method->args[i].required || (given >> i & 1))
			json_object_object_add(args, method->args[i].name,
					       any_value(in, &method->args[i]));
	p->changes[p->sent] = method->access == ACCESS_CHANGE;
	json_object_object_add(root, "id", json_object_new_int64((int64_t)p->sent));
	json_object_object_add(root, "method", json_object_new_string(method->name));
	json_object_object_add(root, "args", args);
	text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN);
	HOLDS(write(p->fd, text, strlen(text)) == (ssize_t)strlen(text));
	HOLDS(write(p->fd, "\n", 1) == 1);
	p->sent++;
	json_object_put(root);
}

static bool is_over(void)
{
	uint32_t i;

	for (i = 0; i < PEERS; i++)
		if (peers[i].had < peers[i].sent)
			return false;
	return !control.calls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	vgpu_nsec until;
	uint32_t i, k;

	signal(SIGPIPE, SIG_IGN); /* as vgpud does */
	begin_control();
	for (i = 0; i < PEERS; i++) {
		if (!peers[i].text)
			peers[i].text = malloc(LONGEST);
		peers[i].fd = -1;
	}
	for (i = 0; i < PEERS; i++)
		join(i);
	for (i = 0; i < MAX_CALLS && in.left > 0; i++) {
		uint64_t what = input_number(&in, 1);
		struct peer *p = &peers[what % PEERS];

		call(&in, p);
		for (k = what / PEERS % 8; k > 0; k--)
			turn(0);
		if (what < 240)
			continue;
		close(p->fd); /* before it has its answers */
		join(what % PEERS);
	}
	until = vgpu_now() + PATIENCE;
	while (!is_over()) {
		HOLDS(vgpu_now() < until);
		turn(1);
	}
	for (i = 0; i < control.n_gpus; i++)
		HOLDS(control.gpus[i].calls.under_way == 0 && !control.gpus[i].changes.first);
	for (i = 0; i < PEERS; i++)
		close(peers[i].fd);
	end_control();
	return 0;
}
