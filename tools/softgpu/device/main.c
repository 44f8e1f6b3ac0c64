/* SPDX-License-Identifier: MIT */
/* The vfio-user front end: DIR/pf.sock, and DIR/vfN.sock for each VF that is enabled. */
#include <errno.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ending.h"
#include "groups.h"
#include "limit.h"
#include "sockets.h"
#include "softgpu.h"
#include "users.h"

#include "vfio/user_proto.h"
#include "vfio/user_server.h"
#include "vgpu/number.h"
#include "vgpu/options.h"
#include "vgpu/output.h"
#include "vgpu/untrusted.h"

#define FIFO_PF 40
/* Numbers that neither distributions, systemd nor containers use. */
#define FIRST_USER 1879048192u
#define USERS 1024u

struct front {
	struct sockets sockets;
	struct ending ending;
	struct softgpu *gpu;
	struct vfio_server *server;
	struct vfio_endpoint *pf;
	pthread_rwlock_t lock; /* protects PF */
};

static void on_region(void *device, uint32_t index, struct vfio_server_region *out)
{
	struct front *front = device;
	struct softgpu_region r;

	softgpu_region(front->gpu, SOFTGPU_PF, index, &r);
	*out = (struct vfio_server_region){r.size, true, r.mmap_fd, r.mmap_size};
}

static uint32_t on_irqs(void *, uint32_t index)
{
	if (index == VFIO_USER_IRQ_MSIX)
		return GPUIOV_PF_VECTORS;
	return index == VFIO_USER_IRQ_ERR || index == VFIO_USER_IRQ_REQ;
}

static void on_read(void *device, uint32_t region, uint64_t offset, void *data, uint32_t count)
{
	struct front *front = device;

	softgpu_read(front->gpu, SOFTGPU_PF, region, offset, data, count);
}

static void on_write(void *device, uint32_t region, uint64_t offset, const void *data,
		     uint32_t count)
{
	struct front *front = device;

	softgpu_write(front->gpu, SOFTGPU_PF, region, offset, data, count);
}

/* Neither a reset by the client nor a client's disconnection changes the PF; see softgpu.h. */
static void on_reset(void *)
{
}

static const struct vfio_server_ops ops = {
	.region = on_region,
	.irqs = on_irqs,
	.read = on_read,
	.write = on_write,
	.reset = on_reset,
	.disconnected = on_reset,
};

static void deliver_irq(void *opaque, int fn, uint32_t vector)
{
	struct front *front = opaque;

	(void)fn; /* always the PF: VF processes raise their own interrupts */
	pthread_rwlock_rdlock(&front->lock);
	if (front->pf)
		vfio_endpoint_irq(front->pf, vector);
	pthread_rwlock_unlock(&front->lock);
}

static int deliver_dma(void *opaque, int, uint64_t iova, void *buffer, uint64_t size,
		       bool to_client)
{
	struct front *front = opaque;
	int r = -EFAULT;

	pthread_rwlock_rdlock(&front->lock);
	if (front->pf)
		r = vfio_endpoint_dma(front->pf, iova, buffer, size, to_client);
	pthread_rwlock_unlock(&front->lock);
	return r;
}

static int listen_for(void *opaque, int vf, struct vgpu_error *err)
{
	struct front *front = opaque;

	return sockets_listen(&front->sockets, vf, err);
}

static void vfs_changed(void *opaque, uint32_t n)
{
	struct front *front = opaque;

	sockets_remove(&front->sockets, n);
}

static void used(void *opaque)
{
	struct front *front = opaque;

	ending_used(&front->ending);
}

static const struct softgpu_carrier carrier = {.irq = deliver_irq,
					       .dma = deliver_dma,
					       .vfs_changed = vfs_changed,
					       .used = used,
					       .listen = listen_for};

struct options {
	struct softgpu_config config;
	const char *dir, *worker_user, *socket_user, *socket_group, *socket_mode;
	bool no_realtime;
};

static int find_user(const char *name, struct softgpu_config *config, struct vgpu_error *err)
{
	const struct passwd *user = getpwnam(name);

	if (!user)
		return vgpu_error_set(err, -EINVAL, "--worker-user %s: there is no such user",
				      name);
	config->worker_uid = user->pw_uid;
	config->worker_gid = user->pw_gid;
	config->n_users = 0;
	return 0;
}

