/* SPDX-License-Identifier: MIT */
/*
 * A VM's whole software, for machines inside the lab's machine, where a Linux takes a minute to
 * boot: a multiboot image that finds a softgpu VF whenever one is plugged in, brings it up through
 * the mailbox, and computes digests that are known (FIPS 180-4's third example), telling the serial
 * line "jobs N wrong N". It lets a VF go when it is asked to, and looks for the next.
 */
#include <stdbool.h>
#include <stdint.h>

#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"

#define RING_PACKETS 256u
#define FENCE_AT 0x8000u
#define DIGESTS_AT 0x10000u
#define TEXTS_AT (1u << 20)
#define TEXTS 16u
#define TEXT_STEP (1u << 20)
#define TEXT_SIZE 1000000u /* the letter a, a million times */
#define DEPTH 64u	   /* jobs in flight */
/* Unused by QEMU's Q35: for BARs of hot-plugged devices, which no firmware places. */
#define HOLE 0xc0000000u
#define HOLE_SIZE 0x20000000u
/* QEMU's docs/specs/acpi_pci_hotplug: buses, and their slots that the machine wants ejected. */
#define HOTPLUG 0x0cc0
#define HOTPLUG_BUSES 8

/* Interrupts need descriptor tables. The only interrupt, the timer's, just wakes the CPU. */
__asm__(".section .text.0,\"ax\"\n.align 4\n"
	".long 0x1badb002, 0, -0x1badb002\n" /* Multiboot 0.6.96, 3.1.1 */
	".globl _start\n_start: mov $stack + 16384, %esp\n"
	"lgdt gdtr\nljmp $8, $1f\n1: mov $16, %eax\nmov %eax, %ds\nmov %eax, %es\nmov %eax, %ss\n"
	"call run\n"
	".globl on_tick\non_tick: push %eax\nmov $0x20, %al\nout %al, $0x20\npop %eax\niret\n"
	".align 8\ngdt: .quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff\n"
	"gdtr: .word 23\n.long gdt\n"
	".bss\n.comm stack, 16384, 16\n.text\n");
extern char on_tick[];

static const uint32_t expected[8] = {0xcdc76e5c, 0x9914fb92, 0x81a1c7e2, 0x84d73e67,
				     0xf1809a48, 0xa497200e, 0x046d39cc, 0xc7112cd0};

static struct {
	uint32_t address; /* bus << 8 | device << 3 | function */
	volatile uint32_t *memory, *doorbell, *registers;
	const struct gpuiov_location *at;
	uint64_t written;
	uint32_t jobs, wrong, begun;
} vf;

