/* SPDX-License-Identifier: MIT */
/*
 * Claims in domain XML: what claim_parse reads, what it refuses and with which message, and that
 * the schema and the parser agree.
 */
#include <errno.h>
#include <libxml/relaxng.h>
#include <stdlib.h>

#include "suite.h"
#include "claim.h"

#define NS "xmlns='" CLAIM_URI "'"
#define DOMAIN_START                                                                               \
	"<domain type='kvm'>\n<name>vm1</name>\n"                                                  \
	"<uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid>\n<metadata>\n"                          \
	"<o:x xmlns:o='urn:other'><o:vgpu/></o:x>\n"

static const char full[] = DOMAIN_START
	"<vgpu:vgpu xmlns:vgpu='" CLAIM_URI "' version='1'>\n"
	"<!-- two VFs -->\n"
	"<vgpu:vf name='gpu0' alias='ua-vgpu0'>\n"
	"  <vgpu:device gpu='gpu0' vf='3'/>\n"
	"  <vgpu:profile>office</vgpu:profile><vgpu:memory unit='MiB'>4096</vgpu:memory>\n"
	"  <vgpu:lifecycle on-hang='stop' on-release='scrub' binding='static'/>\n"
	"  <vgpu:sched policy='qos'>\n"
	"    <vgpu:weight>200</vgpu:weight><vgpu:latency-slice unit='ms'>4</vgpu:latency-slice>\n"
	"    <vgpu:share min='10' max='50.5'/><vgpu:param name='burst_ms' value='20'/>\n"
	"  </vgpu:sched>\n</vgpu:vf>\n"
	"<vgpu:vf name='gpu1'><vgpu:sched><vgpu:priority>low</vgpu:priority>\n"
	"<vgpu:deadline budget-us='2000' period-us='10000'/></vgpu:sched></vgpu:vf>\n"
	"</vgpu:vgpu>\n</metadata>\n<devices>\n"
	"<hostdev mode='subsystem' type='usb'><source><address bus='1' "
	"device='2'/></source></hostdev>\n"
	"<hostdev mode='subsystem' type='pci' managed='no'><source>\n"
	"<address domain='0x0000' bus='0x41' slot='0x01' function='0x3'/></source>\n"
	"<alias name='ua-vgpu0'/><address type='pci' bus='0x05'/></hostdev>\n"
	"</devices>\n<q:override xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>"
	"<q:device alias='ua-other'><q:frontend><q:property name='vf-token' value='1'/>"
	"</q:frontend></q:device><q:device alias='ua-vgpu0'><q:frontend>"
	"<q:property name='x-no-mmap' type='bool' value='true'/>"
	"<q:property name='vf-token' type='string' value='0b9ad3ae-6dc5-4e49-b0cb-d46a5a4b4b7e'/>"
	"</q:frontend></q:device></q:override>"
	"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>"
	"<q:arg value='-device'/><q:arg value='{\"driver\":\"e1000\",\"id\":\"n\"}'/>"
	"<q:arg value='{\"driver\":\"vfio-user-pci\",\"socket\":[1]}'/><q:arg value='{'/><q:arg/>"
	"<q:arg value='{\"driver\":\"vfio-user-pci\",\"id\":\"ua-vgpu1\",\"bus\":\"pci.1\","
	"\"socket\":{\"type\":\"unix\",\"path\":\"/run/softgpu/soft0/vf1.sock\"}}'/>"
	"</q:commandline></domain>";

static struct claim claim;
static struct vgpu_error err;

static int parse(const char *text)
{
	return claim_parse(&claim, text, strlen(text), &err);
}

static const char *value_of(const struct claim_vf *s, const char *name)
{
	uint32_t i;

	for (i = 0; i < s->n_params; i++)
		if (strcmp(s->params[i].name, name) == 0)
			return s->params[i].value;
	return "";
}

