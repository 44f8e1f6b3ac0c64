/* SPDX-License-Identifier: MIT */
#include "metrics_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vgpu/local_socket.h"
#include "vgpu/number.h"

socklen_t metrics_address_parse(const char *where, struct sockaddr_storage *out)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	const char *colon = strrchr(where, ':');
	char host[INET6_ADDRSTRLEN + 2];
	int64_t port;
	size_t n = colon ? (size_t)(colon - where) : 0;

	if (n == 0 || n >= sizeof(host) || vgpu_parse_int(colon + 1, &port) < 0 || port <= 0 ||
	    port > 65535)
		return 0;
	snprintf(host, sizeof(host), "%.*s", (int)n, where);
	*out = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
	v4.sin_port = v6.sin6_port = htons((uint16_t)port);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
			return 0;
		memcpy(out, &v6, sizeof(v6));
		return sizeof(v6);
	}
	if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4.sin_addr) !=
	    1)
		return 0;
	memcpy(out, &v4, sizeof(v4));
	return sizeof(v4);
}

bool metrics_address_is_local(const struct sockaddr_storage *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	memcpy(&v4, address, sizeof(v4));
	memcpy(&v6, address, sizeof(v6));
	return address->ss_family == AF_INET ? ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					     : IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool metrics_is_address(const char *where)
{
	struct sockaddr_storage unused;

	if (strncmp(where, "unix:/", 6) == 0)
		return strlen(where + 5) < VGPU_SOCKET_PATH;
	return metrics_address_parse(where, &unused) > 0;
}
