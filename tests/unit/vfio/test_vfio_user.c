/* SPDX-License-Identifier: MIT */
/*
 * The vfio-user server against raw bytes, and the client against servers that lie. Whatever one
 * client sends, another client's next message is answered.
 */
#include <errno.h>
#include <signal.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <sys/time.h>
#include <unistd.h>

#include "machine.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/host_memory.h"
#include "vfio/store.h"
#include "vfio/user_proto.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

static char dir[64], path[2][100];
static struct vfio_server *server;
static struct vfio_endpoint *endpoint[2];

struct device {
	uint8_t memory[65536];
	int memfd;
	int resets, disconnects;
	vgpu_nsec cpu;	/* what the server's thread had used when it wrote last */
	vgpu_nsec burn; /* how much of it a write uses */
	pthread_mutex_t lock;
};
static struct device devices[2];

static void on_region(void *device, uint32_t index, struct vfio_server_region *out)
{
	struct device *d = device;

	*out = (struct vfio_server_region){.mmap_fd = -1};
	if (index == 0)
		*out = (struct vfio_server_region){65536, true, d->memfd, 32768};
	else if (index == 7)
		*out = (struct vfio_server_region){4096, true, -1, 0};
}

static uint32_t on_irqs(void *, uint32_t index)
{
	return index == VFIO_USER_IRQ_MSIX ? 3 : 0;
}

static void on_read(void *device, uint32_t, uint64_t offset, void *data, uint32_t count)
{
	struct device *d = device;

	memcpy(data, d->memory + offset, count);
}

static vgpu_nsec nsec(const struct timespec *t)
{
	return (vgpu_nsec)t->tv_sec * VGPU_SEC + (vgpu_nsec)t->tv_nsec;
}

static void on_write(void *device, uint32_t, uint64_t offset, const void *data, uint32_t count)
{
	struct device *d = device;
	struct timespec t;
	vgpu_nsec until;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	pthread_mutex_lock(&d->lock);
	for (until = nsec(&t) + d->burn; nsec(&t) < until;)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	memcpy(d->memory + offset, data, count);
	d->cpu = nsec(&t);
	pthread_mutex_unlock(&d->lock);
}

static void on_reset(void *device)
{
	struct device *d = device;

	d->resets++;
}

static void on_disconnected(void *device)
{
	struct device *d = device;

	pthread_mutex_lock(&d->lock);
	d->disconnects++;
	pthread_mutex_unlock(&d->lock);
}

static const struct vfio_server_ops ops = {
	.region = on_region,
	.irqs = on_irqs,
	.read = on_read,
	.write = on_write,
	.reset = on_reset,
	.disconnected = on_disconnected,
};

