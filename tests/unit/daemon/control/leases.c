/* SPDX-License-Identifier: MIT */
/* VMs get VFs, keep them and give them back, by what the hook and vgpud-libvirt say. */
#include <string.h>
#include <unistd.h>

#include "builtin.h"
#include "control/change.h"
#include "control/client.h"
#include "control/heard.h"
#include "machine.h"
#include "vms/memory_methods.h"
#include "vms/vm.h"
#include "vms.h"

/* Loads the leases that a vgpud before this one has SAVED. */
static void load(const char *saved)
{
	FILE *f = fopen(config.leases, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(saved, f);
	fclose(f);
	leases_load(&control);
}

/* A lease keeps the parameters of a VM's VF under policies that lack them. The next policy that
 * knows them gets them again, also when vgpud was restarted meanwhile. */
TEST(leases_remember, "leases keep parameters across policies")
{
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"u\","
		"\"domain\":\"d\",\"vf_name\":\"gpu\",\"params\":{\"weight\":\"300\"}}]\n";
	struct json_object *o;

	bench_begin("fair");
	load(saved);
	control_settle(&control);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->in_force.vf_params[1][0], 300);
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(says(&one, "policy", "equal"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "equal"));
	leases_save(&control);
	o = json_object_from_file(config.leases);
	CU_ASSERT_STRING_EQUAL(text_at(json_object_array_get_idx(o, 0), "params", "weight"), "300");
	json_object_put(o);
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[1][0], 300);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[2][0], 100);
	bench_end();
}

/* The parameters of several leases are restored one after the other. What is saved meanwhile is
 * theirs already. */
TEST(several_restored, "several leases' parameters are restored")
{
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"u\","
		"\"domain\":\"d\",\"vf_name\":\"gpu\",\"params\":{\"weight\":\"300\"}},"
		"{\"gpu\":\"gpu0\",\"vf\":2,\"state\":\"running\",\"uuid\":\"v\","
		"\"domain\":\"e\",\"vf_name\":\"gpu\",\"params\":{\"weight\":\"200\"}}]\n";
	static const char *const weights[] = {"300", "200"};
	struct json_object *o;
	int i;

	bench_begin("fair");
	load(saved);
	leases_save(&control);
	o = json_object_from_file(config.leases);
	for (i = 0; i < 2; i++)
		CU_ASSERT_STRING_EQUAL(text_at(json_object_array_get_idx(o, (size_t)i), "params",
					       "weight"),
				       weights[i]);
	json_object_put(o);
	control_settle(&control);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[1][0], 300);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[2][0], 200);
	bench_end();
}

/* Guarantees that were admitted together are restored, also where each of them would be refused
 * beside what the others have by the configuration. */
TEST(restored_in_any_order, "guarantees are restored in any order")
{
	static struct gpu_config gpu = {.name = "gpu0", .device = "quick:", .vfs = QUICK_VFS};
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"u\","
		"\"domain\":\"d\",\"vf_name\":\"gpu\",\"params\":{\"min_ppm\":\"600000\"}},"
		"{\"gpu\":\"gpu0\",\"vf\":2,\"state\":\"running\",\"uuid\":\"v\","
		"\"domain\":\"e\",\"vf_name\":\"gpu\",\"params\":{\"min_ppm\":\"50000\"}}]\n";
	struct engine_config engine_config;
	const struct vgpu_param *table;
	int min = 0;

	quick_reset();
	gpu.ops = vgpu_builtin_policy("qos");
	table = gpu.ops->vf_params;
	while (strcmp(table[min].name, "min_ppm") != 0)
		min++;
	quick_config(&engine_config, gpu.ops);
	engine_config.begin.vf_params[2][min] = 500000;
	bench_begin_with(&gpu, &engine_config);
	load(saved);
	control_settle(&control);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[2][min], 50000);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[1][min], 600000);
	bench_end();
}

/* vgpud-libvirt reports that vm1 ran at an instant; returns how many VMs it is then asked about as
 * missing. */
static size_t sync_vm1(vgpu_nsec as_of)
{
	char text[1024];
	struct json_object *o;
	size_t missing;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.sync\",\"args\":{\"as_of_ns\":%llu,\"host\":\"here\","
		 "\"domains\":{\"" VM_UUID "\":\"" VM_XML "\"}}}\n",
		 (unsigned long long)as_of);
	say(&one, text);
	o = hear(&one);
	missing = json_object_array_length(get(get(o, "result"), "missing"));
	json_object_put(o);
	return missing;
}

