/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "cuda.h"

/* cuGetProcAddress since 12.0; the one of 11.3 had no status argument. */
typedef CUresult (*get_entry_fn)(const char *, void **, int, uint64_t, int *);
typedef CUresult (*version_fn)(int *);

static int lacks(const char *name, const struct cuda_api *api, struct vgpu_error *err)
{
	return vgpu_error_set(err, -EOPNOTSUPP,
			      "the NVIDIA driver (CUDA %d.%d) has no %s: install another version",
			      api->version / 1000, api->version % 1000 / 10, name);
}

int cuda_load(const char *library, struct cuda_api *api, struct vgpu_error *err)
{
	static const struct {
		const char *name;
		int version;
		size_t at;
	} entries[] = {
#define CUDA_ROW(name, since, signature) {#name, since, offsetof(struct cuda_api, name)},
		CUDA_ENTRIES(CUDA_ROW)
#undef CUDA_ROW
	};
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *entry;
	get_entry_fn get_entry;
	version_fn version;
	int status;
	size_t i;

	memset(api, 0, sizeof(*api));
	if (!handle)
		return vgpu_error_set(err, -ENODEV,
				      "no NVIDIA driver: %s: install R550 or newer, or use another "
				      "engine",
				      dlerror());
	*(void **)&version = dlsym(handle, "cuDriverGetVersion");
	*(void **)&get_entry = dlsym(handle, "cuGetProcAddress_v2");
	if (!version || version(&api->version) != CUDA_SUCCESS) {
		dlclose(handle);
		return vgpu_error_set(
			err, -ENODEV,
			"%s does not report its version: check that the NVIDIA driver is "
			"installed completely",
			library);
	}
	if (api->version < CUDA_WANTED) {
		dlclose(handle);
		return vgpu_error_set(
			err, -EOPNOTSUPP,
			"the NVIDIA driver is too old: it offers CUDA %d.%d, and %d.%d "
			"is needed: install R550 or newer",
			api->version / 1000, api->version % 1000 / 10, CUDA_WANTED / 1000,
			CUDA_WANTED % 1000 / 10);
	}
	if (!get_entry) {
		dlclose(handle);
		return lacks("cuGetProcAddress_v2", api, err);
	}
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		entry = NULL;
		status = 0;
		/* For an unknown name the call succeeds and returns NULL. */
		if (get_entry(entries[i].name, &entry, entries[i].version, 0, &status) !=
			    CUDA_SUCCESS ||
		    !entry) {
			dlclose(handle);
			return lacks(entries[i].name, api, err);
		}
		memcpy((char *)api + entries[i].at, &entry, sizeof(entry));
	}
	return 0;
}
