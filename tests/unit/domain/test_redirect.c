/* SPDX-License-Identifier: MIT */
/*
 * Domains that come from another host: other addresses for their devices (redirect.h), and what
 * they say of where they come from (travel.h). What is expected is written from the same template
 * with other values, and compared byte for byte.
 */
#include <errno.h>
#include <stdlib.h>

#include "draw.h"
#include "redirect.h"
#include "suite.h"
#include "travel.h"

static struct vgpu_error err;

/* Two devices, as placeholders; what could be mistaken for them is everywhere. */
static const char template[] =
	"<?xml version='1.0' encoding='utf-8'?>\n"
	"<!-- <hostdev type='pci'><source><address domain='0x0000' bus='0x03' slot='0x00' "
	"function='0x1'/></source></hostdev> -->\n"
	"<?a <b c='d'> ?>\n"
	"<domain type='kvm'><metadata>\n"
	"  <x:n xmlns:x='urn:x' bus=\"0x03\">&lt;address bus='0x03'/&gt; &#x20AC; \xc3\xa4"
	"<![CDATA[<address domain='0x0000' bus='0x03' slot='0x00' function='0x1'/>]]></x:n>\n"
	"</metadata>\n"
	"<devices><disk><source file='a &gt; b' x='>'/></disk>\r\n"
	"<hostdev mode='subsystem' type='usb'><source><address bus='0x03' device='1'/></source>"
	"</hostdev>\n"
	"<hostdev mode='subsystem' type='pci' managed='no'><driver name=\"vfio\"/>\n"
	"  <source><address  domain='@' bus = \"@\"\n slot='@' function='@' /></source>"
	"<alias name='ua-vgpu0'/>"
	"<address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x1'/></hostdev>"
	"<hostdev type='pci' mode='subsystem'><source>"
	"<address domain='@' bus='@' slot='@' function='@'/></source></hostdev>\n"
	"</devices></domain>\n<!-- end -->\n";

/* Puts N values into the template's placeholders. */
static char *filled(const char *text, const char *const *values)
{
	char *out = malloc(strlen(text) * 2 + 1), *to = out;

	for (; *text; text++) {
		if (*text == '@')
			to = stpcpy(to, *values++);
		else
			*to++ = *text;
	}
	*to = '\0';
	return out;
}

static const char *const here[] = {"0x0000", "0x03", "0x00", "0x1", "0x0000", "3", "0x10", "0x2"};

static int redirect(const char *text, const struct redirect *list, uint32_t n, char **out)
{
	int r = redirect_devices(text, strlen(text), list, n, out, &err);

	CU_ASSERT((r == 0) == (*out != NULL));
	return r;
}

/* Only the addresses change: of one device, of the other, and of both, even if they change places.
 */
TEST(exact, "exactly the addresses change")
{
	static const struct {
		uint32_t n;
		struct redirect list[2];
		const char *want[8];
	} cases[] = {
		{0, {{"", ""}}, {"0x0000", "0x03", "0x00", "0x1", "0x0000", "3", "0x10", "0x2"}},
		{1,
		 {{"0000:03:00.1", "0001:af:1f.7"}},
		 {"0x0001", "0xaf", "0x1f", "0x7", "0x0000", "3", "0x10", "0x2"}},
		{1,
		 {{"0000:03:10.2", "0000:04:00.0"}},
		 {"0x0000", "0x03", "0x00", "0x1", "0x0000", "0x04", "0x00", "0x0"}},
		{2,
		 {{"0000:03:10.2", "0000:03:00.1"}, {"0000:03:00.1", "0000:03:10.2"}},
		 {"0x0000", "0x03", "0x10", "0x2", "0x0000", "0x03", "0x00", "0x1"}},
	};
	char *text = filled(template, here), *out;
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *want = filled(template, cases[i].want);

		CU_ASSERT_EQUAL(redirect(text, cases[i].list, cases[i].n, &out), 0);
		CU_ASSERT(out && strcmp(out, want) == 0);
		if (out && strcmp(out, want) != 0)
			printf("\n  case %u: %s\n", i, out);
		free(out);
		free(want);
	}
	free(text);
}

