/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "log.h"

#define MAX_FIELDS 7

static const char *const ids[LOG_MESSAGES] = {
	[LOG_READY] = "9ed97166c469488e96cba59bdd89ac7e",
	[LOG_GPU_ADOPTED] = "24bfa13979164ac8b3c6220c70743142",
	[LOG_GPU_LOST] = "f6c6d1233d8a4334a82bf33edee82860",
	[LOG_GPU_FOUND] = "8ff71da922b94a92b1bd9950c1c1b589",
	[LOG_HANG] = "0e6b0ea9b18e4984a657fcd52fa808be",
	[LOG_RESET_FAILED] = "1d4af02820f1474aa3d072ec7a1b15b6",
	[LOG_OUT_OF_SERVICE] = "068a6ab8da474b3a88c6bd4662defe3d",
	[LOG_EVICTED] = "0408cc930e8b4b1f8ed8ba15b341abc9",
	[LOG_VIOLATION] = "a4d74ebbdbe94a368d112130e84938bf",
	[LOG_VM_REFUSED] = "db2e17f58a0a4a0fa2b05f873fe25385",
	[LOG_CLAIM_REFUSED] = "d2a94be871c04e6fa3c55f0d9be61a28",
	[LOG_CLAIM_UNREADABLE] = "6b1c5a0e3f5d4c7f9d0b8a2e47c1f936",
	[LOG_CLAIM_NOT_IN_FORCE] = "0be9c60d3cd3404cb4a08e69d0f33f9f",
	[LOG_CLAIM_IN_FORCE] = "c6ad596e83f94a0aaf487b32b14a2c93",
	[LOG_VM_RESERVED] = "0529e085ce0e4d4c844d5dce8b7c210d",
	[LOG_VM_ADOPTED] = "1cc0c013a89747e4adad10cad31f4d70",
	[LOG_VM_UNADMITTED] = "fb50c6faba6c4550a2235880eaa0fe8b",
	[LOG_VM_MAY_LOSE_STATE] = "b408a566a13b475093d409480d5c1f53",
	[LOG_VM_RELEASED] = "d2456c42be0647bfa3132d372b6086b6",
	[LOG_VM_NOT_RESUMED] = "51a4b6d5d05a458b8bb2a7bdca0995d3",
	[LOG_VM_BOOKING_UNKNOWN] = "e3ff85cc943b4802903b415c7f8ac9ff",
};

/* Returns whether stderr is the journal: systemd names its stream in JOURNAL_STREAM
 * (systemd.exec(5)). */
static bool to_journal(void)
{
	static int known = -1;
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat s;

	if (known < 0)
		known = stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
			fstat(STDERR_FILENO, &s) == 0 && s.st_dev == dev && s.st_ino == ino;
	return known;
}

static void send(const struct log_place *place, const struct log_about *about, int level,
		 const char *text)
{
	char fields[MAX_FIELDS][600];
	struct iovec parts[MAX_FIELDS];
	int n = 0, i;

	snprintf(fields[n++], sizeof(fields[0]), "MESSAGE=%s", text);
	snprintf(fields[n++], sizeof(fields[0]), "PRIORITY=%d", level);
	snprintf(fields[n++], sizeof(fields[0]), "SYSLOG_IDENTIFIER=vgpud");
	if (about->gpu)
		snprintf(fields[n++], sizeof(fields[0]), "VGPU_GPU=%s", about->gpu);
	if (about->vf >= 0)
		snprintf(fields[n++], sizeof(fields[0]), "VGPU_VF=%d", about->vf);
	if (about->vm)
		snprintf(fields[n++], sizeof(fields[0]), "VGPU_VM=%s", about->vm);
	if (ids[about->message])
		snprintf(fields[n++], sizeof(fields[0]), "MESSAGE_ID=%s", ids[about->message]);
	for (i = 0; i < n; i++)
		parts[i] = (struct iovec){fields[i], strlen(fields[i])};
	sd_journal_sendv_with_location(place->file, place->line, place->function, parts, n);
}

/* Names come from others: replaces characters that would begin a new line or control a terminal. */
static void one_line(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}

void log_write(const struct log_place *place, struct log_about about, int level, const char *format,
	       ...)
{
	int keep = errno;
	char text[512];
	size_t n;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n = strlen(text);
	if (about.gpu)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " gpu=%s", about.gpu);
	if (about.vf >= 0 && n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, " vf=%d", about.vf);
	one_line(text);
	if (to_journal())
		send(place, &about, level, text);
	else
		fprintf(stderr, "<%d>vgpud: %s\n", level, text);
	errno = keep;
}