/* Chooses the users of processes: NAME, if it was given; else a user for each process, if all of
 * those can be used. Returns 0 or -errno with the reason. */
static int choose_users(const char *name, struct softgpu_config *config, struct vgpu_error *err)
{
	if (name)
		return find_user(name, config, err);
	if (geteuid() != 0 || users_are_mapped(config->worker_uid, config->n_users))
		return 0;
	if (config->worker_uid != FIRST_USER)
		return vgpu_error_set(err, -EINVAL,
				      "--worker-uids: this user namespace does not have all of "
				      "%u to %u: see /proc/self/uid_map and gid_map",
				      (unsigned)config->worker_uid,
				      (unsigned)config->worker_uid + config->n_users - 1);
	fprintf(stderr, "<5>softgpu: all VF processes run as nobody: this user namespace does not "
			"have the users for them; name others with --worker-uids\n");
	return find_user("nobody", config, err);
}

/* Parses a range of users, FIRST-LAST, which must not contain root or the number that means "no
 * user". */
static int take_users(void *options, char *text, struct vgpu_error *err)
{
	struct softgpu_config *config = &((struct options *)options)->config;
	const char *dash = strchr(text, '-');
	uint64_t from = 0, to = 0;
	char first[16] = "";

	if (dash)
		snprintf(first, sizeof(first), "%.*s", (int)(dash - text), text);
	if (!dash || vgpu_parse_unsigned(first, UINT32_MAX - 1, &from) < 0 ||
	    vgpu_parse_unsigned(dash + 1, UINT32_MAX - 1, &to) < 0 || from == 0 ||
	    to < from + SOFTGPU_LEAST_USERS - 1)
		return vgpu_error_set(err, -EINVAL,
				      "--worker-uids %s: want FIRST-LAST, %u numbers at least, "
				      "none of them 0",
				      text, SOFTGPU_LEAST_USERS);
	config->worker_uid = (uid_t)from;
	config->n_users = (uint32_t)(to - from + 1);
	return 0;
}

static int take_engine(void *options, char *name, struct vgpu_error *err)
{
	struct options *o = options;

	o->config.device = strcmp(name, "cpu") == 0 ? NULL : name;
	if (o->config.device && strcmp(name, "cuda") != 0 && strcmp(name, "host") != 0)
		return vgpu_error_set(err, -EINVAL, "--engine %s: want cpu, cuda or host", name);
#ifndef SOFTGPU_HAS_CUDA
	if (strcmp(name, "cuda") == 0)
		return vgpu_error_set(err, -EINVAL, "--engine cuda: this build has no CUDA");
#endif
	return 0;
}

static int take_scheduler(void *options, char *name, struct vgpu_error *err)
{
	struct options *o = options;

	o->config.schedules = strcmp(name, "firmware") == 0;
	if (!o->config.schedules && strcmp(name, "driver") != 0)
		return vgpu_error_set(err, -EINVAL, "--scheduler %s: want driver or firmware",
				      name);
	return 0;
}

static int take_layout(void *options, char *name, struct vgpu_error *err)
{
	struct options *o = options;

	o->config.layout = gpuiov_layout_by_name(name);
	if (!o->config.layout)
		return vgpu_error_set(err, -EINVAL, "--layout %s: want navi, tonga or soft", name);
	return 0;
}

static int take_latency(void *options, char *list, struct vgpu_error *err)
{
	return softgpu_parse_latency(&((struct options *)options)->config, list, err);
}

static int take_fault(void *options, char *spec, struct vgpu_error *err)
{
	return softgpu_parse_fault(&((struct options *)options)->config, spec, err);
}

#define ROW(name, value, kind, member, help, ...)                                                  \
	VGPU_OPTION(name, value, help, kind, offsetof(struct options, member), __VA_ARGS__)
