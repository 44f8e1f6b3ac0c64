/* SPDX-License-Identifier: MIT */
/*
 * The engine thread of a GPU: the loop around the core. It waits for an absolute timer, the driver
 * and requests, makes events of them, steps the core, and carries out the core's actions. It never
 * logs, allocates or takes a lock while doing so: requests and answers cross to and from the
 * control thread in bounded queues, and its records lie in a trail that any thread may read.
 */
#pragma once

#include "engine_request.h"
#include "trail.h"
#include "vgpu/record.h"

struct engine;

/*
 * Opens the GPU and starts its thread. Copies CONFIG, but not the texts and tables that it points
 * to. Returns 0; 1 with the reason in ERR: the GPU cannot be opened, and the engine keeps looking
 * for it as for a lost one; or -errno with the reason in ERR.
 */
int engine_start(struct engine **out, const struct engine_config *config, struct vgpu_error *err);

/* Returns why vgpud refuses a GPU with CAPS, which lacks a reset, a constant text; GPU_RESET:
 * whether that is configured. NULL: vgpud accepts it. Any thread. */
const char *engine_cannot_reset(const struct vgpu_driver_caps *caps, bool gpu_reset);

/* Waits for the end of the world switch in progress, at most 2 s, stops the thread and frees the
 * engine. The GPU keeps its state: tenants keep running. */
void engine_stop(struct engine *engine);

/* Makes the engine look for a lost device at once. Any thread. */
void engine_retry(struct engine *engine);
/* Returns whether the engine thread has completed a round of its loop since the last call, and
 * wakes it for another. True while it looks for a lost device, which may take long. For one
 * thread. */
bool engine_is_alive(struct engine *engine);
/* Returns why the device is lost, a constant text; NULL: it is not lost. Any thread. */
const char *engine_trouble(const struct engine *engine);
/* Returns the engine's last message for the log, a constant text, and the number of messages so
 * far; NULL: none. Any thread. */
const char *engine_says(const struct engine *engine, uint32_t *n);
/* Returns whether the engine thread runs as SCHED_FIFO. */
bool engine_is_realtime(const struct engine *engine);

/* The control thread's side of the queues, for one thread. engine_send returns false when
 * ENGINE_REQUESTS are in progress: each has room for its answer, so that no answer is ever dropped.
 * engine_receive returns NULL when there is no answer. */
bool engine_send(struct engine *engine, struct engine_request *request);
struct engine_request *engine_receive(struct engine *engine);
/* Returns the engine's policy and parameters, for the same thread, valid until its next call. They
 * include the changes of all requests that engine_receive has returned. */
const struct engine_policy *engine_policy(struct engine *engine);
/* Returns the GPU's abilities, with the same thread and validity. NULL: it was never opened. */
const struct vgpu_driver_caps *engine_caps(struct engine *engine);
/* Returns the core's records, owned by the engine; valid until engine_stop. Any thread. */
const struct trail *engine_records(const struct engine *engine);
/* Copies the latest events; see recorder_copy. Any thread. */
int engine_recording(struct engine *engine, struct recording *out);
/* Returns a descriptor, owned by the engine, that is readable when there is something to
 * receive. */
int engine_fd(const struct engine *engine);
