/* SPDX-License-Identifier: MIT */
/*
 * Share error in virtual time: 4 VFs with endless work, one of which always stops 1 to 2 ms late.
 * Windows of about a second begin with a turn of VF 0, so that each window has whole turns.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "builtin.h"
#include "sample.h"
#include "vhost.h"

#define WINDOWS 600

static void one(const char *name, bool first)
{
	static struct vhost h;
	static double errors[4 * WINDOWS];
	vgpu_nsec before[4] = {0}, after[4], all;
	int64_t params[VGPU_MAX_PARAMS] = {0};
	uint64_t turns;
	uint32_t k;
	double bias[4] = {0}, mean = 0, worst_bias = 0, error;
	uint32_t i, n = 0, w;

	vhost_init(&h, 4, 1);
	h.load = (struct vhost_range){100000, 100000};
	h.run = (struct vhost_range){50000, 50000};
	h.work_from = 100 * VGPU_MSEC;
	for (i = 0; i < 4; i++) {
		h.vfs[i].late = (struct vhost_range){20000, 20000};
		h.vfs[i].save = (struct vhost_range){100000, 100000};
	}
	h.vfs[3].late = (struct vhost_range){VGPU_MSEC, 2 * VGPU_MSEC};
	for (k = 0; vgpu_builtin_policy(name)->params[k].name; k++)
		params[k] = vgpu_builtin_policy(name)->params[k].def;
	params[0] = 2000; /* the same slice for all */
	vhost_start(&h, vgpu_builtin_policy(name), params, NULL);
	for (w = 0; w <= WINDOWS; w++) {
		vhost_run(&h, h.now + VGPU_SEC);
		turns = h.vfs[0].dispatches;
		while (h.vfs[0].dispatches == turns)
			vhost_run(&h, h.now + 20 * VGPU_USEC);
		for (all = 0, i = 0; i < 4; i++) {
			after[i] = vhost_service(&h, i);
			all += after[i] - before[i];
		}
		for (i = 0; i < 4 && w > 0; i++) {
			error = ((double)(after[i] - before[i]) / (double)all - 0.25) / 0.25;
			bias[i] += error / WINDOWS;
			errors[n++] = fabs(error);
			mean += fabs(error);
		}
		for (i = 0; i < 4; i++)
			before[i] = after[i];
	}
	qsort(errors, n, sizeof(double), sample_compare_real);
	for (i = 0; i < 4; i++)
		worst_bias = fmax(worst_bias, fabs(bias[i]));
	printf("%s\n {\"policy\":\"%s\",\"mean\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"max\":%.4f,"
	       "\"bias\":%.5f}",
	       first ? "" : ",", name, 100 * mean / n, 100 * errors[n / 2],
	       100 * errors[n * 99 / 100], 100 * errors[n - 1], 100 * worst_bias);
	vhost_finish(&h);
}

int main(void)
{
	printf("{\"bench\":\"shares-virtual\",\"unit\":\"percent of the promised share\","
	       "\"windows\":%d,\"results\":[",
	       WINDOWS);
	one("strict", true);
	one("equal", false);
	one("fair", false);
	one("best-effort", false);
	printf("]}\n");
	return 0;
}
