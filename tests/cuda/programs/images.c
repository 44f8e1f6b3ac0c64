/* SPDX-License-Identifier: MIT */
/* Checks of images that are not what they say. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* Loads the BYTES at IMAGE as a file of a module and of a library, and by the linker: each gives
 * WANTED. */
static bool all_give(const void *image, size_t bytes, CUresult wanted)
{
	char path[] = "/tmp/vgpu-cuda-image-XXXXXX";
	const int type = *(const char *)image == 0x7f ? 0 : 1;
	void *copy = malloc(bytes); /* and not a byte more */
	CUlibrary library = NULL;
	CUmodule module = NULL;
	int fd = mkstemp(path);
	CUlinkState link;
	CUresult e[3];

	CHECK(fd >= 0 && copy && write(fd, image, bytes) == (ssize_t)bytes && close(fd) == 0);
	memcpy(copy, image, bytes);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	e[0] = cuModuleLoad(&module, path);
	e[1] = cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
	e[2] = cuLinkAddData_v2(link, type, copy, bytes, "x", 0, NULL, NULL);
	unlink(path);
	free(copy);
	OK(cuLinkDestroy(link));
	CHECK(e[0] == wanted && e[1] == wanted && e[2] == wanted);
	if (wanted == CUDA_SUCCESS) {
		OK(cuModuleUnload(module));
		OK(cuLibraryUnload(library));
	}
	return true;
}

static bool damaged(void)
{
	Elf64_Ehdr cubin = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
			    .e_shentsize = sizeof(Elf64_Shdr)};
	struct {
		Elf64_Ehdr head;
		Elf64_Shdr section;
	} with_section = {.section = {.sh_type = SHT_PROGBITS, .sh_size = 4096}};
	struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
	} fat = {0xba55ed50u, 1, sizeof(fat), 1 << 20};
	struct {
		uint32_t magic, version;
		const void *data, *more;
	} wrapper = {0x466243b1u, 1, (void *)8, NULL};
	CUmodule module;

	CHECK(sample_begin());
	/* shorter than it says */
	CHECK(all_give(&fat, sizeof(fat), CUDA_ERROR_INVALID_IMAGE));
	CHECK(all_give(&fat, 10, CUDA_ERROR_INVALID_IMAGE));
	CHECK(all_give(&cubin, 20, CUDA_ERROR_INVALID_IMAGE));
	cubin.e_shoff = sizeof(cubin);
	cubin.e_shnum = 1;
	CHECK(all_give(&cubin, sizeof(cubin), CUDA_ERROR_INVALID_IMAGE));
	with_section.head = cubin;
	CHECK(all_give(&with_section, sizeof(with_section), CUDA_ERROR_INVALID_IMAGE));
	with_section.section.sh_offset = UINT64_MAX;
	CHECK(all_give(&with_section, sizeof(with_section), CUDA_ERROR_INVALID_IMAGE));
	/* more than any image has, in memory, too */
	cubin.e_shoff = UINT64_C(1) << 40;
	CHECK(all_give(&cubin, sizeof(cubin), CUDA_ERROR_INVALID_IMAGE));
	CHECK(cuModuleLoadData(&module, &cubin) == CUDA_ERROR_INVALID_IMAGE);
	/* an address, which a file cannot have */
	CHECK(all_give(&wrapper, sizeof(wrapper), CUDA_ERROR_INVALID_PTX));
	/* as long as it says, but there is nothing in it */
	cubin.e_shoff = cubin.e_shnum = 0;
	CHECK(all_give(&cubin, sizeof(cubin), CUDA_ERROR_INVALID_PTX));
	CHECK(cuModuleLoadData(&module, &cubin) == CUDA_ERROR_INVALID_PTX);
	fat.bytes = 0;
	CHECK(all_give(&fat, sizeof(fat), CUDA_ERROR_NO_BINARY_FOR_GPU));
	CHECK(all_give("x", 1, CUDA_ERROR_INVALID_PTX));
	CHECK(all_give(programs_ptx, strlen(programs_ptx), CUDA_SUCCESS));
	return sample_end(); /* the VF lives on */
}

const struct sample_check images_checks[] = {
	{"damaged images", damaged},
	{NULL, NULL},
};