TEST(whole_domain, "a whole domain is read")
{
	const struct claim_vf *s = claim.vfs;

	CU_ASSERT_EQUAL_FATAL(parse(full), 0);
	CU_ASSERT_STRING_EQUAL(claim.domain, "vm1");
	CU_ASSERT_STRING_EQUAL(claim.uuid, "8a1f0b3c-0000-4000-8000-000000000001");
	CU_ASSERT(claim.required);
	CU_ASSERT_EQUAL(claim.n_vfs, 2);
	CU_ASSERT_STRING_EQUAL(s[0].name, "gpu0");
	CU_ASSERT_STRING_EQUAL(s[0].alias, "ua-vgpu0");
	CU_ASSERT_STRING_EQUAL(s[0].gpu, "gpu0");
	CU_ASSERT_EQUAL(s[0].vf, 3);
	CU_ASSERT_EQUAL(s[0].memory, UINT64_C(4096) << 20);
	CU_ASSERT_STRING_EQUAL(s[0].policy, "qos");
	CU_ASSERT_EQUAL(s[0].n_params, 5);
	CU_ASSERT_STRING_EQUAL(value_of(&s[0], "weight"), "200");
	CU_ASSERT_STRING_EQUAL(value_of(&s[0], "latency_slice_us"), "4000");
	CU_ASSERT_STRING_EQUAL(value_of(&s[0], "min_ppm"), "100000");
	CU_ASSERT_STRING_EQUAL(value_of(&s[0], "max_ppm"), "505000");
	CU_ASSERT_STRING_EQUAL(value_of(&s[0], "burst_ms"), "20");
	CU_ASSERT_EQUAL(s[0].line, 8);
	CU_ASSERT_STRING_EQUAL(s[0].profile, "office");
	CU_ASSERT_EQUAL(s[0].on_hang, CLAIM_STOP);
	CU_ASSERT_EQUAL(s[1].on_hang, CLAIM_GO_ON);
	CU_ASSERT_EQUAL(s[1].vf, -1);
	CU_ASSERT_STRING_EQUAL(value_of(&s[1], "class"), "6");
	CU_ASSERT_STRING_EQUAL(value_of(&s[1], "budget_us"), "2000");
	CU_ASSERT_STRING_EQUAL(value_of(&s[1], "period_us"), "10000");
	CU_ASSERT_STRING_EQUAL(claim.hostdevs[0].address, "0000:41:01.3");
	CU_ASSERT_STRING_EQUAL(claim.hostdevs[0].alias, "ua-vgpu0");
	CU_ASSERT_STRING_EQUAL(claim.hostdevs[0].token, "0b9ad3ae-6dc5-4e49-b0cb-d46a5a4b4b7e");
	CU_ASSERT_EQUAL(claim.n_hostdevs, 2);
	CU_ASSERT_STRING_EQUAL(claim.hostdevs[1].address, "/run/softgpu/soft0/vf1.sock");
	CU_ASSERT_STRING_EQUAL(claim.hostdevs[1].alias, "ua-vgpu1");
}

/* With a prefix, without one, and as virDomainGetMetadata returns it. */
TEST(three_forms, "a claim has three forms")
{
	CU_ASSERT_EQUAL(parse("<vgpu " NS " version='1'><vf name='a'/></vgpu>"), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 1);
	CU_ASSERT_EQUAL(parse("<vgpu version='1' required='no'><vf name='a'/></vgpu>"), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 1);
	CU_ASSERT(!claim.required);
}

TEST(no_claim, "a domain without a claim is accepted")
{
	CU_ASSERT_EQUAL(parse("<domain><name>a</name></domain>"), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 0);
	CU_ASSERT_EQUAL(parse(DOMAIN_START "</metadata></domain>"), 0);
	CU_ASSERT_EQUAL(claim.n_vfs, 0);
	/* Another version of our namespace is ignored, like any foreign namespace. */
	CU_ASSERT_EQUAL(parse("<domain><metadata><vgpu xmlns='urn:vgpud:xmlns:domain:2'/>"
			      "</metadata></domain>"),
			0);
	CU_ASSERT_EQUAL(claim.n_vfs, 0);
}

#define VF(x) "<vgpu " NS " version='1'>\n<vf name='a'>\n" x "</vf></vgpu>"
#define SCHED(x) VF("<sched>" x "</sched>")

/* Texts that are refused, the parser's message, and whether the schema is unable to detect the
 * mistake. */
