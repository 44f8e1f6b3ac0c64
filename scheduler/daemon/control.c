/* SPDX-License-Identifier: MIT */
#include "control.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/change.h"
#include "control/client.h"
#include "control/door.h"
#include "events.h"
#include "control/listen.h"
#include "vms/lease.h"
#include "control/log.h"
#include "vms/memory_methods.h"
#include "methods/methods.h"
#include "tenants/explained.h"
#include "tenants/tenant.h"
#include "control/service.h"
#include "vms/vm.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

#define MAX_CALLS 16u /* requests in progress of each client of root */

#define SETTLE_TIMEOUT (5 * VGPU_SEC)

static void handle_line(struct client *client, const char *line)
{
	struct json_object *root = json_tokener_parse(line), *id = NULL, *name, *args = NULL;
	const struct method *method;
	struct vgpu_error err = {""};
	struct call *call;
	int r;

	if (!root || !json_object_is_type(root, json_type_object)) {
		call_refuse(client, NULL, -EINVAL, "want one JSON object on a line");
		json_object_put(root);
		return;
	}
	json_object_object_get_ex(root, "id", &id);
	if (!json_object_object_get_ex(root, "method", &name) ||
	    !json_object_is_type(name, json_type_string)) {
		call_refuse(client, id, -EINVAL, "method is missing");
		json_object_put(root);
		return;
	}
	json_object_object_get_ex(root, "args", &args);
	method = method_find(json_object_get_string(name));
	if (!method)
		r = vgpu_error_set(&err, -EINVAL, "%.64s: no such method; 'methods' lists them",
				   json_object_get_string(name));
	else if (method->access != ACCESS_ANY &&
		 (method->access == ACCESS_TENANT) != (client->at == CLIENT_TENANT))
		r = vgpu_error_set(&err, -EACCES, "%s: %s the socket for programs and containers",
				   method->name,
				   client->at == CLIENT_TENANT ? "not at" : "only at");
	else if (method->access == ACCESS_CHANGE && !client->may_change)
		r = vgpu_error_set(&err, -EACCES, "%s: only root may do this", method->name);
	else if (client->n_calls >= MAX_CALLS)
		r = vgpu_error_set(
			&err, -EAGAIN,
			"%u requests of this connection are under way; wait for an answer",
			client->n_calls);
	else
		r = method_check(method, args, &err);
	call = r == 0 ? calloc(1, sizeof(*call)) : NULL;
	if (r == 0 && !call)
		r = vgpu_error_set(&err, -ENOMEM, "out of memory");
	if (r < 0) {
		call_refuse(client, id, r, err.text);
		json_object_put(root);
		return;
	}
	*call = (struct call){
		.next = client->control->calls,
		.control = client->control,
		.client = client,
		.of_reader = !client->may_change,
		.id = json_object_get(id),
		.args = json_object_get(args),
		.method = method,
	};
	client->control->calls = call;
	client->n_calls++;
	r = method->begin(client->control, call, &err);
	if (r < 0) {
		call_refuse(client, id, r, err.text);
		call_drop(call);
	}
	json_object_put(root);
}

/* Calls of a disconnected client continue. */
static void forget(struct client *client)
{
	struct call *call;

	for (call = client->control->calls; call; call = call->next)
		if (call->client == client)
			call->client = NULL;
}

static const struct client_ops client_ops = {handle_line, forget};