/* A VM whose XML is too long to be told keeps its VF, and one that is not in the list loses it. */
TEST(too_long, "a VM whose XML is too long")
{
	const struct lease *l = &control.gpus[0].leases[1];
	char text[256];

	bench_begin("fair");
	CU_ASSERT_EQUAL(sync_vm1(vgpu_now()), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.sync\",\"args\":{\"as_of_ns\":%llu,\"host\":\"here\","
		 "\"domains\":{\"" VM_UUID "\":null}}}\n",
		 (unsigned long long)vgpu_now());
	say(&one, text);
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 1);
	bench_end();
}

/* libvirt's list of its VMs is older than the end of one of them: that VM gets no lease, nor
 * another VF. */
TEST(a_list_older_than_the_end, "a list of VMs that is older than a VM's end")
{
	const struct lease *l = &control.gpus[0].leases[1];
	vgpu_nsec before;

	bench_begin("fair");
	CU_ASSERT_EQUAL(sync_vm1(vgpu_now()), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	before = vgpu_now();
	say(&other, "{\"method\":\"hook\",\"args\":{\"operation\":\"release\",\"host\":\"here\","
		    "\"xml\":\"" VM_XML "\"}}\n");
	CU_ASSERT(done(&other));
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT_EQUAL(sync_vm1(before), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	CU_ASSERT_EQUAL(sync_vm1(vgpu_now()), 0); /* it runs again */
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	bench_end();
}

/* A claim for more memory than the GPU can free is refused with both sizes. The VFs that were tried
 * are free afterwards, for the next VM. */
TEST(too_little_memory, "a claim for too much memory leaves nothing reserved")
{
	begin_free();
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:memory unit='MiB'>200</v:memory></v:vf>") "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "200 MiB are claimed; gpu0 can free at most"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RESERVED);
	CU_ASSERT_EQUAL(weight(1), 300);
	bench_end();
}

/* The hook disconnects while its reservation is under way, because libvirt has given the start up:
 * the VF is free again, with its usual parameters. */
TEST(hook_leaves, "a hook that leaves takes its reservation along")
{
	static struct peer hooked;
	vgpu_nsec until = vgpu_now() + PATIENCE;

	begin_free();
	join(&hooked, config.socket);
	turn();
	quick_block();
	hook(&hooked, "prepare", CLAIM(HEAVY_A "<v:vf name='b'/>") "</domain>");
	while (!control.calls && vgpu_now() < until)
		turn();
	close(hooked.fd);
	while (control.clients && control.clients->next && control.clients->next->next &&
	       vgpu_now() < until)
		turn();
	quick_unblock();
	while (control.calls && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(n_leases(), 0);
	CU_ASSERT_EQUAL(weight(1), 100);
	bench_end();
}

/* A reservation whose VM does not start within lease_s ends. It stays until then, and when the VF
 * is in use by then: the VM runs, though no hook has said so. */
TEST(reservations_expire, "reservations end after lease_s")
{
	struct lease *l = &control.gpus[0].leases[1];
	vgpu_nsec before;

	begin_free();
	before = vgpu_now();
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(l->expires >= before + 60 * VGPU_SEC && l->expires <= vgpu_now() + 60 * VGPU_SEC);
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RESERVED);
	l->expires = before;
	control.gpus[0].heard.in_use = 2;
	vm_expire(&control);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>"); /* ends the lease before it */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(l->state, LEASE_RESERVED);
	l->expires = before;
	control.gpus[0].heard.in_use = 0;
	vm_expire(&control);
	CU_ASSERT_EQUAL(n_leases(), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 100);
	bench_end();
}

/* Waits for the calls that vgpud itself has made. */
static void calls_end(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;

	while (control.calls && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(control.calls);
}

/* What vgpud-libvirt reports of a running VM decides: a VF without a device in its XML is to be
 * attached; one that is no longer claimed, but has the device that vgpud-libvirt attached, is to be
 * detached; the VF of a VM that is gone is free. */
TEST(synced, "VFs are attached, detached and freed as libvirt's list says")
{
	const struct lease *l = &control.gpus[0].leases[1];
	char address[32];

	make_machine();
	point("../" VF1, PCI_DEVICES "/" PF "/virtfn1");
	bench_begin("fair");
	strcpy(control.gpus[0].config->device, "pci:" PF);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "attach", address), 1);
	CU_ASSERT_STRING_EQUAL(address, VF1);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) HOSTDEV "</domain>", "attach", address), 0);
	CU_ASSERT_EQUAL(sync_vm(UNCLAIMED HOSTDEV "</domain>", "detach", address), 1);
	CU_ASSERT_STRING_EQUAL(address, VF1);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING); /* the VM still has the device */
	CU_ASSERT_EQUAL(sync_vm(UNCLAIMED "</domain>", "detach", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	/* While the engine has not ended the VF's connections, the VM's would end with them. */
	calls_end();
	control.gpus[0].clearing.asked |= VGPU_VF_BIT(1);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) HOSTDEV "</domain>", "missing", address), 1);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	control.gpus[0].clearing.asked = 0;
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) HOSTDEV "</domain>", "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(NULL, "missing", address), 0);
	CU_ASSERT_EQUAL(l->state, LEASE_NONE);
	strcpy(control.gpus[0].config->device, "quick:");
	bench_end();
	remove_machine();
}