static const struct {
	const char *text, *says;
	bool beyond_schema;
} bad[] = {
	{"", "line 1: not XML", true},
	{"cow", "line 1: not XML", true},
	{"<vgpu " NS " version='1'>\n<vf name='a'>", "line 2: not XML", true},
	{"<!DOCTYPE a [<!ENTITY b 'c'>]><vgpu " NS " version='1'><vf name='a'/></vgpu>",
	 "document type", true},
	{"<html/>", "<html> is neither", false},
	{"<vgpu " NS " version='2'><vf name='a'/></vgpu>", "version = '2'", false},
	{"<vgpu " NS "><vf name='a'/></vgpu>", "version = ''", false},
	{"<vgpu " NS " version='1' required='maybe'><vf name='a'/></vgpu>", "yes or no", false},
	{"<vgpu " NS " version='1'/>", "has no <vf>", false},
	{"<vgpu " NS " version='1'><vf/></vgpu>", "has no name", false},
	{"<vgpu " NS " version='1'><vf name='-a'/></vgpu>", "want letters", false},
	{"<vgpu " NS " version='1'><vf name='a'/>\n<vf name='a'/></vgpu>",
	 "line 2: two VFs are named 'a'", true},
	{"<vgpu " NS " version='1'><vf name='a' alias='gpu'/></vgpu>", "begin with 'ua-'", false},
	{"<vgpu " NS " version='1'><vf name='a' colour='red'/></vgpu>", "no attribute 'colour'",
	 false},
	{"<vgpu " NS " version='1'><slice name='a'/></vgpu>", "<slice> is now <vf>", false},
	{VF("<sched><slice-length>1</slice-length></sched>"),
	 "<slice-length> is now <latency-slice>", false},
	{VF("<memmory>5</memmory>"), "line 3: <memmory> is not known in <vf>", false},
	{VF("<memory>5</memory><memory>6</memory>"), "<memory> is given twice", false},
	{VF("text"), "<vf> cannot contain text", false},
	{VF("<memory>0</memory>"), "not a whole number above 0", false},
	{VF("<memory>9000000000000000000</memory>"), "not a whole number above 0", true},
	{VF("<memory unit='MB'>5</memory>"), "unit 'MB' is not known", false},
	{VF("<device gpu='a' pool='b'/>"), "gpu or pool, not both", false},
	{VF("<device gpu='a' vf='64'/>"), "want 0 to 63", false},
	{VF("<device vf='1'/>"), "name that GPU with gpu", false},
	{VF("<profile/>"), "<profile>: want a name", false},
	{VF("<profile>a b</profile>"), "profile = 'a b': want letters", false},
	{VF("<lifecycle on-hang='reboot'/>"), "want one of: reset, pause, stop", false},
	{VF("<lifecycle on-release='keep'/>"), "on-release = 'keep': want one of: scrub", false},
	{VF("<lifecycle binding='static'/>"), "needs the alias of a device", true},
	{SCHED("<weight>heavy</weight>"), "<weight>: 'heavy'", false},
	{SCHED("<weight unit='ms'>5</weight>"), "unit 'ms' is not known", false},
	{SCHED("<share min='101'/>"), "want percent", false},
	{SCHED("<share min='12.345'/>"), "want percent", false},
	{SCHED("<share min='1e1'/>"), "want percent", false},
	{SCHED("<priority>urgent</priority>"), "none of highest", false},
	{SCHED("<deadline budget-us='5'/>"), "want budget-us and period-us", false},
	{SCHED("<param name='slots'/>"), "want name and value", false},
	{SCHED("<weight>5</weight><param name='weight' value='6'/>"), "weight is given twice",
	 true},
	{SCHED("<param name='a23456789012345678901234567890123' value='1'/>"),
	 "longer than 31 bytes", false},
};

TEST(refusals, "each refusal says line and reason")
{
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse(bad[i].text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i].says));
		if (!strstr(err.text, bad[i].says))
			printf("\n  '%s' does not say '%s'\n", err.text, bad[i].says);
		CU_ASSERT_EQUAL(claim.n_vfs, 0);
	}
	CU_ASSERT_EQUAL(claim_parse(&claim, full, CLAIM_MAX_BYTES + 1, &err), -E2BIG);
}

/* Appends TEXT N times, each time with another number in place of '#'. */
static void put_many(FILE *f, const char *text, unsigned n)
{
	size_t before = strcspn(text, "#");
	unsigned i;

	for (i = 0; i < n; i++)
		fprintf(f, "%.*s%u%s", (int)before, text, i, text + before + (text[before] != 0));
}

/* XML that would keep libxml2 busy for long does not reach it. Texts exactly at the limits are
 * still read, and text that only looks like an attribute or a namespace does not count. */
