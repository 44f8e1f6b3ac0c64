/* SPDX-License-Identifier: MIT */
/* Attacks on a VF's worker and on the GPU's compiler in it, by what a guest alone can write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack.h"
#include "guest.h"
#include "vgpu/clock.h"

/* In the window: a module's text, what is launched, and what a packet reports. */
#define TEXT_AT (UINT64_C(1) << 20)
#define TEXT_MOST (UINT64_C(8) << 20)
#define LAUNCH_AT (TEXT_AT + TEXT_MOST)
#define REPORT_AT (LAUNCH_AT + (64 << 10))
#define SLOTS_AT (REPORT_AT + 4096)
#define RINGS_AT (SLOTS_AT + 4096)
#define RING 64u
#define LAUNCHES 500u

static const char head[] = ".version 6.0\n.target sm_70\n.address_size 64\n";

static void repeat(FILE *f, const char *text, unsigned n)
{
	while (n-- > 0)
		fputs(text, f);
}

/* A text of which the compiler makes a million instructions. */
static void many(FILE *f)
{
	fputs(".func f()\n{\n.reg .b32 %r<3>;\n", f);
	repeat(f, "add.u32 %r1, %r1, %r2;\n", 250);
	fputs("ret;\n}\n.visible .entry e()\n{\n", f);
	repeat(f, "call f;\n", 4000);
	fputs("ret;\n}\n", f);
}

static void nested(FILE *f)
{
	fputs(".visible .entry e()\n", f);
	repeat(f, "{\n", 200000);
	repeat(f, "}\n", 200000);
}

/* Functions each of which calls the one before twice. */
static void doubling(FILE *f)
{
	unsigned i;

	fputs(".func f0()\n{\nret;\n}\n", f);
	for (i = 1; i < 31; i++)
		fprintf(f, ".func f%u()\n{\ncall f%u;\ncall f%u;\nret;\n}\n", i, i - 1, i - 1);
	fputs(".visible .entry e()\n{\ncall f30;\nret;\n}\n", f);
}

static void arrays(FILE *f)
{
	unsigned i;

	for (i = 0; i < 1000; i++)
		fprintf(f, ".global .b8 a%u[67108864];\n", i);
	fputs(".visible .entry e()\n{\nret;\n}\n", f);
}

static void entries(FILE *f)
{
	unsigned i;

	for (i = 0; i < 50000; i++)
		fprintf(f, ".visible .entry e%u()\n{\nret;\n}\n", i);
}

/* Of each thread, of which a launch has a thousand. */
static void wide(FILE *f)
{
	fputs(".visible .entry e()\n{\n.reg .b64 %r<1000000>;\nadd.u64 %r999999, %r1, "
	      "%r2;\nret;\n}\n",
	      f);
}

static void small(FILE *f)
{
	fputs(".visible .entry e()\n{\nret;\n}\n", f);
}

/* Loads a module with this text, and launches it with so many threads; 0: not. Returns as
 * guest_wait(). */
static int load_and_launch(struct guest *g, void (*write)(FILE *f), uint32_t threads, uint32_t n)
{
	uint64_t offset, size;
	char *window = guest_memory(g, &offset, &size);
	struct softgpu_launch l = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .function = "e"};
	struct softgpu_packet p = {.opcode = SOFTGPU_MODULE_LOAD, .flags = SOFTGPU_REPORT};
	FILE *f = fmemopen(window + TEXT_AT, TEXT_MOST, "w");
	int r;

	if (!f)
		attack_give_up("fmemopen");
	fputs(head, f);
	write(f);
	fputc(0, f);
	p.arg[1] = offset + TEXT_AT;
	p.arg[2] = (uint64_t)ftell(f);
	p.arg[6] = offset + REPORT_AT;
	fclose(f);
	guest_put(g, &p);
	memcpy(window + LAUNCH_AT, &l, sizeof(l));
	p = (struct softgpu_packet){.opcode = SOFTGPU_LAUNCH,
				    .flags = SOFTGPU_REPORT,
				    .arg = {0, offset + LAUNCH_AT, sizeof(l)}};
	p.arg[6] = offset + REPORT_AT;
	while (threads > 0 && n-- > 0)
		guest_put(g, &p);
	offset = guest_put_fence(g);
	r = guest_ring(g);
	while (r == 0 && (r = guest_wait(g, offset, VGPU_SEC)) == -ETIMEDOUT &&
	       vgpu_now() < attack_until)
		r = 0;
	return r;
}

void attack_bombs(struct guest *g)
{
	static const struct {
		void (*write)(FILE *f);
		uint32_t threads;
	} bombs[] = {{many, 0},	  {nested, 0},	{doubling, 0},
		     {arrays, 1}, {entries, 0}, {wide, 1024}};
	static unsigned next;
	int r = 0;

	/* One may end the worker; then the next one comes with the next client. */
	for (; r == 0 && attack_goes_on(); next = (next + 1) % (sizeof(bombs) / sizeof(bombs[0])))
		r = load_and_launch(g, bombs[next].write, bombs[next].threads, 1);
}

void attack_bomb(struct guest *g)
{
	while (load_and_launch(g, many, 0, 0) == 0 && attack_goes_on())
		;
}

void attack_launches(struct guest *g)
{
	while (load_and_launch(g, small, 1024, LAUNCHES) == 0 && attack_goes_on())
		;
}

/* Two rings of the VF wait for each other. */
void attack_cycle(struct guest *g)
{
	uint64_t offset, size, i, fence;
	char *window = guest_memory(g, &offset, &size);
	struct softgpu_packet await = {.opcode = SOFTGPU_AWAIT, .arg = {0, 1, 1}};
	struct softgpu_packet slots = {.opcode = SOFTGPU_SLOTS, .arg = {offset + SLOTS_AT, 2}};
	struct softgpu_slot slot = {.asked = 1, .packets = RING, .wptr = 1};
	const struct softgpu_slot *seen = (const struct softgpu_slot *)(window + SLOTS_AT);
	int r;

	for (i = 0; i < 2; i++) {
		await.arg[0] = 1 - i;
		slot.ring = offset + RINGS_AT + i * RING * sizeof(await);
		memcpy(window + RINGS_AT + i * RING * sizeof(await), &await, sizeof(await));
		memcpy(window + SLOTS_AT + i * sizeof(slot), &slot, sizeof(slot));
	}
	guest_put(g, &slots);
	do {
		fence = guest_put_fence(g);
		r = guest_ring(g);
		if (r == 0)
			r = guest_wait(g, fence, VGPU_SEC);
		if (__atomic_load_n(&seen[0].answered, __ATOMIC_RELAXED) == 1 &&
		    __atomic_load_n(&seen[1].answered, __ATOMIC_RELAXED) == 1)
			attack_rounds++;
	} while ((r == 0 || r == -ETIMEDOUT) && vgpu_now() < attack_until);
}
