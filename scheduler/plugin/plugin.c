/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builtin.h"
#include "plugin.h"
#include "vgpu/param.h"

#define MAX_PLUGINS 32u

/* The size of a table of version 1.0. */
#define SIZE_1_0 offsetof(struct vgpu_policy_ops, check_params)

static struct vgpu_policy_ops *loaded[MAX_PLUGINS];
static unsigned n_loaded;

const struct vgpu_policy_ops *plugin_loaded(unsigned i)
{
	return i < n_loaded ? loaded[i] : NULL;
}

/* Operations that every policy must have. */
static const struct {
	size_t at;
	const char *name;
} required[] = {
#define OP(name)                                                                                   \
	{                                                                                          \
		offsetof(struct vgpu_policy_ops, name), #name                                      \
	}
	OP(params),	OP(vf_params),	OP(help),   OP(memory), OP(attach),
	OP(set_params), OP(admit),	OP(set_vf), OP(remove), OP(online),
	OP(offline),	OP(wake),	OP(sleep),  OP(pick),	OP(account),
	OP(export_lag), OP(import_lag), OP(share),  OP(bound),
#undef OP
};

static int vet_params(const struct vgpu_param *table, const char *which, struct vgpu_error *err)
{
	uint32_t i;
	int64_t n;

	for (i = 0; table[i].name; i++) {
		const struct vgpu_param *p = &table[i];

		if (i == VGPU_MAX_PARAMS)
			return vgpu_error_set(err, -EINVAL, "%s: more than %u parameters", which,
					      VGPU_MAX_PARAMS);
		if (!p->unit || !p->help)
			return vgpu_error_set(err, -EINVAL, "%s: %s has no unit or no help", which,
					      p->name);
		if (p->min > p->def || p->def > p->max)
			return vgpu_error_set(err, -EINVAL,
					      "%s: the default of %s is not in its range", which,
					      p->name);
		if (p->type != VGPU_PARAM_INT && p->type != VGPU_PARAM_CHOICE)
			return vgpu_error_set(err, -EINVAL, "%s: %s is of an unknown type", which,
					      p->name);
		if (p->type != VGPU_PARAM_CHOICE)
			continue;
		for (n = 0; p->choices && p->choices[n]; n++)
			;
		if (p->min != 0 || p->max != n - 1)
			return vgpu_error_set(err, -EINVAL,
					      "%s: the range of %s is not that of its choices",
					      which, p->name);
	}
	return 0;
}

/* Returns whether a name is valid both as a file name and as a word in a configuration. */
static bool is_name(const char *name, size_t size)
{
	size_t i;

	for (i = 0; i < size && name[i]; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
		    name[i] != '-' && name[i] != '_')
			return false;
	return i > 0 && i < size;
}

int plugin_vet(const struct vgpu_policy_ops *table, struct vgpu_policy_ops *out,
	       struct vgpu_error *err)
{
	const uint8_t *bytes = (const uint8_t *)table;
	const void *op;
	uint32_t i;
	int r;

	if (table->abi_major != VGPU_POLICY_ABI_MAJOR)
		return vgpu_error_set(
			err, -EINVAL,
			"made for version %u of the policy contract; vgpud has version %u.%u",
			table->abi_major, VGPU_POLICY_ABI_MAJOR, VGPU_POLICY_ABI_MINOR);
	if (table->size < SIZE_1_0 || table->size > 65536)
		return vgpu_error_set(err, -EINVAL,
				      "its table has %u bytes; the first version had %zu",
				      table->size, SIZE_1_0);
	/* A longer table may have operations unknown to this host, but must not need them. */
	for (i = sizeof(*out); i < table->size; i++)
		if (bytes[i])
			return vgpu_error_set(err, -E2BIG,
					      "it needs operations that this vgpud does not have");
	*out = (struct vgpu_policy_ops){.size = 0};
	memcpy(out, table, table->size < sizeof(*out) ? table->size : sizeof(*out));
	if (!is_name(out->name, sizeof(out->name)))
		return vgpu_error_set(
			err, -EINVAL,
			"its name has other characters than small letters, digits, - and _");
	for (i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		memcpy(&op, (const char *)out + required[i].at, sizeof(op));
		if (!op)
			return vgpu_error_set(err, -EINVAL, "its table has no %s",
					      required[i].name);
	}
	if (out->promises & ~VGPU_PROMISES_KNOWN)
		return vgpu_error_set(err, -EINVAL,
				      "it makes promises that this vgpud does not know");
	r = vet_params(out->params, "params", err);
	if (r != 0)
		return r;
	return vet_params(out->vf_params, "vf_params", err);
}

