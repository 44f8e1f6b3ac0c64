/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "token.h"
#include "vgpu/file.h"
#include "vgpu/names.h"

/* Bytes: a UUID, and white space that an editor may have added. */
#define MAX_FILE 256u

/* Makes a version 4 UUID (RFC 9562). */
static int make_token(char out[TOKEN_SIZE])
{
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -EIO;
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(out, TOKEN_SIZE,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
	return 0;
}

static int make_file(const char *path, char out[TOKEN_SIZE])
{
	int r = make_token(out);

	if (r < 0)
		return r;
	vgpu_make_parent(path);
	return vgpu_file_replace(path, 0600, out, TOKEN_SIZE - 1);
}

int token_load(const char *path, bool make, char out[TOKEN_SIZE], struct vgpu_error *err)
{
	char *text = NULL;
	size_t size;
	int r = vgpu_file_read(path, MAX_FILE, &text, &size);

	if (r == -ENOENT && make) {
		r = make_file(path, out);
		return r ? vgpu_error_set(err, r, "cannot write %s: %s", path, strerror(-r)) : 0;
	}
	if (r < 0 && r != -E2BIG)
		return vgpu_error_set(err, r, "%s: %s", path, strerror(-r));
	snprintf(out, TOKEN_SIZE, "%s", r == 0 ? text : "");
	free(text);
	if (vgpu_uuid_normal(out, out) < 0)
		return vgpu_error_set(err, -EINVAL,
				      "%s: not a UUID; remove the file, and end all users of VFs",
				      path);
	return 0;
}
