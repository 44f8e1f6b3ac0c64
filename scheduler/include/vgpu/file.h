/* SPDX-License-Identifier: MIT */
/* Whole files, read and written at once. Any thread; both may block. */
#ifndef VGPU_FILE_H
#define VGPU_FILE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads all of FD from where it stands, with a NUL behind it that does not count; *OUT is the
 * caller's. 0; -E2BIG if there are more than MAX bytes; or another -errno.
 */
int vgpu_read_all(int fd, size_t max, char **out, size_t *size);
/* The same for a file. */
int vgpu_file_read(const char *path, size_t max, char **out, size_t *size);
/*
 * Writes a file whole, to the disk and under another name (PATH.new) first: a reader of PATH, also
 * after a crash, finds the old file or the new one. A new file has MODE. 0 or -errno; then the old
 * file remains.
 */
int vgpu_file_replace(const char *path, mode_t mode, const void *data, size_t size);
/* The two halves of that, for what must be looked at in between. Staging writes PATH with this
 * suffix; then commit it, or discard it. 0 or -errno; then nothing is staged. */
#define VGPU_FILE_STAGED ".new"
int vgpu_file_stage(const char *path, mode_t mode, const void *data, size_t size);
int vgpu_file_commit(const char *path);
void vgpu_file_discard(const char *path);
/* Makes the directory that PATH lies in, but none above that; one that is there already is well.
 * Returns 0 or -errno, which callers may leave to the next call to meet. */
int vgpu_make_parent(const char *path);

#endif
