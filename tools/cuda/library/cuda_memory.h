/* SPDX-License-Identifier: MIT */
/* Memory: what is at an address of the device, or of the program. Called with the lock. */
#pragma once

#include "cuda_call.h"

struct module {
	void *handle;
	const struct context *context; /* NULL: a library, which belongs to no context */
	uint32_t number;	       /* number of the module on the VF */
	struct function *functions;
	struct symbol *symbols;
};

#define NAME_PART 32u
/* A CUfunction or a CUkernel. */
struct function {
	void *handle;
	struct module *module;
	struct function *next;
	struct softgpu_function known; /* the parameters' descriptions follow each other */
	uint32_t name_parts;	       /* length of the name, with its zero byte, in parts of
					* NAME_PART bytes */
	uint32_t args_bytes;	       /* bytes of all parameters, with padding between them */
	uint32_t launch_bytes;	       /* bytes that a launch writes for the host */
	/* Attributes that the program has set; -1: it has not set them. */
	int shared_most; /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
	int carveout;	 /* PREFERRED_SHARED_MEMORY_CARVEOUT, a hint; -1 can also be set */
	struct launch_setup *setup; /* owned by launch_first.c; NULL: none */
};

/* physical.c */

/* Memory without an address. It is freed when no handle and no mapping of it are left. */
struct physical {
	void *handle;
	uint64_t bytes;
	int handles;	       /* kinds of exported handles, as in struct cuda_allocation */
	uint32_t common;       /* 1 + its number as common memory; 0: no other process has it */
	bool made;	       /* this process has made it common memory */
	uint32_t held, mapped; /* number of handles that the program holds; number of mappings */
	uint32_t n;
	struct physical_part *parts;
};

/* Returns the allocation of a handle that the program holds; NULL: there is none. */
struct physical *physical_find(CUmemHandle handle);
/* Notes that a mapping has ended; frees the allocation if that was its last use. */
void physical_unmapped(struct physical *p);
/* Forgets all allocations. */
void physical_reset(void);
/* Makes an allocation of the common memory NUMBER, which consists of these N PIECES and which the
 * process holds; its handle is held once. Returns 0; -EINVAL: the pieces cannot be mapped; or
 * -ENOMEM. After an error, the process no longer holds the common memory. */
int physical_open(uint32_t number, const uint32_t *pieces, uint32_t n, struct physical **out);
/* Returns CUDA_SUCCESS if the VF can map memory; if not, logs that the call NAME is not
 * supported. */
CUresult physical_is_there(const char *name);
/* Returns whether processes of the VF can share memory: shareable.c. */
bool physical_is_shareable(void);

/* arena.c */

/* Sets *OFFSET to the offset at which packets find BYTES at AT in the arena. Returns false if the
 * bytes are not all mapped and accessible. */
bool arena_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset);
/* Writes the mapping that contains AT to R. Returns false if there is none. */
bool arena_range(CUdeviceptr at, struct memory_range *r);
/* Returns the allocation that is mapped at AT; NULL: none. */
struct physical *arena_physical(CUdeviceptr at);
/* Forgets all mappings. */
void arena_reset(void);

/* ipc.c: memory of other processes of the VF that this process has opened. */

/* Writes the memory that contains OFFSET to R. Returns false if this process has opened none
 * there. */
bool ipc_find(uint64_t offset, struct memory_range *r);
/* Returns the context that has opened the memory at OFFSET; NULL: none has. */
const struct context *ipc_context(uint64_t offset);
/* Returns whether other processes may open the allocation that contains OFFSET. */
bool ipc_can_show(uint64_t offset);
/* Closes all memory that CONTEXT has opened. */
void ipc_end_all(const struct context *context);

/* symbol.c: variables of modules that the program has looked up. */

struct symbol {
	struct module *module;
	struct symbol *next;
	uint64_t id; /* as in struct memory_range */
	struct softgpu_symbol known;
};

