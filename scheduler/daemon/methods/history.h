/* SPDX-License-Identifier: MIT */
/* The methods timeline, events and record. Control thread. */
#pragma once

#include "control/args.h"

json *finish_timeline(struct call *call);
json *finish_events(struct call *call);
json *finish_record(struct call *call);
