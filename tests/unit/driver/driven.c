/* SPDX-License-Identifier: MIT */
#include <poll.h>

#include "driven.h"

struct vgpu_driver *gpu;
struct vgpu_driver_caps caps;
struct vgpu_driver_found found;
struct vgpu_error err;
struct vgpu_event told[16];
uint32_t n_told;

static void on_event(void *, const struct vgpu_event *event)
{
	CU_ASSERT_FATAL(n_told < 16);
	told[n_told++] = *event;
}

int try_open(struct vgpu_driver_config config)
{
	n_told = 0;
	err.text[0] = '\0';
	return ops->device->open(&gpu, &config, &caps, &found, on_event, NULL, &err);
}

void open_as(struct vgpu_driver_config config)
{
	if (try_open(config) < 0) {
		fprintf(stderr, "%s\n", err.text);
		CU_FAIL_FATAL("the GPU cannot be opened");
	}
}

void close_gpu(void)
{
	ops->device->close(gpu, false);
}

int await_and_dispatch(void)
{
	struct pollfd p = {.fd = ops->device->fd(gpu), .events = POLLIN};

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, DEADLINE_MS), 1);
	return ops->device->dispatch(gpu, 1);
}

void await_told(uint32_t n)
{
	while (n_told < n)
		CU_ASSERT_EQUAL_FATAL(await_and_dispatch(), 0);
}

int program(struct vgpu_program p, struct vgpu_program *applied)
{
	int r;

	trace[0] = '\0';
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, 1), 0);
	do {
		CU_ASSERT(await_and_dispatch() <= 0);
		r = ops->programmed->programmed(gpu, applied);
	} while (r == 1);
	return r;
}

static void spoil(const struct refusal *r, struct vgpu_driver_config *config)
{
	char path[128];
	uint32_t i;

	if (r->file)
		put_file(r->text, PCI_DEVICES "/" PF "/%s", r->file);
	if (r->link) {
		snprintf(path, sizeof(path), PCI_DEVICES "/" PF "/%s", r->link);
		point(r->to, path);
	}
	if (r->gone)
		take(r->gone);
	if (r->number)
		*r->number = r->value;
	if (r->says)
		*r->says = r->said;
	if (r->vfs)
		config->n_vfs = r->vfs;
	for (i = 0; i < config->n_vfs && r->all; i++)
		config->sizes[i] = r->all;
	if (r->size)
		config->sizes[1] = r->size;
	config->host = r->host;
	if (r->layout)
		config->layout = r->layout;
	if (r->spoil)
		r->spoil(config);
}

void refuse_each(const struct refusal *refusals, unsigned n, struct vgpu_driver_config config,
		 void (*make)(void), void (*as_it_was)(void), void (*remove)(void))
{
	struct vgpu_driver_config spoiled;
	const struct refusal *r;
	int code;

	for (r = refusals; r < refusals + n; r++) {
		make();
		spoiled = config;
		spoil(r, &spoiled);
		code = try_open(spoiled);
		if (code != r->code || !strstr(err.text, r->why)) {
			fprintf(stderr, "\"%s\": %d: %s\n", r->why, code, err.text);
			CU_FAIL("another refusal");
		}
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "0000:0"));
		as_it_was();
		remove();
	}
}
