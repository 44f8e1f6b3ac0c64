/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol.h"
#include "rm.h"

/* nvos.h, nv_escape.h */
#define NV_MAGIC 'F'
#define NV_ESC_FREE 0x29
#define NV_ESC_CONTROL 0x2a
#define NV_ESC_ALLOC 0x2b
#define NV_ESC_XFER 211

struct nv_free {
	uint32_t client, parent, object, status;
};
struct nv_control {
	uint32_t client, object, command, flags;
	uint64_t params;
	uint32_t params_size, status;
};
struct nv_alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};
/* The same call with requested rights; the size tells which of the two it is. */
struct nv_alloc_rights {
	uint32_t client, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};
struct nv_transfer {
	uint32_t command, size;
	uint64_t argument;
};
_Static_assert(sizeof(struct nv_free) == 16 && sizeof(struct nv_control) == 32 &&
		       sizeof(struct nv_alloc) == 32 && sizeof(struct nv_alloc_rights) == 48 &&
		       sizeof(struct nv_transfer) == 16,
	       "the kernel's layout");
#define NV_IOCTL_CONTROL _IOWR(NV_MAGIC, NV_ESC_CONTROL, struct nv_control)

/* Classes: a subdevice, a group of channels (KEPLER_CHANNEL_GROUP_A; later GPUs use it too), and
 * channels from Volta to Blackwell. */
#define CLASS_SUBDEVICE 0x2080u
#define CLASS_GROUP 0xa06cu
static const uint32_t channel_classes[] = {0xc36f, 0xc46f, 0xc56f, 0xc86f, 0xc96f, 0xca6f};

/* ctrl2080fifo.h: after this call none of the channels runs until they are enabled. */
#define FIFO_DISABLE_CHANNELS 0x2080110bu
#define DISABLE_MOST 64u
struct disable_channels {
	uint8_t disable, pad[3];
	uint32_t n;
	uint8_t only_scheduling, rewind, pad2[6];
	uint64_t preempt_event; /* 0 in user space */
	uint32_t clients[DISABLE_MOST], channels[DISABLE_MOST];
};
_Static_assert(sizeof(struct disable_channels) == 536 &&
		       offsetof(struct disable_channels, clients) == 24 &&
		       offsetof(struct disable_channels, channels) == 280,
	       "the kernel's layout");
/* ctrla06c.h: the parameters are two bytes, three from 575 on. */
#define GROUP_SCHEDULE 0xa06c0101u

#define MAX_OBJECTS 1024u

struct object {
	uint32_t client, parent, handle, class;
	int fd; /* a duplicate of the descriptor that made it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[MAX_OBJECTS];
static uint32_t n_objects;
static bool incomplete; /* some objects are not in the table: rm_stop() would miss their channels */
static uint32_t stopped_by;
static uint32_t schedule_size = 2;

static bool is_channel(uint32_t class)
{
	size_t i;

	for (i = 0; i < sizeof(channel_classes) / sizeof(channel_classes[0]); i++)
		if (channel_classes[i] == class)
			return true;
	return false;
}

static bool is_of_interest(uint32_t class)
{
	return class == CLASS_SUBDEVICE || class == CLASS_GROUP || is_channel(class);
}

/* RM accepts calls for a client only through the open file that made the client, so a duplicate of
 * that descriptor is kept. One for each client is enough. */
static int keep_file(uint32_t client, int fd)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == client)
			return objects[i].fd;
	return fcntl(fd, F_DUPFD_CLOEXEC, 64);
}

static void remember(int fd, uint32_t client, uint32_t parent, uint32_t handle, uint32_t class)
{
	if (!is_of_interest(class))
		return;
	pthread_mutex_lock(&lock);
	if (n_objects == MAX_OBJECTS) {
		incomplete = true;
	} else {
		objects[n_objects] =
			(struct object){client, parent, handle, class, keep_file(client, fd)};
		incomplete |= objects[n_objects].fd < 0;
		n_objects++;
	}
	pthread_mutex_unlock(&lock);
}

/* Removes an object and all its descendants. */
static void forget_tree(uint32_t client, uint32_t handle)
{
	uint32_t i = 0;

	while (i < n_objects) {
		const struct object o = objects[i];

		if (o.client != client ||
		    (o.handle != handle && o.parent != handle && handle != client)) {
			i++;
			continue;
		}
		objects[i] = objects[--n_objects];
		if (o.handle != handle) {
			forget_tree(client, o.handle);
			i = 0;
		}
	}
}

static void forget(uint32_t client, uint32_t handle)
{
	pthread_mutex_lock(&lock);
	forget_tree(client, handle);
	pthread_mutex_unlock(&lock);
}

static void note(int fd, unsigned number, size_t size, const void *argument)
{
	struct nv_alloc_rights wide;
	struct nv_alloc narrow;
	struct nv_free gone;

	if (number == NV_ESC_ALLOC && size == sizeof(wide)) {
		memcpy(&wide, argument, sizeof(wide));
		if (wide.status == 0)
			remember(fd, wide.client, wide.parent, wide.object, wide.class);
	} else if (number == NV_ESC_ALLOC && size == sizeof(narrow)) {
		memcpy(&narrow, argument, sizeof(narrow));
		if (narrow.status == 0)
			remember(fd, narrow.client, narrow.parent, narrow.object, narrow.class);
	} else if (number == NV_ESC_FREE && size == sizeof(gone)) {
		memcpy(&gone, argument, sizeof(gone));
		if (gone.status == 0)
			forget(gone.client, gone.object);
	}
}

