/* SPDX-License-Identifier: MIT */
#include "claim.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <libxml/tree.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "document.h"
#include "nova.h"
#include "vgpu/names.h"
#include "vgpu/param.h"

const char *const claim_by_names[CLAIM_BY] = {"vm", "program", "container"};
const char *const claim_on_hang_names[CLAIM_ON_HANG] = {"reset", "pause", "stop"};

#define QEMU_URI "http://libvirt.org/schemas/domain/qemu/1.0"

/* Parsing stops at the first error, which ERR gives with its line. */
struct reader {
	struct claim *out;
	struct vgpu_error *err;
	int r;
};

__attribute__((format(printf, 3, 4))) static void wrong(struct reader *rd, const xmlNode *node,
							const char *format, ...)
{
	char text[200];
	va_list args;

	if (rd->r < 0)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	rd->r = vgpu_error_set(rd->err, -EINVAL, "line %ld: %s", xmlGetLineNo(node), text);
}

/* Copies VALUE to OUT and frees it; an overlong value is an error. */
static void copy(struct reader *rd, const xmlNode *node, const char *what, xmlChar *value,
		 char *out, size_t size)
{
	if (value && strlen((const char *)value) >= size)
		wrong(rd, node, "%s is longer than %zu bytes", what, size - 1);
	else
		snprintf(out, size, "%s", value ? (const char *)value : "");
	xmlFree(value);
}

/* Copies an attribute to OUT; "" if the element has none of that name. */
static void attribute(struct reader *rd, xmlNode *node, const char *name, char *out, size_t size)
{
	copy(rd, node, name, xmlGetNoNsProp(node, (const xmlChar *)name), out, size);
}

static void content(struct reader *rd, xmlNode *node, char *out, size_t size)
{
	copy(rd, node, (const char *)node->name, xmlNodeGetContent(node), out, size);
}

/* Checks a name as vgpu-domain-1.rng does: letters, digits, and "_.-" except at the start. */
static void identifier(struct reader *rd, const xmlNode *node, const char *what, const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	if (text[0] && (text[strspn(text, letters)] || strchr("_.-", text[0])))
		wrong(rd, node, "%s = '%s': want letters and digits, '_', '.' and '-'", what, text);
}

static void only_attributes(struct reader *rd, xmlNode *node, const char *const *names)
{
	xmlAttr *a;
	int i;

	for (a = node->properties; a; a = a->next) {
		for (i = 0; names[i] && strcmp(names[i], (const char *)a->name) != 0; i++)
			;
		if (!names[i])
			wrong(rd, node, "<%s> has no attribute '%s'", node->name, a->name);
	}
}

/* Units of a quantity and their factors; the first one is the default. */
struct unit {
	const char *name;
	uint64_t factor;
};

static uint64_t quantity(struct reader *rd, xmlNode *node, const struct unit *units)
{
	static const char *const names[] = {"unit", NULL};
	char text[32], unit[8];
	int64_t value = 0;
	int i;

	only_attributes(rd, node, names);
	attribute(rd, node, "unit", unit, sizeof(unit));
	content(rd, node, text, sizeof(text));
	if (rd->r < 0)
		return 0;
	for (i = 0; unit[0] && units[i].name && strcmp(units[i].name, unit) != 0; i++)
		;
	if (!units[i].name)
		wrong(rd, node, "<%s>: unit '%s' is not known here", node->name, unit);
	else if (vgpu_parse_int(text, &value) < 0 || value <= 0 ||
		 (uint64_t)value > INT64_MAX / units[i].factor)
		wrong(rd, node, "<%s>: '%s' is not a whole number above 0", node->name, text);
	return rd->r < 0 ? 0 : (uint64_t)value * units[i].factor;
}

