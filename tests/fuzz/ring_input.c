/* SPDX-License-Identifier: MIT */
/* What a guest writes for fuzz_ring.c: packets, slots, structures and images, most of them as they
 * should be, with something here and there that is not. */
#include "ring_model.h"

/* What the arguments of a packet are. o, w: an offset in the partition or the arena, in the window;
 * a, g, h: granules of the arena, granules behind the window, their bytes; n: bytes; k: a small
 * number; v: any number; d: two dimensions; m: a module; s, z: a structure and its size; i,
 * l: an image and its size; t: the table of slots; x: 8 bytes of the input; -: 0. */
static const struct {
	uint8_t opcode;
	char args[8];
	uint32_t size;
} shapes[] = {
	{SOFTGPU_NOP, "", 0},
	{SOFTGPU_FILL, "onv", 0},
	{SOFTGPU_COPY, "oon", 0},
	{SOFTGPU_SAXPY, "ookv", 0},
	{SOFTGPU_GEMM, "ooodk", 0},
	{SOFTGPU_SHA256, "oon", 0},
	{SOFTGPU_MANDELBROT, "odvvvk", 0},
	{SOFTGPU_FENCE, "k", 0},
	{SOFTGPU_DMA_IN, "wvn", 0},
	{SOFTGPU_DMA_OUT, "wvn", 0},
	{SOFTGPU_UPLOAD, "own", 0},
	{SOFTGPU_DOWNLOAD, "won", 0},
	{SOFTGPU_MODULE_LOAD, "milwn-w", 0},
	{SOFTGPU_MODULE_UNLOAD, "m", 0},
	{SOFTGPU_LAUNCH, "msz---w", sizeof(struct softgpu_launch)},
	{SOFTGPU_EVENT, "w", 0},
	{SOFTGPU_FUNCTION, "msz", sizeof(struct softgpu_function)},
	{SOFTGPU_ABOUT, "-sz", sizeof(struct softgpu_about)},
	{SOFTGPU_SYMBOL, "msz", sizeof(struct softgpu_symbol)},
	{SOFTGPU_OCCUPANCY, "msz", sizeof(struct softgpu_occupancy)},
	{SOFTGPU_SYMBOL_COPY, "msz---w", sizeof(struct softgpu_symbol_copy)},
	{SOFTGPU_SLOTS, "tk", 0},
	{SOFTGPU_SPIN, "k", 0},
	{SOFTGPU_NONPREEMPTIBLE, "v", 0},
	{SOFTGPU_ENDLESS, "", 0},
	{SOFTGPU_FAULT, "", 0},
	{SOFTGPU_COUNT, "ov", 0},
	{0xff, "xxxxxxx", 0},
	{SOFTGPU_MAP, "agh---w", 0},
	{SOFTGPU_UNMAP, "ah", 0},
	{SOFTGPU_ARENA, "-sz", sizeof(struct softgpu_arena)},
	{SOFTGPU_OUTPUT, "-sz", sizeof(struct softgpu_output)},
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint64_t argument(struct input *in, char what, uint32_t size)
{
	uint64_t n;

	switch (what) {
	case 'o':
		n = input_number(in, 2);
		/* of the arena, that is in the ranges of the VF's ring and the first three slots */
		if (n >> 12 == 15)
			return SOFTGPU_ARENA_AT + n % 4096 * 8;
		/* or of the window's first 16 KiB, or of the memory behind it */
		n = n % (LOW + SIZE - WINDOW) / 8 * 8;
		return n < LOW ? n : n - LOW + WINDOW;
	case 'a':
		return SOFTGPU_ARENA_AT + input_number(in, 1) % (3 * GRANULES) * GRANULE;
	case 'g':
		return WINDOW + input_number(in, 1) % GRANULES * GRANULE;
	case 'h':
		return input_number(in, 1) % (GRANULES + 1) * GRANULE;
	case 'w':
		return input_number(in, 2) % WINDOW / 8 * 8;
	case 'n':
		return input_number(in, 2) % 4096 / 4 * 4;
	case 'k':
		return input_number(in, 1);
	case 'v':
		return input_number(in, 4);
	case 'd':
		return (1 + input_number(in, 1) % 48) | (1 + input_number(in, 1) % 48) << 32;
	case 'm':
		return input_number(in, 1) % 16;
	case 's':
		return STRUCTS + input_number(in, 1) % N_STRUCTS * STRUCT_ROOM;
	case 'z':
		return size;
	case 'i':
		return IMAGES + input_number(in, 1) % 2 * IMAGE_ROOM;
	case 'l':
		return 1 + input_number(in, 2) % IMAGE_ROOM;
	case 't':
		return SLOTS;
	case 'x':
		return input_number(in, 8);
	default:
		return 0;
	}
}

/* A packet of the input: most of them are as they should be, or have one argument that is not. */
static struct softgpu_packet packet(struct input *in)
{
	uint32_t shape = (uint32_t)input_number(in, 1) % N_SHAPES, i;
	uint64_t how = input_number(in, 1);
	struct softgpu_packet p = {.opcode = shapes[shape].opcode, .flags = how & 7};

	if (p.opcode == 0xff)
		p.opcode = (uint32_t)input_number(in, how & 4 ? 4 : 1);
	for (i = 0; i < 7 && shapes[shape].args[i]; i++)
		p.arg[i] = argument(in, shapes[shape].args[i], shapes[shape].size);
	/* what takes no bytes of the input, so that earlier inputs mean what they did */
	if (p.opcode == SOFTGPU_NOP && how & 8)
		p = (struct softgpu_packet){.opcode = SOFTGPU_AWAIT,
					    .arg = {how >> 5, how & 3, (how & 4) * 32}};
	if (how & 16)
		p.arg[(how >> 5) % 7] = input_number(in, 8);
	return p;
}

uint64_t fill_ring(struct input *in, uint64_t base, uint64_t n, uint64_t from, uint64_t most)
{
	uint64_t count = input_number(in, 1) % (most + 1), i, at;
	struct softgpu_packet p;

	for (i = 0; i < count; i++) {
		p = packet(in);
		at = base + ((from + i) & (n - 1)) * sizeof(p);
		if (at <= WINDOW - sizeof(p))
			guest_writes(at, &p, sizeof(p));
	}
	return from + count;
}

/* What a guest writes to its slots, whose rings may lie over one another, and over the VF's. */
void fill_slots(struct input *in)
{
	uint64_t count = input_number(in, 1) % (SOFTGPU_MAX_SLOTS + 1), how, i, base;
	struct softgpu_slot slot;

	for (i = 0; i < count; i++) {
		memcpy(&slot, model_window + SLOTS + i * sizeof(slot), sizeof(slot));
		how = input_number(in, 1);
		if (slot.asked != (how & 3))
			slot.wptr = 0;
		slot.asked = how & 3;
		base = slot.ring = SLOT_RINGS + i * SLOT_PACKETS * sizeof(struct softgpu_packet);
		slot.packets = SLOT_PACKETS;
		slot.wptr = fill_ring(in, base, SLOT_PACKETS, slot.wptr % 256, SLOT_PACKETS);
		if (how & 4)
			slot.ring = input_number(in, 2);
		if (how & 8)
			slot.packets = UINT64_C(1) << input_number(in, 1) % 64;
		if (how & 16)
			slot.wptr = input_number(in, 8);
		guest_writes(SLOTS + i * sizeof(slot), &slot,
			     offsetof(struct softgpu_slot, answered));
	}
}

/* A name that is known, one that is not, or one that does not end. */
static void name(struct input *in, char *out)
{
	uint64_t how = input_number(in, 1);

	memset(out, how == 0xff ? 'x' : 0, SOFTGPU_NAME_BYTES);
	out[0] = how == 0 ? '?' : 'a' + (char)(how % 26);
}

static void launch(struct input *in, struct softgpu_launch *l)
{
	uint64_t how = input_number(in, 1);
	uint32_t i;

	*l = (struct softgpu_launch){{1, 1, 1}, {1, 1, 1}, 0, 3, "", {{0}}};
	name(in, l->function);
	l->args[0] = (struct softgpu_launch_arg){SOFTGPU_ARG_BUFFER, 0, argument(in, 'o', 0), 0};
	l->args[1] = (struct softgpu_launch_arg){SOFTGPU_ARG_VALUE, 0, argument(in, 'k', 0), 8};
	l->args[2] = (struct softgpu_launch_arg){SOFTGPU_ARG_BYTES, 0, argument(in, 'w', 0), 8};
	l->args[0].bytes = l->args[1].value * 4;
	if (l->function[0] == 'c') {
		l->args[3] = l->args[0];
		l->args[0] = (struct softgpu_launch_arg){SOFTGPU_ARG_VALUE, 0, l->args[1].value, 4};
		l->args[1] = l->args[3];
		l->args[2].bytes = 1;
	}
	l->block[0] = 1 + (uint32_t)(how & 3) * 85;
	if (how & 4)
		l->n_args = (uint32_t)input_number(in, 4);
	for (i = 0; i < 3 && how & 8; i++)
		l->grid[i] = (uint32_t)input_number(in, how & 16 ? 4 : 1);
	if (how & 32)
		l->block[(how >> 6) % 3] = (uint32_t)input_number(in, 4);
	if (how & 64)
		l->args[how >> 7] =
			(struct softgpu_launch_arg){(uint32_t)input_number(in, 1), 0,
						    input_number(in, 8), input_number(in, 8)};
}

static void symbol_copy(struct input *in, struct softgpu_symbol_copy *c)
{
	uint64_t how = input_number(in, 1);

	*c = (struct softgpu_symbol_copy){.out = how & 1};
	name(in, c->name);
	c->other = argument(in, 'o', 0);
	c->bytes = input_number(in, 2) % 1024;
	if (how & 2)
		c->offset = input_number(in, how & 4 ? 8 : 1);
	if (how & 8)
		c->bytes = input_number(in, 8);
	if (how & 16)
		c->out = (uint32_t)input_number(in, 1);
}

void fill_structures(struct input *in)
{
	uint64_t count = input_number(in, 1) % (N_STRUCTS + 1), i;
	union {
		struct softgpu_launch launch;
		struct softgpu_symbol_copy copy;
		struct softgpu_occupancy occupancy;
		char name[SOFTGPU_NAME_BYTES];
		uint8_t bytes[STRUCT_ROOM];
	} s;

	for (i = 0; i < count; i++) {
		memset(&s, 0, sizeof(s));
		switch (input_number(in, 1) % 4) {
		case 0:
			launch(in, &s.launch);
			break;
		case 1:
			symbol_copy(in, &s.copy);
			break;
		case 2:
			name(in, s.name);
			s.occupancy.threads = (uint32_t)input_number(in, 4);
			break;
		default:
			input_bytes(in, s.bytes, input_number(in, 2) % sizeof(s));
			break;
		}
		guest_writes(STRUCTS + i * STRUCT_ROOM, &s, sizeof(s));
	}
}

void fill_images(struct input *in)
{
	uint8_t image[IMAGE_ROOM] = {0};
	uint64_t n = input_number(in, 2);

	memcpy(image, code_text, strlen(code_text));
	guest_writes(IMAGES, image, sizeof(image));
	input_bytes(in, image, n % IMAGE_ROOM);
	guest_writes(IMAGES + IMAGE_ROOM, image, sizeof(image));
}
