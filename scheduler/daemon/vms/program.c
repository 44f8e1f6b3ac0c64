/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/args.h"
#include "control/client.h"
#include "engine/engine.h"
#include "lease.h"
#include "control/listen.h"
#include "control/log.h"
#include "reserve.h"
#include "vgpu/descriptor.h"
#include "vgpu/process.h"
#include "vm.h"

/* Opens the process, of which what the kernel says must still be the same then. Returns a pidfd, or
 * -ESRCH. */
static int open_process(uint32_t process, uint64_t started)
{
	VGPU_AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, process, 0);
	struct vgpu_process p;

	if (fd < 0 || vgpu_process_read(process, &p) < 0 || p.started != started)
		return -ESRCH;
	return vgpu_take(&fd);
}

static int read_params(const struct call *call, struct claim_vf *claimed, struct vgpu_error *err)
{
	struct json_object *params;

	if (!json_object_object_get_ex(call->args, "params", &params))
		return 0;
	json_object_object_foreach(params, name, value)
	{
		struct claim_param *p = &claimed->params[claimed->n_params];

		if (claimed->n_params == CLAIM_MAX_PARAMS)
			return vgpu_error_set(err, -EINVAL, "more than %u parameters",
					      CLAIM_MAX_PARAMS);
		snprintf(p->name, sizeof(p->name), "%s", name);
		snprintf(p->value, sizeof(p->value), "%s", json_object_get_string(value));
		claimed->n_params++;
	}
	return 0;
}

static int read_claim(struct call *call, struct claim *claim, struct vgpu_error *err)
{
	const char *gpu = call_text(call, "gpu");
	struct claim_vf *claimed = &claim->vfs[0];
	struct vgpu_process p;
	struct ucred peer;

	if (listen_peer(call->client->fd, &peer) < 0 || peer.pid <= 0 ||
	    vgpu_process_read((uint32_t)peer.pid, &p) < 0)
		return vgpu_error_set(err, -ESRCH, "the calling process cannot be found");
	claim->process = (uint32_t)peer.pid;
	claim->started = p.started;
	snprintf(claim->host, sizeof(claim->host), LEASE_OF_PROGRAMS);
	snprintf(claim->uuid, sizeof(claim->uuid), "%08" PRIx32 "-0000-4000-8000-%012" PRIx64,
		 claim->process, claim->started & UINT64_C(0xffffffffffff));
	snprintf(claim->domain, sizeof(claim->domain), "%.100s[%" PRIu32 "]",
		 call_text(call, "name"), claim->process);
	claim->required = true;
	claim->n_vfs = 1;
	snprintf(claimed->name, sizeof(claimed->name), "gpu");
	snprintf(claimed->gpu, sizeof(claimed->gpu), "%s", gpu ? gpu : "");
	claimed->vf = -1;
	claimed->hostdev = -1;
	claimed->memory = (uint64_t)call_int(call, "memory_bytes", 0);
	return read_params(call, claimed, err);
}

static bool there_is_one(const struct control *control, const char *name)
{
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++)
		if (config_is_for_programs(control->gpus[i].config) &&
		    (!name[0] || strcmp(name, control->gpus[i].config->name) == 0))
			return true;
	return false;
}

static void on_given(struct call *call)
{
	struct lease *l = &call->gpu->leases[call->vf];

	/* A GPU that is lost is asked again. */
	if (l->process && l->process == call->request.event.code)
		l->seat = call->request.result == 0 ? SEAT_GIVEN : SEAT_NONE;
	call_drop(call);
}

/* Tells the engine who has the VF. */
static void give(struct gpu *gpu, uint32_t vf)
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
	call->request.event.code = l->process;
	call->request.event.value = (int64_t)l->started;
	call->request.memory.size = l->memory;
	call_queue(call);
}

/* The end of a lease: before the VF is reset, nobody has it any more. */
static void end(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	log_about(about_vf(gpu, vf, LOG_VM_RELEASED), LOG_INFO, "program %s has ended", l->domain);
	if (l->process)
		vgpu_close(&l->pidfd);
	l->process = 0;
	l->started = 0;
	l->memory = 0;
	give(gpu, vf);
	vm_end_lease(gpu, vf);
}

/* The call's reservation has its VF: gives it to the process, and answers. */
static void began(struct call *call)
{
	const struct claim *claim = &call->reservation->claim;
	struct control *control = call->control;
	struct json_object *answer;
	struct lease *l;
	struct gpu *gpu;
	uint32_t vf;
	int fd;

	l = lease_find(control, claim, NULL, &gpu, &vf);
	fd = l ? open_process(claim->process, claim->started) : -ESRCH;
	if (!l || fd < 0) {
		if (l)
			end(gpu, vf);
		leases_save(control);
		call_fail(call, -ESRCH, "the calling process has ended");
		return;
	}
	l->process = claim->process;
	l->started = claim->started;
	l->pidfd = fd;
	l->memory = claim->vfs[0].memory;
	leases_save(control);
	give(gpu, vf);
	answer = json_object_new_object();
	put_text(answer, "gpu", gpu->config->name);
	put_int(answer, "vf", vf);
	put_text(answer, "door", gpu->config->door);
	call_answer(call, answer);
}

int program_start_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct reservation *job = reserve_new(call);
	struct gpu *gpu;
	uint32_t vf;
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = read_claim(call, &job->claim, err);
	if (r < 0)
		return r;
	if (!there_is_one(control, job->claim.vfs[0].gpu))
		return vgpu_error_set(err, -ENOENT,
				      "%s%sno GPU for programs: configure one with \"device = "
				      "vulkan:NAME\"",
				      job->claim.vfs[0].gpu, job->claim.vfs[0].gpu[0] ? ": " : "");
	if (lease_find(control, &job->claim, NULL, &gpu, &vf))
		return vgpu_error_set(err, -EEXIST, "this process has VF %u of %s already", vf,
				      gpu->config->name);
	job->mode = RESERVE_START;
	job->done = began;
	reserve_begin(call);
	return 0;
}

/* A lease of an earlier vgpud: the process has the VF again, or the lease is over. */
static bool find(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->pidfd < 0)
		l->pidfd = open_process(l->process, l->started);
	if (l->pidfd >= 0 && l->seat == SEAT_NONE && !engine_trouble(gpu->engine))
		give(gpu, vf);
	return l->pidfd >= 0;
}

static void look(struct gpu *gpu, bool *any)
{
	struct pollfd fds[VGPU_GPU_MAX_VFS];
	uint32_t of[VGPU_GPU_MAX_VFS], n = 0, vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		if (!gpu->leases[vf].process)
			continue;
		if (!find(gpu, vf)) {
			end(gpu, vf);
			*any = true;
			continue;
		}
		of[n] = vf;
		fds[n++] = (struct pollfd){.fd = gpu->leases[vf].pidfd, .events = POLLIN};
	}
	if (n == 0 || poll(fds, n, 0) <= 0)
		return;
	while (n-- > 0)
		if (fds[n].revents) {
			end(gpu, of[n]);
			*any = true;
		}
}

void programs_look(struct control *control)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++)
		if (config_is_for_programs(control->gpus[i].config))
			look(&control->gpus[i], &any);
	if (any)
		leases_save(control);
}
