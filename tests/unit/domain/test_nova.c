/* SPDX-License-Identifier: MIT */
/*
 * The claim in a domain that OpenStack Nova writes: what its flavor amounts to, compared with the
 * same claim in our own words; what is refused; and that nothing that a tenant writes is read.
 */
#include <errno.h>
#include <stdlib.h>

#include "suite.h"
#include "claim.h"

#define UUID "8a1f0b3c-0000-4000-8000-000000000001"
/* As nova/virt/libvirt/config.py writes it; extraSpecs and the properties since Nova 32. */
#define INSTANCE(name, flavor, specs, image)                                                       \
	"<domain type='kvm'>\n<name>instance-00000001</name>\n<uuid>" UUID "</uuid>\n"             \
	"<metadata>\n<nova:instance "                                                              \
	"xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>\n"                              \
	"<nova:package version='34.0.0'/>\n<nova:name>" name "</nova:name>\n"                      \
	"<nova:creationTime>2026-11-22 10:00:00</nova:creationTime>\n"                             \
	"<nova:flavor name='" flavor "' id='42'>\n<nova:memory>64</nova:memory>\n" specs           \
	"</nova:flavor>\n<nova:image uuid='x'>" image "</nova:image>\n"                            \
	"<nova:owner><nova:user uuid='u'>admin</nova:user></nova:owner>\n</nova:instance>\n"
#define SPECS(x) "<nova:extraSpecs>\n" x "</nova:extraSpecs>\n"
#define SPEC(key, value) "<nova:extraSpec name='" key "'>" value "</nova:extraSpec>\n"
#define OURS(vfs) "<vgpu xmlns='" CLAIM_URI "' version='1'>" vfs "</vgpu>"

static struct claim claim, same;
static struct vgpu_error err;

/* Parses a domain that begins with INSTANCE, with MORE metadata, and DEVICES. */
static int parse(const char *instance, const char *more, const char *devices)
{
	char *text;
	int r;

	CU_ASSERT_FATAL(asprintf(&text, "%s%s</metadata>\n<devices>%s</devices></domain>", instance,
				 more, devices) > 0);
	err.text[0] = '\0';
	r = claim_parse(&claim, text, strlen(text), &err);
	free(text);
	return r;
}

/* Flavors, and the claims to which they amount in our own words; NULL: none. */
static const struct {
	const char *xml, *ours;
} good[] = {
	{INSTANCE("web", "m1.small", "", ""), NULL},
	{INSTANCE("web", "m1.small", SPECS(""), ""), NULL},
	{INSTANCE("web", "m1.small",
		  SPECS(SPEC("hw:cpu_policy", "dedicated") SPEC("resources:CUSTOM_LICENCE", "1")
				SPEC("trait:CUSTOM_VGPUD", "required")),
		  ""),
	 NULL},
	/* Up to Nova 31 there is only the name. */
	{INSTANCE("web", "vgpud.office", "", ""),
	 OURS("<vf name='vgpu'><profile>office</profile></vf>")},
	{INSTANCE("web", "vgpud.office", SPECS(SPEC("hw:cpu_policy", "shared")), ""),
	 OURS("<vf name='vgpu'><profile>office</profile></vf>")},
	/* What the extra specs say counts more than the name. */
	{INSTANCE("web", "vgpud.office",
		  SPECS(SPEC("resources:CUSTOM_VGPUD_SHARE", "255")
				SPEC("resources:CUSTOM_VGPUD_MEMORY_MB", "64")
					SPEC("resources:CUSTOM_VGPUD_VF", "1")),
		  ""),
	 OURS("<vf name='vgpu'><memory unit='MiB'>64</memory><sched><share "
	      "min='25.5'/></sched></vf>")},
	{INSTANCE("web", "any",
		  SPECS(SPEC("resources_V:CUSTOM_VGPUD_SHARE", "1000")
				SPEC("vgpud:share_max", "100")),
		  ""),
	 OURS("<vf name='V'><sched><share min='100' max='100'/></sched></vf>")},
	/* Each group is a VF; keys are for all of them. */
	{INSTANCE("web", "any",
		  SPECS(SPEC("vgpud:pool", "render") SPEC("resources1:CUSTOM_VGPUD_SHARE", "1")
				SPEC("resources_B:CUSTOM_VGPUD_VF", "1")
					SPEC("resources1:CUSTOM_VGPUD_MEMORY_MB", "16")
						SPEC("vgpud:weight", "300")),
		  ""),
	 OURS("<vf name='1'><device pool='render'/><memory unit='MiB'>16</memory>"
	      "<sched><share min='0.1'/><weight>300</weight></sched></vf>"
	      "<vf name='B'><device pool='render'/><sched><weight>300</weight></sched></vf>")},
	/* All keys. */
	{INSTANCE("web", "any",
		  SPECS(SPEC("vgpud:profile", "office") SPEC("vgpud:policy", "qos") SPEC(
			  "vgpud:latency_slice_us", "4000") SPEC("vgpud:budget_us", "2000")
				SPEC("vgpud:period_us", "10000") SPEC("vgpud:priority", "low")
					SPEC("vgpud:on_hang", "stop")
						SPEC("vgpud:param.burst_ms", "20")),
		  ""),
	 OURS("<vf name='vgpu'><profile>office</profile><sched policy='qos'>"
	      "<latency-slice>4000</latency-slice><deadline budget-us='2000' period-us='10000'/>"
	      "<priority>low</priority><param name='burst_ms' value='20'/></sched>"
	      "<lifecycle on-hang='stop'/></vf>")},
};

