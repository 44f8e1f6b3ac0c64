/* SPDX-License-Identifier: MIT */
#include "launch.h"

#include <errno.h>
#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"
#include "vgpu/number.h"
#include "vgpu/options.h"

#define TIMEOUT (60 * VGPU_SEC)
#define LOG_BYTES 8192u
#define MODULE 0u

/* An argument. A buffer begins with the bytes of the file IN, or zeros, and is written to the file
 * OUT at the end. */
struct arg {
	struct softgpu_launch_arg wire;
	const char *in, *out; /* NULL: none; OUT "": standard output */
	uint64_t at;	      /* offset of a buffer in the window */
};

struct request {
	const char *socket, *device, *function, *image;
	char name[160]; /* of the VF */
	struct softgpu_launch launch;
	struct arg args[SOFTGPU_MAX_LAUNCH_ARGS];
	uint64_t repeat;
	bool gated;
};

/* The memory that buffers are allocated from. */
struct space {
	uint8_t *memory;	     /* the free part of the window */
	uint64_t offset, size, used; /* its size and used part; the offset is in the partition */
	uint64_t device_at, device_size, device_used;
};

void guest_name(char *out, size_t size, const char *socket, const char *device)
{
	snprintf(out, size, "%s%s", socket ? "vfio-user:" : "", socket ? socket : device);
}

static bool parse_whole(const char *text, uint64_t most, uint64_t *out)
{
	return vgpu_parse_unsigned(text, most, out) == 0;
}

/* Parses "X", "X,Y" or "X,Y,Z". Writes NULs into TEXT. */
static bool parse_three(char *text, uint32_t out[3])
{
	uint64_t value;
	uint32_t i;
	char *part;

	for (i = 0; (part = strsep(&text, ",")); i++) {
		if (i == 3 || !parse_whole(part, UINT32_MAX, &value) || value == 0)
			return false;
		out[i] = (uint32_t)value;
	}
	return true;
}

static bool file_size(const char *path, uint64_t *size)
{
	FILE *f = fopen(path, "rb");
	long n = -1;

	if (f && fseek(f, 0, SEEK_END) == 0)
		n = ftell(f);
	if (f)
		fclose(f);
	*size = n > 0 ? (uint64_t)n : 0;
	return n > 0;
}

static void set_value(struct arg *a, const void *value, uint64_t bytes)
{
	a->wire = (struct softgpu_launch_arg){.kind = SOFTGPU_ARG_VALUE, .bytes = bytes};
	memcpy(&a->wire.value, value, bytes);
}

static bool parse_float(const char *text, double *out)
{
	return vgpu_parse_real(text, -DBL_MAX, DBL_MAX, out) == 0;
}

/* Parses TEXT as a number of KIND. Returns whether both are valid. */
static bool parse_number(struct arg *a, const char *kind, const char *text)
{
	uint64_t whole;
	double real;

	if (strcmp(kind, "u32") == 0 && parse_whole(text, UINT32_MAX, &whole)) {
		set_value(a, &(uint32_t){(uint32_t)whole}, sizeof(uint32_t));
	} else if (strcmp(kind, "u64") == 0 && parse_whole(text, UINT64_MAX, &whole)) {
		set_value(a, &whole, sizeof(whole));
	} else if (strcmp(kind, "f32") == 0 && parse_float(text, &real)) {
		set_value(a, &(float){(float)real}, sizeof(float));
	} else if (strcmp(kind, "f64") == 0 && parse_float(text, &real)) {
		set_value(a, &real, sizeof(real));
	} else {
		return false;
	}
	return true;
}

/* Parses the value of --arg. Writes NULs into TEXT. */
static bool parse_arg(struct arg *a, char *text)
{
	char *value = strchr(text, ':'), *second;

	if (!value)
		return false;
	*value++ = 0;
	if (text[0] == 'u' || text[0] == 'f')
		return parse_number(a, text, value);
	second = strchr(value, ':');
	if (second)
		*second++ = 0;
	a->wire = (struct softgpu_launch_arg){.kind = SOFTGPU_ARG_BUFFER};
	if (strcmp(text, "out") == 0) {
		a->out = second ? second : "";
		return parse_whole(value, UINT32_MAX, &a->wire.bytes) && a->wire.bytes > 0;
	}
	a->in = value;
	a->out = strcmp(text, "inout") == 0 ? second : NULL;
	return (strcmp(text, "in") == 0 || a->out) && file_size(value, &a->wire.bytes);
}

