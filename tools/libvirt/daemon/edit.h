/* SPDX-License-Identifier: MIT */
#pragma once

/* Applies N changes "[VF:]NAME=VALUE" to a claim, the text of a <vgpu> element. Returns the new
 * text, which the caller frees; NULL: it cannot, with the reason on stderr. */
char *edit_claim(const char *claim, int n, char **changes);
