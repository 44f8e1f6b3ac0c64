/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "workload_state.h"

const struct workload *const workloads[] = {&work_mandelbrot,  &work_sha256, &work_gemm,
					    &work_saxpy,       &work_dma,    &work_mixed,
					    &work_interactive, &work_spin,   &work_hog,
					    &work_endless,     &work_fault,  NULL};

const struct workload *workload_find(const char *name)
{
	size_t i;

	for (i = 0; workloads[i]; i++)
		if (strcmp(workloads[i]->name, name) == 0)
			return workloads[i];
	return NULL;
}

/* With --device-memory, uploads the slot from the window first, and downloads it at the end. */
void workload_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t in_window = s->window + slot * s->slot_size;
	struct softgpu_packet upload = {SOFTGPU_UPLOAD,
					0,
					{slot_offset(s, slot), in_window, s->slot_size}};
	struct softgpu_packet download = {SOFTGPU_DOWNLOAD,
					  0,
					  {in_window, slot_offset(s, slot), s->slot_size}};

	if (!s->o.device_memory) {
		s->w->emit(s, g, slot);
		return;
	}
	guest_put(g, &upload);
	s->w->emit(s, g, slot);
	guest_put(g, &download);
}

int workload_restart(struct workload_state *s, struct guest *g, struct vgpu_error *err)
{
	uint64_t size;
	uint32_t i;

	s->memory = guest_memory(g, &s->window, &size);
	s->offset = s->window;
	if (s->o.device_memory) {
		uint64_t behind;

		guest_device_memory(g, &s->offset, &behind);
		if (behind == 0 || s->w->dma_bytes)
			return vgpu_error_set(err, -EINVAL, "--device-memory: %s",
					      behind ? "this workload uses DMA, which reaches the "
						       "window only"
						     : "this VF has no memory behind its window");
		size = behind < size ? behind : size;
	}
	if (s->slot_size * s->slots > size)
		return vgpu_error_set(err, -ENOSPC,
				      "%u jobs of %s need %llu bytes, and the VF has %llu: use a "
				      "smaller --size or --depth",
				      s->slots, s->w->name,
				      (unsigned long long)(s->slot_size * s->slots),
				      (unsigned long long)size);
	for (i = 0; i < s->slots; i++)
		s->w->fill(s, i);
	return 0;
}

/* Allocates memory, and lets the device access it until the guest disconnects. */
static int map_own_memory(struct workload_state *s, struct guest *g, struct vgpu_error *err)
{
	uint64_t size;
	void *memory;
	int r;

	s->own_size = (s->w->dma_bytes(&s->o) + 4095) / 4096 * 4096;
	size = s->own_size * s->slots;
	VGPU_AUTO_CLOSE int fd = memfd_create("vgpu-guest", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return vgpu_error_set(err, -errno, "memory for DMA: %s", strerror(errno));
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return vgpu_error_set(err, -errno, "memory for DMA: %s", strerror(errno));
	s->own = memory;
	r = guest_map_dma(g, fd, DMA_IOVA, size);
	if (r < 0)
		return vgpu_error_set(err, r, "memory for DMA: %s", strerror(-r));
	return 0;
}

int workload_prepare(struct workload_state **out, const struct workload *w, struct guest *g,
		     const struct workload_options *o, uint32_t slots, struct vgpu_error *err)
{
	struct workload_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	s->w = w;
	s->o = *o;
	s->slots = slots;
	s->slot_size = (w->slot_bytes(o) + 4095) / 4096 * 4096;
	s->expected = calloc(slots, s->slot_size);
	if (s->expected)
		r = workload_restart(s, g, err);
	else
		r = vgpu_error_set(err, -ENOMEM, "out of memory");
	if (r == 0 && w->dma_bytes)
		r = map_own_memory(s, g, err);
	if (r < 0) {
		workload_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void workload_free(struct workload_state *s)
{
	if (!s)
		return;
	if (s->own)
		munmap(s->own, s->own_size * s->slots);
	free(s->expected);
	free(s);
}
