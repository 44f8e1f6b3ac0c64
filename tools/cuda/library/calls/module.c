/* SPDX-License-Identifier: MIT */
/* Modules and their functions. The worker compiles modules, and reports the parameters of
 * functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "cuda_calls.h"
#include "vgpu/clock.h"

/* CUjit_option: where the caller wants the compiler's messages, and how long it takes. */
enum { JIT_WALL_TIME = 2, JIT_INFO_LOG, JIT_INFO_LOG_SIZE, JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE };
/* Hints: number of registers, optimisation, further contents of the log or the module. They have no
 * effect: the host compiles with its defaults, for its GPU. */
enum {
	JIT_REGISTERS = 0,
	JIT_THREADS = 1,
	JIT_LEVEL = 7,
	JIT_FOR_CONTEXT,
	JIT_FALLBACK = 10,
	JIT_DEBUG,
	JIT_VERBOSE,
	JIT_LINES,
	JIT_CACHE
};

/* The compute capability to compile for, times ten; only the GPU's own is supported. */
enum { JIT_TARGET = 9 };
/* CUdevice_attribute */
enum { MAJOR = 75, MINOR = 76 };

static bool numbers[SOFTGPU_MAX_MODULES]; /* numbers that are in use */

static bool is_own_target(const void *value)
{
	return (uintptr_t)value ==
	       (uintptr_t)(link_about.attributes[MAJOR] * 10 + link_about.attributes[MINOR]);
}

CUresult module_options(unsigned n, const int *options, void **values, struct module_logs *logs)
{
	unsigned i;

	if (n > 0 && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		switch (options[i]) {
		case JIT_REGISTERS:
		case JIT_THREADS:
		case JIT_LEVEL:
		case JIT_FOR_CONTEXT:
		case JIT_FALLBACK:
		case JIT_DEBUG:
		case JIT_VERBOSE:
		case JIT_LINES:
		case JIT_CACHE:
			break;
		case JIT_WALL_TIME:
			logs->took = &values[i];
			break;
		case JIT_INFO_LOG:
			logs->info.at = values[i];
			logs->info.has = 0;
			break;
		case JIT_INFO_LOG_SIZE:
			logs->info.size = (uintptr_t)values[i];
			logs->info.used = &values[i];
			break;
		case JIT_ERROR_LOG:
			logs->errors.at = values[i];
			logs->errors.has = 0;
			break;
		case JIT_ERROR_LOG_SIZE:
			logs->errors.size = (uintptr_t)values[i];
			logs->errors.used = &values[i];
			break;
		case JIT_TARGET:
			if (is_own_target(values[i]))
				break;
			log_line("cuModuleLoadDataEx: option CU_JIT_TARGET names another GPU than "
				 "the VF's");
			return CUDA_ERROR_NOT_SUPPORTED;
		default:
			log_line("cuModuleLoadDataEx: option %d is not supported", options[i]);
			return CUDA_ERROR_NOT_SUPPORTED;
		}
	}
	return CUDA_SUCCESS;
}

/* Appends TEXT, truncated if the log is full. */
static void add_text(struct module_log *l, const char *text)
{
	size_t n = strlen(text), room = l->size - 1 - l->has;

	n = n < room ? n : room;
	memcpy(l->at + l->has, text, n);
	l->has += n;
	l->at[l->has] = 0;
}

/* Appends TEXT to the caller's log as a line. */
static void give_log(struct module_log *l, const char *text)
{
	if (l->at && l->size > l->has) {
		if (*text && l->has > 0 && l->at[l->has - 1] != '\n')
			add_text(l, "\n");
		add_text(l, text);
	}
	if (l->used)
		*l->used = (void *)l->has;
}

static void give_time(struct module_logs *logs, vgpu_nsec took)
{
	logs->took_ms += (float)took / 1e6f;
	if (logs->took)
		memcpy(logs->took, &logs->took_ms, sizeof(logs->took_ms));
}

