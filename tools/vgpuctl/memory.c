/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "view.h"

#define MIB(bytes) ((bytes) >> 20)

/* What an extent is called, in a word and in one character. */
struct label {
	char word[32], mark;
};

static struct label label_of(struct json_object *extent)
{
	static const char marks[] = "0123456789abcdefghijklmnopqrstu";
	const char *state = get_text(extent, "state"), *owner = get_text(extent, "owner");
	int64_t vf = get_int(extent, "vf");
	struct label l = {"", '.'};

	if (strcmp(state, "moving") == 0) {
		snprintf(l.word, sizeof(l.word), "VF %" PRId64 " moves", vf);
		l.mark = '>';
	} else if (strcmp(state, "owned") != 0) {
		snprintf(l.word, sizeof(l.word), "%s", state);
		l.mark = strcmp(state, "free") == 0 ? '.' : '~';
	} else if (strcmp(owner, "pf") == 0) {
		snprintf(l.word, sizeof(l.word), "PF");
		l.mark = 'P';
	} else {
		snprintf(l.word, sizeof(l.word), "VF %" PRId64, vf);
		l.mark = vf >= 0 && vf < (int64_t)strlen(marks) ? marks[vf] : '?';
	}
	return l;
}

void view_memory(struct json_object *o, unsigned width)
{
	struct json_object *list = get(o, "extents"), *e;
	int64_t total = get_int(o, "total_bytes"), middle;
	size_t i = 0, n = json_object_array_length(list);
	unsigned column;

	printf("%s: %" PRId64 " MiB in units of %" PRId64 " MiB; free %" PRId64
	       " MiB, at most %" PRId64 " MiB in one piece, %" PRId64 " MiB after compaction\n",
	       get_text(o, "gpu"), MIB(total), MIB(get_int(o, "granule_bytes")),
	       MIB(get_int(o, "free_bytes")), MIB(get_int(o, "largest_free_bytes")),
	       MIB(get_int(o, "after_compaction_bytes")));
	for (column = 0; column < width && n > 0; column++) {
		middle = (int64_t)((double)total * (column + 0.5) / width);
		e = json_object_array_get_idx(list, i);
		while (i + 1 < n && middle >= get_int(e, "offset") + get_int(e, "bytes"))
			e = json_object_array_get_idx(list, ++i);
		putchar(label_of(e).mark);
	}
	puts("\nP the PF  0-9 a-u a VF  . free  ~ being scrubbed  > a VF on its way\n");
	for (i = 0; i < n; i++) {
		e = json_object_array_get_idx(list, i);
		printf("%8" PRId64 " MiB  %7" PRId64 " MiB  %-10s %s\n", MIB(get_int(e, "offset")),
		       MIB(get_int(e, "bytes")), label_of(e).word,
		       get(e, "domain") ? get_text(e, "domain") : "");
	}
	printf("\ncleared %" PRId64 " MiB, moved %" PRId64 " MiB in %" PRId64 " moves (%" PRId64
	       " more given up)\n",
	       MIB(get_int(o, "cleared_bytes")), MIB(get_int(o, "moved_bytes")),
	       get_int(o, "moves"), get_int(o, "aborted_moves"));
}

void view_memory_plan(struct json_object *o)
{
	struct json_object *list = get(o, "move_vfs");
	size_t i;

	printf("VF %" PRId64 " of %s: ", get_int(o, "vf"), get_text(o, "gpu"));
	if (get_int(o, "bytes"))
		printf("%" PRId64 " MiB at %" PRId64 " MiB", MIB(get_int(o, "bytes")),
		       MIB(get_int(o, "offset")));
	else
		printf("no memory");
	if (get_int(o, "clear_bytes"))
		printf(", when %" PRId64 " MiB have been cleared", MIB(get_int(o, "clear_bytes")));
	for (i = 0; i < json_object_array_length(list); i++)
		printf("%s%" PRId64, i ? ", " : "; to be moved: VF ",
		       json_object_get_int64(json_object_array_get_idx(list, i)));
	if (i)
		printf(" (%" PRId64 " MiB)", MIB(get_int(o, "move_bytes")));
	putchar('\n');
}

static const char *colour_of(struct json_object *extent)
{
	static const char *const colours[] = {"#4e79a7", "#f28e2b", "#76b7b2", "#59a14f",
					      "#edc948", "#b07aa1", "#ff9da7", "#9c755f"};
	struct label l = label_of(extent);

	return l.mark == '.'   ? "#f0f0f0"
	       : l.mark == '~' ? "#bbbbbb"
	       : l.mark == '>' ? "#d4a6c8"
	       : l.mark == 'P' ? "#666666"
			       : colours[get_int(extent, "vf") % 8];
}

void memory_svg(struct json_object *o, FILE *to)
{
	struct json_object *list = get(o, "extents"), *e;
	int64_t total = get_int(o, "total_bytes");
	double scale = total > 0 ? 1100.0 / (double)total : 0, x, w;
	size_t i, n = json_object_array_length(list);

	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"100\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"50\" y=\"20\">%s: %" PRId64 " MiB, free %" PRId64 " MiB</text>\n",
		get_text(o, "gpu"), MIB(total), MIB(get_int(o, "free_bytes")));
	for (i = 0; i < n; i++) {
		e = json_object_array_get_idx(list, i);
		x = 50 + (double)get_int(e, "offset") * scale;
		w = (double)get_int(e, "bytes") * scale;
		fprintf(to,
			"<rect x=\"%.2f\" y=\"32\" width=\"%.2f\" height=\"40\" fill=\"%s\" "
			"stroke=\"white\"><title>%s: %" PRId64 " MiB at %" PRId64
			" MiB</title></rect>\n",
			x, w, colour_of(e), label_of(e).word, MIB(get_int(e, "bytes")),
			MIB(get_int(e, "offset")));
		if (w > 40)
			fprintf(to, "<text x=\"%.2f\" y=\"88\">%s</text>\n", x + 2,
				label_of(e).word);
	}
	fputs("</svg>\n", to);
}