/* Returns whether the NAME of a function or a variable fits into packets; if not, logs that. */
bool symbol_name_fits(const char *name);
/* Finds the variable NAME of M; asks the VF when NAME is looked up for the first time. */
CUresult symbol_find(struct module *m, const char *name, const struct symbol **out);
/* Returns the variable that contains all BYTES at AT; NULL: there is none. */
const struct symbol *symbol_at(CUdeviceptr at, uint64_t bytes);
void symbol_end_all(struct module *m);
/* Puts a copy into the ring, between BYTES at OFFSET in S and BYTES at OTHER in the partition. OUT:
 * from S to the partition. */
CUresult symbol_put(const struct symbol *s, uint64_t offset, uint64_t other, uint64_t bytes,
		    bool out);

/* pinned.c */

struct pinned {
	uint8_t *at;
	uint64_t bytes, id;
	unsigned flags;
	enum pinned_kind { PINNED_WINDOW, PINNED_MANAGED, PINNED_PLAIN, PINNED_REGISTERED } kind;
	const struct context *context;
	/* host: its address in the program. window: its address in the VF's window, at which GPU
	 * kernels access it; NULL: not in the window. AT equals one of the two. */
	uint8_t *host, *window;
	uint8_t *copy; /* during fork(): the memory that replaces it in the child, or NULL */
};

/* Returns the pinned or registered memory that contains AT; NULL: there is none. */
const struct pinned *pinned_find(const void *at);
/* Returns whether all BYTES at MEMORY are pinned, so that the VF can copy from or to them without
 * staging; *AT is their offset in the partition. */
bool pinned_at(const void *memory, uint64_t bytes, uint64_t *at);
/* Returns whether any of BYTES at MEMORY is pinned. */
bool pinned_touches(const void *memory, uint64_t bytes);
/* Returns whether GPU kernels can access P, which may be NULL, at its address. */
bool pinned_is_mapped(const struct pinned *p);
/* Returns the address at which GPU kernels access AT in P; 0: they cannot access it. */
CUdeviceptr pinned_on_device(const struct pinned *p, uint64_t at);
void pinned_end_all(const struct context *context);
/* Managed memory: see managed.c. */
CUresult pinned_take_managed(CUdeviceptr *out, uint64_t bytes, const struct context *context);
bool pinned_give_managed(CUdeviceptr at);

/* registered.c: BYTES at AT of the program's memory, which become the pinned memory P. */

/* Returns whether pages of the window can replace all whole pages of BYTES at AT, and the other
 * bytes can be read and written; if not, logs why. */
bool registered_is_possible(const uint8_t *at, uint64_t bytes);
/* Maps the window's pages at WINDOW over the program's BYTES at AT, which must be whole pages. */
CUresult registered_map(uint8_t *at, uint64_t bytes, uint8_t *window);
/* Returns private memory with a copy of P's contents in the window; NULL: out of memory. */
uint8_t *registered_copy(const struct pinned *p);
/* Moves COPY, which it takes over, to the place of P, over those pages that are still the window's;
 * what the program has mapped there since is not changed. Returns false if some pages may still be
 * the window's. */
bool registered_unmap(const struct pinned *p, uint8_t *copy);

/* memory.c: returns whether AT is an address of the device that no pointer of this process can
 * equal. */
bool memory_is_device(uint64_t at);
/* Returns BYTES, but at most UINT32_MAX, for calls whose sizes have 32 bits. */
unsigned memory_in_32_bits(uint64_t bytes);
/* Returns whether the device's memory and this process's memory have no address in common. */
bool memory_is_unified(void);
/* Finds the device memory that contains AT: an allocation or a mapping of this process, or memory
 * of another process that this one has opened. Returns false if there is none. */
bool memory_range(CUdeviceptr at, struct memory_range *r);
/* Sets *OFFSET to the offset at which packets find BYTES at the device address AT. Returns false if
 * the bytes are not all in one allocation, or not all mapped. */
bool memory_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset);
