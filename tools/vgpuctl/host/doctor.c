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
#include "needs.h"
#include "reach.h"
#include "session.h"
#include "venus.h"
#include "vfio/doctor.h"

#define LIBVIRT "/etc/libvirt"
#define HOOK LIBVIRT "/hooks/qemu.d/50-vgpud"
#define HOOK_NAME "libvirt's hook"
#define QEMU_CONF LIBVIRT "/qemu.conf"
#define APPARMOR "/etc/apparmor.d/abstractions/libvirt-qemu"

struct round {
	struct json_object *list; /* NULL: print each finding as text */
	bool colour, well;
	char cure[200]; /* remedy and subject of the first bad finding that has a remedy */
	char hook[200]; /* the same, of libvirt's hook and of QEMU's access; "": those are not
			 * bad */
	bool no_gpu;	/* no PCI function is a GPU */
	/* vgpud's answers; if it gives none, the reason. */
	int answers; /* 0, or -errno */
	struct vgpu_error silent;
	struct json_object *gpus, *vms;
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

/* Checks that libvirt calls the hook; vgpud-libvirt tests that (see its probe.c). */
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
		finding(r, DOCTOR_NOTE, HOOK_NAME, "cannot find out whether libvirt calls it",
			text && *text ? text : "vgpud-libvirt cannot be run");
	free(text);
}

/* Checks that the hook is installed: libvirt runs every executable file in hooks/qemu.d, where
 * vgpud's is a symlink to /usr/sbin/vgpud-hook. */
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

/* Checks that the security label that libvirt gives to a VM also lets QEMU connect. */
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

/* Checks that QEMU can connect to the sockets of the VFs of one GPU, and reports the first to which
 * it cannot. Returns whether the VFs of that GPU have sockets. */
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

/* Checks that the QEMU of a VM can use a VF of softgpu. */
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

/* Asks vgpud once, so that a vgpud that does not answer costs only one time-out. */
static void ask_vgpud(const struct options *o, struct round *r)
{
	int fd = client_connect(session_path(o), &r->silent);

	r->answers = fd < 0 ? fd : client_call(fd, "gpu.list", NULL, &r->gpus, &r->silent);
	if (r->answers == 0)
		r->answers = client_call(fd, "vm.list", NULL, &r->vms, &r->silent);
	if (fd >= 0)
		close(fd);
}

/* Returns whether vgpud does not serve requests for a known reason. */
static bool is_silent(const struct round *r)
{
	return r->answers < 0 && strncmp(r->silent.text, "vgpud", 5) == 0;
}

/* Reports a vgpud that does not answer, and GPUs that it has lost. A vgpud that was never started
 * is not an error. */
static void check_vgpud(struct round *r)
{
	struct json_object *list = get(r->gpus, "gpus"), *g;
	char subject[80];
	size_t i;

	if (r->answers == -ENOENT || r->answers == -ECONNREFUSED)
		finding(r, is_silent(r) ? DOCTOR_BAD : DOCTOR_NOTE, "vgpud", r->silent.text,
			"'systemctl status vgpud' says more");
	else if (r->answers < 0 && r->answers != -EACCES)
		finding(r, DOCTOR_BAD, "vgpud", r->silent.text,
			"'systemctl status vgpud' says more");
	for (i = 0; i < count(list); i++) {
		g = json_object_array_get_idx(list, i);
		snprintf(subject, sizeof(subject), "GPU %s", get_text(g, "gpu"));
		if (strcmp(get_text(g, "state"), "lost") == 0)
			finding(r, DOCTOR_BAD, subject, get_text(g, "why"),
				"vgpud looks for it again, and schedules the other GPUs meanwhile");
	}
}

static void check_venus(struct round *r)
{
	struct json_object *gpus = get(r->gpus, "gpus");
	bool gated = false;
	size_t i;

	for (i = 0; i < count(gpus); i++)
		gated |= strncmp(get_text(json_object_array_get_idx(gpus, i), "device"),
				 "vulkan:", 7) == 0;
	if (gated)
		venus_doctor(finding, r);
}

/* Reports vgpud's warnings about running VMs. */
static void check_vms(struct round *r)
{
	static const char *const texts[][3] = {
		{"unadmitted", "runs, and vgpud did not admit its claim",
		 "check that libvirt calls the hook, and start the VM anew"},
		{"wrong-device",
		 "has a device that does not match its claim for a VF, so it will not start again",
		 "'vgpuctl vm explain' says what is wrong"},
		{"may-lose-state",
		 "could be saved or migrated, and its VF would be dead after that",
		 "add the block device that prevents it: vgpud's domain.md, VFs of softgpu"},
	};
	struct json_object *list = get(r->vms, "warnings"), *w;
	char subject[80];
	size_t i, k;

	for (i = 0; i < count(list); i++) {
		w = json_object_array_get_idx(list, i);
		for (k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			if (strcmp(get_text(w, "warning"), texts[k][0]) != 0)
				continue;
			snprintf(subject, sizeof(subject), "VM %s", get_text(w, "domain"));
			finding(r, DOCTOR_NOTE, subject, texts[k][1], texts[k][2]);
		}
	}
}

/* Prints the next thing to do. If vgpud has GPUs, this host is ready for those. */
static void next_step(const struct round *r)
{
	size_t gpus = count(get(r->gpus, "gpus")), vms = count(get(r->vms, "vms"));
	int answers = r->answers;

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
	else if (is_silent(r))
		puts(r->silent.text);
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

bool doctor(const struct options *o, bool colour)
{
	struct round r = {.list = o->json ? json_object_new_array() : NULL,
			  .colour = colour,
			  .well = true};
	struct needs needs;

	ask_vgpud(o, &r);
	needs = needs_find(r.gpus, session_path(o));
	vfio_doctor(finding, &r, needs.all);
	if (needs.mistaken)
		finding(&r, DOCTOR_BAD, "configuration", "it cannot be used",
			"'vgpud --check-config' prints its mistakes");
	check_vgpud(&r);
	check_hook(&r);
	check_qemu(o, &r);
	check_venus(&r);
	check_vms(&r);
	if (r.list)
		puts(json_object_to_json_string_ext(r.list, JSON_C_TO_STRING_PRETTY));
	else
		next_step(&r);
	json_object_put(r.list);
	json_object_put(r.gpus);
	json_object_put(r.vms);
	return r.well;
}
