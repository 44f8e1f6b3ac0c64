/* SPDX-License-Identifier: MIT */
/*
 * Changes a domain's claim: in its definition and, if it runs, in the running domain, or in
 * neither. vgpud is asked about both before the first is written, as the hook asks it at the VM's
 * start: a definition with a claim that vgpud refuses is a domain that cannot start.
 */
#include "set.h"

#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "claim.h"
#include "control_client.h"
#include "edit.h"
#include "exit_code.h"
#include "named.h"
#include "nova.h"
#include "vgpu/number.h"

#define KEY "vgpu"

/* One of the domain's two descriptions. */
struct side {
	const char *name;
	unsigned affect, xml; /* flags of virDomain...Metadata, and of virDomainGetXMLDesc */
	char *old, *new;      /* the claim's text */
	struct claim before, after;
};

__attribute__((format(printf, 2, 3))) static bool say(virDomainPtr d, const char *format, ...)
{
	char text[1024];
	va_list args;

	/* First: virDomainGetName frees libvirt's last error, which may be among the arguments. */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "vgpud-libvirt: %s%s%s\n", d ? virDomainGetName(d) : "", d ? ": " : "",
		text);
	return false;
}

/* Prints why there is no claim to change: a Nova server's claim is its flavor. */
static bool say_why_not(virDomainPtr d, const struct side *s)
{
	char why[300], uuid[VIR_UUID_STRING_BUFLEN] = "";
	char *nova;

	/* virDomainGetName and others overwrite libvirt's last error. */
	snprintf(why, sizeof(why), "%s", virGetLastErrorMessage());
	nova = virDomainGetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, NOVA_URI, s->affect);
	if (!nova)
		return say(d, "%s has no claim to change: %s", s->name, why);
	free(nova);
	virDomainGetUUIDString(d, uuid);
	return say(d,
		   "this is a server of OpenStack Nova, and its flavor is its claim: choose "
		   "another flavor with 'openstack server resize --flavor FLAVOR %s'; nothing was "
		   "changed",
		   uuid);
}

/* Reads and changes the claim, in memory. Returns false if it cannot, with the reason on stderr. */
static bool prepare(virDomainPtr d, struct side *s, int n, char **changes)
{
	struct vgpu_error err, unused;

	s->old = virDomainGetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, CLAIM_URI, s->affect);
	if (!s->old)
		return say_why_not(d, s);
	s->new = edit_claim(s->old, n, changes);
	if (!s->new)
		return false;
	/* The old claim may be wrong: then it is what the change mends. */
	claim_parse(&s->before, s->old, strlen(s->old), &unused);
	if (claim_parse(&s->after, s->new, strlen(s->new), &err) < 0)
		return say(d, "%s", err.text);
	return true;
}

/* Asks vgpud whether it accepts the changed claim. Returns false if not, with the reason on stderr.
 */
static bool ask_vgpud(virDomainPtr d, const struct side *s, int vgpud)
{
	struct json_object *args = json_object_new_object(), *result = NULL;
	char *xml = virDomainGetXMLDesc(d, s->xml);
	struct vgpu_error err;
	int r;

	json_object_object_add(args, "xml", json_object_new_string(xml ? xml : ""));
	json_object_object_add(args, "claim", json_object_new_string(s->new));
	json_object_object_add(args, "next_start",
			       json_object_new_boolean(s->affect == VIR_DOMAIN_AFFECT_CONFIG));
	free(xml);
	r = client_call(vgpud, "vm.check", args, &result, &err);
	json_object_put(result);
	return r == 0 ? true : say(NULL, "%s; nothing was changed", err.text);
}

static bool write_claim(virDomainPtr d, const struct side *s, const char *claim)
{
	return virDomainSetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, claim, KEY, CLAIM_URI,
				    s->affect) == 0;
}

/* Writes all sides; if one cannot be written, those before it get their old claim back. */
static bool write_all(virDomainPtr d, struct side *const *sides, int n)
{
	char why[300];
	int i;

	for (i = 0; i < n && write_claim(d, sides[i], sides[i]->new); i++)
		;
	if (i == n)
		return true;
	snprintf(why, sizeof(why), "%s", virGetLastErrorMessage());
	say(d, "%s cannot be changed: %s", sides[i]->name, why);
	while (--i >= 0) {
		if (write_claim(d, sides[i], sides[i]->old))
			continue;
		snprintf(why, sizeof(why), "%s", virGetLastErrorMessage());
		say(d, "%s is still changed, because its old claim could not be restored: %s",
		    sides[i]->name, why);
	}
	return false;
}

static const char *value_of(const struct claim *claim, const char *vf, const char *param)
{
	uint32_t i, p;

	for (i = 0; i < claim->n_vfs; i++)
		for (p = 0; p < claim->vfs[i].n_params; p++)
			if (strcmp(claim->vfs[i].name, vf) == 0 &&
			    strcmp(claim->vfs[i].params[p].name, param) == 0)
				return claim->vfs[i].params[p].value;
	return "not claimed";
}

