/* SPDX-License-Identifier: MIT */
/*
 * DMA that a hostile VF process asks of the device library's carrier, such as QEMU. The carrier is
 * asked for what a whole message says, and for nothing else; the answer has the bytes that were
 * asked for where the transfer was made, and none where it was not.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "../../tools/softgpu/device/processes/local.c"
#include "fuzz.h"

#define CLIENT (UINT64_C(32) << 10)
#define MAX_MESSAGES 20u

static uint8_t client[CLIENT], bytes[sizeof(struct vf_dma) + 2 * VF_DMA_MOST];
static uint32_t transfers;

static int on_dma(void *, int fn, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	HOLDS(fn == 0 && size <= VF_DMA_MOST);
	transfers++;
	if (iova > CLIENT || size > CLIENT - iova)
		return -EFAULT;
	memcpy(to_client ? client + iova : buffer, to_client ? buffer : client + iova, size);
	return 0;
}

static const struct softgpu_carrier carrier = {.dma = on_dma};

/* One message of N bytes, of which the first are ASK. */
static void ask_for(struct local *l, int fd, int theirs, const struct vf_dma *ask, size_t n)
{
	/* What is longer than any message is cut off. */
	size_t most = sizeof(*ask) + VF_DMA_MOST, taken = n < most ? n : most;
	bool is_whole = n >= sizeof(*ask) && ask->size <= VF_DMA_MOST &&
			(!ask->to_client || taken == sizeof(*ask) + ask->size);
	bool fits = ask->iova <= CLIENT && ask->size <= CLIENT - ask->iova;
	uint32_t was = transfers;
	struct vf_dma answer;
	ssize_t got;

	memcpy(bytes, ask, sizeof(*ask));
	HOLDS(send(theirs, bytes, n, MSG_DONTWAIT) == (ssize_t)n);
	HOLDS(serve_dma(l, fd) == is_whole);
	HOLDS(transfers == was + is_whole);
	got = recv(theirs, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (!is_whole) {
		HOLDS(got < 0);
		return;
	}
	memcpy(&answer, bytes, sizeof(answer));
	HOLDS(answer.result == (fits ? 0 : -EFAULT));
	HOLDS(got == (ssize_t)(sizeof(answer) + (fits && !ask->to_client ? ask->size : 0)));
	if (fits && !ask->to_client)
		HOLDS(!memcmp(bytes + sizeof(answer), client + ask->iova, ask->size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct softgpu gpu = {.carrier = &carrier};
	struct local l = {.gpu = &gpu, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct input in = {data, size};
	struct vf_dma ask;
	uint32_t i, how;
	size_t n;
	int pair[2];

	HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (i = 0; i < MAX_MESSAGES && in.left > 0; i++) {
		how = (uint32_t)input_number(&in, 1);
		ask = (struct vf_dma){.iova = input_number(&in, how & 1 ? 8 : 2)};
		ask.size = (uint32_t)input_number(&in, how & 2 ? 4 : 2);
		ask.to_client = how & 4 ? (uint32_t)input_number(&in, 4) : how >> 3 & 1;
		n = sizeof(ask) + (ask.to_client && ask.size <= VF_DMA_MOST ? ask.size : 0);
		if (how & 0x10)
			n = 1 + input_number(&in, 2) % sizeof(bytes);
		input_bytes(&in, bytes + sizeof(ask), how >> 5);
		ask_for(&l, pair[0], pair[1], &ask, n);
	}
	close(pair[0]);
	close(pair[1]);
	return 0;
}
