/* SPDX-License-Identifier: MIT */
/* Runs a harness without libFuzzer: each file of the given folders is its input once. */
#include <dirent.h>
#include <errno.h>

#include "fuzz.h"

#define MAX_BYTES (1u << 20)

static int replay(const char *folder, const char *name)
{
	static uint8_t bytes[MAX_BYTES];
	char path[512];
	uint8_t *copy;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	printf("%s\n", path);
	fflush(stdout);
	/* A copy of the exact size, so that AddressSanitizer sees reads outside of it. */
	copy = malloc(n + 1);
	if (!copy)
		return -1;
	memcpy(copy + 1, bytes, n);
	LLVMFuzzerTestOneInput(copy + 1, n);
	free(copy);
	return 0;
}

int main(int argc, char **argv)
{
	int i, wrong = 0, files = 0;
	struct dirent *e;
	DIR *dir;

	for (i = 1; i < argc; i++) {
		dir = opendir(argv[i]);
		if (!dir) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
			return 1;
		}
		while ((e = readdir(dir))) {
			if (e->d_name[0] == '.')
				continue;
			files++;
			wrong += replay(argv[i], e->d_name) < 0;
		}
		closedir(dir);
	}
	printf("%d inputs\n", files);
	return files == 0 || wrong ? 1 : 0;
}