void rm_note(int fd, unsigned long request, const void *argument, int result)
{
	struct nv_transfer t;

	if (result < 0 || !argument || _IOC_TYPE(request) != NV_MAGIC)
		return;
	if (_IOC_NR(request) == NV_ESC_XFER && _IOC_SIZE(request) == sizeof(t)) {
		memcpy(&t, argument, sizeof(t));
		note(fd, t.command, t.size, (const void *)(uintptr_t)t.argument);
	} else {
		note(fd, _IOC_NR(request), _IOC_SIZE(request), argument);
	}
}

/* libcuda calls this function, because the linker finds symbols in the program before the
 * libraries. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;
	int r;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	r = (int)syscall(SYS_ioctl, fd, request, argument);
	if (_IOC_TYPE(request) == NV_MAGIC) {
		int saved = errno;

		rm_note(fd, request, argument, r);
		errno = saved;
	}
	return r;
}

/* 0, -errno, or RM's status, which is positive. */
static int control(const struct object *on, uint32_t command, void *params, uint32_t size)
{
	struct nv_control c = {
		.client = on->client,
		.object = on->handle,
		.command = command,
		.params = (uint64_t)(uintptr_t)params,
		.params_size = size,
	};

	if (syscall(SYS_ioctl, on->fd, NV_IOCTL_CONTROL, &c) < 0)
		return -errno;
	return (int)c.status;
}

static const struct object *subdevice_of(uint32_t client)
{
	uint32_t i;

	for (i = 0; i < n_objects; i++)
		if (objects[i].client == client && objects[i].class == CLASS_SUBDEVICE)
			return &objects[i];
	return NULL;
}

static int disable_some(struct disable_channels *some, bool disable)
{
	const struct object *subdevice = some->n ? subdevice_of(some->clients[0]) : NULL;
	int r;

	if (some->n == 0)
		return 0;
	if (!subdevice)
		return -EOPNOTSUPP;
	some->disable = disable;
	r = control(subdevice, FIFO_DISABLE_CHANNELS, some, sizeof(*some));
	*some = (struct disable_channels){0};
	return r > 0 ? -EOPNOTSUPP : r;
}

/* Disables or enables all channels of all groups: those that compute and those that copy. */
static int set_channels(bool disable)
{
	struct disable_channels some = {0};
	uint32_t i;
	int r = 0;

	for (i = 0; i < n_objects && r == 0; i++) {
		if (!is_channel(objects[i].class))
			continue;
		if (some.n == DISABLE_MOST || (some.n > 0 && some.clients[0] != objects[i].client))
			r = disable_some(&some, disable);
		some.clients[some.n] = objects[i].client;
		some.channels[some.n++] = objects[i].handle;
	}
	if (r < 0)
		return r;
	return disable_some(&some, disable);
}

static int set_groups(bool disable)
{
	uint8_t params[3] = {!disable, 0, 0};
	uint32_t i;
	int r = 0;

	for (i = 0; i < n_objects && r == 0; i++) {
		if (objects[i].class != CLASS_GROUP)
			continue;
		r = control(&objects[i], GROUP_SCHEDULE, params, schedule_size);
		if (r > 0) { /* the size may be wrong for this driver */
			schedule_size = 5 - schedule_size;
			r = control(&objects[i], GROUP_SCHEDULE, params, schedule_size);
		}
	}
	return r > 0 ? -EOPNOTSUPP : r;
}

static int set(uint32_t method, bool disable)
{
	return method == WORKER_STOP_CHANNELS ? set_channels(disable) : set_groups(disable);
}

/* Whether the table has all that METHOD needs. Called with the lock held. */
static bool knows(uint32_t method)
{
	uint32_t i, groups = 0, channels = 0, subdevices = 0;

	for (i = 0; i < n_objects; i++) {
		groups += objects[i].class == CLASS_GROUP;
		channels += is_channel(objects[i].class);
		subdevices += objects[i].class == CLASS_SUBDEVICE;
	}
	return !incomplete && (method == WORKER_STOP_CHANNELS ? channels && subdevices : groups);
}

bool rm_offers(uint32_t method)
{
	bool offers;

	pthread_mutex_lock(&lock);
	offers = knows(method);
	pthread_mutex_unlock(&lock);
	return offers;
}

int rm_stop(uint32_t method)
{
	int r;

	pthread_mutex_lock(&lock);
	r = knows(method) ? set(method, true) : -EOPNOTSUPP;
	if (r == 0)
		stopped_by = method;
	else
		set(method, false); /* some channels may have been stopped */
	pthread_mutex_unlock(&lock);
	return r;
}

int rm_resume(void)
{
	int r;

	pthread_mutex_lock(&lock);
	r = stopped_by ? set(stopped_by, false) : 0;
	stopped_by = 0;
	pthread_mutex_unlock(&lock);
	return r;
}
