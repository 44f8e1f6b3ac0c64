/* SPDX-License-Identifier: MIT */
/* Variables of modules. They are not in the partition, so a special packet copies to and from
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_memory.h"

static CUresult ask_symbol(const struct module *m, struct softgpu_symbol *known)
{
	const uint64_t arg[7] = {m->number, link_parts.structure_at, sizeof(*known)};
	CUresult e;

	memcpy(link_parts.structure, known, sizeof(*known));
	e = link_put(SOFTGPU_SYMBOL, 0, arg);
	if (e == CUDA_SUCCESS)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(known, link_parts.structure, sizeof(*known));
	known->name[sizeof(known->name) - 1] = 0;
	return known->error == SOFTGPU_OK ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#define NAME_ROOM sizeof(((struct softgpu_function *)NULL)->name)
_Static_assert(NAME_ROOM == sizeof(((struct softgpu_symbol *)NULL)->name), "names of both");

bool symbol_name_fits(const char *name)
{
	if (strlen(name) < NAME_ROOM)
		return true;
	log_line("the name of a function or a variable can have at most %zu bytes: %.64s...",
		 NAME_ROOM - 1, name);
	return false;
}

CUresult symbol_find(struct module *m, const char *name, const struct symbol **out)
{
	struct symbol *s;
	CUresult e;

	if (!symbol_name_fits(name))
		return CUDA_ERROR_NOT_FOUND;
	for (s = m->symbols; s && strcmp(s->known.name, name) != 0;)
		s = s->next;
	*out = s;
	if (s)
		return CUDA_SUCCESS;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->module = m;
	s->id = handle_number();
	snprintf(s->known.name, sizeof(s->known.name), "%s", name);
	e = ask_symbol(m, &s->known);
	if (e != CUDA_SUCCESS) {
		free(s);
		return e;
	}
	s->next = m->symbols;
	m->symbols = s;
	*out = s;
	return CUDA_SUCCESS;
}

const struct symbol *symbol_at(CUdeviceptr at, uint64_t bytes)
{
	const struct module *m;
	const struct symbol *s;
	uint32_t i;

	for (i = 0; (m = handle_next(HANDLE_MODULE, &i));)
		for (s = m->symbols; s; s = s->next)
			if (at >= s->known.at && at - s->known.at < s->known.bytes &&
			    bytes <= s->known.bytes - (at - s->known.at))
				return s;
	return NULL;
}

void symbol_end_all(struct module *m)
{
	struct symbol *s;

	while ((s = m->symbols)) {
		m->symbols = s->next;
		free(s);
	}
}

CUresult symbol_put(const struct symbol *s, uint64_t offset, uint64_t other, uint64_t bytes,
		    bool out)
{
	struct softgpu_symbol_copy c = {.offset = offset,
					.other = other,
					.bytes = bytes,
					.out = out};
	uint8_t *memory;
	uint64_t at;
	CUresult e = link_launch(sizeof(c), &memory, &at);

	if (e != CUDA_SUCCESS)
		return e;
	memcpy(c.name, s->known.name, sizeof(c.name));
	memcpy(memory, &c, sizeof(c));
	return link_put(SOFTGPU_SYMBOL_COPY, SOFTGPU_REPORT,
			(uint64_t[7]){s->module->number, at, sizeof(c), 0, 0, 0,
				      link_parts.launch_report_at});
}

static CUresult get_global(CUdeviceptr *out, size_t *bytes, struct module *m, const char *name)
{
	const struct symbol *s;
	CUresult e;

	if (!name || (!out && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	e = symbol_find(m, name, &s);
	if (e == CUDA_SUCCESS && out)
		*out = s->known.at;
	if (e == CUDA_SUCCESS && bytes)
		*bytes = s->known.bytes;
	return e;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct module *m = handle_find(HANDLE_MODULE, module);

	if (e == CUDA_SUCCESS)
		e = m ? get_global(out, bytes, m, name) : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct module *m = handle_find(HANDLE_MODULE, library);

	if (e == CUDA_SUCCESS)
		e = m && !m->context ? get_global(out, bytes, m, name) : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e);
}
