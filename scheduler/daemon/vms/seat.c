/* SPDX-License-Identifier: MIT */
#include "seat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config/config.h"
#include "control/caller.h"
#include "control/log.h"
#include "engine/engine.h"
#include "vfio/libvirt_notes.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/number.h"
#include "vgpu/process.h"

#define FIND_WITHIN (10 * VGPU_SEC)

/* The process of which the layer's processes descend; 0: they are to lose the VF. */
static uint32_t owner_of(const struct lease *l)
{
	return l->loses_by ? 0 : l->worker ? l->worker : l->process;
}

static void on_given(struct call *call)
{
	struct lease *l = &call->gpu->leases[call->vf];

	/* Asks again after the GPU was lost. */
	if (l->process && owner_of(l) == call->request.event.code)
		l->seat = call->request.result == 0 ? SEAT_GIVEN : SEAT_NONE;
	call_drop(call);
}

void seat_give(struct gpu *gpu, uint32_t vf)
{
	const struct lease *l = &gpu->leases[vf];
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	gpu->leases[vf].seat = SEAT_ASKED;
	call->vf = vf;
	call->then = on_given;
	call->request.ask = ENGINE_SEAT;
	call->request.event.vf = vf;
	call->request.event.code = owner_of(l);
	call->request.event.value = (int64_t)(l->worker ? l->worker_started : l->started);
	call->request.memory.size = l->memory;
	call_queue(call);
}

void seat_take_away(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->process)
		vgpu_close(&l->pidfd);
	l->process = l->worker = 0;
	l->started = l->worker_started = 0;
	l->loses_by = 0;
	if (config_is_gated(gpu->config))
		seat_give(gpu, vf);
}

/* Reads a small file of root's or of the kernel's. Returns its length; negative: it cannot be read.
 * Truncates it at SIZE. */
static ssize_t read_file(const char *path, char *out, size_t size)
{
	VGPU_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	return n;
}

/* Returns whether libvirt has started the process for the domain, and it still is a QEMU: the
 * number that libvirt has recorded may belong to another process by now. */
static bool is_of_domain(const struct lease *l, pid_t process)
{
	char path[32], program[256], uuid[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process);
	n = readlink(path, program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = '\0';
	return strstr(program, "/qemu") && libvirt_vm_is(l->domain, process, uuid, sizeof(uuid)) &&
	       strcasecmp(uuid, l->uuid) == 0;
}

/* Finds the VM's QEMU, and opens it. False: there is none yet. */
static bool find_qemu(struct lease *l)
{
	char path[sizeof(LIBVIRT_NOTES) + sizeof(l->domain) + 8], text[24];
	struct vgpu_process p;
	int64_t pid;

	snprintf(path, sizeof(path), LIBVIRT_NOTES "/%s.pid", l->domain);
	if (strchr(l->domain, '/') || read_file(path, text, sizeof(text)) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (vgpu_parse_int(text, &pid) < 0 || pid <= 0 || pid > INT32_MAX ||
	    vgpu_process_read((uint32_t)pid, &p) < 0 || !is_of_domain(l, (pid_t)pid))
		return false;
	l->pidfd = caller_reopen((uint32_t)pid, p.started);
	if (l->pidfd < 0)
		return false;
	l->process = (uint32_t)pid;
	l->started = p.started;
	return true;
}

/* libvirt records the process before it reports that the VM has started. */
static void warn(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->lacks_qemu || vgpu_now() < l->since + FIND_WITHIN)
		return;
	l->lacks_qemu = true;
	log_about(about_vf(gpu, vf, LOG_PLAIN), LOG_WARNING,
		  "domain %s runs, but " LIBVIRT_NOTES "/%s.pid names no process of it: its "
		  "programs get no GPU",
		  l->domain, l->domain);
}

void seat_look_at_vm(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->process && caller_has_ended(l->pidfd))
		seat_take_away(gpu, vf);
	if (l->state == LEASE_RUNNING && !l->process && !find_qemu(l))
		warn(gpu, vf);
	if (l->process && l->seat == SEAT_NONE && !engine_trouble(gpu->engine))
		seat_give(gpu, vf);
}
