/* SPDX-License-Identifier: MIT */
#include "refusal.h"

#include <stdarg.h>
#include <stdio.h>

const char *const refusal_reasons[REFUSAL_REASONS] = {
	[REFUSAL_NO_GPU] = "no-gpu", [REFUSAL_GPU_LOST] = "gpu-lost", [REFUSAL_CLAIM] = "claim",
	[REFUSAL_POLICY] = "policy", [REFUSAL_NO_VF] = "no-vf",	      [REFUSAL_MEMORY] = "memory",
	[REFUSAL_TIME] = "time",     [REFUSAL_DEVICE] = "device",     [REFUSAL_TOKEN] = "token",
	[REFUSAL_STATE] = "state",   [REFUSAL_BUSY] = "busy",
};

const char *const refusal_requests[REFUSAL_REQUESTS] = {
	[REFUSAL_START] = "start",
	[REFUSAL_INCOMING] = "incoming",
	[REFUSAL_ATTACH] = "attach",
};

const char *const refusal_bookings[REFUSAL_BOOKINGS] = {
	[REFUSAL_BOOKING_GPU] = "gpu",
	[REFUSAL_BOOKING_NONE] = "none",
	[REFUSAL_BOOKING_LATE] = "late",
	[REFUSAL_BOOKING_FAILED] = "failed",
};

int refusal_set(struct refusal *refusal, enum refusal_reason reason, int code, const char *format,
		...)
{
	va_list args;

	if (!refusal)
		return code;
	refusal->reason = reason;
	va_start(args, format);
	vsnprintf(refusal->why.text, sizeof(refusal->why.text), format, args);
	va_end(args);
	return code;
}
