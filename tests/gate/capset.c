/* SPDX-License-Identifier: MIT */
/* In a guest: asks for a context of the capset that is named on the command line, 0 for one of no
 * capset, and submits to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* Linux, drm/virtgpu_drm.h. */
struct parameter {
	uint64_t parameter, value;
};
struct context {
	uint32_t n, pad;
	uint64_t parameters;
};
struct submission {
	uint32_t flags, size;
	uint64_t command, handles;
	uint32_t n_handles;
	int32_t fence_fd;
	uint32_t ring, stride, n_in, n_out;
	uint64_t in, out;
};
#define CONTEXT_INIT _IOWR('d', 0x40 + 0x0b, struct context)
#define EXECBUFFER _IOWR('d', 0x40 + 0x02, struct submission)
#define PARAMETER_CAPSET 1

int main(int argc, char **argv)
{
	struct parameter capset = {PARAMETER_CAPSET, argc > 1 ? strtoul(argv[1], NULL, 0) : 0};
	struct context context = {.n = 1, .parameters = (uintptr_t)&capset};
	uint32_t command[4] = {0};
	struct submission submission = {.size = sizeof(command), .command = (uintptr_t)command};
	int fd = open("/dev/dri/renderD128", O_RDWR);

	if (fd < 0) {
		perror("/dev/dri/renderD128");
		return 1;
	}
	if (capset.value && ioctl(fd, CONTEXT_INIT, &context) < 0)
		printf("capset %u: no context: %s\n", (unsigned)capset.value, strerror(errno));
	else
		printf("capset %u: submission: %s\n", (unsigned)capset.value,
		       ioctl(fd, EXECBUFFER, &submission) < 0 ? strerror(errno) : "taken");
	return 0;
}
