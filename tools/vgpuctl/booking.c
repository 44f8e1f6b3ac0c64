/* SPDX-License-Identifier: MIT */
/*
 * systemd (or another inetd) runs this for each connection to the socket that vgpud asks. So the
 * token is in no process but this one; what placement sends is read by a process that ends with the
 * answer; and vgpud waits no longer than it has said it would (scheduler/daemon/vms/booking.h).
 */
#include "booking.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "http.h"
#include "placement.h"
#include "placement_api.h"
#include "session.h"
#include "tree.h"
#include "vgpu/clock.h"
#include "vgpu/names.h"

/* Longer than vgpud waits, so that it knows of an answer that is late. */
#define LONGEST_S 6

/* A UUID, which becomes a part of a URL. */
static bool read_uuid(char out[VGPU_UUID_SIZE])
{
	char line[VGPU_UUID_SIZE + 1] = "";

	if (fgets(line, sizeof(line), stdin))
		line[strcspn(line, "\n")] = '\0';
	if (vgpu_uuid_normal(line, out) == 0)
		return true;
	fputs("vgpuctl: booking: want a server's UUID on stdin\n", stderr);
	return false;
}

/* Adds what is booked of GPU, by class. */
static void add_gpu(struct json_object *gpus, const char *gpu, struct json_object *amounts)
{
	struct json_object *o = json_object_new_object();
	size_t i;

	for (i = 0; i < BOOKED; i++)
		json_object_object_add(o, placement_classes[i], json_object_get(at(amounts, i)));
	json_object_object_add(gpus, gpu, o);
}

/* Finds the GPUs among the providers of which AMOUNTS are booked. */
static int add_gpus(const struct options *o, const char *host, struct json_object *amounts,
		    struct json_object *gpus)
{
	struct tree tree;
	size_t i;
	int code = tree_read(o->placement, host, &tree);

	if (code != EXIT_OK)
		return code;
	for (i = 0; i < tree_size(&tree); i++) {
		struct json_object *provider = tree_at(&tree, i), *booked;
		const char *gpu = tree_gpu(&tree, provider);

		booked = gpu ? get(amounts, get_text(provider, "uuid")) : NULL;
		if (booked)
			add_gpu(gpus, gpu, booked);
	}
	tree_free(&tree);
	return EXIT_OK;
}

/* Reads what a server has booked, by provider. */
static int read_allocations(const struct options *o, const char *uuid, struct json_object *amounts)
{
	struct json_object *answer, *all;
	char path[100];
	bool ok;
	int code;

	snprintf(path, sizeof(path), "allocations/%s", uuid);
	code = api_must(o->placement, "GET", path, NULL, "to show what is booked", &answer);
	if (code != EXIT_OK)
		return code;
	all = api_object(answer, "allocations");
	ok = all != NULL;
	if (ok) {
		json_object_object_foreach(all, provider, allocation)
		{
			struct json_object *resources = api_object(allocation, "resources");

			ok = ok && resources && placement_add(amounts, provider, resources);
		}
	}
	json_object_put(answer);
	return ok ? EXIT_OK : api_not_understood(path);
}

int booking(const struct options *o)
{
	struct json_object *amounts, *answer, *gpus;
	char uuid[VGPU_UUID_SIZE], here[256] = "";
	int code;

	if (!o->placement) {
		fputs("vgpuctl: booking: want --placement URL\n", stderr);
		return EXIT_USAGE;
	}
	alarm(LONGEST_S);
	http_until(vgpu_now() + LONGEST_S * VGPU_SEC);
	gethostname(here, sizeof(here) - 1);
	if (!read_uuid(uuid))
		return EXIT_USAGE;
	amounts = json_object_new_object();
	answer = json_object_new_object();
	gpus = json_object_new_object();
	json_object_object_add(answer, "gpus", gpus);
	code = read_allocations(o, uuid, amounts);
	if (code == EXIT_OK && json_object_object_length(amounts) > 0)
		code = add_gpus(o, o->provider ? o->provider : here, amounts, gpus);
	if (code == EXIT_OK)
		puts(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(amounts);
	json_object_put(answer);
	return code;
}
