/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "log.h"

#define MAX_FIELDS 8

/* Whether stderr is the journal: systemd names its stream in JOURNAL_STREAM (systemd.exec(5)). */
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

/* Makes journal fields VGPU_NAME=value of the words "name=value" that TEXT ends with. Returns how
 * many. */
static int take_fields(const char *text, char fields[MAX_FIELDS][64])
{
	size_t end = strlen(text), start, name, i;
	int n;

	for (n = 0; n < MAX_FIELDS; n++) {
		for (start = end; start > 0 && text[start - 1] != ' '; start--)
			;
		for (name = start; islower((unsigned char)text[name]); name++)
			;
		if (start == 0 || name == start || text[name] != '=')
			break;
		snprintf(fields[n], sizeof(fields[n]), "VGPU_%.*s", (int)(end - start),
			 text + start);
		for (i = 5; fields[n][i] && fields[n][i] != '='; i++)
			fields[n][i] = (char)toupper((unsigned char)fields[n][i]);
		end = start - 1;
	}
	return n;
}

/* ID: "" or the message's own. */
static void send(int level, const char *id, const char *text)
{
	char message[600], priority[16], fields[MAX_FIELDS][64],
		identifier[] = "SYSLOG_IDENTIFIER=vgpud", message_id[48];
	struct iovec parts[4 + MAX_FIELDS];
	char *all[4 + MAX_FIELDS] = {message, priority, identifier};
	int n = take_fields(text, fields), i;

	snprintf(message, sizeof(message), "MESSAGE=%s", text);
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	for (i = 0; i < n; i++)
		all[3 + i] = fields[i];
	if (*id) {
		snprintf(message_id, sizeof(message_id), "MESSAGE_ID=%s", id);
		all[3 + n++] = message_id;
	}
	for (i = 0; i < 3 + n; i++)
		parts[i] = (struct iovec){all[i], strlen(all[i])};
	sd_journal_sendv(parts, 3 + n);
}

/* Names come from others: none of them begins a line of its own, or steers a terminal. */
static void one_line(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}

__attribute__((format(printf, 3, 0))) static void write_line(int level, const char *id,
							     const char *format, va_list args)
{
	int keep = errno;
	char text[512];

	vsnprintf(text, sizeof(text), format, args);
	one_line(text);
	if (to_journal())
		send(level, id, text);
	else
		fprintf(stderr, "<%d>vgpud: %s\n", level, text);
	errno = keep;
}

void log_line(int level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(level, "", format, args);
	va_end(args);
}

void log_known(int level, const char *id, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(level, id, format, args);
	va_end(args);
}