TEST(shapes, "XML that libxml2 parses slowly is refused")
{
	static const struct {
		const char *before, *many, *after;
		unsigned n;
		const char *says; /* NULL: the text is accepted */
	} cases[] = {
		{"<domain><a ", "a#='' ", "/></domain>", 256, NULL},
		{"<domain>\n<a ", "a#='' ", "/></domain>", 257,
		 "line 2: an element has 257 attributes; at most 256 are read"},
		{"<domain><a ", "a#='>' ", "/></domain>", 90000, "has 90000 attributes"},
		{"<domain>", "<a xmlns:n#='urn:n'/>", "</domain>", 64, NULL},
		{"<domain>\n", "<a xmlns:n#='urn:n'/>", "</domain>", 65,
		 "line 2: more than 64 namespaces"},
		{"<domain><!-- <a ", "xmlns:a#='' ", "/> --></domain>", 300, NULL},
		{"<domain><a b='", "xmlns:a#= ", "'/></domain>", 300, NULL},
		{"<domain>", "xmlns:a#='' ", "</domain>", 300, NULL},
		{"<domain>", "<a#/>", "</domain>", 32766, NULL},
		{"<domain>", "<a#/>", "</domain>", 32767, "the XML has 32769 '<'; at most 32768"},
		{"<domain>", "<a#", "", 100000, "the XML has 100001 '<'"},
		{"<?xml version='1.0' encoding='UTF-7'?><domain>", "+ADw-a#/+AD4-", "</domain>", 3,
		 NULL},
	};
	char *text;
	size_t size, i;
	FILE *f;
	int r;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_memstream(&text, &size);
		fputs(cases[i].before, f);
		put_many(f, cases[i].many, cases[i].n);
		fputs(cases[i].after, f);
		fclose(f);
		err.text[0] = '\0';
		r = parse(text);
		CU_ASSERT_EQUAL(r, cases[i].says ? -EINVAL : 0);
		CU_ASSERT_EQUAL(claim.required, cases[i].says != NULL);
		CU_ASSERT(!cases[i].says || strstr(err.text, cases[i].says));
		if (r < 0 && (!cases[i].says || !strstr(err.text, cases[i].says)))
			printf("\n  %zu: %s\n", i, err.text);
		free(text);
	}
}

static xmlRelaxNG *schema;

static bool is_valid(const char *text)
{
	xmlDoc *doc = xmlReadMemory(text, (int)strlen(text), NULL, NULL,
				    XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	xmlRelaxNGValidCtxt *c = xmlRelaxNGNewValidCtxt(schema);
	int r = -1;

	xmlRelaxNGSetValidErrors(c, NULL, NULL, NULL);
	if (doc)
		r = xmlRelaxNGValidateDoc(c, doc);
	xmlRelaxNGFreeValidCtxt(c);
	xmlFreeDoc(doc);
	return r == 0;
}

static void ignore(void *, const char *, ...)
{
}

TEST(schema_agrees, "the schema and the reader agree")
{
	static const char *const good[] = {
		"<vgpu " NS " version='1'><vf name='a'/></vgpu>",
		VF("<device gpu='a' vf='63'/><memory unit='GiB'>1</memory>"),
		VF("<device pool='a'/>"),
		VF("<profile>a</profile><lifecycle on-hang='pause' binding='auto'/>"),
		VF("<lifecycle on-release='scrub'/>"),
		VF("<device/>"),
		SCHED("<share min='0' max='100'/><weight>1</weight>"
		      "<priority>highest</priority><param name='slots' value='2'/>"),
		SCHED("<deadline budget-us='1' period-us='2'/><latency-slice>1</latency-slice>"),
	};
	xmlRelaxNGParserCtxt *c = xmlRelaxNGNewParserCtxt(SCHEMA);
	size_t i;

	xmlSetGenericErrorFunc(NULL, ignore);
	schema = xmlRelaxNGParse(c);
	xmlRelaxNGFreeParserCtxt(c);
	CU_ASSERT_PTR_NOT_NULL_FATAL(schema);
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CU_ASSERT_EQUAL(parse(good[i]), 0);
		CU_ASSERT(is_valid(good[i]));
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!bad[i].beyond_schema && is_valid(bad[i].text))
			printf("\n  the schema allows %s\n", bad[i].text);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT(bad[i].beyond_schema || !is_valid(bad[i].text));
	xmlRelaxNGFree(schema);
}

/* A domain damaged at random places gives an error or a claim, and never a crash. */
TEST(damage, "random damage gives an error or a claim")
{
	char text[sizeof(full)];
	uint32_t i, n, good = 0;

	srand(11);
	for (i = 0; i < 20000; i++) {
		memcpy(text, full, sizeof(full));
		for (n = (uint32_t)rand() % 3 + 1; n > 0; n--)
			text[(size_t)rand() % (sizeof(full) - 1)] = "<>/='a9.\0&-"[rand() % 11];
		good += claim_parse(&claim, text,
				    (size_t)rand() % 8 ? sizeof(full) - 1
						       : (size_t)rand() % sizeof(full),
				    &err) == 0;
		CU_ASSERT(claim.n_vfs <= CLAIM_MAX_VFS);
	}
	CU_ASSERT(good > 0 && good < i);
}

#define DOMAIN(vf, devices)                                                                        \
	"<domain type='kvm'><name>vm1</name><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' " \
	"version='1'>" vf "</v:vgpu></metadata><devices>" devices "</devices>"
