/* SPDX-License-Identifier: MIT */
/*
 * Keeps in running domains what their VFs would take with them to another host: an element of the
 * live <metadata>, which libvirt carries there. A domain's definition has none.
 */
#pragma once

#include <json-c/json.h>
#include <libvirt/libvirt.h>

/* Puts <travel> elements into domains of LIBVIRT: WANT, which this takes, has them by the domains'
 * UUIDs. Domains that have theirs already are not changed; those that are not in WANT any more lose
 * theirs, and a null in it leaves what the domain has. Failures are logged, and tried again when
 * the element changes. A domain that is just being moved or saved, and would keep the caller
 * waiting, is left for the next call. */
void metadata_update(virConnectPtr libvirt, struct json_object *want);
