/* SPDX-License-Identifier: MIT */
#include "offer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"

#define MIB (1 << 20)

const char *const offer_names[OFFER_CLASSES] = {"VF", "SHARE", "MEMORY_MB"};

static int64_t mib(struct json_object *memory, const char *key)
{
	return get_int(memory, key) / MIB;
}

void offer_classes(struct json_object *gpu, struct offer_class out[OFFER_CLASSES])
{
	struct json_object *shares = get(gpu, "shares"), *memory = get(gpu, "memory");
	int64_t vfs = get_int(gpu, "vfs"), unit = mib(memory, "unit_bytes");

	unit = unit ? unit : 1;
	out[OFFER_VFS] = (struct offer_class){vfs, 1, vfs, 1};
	out[OFFER_SHARE] = (struct offer_class){get_int(shares, "total"), get_int(shares, "least"),
						get_int(shares, "most"), 1};
	out[OFFER_MEMORY] = (struct offer_class){mib(memory, "total_bytes"), unit,
						 mib(memory, "most_bytes"), unit};
}

bool offer_trait(struct json_object *gpu, int i, char out[OFFER_TRAIT_SIZE])
{
	static const struct {
		const char *kind, *key;
	} traits[OFFER_TRAITS] = {{"POLICY", "policy"}, {"POOL", "pool"}, {"GPU", "model"}};
	const char *value = get_text(gpu, traits[i].key);
	size_t n;

	if (!value[0] || strcmp(value, "-") == 0)
		return false;
	snprintf(out, OFFER_TRAIT_SIZE, OFFER_PREFIX "_%s_%s", traits[i].kind, value);
	for (n = 0; out[n]; n++)
		out[n] = (char)(isalnum((unsigned char)out[n]) ? toupper((unsigned char)out[n])
							       : '_');
	return true;
}
