/* SPDX-License-Identifier: MIT */
/*
 * The images of GPU kernels that guests bring: PTX, binaries for one kind of GPU (cubins, which are
 * ELF files), and fat binaries, which contain several of both. Pure; every byte is hostile input.
 */
#ifndef WORKER_IMAGE_H
#define WORKER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

enum image_kind { IMAGE_UNKNOWN = 0, IMAGE_PTX, IMAGE_CUBIN, IMAGE_FAT };

/* What an image is, by its beginning. PTX may have zero bytes behind its text. */
enum image_kind image_kind(const uint8_t *image, uint64_t bytes);

/* What a cubin needs beside the memory of its VF. */
struct image_needs {
	uint64_t memory; /* bytes of device memory that it takes when it is loaded */
	bool code;	 /* it has GPU kernels */
};

/* Reads what a cubin needs from its tables. Memory is never less than what the driver takes for the
 * cubin's sections. 0; -EINVAL with one sentence: it cannot be read. */
int image_needs(const uint8_t *cubin, uint64_t bytes, struct image_needs *out,
		struct vgpu_error *err);

/* Finds the cubin in a fat binary that a GPU of this compute capability executes, if it is there
 * uncompressed. 0 with *CUBIN, a part of FAT, or NULL if there is none; -EINVAL with one sentence:
 * the fat binary ends before what its header says. */
int image_find(const uint8_t *fat, uint64_t bytes, int major, int minor, const uint8_t **cubin,
	       uint64_t *cubin_bytes, struct vgpu_error *err);

#endif
