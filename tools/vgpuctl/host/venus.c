/* SPDX-License-Identifier: MIT */
#include "venus.h"

#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "remote.h"

#define SUBJECT "VMs on gated GPUs"
#define SERVER "/usr/libexec/virgl_render_server"
#define NODES "/dev/dri/renderD*"

/* Whether the QEMU that vgpud-qemu executes has Venus. It names in its help what its GPU can do. */
static bool has_venus(void)
{
	char shell[] = "sh", option[] = "-c";
	char command[] = "exec timeout -s KILL 20 \"${VGPUD_QEMU:-/usr/bin/qemu-system-x86_64}\" "
			 "-device virtio-gpu-gl-pci,help 2>/dev/null";
	char *argv[] = {shell, option, command, NULL};
	size_t size;
	int code;
	char *help = remote_output(argv, "", &size, &code);
	bool has = help && code == 0 && strstr(help, "venus=");

	free(help);
	return has;
}

static bool has_node(void)
{
	glob_t nodes;
	bool has = glob(NODES, 0, NULL, &nodes) == 0;

	globfree(&nodes);
	return has;
}

void venus_doctor(doctor_report *report, void *data)
{
	bool qemu = has_venus(), server = access(SERVER, X_OK) == 0;

	if (!qemu)
		report(data, DOCTOR_NOTE, SUBJECT,
		       "QEMU's virtio-gpu-gl-pci has no venus: only programs can use gated GPUs",
		       "install QEMU 9.2 or later with its OpenGL modules (Debian 13: "
		       "qemu-system-x86, qemu-system-modules-opengl)");
	if (!server)
		report(data, DOCTOR_NOTE, SUBJECT,
		       SERVER " is missing: guests have no Vulkan device",
		       "install virglrenderer 1.1 or later with Venus (Debian 13: virgl-server)");
	if (qemu && server)
		report(data, DOCTOR_OK, SUBJECT, "QEMU and virglrenderer have Venus", "");
	if (!has_node())
		report(data, DOCTOR_NOTE, SUBJECT,
		       "no " NODES ": Vulkan has the CPU alone, unless the GPU's driver needs none",
		       "for a GPU of AMD or Intel, load its kernel driver");
}