#define DEVICE(address) "<hostdev type='pci'><source><address " address "/></source></hostdev>"
#define AT3 "domain='0x0000' bus='0x03' slot='0x00' function='0x1'"

/* What cannot be changed exactly is refused with a reason. */
TEST(refusals, "what cannot be changed exactly is refused")
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"<domain><devices>" DEVICE("domain='0x0000' bus='0x03' slot='0x00' "
					    "function='0x2'") "</devices></domain>",
		 "no PCI device at 0000:03:00.1"},
		{"<domain><devices>" DEVICE(AT3) DEVICE(AT3) "</devices></domain>",
		 "or more than one"},
		{"<domain>" DEVICE(AT3) "</domain>", "no PCI device"},
		{"<domain/>", "no PCI device"},
		{"<domain><devices>" DEVICE("bus='0x03' slot='0x00' function='0x1'") "</devices>"
										     "</domain>",
		 "no PCI device"},
		{"<domain><devices>" DEVICE(AT3) "</devices>", "not XML"},
		{"<!DOCTYPE d [<!ENTITY e 'x'>]><domain><devices>" DEVICE(
			 AT3) "</devices></domain>",
		 "document type"},
		{"", "not XML"},
	};
	static const struct redirect twice[] = {{"0000:03:00.1", "0000:04:00.1"},
						{"0000:03:00.1", "0000:04:00.2"}},
				     odd[] = {{"0000:03:00.1", "0000:04:00.1x"}};
	static const char good[] = "<domain><devices>" DEVICE(AT3) "</devices></domain>";
	struct redirect many[REDIRECT_MAX + 1] = {{"", ""}};
	char *out;
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(redirect(cases[i].text, twice, 1, &out), -EINVAL);
		CU_ASSERT(strstr(err.text, cases[i].why) != NULL);
		if (!strstr(err.text, cases[i].why))
			printf("\n  %s: %s\n", cases[i].text, err.text);
	}
	CU_ASSERT_EQUAL(redirect(good, twice, 2, &out), -EINVAL);
	CU_ASSERT_EQUAL(redirect(good, odd, 1, &out), -EINVAL);
	CU_ASSERT_EQUAL(redirect(good, many, REDIRECT_MAX + 1, &out), -EINVAL);
	/* Characters by number are not values that libvirt writes, but they are values. */
	CU_ASSERT_EQUAL(redirect("<domain><devices>" DEVICE(
					 "domain='&#48;x0000' bus='0x03' slot='0x00' "
					 "function='0x1'") "</devices></domain>",
				 twice, 1, &out),
			0);
	CU_ASSERT_STRING_EQUAL(out,
			       "<domain><devices>" DEVICE("domain='0x0000' bus='0x04' slot='0x00' "
							  "function='0x1'") "</devices></domain>");
	free(out);
}

/* Damage at random places gives an error, or a document of which everything but the values of
 * addresses is as it was. */
TEST(damage, "random damage gives an error or another address")
{
	static const struct redirect list[] = {{"0000:03:00.1", "0001:af:1f.7"},
					       {"0000:03:10.2", "0000:04:00.0"}};
	char *good = filled(template, here), *text = strdup(good), *out;
	size_t size = strlen(good), head, tail, n;
	uint32_t i, k, done = 0;

	for (i = 0; i < 20000; i++) {
		strcpy(text, good);
		for (k = (uint32_t)draw(3) + 1; k > 0; k--)
			text[draw(size)] = "<>/='a9.\"&- !?[]"[draw(16)];
		if (redirect(text, list, (uint32_t)draw(3), &out) < 0)
			continue;
		done++;
		/* Before the first and behind the last of the values, nothing has changed; and in
		 * between only digits have. */
		n = strlen(out);
		for (head = 0; text[head] && text[head] == out[head]; head++)
			;
		for (tail = 0; tail < n - head && text[size - 1 - tail] == out[n - 1 - tail];
		     tail++)
			;
		CU_ASSERT(head == n || strspn(out + head, "0123456789abcdefx'\"") > 0);
		CU_ASSERT(n <= size + 2 * 4 * 6);
		free(out);
	}
	CU_ASSERT(done > 1000 && done < i);
	free(good);
	free(text);
}