__attribute__((format(printf, 5, 6))) static void param(struct reader *rd, struct claim_vf *s,
							const xmlNode *node, const char *name,
							const char *format, ...)
{
	struct claim_param *p = &s->params[s->n_params];
	uint32_t i;
	va_list args;

	for (i = 0; i < s->n_params; i++)
		if (strcmp(s->params[i].name, name) == 0)
			wrong(rd, node, "%s is given twice", name);
	if (s->n_params == CLAIM_MAX_PARAMS)
		wrong(rd, node, "more than %u parameters", CLAIM_MAX_PARAMS);
	if (rd->r < 0)
		return;
	snprintf(p->name, sizeof(p->name), "%s", name);
	va_start(args, format);
	vsnprintf(p->value, sizeof(p->value), format, args);
	va_end(args);
	p->line = (int)xmlGetLineNo(node);
	s->n_params++;
}

static const struct unit times[] = {{"us", 1}, {"ms", 1000}, {NULL, 0}};
static const struct unit sizes[] = {
	{"KiB", 1u << 10}, {"b", 1}, {"MiB", 1u << 20}, {"GiB", 1u << 30}, {NULL, 0}};

static void read_weight(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const struct unit none[] = {{"", 1}, {NULL, 0}};

	param(rd, s, node, "weight", "%" PRIu64, quantity(rd, node, none));
}

static void read_latency_slice(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	char unit[8];

	attribute(rd, node, "unit", unit, sizeof(unit));
	param(rd, s, node, "latency_slice_us", "%" PRIu64, quantity(rd, node, times));
	if (rd->r == 0 && strcmp(unit, "ms") == 0)
		s->params[s->n_params - 1].written_in = CLAIM_MS;
}

static void percent(struct reader *rd, struct claim_vf *s, xmlNode *node, const char *name,
		    const char *to)
{
	char text[16];
	int64_t ppm = 0;

	attribute(rd, node, name, text, sizeof(text));
	if (rd->r < 0 || !text[0])
		return;
	if (vgpu_parse_percent(text, &ppm) < 0)
		wrong(rd, node, "%s = '%s': want percent, 0 to 100, like 12.5", name, text);
	param(rd, s, node, to, "%" PRId64, ppm);
	if (rd->r == 0)
		s->params[s->n_params - 1].written_in = CLAIM_PERCENT;
}

static void read_share(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"min", "max", NULL};

	only_attributes(rd, node, names);
	percent(rd, s, node, "min", "min_ppm");
	percent(rd, s, node, "max", "max_ppm");
}

static void read_deadline(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"budget-us", "period-us", NULL};
	char budget[24], period[24];
	int64_t value;

	only_attributes(rd, node, names);
	attribute(rd, node, "budget-us", budget, sizeof(budget));
	attribute(rd, node, "period-us", period, sizeof(period));
	if (rd->r == 0 &&
	    (vgpu_parse_int(budget, &value) < 0 || vgpu_parse_int(period, &value) < 0))
		wrong(rd, node, "<deadline>: want budget-us and period-us, whole numbers");
	param(rd, s, node, "budget_us", "%s", budget);
	param(rd, s, node, "period_us", "%s", period);
}

/* The names of prio's classes 0 to 7; "": class without a name. */
static void read_priority(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const words[] = {"highest", "", "high", "",
					    "normal",  "", "low",  "lowest"};
	static const char *const none[] = {NULL};
	char text[16];
	int i;

	only_attributes(rd, node, none);
	content(rd, node, text, sizeof(text));
	for (i = 0; i < 8 && (!words[i][0] || strcmp(words[i], text) != 0); i++)
		;
	if (i == 8)
		wrong(rd, node, "<priority>: '%s' is none of highest, high, normal, low, lowest",
		      text);
	param(rd, s, node, "class", "%d", i);
}

static void read_param(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"name", "value", NULL};
	char name[32], value[32];

	only_attributes(rd, node, names);
	attribute(rd, node, "name", name, sizeof(name));
	attribute(rd, node, "value", value, sizeof(value));
	if (rd->r == 0 && (!name[0] || !value[0]))
		wrong(rd, node, "<param>: want name and value");
	identifier(rd, node, "name", name);
	param(rd, s, node, name, "%s", value);
}

/* The children that an element may have: one table per element. */
struct child {
	const char *name;
	void (*read)(struct reader *rd, struct claim_vf *s, xmlNode *node);
	bool many;
};