/* What must be equal; lines differ. */
static bool is_same(const struct claim_vf *a, const struct claim_vf *b)
{
	uint32_t i, j;

	if (strcmp(a->name, b->name) || strcmp(a->alias, b->alias) || strcmp(a->gpu, b->gpu) ||
	    strcmp(a->pool, b->pool) || strcmp(a->profile, b->profile) ||
	    strcmp(a->policy, b->policy) || a->vf != b->vf || a->memory != b->memory ||
	    a->on_hang != b->on_hang || a->n_params != b->n_params)
		return false;
	for (i = 0; i < a->n_params; i++) {
		for (j = 0; j < b->n_params && strcmp(a->params[i].name, b->params[j].name); j++)
			;
		if (j == b->n_params || strcmp(a->params[i].value, b->params[j].value) != 0)
			return false;
	}
	return true;
}

/* The claim of DOMAIN, which was parsed with this RESULT, is OURS. */
static void expect(const char *domain, int result, const char *ours)
{
	uint32_t k;

	if (result < 0)
		printf("\n  %s: %s\n", domain, err.text);
	CU_ASSERT_EQUAL_FATAL(result, 0);
	same = (struct claim){.n_vfs = 0};
	if (ours)
		CU_ASSERT_EQUAL(claim_parse(&same, ours, strlen(ours), &err), 0);
	CU_ASSERT_EQUAL_FATAL(claim.n_vfs, same.n_vfs);
	CU_ASSERT_EQUAL(claim.required, ours != NULL);
	for (k = 0; k < same.n_vfs; k++) {
		if (!is_same(&claim.vfs[k], &same.vfs[k]))
			printf("\n  %s: VF %u differs\n", domain, k);
		CU_ASSERT(is_same(&claim.vfs[k], &same.vfs[k]));
	}
}

TEST(flavors, "a flavor amounts to a claim")
{
	uint32_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		expect(good[i].xml, parse(good[i].xml, "", ""), good[i].ours);
		CU_ASSERT_STRING_EQUAL(claim.uuid, UUID);
	}
}

