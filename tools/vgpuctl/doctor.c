/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "answer.h"
#include "control_client.h"
#include "domain.h"
#include "reach.h"
#include "session.h"
#include "vfio/doctor.h"

#define LIBVIRT "/etc/libvirt"
#define HOOK LIBVIRT "/hooks/qemu.d/50-vgpud"
#define HOOK_NAME "libvirt's hook"
#define QEMU_CONF LIBVIRT "/qemu.conf"
#define APPARMOR "/etc/apparmor.d/abstractions/libvirt-qemu"

struct round {
	struct json_object *list; /* NULL: print each finding */
	bool colour, well;
	char cure[200]; /* of the first bad finding that has one, with its subject */
	char hook[200]; /* the same of libvirt's hook and of QEMU's access; "": they are not bad */
	bool no_gpu;	/* no PCI function is a GPU */
};

static void finding(void *data, enum doctor_verdict verdict, const char *subject, const char *text,
		    const char *cure)
{
	static const char *const words[] = {"ok", "note", "bad"}, *const colours[] = {"32", "33",
										      "31"};
	struct round *r = data;
	struct json_object *o;

	r->no_gpu = r->no_gpu || strcmp(subject, DOCTOR_NO_GPU) == 0;
	r->well = r->well && verdict != DOCTOR_BAD;
	if (verdict == DOCTOR_BAD && *cure && !r->cure[0])
		snprintf(r->cure, sizeof(r->cure), "%s: %s", subject, cure);
	if (verdict == DOCTOR_BAD && !r->hook[0] &&
	    (strcmp(subject, HOOK_NAME) == 0 || strncmp(subject, "QEMU, ", 6) == 0))
		snprintf(r->hook, sizeof(r->hook), "%s: %s", subject, cure);
	if (!r->list) {
		printf(r->colour ? "\033[%sm%-4s\033[0m  " : "%.0s%-4s  ", colours[verdict],
		       words[verdict]);
		printf("%-17s %s\n", subject, text);
		if (*cure)
			printf("%25s-> %s\n", "", cure);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "verdict", json_object_new_string(words[verdict]));
	json_object_object_add(o, "subject", json_object_new_string(subject));
	json_object_object_add(o, "finding", json_object_new_string(text));
	json_object_object_add(o, "cure", json_object_new_string(cure));
	json_object_array_add(r->list, o);
}

/* Whether libvirt calls the hook: vgpud-libvirt finds out (see its probe.c). */
static void probe_hook(struct round *r)
{
	char unused[] = "", verb[] = "probe-hook";
	char *argv[] = {unused, verb, NULL}, *text;
	size_t size = 0;
	int status;

	text = domain_output(argv, &size, &status);
	if (text)
		text[strcspn(text, "\n")] = '\0';
	if (status == 0)
		finding(r, DOCTOR_OK, HOOK_NAME, text, "");
	else if (status == 1)
		finding(r, DOCTOR_BAD, HOOK_NAME,
			"libvirt does not call it: VMs start without their VFs",
			"systemctl reload libvirtd, or virtqemud");
	else
		finding(r, DOCTOR_NOTE, HOOK_NAME, "whether libvirt calls it cannot be told",
			text && *text ? text : "vgpud-libvirt cannot be run");
	free(text);
}

/* libvirt runs every executable file in hooks/qemu.d; ours is a symlink to /usr/sbin/vgpud-hook. */
static void check_hook(struct round *r)
{
	if (access(LIBVIRT, F_OK) < 0)
		finding(r, DOCTOR_NOTE, "libvirt",
			"libvirt is not installed; only programs can use VFs", "");
	else if (access(HOOK, X_OK) < 0)
		finding(r, DOCTOR_NOTE, HOOK_NAME,
			"not installed: vgpud is not consulted when a VM starts",
			"ln -s /usr/sbin/vgpud-hook " HOOK ", and reload libvirtd");
	else
		probe_hook(r);
}

