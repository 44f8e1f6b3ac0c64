/* SPDX-License-Identifier: MIT */
/* What GPU kernels print becomes the program's own output, as with NVIDIA's driver. */
#include <stdio.h>

#include "guest.h"
#include "cuda_vf.h"

bool output_take(struct softgpu_output *o)
{
	uint32_t n = __atomic_load_n(&o->bytes, __ATOMIC_ACQUIRE);

	if (n > sizeof(o->text))
		n = sizeof(o->text); /* other programs of the VF can write any length there */
	if (n > 0) {
		fwrite(o->text, 1, n, stdout);
		fflush(stdout);
		__atomic_store_n(&o->bytes, 0, __ATOMIC_RELEASE);
	}
	return o->left > 0;
}

void output_words(struct guest *g)
{
	char words[SOFTGPU_WORDS];

	guest_words(g, words);
	fputs(words, stderr);
}
