/* SPDX-License-Identifier: MIT */
/* PCI addresses and UUIDs, in the forms that the field's tools print. */
#include <errno.h>
#include <string.h>

#include "suite.h"
#include "vgpu/names.h"

TEST(addresses, "PCI addresses: the field's forms have one normal form")
{
	static const struct {
		const char *text, *normal; /* NULL: not an address */
	} cases[] = {
		{"0000:3b:00.0", "0000:3b:00.0"},     /* the kernel, lspci -D */
		{"3b:00.0", "0000:3b:00.0"},	      /* lspci */
		{"00000000:3B:00.0", "0000:3b:00.0"}, /* nvidia-smi, DCGM */
		{"0000:3B:1F.7", "0000:3b:1f.7"},
		{"pci_0000_3b_00_1", "0000:3b:00.1"}, /* virsh nodedev-list */
		{"0001:3b:00.2", "0001:3b:00.2"},
		{"10000:e1:00.0", "10000:e1:00.0"}, /* VMD */
		{"0:3b:0.0", "0000:3b:00.0"},
		{"ffffffff:ff:1f.7", "ffffffff:ff:1f.7"},
		{"", NULL},
		{"0000:3b:00", NULL},
		{"3b:00", NULL},
		{"0000:3b:00.8", NULL},
		{"0000:3b:20.0", NULL},
		{"0000:13b:00.0", NULL},
		{"100000000:3b:00.0", NULL},
		{"0000:3b:00.0 ", NULL},
		{" 3b:00.0", NULL},
		{"0x00:3b:00.0", NULL},
		{"0000:3b:00.0/", NULL},
		{"0000_3b_00_0", NULL},
		{"pci_3b_00_0", NULL},
		{"pci_0000:3b:00.0", NULL},
		{"0000:3g:00.0", NULL},
		{"3b:00.00", NULL},
	};
	char out[PCI_ADDRESS_SIZE];
	struct pci_address parts;
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcpy(out, "unchanged");
		CU_ASSERT_EQUAL(pci_address_normal(cases[i].text, out),
				cases[i].normal ? 0 : -EINVAL);
		CU_ASSERT_STRING_EQUAL(out, cases[i].normal ? cases[i].normal : "unchanged");
		CU_ASSERT_EQUAL(pci_is_address(cases[i].text),
				cases[i].normal && strcmp(cases[i].text, cases[i].normal) == 0);
	}
	CU_ASSERT_EQUAL_FATAL(pci_address_read("0002:8d:1e.5", &parts), 0);
	CU_ASSERT(parts.domain == 2 && parts.bus == 0x8d && parts.device == 0x1e &&
		  parts.function == 5);
}

TEST(devices, "devices: the address in a name gets the normal form")
{
	static const char *const cases[][2] = {
		{"xe:00000000:3B:00.0", "xe:0000:3b:00.0"},
		{"vfio:3B:00.0,token-file=/A:B,C", "vfio:0000:3b:00.0,token-file=/A:B,C"},
		{"vfio-user:/run/3B:00.0", "vfio-user:/run/3B:00.0"},
		{"null:max_vfs=8,busy=3", "null:max_vfs=8,busy=3"},
		{"nvidia:0000:3G:00.0", "nvidia:0000:3G:00.0"},
		{"nothing", "nothing"},
		{"", ""},
	};
	char out[64];
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(vgpu_device_normal(cases[i][0], out, sizeof(out)), 0);
		CU_ASSERT_STRING_EQUAL(out, cases[i][1]);
	}
	/* The result may be longer than the text. */
	strcpy(out, "unchanged");
	CU_ASSERT_EQUAL(vgpu_device_normal("xe:3b:00.0", out, 15), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(vgpu_device_normal("vfio-user:/a", out, 12), -ENAMETOOLONG);
	CU_ASSERT_STRING_EQUAL(out, "unchanged");
	CU_ASSERT_EQUAL(vgpu_device_normal("xe:3b:00.0", out, 16), 0);
}

TEST(uuids, "UUIDs: any case, with or without dashes")
{
	static const char normal[] = "8a1f0b3c-0000-4000-8000-00000000000f";
	static const char *const good[] = {normal, "8A1F0B3C-0000-4000-8000-00000000000F",
					   "8a1f0b3c00004000800000000000000f"};
	static const char *const bad[] = {"",
					  "8a1f0b3c-0000-4000-8000-00000000000",
					  "8a1f0b3c-0000-4000-8000-00000000000f0",
					  "8a1f0b3c-0000-4000-8000-00000000000g",
					  "8a1f0b3c0-000-4000-8000-00000000000f",
					  "8a1f0b3c-0000-4000-800000000000000f",
					  "8a1f0b3c0000400080000000000000-f"};
	char out[VGPU_UUID_SIZE];
	unsigned i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CU_ASSERT_EQUAL(vgpu_uuid_normal(good[i], out), 0);
		CU_ASSERT_STRING_EQUAL(out, normal);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(vgpu_uuid_normal(bad[i], out), -EINVAL);
		CU_ASSERT_STRING_EQUAL(out, normal);
	}
}

int main(int argc, char **argv)
{

	return suite_main("names", NULL, argc, argv);
}
