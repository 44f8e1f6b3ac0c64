/* SPDX-License-Identifier: MIT */
/* The methods timeline, events and record. Control thread. */
#ifndef DAEMON_HISTORY_H
#define DAEMON_HISTORY_H

#include "control/args.h"

json *finish_timeline(struct call *call);
json *finish_events(struct call *call);
json *finish_record(struct call *call);

#endif
