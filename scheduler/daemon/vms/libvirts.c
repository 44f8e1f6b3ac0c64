/* SPDX-License-Identifier: MIT */
#include "libvirts.h"

#include <stdio.h>
#include <string.h>

#include "vgpu/clock.h"

/* Finds HOST, or reuses the entry of the libvirt with the oldest report. */
static struct libvirt *find(struct control *control, const char *host)
{
	struct libvirt *l = control->reported.libvirts, *oldest = l;
	uint32_t i;

	for (i = 0; i < LIBVIRTS; i++, l++) {
		if (l->heard && strcmp(l->host, host) == 0)
			return l;
		if (l->heard < oldest->heard)
			oldest = l;
	}
	snprintf(oldest->host, sizeof(oldest->host), "%s", host);
	oldest->heard = vgpu_now();
	return oldest;
}

void libvirts_note(struct control *control, const char *host)
{
	find(control, host)->heard = vgpu_now();
}

vgpu_nsec libvirts_silent(struct control *control, const char *host)
{
	vgpu_nsec heard = find(control, host)->heard;

	return vgpu_now() - heard;
}
