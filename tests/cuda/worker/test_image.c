/* SPDX-License-Identifier: MIT */
/* What a worker reads from images of GPU kernels: their kind, the memory that they need, and the
 * binary for one GPU in a fat one. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "fat.h"
#include "image.h"
#include "suite.h"
#include "softgpu/packets.h"

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

TEST(memory, "the memory that a binary needs is never less than what it takes")
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

/* A symbol of a name, and whether it means that GPU kernels launch others. */
TEST(nested, "GPU kernels that launch others are known by what they call")
{
	static const struct {
		const char *name;
		uint16_t section;
		bool is;
	} cases[] = {
		{"__cuda_syscall_cnpv2LaunchDeviceV2", SHN_UNDEF, true},
		{"__cuda_syscall_cnpv2LaunchDeviceV2", 2, false}, /* the program's own */
		{"__cuda_syscall_cnp", SHN_UNDEF, true},
		{"__cuda_syscall_cn", SHN_UNDEF, false},
		{"vprintf", SHN_UNDEF, false},
		{"_cuda_syscall_cnpv2LaunchDeviceV2", SHN_UNDEF, false},
	};
	struct vgpu_error err = {""};
	struct image_needs n;
	struct cubin c;
	Elf64_Sym s[2];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(s, 0, sizeof(s));
		begin(&c);
		s[1].st_name = (Elf64_Word)c.names_used;
		s[1].st_shndx = cases[i].section;
		strcpy(c.names + c.names_used, cases[i].name);
		c.names_used += strlen(cases[i].name) + 1;
		add(&c, ".symtab", SHT_SYMTAB, 0, sizeof(s));
		memcpy(c.contents + 272, s, sizeof(s));
		c.sections[4].sh_link = 1;
		CU_ASSERT_EQUAL(image_needs((uint8_t *)&c, sizeof(c), &n, &err), 0);
		CU_ASSERT_EQUAL(n.nested, cases[i].is);
		/* a name that is cut off, one that is not there, and no table of names */
		c.sections[1].sh_size = s[1].st_name + 7;
		CU_ASSERT_EQUAL(needs(&c) == UINT64_MAX, cases[i].section == SHN_UNDEF);
		c.sections[1].sh_size = s[1].st_name;
		CU_ASSERT_EQUAL(needs(&c) == UINT64_MAX, cases[i].section == SHN_UNDEF);
		c.sections[1].sh_size = sizeof(c.names);
		c.sections[4].sh_link = 99;
		CU_ASSERT_EQUAL(needs(&c) == UINT64_MAX, cases[i].section == SHN_UNDEF);
		c.sections[4].sh_link = 2;
		CU_ASSERT_EQUAL(needs(&c) == UINT64_MAX, cases[i].section == SHN_UNDEF);
	}
}

TEST(malformed, "binaries with wrong tables are refused")
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

/* Members for several GPUs, packed in each way. Their texts repeat, so that they are compressed. */
#define TEXT_SIZE 4096u

static const char *text_of(const char *word)
{
	static char text[TEXT_SIZE];

	memset(text, 'x', sizeof(text));
	snprintf(text, sizeof(text), "%s", word);
	return text;
}

static void add_text(struct fat *f, uint16_t kind, uint32_t capability, uint64_t flags,
		     const char *word)
{
	fat_add(f, kind, capability, flags, text_of(word), TEXT_SIZE);
}

static void make_fat(struct fat *f)
{
	fat_begin(f);
	add_text(f, FAT_PTX, 70, FAT_ZSTD, "PTX for 7.0");
	add_text(f, FAT_CUBIN, 75, 0x11, "for 7.5");
	add_text(f, FAT_CUBIN, 80, FAT_LZ4, "for 8.0");
	add_text(f, FAT_CUBIN, 89, FAT_ZSTD, "for 8.9");
	add_text(f, FAT_CUBIN, 86, 0x11, "for 8.6");
	add_text(f, FAT_PTX, 90, FAT_LZ4, "PTX for 9.0");
	add_text(f, FAT_CUBIN, 90, FAT_LZ4 | FAT_ZSTD, "packed in two ways");
	add_text(f, FAT_PTX, 80, 0, "PTX for 8.0");
	add_text(f, FAT_CUBIN, 100, FAT_EXACT | FAT_ZSTD, "for 10.0a");
	add_text(f, FAT_PTX, 110, FAT_FAMILY | FAT_ZSTD, "PTX for 11.0f");
	add_text(f, 0x10, 120, 0, "of an unknown kind");
}

