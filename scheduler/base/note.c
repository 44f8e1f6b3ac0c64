/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vgpu/file.h"
#include "vgpu/note.h"

#define MAX_NOTE 4096u

/* The word that begins the file, and the sentence before the time. */
static const struct {
	const char *word, *sentence;
} notes[] = {
	[VGPU_NOTE_NONE] = {"", ""},
	[VGPU_NOTE_STARTING] = {"starting ", "its start has not ended; it began at"},
	[VGPU_NOTE_FAILED] = {"failed ", "its start failed at"},
	[VGPU_NOTE_STOPPED] = {"stopped ", "it was stopped at"},
};

/* False: the socket has no file, or its path leaves no room for the suffix. */
static bool note_path(const char *socket, char out[PATH_MAX])
{
	return socket[0] != '@' && snprintf(out, PATH_MAX, "%s.note", socket) < PATH_MAX;
}

void vgpu_note_write(const char *socket, enum vgpu_note what, const char *why)
{
	char path[PATH_MAX], staged[PATH_MAX + sizeof(VGPU_FILE_STAGED)], text[MAX_NOTE], when[32];
	time_t now = time(NULL);
	struct tm tm;
	int n;

	if (!note_path(socket, path))
		return;
	strftime(when, sizeof(when), "%F %T", localtime_r(&now, &tm));
	n = snprintf(text, sizeof(text), "%s%s %s%s%.3500s\n", notes[what].word,
		     notes[what].sentence, when, why ? ": " : "", why ? why : "");
	snprintf(staged, sizeof(staged), "%s" VGPU_FILE_STAGED, path);
	/* vgpud's umask makes its files unreadable for other users. */
	if (vgpu_file_stage(path, 0644, text, (size_t)n) == 0 && chmod(staged, 0644) == 0)
		vgpu_file_commit(path);
	else
		vgpu_file_discard(path);
}

void vgpu_note_remove(const char *socket)
{
	char path[PATH_MAX];

	if (note_path(socket, path))
		unlink(path);
}

enum vgpu_note vgpu_note_read(const char *socket, char *out, size_t size)
{
	enum vgpu_note what = VGPU_NOTE_NONE;
	char path[PATH_MAX], *text;
	size_t length, n;
	int i;

	out[0] = '\0';
	if (!note_path(socket, path) || vgpu_file_read(path, MAX_NOTE, &text, &length) < 0)
		return what;
	text[strcspn(text, "\n")] = '\0';
	for (i = VGPU_NOTE_STARTING; i <= VGPU_NOTE_STOPPED; i++) {
		n = strlen(notes[i].word);
		if (strncmp(text, notes[i].word, n) != 0)
			continue;
		what = (enum vgpu_note)i;
		snprintf(out, size, "%s", text + n);
	}
	free(text);
	return what;
}