/* Returns whether GROUP is the peer's group or one of its supplementary groups. */
static bool in_group(int fd, gid_t gid, unsigned group)
{
	gid_t groups[256];
	socklen_t size = sizeof(groups), i;

	if (group == (unsigned)-1 || gid == group)
		return group != (unsigned)-1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (i = 0; i < size / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

/* Sends the reason to a peer without access, and closes the connection. The socket is new, so the
 * text fits. */
static void turn_away(int fd, const char *in, const char *group)
{
	dprintf(fd,
		"{\"id\":null,\"error\":{\"code\":\"EACCES\",\"message\":\"permission denied: you "
		"are not %s%s\"}}\n",
		in, group);
	vgpu_untrusted_close(&fd);
}

/* Takes over a connection. Returns whether its peer may make changes. */
static bool admit(struct control *control, int fd, enum client_at at)
{
	struct caller who = {.pidfd = -1};
	struct ucred peer;
	bool known = listen_peer(fd, &peer) == 0, may_change;

	may_change = known && caller_is_root(fd, peer.uid);
	who.uid = peer.uid;
	if (may_change || (known && at == CLIENT_CONTROL && peer.uid != 0 &&
			   in_group(fd, peer.gid, control->doors.group)))
		client_add(control, fd, &who, at, may_change, &client_ops);
	else if (at == CLIENT_HOOK)
		turn_away(fd, "root", "");
	else
		turn_away(fd, "in group ", control->config->group);
	return may_change;
}

static bool admit_client(int fd, void *control)
{
	return admit(control, fd, CLIENT_CONTROL);
}

static bool admit_hook(int fd, void *control)
{
	return admit(control, fd, CLIENT_HOOK);
}

/* A caller who asks for a program or a container is a reader in all other respects: its lines wait
 * for the readers' share. */
static bool admit_tenant(int fd, void *data)
{
	struct control *control = data;
	struct caller who;

	if (caller_read(fd, &who) < 0) {
		turn_away(fd, "known to the kernel", "");
		return false;
	}
	if (who.owner != (uid_t)-1 &&
	    (who.is_root || (who.uid != 0 && in_group(fd, who.gid, control->doors.tenant_group)))) {
		client_add(control, fd, &who, CLIENT_TENANT, false, &client_ops);
		return who.is_root;
	}
	vgpu_close(&who.pidfd);
	turn_away(fd, "in group ", control->config->tenant_group);
	return false;
}

static bool shed(void *control)
{
	return client_shed(control);
}

static const struct door_ops door_ops = {admit_client, shed}, hook_door_ops = {admit_hook, shed},
			     tenant_door_ops = {admit_tenant, shed};

static void on_tick(evutil_socket_t, short, void *data)
{
	struct control *control = data;
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++) {
		events_take(&control->gpus[i]);
		events_trouble(&control->gpus[i]);
		events_said(&control->gpus[i]);
		change_run(&control->gpus[i]);
	}
	tenants_look(control);
}

static void tell_service(struct control *control)
{
	uint32_t i, vf, vms = 0, lost = 0;
	bool alive = true;
	char state[24] = "running", text[80];

	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];

		alive &= engine_is_alive(gpu->engine);
		lost += engine_trouble(gpu->engine) != NULL;
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			vms += gpu->leases[vf].state != LEASE_NONE;
	}
	if (lost)
		snprintf(state, sizeof(state), "%u lost", lost);
	snprintf(text, sizeof(text), "%u GPU%s, %s; %u VF%s VMs", control->n_gpus,
		 control->n_gpus == 1 ? "" : "s", state, vms,
		 vms == 1 ? " belongs to" : "s belong to");
	/* If an engine thread hangs, vgpud stops feeding the watchdog, and systemd restarts it. */
	if (alive)
		service_alive(text);
}

static void on_second(evutil_socket_t, short, void *data)
{
	struct control *control = data;
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];

		events_second(gpu);
		memory_retry(gpu);
	}
	vm_expire(control);
	tell_service(control);
}

static void on_engine(evutil_socket_t fd, short, void *data)
{
	struct gpu *gpu = data;
	struct engine_request *request;
	struct call *call;

	if (!vgpu_eventfd_drain(fd))
		return;
	events_take(gpu);
	while ((request = engine_receive(gpu->engine))) {
		call = request->data;
		call_returned(call);
		if (call->make)
			change_answered(call);
		else
			call_answered(call);
	}
	change_run(gpu);
}

/* A new socket has the group that vgpud runs with, and vgpud's unit lacks the right to change
 * it. */
static bool belongs_to(const char *path, gid_t group)
{
	struct stat s;

	return stat(path, &s) == 0 && s.st_gid == group;
}

/* A failure of this socket only is logged; vgpud continues. */
static int open_tenant_door(struct control *control)
{
	const struct config *config = control->config;
	struct group *group = getgrnam(config->tenant_group);
	struct vgpu_error err;
	int fd = listen_open("tenant", config->tenant_socket, 0660, &err);
	uint32_t i;

	for (i = 0; i < config->n_tenants; i++)
		if (config->tenants[i].number == CONFIG_NOBODY)
			log_line(LOG_WARNING,
				 "[tenant %s]: %s: nobody has these limits until the configuration "
				 "is reloaded",
				 config->tenants[i].name,
				 config->tenants[i].unanswered
					 ? "the host's name service does not answer"
					 : "this host has no such user or group");
	control->doors.tenant_group = group ? group->gr_gid : (unsigned)-1;
	if (fd < 0) {
		log_line(LOG_ERR, "programs and containers get no VF: %s", err.text);
		return 0;
	}
	if (group && !belongs_to(config->tenant_socket, group->gr_gid) &&
	    chown(config->tenant_socket, (uid_t)-1, group->gr_gid) < 0)
		log_line(LOG_WARNING,
			 "cannot give %s to group %s: %s; under systemd, its directory must be of "
			 "that group, and have the mode 2750",
			 config->tenant_socket, config->tenant_group, strerror(errno));
	return door_open(&control->doors.tenants, control->base, fd, "socket for programs",
			 DOOR_RESERVE, &tenant_door_ops, control);
}