static const struct vgpu_option rows[] = {
	ROW("dir", "DIR", TEXT, dir, "make pf.sock and vfN.sock in DIR; created if missing"),
	ROW("vfs", "N", WHOLE32, config.n_vfs, "number of virtual functions, 1 to 31 (4)", .min = 1,
	    .max = SOFTGPU_MAX_VFS),
	ROW("vram", "SIZE", SIZE, config.vram,
	    "memory of the GPU, with M or G, in units of 16M (1G; cuda: the GPU's free memory)"),
	ROW("engine", "NAME", TAKE, config.device,
	    "compute on: cpu, in the VFs' processes; cuda, an NVIDIA GPU; host, this CPU with "
	    "workers as for cuda (cpu)",
	    .take = take_engine),
	ROW("gpu", "N", WHOLE32, config.device_index,
	    "cuda: the GPU's number, in the order of PCI addresses (0)", .max = 255),
	ROW("window", "SIZE", SIZE, config.window,
	    "cuda, host: size of the part of a partition that BAR 0 shows, a multiple of 16M "
	    "(256M)"),
	ROW("module-memory", "SIZE", SIZE, config.module_memory,
	    "cuda: memory beside its partition that a VF's modules and the local memory of its GPU "
	    "kernels may take (256M)"),
	ROW("worker-memory", "SIZE", SIZE, config.worker_memory,
	    "cuda, host: memory of the host that a VF's worker may take for its guest, above all "
	    "for the compiler (4G)"),
	ROW("worker-uids", "FIRST-LAST", TAKE, config.worker_uid,
	    "if softgpu runs as root, give each process and worker of a VF a user of its own, of "
	    "these numbers (1879048192-1879049215)",
	    .take = take_users),
	ROW("worker-user", "NAME", TEXT, worker_user, "run them all as NAME instead"),
	ROW("socket-user", "NAME", TEXT, socket_user,
	    "the owner of vfN.sock (the user who runs softgpu; if that is root, the user with whom "
	    "libvirt runs QEMU: libvirt-qemu or qemu)"),
	ROW("socket-group", "NAME", TEXT, socket_group,
	    "the group of vfN.sock (as above: kvm or qemu)"),
	ROW("socket-mode", "MODE", TEXT, socket_mode, "the permissions of vfN.sock, octal (600)"),
	ROW("kill-after", "MS", TIMES, config.kill_after,
	    "cuda, host: kill work that does not stop within MS ms (10 times the longest stop of "
	    "the test at the start; at least 25)",
	    .min = 1, .max = 60000, .scale = VGPU_MSEC),
	ROW("soft-stop", "PERCENT", WHOLE32, config.soft_stop,
	    "cuda: continue work that cannot be stopped, with the shortest time slice, if it gets "
	    "at most PERCENT % of the GPU beside the "
	    "work of another VF, 1 to 50 (without: kill it)",
	    .min = 1, .max = 50),
	ROW("scheduler", "NAME", TAKE, config.schedules,
	    "what gives VFs the engine: driver, the PF's driver by world switches; firmware, "
	    "softgpu itself by a plan (driver)",
	    .take = take_scheduler),
	ROW("layout", "NAME", TAKE, config.layout,
	    "GPU-IOV register layout: navi, tonga or soft (soft)", .take = take_layout),
	ROW("latency", "LIST", TAKE, config.latency,
	    "delay commands: NAME=US, NAME=MIN-MAX or NAME=~MEDIAN/SIGMA, microseconds, separated "
	    "by commas; NAME: idle, save, load, run, "
	    "init, shutdown, config, flr or gpu-reset",
	    .take = take_latency),
	ROW("fault", "SPEC", TAKE, config.faults,
	    "inject a fault: hang, late-idle, lose-irq, refuse-reset, die, brick, skip-clear, "
	    "refuse-plan or freeze-counters, then ,vf=N "
	    ",cmd=NAME ,skip=N ,count=N ,ppm=N ,us=MIN-MAX; may be repeated",
	    .take = take_fault),
	ROW("seed", "N", WHOLE, config.seed, "seed of latencies and faults (1)"),
	ROW("no-realtime", NULL, FLAG, no_realtime,
	    "do not give real-time priority to the threads that answer the PF"),
	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("usage: softgpu --dir DIR [options]\n"
	      "Runs a software SR-IOV GPU; its functions are vfio-user devices in DIR.\n\n",
	      to);
	vgpu_options_list(rows, 21, to);
}

