/* SPDX-License-Identifier: MIT */
/* Reads and writes whole files. Any thread; all functions may block. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads FD from its current position to the end. *OUT is allocated for the caller and ends with a
 * NUL that SIZE does not count. Returns 0; -E2BIG if there are more than MAX bytes; or another
 * -errno.
 */
int vgpu_read_all(int fd, size_t max, char **out, size_t *size);
/* As vgpu_read_all, for the file at PATH. */
int vgpu_file_read(const char *path, size_t max, char **out, size_t *size);
/*
 * Writes a whole file to the disk under another name (PATH.new) and renames it: a reader of PATH,
 * also after a crash, finds the old file or the new one. A new file has MODE. Returns 0 or -errno;
 * on failure the old file remains.
 */
int vgpu_file_replace(const char *path, mode_t mode, const void *data, size_t size);
/* The two halves of vgpu_file_replace, for callers that must check something in between. Staging
 * writes PATH with this suffix; then the caller commits or discards it. Returns 0 or -errno; on
 * failure nothing is staged. */
#define VGPU_FILE_STAGED ".new"
int vgpu_file_stage(const char *path, mode_t mode, const void *data, size_t size);
int vgpu_file_commit(const char *path);
void vgpu_file_discard(const char *path);
/* Creates the directory that contains PATH, but not its parents; an existing directory is not an
 * error. Returns 0 or -errno, which callers may ignore because the next access fails, too. */
int vgpu_make_parent(const char *path);
