/* SPDX-License-Identifier: MIT */
/*
 * The note beside each of vgpud's sockets (PATH.note) that tells clients why vgpud does not serve
 * it. vgpud writes it when it starts or stops, and removes it when it is ready; a killed vgpud
 * leaves none. Any thread; both ends may block.
 */
#pragma once

#include <stddef.h>

enum vgpu_note {
	VGPU_NOTE_NONE = 0,
	VGPU_NOTE_STARTING, /* vgpud is opening its GPUs */
	VGPU_NOTE_FAILED,   /* the start failed, and nothing repeats it */
	VGPU_NOTE_STOPPED   /* vgpud was stopped on request */
};

/* Writes the note of the socket at PATH, readable by all users, with the time and, if it FAILED,
 * WHY. Errors are not reported: a client that finds no note reports that vgpud does not run. */
void vgpu_note_write(const char *path, enum vgpu_note what, const char *why);
void vgpu_note_remove(const char *path);
/* Returns the kind of note, and its sentence about vgpud ("it was stopped at ...") in OUT. */
enum vgpu_note vgpu_note_read(const char *path, char *out, size_t size);