static void begin(void)
{
	struct vgpu_error err;
	int i;

	strcpy(dir, "/tmp/vgpud-test.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	CU_ASSERT_EQUAL_FATAL(vfio_server_create(&server, "test", 0, &err), 0);
	for (i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%d.sock", dir, i);
		memset(&devices[i], 0, sizeof(devices[i]));
		pthread_mutex_init(&devices[i].lock, NULL);
		devices[i].memfd = memfd_create("test", 0);
		CU_ASSERT_EQUAL(ftruncate(devices[i].memfd, 32768), 0);
		CU_ASSERT_EQUAL_FATAL(vfio_server_add(server, path[i], &ops, &devices[i],
						      &endpoint[i], &err),
				      0);
	}
}

static void end(void)
{
	vfio_server_destroy(server);
	close(devices[0].memfd);
	close(devices[1].memfd);
	rmdir(dir);
}

static int raw(const char *at)
{
	int fd = vgpu_socket_connect(at, 0);

	CU_ASSERT(fd >= 0);
	return fd;
}

static void send_raw(int fd, uint16_t command, uint32_t flags, uint32_t size, const void *payload,
		     size_t payload_size)
{
	struct vfio_user_header h = {1, command, size, flags, 0};

	CU_ASSERT_EQUAL(send(fd, &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	if (payload_size)
		CU_ASSERT_EQUAL(send(fd, payload, payload_size, MSG_NOSIGNAL),
				(ssize_t)payload_size);
}

static void send_message(int fd, uint16_t command, const void *payload, size_t size)
{
	send_raw(fd, command, 0, (uint32_t)(16 + size), payload, size);
}

/* Returns the errno of the reply; 0 for success, -1 if the connection was closed. */
static int reply(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	struct vfio_user_header h;
	uint8_t rest[4096];
	ssize_t n;

	CU_ASSERT_EQUAL(poll(&ready, 1, 20000), 1);
	n = recv(fd, &h, sizeof(h), MSG_WAITALL);
	if (n < (ssize_t)sizeof(h))
		return -1;
	if (h.size > sizeof(h))
		CU_ASSERT_EQUAL(recv(fd, rest, h.size - sizeof(h), MSG_WAITALL),
				(ssize_t)(h.size - sizeof(h)));
	return h.flags & VFIO_USER_ERROR ? (int)h.error : 0;
}

static int version(int fd)
{
	uint16_t v[2] = {0, 0};

	send_message(fd, VFIO_USER_VERSION, v, 4);
	return reply(fd);
}

/* Checks that the other device still answers. */
static void neighbour_lives(void)
{
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	uint32_t value = 0;

	snprintf(name, sizeof(name), "vfio-user:%s", path[1]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	value = 0x11223344;
	CU_ASSERT_EQUAL(vfio_write(d, 0, 64, &value, 4), 0);
	value = 0;
	CU_ASSERT_EQUAL(vfio_read(d, 0, 64, &value, 4), 0);
	CU_ASSERT_EQUAL(value, 0x11223344);
	vfio_device_close(d);
}

/* Connects to the device as soon as it accepts a new client, with a bounded wait for the previous
 * one to leave. */
static int raw_again(const char *at)
{
	struct timespec pause = {0, 1000000};
	int i, fd;

	for (i = 0; i < 5000; i++) {
		fd = raw(at);
		if (version(fd) == 0)
			return fd;
		close(fd);
		nanosleep(&pause, NULL);
	}
	CU_FAIL("the device does not come back");
	return -1;
}

TEST(framing, "wrong sizes and random bytes end only their connection")
{
	static const uint32_t sizes[] = {0, 1, 15, 16 + 16 + (1 << 20) + 1, UINT32_MAX};
	uint8_t noise[4096];
	unsigned i, j;
	int fd;

	begin();
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fd = raw(path[0]);
		send_raw(fd, VFIO_USER_VERSION, 0, sizes[i], NULL, 0);
		CU_ASSERT_EQUAL(reply(fd), -1);
		close(fd);
		neighbour_lives();
	}
	srand(7);
	for (i = 0; i < 200; i++) {
		fd = raw(path[0]);
		for (j = 0; j < sizeof(noise); j++)
			noise[j] = (uint8_t)rand();
		if (send(fd, noise, 1 + (size_t)rand() % sizeof(noise), MSG_NOSIGNAL) < 0)
			CU_ASSERT(errno == EPIPE || errno == ECONNRESET);
		close(fd);
	}
	neighbour_lives();
	end();
}

/* A client that sends half a message and waits; a client that disconnects in the middle of a
 * message. */
TEST(half_messages, "half a message delays only its sender")
{
	struct vfio_user_header h = {1, VFIO_USER_REGION_WRITE, 16 + 16 + 1000, 0, 0};
	int fd;

	begin();
	fd = raw(path[0]);
	CU_ASSERT_EQUAL(version(fd), 0);
	CU_ASSERT_EQUAL(send(fd, &h, 7, 0), 7);
	neighbour_lives();
	CU_ASSERT_EQUAL(send(fd, (char *)&h + 7, 9, 0), 9);
	neighbour_lives();
	close(fd);
	fd = raw_again(path[0]);
	close(fd);
	end();
}

TEST(refused_messages, "malformed messages are refused")
{
	struct vfio_user_access a = {0, 0, 4};
	struct vfio_user_region_info info = {.argsz = 32, .index = 9};
	struct vfio_user_irq_info irq = {.argsz = 16, .index = 5};
	struct vfio_user_set_irqs set = {20, VFIO_USER_IRQ_DATA_EVENTFD | 32, 2, 2, 2};
	struct vfio_user_dma_map map = {32, 3, 0, 0x1000, 0};
	struct vfio_user_dma_unmap unmap = {24, 0, 0x5000, 0x1000};
	uint16_t old[2] = {1, 0};
	uint8_t big[64] = {0};
	int fd;

	begin();
	fd = raw(path[0]);
	/* no message is accepted before the version; a version that the server does not support */
	send_message(fd, VFIO_USER_GET_INFO, big, 16);
	CU_ASSERT_EQUAL(reply(fd), EPROTO);
	send_message(fd, VFIO_USER_VERSION, old, 4);
	CU_ASSERT_EQUAL(reply(fd), ENOTSUP);
	send_message(fd, VFIO_USER_VERSION, "\0\0\0\0{\"a\":1}", 11); /* not terminated by a NUL */
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	CU_ASSERT_EQUAL(version(fd), 0);
	send_message(fd, 99, NULL, 0);
	CU_ASSERT_EQUAL(reply(fd), ENOSYS);
	send_message(fd, 0, NULL, 0);
	CU_ASSERT_EQUAL(reply(fd), ENOSYS);
	send_message(fd, VFIO_USER_GET_INFO, big, 0);
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	send_message(fd, VFIO_USER_GET_INFO, big, 16);
	CU_ASSERT_EQUAL(reply(fd), 0);
	send_message(fd, VFIO_USER_GET_REGION_INFO, big, 8);
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	send_message(fd, VFIO_USER_GET_REGION_INFO, &info, sizeof(info));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	send_message(fd, VFIO_USER_GET_IRQ_INFO, &irq, sizeof(irq));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	send_message(fd, VFIO_USER_SET_IRQS, &set, sizeof(set)); /* past the last vector */
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	set.start = 0xffffffff;
	send_message(fd, VFIO_USER_SET_IRQS, &set, sizeof(set));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	a.offset = 65533;
	send_message(fd, VFIO_USER_REGION_READ, &a, sizeof(a));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	a.offset = UINT64_MAX - 1;
	send_message(fd, VFIO_USER_REGION_READ, &a, sizeof(a));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	a.offset = 0;
	a.count = UINT32_MAX;
	send_message(fd, VFIO_USER_REGION_READ, &a, sizeof(a));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	a.count = 4;
	a.region = 77;
	send_message(fd, VFIO_USER_REGION_READ, &a, sizeof(a));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	a.region = 0;
	send_message(fd, VFIO_USER_REGION_WRITE, &a, sizeof(a)); /* lacks its 4 bytes */
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	map.size = 0;
	send_message(fd, VFIO_USER_DMA_MAP, &map, sizeof(map));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	map.iova = UINT64_MAX - 100;
	map.size = 4096;
	send_message(fd, VFIO_USER_DMA_MAP, &map, sizeof(map));
	CU_ASSERT_EQUAL(reply(fd), EINVAL);
	send_message(fd, VFIO_USER_DMA_UNMAP, &unmap, sizeof(unmap));
	CU_ASSERT_EQUAL(reply(fd), ENOENT);
	/* a reply without a request ends the connection */
	send_raw(fd, VFIO_USER_GET_INFO, VFIO_USER_REPLY, 32, big, 16);
	CU_ASSERT_EQUAL(reply(fd), -1);
	close(fd);
	neighbour_lives();
	end();
}

/* Mappings are limited in number, must not overlap, and are backed by memory files only. */
TEST(dma, "DMA mappings are checked")
{
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128], text[16] = "hello, guest";
	int memfd = memfd_create("client", 0), pipes[2], r;
	uint64_t i;

	begin();
	CU_ASSERT_EQUAL(ftruncate(memfd, 8192), 0);
	CU_ASSERT_EQUAL(pwrite(memfd, text, 16, 4096), 16);
	CU_ASSERT_EQUAL(pipe(pipes), 0);
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	CU_ASSERT_EQUAL(vfio_dma_map(d, memfd, 0, 0x100000, 8192), 0);
	CU_ASSERT_EQUAL(vfio_dma_map(d, memfd, 0, 0x101000, 8192), -EEXIST);
	CU_ASSERT_EQUAL(vfio_dma_map(d, pipes[0], 0, 0x200000, 4096), -EINVAL);
	memset(text, 0, sizeof(text));
	CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[0], 0x101000, text, 16, false), 0);
	CU_ASSERT_STRING_EQUAL(text, "hello, guest");
	CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[0], 0x101ff8, text, 16, false), -EFAULT);
	CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[0], 0xfffff, text, 16, false), -EFAULT);
	CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[1], 0x101000, text, 16, false), -EFAULT);
	/* a client that truncates the memory of a mapping */
	CU_ASSERT_EQUAL(ftruncate(memfd, 0), 0);
	CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[0], 0x101000, text, 16, false), -EFAULT);
	CU_ASSERT_EQUAL(vfio_dma_unmap(d, 0x100000, 8192), 0);
	CU_ASSERT_EQUAL(vfio_dma_unmap(d, 0x100000, 8192), -ENOENT);
	for (i = 0, r = 0; r == 0 && i < 2000; i++)
		r = vfio_dma_map(d, memfd, 0, 0x100000 + i * 4096, 4096);
	CU_ASSERT_EQUAL(r, -ENOSPC);
	CU_ASSERT_EQUAL(i, VFIO_USER_MAX_DMA_MAPS + 1);
	vfio_device_close(d);
	close(memfd);
	close(pipes[0]);
	close(pipes[1]);
	end();
}

