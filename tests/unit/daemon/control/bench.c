/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "builtin.h"
#include "vgpu/local_socket.h"

struct control control;
struct config config;
char bench_dir[] = "/tmp/test-control.XXXXXX";
struct peer one, other;

void turn(void)
{
	event_base_loop(control.base, EVLOOP_NONBLOCK);
}

void join(struct peer *p, const char *path)
{
	p->n = 0;
	p->fd = vgpu_socket_connect(path, 0);
	CU_ASSERT_FATAL(p->fd >= 0);
}

void say(struct peer *p, const char *text)
{
	CU_ASSERT_EQUAL_FATAL(write(p->fd, text, strlen(text)), (ssize_t)strlen(text));
}

struct json_object *hear(struct peer *p)
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

const char *text_at(struct json_object *o, const char *key, const char *then)
{
	const char *text = json_object_get_string(get(get(o, key), then));

	return text ? text : "";
}

bool refused(struct peer *p, const char *code, const char *words)
{
	struct json_object *o = hear(p);
	bool is = strcmp(text_at(o, "error", "code"), code) == 0 &&
		  strstr(text_at(o, "error", "message"), words);

	if (!is)
		printf("\n  not %s '%s': %s\n", code, words, json_object_to_json_string(o));
	json_object_put(o);
	return is;
}

bool says(struct peer *p, const char *key, const char *value)
{
	struct json_object *o = hear(p);
	bool is = strcmp(text_at(o, "result", key), value) == 0;

	if (!is)
		printf("\n  %s is not %s: %s\n", key, value, json_object_to_json_string(o));
	json_object_put(o);
	return is;
}

bool comes_to_say(struct peer *p, const char *request, const char *key, const char *value)
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

void bench_begin_with(struct gpu_config *gpu, const struct engine_config *engine_config)
{
	struct engine *engine;
	struct vgpu_error err = {""};

	snprintf(config.socket, sizeof(config.socket), "%s/control", bench_dir);
	snprintf(config.hook_socket, sizeof(config.hook_socket), "%s/hook", bench_dir);
	snprintf(config.tenant_socket, sizeof(config.tenant_socket), "%s/tenant", bench_dir);
	snprintf(config.leases, sizeof(config.leases), "%s/leases", bench_dir);
	snprintf(config.live, sizeof(config.live), "%s/live", bench_dir);
	config.lease_s = 60;
	memcpy(gpu->params, engine_config->begin.params, sizeof(gpu->params));
	memcpy(gpu->vf_params, engine_config->begin.vf_params, sizeof(gpu->vf_params));
	CU_ASSERT_EQUAL_FATAL(control_start(&control, &config, &err), 0);
	CU_ASSERT_EQUAL_FATAL(engine_start(&engine, engine_config, &err), 0);
	CU_ASSERT_EQUAL_FATAL(control_add(&control, gpu, engine), 0);
	join(&one, config.socket);
	join(&other, config.socket);
}

void bench_begin(const char *policy)
{
	static struct gpu_config gpu = {.name = "gpu0", .device = "quick:", .vfs = QUICK_VFS};
	struct engine_config engine_config;

	quick_reset();
	gpu.ops = vgpu_builtin_policy(policy);
	quick_config(&engine_config, gpu.ops);
	bench_begin_with(&gpu, &engine_config);
}

void bench_end(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;

	/* Calls that vgpud itself made may be under way; each of them must end. */
	while (control.calls && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(control.calls);
	CU_ASSERT_EQUAL(control.gpus[0].calls.under_way, 0);
	close(one.fd);
	close(other.fd);
	control_stop(&control);
	unlink(config.leases);
	unlink(config.live);
}

bool done(struct peer *p)
{
	struct json_object *o = hear(p);
	bool is = get(o, "result") != NULL;

	if (!is)
		printf("\n  no result: %s\n", json_object_to_json_string(o));
	json_object_put(o);
	return is;
}
