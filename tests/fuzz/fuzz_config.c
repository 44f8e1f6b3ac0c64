/* SPDX-License-Identifier: MIT */
/* The configuration file. A file that was read and dumped must read and dump the same again. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "fuzz.h"

static struct config config;

/* Reads N bytes of TEXT as a file. Returns the error messages, which the caller frees. */
static char *read_config(const void *text, size_t n, int *result)
{
	static int fd = -1;
	static char path[40];
	char *said = NULL;
	size_t said_size;
	FILE *errors = open_memstream(&said, &said_size);

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	HOLDS(errors && fd >= 0 && ftruncate(fd, 0) == 0);
	HOLDS(pwrite(fd, text, n, 0) == (ssize_t)n);
	*result = config_read(&config, path, errors);
	fclose(errors);
	HOLDS((*result == 0 && said_size == 0) || (*result == -EINVAL && said_size > 0));
	return said;
}

static char *dump(size_t *n)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, n);

	HOLDS(to);
	config_dump(&config, to);
	fclose(to);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *first, *second, *said;
	size_t first_size, second_size;
	struct engine_config engine;
	uint32_t i;
	int r;

	free(read_config(data, size, &r));
	if (r < 0)
		return 0;
	for (i = 0; i < config.n_gpus; i++)
		config_to_engine(&config.gpus[i], &engine);
	first = dump(&first_size);
	said = read_config(first, first_size, &r);
	if (r < 0)
		fprintf(stderr, "%s\n%s", said, first);
	HOLDS(r == 0);
	second = dump(&second_size);
	HOLDS(first_size == second_size && memcmp(first, second, first_size) == 0);
	free(first);
	free(second);
	free(said);
	return 0;
}