/* Lets the VF load the image as module NUMBER, or do what FLAGS of MODULE_LOAD say. */
static CUresult load_as(uint32_t number, uint32_t flags, const void *image, uint64_t bytes,
			struct module_logs *logs)
{
	const struct link_parts *p = &link_parts;
	const vgpu_nsec begun = vgpu_now();
	uint64_t room = bytes, at, error;
	char text[LINK_LOG];
	uint8_t *memory;
	CUresult e = link_stage(&room, &memory, &at);

	if (e == CUDA_SUCCESS && room < bytes) {
		log_line("an image of %llu bytes does not fit into the VF's window",
			 (unsigned long long)bytes);
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(memory, image, bytes);
	p->log[0] = 0;
	*p->load_report = 0;
	e = link_put(SOFTGPU_MODULE_LOAD, flags | SOFTGPU_REPORT,
		     (uint64_t[7]){number, at, bytes, p->log_at, LINK_LOG, 0, p->load_report_at});
	link_may_print();
	if (e == CUDA_SUCCESS)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	error = __atomic_load_n(p->load_report, __ATOMIC_ACQUIRE);
	memcpy(text, p->log, sizeof(text));
	text[sizeof(text) - 1] = 0;
	give_log(&logs->errors, text);
	give_log(&logs->info, "");
	give_time(logs, vgpu_now() - begun);
	if (error == SOFTGPU_OK)
		return CUDA_SUCCESS;
	log_line("the host refuses the module: %s", text[0] ? text : "it does not say why");
	return error == SOFTGPU_NO_ROOM	    ? CUDA_ERROR_OUT_OF_MEMORY
	       : error == SOFTGPU_OTHER_GPU ? CUDA_ERROR_NO_BINARY_FOR_GPU
					    : CUDA_ERROR_INVALID_PTX;
}

CUresult module_check(const void *image, uint64_t bytes, struct module_logs *logs)
{
	return load_as(0, SOFTGPU_MODULE_CHECK, image, bytes, logs);
}

CUresult module_load(void **out, const void *image, uint64_t most, struct module_logs *logs,
		     const struct context *context)
{
	struct module *m;
	uint64_t bytes;
	uint32_t number, places;
	CUresult e;

	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!image_find(&image, most, &bytes)) {
		log_line("the image is shorter than its headers say, or longer than a packet can "
			 "load (1 GiB)");
		return CUDA_ERROR_INVALID_IMAGE;
	}
	places = guest_has_many_modules(link_guest()) ? SOFTGPU_MAX_MODULES
						      : SOFTGPU_HAD_MAX_MODULES;
	for (number = 0; number < places && numbers[number];)
		number++;
	if (number == places) {
		log_line("a program can have at most %u modules at a time%s", places,
			 places == SOFTGPU_MAX_MODULES
				 ? ""
				 : ", with this version of softgpu: update it");
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m = calloc(1, sizeof(*m));
	if (m)
		m->handle = handle_make(HANDLE_MODULE, m);
	link_care(); /* frees the part of the VF's allowance that killed programs had */
	e = m && m->handle ? load_as(number, 0, image, bytes, logs) : CUDA_ERROR_OUT_OF_MEMORY;
	if (e != CUDA_SUCCESS) {
		if (m)
			handle_drop(HANDLE_MODULE, m->handle);
		free(m);
		return e;
	}
	numbers[number] = true;
	m->number = number;
	m->context = context;
	*out = m->handle;
	return CUDA_SUCCESS;
}

CUresult module_unload(struct module *m)
{
	CUresult e = link_show_printed();
	struct function *f;

	if (e == CUDA_SUCCESS)
		e = link_put(SOFTGPU_MODULE_UNLOAD, 0, (uint64_t[7]){m->number});
	if (e == CUDA_SUCCESS)
		e = link_ring();
	while ((f = m->functions)) {
		m->functions = f->next;
		handle_drop(HANDLE_FUNCTION, f->handle);
		free(f->setup);
		free(f);
	}
	symbol_end_all(m);
	numbers[m->number] = false;
	handle_drop(HANDLE_MODULE, m->handle);
	free(m);
	return e;
}

void module_end_all(const struct context *context)
{
	struct module *m;
	uint32_t at;

	for (at = 0; (m = handle_next(HANDLE_MODULE, &at));)
		if (m->context == context)
			module_unload(m);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
			    void **values)
{
	struct module_logs logs = {0};
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS)
		e = module_options(n, options, values, &logs);
	if (e == CUDA_SUCCESS)
		e = module_load(out, image, IMAGE_UNKNOWN, &logs, c);
	return CALL_END(e);
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
	return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

char *module_read_file(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL, *more;
	size_t n = 0, room = 0;

	while (f) {
		if (room - n < 2) {
			room = 2 * room + 65536;
			more = realloc(text, room);
			if (!more) {
				free(text);
				text = NULL;
				break;
			}
			text = more;
		}
		n += fread(text + n, 1, room - n - 1, f);
		text[n] = 0;
		if (feof(f))
			break;
		if (ferror(f)) {
			free(text);
			text = NULL;
			break;
		}
	}
	if (f)
		fclose(f);
	*bytes = n;
	return text;
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
	size_t bytes = 0;
	char *text = path ? module_read_file(path, &bytes) : NULL;
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS)
		e = text ? module_load(out, text, bytes, &(struct module_logs){0}, c)
			 : CUDA_ERROR_FILE_NOT_FOUND;
	free(text);
	return CALL_END(e);
}

