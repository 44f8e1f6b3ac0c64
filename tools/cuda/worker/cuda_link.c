/* SPDX-License-Identifier: MIT */
/* Makes binaries for this NVIDIA GPU from guests' images and from softgpu's own GPU kernels, with
 * the compiler and the linker of NVIDIA's driver. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"
#include "gate.h"
#include "image.h"

/* An image in a form that the driver's linker accepts. */
struct part {
	enum image_kind kind; /* PTX, with its zero byte, or CUBIN */
	void *at;
	uint64_t bytes;
	void *made; /* allocation that contains AT, to be freed; NULL: AT is in the image */
};

/* An image that is being made into a binary. */
struct job {
	struct device *d;
	bool gated, completes; /* COMPLETES: the parts are linked, not only compiled */
	uint64_t room;	       /* number of bytes that may still be unpacked */
	struct part *parts;
	uint32_t n;
	char *log;
	uint32_t log_size;
};

/* Links all parts to *OUT, of *SIZE bytes; unless J->completes, only compiles the parts that are
 * PTX. */
static CUresult add_parts(const struct job *j, CUlink link, uint8_t **out, size_t *size)
{
	CUresult e = CUDA_SUCCESS;
	const struct part *p;
	void *linked;

	for (p = j->parts; p < j->parts + j->n && e == CUDA_SUCCESS; p++)
		if (p->kind == IMAGE_PTX)
			e = j->d->api.cuLinkAddData(link, CU_JIT_INPUT_PTX, p->at, p->bytes,
						    "module", 0, NULL, NULL);
		else if (j->completes)
			e = j->d->api.cuLinkAddData(link, CU_JIT_INPUT_CUBIN, p->at, p->bytes,
						    "module", 0, NULL, NULL);
	if (e != CUDA_SUCCESS || !j->completes)
		return e;
	e = j->d->api.cuLinkComplete(link, &linked, size);
	if (e != CUDA_SUCCESS)
		return e;
	*out = malloc(*size);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(*out, linked, *size);
	return CUDA_SUCCESS;
}

static CUresult link_parts(const struct job *j, uint8_t **out, size_t *size)
{
	int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
	void *values[] = {j->log, (void *)(uintptr_t)j->log_size};
	CUresult e, ended;
	CUlink link;

	e = j->d->api.cuLinkCreate(2, options, values, &link);
	if (e != CUDA_SUCCESS)
		return e;
	e = add_parts(j, link, out, size);
	ended = j->d->api.cuLinkDestroy(link);
	return e == CUDA_SUCCESS ? ended : e;
}

CUresult cuda_assemble(struct device *d, char *text, uint8_t **out, size_t *size, char *log,
		       uint32_t log_size)
{
	struct part part = {.kind = IMAGE_PTX, .at = text, .bytes = strlen(text) + 1};
	struct job j = {.d = d,
			.completes = true,
			.parts = &part,
			.n = 1,
			.log = log,
			.log_size = log_size};

	return link_parts(&j, out, size);
}

/* Takes this GPU's binary out of a fat binary, or else its PTX. Does not unpack more than the VF's
 * allowance for modules, because larger modules would not be loaded. */
static int unpack(struct job *j, const uint8_t *image, uint64_t bytes, struct part *out,
		  struct vgpu_error *err)
{
	struct image_member m;
	int r = image_find(image, bytes, j->d->major, j->d->minor, &m, err);

	if (r == 0 && m.kind == IMAGE_UNKNOWN)
		r = vgpu_error_set(err, -ENOEXEC,
				   "the fat binary has no binary and no PTX for this GPU, compute "
				   "capability %d.%d",
				   j->d->major, j->d->minor);
	if (r == 0)
		r = image_unpack(&m, j->room, (uint8_t **)&out->made, err);
	if (r < 0)
		return r;
	j->room -= m.unpacked;
	out->at = out->made;
	out->kind = m.kind;
	out->bytes = m.kind == IMAGE_PTX ? strlen(out->made) + 1 : m.unpacked;
	return 0;
}

/* Finds the part of an image that suits this GPU. PTX must end in a zero byte, or be followed by
 * one. */
static int find_part(struct job *j, uint8_t *image, uint64_t bytes, struct part *out,
		     struct vgpu_error *err)
{
	enum image_kind kind = image_kind(image, bytes);
	int r = 0;

