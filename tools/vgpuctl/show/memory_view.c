/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "screen.h"
#include "text.h"
#include "view.h"

#define MIB(bytes) ((bytes) >> 20)

/* How an extent is shown: by a word in the list, by a character in the map. */
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
		snprintf(l.word, sizeof(l.word), "VF %" PRId64 " moving", vf);
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

/* Prints the map of the TOTAL bytes from BEGIN on as one line of WIDTH characters. */
static void draw(struct json_object *list, int64_t begin, int64_t total, unsigned width)
{
	size_t i = 0, n = count(list);
	struct json_object *e;
	unsigned column;
	int64_t middle;

	for (column = 0; column < width && n > 0; column++) {
		middle = begin + (int64_t)((double)total * (column + 0.5) / width);
		e = at(list, i);
		while (i + 1 < n && middle >= get_int(e, "offset") + get_int(e, "bytes"))
			e = at(list, ++i);
		putchar(label_of(e).mark);
	}
	putchar('\n');
}

static void list_extents(struct json_object *list, int64_t begin)
{
	struct json_object *e;
	size_t i;

	for (i = 0; i < count(list); i++) {
		e = at(list, i);
		printf("%8" PRId64 " MiB  %7" PRId64 " MiB  %-10s %s\n",
		       MIB(get_int(e, "offset") - begin), MIB(get_int(e, "bytes")),
		       label_of(e).word, get(e, "domain") ? get_text(e, "domain") : "");
	}
}

#define SECONDS(name) ((double)get_int(o, name) / 1e9)

/* Prints which VFs are swapped out, and how long swapping took. */
static void view_host(struct json_object *o, unsigned width)
{
	struct json_object *list = get(o, "host_extents");
	int64_t begin = get_int(o, "total_bytes");

	if (get_int(o, "host_bytes") == 0)
		return;
	printf("\nhost memory, %" PRId64 " MiB: VFs that are swapped out\n",
	       MIB(get_int(o, "host_bytes")));
	draw(list, begin, get_int(o, "host_bytes"), width);
	putchar('\n');
	list_extents(list, begin);
	printf("\nswapped out: %" PRId64 " MiB in %" PRId64 " swaps, %.2f s; swapped in: %" PRId64
	       " MiB in %" PRId64 " swaps, %.2f s; %" PRId64 " swaps given up\n",
	       MIB(get_int(o, "swapped_out_bytes")), get_int(o, "swaps_out"),
	       SECONDS("swap_out_ns"), MIB(get_int(o, "swapped_in_bytes")), get_int(o, "swaps_in"),
	       SECONDS("swap_in_ns"), get_int(o, "aborted_swaps"));
	printf("epoch: %.2f s; longest time that a VF with work was swapped out: %.2f s\n",
	       SECONDS("epoch_ns"), SECONDS("swap_wait_max_ns"));
}

void view_memory(struct json_object *o)
{
	unsigned width = screen_picture_width();
	struct json_object *list = get(o, "extents");
	int64_t total = get_int(o, "total_bytes");

	printf("%s: %" PRId64 " MiB in units of %" PRId64 " MiB; free: %" PRId64
	       " MiB; largest free block: %" PRId64 " MiB, %" PRId64 " MiB after compaction\n",
	       get_text(o, "gpu"), MIB(total), MIB(get_int(o, "granule_bytes")),
	       MIB(get_int(o, "free_bytes")), MIB(get_int(o, "largest_free_bytes")),
	       MIB(get_int(o, "after_compaction_bytes")));
	draw(list, 0, total, width);
	puts("\nP: the PF  0-9 a-u: a VF  .: free  ~: being scrubbed  >: a VF being moved\n");
	list_extents(list, 0);
	printf("\ncleared: %" PRId64 " MiB; moved: %" PRId64 " MiB in %" PRId64 " moves; %" PRId64
	       " moves given up\n",
	       MIB(get_int(o, "cleared_bytes")), MIB(get_int(o, "moved_bytes")),
	       get_int(o, "moves"), get_int(o, "aborted_moves"));
	view_host(o, width);
}

void view_memory_plan(struct json_object *o)
{
	struct json_object *list = get(o, "move_vfs");
	size_t i;

	printf("VF %" PRId64 " of %s: ", get_int(o, "vf"), get_text(o, "gpu"));
	if (get_int(o, "bytes") && json_object_get_boolean(get(o, "host")))
		printf("%" PRId64 " MiB, in host memory until it has work",
		       MIB(get_int(o, "bytes")));
	else if (get_int(o, "bytes"))
		printf("%" PRId64 " MiB at %" PRId64 " MiB", MIB(get_int(o, "bytes")),
		       MIB(get_int(o, "offset")));
	else
		printf("no memory");
	if (get_int(o, "clear_bytes"))
		printf(", after %" PRId64 " MiB have been cleared", MIB(get_int(o, "clear_bytes")));
	for (i = 0; i < count(list); i++)
		printf("%s%" PRId64,
		       i ? ", " : "; VFs to be moved: ", json_object_get_int64(at(list, i)));
	if (i)
		printf(" (%" PRId64 " MiB)", MIB(get_int(o, "move_bytes")));
	if (get(o, "cost"))
		printf("; %s", get_text(o, "cost"));
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

/* Draws a row of the map at height Y, of the TOTAL bytes from BEGIN on. */
static void row_svg(struct json_object *list, int64_t begin, int64_t total, int y, FILE *to)
{
	double scale = total > 0 ? 1100.0 / (double)total : 0, x, w;
	struct json_object *e;
	size_t i;

	for (i = 0; i < count(list); i++) {
		e = at(list, i);
		x = 50 + (double)(get_int(e, "offset") - begin) * scale;
		w = (double)get_int(e, "bytes") * scale;
		fprintf(to,
			"<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"40\" fill=\"%s\" "
			"stroke=\"white\"><title>%s: %" PRId64 " MiB at %" PRId64
			" MiB</title></rect>\n",
			x, y, w, colour_of(e), label_of(e).word, MIB(get_int(e, "bytes")),
			MIB(get_int(e, "offset") - begin));
		if (w > 40)
			fprintf(to, "<text x=\"%.2f\" y=\"%d\">%s</text>\n", x + 2, y + 56,
				label_of(e).word);
	}
}

void memory_svg(struct json_object *o, FILE *to)
{
	int64_t total = get_int(o, "total_bytes"), host = get_int(o, "host_bytes");

	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"50\" y=\"20\">",
		host ? 190 : 100);
	text_put_xml(to, get_text(o, "gpu"));
	fprintf(to, ": %" PRId64 " MiB, free %" PRId64 " MiB</text>\n", MIB(total),
		MIB(get_int(o, "free_bytes")));
	row_svg(get(o, "extents"), 0, total, 32, to);
	if (host) {
		fprintf(to,
			"<text x=\"50\" y=\"110\">host memory, %" PRId64
			" MiB: VFs that are swapped out</text>\n",
			MIB(host));
		row_svg(get(o, "host_extents"), total, host, 122, to);
	}
	fputs("</svg>\n", to);
}