/* Domains as Nova 31 and 34 wrote them: tests/fleet has kept them. */
TEST(written, "so it does in domains that Nova wrote")
{
	static const struct {
		const char *file, *ours;
	} domains[] = {
		{"31-flavor.xml", OURS("<vf name='vgpu'><profile>least</profile></vf>")},
		{"31-name.xml", NULL},
		{"34-flavor.xml",
		 OURS("<vf name='vgpu'><memory unit='MiB'>16</memory><sched><share min='0.2'/>"
		      "</sched></vf>")},
		{"34-name.xml", NULL},
		{"34-specs.xml",
		 OURS("<vf name='A'><device pool='render'/><memory unit='MiB'>32</memory><sched>"
		      "<share min='10' max='50.5'/></sched><lifecycle on-hang='pause'/></vf>"
		      "<vf name='B'><device pool='render'/><memory unit='MiB'>48</memory><sched>"
		      "<share min='15' max='50.5'/></sched><lifecycle on-hang='pause'/></vf>")},
	};
	char path[512], text[65536];
	uint32_t i;
	size_t n;
	FILE *f;

	for (i = 0; i < sizeof(domains) / sizeof(domains[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", NOVA_DOMAINS, domains[i].file);
		f = fopen(path, "r");
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		n = fread(text, 1, sizeof(text), f);
		fclose(f);
		expect(domains[i].file, claim_parse(&claim, text, n, &err), domains[i].ours);
		CU_ASSERT_EQUAL(strlen(claim.uuid), 36);
	}
}

static const struct {
	const char *xml, *says;
} bad[] = {
	{INSTANCE("web", "any", SPECS(SPEC("vgpud:wieght", "5")), ""),
	 "Nova's flavor any: line 12: vgpud:wieght is not known: want one of profile, pool"},
	{INSTANCE("web", "any", SPECS(SPEC("vgpud:", "5")), ""), "vgpud: is not known"},
	{INSTANCE("web", "any", SPECS(SPEC("vgpud:weight", "heavy")), ""),
	 "Nova's flavor: line 12: <weight>: 'heavy' is not"},
	{INSTANCE("web", "any", SPECS("\n" SPEC("vgpud:share_max", "101")), ""),
	 "Nova's flavor: line 13: max = '101': want percent"},
	{INSTANCE("web", "any", SPECS(SPEC("resources:CUSTOM_VGPUD_SHARE", "1001")), ""),
	 "want per mille of one GPU"},
	{INSTANCE("web", "any", SPECS(SPEC("resources:CUSTOM_VGPUD_SHARE", "0")), ""),
	 "want a whole number above 0"},
	{INSTANCE("web", "any", SPECS(SPEC("resources:CUSTOM_VGPUD_SHARE", "12.5")), ""),
	 "want a whole number above 0"},
	{INSTANCE("web", "any", SPECS(SPEC("resources:CUSTOM_VGPUD_VF", "2")), ""),
	 "give each a group of its own"},
	{INSTANCE("web", "any", SPECS(SPEC("resources:CUSTOM_VGPUD_MEMORY", "2")), ""),
	 "vgpud knows the classes"},
	{INSTANCE("web", "any",
		  SPECS(SPEC("resources_A:CUSTOM_VGPUD_SHARE", "2")
				SPEC("resources-A:CUSTOM_VGPUD_SHARE", "3")),
		  ""),
	 "resources-A:CUSTOM_VGPUD_SHARE = '3': given twice for one VF"},
	{INSTANCE("web", "any",
		  SPECS(SPEC("resources_A:CUSTOM_VGPUD_MEMORY_MB", "2")
				SPEC("resources-A:CUSTOM_VGPUD_MEMORY_MB", "3")),
		  ""),
	 "given twice for one VF"},
	{INSTANCE("web", "any",
		  SPECS(SPEC("resources_A:CUSTOM_VGPUD_VF", "1")
				SPEC("resourcesA:CUSTOM_VGPUD_VF", "1")),
		  ""),
	 "resourcesA:CUSTOM_VGPUD_VF = '1': given twice for one VF"},
	{INSTANCE("web", "any", SPECS(SPEC("vgpud:weight", "5") SPEC("vgpud:param.weight", "5")),
		  ""),
	 "weight is given twice"},
	{INSTANCE("web", "vgpud.", "", ""), "<profile>: want a name"},
	{INSTANCE("web", "vgpud.a b", "", ""), "profile = 'a b'"},
	{INSTANCE("web", "any",
		  SPECS(SPEC("resources1:CUSTOM_VGPUD_VF", "1") SPEC(
			  "resources2:CUSTOM_VGPUD_VF", "1") SPEC("resources3:CUSTOM_VGPUD_VF", "1")
				SPEC("resources4:CUSTOM_VGPUD_VF",
				     "1") SPEC("resources5:CUSTOM_VGPUD_VF",
					       "1") SPEC("resources6:CUSTOM_VGPUD_VF", "1")
					SPEC("resources7:CUSTOM_VGPUD_VF", "1")
						SPEC("resources8:CUSTOM_VGPUD_VF", "1")
							SPEC("resources9:CUSTOM_VGPUD_VF", "1")),
		  ""),
	 "one VF too many"},
	{INSTANCE("web", "any",
		  SPECS(SPEC("vgpud:weight",
			     "000000000000000000000000000000000000000000000000000000000000000000000"
			     "00000000000"
			     "0000000000000000000000000000000000000000000000000000000000001")),
		  ""),
	 "too long"},
};

TEST(refusals, "a mistake in a flavor is refused with its line")
{
	uint32_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse(bad[i].xml, "", ""), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i].says));
		if (!strstr(err.text, bad[i].says))
			printf("\n  '%s' does not say '%s'\n", err.text, bad[i].says);
		CU_ASSERT_EQUAL(claim.n_vfs, 0);
		CU_ASSERT(claim.required);
	}
}

/* A domain whose name cannot be read is refused, also if its flavor is right. */
TEST(nameless, "a domain without a readable name is refused")
{
	static const char xml[] = INSTANCE("web", "vgpud.office", "", "");
	const char *name = strstr(xml, "instance-");
	char text[2000];

	snprintf(text, sizeof(text), "%.*s%0300d%s", (int)(name - xml), xml, 0, name);
	CU_ASSERT_EQUAL(parse(text, "", ""), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "name is longer than 255 bytes"));
	CU_ASSERT(claim.required);
}