int control_start(struct control *control, struct config *config, struct vgpu_error *err)
{
	struct timeval often = {0, 50000}, second = {1, 0};
	struct group *group = getgrnam(config->group);
	int fd, hook, r;

	memset(control, 0, offsetof(struct control, gpus));
	control->config = config;
	control->doors.group = group ? group->gr_gid : (unsigned)-1;
	control->base = event_base_new();
	if (!control->base)
		return vgpu_error_set(err, -ENOMEM, "cannot start libevent");
	fd = listen_open("control", config->socket, 0660, err);
	if (fd < 0)
		return fd;
	hook = listen_open("hook", config->hook_socket, 0600, err);
	if (hook < 0) {
		listen_close(config->socket, fd);
		return hook;
	}
	if (group && !belongs_to(config->socket, group->gr_gid) &&
	    chown(config->socket, (uid_t)-1, group->gr_gid) < 0)
		log_line(LOG_WARNING,
			 "cannot give %s to group %s: %s; under systemd, set Group= of "
			 "vgpud.service to that group",
			 config->socket, config->group, strerror(errno));
	r = share_start(&control->share, control->base);
	r |= door_open(&control->doors.control, control->base, fd, "control socket", DOOR_RESERVE,
		       &door_ops, control);
	r |= door_open(&control->doors.hook, control->base, hook, "hook socket", DOOR_RESERVE,
		       &hook_door_ops, control);
	r |= open_tenant_door(control);
	control->tick = event_new(control->base, -1, EV_PERSIST, on_tick, control);
	control->second = event_new(control->base, -1, EV_PERSIST, on_second, control);
	if (r < 0 || !control->tick || !control->second)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	event_add(control->tick, &often);
	event_add(control->second, &second);
	return 0;
}

int control_add(struct control *control, struct gpu_config *config, struct engine *engine)
{
	struct gpu *gpu = &control->gpus[control->n_gpus];

	*gpu = (struct gpu){.config = config, .engine = engine, .control = control};
	gpu->readable =
		event_new(control->base, engine_fd(engine), EV_READ | EV_PERSIST, on_engine, gpu);
	control->n_gpus++;
	if (!trail_init(&gpu->heard.events, EVENTS) || !gpu->readable)
		return -ENOMEM;
	return event_add(gpu->readable, NULL);
}

void control_settle(struct control *control)
{
	vgpu_nsec until = vgpu_now() + SETTLE_TIMEOUT;
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];
		struct pollfd fd = {.fd = engine_fd(gpu->engine), .events = POLLIN};

		while (gpu->changes.first && vgpu_now() < until)
			if (poll(&fd, 1, 100) > 0)
				on_engine(fd.fd, EV_READ, gpu);
	}
}

void control_stop(struct control *control)
{
	uint32_t i, vf;

	while (control->clients)
		client_drop(control->clients);
	tenants_leave(control);
	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];

		event_free(gpu->readable);
		engine_stop(gpu->engine);
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			lease_clear(&gpu->leases[vf]);
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			json_object_put(gpu->live.set[vf]);
		trail_finish(&gpu->heard.events);
	}
	/* The engines are stopped: these calls will get no answer. */
	while (control->calls)
		call_drop(control->calls);
	for (i = 0; i < CONTROL_WARNINGS; i++)
		json_object_put(control->reported.warned[i]);
	share_stop(&control->share);
	listen_close(control->config->socket, door_close(control->doors.control));
	listen_close(control->config->hook_socket, door_close(control->doors.hook));
	if (control->doors.tenants) /* otherwise it may belong to another vgpud */
		listen_close(control->config->tenant_socket, door_close(control->doors.tenants));
	explained_end(control);
	if (control->tick)
		event_free(control->tick);
	if (control->second)
		event_free(control->second);
	if (control->base)
		event_base_free(control->base);
}
