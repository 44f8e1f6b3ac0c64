/* SPDX-License-Identifier: MIT */
/* Draws which VF ran when: as a picture, and as a page in which the user can zoom. */
#include <inttypes.h>
#include <stdlib.h>

#include "answer.h"
#include "spans.h"
#include "text.h"
#include "view.h"

#define LEFT 160
#define WIDTH 1000
#define ROW 28

static const char *const colours[KINDS] = {"#4e79a7", "#f28e2b", "#b07aa1", "#e15759", "#59a14f"};

void timeline_svg(struct json_object *o, FILE *to)
{
	struct spans s = spans_collect(o);
	int64_t since = get_int(o, "since_ns"), span = get_int(o, "now_ns") - since, t, step;
	int vfs = spans_vfs(o), vf, k, bottom = vfs * ROW + 28;
	double scale = span > 0 ? (double)WIDTH / (double)span : 0, from, length;
	size_t i;

	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"16\">",
		bottom + 60, LEFT);
	text_put_xml(to, get_text(o, "gpu"));
	fprintf(to, ": the last %.1f ms</text>\n", (double)span / 1e6);
	for (vf = 0; vf < vfs; vf++) {
		fprintf(to, "<text x=\"8\" y=\"%d\">VF %d ", vf * ROW + 43, vf);
		text_put_xml(to, spans_vm(o, vf));
		fprintf(to,
			"</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"20\" "
			"fill=\"#f0f0f0\"/>\n",
			LEFT, vf * ROW + 28, WIDTH);
	}
	step = spans_step(span, 10);
	for (t = 0; span > 0 && t <= span; t += step) {
		fprintf(to,
			"<path d=\"M%.2f 24V%d\" stroke=\"#999\" stroke-dasharray=\"2 4\"/>"
			"<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%s%g%s</text>\n",
			LEFT + (double)(span - t) * scale, bottom,
			LEFT + (double)(span - t) * scale, bottom + 14, t ? "-" : "",
			(double)t / 1e6, t ? " ms" : "");
	}
	for (i = 0; i < s.n; i++) {
		from = (double)(s.list[i].from - since);
		from = from > 0 ? from : 0;
		length = (double)(s.list[i].to - since) - from;
		if (length <= 0)
			continue;
		fprintf(to,
			"<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			"fill=\"%s\"><title>VF %d %s %.3f ms</title></rect>\n",
			LEFT + from * scale, s.list[i].vf * ROW + 48 - 20 * s.list[i].part,
			length * scale, 20 * s.list[i].part, colours[s.list[i].kind], s.list[i].vf,
			kind_names[s.list[i].kind], length * s.list[i].part / 1e6);
	}
	for (i = 0; i < count(get(o, "records")); i++) {
		t = spans_plan(at(get(o, "records"), i));
		if (t > since)
			fprintf(to,
				"<path d=\"M%.2f 24V%d\" stroke=\"#333\"><title>a plan came into "
				"force</title></path>\n",
				LEFT + (double)(t - since) * scale, bottom);
	}
	for (k = 0; k < KINDS; k++)
		fprintf(to,
			"<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
			"<text x=\"%d\" y=\"%d\">%s</text>\n",
			LEFT + k * 160, bottom + 32, colours[k], LEFT + 18 + k * 160, bottom + 42,
			kind_names[k]);
	fputs("</svg>\n", to);
	free(s.list);
}

/* timeline.js, as text. */
static const char script[] =
#include "timeline_js.h"
	;

/* Writes NAME = VALUE as JSON, and frees VALUE. "<" is escaped, because it could end the script. */
static void put_value(FILE *to, const char *name, struct json_object *value)
{
	const char *text = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);

	fprintf(to, "const %s=", name);
	for (; *text; text++) {
		if (*text == '<')
			fputs("\\u003c", to);
		else
			fputc(*text, to);
	}
	fputs(";\n", to);
	json_object_put(value);
}

static struct json_object *texts(const char *const *list, int n)
{
	struct json_object *o = json_object_new_array();
	int i;

	for (i = 0; i < n; i++)
		json_object_array_add(o, json_object_new_string(list[i]));
	return o;
}

void timeline_html(struct json_object *o, FILE *to)
{
	struct spans s = spans_collect(o);
	int64_t since = get_int(o, "since_ns"), span = get_int(o, "now_ns") - since;
	struct json_object *names = json_object_new_array();
	char name[400];
	size_t i;
	int vf, k;

	for (vf = 0; vf < spans_vfs(o); vf++) {
		spans_label(o, vf, name, sizeof(name));
		json_object_array_add(names, json_object_new_string(name));
	}
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
	text_put_xml(to, get_text(o, "gpu"));
	fputs(": timeline</title></head>\n<body style=\"font-family:sans-serif;margin:8px\"><p>",
	      to);
	text_put_xml(to, get_text(o, "gpu"));
	fprintf(to,
		": the last %.1f ms. The wheel zooms, dragging moves, a double click shows "
		"all.</p>\n"
		"<canvas id=\"timeline\" style=\"width:100%%\"></canvas><p "
		"id=\"tip\">&nbsp;</p><p>",
		(double)span / 1e6);
	for (k = 0; k < KINDS; k++)
		fprintf(to, "<span style=\"background:%s\">&emsp;</span> %s&emsp;", colours[k],
			kind_names[k]);
	fputs("</p>\n<script>\n", to);
	fprintf(to, "const span=%.6f;\n", (double)span / 1e6);
	put_value(to, "names", names);
	put_value(to, "kinds", texts(kind_names, KINDS));
	put_value(to, "colours", texts(colours, KINDS));
	fputs("const spans=[", to);
	for (i = 0; i < s.n; i++)
		fprintf(to, "%s[%.6f,%.6f,%d,%d,%.4f]", i ? "," : "",
			(double)(s.list[i].from > since ? s.list[i].from - since : 0) / 1e6,
			(double)(s.list[i].to - since) / 1e6, s.list[i].vf, (int)s.list[i].kind,
			s.list[i].part);
	fputs("];\n", to);
	fputs(script, to);
	fputs("</script></body></html>\n", to);
	free(s.list);
}