	if (kind == IMAGE_FAT)
		return unpack(j, image, bytes, out, err);
	if (kind != IMAGE_PTX && kind != IMAGE_CUBIN)
		return vgpu_error_set(
			err, -EINVAL,
			"the image is no PTX, no cubin and no fat binary: compile it with "
			"--ptx, --cubin or --fatbin");
	*out = (struct part){.kind = kind, .at = image, .bytes = bytes};
	if (j->gated)
		r = gate_ptx(out->at, strlen(out->at), (char **)&out->made, err);
	if (out->made)
		out->at = out->made;
	if (kind == IMAGE_PTX)
		out->bytes = strlen(out->at) + 1;
	return r;
}

/* As find_part(); also checks a cubin's tables, so that the driver's linker gets only valid
 * ones. */
static int prepare(struct job *j, uint8_t *image, uint64_t bytes, struct part *out,
		   struct vgpu_error *err)
{
	struct image_needs needs;
	int r = find_part(j, image, bytes, out, err);

	return r == 0 && out->kind == IMAGE_CUBIN ? image_needs(out->at, out->bytes, &needs, err)
						  : r;
}

static int prepare_all(struct job *j, uint8_t *image, uint64_t bytes, struct vgpu_error *err)
{
	const uint8_t *at;
	uint64_t n;
	uint32_t i;
	int r = 0;

	if (image_kind(image, bytes) != IMAGE_SEVERAL)
		return prepare(j, image, bytes, &j->parts[0], err);
	for (i = 0; i < j->n && r == 0; i++) {
		r = image_one(image, bytes, i, &at, &n, err);
		if (r == 0)
			r = prepare(j, image + (at - image), n, &j->parts[i], err);
	}
	return r;
}

/* Returns whether P needs no linking: it is a cubin that nvcc has not made with -rdc=true. */
static bool is_binary(const struct part *p)
{
	Elf64_Ehdr head;

	if (p->kind != IMAGE_CUBIN)
		return false;
	memcpy(&head, p->at, sizeof(head)); /* image_needs() has checked that there are so many
					     * bytes */
	return head.e_type != ET_REL;
}

static int copy_cubin(const struct part *p, uint8_t **out, uint64_t *size, struct vgpu_error *err)
{
	*out = malloc(p->bytes);
	if (!*out)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	memcpy(*out, p->at, p->bytes);
	*size = p->bytes;
	return 0;
}

static int make(struct job *j, uint8_t **out, uint64_t *size, struct vgpu_error *err)
{
	size_t linked = 0;
	CUresult e;

	if (j->n == 1 && j->completes && is_binary(&j->parts[0]))
		return copy_cubin(&j->parts[0], out, size, err);
	e = j->d->api.cuCtxSetCurrent(j->d->context);
	if (e == CUDA_SUCCESS)
		e = link_parts(j, out, &linked);
	*size = linked;
	if (e == CUDA_SUCCESS)
		return 0;
	return vgpu_error_set(err, e == CUDA_ERROR_NO_BINARY_FOR_GPU ? -ENOEXEC : -EINVAL, "%s",
			      j->log[0] ? "" : cuda_error_name(j->d, e));
}

int cuda_make_binary(struct device *d, uint8_t *image, uint64_t bytes, uint32_t flags,
		     uint8_t **out, uint64_t *size, char *log, uint32_t log_size,
		     struct vgpu_error *err)
{
	const enum image_kind kind = image_kind(image, bytes);
	struct job j = {.d = d,
			.gated = flags & SOFTGPU_MODULE_GATED,
			.completes = !(flags & SOFTGPU_MODULE_CHECK) || kind == IMAGE_SEVERAL,
			.room = d->extra.most,
			.n = kind == IMAGE_SEVERAL ? image_count(image, bytes) : 1,
			.log = log,
			.log_size = log_size};
	uint32_t i;
	int r;

	if (j.gated && kind != IMAGE_PTX)
		return vgpu_error_set(err, -EINVAL,
				      "the image is not PTX; only PTX can be loaded as gated");
	if (j.n == 0)
		return vgpu_error_set(err, -EINVAL, "the images to be linked are truncated");
	j.parts = calloc(j.n, sizeof(*j.parts));
	r = j.parts ? prepare_all(&j, image, bytes, err)
		    : vgpu_error_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = make(&j, out, size, err);
	for (i = 0; j.parts && i < j.n; i++)
		free(j.parts[i].made);
	free(j.parts);
	return r;
}
