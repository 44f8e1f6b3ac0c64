/* SPDX-License-Identifier: MIT */
/*
 * The note that vgpud leaves beside each of its sockets (PATH.note) while it does not serve it, so
 * that clients can say why. vgpud removes it when it is ready; one that was killed has left none.
 * Any thread; both ends may block.
 */
#ifndef VGPU_NOTE_H
#define VGPU_NOTE_H

#include <stddef.h>

enum vgpu_note {
	VGPU_NOTE_NONE = 0,
	VGPU_NOTE_STARTING, /* vgpud opens its GPUs */
	VGPU_NOTE_FAILED,   /* the start failed, and nothing repeats it */
	VGPU_NOTE_STOPPED   /* on request */
};

/* Writes the note of the socket at PATH, readable for everybody, with the time and, if it FAILED,
 * WHY. Errors are not reported: a client that finds no note says that vgpud does not run. */
void vgpu_note_write(const char *path, enum vgpu_note what, const char *why);
void vgpu_note_remove(const char *path);
/* Returns what the note says, and its sentence about vgpud ("it was stopped at ...") in OUT. */
enum vgpu_note vgpu_note_read(const char *path, char *out, size_t size);

#endif