/* The best member for a GPU, unpacked; the caller frees it. NULL: there is none. */
static uint8_t *unpacked_for(const struct fat *f, int major, int minor)
{
	struct vgpu_error err = {""};
	struct image_member m;
	uint8_t *out = NULL;

	CU_ASSERT_EQUAL_FATAL(image_find(f->at, f->bytes, major, minor, &m, &err), 0);
	if (m.kind == IMAGE_UNKNOWN)
		return NULL;
	CU_ASSERT_EQUAL(m.unpacked, TEXT_SIZE);
	CU_ASSERT_EQUAL_FATAL(image_unpack(&m, TEXT_SIZE, &out, &err), 0);
	CU_ASSERT_EQUAL(out[TEXT_SIZE], 0);
	CU_ASSERT_EQUAL(m.kind == IMAGE_PTX, strncmp((char *)out, "PTX", 3) == 0);
	return out;
}

TEST(fat, "of a fat binary, a GPU's binary is unpacked, or the best PTX for it")
{
	static const struct {
		int major, minor;
		const char *found;
	} cases[] = {
		{6, 0, NULL},		{7, 0, "PTX for 7.0"},	  {7, 5, "for 7.5"},
		{8, 0, "for 8.0"},	{8, 6, "for 8.6"},	  {8, 7, "for 8.6"},
		{8, 9, "for 8.9"},	{9, 0, "PTX for 9.0"},	  {10, 0, "for 10.0a"},
		{10, 3, "PTX for 9.0"}, {11, 0, "PTX for 11.0f"}, {12, 0, "PTX for 9.0"},
	};
	struct vgpu_error err = {""};
	struct image_member m;
	struct fat f;
	uint8_t *out;
	uint64_t cut;
	size_t i;

	make_fat(&f);
	CU_ASSERT_EQUAL(image_kind(f.at, f.bytes), IMAGE_FAT);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		out = unpacked_for(&f, cases[i].major, cases[i].minor);
		CU_ASSERT_EQUAL(out != NULL, cases[i].found != NULL);
		if (out && cases[i].found)
			CU_ASSERT_EQUAL(memcmp(out, text_of(cases[i].found), TEXT_SIZE), 0);
		free(out);
	}
	for (cut = 0; cut < f.bytes; cut++)
		CU_ASSERT_EQUAL(image_find(f.at, cut, 8, 6, &m, &err), -EINVAL);
	free(f.at);
}

/* Changes bits of a fat binary: what is found lies inside it, and is unpacked to no more than its
 * header says. */
TEST(hostile_fat, "a changed fat binary is never read outside of it")
{
	static const int gpus[][2] = {{7, 0}, {8, 0}, {8, 6}, {8, 9}, {9, 0}};
	struct vgpu_error err = {""};
	struct image_member m;
	struct fat f;
	uint8_t *copy, *out;
	uint32_t i, k, gpu;
	int r;

	make_fat(&f);
	for (i = 0; i < 20000; i++) {
		copy = malloc(f.bytes);
		memcpy(copy, f.at, f.bytes);
		for (k = (uint32_t)draw(4); k > 0; k--)
			copy[draw(f.bytes)] ^= (uint8_t)(1u << draw(8));
		gpu = (uint32_t)draw(sizeof(gpus) / sizeof(gpus[0]));
		if (image_find(copy, f.bytes, gpus[gpu][0], gpus[gpu][1], &m, &err) == 0 &&
		    m.kind != IMAGE_UNKNOWN) {
			CU_ASSERT(m.at >= copy && m.bytes <= f.bytes &&
				  m.at + m.bytes <= copy + f.bytes);
			r = image_unpack(&m, 2 * TEXT_SIZE, &out, &err);
			CU_ASSERT_EQUAL(r == 0, out != NULL);
			CU_ASSERT(r == 0 || (r == -EINVAL && err.text[0]));
			free(out);
		}
		free(copy);
	}
	free(f.at);
}

