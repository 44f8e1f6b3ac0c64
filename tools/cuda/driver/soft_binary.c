/* SPDX-License-Identifier: MIT */
/*
 * The binaries that the linker in software makes: ELF files with the tables that a CUDA compiler
 * writes, in which the PTX text takes the place of the machine code.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "soft_binary.h"

enum { NONE, NAMES, TEXT, GLOBAL, SECTIONS };
#define TEXT_NAME ".text.ptx"

struct file {
	Elf64_Ehdr head;
	Elf64_Shdr sections[SECTIONS];
	char names[64];
};

uint8_t *soft_cuda_binary(const char *text, uint64_t globals, size_t *size)
{
	static const char names[] = "\0.shstrtab\0" TEXT_NAME "\0.nv.global";
	struct file f = {
		.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = 190,
			 .e_version = EV_CURRENT,
			 .e_shoff = offsetof(struct file, sections),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = SECTIONS,
			 .e_shstrndx = NAMES},
	};
	size_t n = strlen(text) + 1;
	uint8_t *out = malloc(sizeof(f) + n);

	memcpy(f.names, names, sizeof(names));
	f.sections[NAMES] = (Elf64_Shdr){.sh_name = 1,
					 .sh_type = SHT_STRTAB,
					 .sh_offset = offsetof(struct file, names),
					 .sh_size = sizeof(f.names)};
	f.sections[TEXT] = (Elf64_Shdr){.sh_name = 11,
					.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_offset = sizeof(f),
					.sh_size = n};
	f.sections[GLOBAL] = (Elf64_Shdr){.sh_name = 12 + sizeof(TEXT_NAME) - 1,
					  .sh_type = SHT_NOBITS,
					  .sh_flags = SHF_ALLOC | SHF_WRITE,
					  .sh_size = globals};
	memcpy(out, &f, sizeof(f));
	memcpy(out + sizeof(f), text, n);
	*size = sizeof(f) + n;
	return out;
}

static const char *text_of(const void *binary)
{
	const struct file *f = binary;

	/* only the linker above makes binaries that this device executes */
	if (memcmp(f->head.e_ident, ELFMAG, SELFMAG) != 0 || f->head.e_machine != 190 ||
	    f->head.e_shnum != SECTIONS || f->sections[TEXT].sh_offset != sizeof(*f))
		return NULL;
	return (const char *)binary + sizeof(*f);
}

const char *soft_cuda_text(const void *binary)
{
	const char *text = text_of(binary);

	return text && ((const struct file *)binary)->head.e_type == ET_EXEC ? text : NULL;
}

const char *soft_cuda_text_within(const void *binary, size_t n)
{
	if (n <= sizeof(struct file) || ((const char *)binary)[n - 1])
		return NULL;
	return text_of(binary);
}