static int take_grid(void *request, char *text, struct vgpu_error *err)
{
	return parse_three(text, ((struct request *)request)->launch.grid)
		       ? 0
		       : vgpu_error_set(err, -EINVAL, "--grid: want X, X,Y or X,Y,Z");
}

static int take_block(void *request, char *text, struct vgpu_error *err)
{
	return parse_three(text, ((struct request *)request)->launch.block)
		       ? 0
		       : vgpu_error_set(err, -EINVAL, "--block: want X, X,Y or X,Y,Z");
}

static int take_arg(void *request, char *text, struct vgpu_error *err)
{
	struct request *q = request;
	char given[256];

	snprintf(given, sizeof(given), "%s", text); /* parsing writes into it */
	if (q->launch.n_args < SOFTGPU_MAX_LAUNCH_ARGS &&
	    parse_arg(&q->args[q->launch.n_args++], text))
		return 0;
	return vgpu_error_set(err, -EINVAL, "--arg %s: not a valid value, or no such file", given);
}

#define ROW(name, value, kind, member, help, ...)                                                  \
	VGPU_OPTION(name, value, help, kind, offsetof(struct request, member), __VA_ARGS__)
static const struct vgpu_option rows[] = {
	ROW("function", "NAME", TEXT, function, "the GPU kernel to launch"),
	ROW("socket", "PATH", TEXT, socket, "the VF's vfio-user socket"),
	ROW("device", "NAME", TEXT, device, "the VF as vfio:ADDRESS, through the kernel's VFIO"),
	ROW("grid", "X[,Y,Z]", TAKE, launch.grid, "blocks (1)", .take = take_grid),
	ROW("block", "X[,Y,Z]", TAKE, launch.block, "threads of a block (1)", .take = take_block),
	ROW("shared", "N", WHOLE32, launch.shared,
	    "bytes of dynamic shared memory for each block (0)"),
	ROW("arg", "KIND:VALUE", TAKE, args,
	    "the next argument: u32:N, u64:N, f32:N or f64:N, a number; in:FILE, a buffer with the "
	    "bytes of FILE; out:BYTES[:FILE], a buffer "
	    "of zeros, which is written to FILE at the end, or printed; inout:FILE:FILE, a buffer "
	    "with the bytes of the first FILE, which is "
	    "written to the second",
	    .take = take_arg),
	ROW("gated", NULL, FLAG, gated,
	    "stop work between blocks; the blocks must not wait for each other"),
	ROW("repeat", "N", WHOLE, repeat, "launch N times (1)", .min = 1),
	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("usage: vgpu-guest launch FILE --function NAME --socket PATH|--device NAME "
	      "[options]\n"
	      "Loads FILE (PTX or a cubin) on a softgpu VF, and launches one of its GPU "
	      "kernels.\nsoftgpu must run with --engine cuda.\n\n"
	      "Options:\n",
	      to);
	vgpu_options_list(rows, 20, to);
}

static int parse(int argc, char **argv, struct request *q)
{
	struct softgpu_launch *l = &q->launch;
	int r = vgpu_options_read("vgpu-guest: launch", rows, usage, argc, argv, q);

	if (r != 0)
		return r;
	if (optind + 2 != argc || (!q->socket && !q->device) || !q->function ||
	    strlen(q->function) >= sizeof(l->function)) {
		fprintf(stderr, "vgpu-guest: launch: give one FILE, --function, and --socket or "
				"--device; see --help\n");
		return -EINVAL;
	}
	strcpy(l->function, q->function);
	guest_name(q->name, sizeof(q->name), q->socket, q->device);
	q->image = argv[optind + 1];
	return 0;
}

/* Allocates BYTES of the window. Their offset; 0: there is no room. */
static uint64_t allocate(struct space *s, uint64_t bytes)
{
	uint64_t at = (s->used + 255) / 256 * 256;

	if (at > s->size || bytes > s->size - at)
		return 0;
	s->used = at + bytes;
	return s->offset + at;
}

static uint8_t *window_at(const struct space *s, uint64_t at)
{
	return s->memory + (at - s->offset);
}

