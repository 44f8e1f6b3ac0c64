/* SPDX-License-Identifier: MIT */
/*
 * Sets a GPU up, or adopts it. A GPU that has the configured number of VFs is adopted with its
 * settings: its tenants keep running. Any other GPU is set up, in the order that the kernel needs:
 * memory and turns while there are no VFs, because the kernel gives a VF without memory its share
 * when it is made, and because endless turns must not exist when guests start; then the VFs. If
 * anything fails, the GPU is as it was found.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vfio/kernel.h"
#include "xe.h"

#define PREFIX "xe:"
#define QUICK_MS 5000
#define FIRST_QUANTUM (16 * VGPU_MSEC) /* until there is a policy; the kernel's own since 7.2 */
#define FIRST_TIMEOUT (16 * VGPU_MSEC)

int xe_probe(const char *device, struct vgpu_error *err)
{
	struct pci_info info;
	int r;

	if (strncmp(device, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	r = xe_recognise(device + strlen(PREFIX), &info, err);
	return r < 0 ? r : 1;
}

/* What open() finds, and puts back if it fails. */
struct setup {
	struct pci_info pf;
	const struct vgpu_driver_config *config;
	bool fresh;  /* the VFs are made by this call */
	bool memory; /* the host divides it */
	struct xe_schedule found, have;
	uint64_t found_memory[VGPU_GPU_MAX_VFS], sizes[VGPU_GPU_MAX_VFS];
	vgpu_vf_set resized;
	int64_t autoprobe;
};

static int check_sizes(const struct setup *s, struct vgpu_error *err)
{
	const struct vgpu_driver_config *c = s->config;
	uint32_t sized = 0, i;

	for (i = 0; i < c->n_vfs; i++)
		sized += c->sizes[i] != 0;
	if (sized && sized < c->n_vfs)
		return vgpu_error_set(err, -EINVAL,
				      "memory_mib: set for %" PRIu32 " of %" PRIu32
				      " VFs of %s; the kernel then gives the others none: set it "
				      "for all, or for none",
				      sized, c->n_vfs, s->pf.address);
	if (sized && !s->memory)
		return vgpu_error_set(err, -EINVAL,
				      "memory_mib: this kernel cannot divide the memory of %s: it "
				      "has none of its own, or vram_quota is missing (Linux 7.0); "
				      "remove memory_mib",
				      s->pf.address);
	return 0;
}

/* Reads all that this call may change. */
static int find(struct setup *s, struct vgpu_error *err)
{
	const char *pf = s->pf.address;
	int r;

	s->found.n = (s->pf.vfs > s->config->n_vfs ? s->pf.vfs : s->config->n_vfs) + 1;
	if (s->found.n > XE_FUNCTIONS)
		s->found.n = XE_FUNCTIONS;
	r = xe_read_schedule(pf, &s->found);
	if (r == -EUCLEAN)
		r = 0;
	if (r == 0)
		r = kernel_read_number(&s->autoprobe, PCI_DEVICES "/%s/sriov_drivers_autoprobe",
				       pf);
	if (r < 0)
		return vgpu_error_set(err, r, "%s: cannot read its settings (sriov_admin): %s", pf,
				      strerror(-r));
	return s->memory ? xe_read_all_memory(pf, s->config->n_vfs, s->found_memory, err) : 0;
}

static int set_memory(struct setup *s, struct vgpu_error *err)
{
	uint32_t n = s->config->n_vfs, with = 0, i;
	int r;

	if (!s->memory)
		return 0;
	if (s->config->sizes[0]) {
		r = xe_set_memory(s->pf.address, n, s->config->sizes, s->sizes, &s->resized, err);
		/* VFs in use keep what they have. */
		return r == -EBUSY && !s->fresh ? 0 : r;
	}
	r = xe_read_all_memory(s->pf.address, n, s->sizes, err);
	for (i = 0; i < n && r == 0; i++)
		with += s->sizes[i] != 0;
	if (r == 0 && s->fresh && with && with < n)
		return vgpu_error_set(err, -EINVAL,
				      "%s: %" PRIu32 " of %" PRIu32 " VFs have memory, and the "
				      "kernel would give the others none: set memory_mib of all "
				      "VFs, or write 0 to "
				      "sriov_admin/.bulk_profile/vram_quota",
				      s->pf.address, with, n);
	return r;
}

/* Turns for all, before any VF exists. */
static int set_turns(struct setup *s, struct vgpu_error *err)
{
	struct vgpu_program first = {.keep_turns = false};
	struct xe_schedule want;
	uint32_t i;
	int r;

	for (i = 0; i < s->config->n_vfs; i++) {
		first.vfs[i].quantum = FIRST_QUANTUM;
		first.vfs[i].timeout = FIRST_TIMEOUT;
	}
	xe_schedule_of(&first, s->config->n_vfs, &want);
	r = xe_write_schedule(s->pf.address, &want, &s->have, NULL);
	if (r == 0 && memcmp(want.at, s->have.at, sizeof(want.at)) != 0)
		r = -EIO;
	return r < 0 ? vgpu_error_set(err, r,
				      "%s: cannot set quantum and time-out of its functions: %s; "
				      "see the kernel's log",
				      s->pf.address,
				      r == -ECANCELED ? "the kernel has given the GPU up (wedged)"
						      : strerror(-r))
		     : 0;
}

/* Memory that the kernel has given to a VF anew holds what was there before: only a reset of the VF
 * has the kernel clear it. */
static int clear(const struct setup *s, struct vgpu_error *err)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < s->config->n_vfs && r == 0 && s->memory; i++)
		if (s->fresh || s->resized >> i & 1)
			r = pci_reset_vf(s->pf.address, i);
	return r < 0 ? vgpu_error_set(err, r,
				      "%s: cannot reset VF %" PRIu32 ", which clears its memory: "
				      "%s",
				      s->pf.address, i - 1, strerror(-r))
		     : 0;
}

