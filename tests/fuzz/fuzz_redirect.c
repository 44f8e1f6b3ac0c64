/* SPDX-License-Identifier: MIT */
/*
 * Domain XML that comes from another host: redirect_devices for the devices that claim_parse finds,
 * and travel_read. Where devices are redirected, the domain is the same one with other addresses,
 * and there is a way back that comes out at the same text.
 */

#include "claim.h"
#include "fuzz.h"
#include "redirect.h"
#include "travel.h"

static struct claim before, after;

/* Redirects all PCI devices of the claim that have an address of their own; how many. */
static uint32_t plan(struct redirect *there, struct redirect *back)
{
	uint32_t i, n = 0;

	for (i = 0; i < before.n_hostdevs && n < REDIRECT_MAX; i++) {
		const char *address = before.hostdevs[i].address;

		if (strlen(address) != 12 || address[4] != ':' || address[7] != ':')
			continue;
		memcpy(there[n].from, address, 13);
		snprintf(there[n].to, sizeof(there[n].to), "fff0:1%x:1%x.%x", i % 16, i / 16,
			 i % 8);
		memcpy(back[n].from, there[n].to, sizeof(back[n].from));
		memcpy(back[n].to, there[n].from, sizeof(back[n].to));
		n++;
	}
	return n;
}

static void check_domain(const char *out, const struct redirect *there, uint32_t n)
{
	uint32_t i, k;

	HOLDS(claim_parse(&after, out, strlen(out), NULL) == 0);
	HOLDS(after.n_hostdevs == before.n_hostdevs && after.n_vfs == before.n_vfs);
	HOLDS(strcmp(after.uuid, before.uuid) == 0 && after.required == before.required);
	for (i = 0; i < before.n_hostdevs; i++) {
		const char *want = before.hostdevs[i].address;

		for (k = 0; k < n; k++)
			if (strcmp(there[k].from, want) == 0)
				want = there[k].to;
		HOLDS(strcmp(after.hostdevs[i].address, want) == 0);
		HOLDS(strcmp(after.hostdevs[i].alias, before.hostdevs[i].alias) == 0);
	}
}

static void try_redirect(const char *text, size_t size)
{
	struct redirect there[REDIRECT_MAX], back[REDIRECT_MAX];
	char *out = NULL, *returned = NULL, *again = NULL;
	struct vgpu_error err = {.text = ""};
	uint32_t n;
	int r;

	if (claim_parse(&before, text, size, NULL) < 0)
		return;
	n = plan(there, back);
	r = redirect_devices(text, size, there, n, &out, &err);
	HOLDS(r == 0 ? out != NULL : !out && err.text[0]);
	if (r < 0)
		return;
	check_domain(out, there, n);
	HOLDS(n > 0 || strcmp(out, text) == 0);
	HOLDS(redirect_devices(out, strlen(out), back, n, &returned, &err) == 0);
	HOLDS(redirect_devices(returned, strlen(returned), there, n, &again, &err) == 0);
	HOLDS(strcmp(again, out) == 0);
	free(out);
	free(returned);
	free(again);
}

static void try_travel(const char *text, size_t size)
{
	char element[TRAVEL_TEXT_MAX], domain[TRAVEL_TEXT_MAX + 80];
	struct vgpu_error err = {.text = ""};
	struct travel t, back;
	uint32_t i;

	if (travel_read(&t, text, size, &err) < 0) {
		HOLDS(t.n_vfs == 0 && err.text[0]);
		return;
	}
	for (i = 0; i < t.n_vfs; i++)
		HOLDS(t.vfs[i].owed <= TRAVEL_MAX_OWED &&
		      travel_of(&t, t.vfs[i].name) == &t.vfs[i]);
	if (t.n_vfs == 0)
		return;
	travel_write(&t, element);
	snprintf(domain, sizeof(domain), "<domain><metadata>%s</metadata></domain>", element);
	HOLDS(travel_read(&back, domain, strlen(domain), NULL) == 0);
	HOLDS(memcmp(&t, &back, sizeof(t)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	HOLDS(text);
	memcpy(text, data, size);
	text[size] = '\0';
	size = strlen(text); /* a hook's XML has no zero */
	try_redirect(text, size);
	try_travel(text, size);
	free(text);
	return 0;
}
