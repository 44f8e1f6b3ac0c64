/* SPDX-License-Identifier: MIT */
/* The vfio-user front end: DIR/pf.sock, and DIR/vfN.sock for each VF that is enabled. */
#include <errno.h>
#include <getopt.h>
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

static uint32_t on_irqs(void *device, uint32_t index)
{
	(void)device;
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
static void on_reset(void *device)
{
	(void)device;
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

static int deliver_dma(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size,
		       bool to_client)
{
	struct front *front = opaque;
	int r = -EFAULT;

	(void)fn;
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

static void usage(FILE *to)
{
	fputs("usage: softgpu --dir DIR [options]\n"
	      "Runs a software SR-IOV GPU; its functions are vfio-user devices in DIR.\n"
	      "\n"
	      "  --dir DIR          make pf.sock and vfN.sock in DIR; created if missing\n"
	      "  --vfs N            number of virtual functions, 1 to 31 (4)\n"
	      "  --vram SIZE        memory of the GPU, with M or G, in units of 16M (1G; cuda: "
	      "the\n"
	      "                     GPU's free memory)\n"
	      "  --engine NAME      compute on: cpu, in the VFs' processes; cuda, an NVIDIA GPU;\n"
	      "                     host, this CPU with workers as for cuda (cpu)\n"
	      "  --gpu N            cuda: the GPU's number, in the order of PCI addresses (0)\n"
	      "  --window SIZE      cuda, host: size of the part of a partition that BAR 0 shows\n"
	      "                     (256M)\n"
	      "  --module-memory SIZE\n"
	      "                     cuda: memory beside its partition that a VF's modules and the\n"
	      "                     local memory of its GPU kernels may take (256M)\n"
	      "  --worker-uids FIRST-LAST\n"
	      "                     if softgpu runs as root, give each process and worker of a VF "
	      "a\n"
	      "                     user of its own, of these numbers (1879048192-1879049215)\n"
	      "  --worker-user NAME run them all as NAME instead\n"
	      "  --socket-user NAME the owner of vfN.sock (the user who runs softgpu; if that is "
	      "root,\n"
	      "                     the user with whom libvirt runs QEMU: libvirt-qemu or qemu)\n"
	      "  --socket-group NAME\n"
	      "                     the group of vfN.sock (as above: kvm or qemu)\n"
	      "  --socket-mode MODE the permissions of vfN.sock, octal (600)\n"
	      "  --kill-after MS    cuda, host: kill work that does not stop within MS ms (10 "
	      "times\n"
	      "                     the longest stop of the test at the start; at least 25)\n"
	      "  --soft-stop PERCENT\n"
	      "                     cuda: continue work that cannot be stopped, with the shortest "
	      "time\n"
	      "                     slice, if it gets at most PERCENT % of the GPU beside the "
	      "work\n"
	      "                     of another VF, 1 to 50 (without: kill it)\n"
	      "  --scheduler NAME   what gives VFs the engine: driver, the PF's driver by world\n"
	      "                     switches; firmware, softgpu itself by a plan (driver)\n"
	      "  --layout NAME      GPU-IOV register layout: navi, tonga or soft (soft)\n"
	      "  --latency LIST     delay commands: NAME=US, NAME=MIN-MAX or NAME=~MEDIAN/SIGMA,\n"
	      "                     microseconds, separated by commas; NAME: idle, save, load, "
	      "run,\n"
	      "                     init, shutdown, config, flr or gpu-reset\n"
	      "  --fault SPEC       inject a fault: hang, late-idle, lose-irq, refuse-reset, die,\n"
	      "                     brick, skip-clear, refuse-plan or freeze-counters, then ,vf=N\n"
	      "                     ,cmd=NAME ,skip=N ,count=N ,ppm=N ,us=MIN-MAX; may be "
	      "repeated\n"
	      "  --seed N           seed of latencies and faults (1)\n"
	      "  --no-realtime      do not give real-time priority to the threads that answer the "
	      "PF\n"
	      "  --help, --version\n",
	      to);
}

static bool parse_size(const char *text, uint64_t *out)
{
	return vgpu_parse_size(text, UINT64_C(1) << 40, out) == 0;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
	return vgpu_parse_unsigned(text, max, out) == 0;
}

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

/* NAME, if it was given; else a user for each process, if all of them can be had. */
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

/* FIRST-LAST, without root, and without the number that means nobody. */
static int parse_users(const char *text, struct softgpu_config *config, struct vgpu_error *err)
{
	const char *dash = strchr(text, '-');
	uint64_t from = 0, to = 0;
	char first[16] = "";

	if (dash)
		snprintf(first, sizeof(first), "%.*s", (int)(dash - text), text);
	if (!dash || !parse_number(first, UINT32_MAX - 1, &from) ||
	    !parse_number(dash + 1, UINT32_MAX - 1, &to) || from == 0 ||
	    to < from + SOFTGPU_LEAST_USERS - 1)
		return vgpu_error_set(err, -EINVAL,
				      "--worker-uids %s: want FIRST-LAST, %u numbers at least, "
				      "none of them 0",
				      text, SOFTGPU_LEAST_USERS);
	config->worker_uid = (uid_t)from;
	config->n_users = (uint32_t)(to - from + 1);
	return 0;
}

/* 0: run; 1: nothing more to do; negative: wrong arguments, with a message on standard error. */
static int parse(int argc, char **argv, struct front *front, struct softgpu_config *config)
{
	enum {
		DIR = 1,
		VFS,
		VRAM,
		ENGINE,
		GPU,
		WINDOW,
		MODULE_MEMORY,
		KILL_AFTER,
		SOFT_STOP,
		WORKER_UIDS,
		WORKER_USER,
		SOCKET_USER,
		SOCKET_GROUP,
		SOCKET_MODE,
		SCHEDULER,
		LAYOUT,
		LATENCY,
		FAULT,
		SEED,
		NO_RT,
		HELP,
		VERSION
	};
	static const struct option options[] = {
		{"dir", required_argument, NULL, DIR},
		{"vfs", required_argument, NULL, VFS},
		{"vram", required_argument, NULL, VRAM},
		{"engine", required_argument, NULL, ENGINE},
		{"gpu", required_argument, NULL, GPU},
		{"window", required_argument, NULL, WINDOW},
		{"module-memory", required_argument, NULL, MODULE_MEMORY},
		{"kill-after", required_argument, NULL, KILL_AFTER},
		{"soft-stop", required_argument, NULL, SOFT_STOP},
		{"worker-uids", required_argument, NULL, WORKER_UIDS},
		{"worker-user", required_argument, NULL, WORKER_USER},
		{"socket-user", required_argument, NULL, SOCKET_USER},
		{"socket-group", required_argument, NULL, SOCKET_GROUP},
		{"socket-mode", required_argument, NULL, SOCKET_MODE},
		{"scheduler", required_argument, NULL, SCHEDULER},
		{"layout", required_argument, NULL, LAYOUT},
		{"latency", required_argument, NULL, LATENCY},
		{"fault", required_argument, NULL, FAULT},
		{"seed", required_argument, NULL, SEED},
		{"no-realtime", no_argument, NULL, NO_RT},
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
		{NULL, 0, NULL, 0},
	};
	const char *worker_user = NULL;
	const char *socket_user = NULL, *socket_group = NULL, *socket_mode = NULL;
	struct vgpu_error err = {""};
	uint64_t value;
	int option, r = 0;

	while (r == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case DIR:
			front->sockets.dir = optarg;
			break;
		case VFS:
			if (!parse_number(optarg, SOFTGPU_MAX_VFS, &value) || value == 0)
				r = vgpu_error_set(&err, -EINVAL, "--vfs %s: want 1 to 31", optarg);
			config->n_vfs = (uint32_t)value;
			break;
		case VRAM:
			if (!parse_size(optarg, &config->vram))
				r = vgpu_error_set(&err, -EINVAL,
						   "--vram %s: want a number with M or G, up to "
						   "1024G",
						   optarg);
			break;
		case ENGINE:
			config->device = strcmp(optarg, "cpu") == 0 ? NULL : optarg;
			if (config->device && strcmp(optarg, "cuda") != 0 &&
			    strcmp(optarg, "host") != 0)
				r = vgpu_error_set(&err, -EINVAL,
						   "--engine %s: want cpu, cuda or host", optarg);
#ifndef SOFTGPU_HAS_CUDA
			if (strcmp(optarg, "cuda") == 0)
				r = vgpu_error_set(&err, -EINVAL,
						   "--engine cuda: this build has no CUDA");
#endif
			break;
		case GPU:
			if (!parse_number(optarg, 255, &value))
				r = vgpu_error_set(&err, -EINVAL, "--gpu %s: want a number",
						   optarg);
			config->device_index = (uint32_t)value;
			break;
		case WINDOW:
			if (!parse_size(optarg, &config->window) || config->window % GPUIOV_FB_UNIT)
				r = vgpu_error_set(&err, -EINVAL,
						   "--window %s: want a multiple of 16M", optarg);
			break;
		case MODULE_MEMORY:
			if (!parse_size(optarg, &config->module_memory))
				r = vgpu_error_set(&err, -EINVAL,
						   "--module-memory %s: want a number with M or G, "
						   "up to 1024G",
						   optarg);
			break;
		case KILL_AFTER:
			if (!parse_number(optarg, 60000, &value) || value == 0)
				r = vgpu_error_set(&err, -EINVAL,
						   "--kill-after %s: want milliseconds, 1 to 60000",
						   optarg);
			config->kill_after = value * VGPU_MSEC;
			break;
		case SOFT_STOP:
			if (!parse_number(optarg, 50, &value) || value == 0)
				r = vgpu_error_set(&err, -EINVAL,
						   "--soft-stop %s: want per cent, 1 to 50",
						   optarg);
			config->soft_stop = (uint32_t)value;
			break;
		case WORKER_UIDS:
			r = parse_users(optarg, config, &err);
			break;
		case WORKER_USER:
			worker_user = optarg;
			break;
		case SOCKET_USER:
			socket_user = optarg;
			break;
		case SOCKET_GROUP:
			socket_group = optarg;
			break;
		case SOCKET_MODE:
			socket_mode = optarg;
			break;
		case SCHEDULER:
			config->schedules = strcmp(optarg, "firmware") == 0;
			if (!config->schedules && strcmp(optarg, "driver") != 0)
				r = vgpu_error_set(&err, -EINVAL,
						   "--scheduler %s: want driver or firmware",
						   optarg);
			break;
		case LAYOUT:
			config->layout = gpuiov_layout_by_name(optarg);
			if (!config->layout)
				r = vgpu_error_set(&err, -EINVAL,
						   "--layout %s: want navi, tonga or soft", optarg);
			break;
		case LATENCY:
			r = softgpu_parse_latency(config, optarg, &err);
			break;
		case FAULT:
			r = softgpu_parse_fault(config, optarg, &err);
			break;
		case SEED:
			if (!parse_number(optarg, UINT64_MAX, &config->seed))
				r = vgpu_error_set(&err, -EINVAL, "--seed %s: want a number",
						   optarg);
			break;
		case NO_RT:
			config->fifo = 0;
			break;
		case HELP:
			usage(stdout);
			return 1;
		case VERSION:
			puts("softgpu " VGPU_VERSION);
			return 1;
		default:
			return -EINVAL;
		}
	}
	if (r == 0 && optind < argc)
		r = vgpu_error_set(&err, -EINVAL, "unexpected argument \"%s\"", argv[optind]);
	if (r == 0 && !front->sockets.dir)
		r = vgpu_error_set(&err, -EINVAL, "--dir is missing");
	if (r == 0)
		r = choose_users(worker_user, config, &err);
	if (r == 0)
		r = sockets_access(&front->sockets, socket_user, socket_group, socket_mode, &err);
	if (r < 0)
		fprintf(stderr, "softgpu: %s\n", err.text);
	return r;
}

int main(int argc, char **argv)
{
	struct front front = {.lock = PTHREAD_RWLOCK_INITIALIZER};
	struct softgpu_config config = {
		.n_vfs = 4,
		.layout = &gpuiov_layout_soft,
		.seed = 1,
		.window = UINT64_C(256) << 20,
		.module_memory = UINT64_C(256) << 20,
		.fifo = FIFO_PF,
		.worker_uid = FIRST_USER,
		.worker_gid = FIRST_USER,
		.n_users = USERS,
	};
	struct vgpu_error err = {""};
	char path[108];
	int r;

	if (vgpu_untrusted_main(argc, argv))
		return 0;
	vgpu_output_check("softgpu");
	r = parse(argc, argv, &front, &config);

	if (r != 0)
		return r < 0 ? 2 : 0;
	/* What whoever started this program has open is nothing for its processes. */
	close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
	signal(SIGHUP, SIG_IGN); /* there is nothing to reload, and tenants would lose their work */
	/* Processes of VFs must not look into this one where they are the same user; and no core
	 * dump is to hold tenants' memory. */
	vgpu_hide_memory();
	r = ending_create(&front.ending, &err);
	if (r == 0)
		r = sockets_own(&front.sockets, &err);
	/* Without groups a VF's process may use up the host's memory, as any other may. */
	if (r == 0 && groups_create(&config.groups, LIMIT_ROOT, config.n_vfs, &err) < 0)
		fprintf(stderr, "<4>softgpu: VF processes have no control groups: %s\n", err.text);
	if (r == 0)
		r = softgpu_create(&front.gpu, &config, &carrier, &front, &err);
	if (r == 0)
		r = vfio_server_create(&front.server, "sg-pf", config.fifo, &err);
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
		config.n_vfs, (unsigned long long)(softgpu_vram(front.gpu) >> 20),
		config.layout->name, softgpu_computes_on(front.gpu));
	ending_await(&front.ending, front.gpu);

	/* Removes the PF first, so that no client enables VFs any more. Interrupts and DMA find no
	 * endpoint from now on. */
	pthread_rwlock_wrlock(&front.lock);
	front.pf = NULL;
	pthread_rwlock_unlock(&front.lock);
	vfio_server_destroy(front.server);
	softgpu_destroy(front.gpu);
	groups_destroy(config.groups);
	vfs_changed(&front, 0);
	sockets_disown(&front.sockets);
	return 0;
}