static int read_file(const char *path, uint8_t *to, uint64_t bytes, struct vgpu_error *err)
{
	FILE *f = fopen(path, "rb");
	bool whole = f && fread(to, 1, bytes, f) == bytes;

	if (f)
		fclose(f);
	if (!whole)
		return vgpu_error_set(err, -EIO, "%s: cannot be read", path);
	return 0;
}

/* Allocates a buffer in the window and, if there is room, in device memory: then a packet copies it
 * there. */
static int place_buffer(struct space *s, struct arg *a, struct guest *g, struct vgpu_error *err)
{
	struct softgpu_packet p = {.opcode = SOFTGPU_UPLOAD};
	uint64_t there = (s->device_used + 255) / 256 * 256;

	a->at = allocate(s, a->wire.bytes);
	if (!a->at)
		return vgpu_error_set(err, -ENOSPC, "the arguments do not fit into the window");
	memset(window_at(s, a->at), 0, a->wire.bytes);
	if (a->in && read_file(a->in, window_at(s, a->at), a->wire.bytes, err) < 0)
		return -EIO;
	a->wire.value = a->at;
	if (there > s->device_size || a->wire.bytes > s->device_size - there)
		return 0;
	s->device_used = there + a->wire.bytes;
	a->wire.value = s->device_at + there;
	p.arg[0] = a->wire.value;
	p.arg[1] = a->at;
	p.arg[2] = a->wire.bytes;
	guest_put(g, &p);
	return 0;
}

/* Prints bytes in hexadecimal: words of 4 bytes, 8 words on a line. */
static void print_bytes(const uint8_t *bytes, uint64_t n)
{
	const char *separator;
	uint64_t i;

	for (i = 0; i < n; i++) {
		separator = "";
		if (i % 32 == 31 || i + 1 == n)
			separator = "\n";
		else if (i % 4 == 3)
			separator = " ";
		printf("%02x%s", bytes[i], separator);
	}
}

/* Writes a buffer to its file, or prints it. */
static int write_buffer(const struct space *s, const struct arg *a, struct vgpu_error *err)
{
	const uint8_t *bytes = window_at(s, a->at);
	FILE *f;

	if (a->out[0] == 0) {
		print_bytes(bytes, a->wire.bytes);
		return 0;
	}
	f = fopen(a->out, "wb");
	if (!f || fwrite(bytes, 1, a->wire.bytes, f) != a->wire.bytes || fclose(f) != 0)
		return vgpu_error_set(err, -EIO, "%s: %s", a->out, strerror(errno));
	return 0;
}

/* Runs the packets in the ring, and waits until they are done. LOG: where the compiler writes its
 * messages. */
static int run_packets(struct guest *g, const char *log, struct vgpu_error *err)
{
	uint64_t fence = guest_put_fence(g);
	int r = guest_ring(g);

	if (r == 0)
		r = guest_wait(g, fence, TIMEOUT);
	if (r == -EIO && (guest_error(g) == SOFTGPU_BAD_MODULE ||
			  guest_error(g) == SOFTGPU_NO_ROOM || guest_error(g) == SOFTGPU_OTHER_GPU))
		return vgpu_error_set(err, r, "the file cannot be loaded: %s", log);
	if (r == -EIO && guest_error(g) == SOFTGPU_BAD_LAUNCH)
		return vgpu_error_set(
			err, r,
			"the file has no such function, or the function does not accept "
			"these arguments");
	if (r == -EIO)
		return vgpu_error_set(err, r, "the VF stopped with error %u", guest_error(g));
	if (r == -ECONNRESET)
		return vgpu_error_set(err, r,
				      "the VF was reset: the GPU kernel faulted, or did not end");
	if (r == -ENODEV)
		return vgpu_error_set(err, r,
				      "the VF was reset, and its process killed: the GPU kernel "
				      "did not end; or softgpu has ended");
	if (r < 0)
		return vgpu_error_set(err, r, "waiting for the VF: %s", strerror(-r));
	return 0;
}