/* Reports an unknown element; for a former name, with its new name. */
static void unknown(struct reader *rd, const xmlNode *node, const xmlNode *in)
{
	static const char *const renamed[][2] = {{"slice", "vf"},
						 {"slice-length", "latency-slice"}};
	size_t i;

	for (i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (document_is(node, renamed[i][0]))
			wrong(rd, node, "<%s> is now <%s>", renamed[i][0], renamed[i][1]);
	wrong(rd, node, "<%s> is not known in <%s>", node->name, in->name);
}

static void children(struct reader *rd, struct claim_vf *s, xmlNode *node,
		     const struct child *table)
{
	uint32_t seen = 0, i;
	xmlNode *n;

	for (n = node->children; n && rd->r == 0; n = n->next) {
		if (n->type == XML_TEXT_NODE && !xmlIsBlankNode(n))
			wrong(rd, n, "<%s> cannot contain text", node->name);
		if (n->type != XML_ELEMENT_NODE)
			continue;
		for (i = 0; table[i].name && !document_is(n, table[i].name); i++)
			;
		if (!table[i].name)
			unknown(rd, n, node);
		else if (seen >> i & 1 && !table[i].many)
			wrong(rd, n, "<%s> is given twice", n->name);
		else
			table[i].read(rd, s, n);
		seen |= 1u << i;
	}
}

static const struct child sched_children[] = {
	{"weight", read_weight, false},
	{"latency-slice", read_latency_slice, false},
	{"share", read_share, false},
	{"deadline", read_deadline, false},
	{"priority", read_priority, false},
	{"param", read_param, true},
	{NULL, NULL, false},
};

static void read_sched(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"policy", NULL};

	only_attributes(rd, node, names);
	attribute(rd, node, "policy", s->policy, sizeof(s->policy));
	identifier(rd, node, "policy", s->policy);
	children(rd, s, node, sched_children);
}

static void read_device(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"gpu", "pool", "vf", NULL};
	char vf[16];
	int64_t n;

	only_attributes(rd, node, names);
	attribute(rd, node, "gpu", s->gpu, sizeof(s->gpu));
	attribute(rd, node, "pool", s->pool, sizeof(s->pool));
	attribute(rd, node, "vf", vf, sizeof(vf));
	identifier(rd, node, "gpu", s->gpu);
	identifier(rd, node, "pool", s->pool);
	if (rd->r == 0 && s->gpu[0] && s->pool[0])
		wrong(rd, node, "<device>: give gpu or pool, not both");
	if (rd->r < 0 || !vf[0])
		return;
	if (vgpu_parse_int(vf, &n) < 0 || n < 0 || n >= VGPU_GPU_MAX_VFS)
		wrong(rd, node, "vf = '%s': want 0 to %u", vf, VGPU_GPU_MAX_VFS - 1);
	else if (!s->gpu[0])
		wrong(rd, node, "<device>: vf is a VF's number on one GPU; name that GPU with gpu");
	else
		s->vf = (int32_t)n;
}

static void read_memory(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	s->memory = quantity(rd, node, sizes);
}

static void read_profile(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const none[] = {NULL};

	only_attributes(rd, node, none);
	content(rd, node, s->profile, sizeof(s->profile));
	identifier(rd, node, "profile", s->profile);
	if (rd->r == 0 && !s->profile[0])
		wrong(rd, node, "<profile>: want a name");
}

/* Returns the index of an attribute's word in WORDS; 0 if the attribute is left out. */
static int choice(struct reader *rd, xmlNode *node, const char *name, const char *const *words,
		  int n)
{
	char text[16], all[64] = "";
	int i;

	attribute(rd, node, name, text, sizeof(text));
	for (i = 0; i < n && text[0]; i++) {
		if (strcmp(words[i], text) == 0)
			return i;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "",
			 words[i]);
	}
	if (text[0])
		wrong(rd, node, "%s = '%s': want one of: %s", name, text, all);
	return 0;
}

