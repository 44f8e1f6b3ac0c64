/* SPDX-License-Identifier: MIT */
/* What a worker reads from images of GPU kernels: their kind, the memory that they need, and the
 * binary for one GPU in a fat one. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "draw.h"
#include "image.h"
#include "suite.h"

#define MAX_BYTES 65536u
#define CUDA 190

/* A cubin that is being written. Its sections' contents follow the tables. */
struct cubin {
	Elf64_Ehdr head;
	Elf64_Phdr segments[2];
	Elf64_Shdr sections[16];
	char names[512];
	uint8_t contents[4096];
	uint64_t names_used, contents_used;
};

static void add(struct cubin *c, const char *name, uint32_t type, uint64_t flags, uint64_t size)
{
	Elf64_Shdr *s = &c->sections[c->head.e_shnum++];

	*s = (Elf64_Shdr){.sh_name = (uint32_t)c->names_used,
			  .sh_type = type,
			  .sh_flags = flags,
			  .sh_offset = offsetof(struct cubin, contents) + c->contents_used,
			  .sh_size = size};
	if (type != SHT_NOBITS)
		c->contents_used += size;
	strcpy(c->names + c->names_used, name);
	c->names_used += strlen(name) + 1;
}

/* As ptxas writes it: a name table, code, initialised data. */
static void begin(struct cubin *c)
{
	*c = (struct cubin){
		.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = CUDA,
			 .e_shoff = offsetof(struct cubin, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_phoff = offsetof(struct cubin, segments),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_shnum = 1,
			 .e_shstrndx = 1}};
	add(c, ".shstrtab", SHT_STRTAB, 0, 0);
	c->sections[1].sh_offset = offsetof(struct cubin, names);
	c->sections[1].sh_size = sizeof(c->names);
	add(c, ".text.k", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 256);
	add(c, ".nv.global.init", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 16);
}

/* The memory that C needs; UINT64_MAX: it is refused. */
static uint64_t needs(const struct cubin *c)
{
	struct vgpu_error err = {""};
	uint8_t *copy = malloc(sizeof(*c)); /* a sanitizer sees accesses behind it */
	struct image_needs n;
	int r;

	memcpy(copy, c, sizeof(*c));
	r = image_needs(copy, sizeof(*c), &n, &err);
	free(copy);
	CU_ASSERT(r == 0 || (r == -EINVAL && err.text[0]));
	return r == 0 ? n.memory : UINT64_MAX;
}

static void memory(void)
{
	static const struct {
		const char *name;
		uint32_t type;
		uint64_t flags, size;
		bool counts;
	} cases[] = {
		{".nv.global", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 1000000, true},
		{".nv.global", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, UINT64_C(64) << 30, true},
		{".nv.global", SHT_NOBITS, 0, UINT64_C(64) << 30, true}, /* its flags lie */
		{".nv.constant3", SHT_PROGBITS, SHF_ALLOC, 2000, true},
		{".nv.constant3", SHT_LOPROC, 0, 2000, true},
		{".nv.shared.k", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 98304, false},
		{".nv.shared.k", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, UINT64_C(64) << 30, true},
		{".nv.shared", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 2000, true},
		{".nv.share", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 98304, true},
		{".nv.shared", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 98304, false},
		{".nv.shareds", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 98304, true},
	};
	const Elf64_Sym common = {.st_shndx = SHN_COMMON, .st_size = 1 << 20};
	struct cubin c;
	uint64_t plain;
	size_t i;

	begin(&c);
	plain = needs(&c);
	CU_ASSERT(plain >= 256 + 16 && plain < 4096);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&c);
		add(&c, cases[i].name, cases[i].type, cases[i].flags, cases[i].size);
		CU_ASSERT_EQUAL(needs(&c), plain + (cases[i].counts ? cases[i].size : 0));
	}
	/* program headers that say more than the sections */
	begin(&c);
	c.head.e_phnum = 2;
	c.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = 1 << 20};
	c.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = 1 << 20};
	CU_ASSERT_EQUAL(needs(&c), 2 << 20);
	/* room that the loader makes for symbols */
	begin(&c);
	add(&c, ".symtab", SHT_SYMTAB, 0, 2 * sizeof(Elf64_Sym));
	memcpy(c.contents + 272, &common, sizeof(common));
	CU_ASSERT_EQUAL(needs(&c), plain + 2 * sizeof(Elf64_Sym) + (1 << 20));
}

static void refuse(struct cubin *c)
{
	CU_ASSERT_EQUAL(needs(c), UINT64_MAX);
	begin(c);
}