/* The label that libvirt gives to a VM must let it connect, too. */
static void check_labels(struct round *r)
{
	if (access("/sys/kernel/security/apparmor/profiles", F_OK) == 0 &&
	    access(APPARMOR, F_OK) == 0 && access(APPARMOR ".d/softgpu", F_OK) < 0)
		finding(r, DOCTOR_BAD, "AppArmor",
			"libvirt's profiles do not let QEMU connect to softgpu's VFs",
			"install " APPARMOR ".d/softgpu, of the package softgpu");
	if (access("/sys/fs/selinux/enforce", F_OK) == 0)
		finding(r, DOCTOR_NOTE, "SELinux",
			"QEMU, as svirt_t, may not connect to softgpu's VFs without a module for "
			"that",
			"vgpud's softgpu.md, libvirt's QEMU");
}

/* Whether QEMU reaches the sockets of the VFs of one GPU; the first that it does not reach is
 * reported. Returns whether the VFs of that GPU have sockets. */
static bool check_sockets(struct round *r, const char *gpu, struct json_object *vfs,
			  const char *user)
{
	struct vgpu_error err = {""};
	const char *address = "";
	char subject[80], cure[200];
	size_t i, sockets = 0;
	int status = 0;

	for (i = 0; i < count(vfs) && status == 0; i++) {
		address = get_text(json_object_array_get_idx(vfs, i), "address");
		if (address[0] != '/')
			continue;
		sockets++;
		status = reach_socket(user, address, &err);
	}
	if (sockets == 0)
		return false;
	snprintf(subject, sizeof(subject), "QEMU, %s", gpu);
	snprintf(cure, sizeof(cure),
		 "SOFTGPU_OPTIONS=\"--socket-user %s\" in /etc/vgpud/softgpu-NAME.conf, and "
		 "systemctl restart vgpud-softgpu@NAME",
		 user);
	if (status == 0)
		snprintf(err.text, sizeof(err.text), "%s can connect to the VFs' sockets", user);
	finding(r, status < 0 ? DOCTOR_BAD : DOCTOR_OK, subject, err.text, status < 0 ? cure : "");
	return true;
}

/* Whether the QEMU of a VM can have a VF of softgpu. */
static void check_qemu(const struct options *o, struct round *r)
{
	struct json_object *gpus = NULL, *answer, *args;
	struct vgpu_error err;
	bool sockets = false;
	const char *gpu;
	char user[64];
	size_t i;
	int fd;

	if (access(LIBVIRT, F_OK) < 0)
		return;
	fd = client_connect(session_path(o), &err);
	if (fd >= 0)
		client_call(fd, "gpu.list", NULL, &gpus, &err);
	reach_qemu_user(QEMU_CONF, user, sizeof(user));
	for (i = 0; i < count(get(gpus, "gpus")); i++) {
		gpu = get_text(json_object_array_get_idx(get(gpus, "gpus"), i), "gpu");
		args = json_object_new_object();
		json_object_object_add(args, "gpu", json_object_new_string(gpu));
		answer = NULL;
		if (client_call(fd, "vf.list", args, &answer, &err) >= 0)
			sockets |= check_sockets(r, gpu, get(answer, "vfs"), user);
		json_object_put(answer);
	}
	if (sockets)
		check_labels(r);
	json_object_put(gpus);
	if (fd >= 0)
		close(fd);
}

/* What vgpud warns of, about VMs that run. */
static void check_vms(const struct options *o, struct round *r)
{
	static const char *const texts[][3] = {
		{"unadmitted", "runs, and vgpud did not admit its claim",
		 "see whether libvirt calls the hook, and start the VM anew"},
		{"wrong-device",
		 "has a device for a VF that does not go together with its claim: it will not "
		 "start "
		 "again like this",
		 "'vgpuctl vm explain' says what is wrong"},
		{"may-lose-state",
		 "could be saved or migrated, and its VF would be dead after that",
		 "add the block device that prevents it: vgpud's domain.md, VFs of softgpu"},
	};
	struct json_object *v = NULL, *list, *w;
	struct vgpu_error err;
	char subject[80];
	size_t i, k;
	int fd = client_connect(session_path(o), &err);

	if (fd >= 0)
		client_call(fd, "vm.list", NULL, &v, &err);
	list = get(v, "warnings");
	for (i = 0; i < count(list); i++) {
		w = json_object_array_get_idx(list, i);
		for (k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			if (strcmp(get_text(w, "warning"), texts[k][0]) != 0)
				continue;
			snprintf(subject, sizeof(subject), "VM %s", get_text(w, "domain"));
			finding(r, DOCTOR_NOTE, subject, texts[k][1], texts[k][2]);
		}
	}
	json_object_put(v);
	if (fd >= 0)
		close(fd);
}