static void read_lifecycle(struct reader *rd, struct claim_vf *s, xmlNode *node)
{
	static const char *const names[] = {"on-hang", "on-release", "binding", NULL};
	static const char *const releases[] = {"scrub"};
	static const char *const bindings[] = {"auto", "static"};

	only_attributes(rd, node, names);
	s->on_hang =
		(enum claim_on_hang)choice(rd, node, "on-hang", claim_on_hang_names, CLAIM_ON_HANG);
	choice(rd, node, "on-release", releases, 1);
	if (choice(rd, node, "binding", bindings, 2) == 1 && !s->alias[0])
		wrong(rd, node,
		      "binding = 'static': the <vf> needs the alias of a device of the domain");
}

static const struct child vf_children[] = {
	{"device", read_device, false},	      {"profile", read_profile, false},
	{"memory", read_memory, false},	      {"sched", read_sched, false},
	{"lifecycle", read_lifecycle, false}, {NULL, NULL, false},
};

static void read_vf(struct reader *rd, struct claim_vf *, xmlNode *node)
{
	static const char *const names[] = {"name", "alias", NULL};
	struct claim_vf *s = &rd->out->vfs[rd->out->n_vfs];
	uint32_t i;

	if (rd->out->n_vfs == CLAIM_MAX_VFS) {
		wrong(rd, node, "more than %u VFs", CLAIM_MAX_VFS);
		return;
	}
	s->vf = -1;
	s->hostdev = -1;
	s->line = (int)xmlGetLineNo(node);
	only_attributes(rd, node, names);
	attribute(rd, node, "name", s->name, sizeof(s->name));
	attribute(rd, node, "alias", s->alias, sizeof(s->alias));
	identifier(rd, node, "name", s->name);
	if (rd->r == 0 && !s->name[0])
		wrong(rd, node, "<vf> has no name");
	if (rd->r == 0 && s->alias[0] && strncmp(s->alias, "ua-", 3) != 0)
		wrong(rd, node,
		      "alias = '%s': libvirt wants aliases that users give to begin with 'ua-'",
		      s->alias);
	for (i = 0; i < rd->out->n_vfs; i++) {
		if (strcmp(rd->out->vfs[i].name, s->name) == 0)
			wrong(rd, node, "two VFs are named '%s'", s->name);
		if (s->alias[0] && strcmp(rd->out->vfs[i].alias, s->alias) == 0)
			wrong(rd, node, "two VFs have the alias '%s'", s->alias);
	}
	children(rd, s, node, vf_children);
	rd->out->n_vfs++;
}

static const struct child root_children[] = {
	{"vf", read_vf, true},
	{NULL, NULL, false},
};

static void read_claim(struct reader *rd, xmlNode *node)
{
	static const char *const names[] = {"version", "required", NULL};
	char version[8], required[8];

	only_attributes(rd, node, names);
	attribute(rd, node, "version", version, sizeof(version));
	attribute(rd, node, "required", required, sizeof(required));
	if (rd->r == 0 && strcmp(version, "1") != 0)
		wrong(rd, node, "version = '%s': this vgpud knows only version 1", version);
	if (rd->r == 0 && required[0] && strcmp(required, "yes") && strcmp(required, "no"))
		wrong(rd, node, "required = '%s': want yes or no", required);
	rd->out->required = strcmp(required, "no") != 0;
	children(rd, NULL, node, root_children);
	if (rd->r == 0 && rd->out->n_vfs == 0)
		wrong(rd, node, "<vgpu> has no <vf>");
}

/* Reads the hexadecimal number of an attribute such as function='0x1'. */
static unsigned hex(struct reader *rd, xmlNode *node, const char *name)
{
	unsigned value = 0;
	char text[16];

	attribute(rd, node, name, text, sizeof(text));
	sscanf(text, "%x", &value);
	return value;
}

/* Returns a new device of the domain; NULL: there are too many, or the domain has no claim and its
 * devices do not matter. */
static struct claim_hostdev *new_device(struct reader *rd, const xmlNode *node)
{
	if (rd->out->n_hostdevs < CLAIM_MAX_HOSTDEVS)
		return &rd->out->hostdevs[rd->out->n_hostdevs++];
	if (rd->out->n_vfs > 0)
		wrong(rd, node, "more than %u devices of the host", CLAIM_MAX_HOSTDEVS);
	return NULL;
}