#define BY_ALIAS "<v:vf name='a' alias='ua-g'/>"
#define PCI(managed, alias)                                                                        \
	"<hostdev mode='subsystem' type='pci'" managed "><source><address domain='0x0000' "        \
	"bus='0x41' slot='0x01' function='0x3'/></source>" alias "</hostdev>"
#define ALIAS "<alias name='ua-g'/>"
#define ARGS(args)                                                                                 \
	"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>" args                \
	"</q:commandline></domain>"

/* What is wrong with the device of the only claim of TEXT; "": nothing. */
static const char *wrong(const char *text)
{
	err.text[0] = '\0';
	CU_ASSERT_EQUAL_FATAL(parse(text), 0);
	CU_ASSERT_EQUAL_FATAL(claim.n_vfs, 1);
	CU_ASSERT_EQUAL(claim_check_device(&claim, &claim.vfs[0], &err) == 0, !err.text[0]);
	return err.text;
}

static const char *address_with(const char *text)
{
	const struct claim_hostdev *h;

	if (wrong(text)[0])
		return err.text;
	h = claim_device_of(&claim, &claim.vfs[0]);
	return h ? h->address : "";
}

static bool has(const char *text, const char *words)
{
	return strstr(text, words) != NULL;
}

/* A domain with N other devices before the claim's. */
static const char *with_others(int n)
{
	static char text[40000];
	size_t at = (size_t)snprintf(text, sizeof(text), "%s", DOMAIN(BY_ALIAS, ""));

	at -= strlen("</devices>");
	for (; n > 0; n--)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "<hostdev type='pci'><source><address bus='%d'/></source>"
				       "</hostdev>",
				       n);
	snprintf(text + at, sizeof(text) - at, "%s", PCI("", ALIAS) "</devices></domain>");
	return text;
}

/* A claim's device is a VF that libvirt leaves to vgpud, however the domain has it. */
TEST(devices, "a claim's device is a VF that libvirt leaves to vgpud")
{
	const char *at = "0000:41:01.3";

	CU_ASSERT(has(wrong(DOMAIN(BY_ALIAS, "") "</domain>"), "no <hostdev> with alias ua-g"));
	CU_ASSERT(has(wrong(DOMAIN(BY_ALIAS, "<hostdev mode='subsystem' type='mdev' "
					     "model='vfio-pci'><source><address uuid='c2177883-"
					     "f1bb-47f0-914d-32a22e3a8804'/></source>" ALIAS
					     "</hostdev>") "</domain>"),
		      "is of type mdev and no VF"));
	CU_ASSERT(has(wrong(DOMAIN(BY_ALIAS, PCI(" managed='yes'", ALIAS)) "</domain>"),
		      "at 0000:41:01.3 has managed='yes'"));
	CU_ASSERT_STRING_EQUAL(address_with(DOMAIN(BY_ALIAS, PCI("", ALIAS)) "</domain>"), at);
	CU_ASSERT_STRING_EQUAL(address_with(DOMAIN("<v:vf name='a'/>", "") "</domain>"), "");
	CU_ASSERT_STRING_EQUAL(
		address_with(DOMAIN(BY_ALIAS, "") ARGS(
			"<q:arg value='-device'/><q:arg value='vfio-pci,host=41:01.3,id=ua-g'/>")),
		at);
	CU_ASSERT_STRING_EQUAL(
		address_with(DOMAIN(BY_ALIAS, "") ARGS(
			"<q:arg value='{\"driver\":\"vfio-pci\",\"sysfsdev\":"
			"\"/sys/bus/pci/devices/0000:41:01.3\",\"id\":\"ua-g\"}'/>")),
		at);
	CU_ASSERT_STRING_EQUAL(address_with(DOMAIN(BY_ALIAS, "") ARGS(
				       "<q:arg value='vfio-user-pci,id=ua-g,socket.path=/s'/>")),
			       "/s");
	CU_ASSERT(has(wrong(DOMAIN(BY_ALIAS, "") ARGS(
			      "<q:arg value='vfio-pci,id=ua-g,sysfsdev=/sys/bus/mdev/devices/"
			      "c2177883-f1bb-47f0-914d-32a22e3a8804'/>")),
		      "and no VF"));
	/* The device counts, wherever it stands; more devices than are read are an error. */
	CU_ASSERT_STRING_EQUAL(address_with(with_others(40)), at);
	CU_ASSERT_EQUAL(parse(with_others(300)), -EINVAL);
	CU_ASSERT(has(err.text, "more than 256 devices of the host"));
}

SUITE_MAIN("claims of domains")
