/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "token.h"

bool token_is_valid(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i;

	for (i = 0; i < sizeof(form); i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != form[i])
			return false;
	return true;
}

/* A version 4 UUID (RFC 9562). */
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

/* Writes another file and renames it, so that readers find a whole token. */
static int save(const char *path, const char *token)
{
	char temporary[256], directory[256], *slash;
	int fd, r = 0;

	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = '\0';
		mkdir(directory, 0755);
	}
	snprintf(temporary, sizeof(temporary), "%.250s.new", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, token, TOKEN_SIZE - 1) != TOKEN_SIZE - 1 || fsync(fd) < 0)
		r = -EIO;
	close(fd);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	return r;
}

int token_load(const char *path, bool make, char out[TOKEN_SIZE], struct vgpu_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;
	ssize_t n;

	if (fd < 0 && (errno != ENOENT || !make))
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (fd < 0) {
		r = make_token(out);
		r = r ? r : save(path, out);
		return r ? vgpu_error_set(err, r, "cannot write %s: %s", path, strerror(-r)) : 0;
	}
	n = read(fd, out, TOKEN_SIZE - 1);
	close(fd);
	out[n < 0 ? 0 : n] = '\0';
	return token_is_valid(out)
		       ? 0
		       : vgpu_error_set(err, -EINVAL,
					"%s: not a UUID; remove the file, and end all users of VFs",
					path);
}
