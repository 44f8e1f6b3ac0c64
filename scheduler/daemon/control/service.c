/* SPDX-License-Identifier: MIT */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "vfio/store.h"

/* The names of the descriptors that the service manager passed, the first of which is
 * SD_LISTEN_FDS_START. Protected by the lock, because engine threads take and drop theirs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char **names;
static int n_names;
static bool *wanted;

static int store_put(const char *name, int fd)
{
	char text[128];
	int r;

	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
	return r < 0 ? r : r == 0 ? -ENOTCONN : 0;
}

static int take(const char *name)
{
	int i, fd = -ENOENT;

	pthread_mutex_lock(&lock);
	for (i = 0; i < n_names && fd == -ENOENT; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		wanted[i] = true;
		fd = fcntl(SD_LISTEN_FDS_START + i, F_DUPFD_CLOEXEC, 0);
		fd = fd < 0 ? -errno : fd;
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

/* Closes vgpud's copy as well, so that no copy stays open. */
static void drop_one(int i)
{
	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", names[i]);
	close(SD_LISTEN_FDS_START + i);
	names[i][0] = '\0';
}

static void drop(const char *name)
{
	int i;

	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	pthread_mutex_lock(&lock);
	for (i = 0; i < n_names; i++)
		if (strcmp(names[i], name) == 0)
			drop_one(i);
	pthread_mutex_unlock(&lock);
}

static const struct vfio_store store = {store_put, take, drop};

void service_start(void)
{
	n_names = sd_listen_fds_with_names(0, &names);
	wanted = n_names > 0 ? calloc((size_t)n_names, sizeof(*wanted)) : NULL;
	if (!wanted)
		n_names = 0;
	if (getenv("NOTIFY_SOCKET"))
		vfio_store = &store;
}

int service_socket(const char *name)
{
	return take(name);
}

void service_keep(const char *name, int fd)
{
	if (vfio_store)
		store_put(name, fd);
}

void service_forget(const char *name)
{
	drop(name);
}

bool service_holds(void)
{
	return vfio_store != NULL;
}

/* Dropping a name drops all its descriptors: the wanted one is then stored again. */
static void drop_unused(int i)
{
	int k;

	for (k = 0; k < n_names && !(wanted[k] && strcmp(names[k], names[i]) == 0); k++)
		;
	drop_one(i);
	if (k < n_names)
		store_put(names[k], SD_LISTEN_FDS_START + k);
}

void service_drop_unused(void)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < n_names; i++)
		if (!wanted[i] && names[i][0])
			drop_unused(i);
	pthread_mutex_unlock(&lock);
}

void service_ready(void)
{
	sd_notify(0, "READY=1");
}

void service_alive(const char *status)
{
	sd_notifyf(0, "WATCHDOG=1\nSTATUS=%s", status);
}

void service_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}