/* Reads <hostdev mode='subsystem'>, which libvirt has validated. */
static void read_hostdev(struct reader *rd, xmlNode *node)
{
	xmlNode *address = document_child(document_child(node, "source"), "address");
	xmlNode *alias = document_child(node, "alias");
	struct claim_hostdev *h;
	bool is_pci;

	is_pci = document_has(node, "type", "pci") && address;
	h = is_pci || alias ? new_device(rd, node) : NULL;
	if (!h)
		return;
	attribute(rd, node, "type", h->type, sizeof(h->type));
	if (is_pci)
		snprintf(h->address, sizeof(h->address), "%04x:%02x:%02x.%x",
			 hex(rd, address, "domain"), hex(rd, address, "bus"),
			 hex(rd, address, "slot"), hex(rd, address, "function"));
	if (alias)
		attribute(rd, alias, "name", h->alias, sizeof(h->alias));
	h->managed = document_has(node, "managed", "yes");
}

/* Reads <qemu:override>'s <qemu:device alias='A'><qemu:frontend><qemu:property name='vf-token'
 * .../>, and sets the token of the device with that alias. */
static void read_override(struct reader *rd, xmlNode *override)
{
	char alias[80], token[37];
	xmlNode *device, *property;
	uint32_t i;

	for (device = override->children; device; device = device->next) {
		xmlNode *frontend =
			document_is(device, "device") ? document_child(device, "frontend") : NULL;

		for (property = frontend ? frontend->children : NULL; property;
		     property = property->next) {
			if (!document_is(property, "property") ||
			    !document_has(property, "name", "vf-token"))
				continue;
			attribute(rd, device, "alias", alias, sizeof(alias));
			attribute(rd, property, "value", token, sizeof(token));
			for (i = 0; i < rd->out->n_hostdevs; i++)
				if (strcmp(rd->out->hostdevs[i].alias, alias) == 0)
					snprintf(rd->out->hostdevs[i].token,
						 sizeof(rd->out->hostdevs[i].token), "%s", token);
		}
	}
}

static const char *member(struct json_object *o, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(o, name));

	return text ? text : "";
}

/* Returns whether an argument of QEMU's is a block device that QEMU cannot migrate: a writable
 * vvfat. O is the argument as JSON, if it is JSON. */
static bool keeps_here(const char *text, struct json_object *o)
{
	return o ? strcmp(member(o, "driver"), "vvfat") == 0 &&
			       json_object_get_boolean(json_object_object_get(o, "rw"))
		 : strstr(text, "driver=vvfat") && strstr(text, "rw=on");
}

/* Copies member NAME of a device on QEMU's command line: O's, or that of "driver,NAME=value,..." */
static void option(const char *text, struct json_object *o, const char *name, char *out,
		   size_t size)
{
	size_t n = strlen(name);
	const char *at = text;

	if (o) {
		snprintf(out, size, "%s", member(o, name));
		return;
	}
	out[0] = '\0';
	while ((at = strchr(at, ','))) {
		at++;
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			snprintf(out, size, "%.*s", (int)strcspn(at + n + 1, ","), at + n + 1);
	}
}

/* Returns whether a device is of that driver. */
static bool has_driver(const char *text, struct json_object *o, const char *driver)
{
	size_t n = strlen(driver);

	return o ? strcmp(member(o, "driver"), driver) == 0
		 : strncmp(text, driver, n) == 0 && (!text[n] || text[n] == ',');
}

/* Writes the full address of a PCI device. QEMU takes it with or without its domain, or as a folder
 * of /sys; "": it is none of these. */
static void host_address(const char *host, const char *folder, char *out, size_t size)
{
	const char *name = strrchr(folder, '/');
	unsigned domain = 0, bus, slot, function;

	if (!host[0] && name)
		host = name + 1;
	out[0] = '\0';
	if (sscanf(host, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4 ||
	    (domain = 0, sscanf(host, "%x:%x.%x", &bus, &slot, &function) == 3))
		snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, slot, function);
}

