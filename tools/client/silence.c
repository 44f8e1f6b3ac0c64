/* SPDX-License-Identifier: MIT */
#include "silence.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgpu/note.h"

/* Returns the process that called listen() last; 0: none of this PID namespace. */
static pid_t listener_of(int fd)
{
	struct ucred peer = {.pid = 0};
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? 0 : peer.pid;
}

/* Returns the state of a process as in proc(5); 0: there is none, or it cannot be seen. */
static char state_of(pid_t pid)
{
	char path[40], text[400], *end;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')'); /* the name before it may hold anything */
	return end && end[1] == ' ' ? end[2] : 0;
}

/* The path of the listening socket at the other end; "": it has none. */
static void path_of(int fd, char out[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1])
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t size = sizeof(address);

	out[0] = '\0';
	if (getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
	    size > offsetof(struct sockaddr_un, sun_path))
		snprintf(out, sizeof(address.sun_path) + 1, "%.*s", (int)sizeof(address.sun_path),
			 address.sun_path);
}

static enum vgpu_note note_of(int fd, char *out, size_t size)
{
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];

	path_of(fd, path);
	out[0] = '\0';
	return path[0] ? vgpu_note_read(path, out, size) : VGPU_NOTE_NONE;
}

enum silence silence_of(int fd)
{
	pid_t pid = listener_of(fd);
	char state = pid ? state_of(pid) : 0, note[8];

	if (pid == getpid())
		return SILENCE_OWN;
	if (state == 'T' || state == 't')
		return SILENCE_FROZEN;
	if ((pid && kill(pid, 0) < 0 && errno == ESRCH) ||
	    note_of(fd, note, sizeof(note)) == VGPU_NOTE_STARTING)
		return SILENCE_STARTING;
	return SILENCE_UNKNOWN;
}

int silence_at(const char *path, int r, struct vgpu_error *err)
{
	char note[sizeof(err->text)];

	if (r == -ETIMEDOUT)
		return vgpu_error_set(err, -EHOSTDOWN,
				      "vgpud does not answer: it accepts no connection at %s; see "
				      "'systemctl status vgpud'",
				      path);
	if (vgpu_note_read(path, note, sizeof(note)))
		return vgpu_error_set(err, r, "vgpud is not running: %s", note);
	return vgpu_error_set(err, r, "cannot connect to %s: %s; is vgpud running?", path,
			      strerror(-r));
}

int silence_on(int fd, struct vgpu_error *err)
{
	pid_t pid = listener_of(fd);
	char note[sizeof(err->text)];

	switch (silence_of(fd)) {
	case SILENCE_FROZEN:
		return vgpu_error_set(err, -EHOSTDOWN,
				      "vgpud does not answer: a signal or a debugger has stopped "
				      "its process %d; 'kill -CONT %d' lets it continue",
				      (int)pid, (int)pid);
	case SILENCE_STARTING:
		if (note_of(fd, note, sizeof(note)))
			return vgpu_error_set(err, -EHOSTDOWN, "vgpud does not answer: %s", note);
		return vgpu_error_set(err, -EHOSTDOWN,
				      "vgpud does not answer: its process %d has ended, and no "
				      "other has taken its place; see 'systemctl status vgpud'",
				      (int)pid);
	default:
		return vgpu_error_set(err, -EHOSTDOWN,
				      "vgpud does not answer: it runs, and hangs; see 'systemctl "
				      "status vgpud'");
	}
}