/* A mapping whose descriptor was lost, because this process is at its limit of open files, is not
 * taken for a mapping without one: the connection ends. */
TEST(lost_descriptors, "a lost descriptor ends the connection")
{
	struct rlimit limit, old;
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	int memfd = memfd_create("client", 0), lowest;

	begin();
	CU_ASSERT_EQUAL(ftruncate(memfd, 8192), 0);
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	lowest = dup(memfd);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = (struct rlimit){(rlim_t)lowest, old.rlim_max};
	close(lowest);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CU_ASSERT_EQUAL(vfio_dma_map(d, memfd, 0, 0x100000, 8192), -ENODEV);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &old), 0);
	vfio_device_close(d);
	neighbour_lives();
	close(memfd);
	end();
}

/* A store that holds one descriptor. */
static int stored = -1;

static int store_put(const char *, int fd)
{
	stored = dup(fd);
	return 0;
}

static int store_take(const char *)
{
	return stored < 0 ? -ENOENT : dup(stored);
}

static void store_drop(const char *)
{
	close(stored);
	stored = -1;
}

static long locked_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

static long free_huge_pages(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	long n = 0;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* Host memory is locked, the device reaches it, and the next process gets it with its contents. */
TEST(host_memory, "host memory is kept for the next process")
{
	static const struct vfio_store store = {store_put, store_take, store_drop};
	struct vfio_host_memory_config config = {.size = 4u << 20, .node = -1};
	struct vfio_host_memory m;
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128], text[16] = "hello, host";
	uint32_t round;

	begin();
	vfio_store = &store;
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	for (round = 0; round < 2; round++) {
		config.huge_pages = round;
		if (round == 1 && free_huge_pages() < 2) {
			puts("\nskipped: no huge pages here");
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(vfio_host_memory_open(&m, d, name, &config, &err), 0);
		CU_ASSERT(!m.kept);
		CU_ASSERT(config.huge_pages || locked_kib() >= 4096); /* huge pages always stay */
		CU_ASSERT_EQUAL(vfio_endpoint_dma(endpoint[0], VFIO_HOST_MEMORY_IOVA + 8192, text,
						  16, true),
				0);
		CU_ASSERT_STRING_EQUAL((char *)m.memory + 8192, "hello, host");
		/* the next process adopts it */
		vfio_host_memory_close(&m);
		vfio_device_close(d);
		CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
		CU_ASSERT_EQUAL_FATAL(vfio_host_memory_open(&m, d, name, &config, &err), 0);
		CU_ASSERT(m.kept);
		CU_ASSERT_STRING_EQUAL((char *)m.memory + 8192, "hello, host");
		vfio_host_memory_close(&m);
		/* a kept memory of another size is refused */
		config.size *= 2;
		CU_ASSERT_EQUAL(vfio_host_memory_open(&m, d, name, &config, &err), -EBUSY);
		config.size /= 2;
		vfio_host_memory_forget(name);
		vfio_device_close(d);
		CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	}
	/* a NUMA node that exists, and one that does not */
	config.huge_pages = false;
	config.node = 0;
	CU_ASSERT_EQUAL(vfio_host_memory_open(&m, d, name, &config, &err), 0);
	vfio_host_memory_close(&m);
	vfio_host_memory_forget(name);
	vfio_device_close(d);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	config.node = 1000;
	CU_ASSERT(vfio_host_memory_open(&m, d, name, &config, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "NUMA node 1000"));
	vfio_device_close(d);
	vfio_store = NULL;
	end();
}

/* Interrupts reach the client that asked for them; a full, blocking eventfd does not block the
 * device. */
TEST(interrupts, "interrupts reach their client and never block")
{
	struct pollfd ready;
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	uint64_t count = UINT64_MAX - 1;
	int fds[3], i, pipes[2];

	begin();
	for (i = 0; i < 3; i++)
		fds[i] = eventfd(0, 0);
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	vfio_endpoint_irq(endpoint[0], 1); /* no eventfd is set yet */
	CU_ASSERT_EQUAL(vfio_irqs(d, fds, 3), 0);
	vfio_endpoint_irq(endpoint[0], 1);
	vfio_endpoint_irq(endpoint[0], 99);
	ready = (struct pollfd){.fd = fds[1], .events = POLLIN};
	CU_ASSERT_EQUAL(poll(&ready, 1, 5000), 1);
	ready.fd = fds[0];
	CU_ASSERT_EQUAL(poll(&ready, 1, 0), 0);
	CU_ASSERT_EQUAL(write(fds[2], &count, 8), 8);
	vfio_endpoint_irq(endpoint[0], 2); /* must return */
	/* a pipe is not an eventfd: nothing is written to it */
	CU_ASSERT_EQUAL(pipe(pipes), 0);
	fds[0] = (close(fds[0]), pipes[1]);
	CU_ASSERT_EQUAL(vfio_irqs(d, fds, 1), 0);
	vfio_endpoint_irq(endpoint[0], 0);
	ready.fd = pipes[0];
	CU_ASSERT_EQUAL(poll(&ready, 1, 0), 0);
	vfio_device_close(d);
	close(fds[1]);
	close(fds[2]);
	close(pipes[0]);
	close(pipes[1]);
	end();
}

TEST(one_client_at_a_time, "one client at a time, any number of times")
{
	struct vfio_device *first, *second;
	struct vgpu_error err;
	char name[128];
	int i, fd;

	begin();
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&first, name, &err), 0);
	CU_ASSERT_EQUAL(vfio_device_open(&second, name, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another program"));
	vfio_device_close(first);
	for (i = 0; i < 300; i++) {
		fd = raw_again(path[0]);
		close(fd);
	}
	neighbour_lives();
	end();
	CU_ASSERT(devices[0].disconnects >= 301);
	CU_ASSERT_EQUAL(vfio_device_open(&second, name, &err), -ENOENT);
	CU_ASSERT_EQUAL(vfio_device_open(&second, "pci:1", &err), -EINVAL);
}

/* A client that comes while no descriptor is left is refused; its connection does not stay at the
 * listener, where it would wake the server again and again. */
TEST(without_descriptors, "a client is refused where no descriptor is left")
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct vfio_user_header header;
	struct vfio_device *first;
	struct pollfd answer;
	struct vgpu_error err;
	struct rlimit limit, none;
	char name[128];
	int fd;

	begin();
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&first, name, &err), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(address.sun_path, path[0]);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){(rlim_t)fd, limit.rlim_max}; /* all below are in use */
	setrlimit(RLIMIT_NOFILE, &none);
	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	answer = (struct pollfd){fd, POLLIN, 0};
	CU_ASSERT_EQUAL(poll(&answer, 1, 10000), 1);
	setrlimit(RLIMIT_NOFILE, &limit);
	CU_ASSERT_EQUAL(recv(fd, &header, sizeof(header), 0), sizeof(header));
	CU_ASSERT(header.flags & VFIO_USER_ERROR && header.error == EBUSY);
	close(fd);
	vfio_device_close(first);
	CU_ASSERT_EQUAL(vfio_device_open(&first, name, &err), 0);
	vfio_device_close(first);
	end();
}