/* A header that lies about how large its member is; and members that are larger than allowed. */
TEST(lies, "a member is what its header says, or is refused")
{
	static const uint64_t packings[] = {FAT_LZ4, FAT_ZSTD};
	static const uint64_t sizes[] = {0, 1, TEXT_SIZE - 1, TEXT_SIZE + 1, UINT64_C(1) << 40};
	struct vgpu_error err = {""};
	struct image_member m;
	const uint8_t *inside;
	uint8_t *out;
	struct fat f;
	size_t at, i, k;

	for (i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
		fat_begin(&f);
		at = fat_add(&f, FAT_CUBIN, 80, packings[i], text_of("text"), TEXT_SIZE);
		for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			memcpy(f.at + at + FAT_UNPACKED, &sizes[k], 8);
			CU_ASSERT_EQUAL(image_find(f.at, f.bytes, 8, 0, &m, &err), 0);
			CU_ASSERT_EQUAL_FATAL(m.kind, IMAGE_CUBIN);
			CU_ASSERT_EQUAL(image_unpack(&m, 1 << 20, &out, &err), -EINVAL);
			CU_ASSERT_PTR_NULL(out);
		}
		memcpy(f.at + at + FAT_UNPACKED, &(uint64_t){TEXT_SIZE}, 8);
		CU_ASSERT_EQUAL(image_find(f.at, f.bytes, 8, 0, &m, &err), 0);
		CU_ASSERT_EQUAL(image_unpack(&m, TEXT_SIZE - 1, &out, &err), -EINVAL);
		/* what is compressed ends before its member does, or behind it */
		inside = m.at;
		memcpy(f.at + at + FAT_PACKED, &(uint32_t){(uint32_t)m.bytes - 1}, 4);
		CU_ASSERT_EQUAL(image_find(f.at, f.bytes, 8, 0, &m, &err), 0);
		CU_ASSERT_PTR_EQUAL(m.at, inside);
		CU_ASSERT_EQUAL(image_unpack(&m, TEXT_SIZE, &out, &err), -EINVAL);
		memcpy(f.at + at + FAT_PACKED, &(uint32_t){(uint32_t)f.bytes}, 4);
		CU_ASSERT_EQUAL(image_find(f.at, f.bytes, 8, 0, &m, &err), 0);
		CU_ASSERT_EQUAL(m.kind, IMAGE_UNKNOWN);
		free(f.at);
	}
}

/* What the library of Zstandard unpacks, but no compiler writes: it is refused, and the same text
 * in one frame is not. */
TEST(frames, "a compressed member is one frame of the format of today")
{
#define FRAME "\x28\xb5\x2f\xfd\x20"
#define SKIPPED "\x50\x2a\x4d\x18\0\0\0"
	static const struct {
		bool taken;
		size_t bytes;
		const char *at;
	} cases[] = {
		{true, 13, FRAME "\4\x21\0\0text"},
		/* two; one behind a frame to skip, and before one */
		{false, 22, FRAME "\2\x11\0\0te" FRAME "\2\x11\0\0xt"},
		{false, 21, SKIPPED "\0" FRAME "\4\x21\0\0text"},
		{false, 21, FRAME "\4\x21\0\0text" SKIPPED "\0"},
		/* versions 0.5 and 0.7 */
		{false, 15, "\x25\xb5\x2f\xfd\0\x40\0\4text\xc0\0\0"},
		{false, 16, "\x27\xb5\x2f\xfd\x20\4\x40\0\4text\xc0\0\0"},
		{false, 3, FRAME},
		{false, 0, FRAME},
	};
	struct image_member m = {.kind = IMAGE_CUBIN, .packing = IMAGE_ZSTD, .unpacked = 4};
	struct vgpu_error err = {""};
	uint8_t *out, *at;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		m.at = at = malloc(cases[i].bytes);
		memcpy(at, cases[i].at, cases[i].bytes);
		m.bytes = cases[i].bytes;
		CU_ASSERT_EQUAL(image_unpack(&m, 4, &out, &err), cases[i].taken ? 0 : -EINVAL);
		CU_ASSERT_EQUAL(out && memcmp(out, "text", 4) == 0, cases[i].taken);
		free(out);
		free(at);
	}
}