/* Checks the options together. */
static int settle(struct options *o, struct sockets *sockets, int argc, char **argv,
		  struct vgpu_error *err)
{
	int r;

	if (optind < argc)
		return vgpu_error_set(err, -EINVAL, "unexpected argument \"%s\"", argv[optind]);
	if (!o->dir)
		return vgpu_error_set(err, -EINVAL, "--dir is missing");
	if (o->config.window % GPUIOV_FB_UNIT)
		return vgpu_error_set(err, -EINVAL, "--window: want a multiple of 16M");
	if (o->no_realtime)
		o->config.fifo = 0;
	sockets->dir = o->dir;
	r = choose_users(o->worker_user, &o->config, err);
	return r < 0 ? r
		     : sockets_access(sockets, o->socket_user, o->socket_group, o->socket_mode,
				      err);
}

int main(int argc, char **argv)
{
	struct front front = {.lock = PTHREAD_RWLOCK_INITIALIZER};
	struct options o = {.config = {
				    .n_vfs = 4,
				    .layout = &gpuiov_layout_soft,
				    .seed = 1,
				    .window = UINT64_C(256) << 20,
				    .module_memory = UINT64_C(256) << 20,
				    .worker_memory = UINT64_C(4) << 30,
				    .fifo = FIFO_PF,
				    .worker_uid = FIRST_USER,
				    .worker_gid = FIRST_USER,
				    .n_users = USERS,
			    }};
	struct softgpu_config *config = &o.config;
	struct vgpu_error err = {""};
	char path[108];
	int r;

	if (vgpu_untrusted_main(argc, argv))
		return 0;
	vgpu_output_check("softgpu");
	r = vgpu_options_read("softgpu", rows, usage, argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	if (settle(&o, &front.sockets, argc, argv, &err) < 0) {
		fprintf(stderr, "softgpu: %s\n", err.text);
		return 2;
	}
	/* The descriptors that this program inherited must not reach its processes. */
	close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
	signal(SIGHUP, SIG_IGN); /* there is nothing to reload, and tenants would lose their work */
	/* Processes of VFs must not look into this one where they are the same user; and no core
	 * dump is to hold tenants' memory. */
	vgpu_hide_memory();
	r = ending_create(&front.ending, &err);
	if (r == 0)
		r = sockets_own(&front.sockets, &err);
	/* Without groups a VF's process may use up the host's memory, as any other may. */
	if (r == 0 && groups_create(&config->groups, LIMIT_ROOT, config->n_vfs, &err) < 0)
		fprintf(stderr, "<4>softgpu: VF processes have no control groups: %s\n", err.text);
	if (r == 0)
		r = softgpu_create(&front.gpu, config, &carrier, &front, &err);
	if (r == 0)
		r = vfio_server_create(&front.server, "sg-pf", config->fifo, &err);
	if (r == 0 &&
	    (size_t)snprintf(path, sizeof(path), "%s/pf.sock", front.sockets.dir) >= sizeof(path))
		r = vgpu_error_set(&err, -ENAMETOOLONG, "--dir %s: the path is too long",
				   front.sockets.dir);
	if (r == 0)
		r = vfio_server_add(front.server, path, &ops, &front, &front.pf, &err);
	if (r < 0) {
		fprintf(stderr, "<3>softgpu: %s\n", err.text);
		return 1;
	}
	fprintf(stderr, "<6>softgpu: ready at %s: %u VFs, %llu MiB, layout %s, on %s\n", path,
		config->n_vfs, (unsigned long long)(softgpu_vram(front.gpu) >> 20),
		config->layout->name, softgpu_computes_on(front.gpu));
	ending_await(&front.ending, front.gpu);

	/* Removes the PF first, so that no client enables VFs any more. Interrupts and DMA find no
	 * endpoint from now on. */
	pthread_rwlock_wrlock(&front.lock);
	front.pf = NULL;
	pthread_rwlock_unlock(&front.lock);
	vfio_server_destroy(front.server);
	softgpu_destroy(front.gpu);
	groups_destroy(config->groups);
	vfs_changed(&front, 0);
	sockets_disown(&front.sockets);
	return 0;
}
