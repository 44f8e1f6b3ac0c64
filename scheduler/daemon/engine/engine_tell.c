/* SPDX-License-Identifier: MIT */
/* An engine's reports to the control thread, in addition to its core's records. */
#include "engine_private.h"
#include "vgpu/clock.h"

void engine_say(struct engine *e, const char *text)
{
	if (!text)
		return;
	atomic_store(&e->says, text);
	atomic_fetch_add(&e->n_says, 1);
	e->told = true;
}

void engine_record(struct engine *e, enum vgpu_record_type type, uint32_t vf, uint32_t code,
		   uint64_t a, uint64_t b)
{
	struct vgpu_record r = {.t = vgpu_now(),
				.type = (uint16_t)type,
				.code = (uint16_t)code,
				.vf = vf,
				.a = a,
				.b = b};

	trail_add(&e->records, &r);
	e->told = true;
}