/* How many GPUs and VMs vgpud has, or -errno. */
static int ask_vgpud(const struct options *o, size_t *gpus, size_t *vms)
{
	struct vgpu_error err;
	struct json_object *g = NULL, *v = NULL;
	int fd = client_connect(session_path(o), &err), r = fd;

	if (r >= 0)
		r = client_call(fd, "gpu.list", NULL, &g, &err);
	if (r >= 0)
		r = client_call(fd, "vm.list", NULL, &v, &err);
	*gpus = count(get(g, "gpus"));
	*vms = count(get(v, "vms"));
	json_object_put(g);
	json_object_put(v);
	if (fd >= 0)
		close(fd);
	return r;
}

/* The one thing to do next. A vgpud with GPUs shows that the host is ready for those. */
static void next_step(const struct options *o, const struct round *r)
{
	size_t gpus, vms;
	int answers = ask_vgpud(o, &gpus, &vms);

	fputs("next: ", stdout);
	if (answers == -EACCES)
		puts("run this as root: you may not ask vgpud");
	else if (answers >= 0 && gpus > 0 && r->hook[0])
		puts(r->hook);
	else if (answers >= 0 && vms > 0)
		printf("nothing to do: VMs have %zu VF%s ('vgpuctl vm list')\n", vms,
		       vms > 1 ? "s" : "");
	else if (answers >= 0 && gpus > 0)
		printf("vgpud has %zu GPU%s: put a claim into a VM's XML and start the VM ('man "
		       "vgpud-domain')\n",
		       gpus, gpus > 1 ? "s" : "");
	else if (r->no_gpu)
		puts("start the software GPU (systemctl enable --now vgpud-softgpu@soft0), name it "
		     "in /etc/vgpud/vgpud.conf, and restart vgpud");
	else if (r->cure[0])
		printf("%s\n", r->cure);
	else if (answers >= 0)
		puts("name a GPU in /etc/vgpud/vgpud.conf.d/gpu.conf ('man vgpud.conf'), then "
		     "systemctl restart vgpud");
	else
		puts("systemctl enable --now vgpud.service; 'systemctl status vgpud' says why it "
		     "does not run");
}

/* What the transport of a GPU's device needs. */
static unsigned needs_of(const char *device)
{
	static const struct {
		const char *transport;
		unsigned needs;
	} table[] = {{"vfio-user:", DOCTOR_NEEDS_NOTHING},
		     {"null", DOCTOR_NEEDS_NOTHING},
		     {"sysfs:", DOCTOR_NEEDS_PCI | DOCTOR_NEEDS_STUB}};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strncmp(device, table[i].transport, strlen(table[i].transport)) == 0)
			return table[i].needs;
	return DOCTOR_NEEDS_PCI;
}

/* What vgpud's GPUs need; everything, if it has none or does not say which. */
static unsigned needs(const struct options *o)
{
	struct json_object *answer = NULL, *list;
	unsigned all = DOCTOR_NEEDS_NOTHING;
	struct vgpu_error err;
	int fd = client_connect(session_path(o), &err);
	size_t i, n;

	if (fd < 0)
		return DOCTOR_NEEDS_ALL;
	client_call(fd, "gpu.list", NULL, &answer, &err);
	close(fd);
	list = get(answer, "gpus");
	n = count(list);
	for (i = 0; i < n; i++)
		all |= needs_of(get_text(at(list, i), "device"));
	json_object_put(answer);
	return n > 0 ? all : DOCTOR_NEEDS_ALL;
}

bool doctor(const struct options *o, bool colour)
{
	struct round r = {.list = o->json ? json_object_new_array() : NULL,
			  .colour = colour,
			  .well = true};

	vfio_doctor(finding, &r, needs(o));
	check_hook(&r);
	check_qemu(o, &r);
	check_vms(o, &r);
	if (r.list)
		puts(json_object_to_json_string_ext(r.list, JSON_C_TO_STRING_PRETTY));
	else
		next_step(o, &r);
	json_object_put(r.list);
	return r.well;
}