/* A claim that was changed while its VM runs gets its parameters with the next report; one that the
 * policy refuses changes nothing. */
TEST(repaired, "a changed claim of a running VM is applied")
{
	char address[32];

	bench_begin("fair");
	CU_ASSERT_EQUAL(sync_vm(CLAIM(A "</v:vf>") "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 100);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM(A "<v:sched><v:weight>99999</v:weight></v:sched></v:vf>") "</domain>",
			"missing", address),
		0);
	control_settle(&control);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT(strstr(control.gpus[0].leases[1].said, "99999") != NULL);
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 0);
	/* One that cannot be read is shown by the VM's name for as long as it stands. */
	sync_vm(CLAIM(A "<v:sched><v:weigth>7</v:weigth></v:sched></v:vf>") "</domain>", "missing",
		address);
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 1);
	CU_ASSERT_STRING_EQUAL(control.reported.unreadable[0].domain, "vm1");
	CU_ASSERT_PTR_NOT_NULL(strstr(control.reported.unreadable[0].why, "<weigth> is not known"));
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RUNNING);
	CU_ASSERT_EQUAL(sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(control.reported.n_unreadable, 0);
	CU_ASSERT_STRING_EQUAL(control.gpus[0].leases[1].said, "");
	bench_end();
}

/* vgpud is restarted while a VM runs with two VFs, one of which is no longer configured: the other
 * stays the VM's, and the VM is reported as lacking one. */
TEST(one_of_two, "a VM keeps one of two VFs across a restart")
{
	static const char *const saved =
		"[{\"gpu\":\"gpu0\",\"vf\":1,\"state\":\"running\",\"uuid\":\"" VM_UUID "\","
		"\"domain\":\"vm1\",\"vf_name\":\"a\",\"params\":{\"weight\":\"300\"}},"
		"{\"gpu\":\"gpu0\",\"vf\":5,\"state\":\"running\",\"uuid\":\"" VM_UUID "\","
		"\"domain\":\"vm1\",\"vf_name\":\"b\",\"params\":{}}]\n";
	char address[32];

	bench_begin("fair");
	load(saved);
	control_settle(&control);
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(weight(1), 300);
	hook(&other, "started",
	     CLAIM(HEAVY_A "<v:vf name='b'><v:device gpu='gpu0' vf='5'/></v:vf>") "</domain>");
	CU_ASSERT(done(&other));
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM(HEAVY_A
			      "<v:vf name='b'><v:device gpu='gpu0' vf='5'/></v:vf>") "</domain>",
			"missing", address),
		1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RUNNING);
	bench_end();
}

/* A VF whose partition is being set to its usual size is given to no VM: it would have less memory
 * than was seen, or than is claimed. The VM waits for it. */
TEST(resized_meanwhile, "a VF whose partition is being set is given to no VM")
{
	struct gpu *gpu = &control.gpus[0];
	uint32_t i;

	begin_free();
	calls_end();
	quick_block();
	memory_give_usual(gpu, 1);
	CU_ASSERT_EQUAL(gpu->sizing.asked, 1u << 1);
	quick_unblock();
	calls_end();
	CU_ASSERT_EQUAL(gpu->sizing.asked, 0);
	gpu->sizing.asked = UINT32_MAX;
	hook(&one, "prepare", CLAIM("<v:vf name='a'/>") "</domain>");
	for (i = 0; i < 20; i++) { /* the engine has made its snapshots by the time it answers */
		say(&other, "{\"method\":\"stats\"}\n");
		CU_ASSERT(done(&other));
	}
	CU_ASSERT_EQUAL(n_leases(), 0);
	gpu->sizing.asked = 0;
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 1);
	bench_end();
}

