/* SPDX-License-Identifier: MIT */
/*
 * What vgpud-libvirt keeps in running domains for their way to another host, with libvirt's own
 * test driver.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdbool.h>
#include <stdlib.h>

#include "log.h"
#include "metadata.h"
#include "suite.h"

#define URI "urn:vgpud:xmlns:travel:1"
#define TRAVEL(owed) "<travel xmlns='" URI "'><vf name='a' owed-us='" owed "'/></travel>"

static virConnectPtr libvirt;
static virDomainPtr domain;
static char uuid[VIR_UUID_STRING_BUFLEN];
static unsigned logged, changes;

void log_line(int, const char *, const char *)
{
	logged++;
}

static bool at_work;

/* In libvirt's place: the test driver knows no jobs. */
int virDomainGetJobInfo(virDomainPtr, virDomainJobInfoPtr info)
{
	*info = (virDomainJobInfo){.type = at_work ? VIR_DOMAIN_JOB_UNBOUNDED
						   : VIR_DOMAIN_JOB_NONE};
	return 0;
}

static void on_error(void *, virErrorPtr)
{
}

static void on_metadata(virConnectPtr, virDomainPtr, int, const char *uri, void *)
{
	changes += uri && strcmp(uri, URI) == 0;
}

static void never(int, void *)
{
}

/* The running domain that the test driver brings. */
static void begin(void)
{
	virSetErrorFunc(NULL, on_error);
	CU_ASSERT_EQUAL_FATAL(virEventRegisterDefaultImpl(), 0);
	virEventAddTimeout(10, never, NULL, NULL); /* a round of the loop ends */
	libvirt = virConnectOpen("test:///default");
	CU_ASSERT_PTR_NOT_NULL_FATAL(libvirt);
	domain = virDomainLookupByName(libvirt, "test");
	CU_ASSERT_PTR_NOT_NULL_FATAL(domain);
	CU_ASSERT_EQUAL(virDomainGetUUIDString(domain, uuid), 0);
	CU_ASSERT(virConnectDomainEventRegisterAny(libvirt, NULL,
						   VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
						   VIR_DOMAIN_EVENT_CALLBACK(on_metadata), NULL,
						   NULL) >= 0);
}

/* In TEXT's place below: a null. */
static const char unknown[] = "";

/* Puts TEXT (NULL: nothing) into the domain; returns how often that changed it. */
static unsigned update(const char *of, const char *text)
{
	struct json_object *want = json_object_new_object();
	unsigned i;

	changes = 0;
	if (text)
		json_object_object_add(want, of,
				       text == unknown ? NULL : json_object_new_string(text));
	metadata_update(libvirt, want);
	for (i = 0; i < 5; i++)
		virEventRunDefaultImpl();
	return changes;
}

static bool has(unsigned where, const char *words)
{
	char *xml = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, URI, where);
	bool is = words ? xml && strstr(xml, words) : !xml;

	free(xml);
	return is;
}

/* The element is written when it changes, and only then; into the running domain, and not into its
 * definition; and goes when there is nothing to take along. */
TEST(kept, "what a VM would take along is kept in it")
{
	begin();
	CU_ASSERT_EQUAL(update(uuid, NULL), 0);
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("10000")), 1);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, "10000"));
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_CONFIG, NULL));
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("10000")), 0);
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("20000")), 1);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, "20000"));
	/* a domain whose XML vgpud does not get: what it has stays, and is still known */
	CU_ASSERT_EQUAL(update(uuid, unknown), 0);
	CU_ASSERT_EQUAL(update("8a1f0b3c-0000-4000-8000-000000000098", unknown), 1);
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("20000")), 1);
	CU_ASSERT_EQUAL(update(uuid, unknown), 0);
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("20000")), 0);
	CU_ASSERT_EQUAL(update(uuid, NULL), 1);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, NULL));
	CU_ASSERT_EQUAL(update(uuid, NULL), 0);
	/* a domain that has just ended; and what libvirt refuses is logged once */
	CU_ASSERT_EQUAL(update("8a1f0b3c-0000-4000-8000-000000000099", TRAVEL("1")), 0);
	CU_ASSERT_EQUAL(logged, 0);
	CU_ASSERT_EQUAL(update(uuid, "<travel"), 0);
	CU_ASSERT_EQUAL(logged, 1);
	CU_ASSERT_EQUAL(update(uuid, "<travel"), 0);
	CU_ASSERT_EQUAL(logged, 1);
}

/* A domain that is being moved is left alone, and what it should have is done later. */
TEST(later, "a domain at work is left for later")
{
	logged = 0;
	at_work = true;
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("10000")), 0);
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("10000")), 0);
	at_work = false;
	CU_ASSERT_EQUAL(update(uuid, TRAVEL("10000")), 1);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, "10000"));
	at_work = true;
	CU_ASSERT_EQUAL(update(uuid, NULL), 0);
	CU_ASSERT_EQUAL(update(uuid, NULL), 0);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, "10000"));
	at_work = false;
	CU_ASSERT_EQUAL(update(uuid, NULL), 1);
	CU_ASSERT(has(VIR_DOMAIN_AFFECT_LIVE, NULL));
	CU_ASSERT_EQUAL(update(uuid, NULL), 0);
	CU_ASSERT_EQUAL(logged, 0);
}

SUITE_MAIN("metadata of running domains")