/* What a tenant writes: a name that looks like a claim, image properties that look like extra
 * specs. They neither make a claim nor change one. */
#define LOOKS "&lt;vgpu xmlns='" CLAIM_URI "' version='1' required='no'&gt;&lt;vf name='a'/&gt;"
#define PROPERTY                                                                                   \
	"<nova:property name='vgpud:weight' value='5'/>" SPECS(SPEC("vgpud:weight", "10000"))
TEST(tenants, "nothing that a tenant writes is read")
{
	CU_ASSERT_EQUAL(parse(INSTANCE(LOOKS, "m1.small", "", PROPERTY), "", ""), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 0);
	CU_ASSERT(claim_is_possible(INSTANCE(LOOKS, "m1.small", "", "")));
	CU_ASSERT(claim_is_possible(INSTANCE("web", "vgpud.office", "", "")));
	CU_ASSERT(!claim_is_possible("<domain><name>vgpud</name></domain>"));
	CU_ASSERT_EQUAL(parse(INSTANCE("vgpud.office", "m1.small", "", PROPERTY), "", ""), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 0);
	CU_ASSERT_EQUAL(parse(INSTANCE(LOOKS, "vgpud.office", "", PROPERTY), "", ""), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 1);
	CU_ASSERT(claim.required);
	CU_ASSERT_EQUAL(claim.vfs[0].n_params, 0);
}

/* A claim of our own, which an operator adds to a running domain, counts instead of Nova's. */
TEST(ours_first, "a claim of our own counts instead")
{
	const char *xml = INSTANCE("web", "any", SPECS(SPEC("vgpud:weight", "5")), "");

	CU_ASSERT_EQUAL(parse(xml, OURS("<vf name='mine'/>"), ""), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 1);
	CU_ASSERT_STRING_EQUAL(claim.vfs[0].name, "mine");
	xml = INSTANCE("web", "any", SPECS(SPEC("vgpud:wieght", "5")), "");
	CU_ASSERT_EQUAL(parse(xml, OURS("<vf name='mine'/>"), ""), 0);
}

/* Whether libvirt manages a device: if not, vgpud may take it for the claim's. */
TEST(devices, "devices that libvirt manages are told apart")
{
#define DEVICE(managed, function)                                                                  \
	"<hostdev mode='subsystem' type='pci'" managed "><source><address domain='0x0000' "        \
	"bus='0x41' slot='0x01' function='" function "'/></source></hostdev>"
	CU_ASSERT_EQUAL(parse(INSTANCE("web", "vgpud.a", "", ""), "",
			      DEVICE(" managed='yes'", "0x1") DEVICE(" managed='no'", "0x2")
				      DEVICE("", "0x3")),
			0);
	CU_ASSERT_EQUAL_FATAL(claim.n_hostdevs, 3);
	CU_ASSERT(claim.hostdevs[0].managed);
	CU_ASSERT(!claim.hostdevs[1].managed);
	CU_ASSERT(!claim.hostdevs[2].managed);
	CU_ASSERT_EQUAL(claim.vfs[0].hostdev, -1);
}

/* Of Nova's domains vgpud-libvirt reports those that have a claim, and those whose claim cannot be
 * read. */
TEST(existence, "few of Nova's domains have a claim")
{
	static const char end[] = "</metadata></domain>";
	static const struct {
		const char *begin;
		bool exists;
	} domains[] = {
		{INSTANCE("web", "m1.small", "", ""), false},
		{INSTANCE("vgpud.office", "m1.small", SPECS(SPEC("hw:cpu_policy", "shared")), ""),
		 false},
		{INSTANCE("web", "vgpud.office", "", ""), true},
		{INSTANCE("web", "m1.small", SPECS(SPEC("vgpud:weight", "5")), ""), true},
		{INSTANCE("web", "m1.small", SPECS(SPEC("vgpud:wieght", "5")), ""), true},
		{INSTANCE("web", "m1.small", "", "") OURS("<vf name='a'/>"), true},
		{INSTANCE("web", "m1.small", "", "") OURS("<vf/>"), true},
		{INSTANCE("<", "m1.small", "", ""), true},
		{"<domain><metadata>", false},
	};
	char text[2000];
	size_t i;

	for (i = 0; i < sizeof(domains) / sizeof(domains[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", domains[i].begin, end);
		if (claim_exists(text) != domains[i].exists)
			printf("\n  %zu is wrong\n", i);
		CU_ASSERT_EQUAL(claim_exists(text), domains[i].exists);
	}
}

SUITE_MAIN("claims that Nova writes")
