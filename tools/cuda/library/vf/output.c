/* SPDX-License-Identifier: MIT */
/*
 * What GPU kernels print becomes the program's own output, as with NVIDIA's driver. The text is
 * taken from the window with the library's lock, and written without it, because writing may wait
 * for the reader of the output, or for another thread that has locked `stdout` and may itself wait
 * for the library's lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "cuda_vf.h"

/* Text that was taken and is not written yet. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;
static _Atomic size_t bytes;

static void keep(const char *more, uint32_t n)
{
	char *longer;

	pthread_mutex_lock(&lock);
	longer = realloc(text, bytes + n);
	if (longer) {
		memcpy(longer + bytes, more, n);
		text = longer;
		bytes += n;
	}
	pthread_mutex_unlock(&lock);
	if (!longer)
		log_line("out of memory: text that GPU kernels have printed is lost");
}

bool output_take(struct softgpu_output *o)
{
	uint32_t n = __atomic_load_n(&o->bytes, __ATOMIC_ACQUIRE);

	if (n > sizeof(o->text))
		n = sizeof(o->text); /* other programs of the VF may have written any length
				      * there */
	if (n > 0) {
		keep(o->text, n);
		__atomic_store_n(&o->bytes, 0, __ATOMIC_RELEASE);
	}
	/* The host may write a later answer now. It writes LEFT last. */
	return __atomic_load_n(&o->left, __ATOMIC_ACQUIRE) > 0 ||
	       __atomic_load_n(&o->bytes, __ATOMIC_ACQUIRE) > 0;
}

/* The thread that locks `stdout` takes all text, so that its order is kept. */
void output_write(void)
{
	char *all;
	size_t n;

	if (bytes == 0)
		return;
	flockfile(stdout);
	pthread_mutex_lock(&lock);
	all = text;
	n = bytes;
	text = NULL;
	bytes = 0;
	pthread_mutex_unlock(&lock);
	if (n > 0) { /* no other thread has written the text meanwhile */
		fwrite(all, 1, n, stdout);
		fflush(stdout);
	}
	funlockfile(stdout);
	free(all);
}

void output_abandon(void)
{
	pthread_mutex_init(&lock, NULL);
	text = NULL; /* not freed, because another thread may have been in realloc() */
	bytes = 0;
}

void output_words(struct guest *g)
{
	char words[SOFTGPU_WORDS], *c;

	guest_words(g, words);
	/* The words may come from another program, or from a worker that a guest has taken over:
	 * replace control characters. */
	for (c = words; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\n') || *c == 0x7f)
			*c = '?';
	fputs(words, stderr);
}
