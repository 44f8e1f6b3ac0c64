/* SPDX-License-Identifier: MIT */
#include "metrics_address.h"

#include <stdio.h>
#include <string.h>

#include "vgpu/local_socket.h"
#include "vgpu/number.h"

int32_t metrics_address_split(const char *where, char out[16])
{
	static const char *const hosts[][2] = {{"127.0.0.1:", "127.0.0.1"},
					       {"localhost:", "127.0.0.1"},
					       {"[::1]:", "::1"}};
	int64_t port = 0;
	uint32_t i;

	for (i = 0; i < 3; i++)
		if (strncmp(where, hosts[i][0], strlen(hosts[i][0])) == 0) {
			snprintf(out, 16, "%s", hosts[i][1]);
			if (vgpu_parse_int(where + strlen(hosts[i][0]), &port) == 0 && port > 0 &&
			    port < 65536)
				return (int32_t)port;
		}
	return -1;
}

bool metrics_is_address(const char *where)
{
	char host[16];

	if (strncmp(where, "unix:/", 6) == 0)
		return strlen(where + 5) < VGPU_SOCKET_PATH;
	return metrics_address_split(where, host) > 0;
}
