/* SPDX-License-Identifier: MIT */
/* What vgpud-qemu lets through, changes, and refuses of QEMU's arguments. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "suite.h"

#define GPU "virtio-gpu-gl-pci,hostmem=1G,blob=true,venus=true"

/* Looks at OPTION with VALUE; returns what VALUE is then, or why it is refused after "no: ". */
static const char *look(const char *option, const char *value, bool *venus)
{
	static char copies[2][256], said[256];
	char *argv[] = {copies[0], copies[1], NULL};
	struct vgpu_error err = {""};

	snprintf(copies[0], sizeof(copies[0]), "%s", option);
	snprintf(copies[1], sizeof(copies[1]), "%s", value);
	if (qemu_arguments(argv, venus, &err) < 0)
		snprintf(said, sizeof(said), "no: %s", err.text);
	else
		snprintf(said, sizeof(said), "%s", argv[1]);
	if (argv[1] != copies[1])
		free(argv[1]);
	return said;
}

TEST(test_taken, "taken")
{
	static const struct {
		const char *option, *value;
		bool venus;
	} cases[] = {
		{"-device", GPU, true},
		{"--device", GPU, true},
		{"-device", "driver=" GPU, true},
		{"-device",
		 "{\"driver\":\"virtio-vga-gl\",\"id\":\"video0\",\"max_outputs\":1,\"venus\":true,"
		 "\"blob\":true,\"hostmem\":1073741824,\"bus\":\"pcie.0\",\"addr\":\"0x1\"}",
		 true},
		{"-device", "virtio-net-pci,netdev=n", false},
		{"-device", "{\"driver\":\"virtio-gpu-pci\"}", false},
		{"-device", "virtio-blk-pci,serial=a,,b", false},
		{"-display", "egl-headless,rendernode=/dev/dri/renderD128", false},
		{"-display", "none", false},
		{"-spice", "port=0,gl=off", false},
		{"-spice", "gl=off,addr=a,,b,password-secret=nogl", false},
		{"-global", "ICH9-LPC.noreboot=off", false},
		{"-name", "guest=vm1", false},
	};
	bool venus;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_STRING_EQUAL(look(cases[i].option, cases[i].value, &venus),
				       cases[i].value);
		CU_ASSERT_EQUAL(venus, cases[i].venus);
	}
}

TEST(test_refused, "refused")
{
	static const struct {
		const char *option, *value, *why;
	} cases[] = {
		{"-device", "virtio-gpu-gl-pci", "want venus=on"},
		{"-device", GPU ",venus=off", "want venus=on"},
		{"-device", "virtio-gpu-gl-pci,hostmem=0,blob=true,venus=true", "want hostmem="},
		{"-device", GPU ",drm_native_context=on", "want drm_native_context=off"},
		{"-device", GPU ",new=on", "new is not understood"},
		{"-device", GPU ",id=a,,b", "is not understood"},
		{"-device", "id=a,,b,driver=" GPU, "is not understood"},
		{"-device", "{\"driver\":\"virtio-gpu-gl-pci\",\"venus\":false}", "want venus=on"},
		{"-device", "{\"driver\":", "is not understood"},
		{"-device", "[]", ""},
		{"-device", "vhost-user-gpu-pci,chardev=c", "past the gate"},
		/* any kind of virtio device, by its number: 16 is a GPU */
		{"-device", "vhost-user-device-pci,chardev=c,virtio-id=16", "past the gate"},
		{"-device", "vhost-user-test-device,chardev=c,virtio-id=16", "past the gate"},
		{"-device", "virtio-gpu-rutabaga-pci", "past the gate"},
		{"-display", "gtk,gl=on", "want egl-headless"},
		{"-display", "dbus", "want egl-headless"},
		{"-spice", "unix=on,gl=on", "want gl=off"},
		{"-spice", "gl=on", "want gl=off"},
		{"-spice", "unix=on,gl", "want gl=off"},
		{"-spice", "gl,unix=on", "want gl=off"},
		{"-spice", "gl=off,gl=on", "want gl=off"},
		{"-spice", "gl=on,gl=off", "want gl=off"},
		{"-spice", "gl=off,gl", "want gl=off"},
		{"-spice", "nogl,unix=on", "want gl=off"},
		{"-spice", "addr=a,,,gl=on", "want gl=off"},
		{"-preconfig", "", "is not understood"},
		{"-global", "virtio-gpu-gl-pci.venus=off", "with the device"},
		{"-readconfig", "vm.cfg", "is not understood"},
		{"-set", "device.gpu.venus=off", "is not understood"},
	};
	bool venus;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *said = look(cases[i].option, cases[i].value, &venus);

		CU_ASSERT(!*cases[i].why || strncmp(said, "no: ", 4) == 0);
		CU_ASSERT(strstr(said, cases[i].why) != NULL);
	}
}

TEST(test_two, "two GPUs")
{
	char device[] = "-device", one[] = GPU, two[] = GPU;
	char *argv[] = {device, one, device, two, NULL};
	struct vgpu_error err = {""};
	bool venus;

	CU_ASSERT(qemu_arguments(argv, &venus, &err) < 0);
	CU_ASSERT(strstr(err.text, "only one GPU") != NULL);
}

/* libvirt asks a QEMU that it starts as a daemon what it can do. */
TEST(test_daemon, "a daemon")
{
	char daemonize[] = "-daemonize", device[] = "--device", gpu[] = GPU, uuid[] = "--uuid";
	char *asked[] = {daemonize, NULL}, *vm[] = {device, gpu, uuid, gpu, daemonize, NULL};
	struct vgpu_error err = {""};
	bool venus;

	CU_ASSERT_EQUAL(qemu_arguments(asked, &venus, &err), 0);
	CU_ASSERT(qemu_arguments(vm, &venus, &err) < 0);
	CU_ASSERT(strstr(err.text, "-daemonize") != NULL);
	CU_ASSERT_PTR_EQUAL(qemu_argument(vm, "uuid"), gpu);
	CU_ASSERT_STRING_EQUAL(qemu_argument(vm, "daemonize"), "");
	CU_ASSERT_PTR_NULL(qemu_argument(asked, "uuid"));
}

/* The render server may be started; what else is denied stays denied. */
TEST(test_sandbox, "sandbox")
{
	bool venus;

	CU_ASSERT_STRING_EQUAL(look("-sandbox",
				    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
				    "resourcecontrol=deny",
				    &venus),
			       "on,obsolete=deny,elevateprivileges=allow,spawn=allow,"
			       "resourcecontrol=deny");
	CU_ASSERT_STRING_EQUAL(look("-sandbox", "on,elevateprivileges=children", &venus),
			       "on,elevateprivileges=allow");
	CU_ASSERT_STRING_EQUAL(look("-sandbox", "off", &venus), "off");
}

SUITE_MAIN("gate-qemu")