/* Whether image I of the BYTES at IMAGE is the N bytes at WANTED, read with nothing behind IMAGE.
 */
static bool has_one(const void *image, uint64_t bytes, uint32_t i, const char *wanted, uint64_t n)
{
	struct vgpu_error err = {""};
	uint8_t *copy = malloc(bytes);
	const uint8_t *at;
	uint64_t found;
	bool is;

	memcpy(copy, image, bytes);
	is = image_kind(copy, bytes) == IMAGE_SEVERAL && i < image_count(copy, bytes);
	if (is && image_one(copy, bytes, i, &at, &found, &err) == 0) {
		is = found == n && memcmp(at, wanted, n) == 0;
	} else {
		CU_ASSERT(!is || err.text[0]);
		is = false;
	}
	free(copy);
	return is;
}

TEST(several, "several images in one are found, and only whole ones")
{
	static const char one[] = ".version 7.0", two[] = "\177ELF, not PTX";
	struct {
		struct softgpu_images head;
		char at[64];
	} s = {.head = {.magic = SOFTGPU_IMAGES, .n = 3, .bytes = {sizeof(one), 12, 0}}};
	const uint64_t whole = sizeof(s.head) + 28;
	uint64_t bytes;

	memcpy(s.at, one, sizeof(one));
	memcpy(s.at + 16, two, 12);
	CU_ASSERT_EQUAL(image_count((uint8_t *)&s, whole), 3);
	CU_ASSERT(has_one(&s, whole, 0, one, sizeof(one)));
	CU_ASSERT(has_one(&s, whole, 1, two, 12));
	CU_ASSERT(!has_one(&s, whole, 2, "", 0)); /* the last one's end is padded */
	CU_ASSERT(has_one(&s, whole + 4, 2, "", 0));
	/* cut off at each byte */
	for (bytes = 4; bytes < whole; bytes++)
		CU_ASSERT(!has_one(&s, bytes, 1, two, 12));
	CU_ASSERT_EQUAL(image_count((uint8_t *)&s, sizeof(s.head) - 1), 0);
	/* longer than anything */
	s.head.bytes[0] = UINT64_MAX;
	CU_ASSERT(!has_one(&s, whole, 0, one, sizeof(one)));
	CU_ASSERT(!has_one(&s, whole, 1, two, 12));
	/* PTX without an end, and several in several */
	s.head.bytes[0] = sizeof(one) - 1;
	CU_ASSERT(!has_one(&s, whole, 0, one, sizeof(one) - 1));
	CU_ASSERT(has_one(&s, whole, 1, two, 12));
	memcpy(s.at + 16, &s.head.magic, 4);
	CU_ASSERT(!has_one(&s, whole, 1, s.at + 16, 12));
	/* too many */
	s.head.n = SOFTGPU_MAX_IMAGES + 1;
	CU_ASSERT_EQUAL(image_count((uint8_t *)&s, whole), 0);
}

TEST(kinds, "images are known by their beginning")
{
	static const char ptx[] = "// made by hand\n.version 7.0\n.target sm_70\n\0\0\0";

	CU_ASSERT_EQUAL(image_kind((const uint8_t *)ptx, strlen(ptx)), IMAGE_PTX);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)ptx, sizeof(ptx)), IMAGE_PTX);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\177ELF", 4), IMAGE_CUBIN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\177EL", 3), IMAGE_UNKNOWN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"\0.version 7.0", 12), IMAGE_UNKNOWN);
	CU_ASSERT_EQUAL(image_kind((const uint8_t *)"", 0), IMAGE_UNKNOWN);
}

SUITE_MAIN("image")
