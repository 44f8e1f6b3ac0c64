/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vgpu/param.h"

int vgpu_parse_choice(const char *const *choices, const char *text, int64_t *out)
{
	int64_t i;

	for (i = 0; choices[i]; i++) {
		if (strcmp(choices[i], text) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

void vgpu_join_choices(const char *const *choices, char *text, size_t size)
{
	size_t used = 0, i;

	for (i = 0; choices[i] && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
					 choices[i]);
}

const struct vgpu_param *vgpu_param_in_percent(const struct vgpu_param *table, const char *name,
					       const char *value, int64_t *ppm)
{
	size_t n = strlen(name), length = strcspn(value, "%");
	const struct vgpu_param *p;
	char number[16];

	for (p = table; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return NULL;
	for (p = table; p->name; p++)
		if (strncmp(p->name, name, n) == 0 && strcmp(p->name + n, "_ppm") == 0)
			break;
	if (!p->name)
		return NULL;
	*ppm = -1;
	if (value[length] && value[length + 1])
		return p;
	while (length > 0 && value[length - 1] == ' ')
		length--;
	snprintf(number, sizeof(number), "%.*s", (int)length, value);
	if (length >= sizeof(number) || vgpu_parse_percent(number, ppm) < 0 || *ppm < p->min ||
	    *ppm > p->max)
		*ppm = -1;
	return p;
}

void vgpu_param_as_claimed(const char *name, const char *value, char *text, size_t size)
{
	size_t n = strlen(name);
	int64_t ppm;

	if (n > 4 && strcmp(name + n - 4, "_ppm") == 0 && vgpu_parse_int(value, &ppm) == 0)
		snprintf(text, size, "%.*s %g %%", (int)n - 4, name, (double)ppm / 1e4);
	else
		snprintf(text, size, "%s %s", name, value);
}

/* The length of NAME without "_ppm": the name for the value in percent, as claims and users write
 * it. */
static int usual_length(const char *name)
{
	size_t n = strlen(name);

	return (int)(n > 4 && strcmp(name + n - 4, "_ppm") == 0 ? n - 4 : n);
}

int vgpu_param_set(const struct vgpu_param *table, const char *name, const char *value,
		   int64_t *values, struct vgpu_error *err)
{
	char names[200] = "none";
	size_t used = 0;
	int64_t v = -1;
	const struct vgpu_param *percent = vgpu_param_in_percent(table, name, value, &v);
	int i;

	if (percent && v < 0)
		return vgpu_error_set(err, -EINVAL, "%s = %s: want %g to %g percent, like 12.5",
				      name, value, (double)percent->min / 1e4,
				      (double)percent->max / 1e4);
	if (percent) {
		values[percent - table] = v;
		return 0;
	}

	for (i = 0; table[i].name; i++) {
		const struct vgpu_param *p = &table[i];

		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.*s",
						 i ? ", " : "", usual_length(p->name), p->name);
		if (strcmp(p->name, name) != 0)
			continue;
		if (p->type == VGPU_PARAM_CHOICE) {
			if (vgpu_parse_choice(p->choices, value, &v) == 0) {
				values[i] = v;
				return 0;
			}
			vgpu_join_choices(p->choices, names, sizeof(names));
			return vgpu_error_set(err, -EINVAL, "%s = %s: want one of: %s", name, value,
					      names);
		}
		if (vgpu_parse_between(value, p->min, p->max, &v) < 0)
			return vgpu_error_set(err, -EINVAL,
					      "%s = %s: want %" PRId64 " to %" PRId64 "%s%s", name,
					      value, p->min, p->max, p->unit && *p->unit ? " " : "",
					      p->unit ? p->unit : "");
		values[i] = v;
		return 0;
	}
	return vgpu_error_set(err, -EINVAL, "%s: no such parameter; the parameters are: %s", name,
			      names);
}

void vgpu_param_text(const struct vgpu_param *param, int64_t value, char *text, size_t size)
{
	if (param->type == VGPU_PARAM_CHOICE)
		snprintf(text, size, "%s", param->choices[value]);
	else
		snprintf(text, size, "%" PRId64, value);
}

void vgpu_param_defaults(const struct vgpu_param *table, int64_t *values)
{
	int i;

	memset(values, 0, VGPU_MAX_PARAMS * sizeof(*values));
	for (i = 0; table[i].name; i++)
		values[i] = table[i].def;
}