static void outb(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static uint8_t inb(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static void outl(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" ::"a"(value), "Nd"(port));
}

static uint32_t inl(uint16_t port)
{
	uint32_t value;

	__asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

#define TIMER_VECTOR 0x20
#define TICKS_PER_S 50u

/* Starts the PIT, through the PIC (Intel 8254, 8259A): rest() then sleeps until the next tick. */
static void start_timer(void)
{
	static uint32_t idt[2 * (TIMER_VECTOR + 1)];
	static struct {
		uint16_t size;
		uint32_t idt;
	} __attribute__((packed)) idtr;
	const uint8_t pic[] = {0x11, TIMER_VECTOR, 4, 1, 0xfe}; /* all but the timer masked */
	uint32_t i, divisor = 1193182 / TICKS_PER_S;

	idtr.size = sizeof(idt) - 1;
	idtr.idt = (uint32_t)idt;
	idt[2 * TIMER_VECTOR] = 8u << 16 | ((uint32_t)on_tick & 0xffff);
	idt[2 * TIMER_VECTOR + 1] = ((uint32_t)on_tick & 0xffff0000) | 0x8e00;
	__asm__ volatile("lidt %0" ::"m"(idtr));
	for (i = 0; i < sizeof(pic); i++)
		outb(i ? 0x21 : 0x20, pic[i]);
	outb(0xa1, 0xff);
	outb(0x43, 0x34);
	outb(0x40, divisor & 0xff);
	outb(0x40, (uint8_t)(divisor >> 8));
}

static void rest(void)
{
	__asm__ volatile("sti\n\thlt\n\tcli");
}

static void say(const char *text)
{
	for (; *text; text++) {
		while (!(inb(0x3fd) & 0x20))
			;
		outb(0x3f8, (uint8_t)*text);
	}
}

static void say_number(uint32_t n)
{
	char digits[11], *p = digits + 10;

	*p = 0;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	say(p);
}

static uint32_t config(uint32_t address, uint32_t offset)
{
	outl(0xcf8, 0x80000000u | address << 8 | offset);
	return inl(0xcfc);
}

static void set_config(uint32_t address, uint32_t offset, uint32_t value)
{
	outl(0xcf8, 0x80000000u | address << 8 | offset);
	outl(0xcfc, value);
}

/* Ejects the devices that the machine wants back. */
static bool eject(void)
{
	uint32_t bus, slots;
	bool any = false;

	for (bus = 0; bus < HOTPLUG_BUSES; bus++) {
		outl(HOTPLUG + 0x10, bus);
		slots = inl(HOTPLUG + 4);
		if (slots && slots != UINT32_MAX) {
			outl(HOTPLUG + 8, slots);
			any = true;
		}
	}
	return any;
}

static bool find(void)
{
	uint32_t a;

	for (a = 0; a < 0x1000; a += 8) /* 16 buses, function 0 of each device */
		if (config(a, 0) == (0x5348u << 16 | 0x1234u)) {
			vf.address = a;
			return true;
		}
	return false;
}

/* The bridge whose secondary bus is BUS. */
static uint32_t bridge_to(uint32_t bus)
{
	uint32_t a;

	for (a = 0; a < 0x100; a++)
		if ((config(a, 8) >> 16) == 0x0604 && (config(a, 0x18) >> 8 & 0xff) == bus)
			return a;
	return 0;
}

/* Places a VF that no firmware has placed: all BARs in the hole, the bridge's window around it. */
static void place(void)
{
	uint32_t bridge = bridge_to(vf.address >> 8), next = HOLE, bar, mask;

	if (!bridge)
		return;
	set_config(bridge, 0x20, ((HOLE + HOLE_SIZE - 1) & 0xfff00000u) | HOLE >> 16);
	set_config(bridge, 0x24, 0x0000fff0); /* no prefetchable window */
	set_config(bridge, 4, 7);
	for (bar = 0x10; bar < 0x28; bar += 4) {
		set_config(vf.address, bar, UINT32_MAX);
		mask = config(vf.address, bar);
		if (!mask)
			continue;
		next = (next + ~(mask & ~15u)) & mask & ~15u;
		set_config(vf.address, bar, next);
		next += ~(mask & ~15u) + 1;
		if (mask & 4)
			set_config(vf.address, bar += 4, 0);
	}
}

static uint32_t bar_of(uint32_t n)
{
	return config(vf.address, 0x10 + n * 4) & ~15u;
}

static uint32_t mailbox(enum gpuiov_register r)
{
	return vf.registers[vf.at[r].offset / 4];
}

static void set_mailbox(enum gpuiov_register r, uint32_t value)
{
	vf.registers[vf.at[r].offset / 4] = value;
}

static void send(uint32_t word)
{
	set_mailbox(GPUIOV_MBOX_CONTROL, 0);
	set_mailbox(GPUIOV_MBOX_TRN, word);
	set_mailbox(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_TRN_VALID);
}

/* Brings the VF up, as in tools/softgpu/guest. Returns false if it is refused or the VF is gone. */
static bool bring_up(void)
{
	uint32_t word;

	vf.at = gpuiov_layout_navi.at;
	set_mailbox(GPUIOV_MBOX_INT, GPUIOV_MBOX_INT_VALID);
	if (mailbox(GPUIOV_MBOX_CONTROL) & GPUIOV_MBOX_RCV_VALID)
		set_mailbox(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_RCV_ACK);
	send(GPUIOV_REQ_INIT);
	do {
		if (eject())
			return false;
		while (!(mailbox(GPUIOV_MBOX_CONTROL) & GPUIOV_MBOX_RCV_VALID))
			if (rest(), eject() || mailbox(GPUIOV_MBOX_CONTROL) == UINT32_MAX)
				return false;
		word = mailbox(GPUIOV_MBOX_RCV);
		set_mailbox(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_RCV_ACK);
		if (word == GPUIOV_FAIL)
			return false;
	} while (word != GPUIOV_READY);
	vf.memory[FENCE_AT / 4] = 0;
	vf.registers[SOFTGPU_RING_BASE / 4] = 0;
	vf.registers[SOFTGPU_RING_SIZE / 4] = RING_PACKETS;
	vf.registers[SOFTGPU_FENCE_ADDR / 4] = FENCE_AT;
	send(GPUIOV_REL_INIT);
	vf.written = vf.begun = vf.jobs = 0;
	return true;
}

static void put(uint32_t opcode, uint32_t a, uint32_t b, uint32_t c)
{
	volatile uint32_t *p = vf.memory + (uint32_t)vf.written % RING_PACKETS * 16;
	uint32_t i;

	for (i = 0; i < 16; i++)
		p[i] = 0;
	p[0] = opcode;
	p[2] = a;
	p[4] = b;
	p[6] = c;
	vf.written++;
}

/* Writes eight bytes in one store; outside of long mode this takes MMX. */
static void ring_doorbell(void)
{
	__asm__ volatile("movq %1, %%mm0\n\tmovq %%mm0, %0"
			 : "=m"(*(volatile uint64_t *)vf.doorbell)
			 : "m"(vf.written));
}

static void begin(void)
{
	uint32_t slot = vf.begun % DEPTH, text = TEXTS_AT + vf.begun % TEXTS * TEXT_STEP, i;

	for (i = 0; i < 8; i++)
		vf.memory[(DIGESTS_AT + slot * 32) / 4 + i] = 0;
	put(SOFTGPU_FILL, text, TEXT_SIZE, 0x61616161);
	put(SOFTGPU_SHA256, DIGESTS_AT + slot * 32, text, TEXT_SIZE);
	put(SOFTGPU_FENCE, ++vf.begun, 0, 0);
	ring_doorbell();
}

static void judge(void)
{
	uint32_t slot = vf.jobs++ % DEPTH, i;

	for (i = 0; i < 8; i++)
		if (vf.memory[(DIGESTS_AT + slot * 32) / 4 + i] != __builtin_bswap32(expected[i]))
			break;
	vf.wrong += i < 8;
	if (vf.jobs % 8)
		return;
	say("jobs ");
	say_number(vf.jobs);
	say(" wrong ");
	say_number(vf.wrong);
	say("\r\n");
}

__attribute__((used)) void run(void);
void run(void)
{
	uint32_t word, done;

	start_timer();
	say("looking for a VF\r\n");
	for (;; rest()) {
		eject();
		if (!find())
			continue;
		if (!bar_of(5) || !bar_of(0))
			place();
		set_config(vf.address, 4, 6);
		vf.memory = (volatile uint32_t *)bar_of(0);
		vf.doorbell = (volatile uint32_t *)bar_of(2);
		vf.registers = (volatile uint32_t *)bar_of(5);
		if (!bring_up())
			continue;
		say("the VF is up\r\n");
		for (;; rest()) {
			if (eject())
				break;
			while (vf.begun - vf.jobs < DEPTH)
				begin();
			done = vf.memory[FENCE_AT / 4];
			while (vf.jobs < done && done <= vf.begun)
				judge();
			word = mailbox(GPUIOV_MBOX_RCV);
			if (word == GPUIOV_FLR || word == GPUIOV_FLR_DONE ||
			    vf.registers[SOFTGPU_STATUS / 4]) {
				say("the VF was reset, or has stopped\r\n");
				break;
			}
		}
	}
}
