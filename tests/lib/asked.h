/* SPDX-License-Identifier: MIT */
/* Requests to an engine, waited for. One thread. */
#pragma once

#include <time.h>

#include "engine/engine.h"

/* Sends a request, and waits for its answer. Returns the result. */
int ask_engine(struct engine *engine, struct engine_request *request);
/* A snapshot, until the next call. */
const struct engine_snapshot *look_at(struct engine *engine);
/* Another policy, with its defaults. */
int ask_policy(struct engine *engine, const struct vgpu_policy_ops *policy);
/* Looks every 10 ms, at most 20 s long, until IS says that it is so. Returns whether it did. */
#define AWAIT(is)                                                                                  \
	({                                                                                         \
		unsigned tries_ = 2000;                                                            \
		bool so_;                                                                          \
                                                                                                   \
		while (!(so_ = (is)) && tries_-- > 0)                                              \
			nanosleep(&(struct timespec){0, 10000000}, NULL);                          \
		so_;                                                                               \
	})
/* Starts an engine for a GPU of N VFs with the defaults of a policy. PARAM, if not NULL, is VALUE.
 */
int begin_engine(struct engine **out, struct vgpu_driver_config driver, const char *policy,
		 const char *param, const char *value, struct vgpu_error *err);
