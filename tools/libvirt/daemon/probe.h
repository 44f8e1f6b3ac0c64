/* SPDX-License-Identifier: MIT */
/* Finds out whether libvirt calls vgpud's hook. */
#pragma once

/* Asks the libvirt at URI to start a VM that cannot start, and prints one line with the part that
 * refused it. Returns an exit code: 0: the hook; 1: libvirt, without calling the hook; 3: neither,
 * so that the state is unknown. May block for as long as libvirt does, plus the hook's 10 s. */
int probe_hook(const char *uri);
