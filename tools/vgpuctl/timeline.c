/* SPDX-License-Identifier: MIT */
/* Shows which VF ran when: in the terminal, as a picture, and for trace viewers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view.h"

#define MAX_VFS 32

enum kind { RUN, OVERRUN, WINDOW, RESET };

struct span {
	int64_t from, to;
	int vf;
	enum kind kind;
};

struct spans {
	struct span *list;
	size_t n;
};

static void add(struct spans *s, int vf, int64_t from, int64_t to, enum kind kind)
{
	struct span *more;

	if (to <= from || vf >= MAX_VFS)
		return;
	if ((s->n & (s->n - 1)) == 0) {
		more = realloc(s->list, (s->n ? 2 * s->n : 1) * sizeof(*more));
		if (!more)
			return;
		s->list = more;
	}
	s->list[s->n++] = (struct span){from, to, vf, kind};
}

/* Pairs the records of beginnings and ends. A span that began before the first record starts at
 * "since", one that has not ended ends now. */
static struct spans collect(struct json_object *o)
{
	struct json_object *records = get(o, "records");
	int64_t since = get_int(o, "since_ns"), now = get_int(o, "now_ns");
	int64_t begun[3][MAX_VFS] = {{0}}; /* run, window, reset */
	struct spans s = {NULL, 0};
	size_t i;
	int k, vf;

	for (i = 0; i < json_object_array_length(records); i++) {
		struct json_object *r = json_object_array_get_idx(records, i);
		const char *type = get_text(r, "type");
		int64_t t = get_int(r, "t_ns"), from;

		vf = (int)get_int(r, "vf");
		if (vf < 0 || vf >= MAX_VFS)
			continue;
		if (strcmp(type, "run") == 0) {
			begun[0][vf] = t;
		} else if (strcmp(type, "stop") == 0 && get_int(r, "a") > 0) {
			from = begun[0][vf] ? begun[0][vf] : since;
			begun[0][vf] = 0;
			add(&s, vf, from, t - get_int(r, "b"), RUN);
			add(&s, vf, t - get_int(r, "b") > from ? t - get_int(r, "b") : from, t,
			    OVERRUN);
		} else if (strcmp(type, "window") == 0) {
			begun[1][vf] = t;
		} else if (strcmp(type, "window-end") == 0) {
			add(&s, vf, begun[1][vf] ? begun[1][vf] : since, t, WINDOW);
			begun[1][vf] = 0;
		} else if (strcmp(type, "reset") == 0) {
			begun[2][vf] = t;
		} else if (strcmp(type, "reset-done") == 0) {
			add(&s, vf, begun[2][vf] ? begun[2][vf] : since, t, RESET);
			begun[2][vf] = 0;
		}
	}
	for (k = 0; k < 3; k++)
		for (vf = 0; vf < MAX_VFS; vf++)
			if (begun[k][vf])
				add(&s, vf, begun[k][vf], now,
				    k == 0   ? RUN
				    : k == 1 ? WINDOW
					     : RESET);
	return s;
}

/* Prints one line for each VF. A column shows what the VF did for most of the column's time. */
void view_timeline(struct json_object *o, unsigned width)
{
	static const char marks[] = {'#', '!', 'x', 'R'};
	struct spans s = collect(o);
	int64_t since = get_int(o, "since_ns"), now = get_int(o, "now_ns");
	double column = (double)(now - since) / width;
	int vfs = (int)get_int(o, "vfs"), vf;
	unsigned c;
	size_t i;

	printf("%s, the last %.1f ms; one column is %.0f us\n", get_text(o, "gpu"),
	       (double)(now - since) / 1e6, column / 1e3);
	for (vf = 0; vf < vfs && vf < MAX_VFS; vf++) {
		printf("VF %-2d ", vf);
		for (c = 0; c < width; c++) {
			double from = (double)since + c * column, to = from + column, time[4] = {0};
			char mark = '.';
			double most = column / 2;
			int k;

			for (i = 0; i < s.n; i++) {
				double a = (double)s.list[i].from, b = (double)s.list[i].to;

				a = a > from ? a : from;
				b = b < to ? b : to;
				if (s.list[i].vf == vf && b > a)
					time[s.list[i].kind] += b - a;
			}
			for (k = 0; k < 4; k++) {
				if (time[k] > most) {
					most = time[k];
					mark = marks[k];
				}
			}
			putchar(mark);
		}
		putchar('\n');
	}
	puts("#: running  !: overrun  x: exclusive window  R: being reset  .: not on the engine");
	free(s.list);
}

void timeline_svg(struct json_object *o, FILE *to)
{
	static const char *const colours[] = {"#4e79a7", "#f28e2b", "#b07aa1", "#e15759"};
	static const char *const names[] = {"running", "overrun", "exclusive window",
					    "being reset"};
	struct spans s = collect(o);
	int64_t since = get_int(o, "since_ns"), now = get_int(o, "now_ns");
	int vfs = (int)get_int(o, "vfs"), vf, k;
	double scale = now > since ? 1100.0 / (double)(now - since) : 0;
	size_t i;

	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"60\" y=\"16\">%s: the last %.1f ms</text>\n",
		vfs * 28 + 76, get_text(o, "gpu"), (double)(now - since) / 1e6);
	for (vf = 0; vf < vfs; vf++)
		fprintf(to,
			"<text x=\"8\" y=\"%d\">VF %d</text>\n"
			"<rect x=\"60\" y=\"%d\" width=\"1100\" height=\"20\" fill=\"#f0f0f0\"/>\n",
			vf * 28 + 43, vf, vf * 28 + 28);
	for (i = 0; i < s.n; i++) {
		double from = (double)(s.list[i].from - since), length;

		from = from > 0 ? from : 0;
		length = (double)(s.list[i].to - since) - from;
		if (length <= 0)
			continue;
		fprintf(to,
			"<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"20\" fill=\"%s\">"
			"<title>VF %d %s %.3f ms</title></rect>\n",
			60 + from * scale, s.list[i].vf * 28 + 28, length * scale,
			colours[s.list[i].kind], s.list[i].vf, names[s.list[i].kind], length / 1e6);
	}
	for (k = 0; k < 4; k++)
		fprintf(to,
			"<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
			"<text x=\"%d\" y=\"%d\">%s</text>\n",
			60 + k * 160, vfs * 28 + 50, colours[k], 78 + k * 160, vfs * 28 + 60,
			names[k]);
	fputs("</svg>\n", to);
	free(s.list);
}

void timeline_trace(struct json_object *o, FILE *to)
{
	static const char *const names[] = {"run", "overrun", "exclusive window", "reset"};
	struct spans s = collect(o);
	int vfs = (int)get_int(o, "vfs"), vf;
	size_t i;

	fprintf(to,
		"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
		"{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}",
		get_text(o, "gpu"));
	for (vf = 0; vf < vfs; vf++)
		fprintf(to,
			",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\","
			"\"args\":{\"name\":\"VF %d\"}}",
			vf, vf);
	for (i = 0; i < s.n; i++)
		fprintf(to,
			",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,"
			"\"dur\":%.3f}",
			s.list[i].vf, names[s.list[i].kind], (double)s.list[i].from / 1e3,
			(double)(s.list[i].to - s.list[i].from) / 1e3);
	fputs("\n]}\n", to);
	free(s.list);
}