/* Parses a device on QEMU's command line that may be a VF. O: TEXT as JSON, if it is JSON. */
static void read_device_option(struct reader *rd, const xmlNode *arg, const char *text,
			       struct json_object *o)
{
	bool user = has_driver(text, o, "vfio-user-pci");
	char host[128], folder[160];
	struct claim_hostdev *h;

	if (!user && !has_driver(text, o, "vfio-pci") && !has_driver(text, o, "vfio-pci-nohotplug"))
		return;
	h = new_device(rd, arg);
	if (!h)
		return;
	option(text, o, "id", h->alias, sizeof(h->alias));
	option(text, o, "vf-token", h->token, sizeof(h->token));
	snprintf(h->type, sizeof(h->type), user ? "vfio-user" : "pci");
	if (user && o) {
		option(text, json_object_object_get(o, "socket"), "path", h->address,
		       sizeof(h->address));
	} else if (user) {
		option(text, o, "socket.path", h->address, sizeof(h->address));
	} else {
		option(text, o, "host", host, sizeof(host));
		option(text, o, "sysfsdev", folder, sizeof(folder));
		host_address(host, folder, h->address, sizeof(h->address));
	}
	if (!h->address[0] && !h->alias[0]) /* no claim can refer to it */
		rd->out->n_hostdevs--;
}

/* Parses <qemu:commandline>'s <qemu:arg value='...'/>, by which domains get vfio-user devices;
 * libvirt has no element for these. */
static void read_commandline(struct reader *rd, xmlNode *commandline)
{
	struct json_object *o;
	xmlChar *value;
	xmlNode *arg;

	for (arg = commandline->children; arg; arg = arg->next) {
		value = document_is(arg, "arg") ? xmlGetNoNsProp(arg, (const xmlChar *)"value")
						: NULL;
		if (!value)
			continue;
		o = value[0] == '{' ? json_tokener_parse((const char *)value) : NULL;
		rd->out->stays |= keeps_here((const char *)value, o);
		read_device_option(rd, arg, (const char *)value, o);
		json_object_put(o);
		xmlFree(value);
	}
}

const struct claim_hostdev *claim_device_of(const struct claim *claim,
					    const struct claim_vf *claimed)
{
	char ours[sizeof(claimed->name) + sizeof(CLAIM_OUR_ALIAS)];
	const char *alias = claimed->alias[0] ? claimed->alias : ours;
	uint32_t i;

	snprintf(ours, sizeof(ours), CLAIM_OUR_ALIAS "%s", claimed->name);
	for (i = 0; i < claim->n_hostdevs; i++)
		if (strcmp(claim->hostdevs[i].alias, alias) == 0)
			return &claim->hostdevs[i];
	return claimed->hostdev >= 0 ? &claim->hostdevs[claimed->hostdev] : NULL;
}

int claim_check_device(const struct claim *claim, const struct claim_vf *claimed,
		       struct vgpu_error *err)
{
	const struct claim_hostdev *h = claim_device_of(claim, claimed);

	if (!h && claimed->alias[0])
		return vgpu_error_set(err, -EINVAL, "the domain has no <hostdev> with alias %s",
				      claimed->alias);
	if (h && !h->address[0])
		return vgpu_error_set(
			err, -EINVAL,
			"the device with alias %s is of type %s and no VF: a claim takes "
			"a <hostdev> of type pci with the address of a VF, or a vfio-user "
			"device",
			h->alias, h->type);
	if (h && h->managed)
		return vgpu_error_set(
			err, -EINVAL,
			"its <hostdev> at %s has managed='yes': libvirt would take the "
			"VF off VFIO when the VM ends; write managed='no'",
			h->address);
	return 0;
}

static bool is_ours(const xmlNode *node)
{
	return document_is(node, "vgpu") &&
	       (!node->ns || strcmp((const char *)node->ns->href, CLAIM_URI) == 0);
}