/* What a client wrote before it left takes effect before the next client is let in. */
TEST(last_writes, "what a client wrote last takes effect")
{
	const uint32_t n = 100; /* more than the server takes at a time */
	struct vfio_device *first;
	struct vgpu_error err;
	char name[128];
	uint32_t i;
	int fd;

	begin();
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&first, name, &err), 0);
	pthread_mutex_lock(&devices[0].lock); /* the server waits in the first write */
	for (i = 1; i <= n; i++)
		CU_ASSERT_EQUAL(vfio_write(first, 0, 0, &i, sizeof(i)), 0);
	vfio_device_close(first);
	fd = raw(path[0]);
	pthread_mutex_unlock(&devices[0].lock);
	CU_ASSERT_EQUAL(version(fd), 0);
	CU_ASSERT_EQUAL(memcmp(devices[0].memory, &n, sizeof(n)), 0);
	close(fd);
	end();
}

/* A client that requests much and reads no replies. */
TEST(does_not_read, "a client that reads nothing blocks no other")
{
	struct vfio_user_access a = {0, 0, 65536};
	struct vfio_user_header h = {1, VFIO_USER_REGION_READ, 32, 0, 0};
	int fd, i;

	begin();
	fd = raw(path[0]);
	CU_ASSERT_EQUAL(version(fd), 0);
	for (i = 0; i < 100000; i++) {
		if (send(fd, &h, sizeof(h), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(h) ||
		    send(fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(a))
			break;
	}
	CU_ASSERT(i < 100000);
	neighbour_lives();
	close(fd);
	fd = raw_again(path[0]);
	close(fd);
	end();
}

/* A client that sends as much as the server takes. The thread uses what it has saved up, its part
 * of the CPU since, and one pass more. */
TEST(flood, "a flood gets the CPU time that its server may use")
{
	const vgpu_nsec most = VGPU_MSEC, pass = 10 * VGPU_MSEC;
	static struct {
		struct vfio_user_header header;
		struct vfio_user_access access;
		uint8_t data[65536];
	} m;
	vgpu_nsec began, used;
	int fd;

	m.header = (struct vfio_user_header){1, VFIO_USER_REGION_WRITE, sizeof(m),
					     VFIO_USER_NO_REPLY, 0};
	m.access = (struct vfio_user_access){0, 0, sizeof(m.data)};
	begin();
	vfio_server_limit(server, 1, most);
	began = vgpu_now();
	fd = raw(path[0]);
	CU_ASSERT_EQUAL(version(fd), 0);
	while (vgpu_now() - began < VGPU_SEC)
		CU_ASSERT_EQUAL_FATAL(send(fd, &m, sizeof(m), MSG_NOSIGNAL), (ssize_t)sizeof(m));
	pthread_mutex_lock(&devices[0].lock);
	used = devices[0].cpu;
	pthread_mutex_unlock(&devices[0].lock);
	CU_ASSERT(used > 0);
	CU_ASSERT(used <= most + (vgpu_now() - began) / 100 + pass);
	neighbour_lives();
	close(fd);
	end();
}

static void on_asked(void *data)
{
	atomic_store((_Atomic bool *)data, true);
}

/* A thread that rests, because a message has taken long, answers who asks whether it still works:
 * it has not hung. */
TEST(asked_at_rest, "a server that rests answers who asks")
{
	static _Atomic bool answered;
	struct {
		struct vfio_user_header header;
		struct vfio_user_access access;
		uint64_t data;
	} m = {{1, VFIO_USER_REGION_WRITE, sizeof(m), VFIO_USER_NO_REPLY, 0}, {0, 0, 8}, 0};
	struct timespec pause = {0, VGPU_MSEC};
	vgpu_nsec until;
	bool served = false;
	int fd;

	begin();
	fd = raw(path[0]);
	CU_ASSERT_EQUAL(version(fd), 0);
	devices[0].burn = 200 * VGPU_MSEC;
	vfio_server_limit(server, 1, 0); /* so it rests for 20 s */
	until = vgpu_now() + 15 * VGPU_SEC;
	CU_ASSERT_EQUAL_FATAL(send(fd, &m, sizeof(m), MSG_NOSIGNAL), (ssize_t)sizeof(m));
	for (; !served && vgpu_now() < until; nanosleep(&pause, NULL)) {
		pthread_mutex_lock(&devices[0].lock);
		served = devices[0].cpu > 0;
		pthread_mutex_unlock(&devices[0].lock);
	}
	CU_ASSERT(served);
	vfio_server_ask(server, on_asked, &answered);
	for (; !atomic_load(&answered) && vgpu_now() < until; nanosleep(&pause, NULL))
		;
	CU_ASSERT(atomic_load(&answered));
	close(fd);
	end();
}

static void on_alarm(int)
{
}

/* A signal in the middle of an access does not disturb the device. */
TEST(interrupted, "a signal does not disturb an access")
{
	struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_alarm};
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	uint32_t word;
	unsigned i;

	begin();
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; i < 5000; i++)
		CU_ASSERT_EQUAL_FATAL(vfio_read(d, 0, 0, &word, sizeof(word)), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	vfio_device_close(d);
	end();
}

/* A region is mapped and shared both ways; another region may not be mapped. */
TEST(mapping, "a region is mapped")
{
	struct vfio_device *d;
	struct vfio_region region;
	struct vgpu_error err;
	char name[128];
	size_t size;
	void *p;

	begin();
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	CU_ASSERT_EQUAL(vfio_region(d, 0, &region), 0);
	CU_ASSERT_EQUAL(region.size, 65536);
	CU_ASSERT_EQUAL(region.mmap_size, 32768);
	CU_ASSERT_EQUAL(vfio_map(d, 0, &p, &size), 0);
	CU_ASSERT_EQUAL(size, 32768);
	memcpy(p, "abcd", 4);
	CU_ASSERT_EQUAL(vfio_map(d, 7, &p, &size), -ENOTSUP);
	CU_ASSERT_EQUAL(vfio_reset(d), 0);
	CU_ASSERT_EQUAL(devices[0].resets, 1);
	/* a file that is shorter than the device says */
	CU_ASSERT_EQUAL(ftruncate(devices[0].memfd, 100), 0);
	CU_ASSERT_EQUAL(vfio_map(d, 0, &p, &size), -EPROTO);
	vfio_device_close(d);
	end();
}

/* A server that lies: after each malformed answer the client treats the device as lost, and
 * continues. */
static const char *lie;
static size_t lie_size;

static void *lying_server(void *arg)
{
	int listener = *(int *)arg, fd = accept(listener, NULL, NULL), i;
	struct vfio_user_header h;
	uint8_t payload[4096];
	static const struct {
		struct vfio_user_header h;
		uint16_t v[2];
	} hello = {{1, VFIO_USER_VERSION, 20, VFIO_USER_REPLY, 0}, {0, 0}};

	for (i = 0; i < 2; i++) {
		if (recv(fd, &h, sizeof(h), MSG_WAITALL) != sizeof(h) ||
		    recv(fd, payload, h.size - 16, MSG_WAITALL) != (ssize_t)(h.size - 16))
			break;
		if (i == 0) {
			CU_ASSERT_EQUAL(send(fd, &hello, 20, 0), 20);
		} else if (lie_size) {
			CU_ASSERT_EQUAL(send(fd, lie, lie_size, MSG_NOSIGNAL), (ssize_t)lie_size);
		}
	}
	close(fd);
	return NULL;
}

TEST(lying_servers, "the client survives servers that lie")
{
	static const struct {
		struct vfio_user_header h;
		uint8_t rest[64];
		size_t size;
	} lies[] = {
		{{2, VFIO_USER_REGION_READ, 36, VFIO_USER_REPLY, 0}, {0}, 10},
		{{2, VFIO_USER_REGION_READ, UINT32_MAX, VFIO_USER_REPLY, 0}, {0}, 80},
		{{2, VFIO_USER_REGION_READ, 3, VFIO_USER_REPLY, 0}, {0}, 80},
		{{9, VFIO_USER_REGION_READ, 36, VFIO_USER_REPLY, 0}, {0}, 36},
		{{2, VFIO_USER_GET_INFO, 36, VFIO_USER_REPLY, 0}, {0}, 36},
		{{2, VFIO_USER_REGION_READ, 36, 0, 0}, {0}, 36},
		{{2, VFIO_USER_REGION_READ, 16, VFIO_USER_REPLY | VFIO_USER_ERROR, 70000}, {0}, 16},
		{{2, VFIO_USER_REGION_READ, 35, VFIO_USER_REPLY, 0}, {0}, 35},
		{{0, 0, 0, 0, 0}, {0}, 0},
	};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	pthread_t thread;
	uint32_t value;
	unsigned i;
	int listener;

	strcpy(dir, "/tmp/vgpud-test.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/l", dir);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL(listen(listener, 1), 0);
	snprintf(name, sizeof(name), "vfio-user:%s", address.sun_path);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		lie = (const char *)&lies[i].h;
		lie_size = lies[i].size;
		pthread_create(&thread, NULL, lying_server, &listener);
		CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
		CU_ASSERT(vfio_read(d, 0, 0, &value, 4) < 0);
		CU_ASSERT_EQUAL(vfio_read(d, 0, 0, &value, 4), -ENODEV);
		vfio_device_close(d);
		pthread_join(thread, NULL);
	}
	close(listener);
	unlink(address.sun_path);
	rmdir(dir);
}

