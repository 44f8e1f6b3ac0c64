/* SPDX-License-Identifier: MIT */
/*
 * The control thread: serves the control socket's clients and handles the engines' reports. One
 * request is one line of JSON, {"id": ANY, "method": NAME, "args": {...}}; so is its answer, {"id":
 * ..., "result": ...} or {"id": ..., "error": {"code": NAME, "message": TEXT}}. docs/protocol.md
 * describes the protocol.
 */
#pragma once

#include "engine/engine.h"
#include "control/state.h"

/* Starts to listen on the control socket and the hook's. Returns 0, or -errno with the reason in
 * ERR. */
int control_start(struct control *control, struct config *config, struct vgpu_error *err);
/* Adds a GPU whose engine has started; CONTROL then owns ENGINE. Returns 0 or -ENOMEM. */
int control_add(struct control *control, struct gpu_config *config, struct engine *engine);
/* Waits until all changes begun so far have ended, at most 5 s. To be called before the event loop
 * runs. */
void control_settle(struct control *control);
/* Drops all clients, stops the engines, and closes the sockets. */
void control_stop(struct control *control);