/* Returns whether a change was given in parts per million: NAME is the parameter's. */
static bool was_given(const char *name, int n, char **changes)
{
	size_t length = strlen(name);
	const char *given;
	int i;

	for (i = 0; i < n; i++) {
		given = strchr(changes[i], ':');
		given = given && given < strchrnul(changes[i], '=') ? given + 1 : changes[i];
		if (strncmp(given, name, length) == 0 && given[length] == '=')
			return true;
	}
	return false;
}

/* Writes a parameter's name and value in the unit of the claim, percent, unless the user has given
 * it in parts per million. */
static void show(const char *name, const char *value, bool in_ppm, char *out_name, char *out,
		 size_t size)
{
	size_t length = strlen(name);
	int64_t ppm;

	snprintf(out_name, size, "%s", name);
	snprintf(out, size, "%s", value);
	if (in_ppm || length < 5 || strcmp(name + length - 4, "_ppm") != 0)
		return;
	snprintf(out_name, size, "%.*s", (int)length - 4, name);
	if (vgpu_parse_int(value, &ppm) == 0)
		snprintf(out, size, "%g %%", (double)ppm / 1e4);
}

/* Says what has changed. */
static void report(virDomainPtr d, const struct side *s, int n, char **changes)
{
	char name[40], is[40], was[40];
	const struct claim_vf *vf;
	const char *before;
	bool any = false, in_ppm;
	uint32_t i, p;

	for (i = 0; i < s->after.n_vfs; i++)
		for (vf = &s->after.vfs[i], p = 0; p < vf->n_params; p++) {
			before = value_of(&s->before, vf->name, vf->params[p].name);
			if (strcmp(before, vf->params[p].value) == 0)
				continue;
			in_ppm = was_given(vf->params[p].name, n, changes);
			show(vf->params[p].name, before, in_ppm, name, was, sizeof(was));
			show(vf->params[p].name, vf->params[p].value, in_ppm, name, is, sizeof(is));
			printf("%s/%s, %s: %s %s -> %s\n", virDomainGetName(d), vf->name, s->name,
			       name, was, is);
			any = true;
		}
	if (!any)
		printf("%s, %s: the claim has these values already\n", virDomainGetName(d),
		       s->name);
}

static bool set_domain(virDomainPtr d, int vgpud, int n, char **changes)
{
	struct side config = {.name = "the definition",
			      .affect = VIR_DOMAIN_AFFECT_CONFIG,
			      .xml = VIR_DOMAIN_XML_INACTIVE},
		    live = {.name = "the running VM", .affect = VIR_DOMAIN_AFFECT_LIVE};
	struct side *sides[2];
	int n_sides = 0, i;
	bool ok = true;

	if (virDomainIsPersistent(d) == 1)
		sides[n_sides++] = &config;
	if (virDomainIsActive(d) == 1)
		sides[n_sides++] = &live;
	if (n_sides == 0)
		return say(d, "libvirt does not say whether the domain runs or is defined: %s",
			   virGetLastErrorMessage());
	for (i = 0; i < n_sides && ok; i++)
		ok = prepare(d, sides[i], n, changes);
	for (i = 0; i < n_sides && ok; i++)
		ok = ask_vgpud(d, sides[i], vgpud);
	ok = ok && write_all(d, sides, n_sides);
	for (i = 0; i < n_sides; i++) {
		if (ok)
			report(d, sides[i], n, changes);
		free(sides[i]->old);
		free(sides[i]->new);
	}
	return ok;
}

int set(const char *uri, const char *socket, int argc, char **argv)
{
	virConnectPtr c = NULL;
	virDomainPtr d = NULL;
	struct vgpu_error err;
	int vgpud, code = EXIT_OK;

	if (argc < 2) {
		say(NULL, "set: want DOMAIN [VF:]NAME=VALUE...");
		return EXIT_USAGE;
	}
	vgpud = client_connect(socket, &err);
	if (vgpud < 0) {
		say(NULL, "cannot reach vgpud to validate the change: %s; nothing was changed",
		    err.text);
		return vgpud == -EACCES ? EXIT_DENIED : EXIT_NO_DAEMON;
	}
	c = virConnectOpen(uri);
	d = c ? domain_of(c, argv[0]) : NULL;
	if (!d) {
		code = refused_code();
		say(NULL, "%s: %s", argv[0], virGetLastErrorMessage());
	} else if (!set_domain(d, vgpud, argc - 1, argv + 1)) {
		code = EXIT_FAILED;
	}
	if (d)
		virDomainFree(d);
	if (c)
		virConnectClose(c);
	close(vgpud);
	return code;
}
