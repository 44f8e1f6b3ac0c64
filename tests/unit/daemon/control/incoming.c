/* SPDX-License-Identifier: MIT */
/* VMs come from another host with the state of their VFs. */
#include <string.h>

#include "engine/engine.h"
#include "machine.h"
#include "vms/vm.h"
#include "vms.h"

#define COMES(function, travel)                                                                    \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>"                                  \
	"<v:vf name='a'><v:sched><v:weight>300</v:weight></v:sched></v:vf></v:vgpu>" travel        \
	"</metadata><devices><hostdev mode='subsystem' type='pci'><source>"                        \
	"<address domain='0x0000' bus='0x04' slot='0x10' function='" function "'/></source>"       \
	"<alias name='ua-vgpud-a'/></hostdev></devices></domain>"
#define TRAVEL(owed)                                                                               \
	"<t:travel xmlns:t='urn:vgpud:xmlns:travel:1'><t:vf name='a' gpu='1234:5347:00' "          \
	"driver='xe-vfio-pci' memory='0' vfs='3' owed-us='" owed "'/></t:travel>"
#define INCOMING "{\"method\":\"vf.show\",\"args\":{\"vf\":1}}\n"

/* A machine with a GPU whose VF 1 has a driver that moves states. */
static void begin_movable(void)
{
	make_machine();
	function(VF1, "0x038000", "91");
	point("../" VF1, PCI_DEVICES "/" PF "/virtfn1");
	point("../../../bus/pci/drivers/xe-vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	put_file("0x00\n", PCI_DEVICES "/" PF "/revision");
	begin_free();
	config.incoming_s = 60;
	strcpy(control.gpus[0].config->device, "pci:" PF);
}

static void end_movable(void)
{
	control_settle(&control);
	strcpy(control.gpus[0].config->device, "quick:");
	libvirt = "here";
	paused = false;
	bench_end();
	remove_machine();
}

/* A VM comes from another host: its VF gets no turns until it resumes, and then owes what it owed.
 * What another libvirt reports changes nothing. */
TEST(incoming, "VMs that come wait until they resume")
{
	struct lease *l = &control.gpus[0].leases[1];
	struct json_object *o, *devices;
	char address[32];

	begin_movable();
	libvirt = "here";
	hook(&one, "migrate", COMES("0x6", TRAVEL("40000")));
	o = hear(&one);
	devices = get(get(o, "result"), "devices");
	CU_ASSERT_EQUAL_FATAL(json_object_array_length(devices), 1);
	CU_ASSERT_STRING_EQUAL(json_object_get_string(
				       get(json_object_array_get_idx(devices, 0), "from")),
			       "0000:04:10.6");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(
				       get(json_object_array_get_idx(devices, 0), "to")),
			       VF1);
	json_object_put(o);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT_FATAL(comes_to_say(&one, INCOMING, "incoming", "true"));
	hook(&one, "prepare", COMES("0x2", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	hook(&one, "started", COMES("0x2", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	paused = true;
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	hook(&one, "release", COMES("0x6", TRAVEL("40000")));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	libvirt = "here";
	paused = false;
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	CU_ASSERT(comes_to_say(&one, INCOMING, "brought_ns", "40000000"));
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	/* "here" has not reported for long; but somebody has the VF */
	be_silent("here");
	put_file("1\n", PCI_DEVICES "/" VF1 "/enable");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	put_file("0\n", PCI_DEVICES "/" VF1 "/enable");
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	/* it reports again, and its VM runs */
	libvirt = "here";
	sync_vm(COMES("0x2", TRAVEL("40000")), "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "there";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	libvirt = "here";
	sync_vm(NULL, "missing", address);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	end_movable();
}

/* A VM that does not come leaves nothing behind; one that is not seen to resume gets its turns. The
 * wait outlives vgpud. */
TEST(not_resumed, "VMs that do not come, or are not seen to resume")
{
	struct lease *l = &control.gpus[0].leases[1];

	begin_movable();
	hook(&one, "restore", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT_FATAL(comes_to_say(&one, INCOMING, "incoming", "true"));
	hook(&one, "release", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	CU_ASSERT_FATAL(comes_to_say(&one, INCOMING, "state", "available"));

	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	lease_clear(l);
	leases_load(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT_EQUAL(l->owed, 5 * VGPU_USEC);
	control.gpus[0].heard.in_use = 2;
	l->expires = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	CU_ASSERT(l->expires > vgpu_now());
	l->resumes_by = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	/* libvirt refuses a second VM of that UUID, after the hook: the first one keeps its VF. */
	hook(&one, "migrate", COMES("0x6", ""));
	CU_ASSERT(refused(&one, "EBUSY", "domain vm1 is here already, and uses VF 1 of gpu0"));
	hook(&one, "restore", COMES("0x2", ""));
	CU_ASSERT(refused(&one, "EBUSY", "is here already"));
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(weight(1), 300);
	/* Its end was not reported: what comes ends its lease. */
	control.gpus[0].heard.in_use = 0;
	hook(&one, "migrate", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_INCOMING);
	l->expires = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	/* A start of the VM that it is here, not a VM that comes. */
	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "false"));
	end_movable();
}

/* The GPU is lost and comes back while a VM is on its way: its VF still waits for it. */
TEST(lost_meanwhile, "the GPU is lost while a VM comes")
{
	const struct gpu *gpu = &control.gpus[0];
	vgpu_nsec until = vgpu_now() + PATIENCE;

	begin_movable();
	hook(&one, "migrate", COMES("0x2", TRAVEL("5")));
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	quick_present(false);
	while (!gpu->heard.trouble && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NOT_NULL(gpu->heard.trouble);
	quick_present(true);
	while (gpu->heard.trouble && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(gpu->heard.trouble);
	CU_ASSERT(comes_to_say(&one, INCOMING, "incoming", "true"));
	CU_ASSERT_EQUAL(gpu->leases[1].state, LEASE_INCOMING);
	hook(&one, "release", COMES("0x2", ""));
	CU_ASSERT(done(&one));
	end_movable();
}

/* A state goes only to a VF that can take it over. */
TEST(misfits, "states that do not fit")
{
	begin_movable();
	point("../../../bus/pci/drivers/vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	hook(&one, "migrate", COMES("0x2", TRAVEL("0")));
	CU_ASSERT(refused(&one, "EBUSY", "does not move their state"));
	point("../../../bus/pci/drivers/xe-vfio-pci", PCI_DEVICES "/" VF1 "/driver");
	put_file("0x01\n", PCI_DEVICES "/" PF "/revision");
	hook(&one, "migrate", COMES("0x2", TRAVEL("0")));
	CU_ASSERT(refused(&one, "EBUSY", "and gpu0 is 1234:5347:01"));
	hook(&one, "migrate", COMES("0x2", TRAVEL("-1")));
	CU_ASSERT(refused(&one, "EINVAL", "no usable owed-us"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "migrate", CLAIM(HEAVY_A) "</domain>"); /* it brings no device */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 0);
	end_movable();
}
