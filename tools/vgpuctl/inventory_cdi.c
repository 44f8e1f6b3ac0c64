/* SPDX-License-Identifier: MIT */
/*
 * One file of one kind, version 0.5.0: podman 4.3 of Debian 12 ignores a file with a newer version
 * or an unknown field. The file sets no environment variables that images also set, because it
 * would replace the image's values, and because "podman exec" does not get them. The hook mounts
 * what is known only when a container starts.
 */
#include "inventory_cdi.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"

#define KIND "vgpud.dev/gpu"
/* The name of the device for a container that gets its lease later. */
#define LATER "later"
/* Seconds; longer than the hook's own deadline. */
#define TIMEOUT_S 30

/* Where programs look for libraries in images of Debian and Fedora; NVIDIA_PLACE, a directory, is
 * for NVIDIA's images. */
static const char *const places[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
#define NVIDIA_PLACE "/usr/local/nvidia/lib64"
static const char *const libraries[] = {"libcuda.so.1", "libnvidia-ml.so.1"};

static void add_text(struct json_object *to, const char *name, const char *text)
{
	json_object_object_add(to, name, json_object_new_string(text));
}

static struct json_object *texts(const char *const *words, size_t n)
{
	struct json_object *list = json_object_new_array();
	size_t i;

	for (i = 0; i < n; i++)
		if (words[i])
			json_object_array_add(list, json_object_new_string(words[i]));
	return list;
}

static void add_mount(struct json_object *list, const char *from, const char *to)
{
	static const char *const options[] = {"ro", "nosuid", "nodev", "rbind", "rprivate"};
	struct json_object *o = json_object_new_object();

	add_text(o, "hostPath", from);
	add_text(o, "containerPath", to);
	json_object_object_add(o, "options", texts(options, sizeof(options) / sizeof(options[0])));
	json_object_array_add(list, o);
}

/* Returns the mounts of every container: the slot, and those of this host's libraries that
 * exist. */
static struct json_object *mounts(void)
{
	struct json_object *list = json_object_new_array();
	char from[400], to[400];
	size_t i, j;

	add_mount(list, SLOT_SOURCE, "/run/vgpud/gpu");
	for (i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		snprintf(from, sizeof(from), CUDA "/%s", libraries[i]);
		for (j = 0; j < sizeof(places) / sizeof(places[0]) && access(from, R_OK) == 0;
		     j++) {
			snprintf(to, sizeof(to), "%s/%s", places[j], libraries[i]);
			add_mount(list, from, to);
		}
	}
	if (access(CUDA, X_OK) == 0)
		add_mount(list, CUDA, NVIDIA_PLACE);
	return list;
}

/* Returns a hook of CDI. Its only environment variable is PATH, because runtimes would otherwise
 * pass their own environment, or the image's. */
static struct json_object *hook(const char *when, const char *option, const char *name,
				const char *how)
{
	static const char *const path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	const char *const args[] = {"vgpud-oci-hook", when, option, name, how};
	struct json_object *o = json_object_new_object();

	add_text(o, "hookName", when);
	add_text(o, "path", OCI_HOOK);
	json_object_object_add(o, "args", texts(args, 5));
	json_object_object_add(o, "env", texts(&path, 1));
	json_object_object_add(o, "timeout", json_object_new_int(TIMEOUT_S));
	return o;
}

/* Adds a device; OPTION, with NAME, tells the hook which one. RENDERS: work of the container may
 * run outside of it, reached by the slot's socket, which Mesa's driver finds only by these
 * variables. By the third one, programs that poll whether work has ended ask there, and hear of a
 * lost device.
 */
static void add_device(struct json_object *devices, const char *name, const char *option,
		       bool renders)
{
	static const char *const venus[] = {"VN_DEBUG=vtest",
					    "VTEST_SOCKET_NAME=/run/vgpud/gpu/vtest.sock",
					    "VN_PERF=no_fence_feedback,no_semaphore_feedback"};
	struct json_object *o = json_object_new_object(), *edits = json_object_new_object();
	struct json_object *list = json_object_new_array();

	json_object_array_add(list, hook("createRuntime", option, strcmp(name, LATER) ? name : NULL,
					 renders ? "--render" : NULL));
	json_object_array_add(list, hook("poststop", NULL, NULL, NULL));
	json_object_object_add(edits, "hooks", list);
	if (renders)
		json_object_object_add(edits, "env",
				       texts(venus, sizeof(venus) / sizeof(venus[0])));
	add_text(o, "name", name);
	json_object_object_add(o, "containerEdits", edits);
	json_object_array_add(devices, o);
}

static bool is_taken(struct json_object *devices, const char *name)
{
	size_t i;

	for (i = 0; i < count(devices); i++)
		if (strcmp(get_text(at(devices, i), "name"), name) == 0)
			return true;
	return false;
}

/* Returns whether NAME begins and ends as CDI requires; in between, CDI accepts all characters that
 * vgpud accepts. */
static bool is_name(const char *name)
{
	return isalnum((unsigned char)name[0]) && isalnum((unsigned char)name[strlen(name) - 1]);
}

/* Adds a device unless CDI does not allow its name or the name is already used, because an engine
 * ignores a file with such a device. */
static void try_device(struct json_object *devices, const char *name, const char *option,
		       bool renders)
{
	const char *why = !is_name(name)	    ? "CDI wants a letter or a digit at both ends"
			  : is_taken(devices, name) ? "another device has this name"
						    : NULL;

	if (why)
		fprintf(stderr, "vgpuctl: inventory: %s %s is left out: %s\n", option + 2, name,
			why);
	else
		add_device(devices, name, option, renders);
}

void inventory_cdi(struct json_object *gpus, FILE *to)
{
	struct json_object *o = json_object_new_object(), *devices = json_object_new_array(),
			   *edits = json_object_new_object(),
			   *profiles = get(at(gpus, 0), "profiles");
	bool any_gated = false;
	size_t i;

	for (i = 0; i < count(gpus); i++)
		any_gated |= get_bool(at(gpus, i), "for_programs");
	add_device(devices, LATER, "--later", any_gated);
	for (i = 0; i < count(gpus); i++) {
		bool gated = get_bool(at(gpus, i), "for_programs");

		if (gated || strcmp(get_text(at(gpus, i), "pf_address"), "-") == 0)
			try_device(devices, get_text(at(gpus, i), "gpu"), "--gpu", gated);
	}
	for (i = 0; i < count(profiles); i++)
		try_device(devices, json_object_get_string(at(profiles, i)), "--profile", false);
	add_text(o, "cdiVersion", "0.5.0");
	add_text(o, "kind", KIND);
	json_object_object_add(edits, "mounts", mounts());
	json_object_object_add(o, "containerEdits", edits);
	json_object_object_add(o, "devices", devices);
	fprintf(to, "%s\n",
		json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}