CUresult cuModuleUnload(CUmodule module)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct module *m = handle_find(HANDLE_MODULE, module);

	if (e == CUDA_SUCCESS)
		e = m && m->context ? module_unload(m) : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e);
}

/* Computes from the VF's answer what launches need. Returns whether the answer has the form on
 * which launches rely. */
static bool look_at_parameters(struct function *f)
{
	const struct softgpu_function *k = &f->known;
	uint32_t end = 0, i;

	if (k->n_params > SOFTGPU_MAX_LAUNCH_ARGS)
		return false;
	f->launch_bytes = offsetof(struct softgpu_launch, args[k->n_params]);
	for (i = 0; i < k->n_params; i++) {
		if (k->size[i] == 0 || k->offset[i] < end ||
		    k->offset[i] > SOFTGPU_MAX_LAUNCH_BYTES ||
		    k->size[i] > SOFTGPU_MAX_LAUNCH_BYTES - k->offset[i])
			return false;
		end = k->offset[i] + k->size[i];
		if (!launch_has_value(k->size[i]))
			f->launch_bytes += k->size[i];
	}
	f->name_parts = (uint32_t)strlen(k->name) / NAME_PART + 1;
	f->args_bytes = end;
	return true;
}

/* Asks the VF for the function's parameters and attributes. */
static CUresult ask_function(struct function *f)
{
	struct softgpu_function *shown = link_parts.structure;
	CUresult e;

	memcpy(shown, &f->known, sizeof(*shown));
	e = link_put(SOFTGPU_FUNCTION, 0,
		     (uint64_t[7]){f->module->number, link_parts.structure_at, sizeof(*shown)});
	if (e == CUDA_SUCCESS)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(&f->known, shown, sizeof(f->known));
	f->known.name[sizeof(f->known.name) - 1] = 0;
	return f->known.error == SOFTGPU_OK && look_at_parameters(f) ? CUDA_SUCCESS
								     : CUDA_ERROR_NOT_FOUND;
}

CUresult module_function(CUfunction *out, struct module *m, const char *name)
{
	struct function *f;
	CUresult e;

	if (!out || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!symbol_name_fits(name))
		return CUDA_ERROR_NOT_FOUND;
	for (f = m->functions; f; f = f->next)
		if (strcmp(f->known.name, name) == 0)
			break;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return CUDA_ERROR_OUT_OF_MEMORY;
		f->module = m;
		f->shared_most = f->carveout = -1;
		snprintf(f->known.name, sizeof(f->known.name), "%s", name);
		e = ask_function(f);
		f->handle = e == CUDA_SUCCESS ? handle_make(HANDLE_FUNCTION, f) : NULL;
		if (!f->handle) {
			free(f);
			return e == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : e;
		}
		f->next = m->functions;
		m->functions = f;
	}
	*out = f->handle;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct module *m = handle_find(HANDLE_MODULE, module);

	if (e == CUDA_SUCCESS)
		e = m ? module_function(out, m, name) : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e);
}