static int make_vfs(struct setup *s, struct vgpu_error *err)
{
	const char *pf = s->pf.address;
	int r;

	if (s->fresh && s->pf.vfs) {
		r = pci_set_vfs(pf, 0, err);
		if (r < 0)
			return r;
	}
	r = set_memory(s, err);
	if (r == 0 && s->fresh)
		r = set_turns(s, err);
	if (r == 0)
		r = pci_set_vfs(pf, s->config->n_vfs, err);
	if (r == 0)
		r = clear(s, err);
	return r;
}

/* What VFs get back is cleared as well. */
static void put_back(const struct setup *s)
{
	const char *pf = s->pf.address;
	uint64_t sizes[VGPU_GPU_MAX_VFS];
	struct xe_schedule have;
	vgpu_vf_set changed;
	uint32_t i;

	if (s->fresh)
		pci_set_vfs(pf, 0, NULL);
	if (s->memory && (s->fresh || s->resized))
		xe_set_memory(pf, s->config->n_vfs, s->found_memory, sizes, &changed, NULL);
	if (s->fresh) {
		xe_write_schedule(pf, &s->found, &have, NULL);
		if (s->pf.vfs)
			pci_set_vfs(pf, s->pf.vfs, NULL);
		kernel_write_text(QUICK_MS, s->autoprobe ? "1" : "0",
				  PCI_DEVICES "/%s/sriov_drivers_autoprobe", pf);
	}
	for (i = 0; i < s->pf.vfs && s->memory; i++)
		if (s->fresh || s->resized >> i & 1)
			pci_reset_vf(pf, i);
}

static void describe(const struct setup *s, struct vgpu_driver_caps *caps,
		     struct vgpu_driver_found *found)
{
	/* There is no memory to partition: sizes are set here and by the kernel, and nowhere else.
	 * Nobody tells whose guest's driver is up. */
	*found = (struct vgpu_driver_found){.adopted = !s->fresh};
	*caps = (struct vgpu_driver_caps){
		.kind = VGPU_DRIVER_PROGRAMMED,
		.driver = vgpu_xe_driver.name,
		.max_vfs = s->pf.total_vfs < VGPU_GPU_MAX_VFS ? s->pf.total_vfs : VGPU_GPU_MAX_VFS,
		.reset_levels = 1u << VGPU_RESET_VF,
		.preemption = "hard",
		.hides_guests = true,
		.quantum = {VGPU_MSEC, XE_QUANTUM_MAX_MS * VGPU_MSEC, VGPU_MSEC},
		.timeout = {VGPU_USEC, XE_TIMEOUT_MAX_US * VGPU_USEC, VGPU_USEC},
		.keeps_turns = xe_has_priorities(s->pf.address),
	};
	snprintf(caps->model, sizeof(caps->model), "Intel %04x", s->pf.device);
	pci_model(&s->pf, caps->model, sizeof(caps->model));
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "sriov_admin");
}

static int set_up(struct vgpu_driver *d, struct setup *s, struct vgpu_error *err)
{
	struct xe_counters *counters = NULL;
	const char *pf = s->pf.address;
	struct vgpu_program have;
	int r = make_vfs(s, err);

	if (r == 0) {
		s->have.n = s->config->n_vfs + 1;
		r = xe_read_schedule(pf, &s->have);
		if (r == -EUCLEAN)
			r = 0; /* the first program mends that */
		if (r < 0)
			vgpu_error_set(err, r, "%s: cannot read its settings back: %s", pf,
				       strerror(-r));
	}
	if (r == 0)
		r = xe_counters_open(&counters, pf, s->config->n_vfs, err);
	d->own = counters;
	if (r == 0) {
		xe_program_of(&s->have, &have);
		r = settings_writer_start(&d->writer, &xe_settings, pf, s->config->n_vfs, &have);
		if (r < 0)
			vgpu_error_set(err, r, "%s: cannot start a thread: %s", pf, strerror(-r));
	}
	if (r < 0) {
		xe_counters_close(counters);
		put_back(s);
	}
	return r;
}

/* Finds the GPU, and whether it can be as configured. */
static int find_gpu(struct setup *s, struct vgpu_error *err)
{
	int r = xe_recognise(s->config->device + strlen(PREFIX), &s->pf, err);

	if (r < 0)
		return r;
	s->memory = xe_has_memory(s->pf.address);
	s->fresh = s->pf.vfs != s->config->n_vfs;
	r = settings_check_config(&s->pf, s->config, err);
	return r == 0 ? check_sizes(s, err) : r;
}

int xe_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *,
	     struct vgpu_error *err)
{
	struct setup s = {.config = config};

	return find_gpu(&s, err);
}

int xe_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	    struct vgpu_driver_caps *caps, struct vgpu_driver_found *found, vgpu_event_sink *sink,
	    void *data, struct vgpu_error *err)
{
	struct setup s = {.config = config};
	struct vgpu_driver *d;
	int r = find_gpu(&s, err);

	if (r < 0)
		return r;
	d = settings_new(sink, data, err);
	if (!d)
		return -ENOMEM;
	r = settings_lock(&d->lock, s.pf.address, err);
	if (r == 0)
		r = find(&s, err);
	if (r == 0)
		r = settings_check_vfs(&s.pf, err);
	if (r == 0)
		r = set_up(d, &s, err);
	if (r < 0) {
		settings_free(d);
		return r;
	}
	describe(&s, caps, found);
	*out = d;
	return 0;
}

void xe_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* nothing of it is kept */
	settings_writer_end(&d->writer);
	xe_counters_close(d->own);
	settings_free(d);
}