/* Reads the claim of Nova's flavor: converts it to a <vgpu> element and parses that. */
static void read_nova(struct reader *rd, xmlNode *instance)
{
	xmlNode *claim = NULL;

	if (rd->r == 0) /* otherwise the domain's name or UUID is unreadable */
		rd->r = nova_claim(instance, &claim, rd->err);
	if (rd->r < 0) {
		rd->out->required = true;
	} else if (claim) {
		read_claim(rd, claim);
		if (rd->r < 0)
			vgpu_error_prefix(rd->err, rd->r, "Nova's flavor");
		xmlFreeNode(claim);
	}
}

/* Reads the claim in <metadata>: vgpud's own, else Nova's. */
static void read_metadata(struct reader *rd, xmlNode *metadata)
{
	xmlNode *nova = NULL, *n;
	bool ours = false;

	for (n = metadata->children; n; n = n->next) {
		if (!n->ns)
			continue;
		if (document_is(n, "instance") && strcmp((const char *)n->ns->href, NOVA_URI) == 0)
			nova = n;
		if (!is_ours(n))
			continue;
		ours = true;
		read_claim(rd, n);
	}
	if (nova && !ours)
		read_nova(rd, nova);
}

/* Returns whether the emulator is vgpud-qemu, in whatever directory. */
static bool is_by_venus(xmlNode *emulator)
{
	xmlChar *path = emulator ? xmlNodeGetContent(emulator) : NULL;
	const char *slash = path ? strrchr((const char *)path, '/') : NULL;
	bool is = slash && strcmp(slash, "/vgpud-qemu") == 0;

	xmlFree(path);
	return is;
}

static void read_domain(struct reader *rd, xmlNode *domain)
{
	xmlNode *uuid = document_child(domain, "uuid"), *name = document_child(domain, "name"), *n;
	xmlNode *metadata = document_child(domain, "metadata"),
		*devices = document_child(domain, "devices");

	if (uuid)
		content(rd, uuid, rd->out->uuid, sizeof(rd->out->uuid));
	vgpu_uuid_normal(rd->out->uuid, rd->out->uuid);
	if (name)
		content(rd, name, rd->out->domain, sizeof(rd->out->domain));
	if (metadata)
		read_metadata(rd, metadata);
	if (rd->r < 0)
		return;
	rd->out->by_venus = devices && is_by_venus(document_child(devices, "emulator"));
	for (n = devices ? devices->children : NULL; n; n = n->next)
		if (document_is(n, "hostdev"))
			read_hostdev(rd, n);
	for (n = domain->children; n; n = n->next) {
		if (!n->ns || strcmp((const char *)n->ns->href, QEMU_URI) != 0)
			continue;
		if (document_is(n, "override"))
			read_override(rd, n);
		else if (document_is(n, "commandline"))
			read_commandline(rd, n);
	}
}

static void read_root(struct reader *rd, xmlNode *root)
{
	rd->out->required = false;
	if (document_is(root, "domain"))
		read_domain(rd, root);
	else if (is_ours(root))
		read_claim(rd, root);
	else
		wrong(rd, root, "<%s> is neither a <domain> nor a <vgpu> of " CLAIM_URI,
		      root->name);
}

bool claim_is_possible(const char *xml)
{
	return strstr(xml, CLAIM_URI) || strstr(xml, NOVA_URI);
}

int claim_parse(struct claim *out, const char *text, size_t size, struct vgpu_error *err)
{
	struct reader rd = {out, err, 0};
	xmlDoc *doc;

	/* An unreadable domain may have a claim: the VM is assumed to need its VF. */
	*out = (struct claim){.required = true};
	rd.r = document_read(&doc, text, size, err);
	if (rd.r < 0)
		return rd.r;
	read_root(&rd, xmlDocGetRootElement(doc));
	xmlFreeDoc(doc);
	if (rd.r < 0) { /* the owner of the claim may still be readable */
		out->n_vfs = 0;
		out->n_hostdevs = 0;
	}
	return rd.r;
}

bool claim_exists(const char *xml)
{
	struct claim claim;

	return claim_is_possible(xml) &&
	       (claim_parse(&claim, xml, strlen(xml), NULL) < 0 || claim.n_vfs > 0);
}
