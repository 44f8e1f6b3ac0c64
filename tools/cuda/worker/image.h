/* SPDX-License-Identifier: MIT */
/*
 * The images of GPU kernels that guests bring: PTX, binaries for one kind of GPU (cubins, which are
 * ELF files), fat binaries, which contain several of both for one to be chosen, and several images
 * that are to be linked. Pure functions, for any thread; every byte is hostile input.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

enum image_kind { IMAGE_UNKNOWN = 0, IMAGE_PTX, IMAGE_CUBIN, IMAGE_FAT, IMAGE_SEVERAL };

/* Returns the kind of an image by its first bytes. PTX may be followed by zero bytes. */
enum image_kind image_kind(const uint8_t *image, uint64_t bytes);

/* Device memory that a cubin needs beside its VF's partition. */
struct image_needs {
	uint64_t memory; /* bytes of device memory that the loaded cubin takes */
	bool code;	 /* it has GPU kernels */
	bool nested;	 /* they launch others, for which the driver also allocates memory */
};

/* Reads from a cubin's tables what it needs. OUT->memory is never less than what the driver takes
 * for the cubin's sections. Returns 0; or -EINVAL with one sentence if the cubin cannot be read. */
int image_needs(const uint8_t *cubin, uint64_t bytes, struct image_needs *out,
		struct vgpu_error *err);

/* A member of a fat binary. */
enum image_packing { IMAGE_PLAIN = 0, IMAGE_LZ4, IMAGE_ZSTD };
struct image_member {
	enum image_kind kind; /* CUBIN or PTX; UNKNOWN: no member was found */
	enum image_packing packing;
	const uint8_t *at; /* in the fat binary */
	uint64_t bytes;	   /* at AT */
	uint64_t unpacked; /* bytes after unpacking, as the member's header says */
};

/* Finds the best member of a fat binary for a GPU of this compute capability: its cubin, or else
 * the PTX for the latest GPU that is not later than this one. Returns 0 with *OUT; or -EINVAL with
 * one sentence if the fat binary is shorter than its header says. */
int image_find(const uint8_t *fat, uint64_t bytes, int major, int minor, struct image_member *out,
	       struct vgpu_error *err);

/* Unpacks a member. Returns 0 with *OUT, which the caller frees: M->unpacked bytes, followed by a
 * zero byte. Returns -EINVAL with one sentence if the member has more than MOST bytes, which is
 * checked before unpacking, or contradicts its header; or -ENOMEM. */
int image_unpack(const struct image_member *m, uint64_t most, uint8_t **out,
		 struct vgpu_error *err);

/* Returns the number of images in IMAGE, which is IMAGE_SEVERAL: at most SOFTGPU_MAX_IMAGES. 0 if
 * IMAGE is truncated. */
uint32_t image_count(const uint8_t *image, uint64_t bytes);
/* Finds image I of IMAGE: *N bytes at *AT, including the zero byte of PTX. Returns 0; or -EINVAL
 * with one sentence if the image is truncated, or consists of several images. */
int image_one(const uint8_t *image, uint64_t bytes, uint32_t i, const uint8_t **at, uint64_t *n,
	      struct vgpu_error *err);