static void malformed(void)
{
	struct vgpu_error err;
	struct image_needs n;
	struct cubin c;
	uint32_t i, k;
	uint8_t *copy;

	begin(&c);
	c.head.e_machine = EM_X86_64;
	refuse(&c);
	c.head.e_ident[EI_CLASS] = ELFCLASS32;
	refuse(&c);
	c.head.e_shnum = 0;
	refuse(&c);
	c.head.e_shnum = UINT16_MAX;
	refuse(&c);
	c.head.e_shoff = UINT64_MAX - 63;
	refuse(&c);
	c.head.e_shstrndx = 99;
	refuse(&c);
	c.head.e_phnum = UINT16_MAX;
	refuse(&c);
	c.sections[2].sh_flags |= SHF_COMPRESSED;
	refuse(&c);
	c.sections[2].sh_size = sizeof(c);
	refuse(&c);
	c.sections[2].sh_offset = UINT64_MAX - 8;
	refuse(&c);
	add(&c, ".nv.global", SHT_NOBITS, SHF_ALLOC, UINT64_C(1) << 63);
	add(&c, ".nv.global", SHT_NOBITS, SHF_ALLOC, UINT64_C(1) << 63);
	refuse(&c); /* the sum is less than either */
	add(&c, ".symtab", SHT_SYMTAB, 0, 48);
	add(&c, ".symtab", SHT_SYMTAB, 0, 48);
	refuse(&c);
	c.head.e_phnum = 2;
	c.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = UINT64_C(1) << 63};
	c.segments[1] = c.segments[0];
	refuse(&c);
	/* whatever is cut off or changed */
	for (i = 0; i < 20000; i++) {
		begin(&c);
		add(&c, ".nv.shared.k", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 2048);
		add(&c, ".symtab", SHT_SYMTAB, 0, 48);
		c.head.e_phnum = 2;
		for (k = (uint32_t)draw(6); k > 0; k--)
			((uint8_t *)&c)[draw(offsetof(struct cubin, names))] ^=
				(uint8_t)(1u << draw(8));
		k = (uint32_t)draw(sizeof(c));
		copy = malloc(k + 1);
		memcpy(copy, &c, k);
		image_needs(copy, k, &n, &err);
		free(copy);
	}
}

/* Appends an entry to a fat binary. */
static void put(uint8_t *fat, uint16_t kind, uint32_t capability, uint32_t flags, const char *text)
{
	uint64_t *bytes = (uint64_t *)(fat + 8), n = strlen(text) + 1;
	uint8_t *at = fat + 16 + *bytes;

	memset(at, 0, 64);
	memcpy(at, &kind, 2);
	at[4] = 64;
	memcpy(at + 8, &n, 8);
	memcpy(at + 28, &capability, 4);
	memcpy(at + 40, &flags, 4);
	memcpy(at + 64, text, n);
	*bytes += 64 + n;
}

static uint64_t begin_fat(uint8_t *fat)
{
	memcpy(fat, "\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00", 16);
	put(fat, 1, 70, 0, "PTX");
	put(fat, 2, 75, 0x11, "for 7.5");
	put(fat, 2, 80, 0x11, "for 8.0");
	put(fat, 2, 89, 0x8011, "for 8.9, compressed");
	put(fat, 2, 86, 0x11, "for 8.6");
	put(fat, 2, 90, 0x2011, "for 9.0, compressed");
	return 16 + *(uint64_t *)(fat + 8);
}

static void fat(void)
{
	static const struct {
		int major, minor;
		const char *found;
	} cases[] = {
		{7, 0, NULL},	   {7, 5, "for 7.5"}, {8, 0, "for 8.0"}, {8, 6, "for 8.6"},
		{8, 7, "for 8.6"}, {8, 9, "for 8.6"}, {9, 0, NULL},	 {10, 0, NULL},
	};
	uint8_t image[MAX_BYTES], *copy;
	uint64_t n = begin_fat(image), found, cut, i, k;
	struct vgpu_error err = {""};
	const uint8_t *cubin;

	CU_ASSERT_EQUAL(image_kind(image, n), IMAGE_FAT);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(image_find(image, n, cases[i].major, cases[i].minor, &cubin, &found,
					   &err),
				0);
		CU_ASSERT_EQUAL(cubin != NULL, cases[i].found != NULL);
		if (cubin && cases[i].found)
			CU_ASSERT_STRING_EQUAL((const char *)cubin, cases[i].found);
	}
	for (cut = 0; cut < n; cut++)
		CU_ASSERT_EQUAL(image_find(image, cut, 8, 6, &cubin, &found, &err), -EINVAL);
	for (i = 0; i < 20000; i++) {
		n = begin_fat(image);
		for (k = draw(4); k > 0; k--)
			image[draw(n)] ^= (uint8_t)(1u << draw(8));
		copy = malloc(n);
		memcpy(copy, image, n);
		if (image_find(copy, n, 8, 6, &cubin, &found, &err) == 0 && cubin)
			CU_ASSERT(cubin >= copy && found <= n && cubin + found <= copy + n);
		free(copy);
	}
}

static void kinds(void)
{
	static const char ptx[] = "// made by hand\n.version 7.0\n.target sm_70\n\0\0\0";

	CU_ASSERT_EQUAL(image_kind((const uint8_t *)ptx, strlen(ptx)), IMAGE_PTX);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)ptx, sizeof(ptx)), IMAGE_PTX);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\177ELF", 4), IMAGE_CUBIN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\177EL", 3), IMAGE_UNKNOWN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\0.version 7.0", 12), IMAGE_UNKNOWN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"", 0), IMAGE_UNKNOWN);
}

static const struct test tests[] = {
	{"the memory that a binary needs is never less than what it takes", memory},
	{"binaries with wrong tables are refused", malformed},
	{"a fat binary's binary for one GPU is found", fat},
	{"images are known by their beginning", kinds},
	{NULL, NULL},
};

SUITE_MAIN("image", tests)
