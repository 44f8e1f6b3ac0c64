/* SPDX-License-Identifier: MIT */
#include "named.h"

#include <errno.h>
#include <libvirt/virterror.h>
#include <stddef.h>

#include "exit_code.h"
#include "vgpu/names.h"

static const struct {
	int error, code;
} codes[] = {
	{VIR_ERR_NO_DOMAIN, EXIT_NOT_FOUND},	{VIR_ERR_AUTH_FAILED, EXIT_DENIED},
	{VIR_ERR_AUTH_CANCELLED, EXIT_DENIED},	{VIR_ERR_AUTH_UNAVAILABLE, EXIT_DENIED},
	{VIR_ERR_ACCESS_DENIED, EXIT_DENIED},	{VIR_ERR_OPERATION_DENIED, EXIT_DENIED},
	{VIR_ERR_NO_CONNECT, EXIT_NO_DAEMON},	{VIR_ERR_RPC, EXIT_NO_DAEMON},
	{VIR_ERR_INVALID_CONN, EXIT_NO_DAEMON},
};

virDomainPtr domain_of(virConnectPtr libvirt, const char *name)
{
	char uuid[VGPU_UUID_SIZE];
	virDomainPtr d = vgpu_uuid_normal(name, uuid) == 0
				 ? virDomainLookupByUUIDString(libvirt, uuid)
				 : NULL;

	return d ? d : virDomainLookupByName(libvirt, name);
}

int refused_code(void)
{
	const virError *e = virGetLastError();
	size_t i;

	/* libvirt's client reports what the socket said as its errno, in int1. */
	if (e && e->code == VIR_ERR_SYSTEM_ERROR)
		return e->int1 == EACCES || e->int1 == EPERM ? EXIT_DENIED : EXIT_NO_DAEMON;
	for (i = 0; e && i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].error == e->code)
			return codes[i].code;
	return EXIT_FAILED;
}