/* A server that sends its answers in pieces, each when the client has read the previous one. The
 * client must put them together. */
static void *hesitant_server(void *arg)
{
	int listener = *(int *)arg, fd = accept(listener, NULL, NULL), none;
	struct vfio_user_header h;
	struct timespec pause = {0, 200000};
	struct {
		struct vfio_user_header h;
		struct vfio_user_access access;
		uint32_t value;
	} answer = {.access = {0, 0, 4}, .value = 4711};
	static const struct {
		struct vfio_user_header h;
		uint16_t v[2];
	} hello = {{1, VFIO_USER_VERSION, 20, VFIO_USER_REPLY, 0}, {0, 0}};
	uint8_t payload[4096];
	size_t piece, i;

	for (piece = 0; piece < 40; piece++) {
		if (recv(fd, &h, sizeof(h), MSG_WAITALL) != sizeof(h) ||
		    recv(fd, payload, h.size - 16, MSG_WAITALL) != (ssize_t)(h.size - 16))
			break;
		if (piece == 0) {
			CU_ASSERT_EQUAL(send(fd, &hello, 20, 0), 20);
			continue;
		}
		answer.h = (struct vfio_user_header){h.id, h.command, 36, VFIO_USER_REPLY, 0};
		if (piece == 39) { /* an error reply, which is shorter */
			answer.h =
				(struct vfio_user_header){h.id, h.command, 16,
							  VFIO_USER_REPLY | VFIO_USER_ERROR, EIO};
			piece = 10;
		}
		for (i = 0; i < answer.h.size; i += piece) {
			size_t n = answer.h.size - i < piece ? answer.h.size - i : piece;

			CU_ASSERT_EQUAL(send(fd, (char *)&answer + i, n, MSG_NOSIGNAL), (ssize_t)n);
			while (ioctl(fd, SIOCOUTQ, &none) == 0 && none > 0)
				nanosleep(&pause, NULL);
		}
		if (answer.h.size == 16)
			break;
	}
	recv(fd, payload, 1, 0); /* waits until the client disconnects */
	close(fd);
	return NULL;
}