#define ON_0 "<v:vf name='a'><v:device gpu='gpu0' vf='0'/></v:vf>"

/* A start that waits for its second VF is given up, and the VM starts anew: the second start keeps
 * the VF that it gets, although the first one had one of the same name. The first one looks every
 * 20 ms: before the second one has its VF, or, in most rounds, after that. */
TEST(starts_again, "a VM that starts again keeps its VF")
{
	static struct peer hooked;
	struct gpu *gpu = &control.gpus[0];
	vgpu_nsec until;
	int i;

	begin_free();
	join(&hooked, config.socket);
	for (i = 0; i < 8; i++) {
		calls_end();
		until = vgpu_now() + PATIENCE;
		gpu->sizing.asked = 1u << 2;
		hook(&hooked, "prepare",
		     CLAIM(HEAVY_A
			   "<v:vf name='b'><v:device gpu='gpu0' vf='2'/></v:vf>") "</domain>");
		while (weight(1) != 300 && vgpu_now() < until)
			turn();
		say(&other, "{\"method\":\"stats\"}\n"); /* answered after that change */
		CU_ASSERT(done(&other));
		hook(&other, "release", CLAIM(HEAVY_A) "</domain>");
		hook(&one, "prepare", CLAIM(ON_0) "</domain>");
		CU_ASSERT(done(&other));
		CU_ASSERT(done(&one));
		gpu->sizing.asked = 0;
		CU_ASSERT(refused(&hooked, "ECANCELED", "given up"));
		CU_ASSERT_EQUAL(n_leases(), 1);
		CU_ASSERT_EQUAL(gpu->leases[0].state, LEASE_RESERVED);
		hook(&one, "release", CLAIM(ON_0) "</domain>");
		CU_ASSERT(done(&one));
	}
	close(hooked.fd);
	bench_end();
}

/* Another policy that does not have what VMs claim is refused, and names it, unless it is forced.
 * The way back restores what was claimed, set and configured. */
TEST(claims_dropped, "a policy that drops claims is forced or refused")
{
	char address[32];

	begin_free();
	control.gpus[0].config->vf_params[0][0] = 444;
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	hook(&one, "started", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":2,\"params\":{\"weight\":260}}}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "vm1/a: weight 300"));
	CU_ASSERT(weight(1) == 300 && weight(2) == 260);
	CU_ASSERT(lacks(""));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\",\"force\":true}}\n");
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "strict"));
	CU_ASSERT(lacks("weight 300"));
	/* The claim has not changed: nothing is wrong with it. */
	sync_vm(CLAIM(HEAVY_A) "</domain>", "missing", address);
	control_settle(&control);
	CU_ASSERT_STRING_EQUAL(control.gpus[0].leases[1].said, "");
	CU_ASSERT(lacks("weight 300"));
	/* What is lost already is no reason to stay. */
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(says(&one, "policy", "equal"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "equal"));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "fair"));
	CU_ASSERT_EQUAL(weight(0), 444);
	CU_ASSERT_EQUAL(weight(1), 300);
	CU_ASSERT_EQUAL(weight(2), 260);
	CU_ASSERT(lacks(""));
	bench_end();
}

/* Answers are UTF-8: of the name of who had a VF, which is kept with each event, no part of a
 * character is left. */
TEST(names_of_events, "an event's name ends with a whole character")
{
	const struct vgpu_record r = {.vf = 1};
	struct gpu *gpu = &control.gpus[0];
	char want[63];

	bench_begin("fair");
	memset(want, 'a', 62);
	want[62] = '\0';
	gpu->leases[1].state = LEASE_RUNNING;
	snprintf(gpu->leases[1].domain, sizeof(gpu->leases[1].domain), "%s\u00e9e", want);
	heard_add(gpu, &r);
	CU_ASSERT_STRING_EQUAL(heard_name(gpu, trail_end(&gpu->heard.events) - 1), want);
	gpu->leases[1].domain[61] = '\0';
	heard_add(gpu, &r);
	want[61] = '\0';
	CU_ASSERT_STRING_EQUAL(heard_name(gpu, trail_end(&gpu->heard.events) - 1), want);
	gpu->leases[1].state = LEASE_NONE;
	bench_end();
}