static int load(struct request *q, struct space *s, struct guest *g, struct vgpu_error *err)
{
	uint64_t size, at, log = allocate(s, LOG_BYTES);
	struct softgpu_packet p = {.opcode = SOFTGPU_MODULE_LOAD};
	int r;

	if (!file_size(q->image, &size))
		return vgpu_error_set(err, -ENOENT, "%s: cannot be read", q->image);
	at = allocate(s, size);
	if (!log || !at)
		return vgpu_error_set(err, -ENOSPC, "%s does not fit into the window", q->image);
	r = read_file(q->image, window_at(s, at), size, err);
	if (r < 0)
		return r;
	window_at(s, log)[0] = 0;
	p.flags = q->gated ? SOFTGPU_MODULE_GATED : 0;
	p.arg[0] = MODULE;
	p.arg[1] = at;
	p.arg[2] = size;
	p.arg[3] = log;
	p.arg[4] = LOG_BYTES;
	guest_put(g, &p);
	return run_packets(g, (const char *)window_at(s, log), err);
}

static int execute(struct request *q, struct space *s, struct guest *g, struct vgpu_error *err)
{
	struct softgpu_packet p = {.opcode = SOFTGPU_LAUNCH};
	struct softgpu_launch *l = &q->launch;
	uint64_t at = allocate(s, sizeof(*l)), times = allocate(s, 16), n;
	struct softgpu_packet event = {.opcode = SOFTGPU_EVENT, .arg = {times}};
	const uint64_t *when;
	uint32_t i;
	int r = 0;

	if (!at || !times)
		return vgpu_error_set(err, -ENOSPC, "the window is too small");
	for (i = 0; i < l->n_args; i++) {
		if (q->args[i].wire.kind == SOFTGPU_ARG_BUFFER)
			r = place_buffer(s, &q->args[i], g, err);
		if (r < 0)
			return r;
		l->args[i] = q->args[i].wire;
	}
	when = (const uint64_t *)window_at(s, times);
	memcpy(window_at(s, at), l, sizeof(*l));
	p.arg[0] = MODULE;
	p.arg[1] = at;
	p.arg[2] = sizeof(*l);
	guest_put(g, &event);
	event.arg[0] += 8;
	for (n = 0; n < q->repeat && r == 0; n++) {
		guest_put(g, &p);
		if (n % 256 == 255)
			r = run_packets(g, "", err);
	}
	guest_put(g, &event);
	for (i = 0; i < l->n_args; i++) {
		const struct arg *a = &q->args[i];
		struct softgpu_packet fetch = {SOFTGPU_DOWNLOAD,
					       0,
					       {a->at, a->wire.value, a->wire.bytes}};

		if (a->out && a->wire.value != a->at)
			guest_put(g, &fetch);
	}
	if (r == 0)
		r = run_packets(g, "", err);
	for (i = 0; i < l->n_args && r == 0; i++)
		if (q->args[i].out)
			r = write_buffer(s, &q->args[i], err);
	if (r == 0)
		fprintf(stderr, "%s: %llu launches in %.3f ms, including slices of other VFs\n",
			l->function, (unsigned long long)q->repeat,
			(double)(when[1] - when[0]) / 1e6);
	return r;
}

int launch_main(int argc, char **argv)
{
	struct request q = {.launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}}, .repeat = 1};
	struct vgpu_error err = {""};
	struct guest *g = NULL;
	struct space s = {0};
	int r;

	r = parse(argc, argv, &q);
	if (r != 0)
		return r < 0 ? 2 : 0;
	r = guest_open(&g, q.name, &err);
	if (r == 0)
		r = guest_bring_up(g, TIMEOUT, &err);
	if (r == 0 && !guest_has_modules(g))
		r = vgpu_error_set(
			&err, -EOPNOTSUPP,
			guest_has_old_modules(g)
				? "the softgpu of this VF is older than this program: update it"
				: "this VF loads no GPU kernels: start softgpu with --engine cuda");
	if (r == 0) {
		s.memory = guest_memory(g, &s.offset, &s.size);
		guest_device_memory(g, &s.device_at, &s.device_size);
		r = load(&q, &s, g, &err);
	}
	if (r == 0)
		r = execute(&q, &s, g, &err);
	if (r == 0)
		r = guest_bring_down(g, TIMEOUT, &err);
	guest_close(g);
	if (r < 0)
		fprintf(stderr, "vgpu-guest: launch: %s\n", err.text);
	if (r == -EACCES)
		return 3;
	return r < 0 ? 1 : 0;
}
