/* SPDX-License-Identifier: MIT */
/* Several libvirts, each with VMs of its own; what vgpud shows of them. */

#include "vms.h"

/* Returns whether vgpud has warned that the state of vm1's VF may be lost. */
static bool warns(const char *xml)
{
	char address[32];

	sync_vm(xml, "missing", address);
	return get(get(control.reported.warned[CONTROL_MAY_LOSE_STATE], libvirt), VM_UUID) != NULL;
}

/* QEMU saves a VM without the state of a vfio-user device: vgpud warns of a VM that could be saved,
 * and refuses one that comes back so. */
TEST(state_of_vfio_user, "a VM whose VF has no state that is saved is reported")
{
	static const char with[] = CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER);

	begin_free();
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) "</domain>"));
	CU_ASSERT(warns(with));
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) COMMANDLINE(
		VFIO_USER "<q:arg value='driver=vvfat,node-name=n,dir=/d,rw=on'/>")));
	CU_ASSERT_FALSE(warns(CLAIM(HEAVY_A) COMMANDLINE(
		VFIO_USER "<q:arg value='{\\\"driver\\\":\\\"vvfat\\\",\\\"rw\\\":true}'/>")));
	/* One that is read only can be migrated. */
	CU_ASSERT(warns(CLAIM(HEAVY_A)
				COMMANDLINE(VFIO_USER "<q:arg value='driver=vvfat,dir=/d'/>")));
	CU_ASSERT_FALSE(warns(UNCLAIMED COMMANDLINE(VFIO_USER)));
	hook(&one, "restore", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	hook(&one, "restore", with);
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "without the state of its VF"));
	hook(&one, "restore", UNCLAIMED COMMANDLINE(VFIO_USER));
	CU_ASSERT(done(&one));
	bench_end();
}

/* What vgpud shows of a libvirt's VMs stays while that libvirt reports, and no longer: it may have
 * been made anew, under another name. */
TEST(silent_libvirt, "what is shown of a libvirt ends with its reports")
{
	char address[32];

	begin_free();
	libvirt = "there";
	CU_ASSERT(warns(CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER)));
	libvirt = "then";
	sync_vm(CLAIM("<v:weight>1</v:weight>") "</domain>", "missing", address);
	libvirt = "here";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_PTR_NOT_NULL(get(control.reported.warned[CONTROL_MAY_LOSE_STATE], "there"));
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 1);
	be_silent("there");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_PTR_NULL(get(control.reported.warned[CONTROL_MAY_LOSE_STATE], "there"));
	CU_ASSERT_PTR_NULL(get(control.reported.warned[CONTROL_UNADMITTED], "there"));
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 1);
	be_silent("then");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 0);
	CU_ASSERT_PTR_NOT_NULL(get(control.reported.warned[CONTROL_MAY_LOSE_STATE], "here"));
	libvirt = "here";
	bench_end();
}

/* A libvirt that has no name could be any: what it says is refused, and touches no lease. */
TEST(nameless, "a libvirt without a name is refused")
{
	static const struct {
		const char *host, *why;
	} hosts[] = {{"", "host is missing"},
		     {"\"host\":\"\"", "host is empty"},
		     {"\"host\":7", "host: want string"}};
	static const struct {
		const char *method, *args;
	} calls[] = {{"vm.sync", "\"as_of_ns\":9000000000000000000,\"domains\":{}"},
		     {"vm.extend", "\"xml\":\"" VM_XML "\""},
		     {"vm.travel", "\"xml\":\"" VM_XML "\""},
		     {"vm.hung", ""},
		     {"hook", "\"operation\":\"prepare\",\"xml\":\"" VM_XML "\""},
		     {"hook", "\"operation\":\"release\",\"xml\":\"" VM_XML "\""}};
	struct lease *l = &control.gpus[0].leases[1];
	char address[32], text[1024];
	uint32_t i, k;

	bench_begin("fair");
	sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	l->hung = true;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (k = 0; k < sizeof(hosts) / sizeof(hosts[0]); k++) {
			snprintf(text, sizeof(text), "{\"method\":\"%s\",\"args\":{%s%s%s}}\n",
				 calls[i].method, hosts[k].host,
				 *hosts[k].host && *calls[i].args ? "," : "", calls[i].args);
			say(&one, text);
			CU_ASSERT(refused(&one, "EINVAL", hosts[k].why));
			CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
			CU_ASSERT(l->hung);
		}
	l->hung = false;
	bench_end();
}

/* A lease without a name, which an older vgpud has left: the list of a libvirt that does not run
 * its VM says nothing about it; one that runs it gives the lease its name. */
TEST(nameless_lease, "a lease without a name ends with its own libvirt's VM")
{
	struct lease *l = &control.gpus[0].leases[1];
	char address[32];

	bench_begin("fair");
	sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address);
	l->host[0] = '\0';
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "here";
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_STRING_EQUAL(l->host, "here");
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "here";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	bench_end();
}
