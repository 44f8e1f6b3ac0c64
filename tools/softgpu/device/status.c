/* SPDX-License-Identifier: MIT */
/*
 * The status page: registers that the PF's client only reads, as memory that it maps. The device
 * writes it and never reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

int status_create(struct softgpu *gpu, struct vgpu_error *err)
{
	void *page;

	if (gpu->layout->at[GPUIOV_FEATURES].space == GPUIOV_NOWHERE)
		return 0;
	gpu->status_fd = memfd_create("softgpu-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (gpu->status_fd < 0 || ftruncate(gpu->status_fd, BAR2_SIZE) < 0 ||
	    fcntl(gpu->status_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return vgpu_error_set(err, -errno, "the status page: %s", strerror(errno));
	page = mmap(NULL, BAR2_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, gpu->status_fd, 0);
	if (page == MAP_FAILED)
		return vgpu_error_set(err, -errno, "the status page: %s", strerror(errno));
	gpu->status_page = page;
	return 0;
}

void status_destroy(struct softgpu *gpu)
{
	if (gpu->status_page)
		munmap(gpu->status_page, BAR2_SIZE);
	if (gpu->status_fd >= 0)
		close(gpu->status_fd);
}

void status_publish(struct softgpu *gpu)
{
	_Atomic uint32_t *to = (_Atomic uint32_t *)gpu->status_page;
	uint32_t words[SOFTGPU_STATUS_WORDS], i;

	if (!to)
		return;
	words[SOFTGPU_SHOWS_TAKEN] = gpu->taken;
	words[SOFTGPU_SHOWS_STATUS] = gpu->status;
	words[SOFTGPU_SHOWS_BUSY] = registers_busy(gpu);
	words[SOFTGPU_SHOWS_CHAIN] = command_chain_status(gpu);
	for (i = 0; i < SOFTGPU_CHAIN_LENGTH; i++)
		words[SOFTGPU_SHOWS_TOOK + i] = gpu->chain.took[i];
	if (gpu->dead)
		memset(words, 0xff, sizeof(words));
	if (memcmp(&words[1], &gpu->shown[1], sizeof(words) - sizeof(words[0])) == 0)
		return;
	words[0] = gpu->shown[0] + 2;
	atomic_store_explicit(&to[0], words[0] - 1, memory_order_relaxed);
	/* A reader that sees one of these words also sees the odd number. */
	for (i = 1; i < SOFTGPU_STATUS_WORDS; i++)
		atomic_store_explicit(&to[i], words[i], memory_order_release);
	atomic_store_explicit(&to[0], words[0], memory_order_release);
	memcpy(gpu->shown, words, sizeof(words));
}
