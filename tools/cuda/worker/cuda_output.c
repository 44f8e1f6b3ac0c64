/* SPDX-License-Identifier: MIT */
/*
 * The output of GPU kernels. The driver collects it in a buffer, and writes it to this process's
 * standard output when the process waits for a stream. It writes a sentence about a failed
 * assertion to standard error. Standard output is a pipe of one MiB that the process itself reads:
 * output that does not fit is lost, so that writing never blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_private.h"
#include "vgpu/descriptor.h"

#define PIPE_BYTES (1 << 20)

int cuda_begin_output(struct device *d, struct vgpu_error *err)
{
	int ends[2] = {-1, -1};

	if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0 || dup2(ends[1], STDOUT_FILENO) < 0) {
		int r = -errno;

		vgpu_close(&ends[0]);
		vgpu_close(&ends[1]);
		return vgpu_error_set(err, r,
				      "cannot make a pipe for the output of GPU kernels: %s",
				      strerror(-r));
	}
	/* May fail, so that the pipe stays smaller, if the user has many pages in pipes. */
	fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
	vgpu_close(&ends[1]);
	d->printed = ends[0];
	return 0;
}

void cuda_end_output(struct device *d)
{
	vgpu_close(&d->printed);
}

uint32_t cuda_output(struct device *d, char *text, uint32_t room)
{
	ssize_t n;

	if (d->api.cuCtxSetCurrent(d->context) == CUDA_SUCCESS)
		d->api.cuStreamSynchronize(d->stream);
	fflush(stdout);
	n = read(d->printed, text, room);
	return n > 0 ? (uint32_t)n : 0;
}

/*
 * Reads what the driver writes to standard error, which is a second pipe meanwhile. The pipe
 * replaces standard error for the whole process, so a line that another thread logs at that instant
 * (rm.c can) is mistaken for the driver's. Such a line concerns only this VF. A lock would not
 * help, because the driver's own threads do not take it.
 */
void cuda_last_words(struct device *d, char *text, uint32_t room)
{
	int ends[2] = {-1, -1}, before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	ssize_t n = 0;

	if (before >= 0 && pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0) {
		dup2(ends[1], STDERR_FILENO);
		d->api.cuStreamSynchronize(d->stream);
		fflush(stderr);
		dup2(before, STDERR_FILENO);
		n = read(ends[0], text, room - 1);
	}
	text[n > 0 ? n : 0] = 0;
	vgpu_close(&ends[0]);
	vgpu_close(&ends[1]);
	vgpu_close(&before);
}
