/* SPDX-License-Identifier: MIT */
/* libvirt and its VMs, as the control thread sees them: calls of the hook, and reports. */
#pragma once

#include "bench.h"
#include "vms/lease.h"

#define VM_UUID "8a1f0b3c-0000-4000-8000-000000000001"
#define VM_XML                                                                                     \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>"                   \
	"<v:device gpu='gpu0' vf='1'/></v:vf></v:vgpu></metadata></domain>"
#define NO_VM "8a1f0b3c-0000-4000-8000-000000000002"
#define CLAIM(vfs)                                                                                 \
	"<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid><metadata>"                    \
	"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>" vfs "</v:vgpu></metadata>"
#define UNCLAIMED "<domain type='kvm'><name>vm1</name><uuid>" VM_UUID "</uuid>"
#define A "<v:vf name='a'><v:device gpu='gpu0' vf='1'/>"
#define HEAVY_A A "<v:sched><v:weight>300</v:weight></v:sched></v:vf>"
#define HEAVY "<v:vf name='a'><v:sched><v:weight>300</v:weight></v:sched></v:vf>"
#define HOSTDEV                                                                                    \
	"<devices><hostdev mode='subsystem' type='pci'><source><address domain='0x0000' "          \
	"bus='0x04' slot='0x10' function='0x2'/></source><alias name='ua-vgpud-a'/></hostdev>"     \
	"</devices>"
#define VF1 "0000:04:10.2"
#define SHARE(percent) A "<v:sched><v:share min='" percent "'/></v:sched></v:vf>"
#define WEIGHT(w) A "<v:sched><v:weight>" w "</v:weight></v:sched></v:vf>"
#define VFIO_USER                                                                                  \
	"<q:arg "                                                                                  \
	"value='{\\\"driver\\\":\\\"vfio-user-pci\\\",\\\"id\\\":\\\"ua-vgpu0\\\",\\\"socket\\\":" \
	"{\\\"path\\\":\\\"/run/softgpu/vf1.sock\\\"}}'/>"
#define COMMANDLINE(args)                                                                          \
	"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>" args                \
	"</q:commandline></domain>"

/* Which libvirt calls ("here", unless a test says otherwise), and whether the CPUs of its domains
 * do not run. */
extern const char *libvirt;
extern bool paused;

/* Sends a call of libvirt's hook. */
void hook(struct peer *p, const char *operation, const char *xml);
/* Reports that libvirt runs one VM, with an XML or, if it is NULL, another VM. Returns how many
 * elements the list KEY of the answer has; the address in its first one is then in ADDRESS. */
size_t sync_vm(const char *xml, const char *key, char address[32]);
/* Begins with VFs that no tenant has: a reset ends the guest drivers of the quick GPU's. */
void begin_free_with(const char *policy);
void begin_free(void);
/* The weight that a VF has, or will have once a change of policy is made. */
int64_t weight(uint32_t vf);
/* How many VFs are leased. */
uint32_t n_leases(void);
/* Returns whether vm.list says of the first VM's claim that WHAT is not in force; "": nothing. */
bool lacks(const char *what);
/* HOST has not reported for longer than vgpud waits. */
void be_silent(const char *host);
