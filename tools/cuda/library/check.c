/* SPDX-License-Identifier: MIT */
/*
 * vgpu-cuda-check prints whether a CUDA program of this user would get the VF; if not, it prints
 * why, and what to do. It does what such a program does: it asks the loader for the library, and
 * the library for the device. Errors go to standard error.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "entries.h"
#include "find.h"
#include "vfio/device.h"
#include "vgpu/descriptor.h"
#include "vgpu/output.h"

#define LIBRARY "libcuda.so.1"
#define NVML "libnvidia-ml.so.1"
#define VFS_MOST 64
#define MANAGED_MEMORY 83 /* CUdevice_attribute */
#define MAJOR 75	  /* CUdevice_attribute: compute capability */
#define MINOR 76

__attribute__((format(printf, 2, 3))) static void say(const char *what, const char *format, ...)
{
	va_list list;

	printf("%-10s", what);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...)
{
	va_list list;

	fflush(stdout);
	fputs("vgpu-cuda-check: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	return false;
}

/* Returns whether the library at PATH is vgpud's, which contains the name of the variable that
 * names the VF. */
static bool is_ours(const char *path)
{
	VGPU_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool ours;
	void *text;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return false;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return false;
	ours = memmem(text, (size_t)st.st_size, FIND_VARIABLE, strlen(FIND_VARIABLE));
	munmap(text, (size_t)st.st_size);
	return ours;
}

/* Finds a library of vgpud as programs do. */
static bool check_library(const char *what, const char *name, void **library)
{
	struct link_map *map = NULL;

	*library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!*library)
		return complain("the loader does not find %s (%s): install the package "
				"vgpu-cuda, or name the library's folder in LD_LIBRARY_PATH",
				name, dlerror());
	if (dlinfo(*library, RTLD_DI_LINKMAP, &map) < 0 || !is_ours(map->l_name))
		return complain(
			"%s is not the library of vgpud: remove the package that it belongs "
			"to (dpkg -S %s), and install vgpu-cuda",
			map ? map->l_name : name, map ? map->l_name : name);
	say(what, "%s", map->l_name);
	return true;
}

/* Opens the VF and closes it again; this neither resets nor uses a VF in a VM. Sets *BUSY if
 * another program has the VF for itself. */
static bool check_vf(bool *busy)
{
	char name[FIND_NAME_SIZE], all[VFS_MOST][PCI_ADDRESS_SIZE], uuid[FIND_UUID_TEXT];
	struct vfio_device *device;
	struct vgpu_error err = {""};
	int i, n = find_all(all, VFS_MOST), r;

	for (i = 0; i < n && i < VFS_MOST; i++)
		say("here", "%s, a VF of softgpu", all[i]);
	if (find_vf(name, &err) < 0)
		return complain("%s", err.text);
	say("VF", "%s%s", name, getenv(FIND_VARIABLE) ? ", by " FIND_VARIABLE : "");
	if (!find_is_visible(name, getenv(FIND_VISIBLE))) {
		find_uuid_text(name, uuid);
		return complain(FIND_VISIBLE
				"=%s: programs see no device; unset it, or set it to 0 or %s",
				getenv(FIND_VISIBLE), uuid);
	}
	if (strncmp(name, "resource:", strlen("resource:")) != 0 &&
	    strncmp(name, "shared:", strlen("shared:")) != 0)
		return true; /* true, because opening the VF would reset it */
	r = vfio_device_open(&device, name, &err);
	*busy = r == -EBUSY;
	if (r == 0)
		vfio_device_close(device);
	else if (!*busy)
		return complain("%s", err.text);
	else
		say("in use", "%s", err.text);
	return true;
}

/* The calls that this program needs, by the names of their symbols. */
struct calls {
	CUresult (*init)(unsigned);
	CUresult (*version)(int *);
	CUresult (*name)(char *, int, CUdevice);
	CUresult (*memory)(size_t *, CUdevice);
	CUresult (*attribute)(int *, int, CUdevice);
	CUresult (*error)(CUresult, const char **);
};

static bool find_calls(void *library, struct calls *c)
{
	const struct {
		const char *name;
		void *to;
	} rows[] = {
		{"cuInit", &c->init},
		{"cuDriverGetVersion", &c->version},
		{"cuDeviceGetName", &c->name},
		{"cuDeviceTotalMem_v2", &c->memory},
		{"cuDeviceGetAttribute", &c->attribute},
		{"cuGetErrorName", &c->error},
	};
	void *entry;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		entry = dlsym(library, rows[i].name);
		if (!entry)
			return complain(LIBRARY " has no %s: install vgpu-cuda again",
					rows[i].name);
		memcpy(rows[i].to, &entry, sizeof(entry));
	}
	return true;
}

/* Starts the library. On failure, the library writes the reason to standard error. */
static bool check_device(void *library)
{
	char name[256] = "?";
	const char *why = NULL;
	int version = 0, major = 0, minor = 0, mapped = 0;
	size_t bytes = 0;
	struct calls c;
	CUresult e;

	if (!find_calls(library, &c))
		return false;
	setenv("VGPU_CUDA_LOG", "1", 1);
	e = c.init(0);
	if (e != CUDA_SUCCESS) {
		c.error(e, &why);
		return complain("programs get %s from cuInit()", why ? why : "an error");
	}
	c.version(&version);
	c.name(name, sizeof(name), 0);
	c.attribute(&major, MAJOR, 0);
	c.attribute(&minor, MINOR, 0);
	c.attribute(&mapped, MANAGED_MEMORY, 0);
	c.memory(&bytes, 0);
	say("driver", "CUDA %d.%d", version / 1000, version % 1000 / 10);
	say("device", "%s, compute capability %d.%d", name, major, minor);
	say("memory", "%zu MiB for programs", bytes >> 20);
	say("managed", mapped ? "yes, and memory of the host that the GPU maps"
			      : "no: the VF's window has other addresses here than on the host; "
				"update softgpu there");
	return true;
}

int main(int argc, char **argv)
{
	bool busy = false, ok;
	void *library, *nvml;

	vgpu_output_check("vgpu-cuda-check");
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("vgpu-cuda-check " VGPU_VERSION), 0;
	if (argc > 1) {
		fputs("usage: vgpu-cuda-check [--help | --version]\n"
		      "Says whether CUDA programs of this user can run on this machine's VF, and "
		      "if "
		      "not, what to do.\n",
		      strcmp(argv[1], "--help") == 0 ? stdout : stderr);
		return strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	ok = check_library("library", LIBRARY, &library);
	check_library("NVML", NVML, &nvml); /* the result does not matter: programs compute without
					     * NVML */
	ok = check_vf(&busy) && ok;
	if (!ok)
		return 1;
	if (busy)
		return puts("CUDA programs can run here when that program has ended."), 0;
	if (!check_device(library))
		return 1;
	return puts("CUDA programs can run here."), 0;
}