TEST(pieces, "the client puts an answer's pieces together")
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct vfio_device *d;
	struct vgpu_error err;
	char name[128];
	pthread_t thread;
	uint32_t value;
	unsigned i;
	int listener;

	strcpy(dir, "/tmp/vgpud-test.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/l", dir);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL(listen(listener, 1), 0);
	snprintf(name, sizeof(name), "vfio-user:%s", address.sun_path);
	pthread_create(&thread, NULL, hesitant_server, &listener);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	for (i = 1; i < 39; i++) {
		value = 0;
		CU_ASSERT_EQUAL(vfio_read(d, 0, 0, &value, 4), 0);
		CU_ASSERT_EQUAL(value, 4711);
	}
	CU_ASSERT_EQUAL(vfio_read(d, 0, 0, &value, 4), -EIO);
	vfio_device_close(d);
	pthread_join(thread, NULL);
	close(listener);
	unlink(address.sun_path);
	rmdir(dir);
}

/* Memory for a PCI device of the host comes from the NUMA node that Linux reports for the
 * device. */
TEST(node_of_the_device, "host memory comes from the device's NUMA node")
{
	struct vfio_host_memory_config config = {.size = 4u << 20, .node = -1};
	struct vfio_host_memory m;
	struct vfio_device *d;
	struct vgpu_error err = {""};
	char name[128];

	begin();
	make_machine();
	put_file("1000\n", PCI_DEVICES "/%s/%s", PF, "numa_node");
	snprintf(name, sizeof(name), "vfio-user:%s", path[0]);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name, &err), 0);
	CU_ASSERT(vfio_host_memory_open(&m, d, "vfio:" PF ",token-file=/x", &config, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "NUMA node 1000"));
	vfio_device_close(d);
	remove_machine();
	end();
}

SUITE_MAIN("vfio-user")