/* Loads a shared object, checks its table, and keeps a copy of it. */
static const struct vgpu_policy_ops *adopt(const char *path, const char *name,
					   struct vgpu_error *err)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
	struct vgpu_policy_ops *ops = calloc(1, sizeof(*ops));
	const char *why = NULL;
	int r = 0;

	if (!library || !ops) {
		why = dlerror();
		r = vgpu_error_set(err, -EINVAL, "%s", why ? why : "out of memory");
	}
	symbol = r ? NULL : dlsym(library, "vgpu_policy_entry");
	if (r == 0 && !symbol)
		r = vgpu_error_set(err, -EINVAL,
				   "it is not a policy: it does not export vgpu_policy_entry");
	if (r == 0)
		r = plugin_vet(symbol, ops, err);
	if (r == 0 && name && strcmp(name, ops->name) != 0)
		r = vgpu_error_set(err, -EINVAL, "the policy in it is named %s", ops->name);
	if (r == 0 && vgpu_builtin_policy(ops->name))
		r = vgpu_error_set(err, -EEXIST, "there is a built-in policy of that name");
	if (r == 0 && n_loaded == MAX_PLUGINS)
		r = vgpu_error_set(err, -ENOSPC, "%u plug-ins are loaded already", MAX_PLUGINS);
	if (r < 0) {
		free(ops);
		if (library)
			dlclose(library);
		return NULL;
	}
	loaded[n_loaded++] = ops;
	return ops;
}

const struct vgpu_policy_ops *plugin_load(const char *path, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *ops = adopt(path, NULL, err);

	if (!ops)
		vgpu_error_prefix(err, -EINVAL, "%s", path);
	return ops;
}

/* Returns why a user other than root could have written the file, or NULL. */
static const char *objection(int fd, mode_t type)
{
	struct stat s;

	if (fstat(fd, &s) < 0)
		return strerror(errno);
	if ((s.st_mode & S_IFMT) != type)
		return type == S_IFDIR ? "not a directory" : "not a regular file";
	if (s.st_uid != 0)
		return "not owned by root";
	if (s.st_mode & (S_IWGRP | S_IWOTH))
		return "writable by others than its owner";
	return NULL;
}

static const struct vgpu_policy_ops *load_from(int dir, const char *name, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *ops = NULL;
	const char *why = objection(dir, S_IFDIR);
	char file[48], path[40];
	int fd;

	if (why) {
		vgpu_error_set(err, -EPERM, "the directory is %s", why);
		return NULL;
	}
	snprintf(file, sizeof(file), "%s.so", name);
	fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		vgpu_error_set(err, -errno, "%s: %s", file, strerror(errno));
		return NULL;
	}
	why = objection(fd, S_IFREG);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (why)
		vgpu_error_set(err, -EPERM, "%s is %s", file, why);
	else
		ops = adopt(path, name, err);
	/* The descriptor stays open with the plug-in: the dynamic linker knows the file by this
	 * path, and would take another file with the same descriptor number for it. */
	if (!ops)
		close(fd);
	return ops;
}

const struct vgpu_policy_ops *plugin_policy(const char *dir, const char *name,
					    struct vgpu_error *err)
{
	const struct vgpu_policy_ops *ops = vgpu_builtin_policy(name);
	unsigned i;
	int fd;

	for (i = 0; i < n_loaded && !ops; i++)
		if (strcmp(loaded[i]->name, name) == 0)
			ops = loaded[i];
	if (ops)
		return ops;
	if (!*dir) {
		vgpu_error_set(
			err, -ENOENT,
			"no such policy is built in, and plug-ins are off: policy_dir is not set");
		return NULL;
	}
	if (!is_name(name, 32) || *dir != '/') {
		vgpu_error_set(err, -EINVAL, "%s",
			       *dir == '/' ? "not a policy's name" : "policy_dir is not absolute");
		return NULL;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		vgpu_error_set(err, -errno, "policy_dir %s: %s", dir, strerror(errno));
		return NULL;
	}
	ops = load_from(fd, name, err);
	if (!ops)
		vgpu_error_prefix(err, -EINVAL, "plug-in in %s", dir);
	close(fd);
	return ops;
}