#define TRAVEL(inside)                                                                             \
	"<domain><metadata><t:travel xmlns:t='urn:vgpud:xmlns:travel:1'>" inside "</t:travel>"     \
	"</metadata></domain>"
#define VF(name, owed)                                                                             \
	"<t:vf name='" name "' gpu='8086:e212:01' driver='xe-vfio-pci' memory='4294967296' "       \
	"vfs='4' owed-us='" owed "'/>"

static int travel(struct travel *t, const char *text)
{
	int r = travel_read(t, text, strlen(text), &err);

	CU_ASSERT(r == 0 || t->n_vfs == 0);
	return r;
}

/* What a host writes, another one reads; what nobody wrote says nothing. */
TEST(there_and_back, "what one host writes, another one reads")
{
	struct travel t, back;
	char text[TRAVEL_TEXT_MAX], domain[TRAVEL_TEXT_MAX + 80];
	const struct travel_vf *vf;

	CU_ASSERT_EQUAL(travel(&t, TRAVEL(VF("a", "1500") VF("b-1.x", "0"))), 0);
	CU_ASSERT_EQUAL(t.n_vfs, 2);
	vf = travel_of(&t, "a");
	CU_ASSERT_PTR_NOT_NULL_FATAL(vf);
	CU_ASSERT(vf->owed == 1500 * VGPU_USEC && vf->memory == UINT64_C(4) << 30 && vf->vfs == 4);
	CU_ASSERT_STRING_EQUAL(vf->gpu, "8086:e212:01");
	CU_ASSERT_STRING_EQUAL(vf->driver, "xe-vfio-pci");
	CU_ASSERT_PTR_NULL(travel_of(&t, "c"));
	travel_write(&t, text);
	snprintf(domain, sizeof(domain), "<domain><metadata>%s</metadata></domain>", text);
	CU_ASSERT_EQUAL(travel(&back, domain), 0);
	CU_ASSERT_EQUAL(memcmp(&t, &back, sizeof(t)), 0);
	CU_ASSERT_EQUAL(travel(&t, "<domain/>"), 0);
	CU_ASSERT_EQUAL(t.n_vfs, 0);
	CU_ASSERT_EQUAL(travel(&t, "<domain><metadata><travel><vf/></travel></metadata></domain>"),
			0);
	CU_ASSERT_EQUAL(t.n_vfs, 0);
}

TEST(hostile_travel, "what no host writes is refused")
{
	static const char *const cases[] = {
		TRAVEL(VF("a", "-1")),
		TRAVEL(VF("a", "10000001")),
		TRAVEL(VF("a", "99999999999999999999999")),
		TRAVEL(VF("a", "")),
		TRAVEL(VF("a", "1e3")),
		TRAVEL(VF("a", "1") VF("a", "1")),
		TRAVEL(VF("", "1")),
		TRAVEL(VF("a&#10;b", "1")),
		TRAVEL(VF("0123456789012345678901234567890123456789012345678901234567890123", "1")),
		TRAVEL(VF("1", "1") VF("2", "1") VF("3", "1") VF("4", "1") VF("5", "1") VF("6", "1")
			       VF("7", "1") VF("8", "1") VF("9", "1")),
		TRAVEL("<t:vf name='a' gpu='8086:e212:01' driver='x' memory='1' vfs='1'/>"),
		TRAVEL("<t:vf name='a' gpu='%s' driver='x' memory='1' vfs='1' owed-us='1'/>"),
		TRAVEL("<t:vf name='a' gpu='1' driver='x' memory='1' vfs='99' owed-us='1'/>"),
		"<domain>",
	};
	struct travel t;
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = travel(&t, cases[i]);

		CU_ASSERT_EQUAL(r, -EINVAL);
		if (r != -EINVAL)
			printf("\n  accepted: %s\n", cases[i]);
	}
}

SUITE_MAIN("domains that come from another host")
