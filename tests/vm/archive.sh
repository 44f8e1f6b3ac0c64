# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The machine's own archives, for packages that are fetched and not installed. Sourced.

# archive [-security]: where it is; nothing if the machine has none.
archive() {
	sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list \
		/etc/apt/sources.list.d/debian.* 2>/dev/null | grep "debian${1:-}/*$" | head -1 || true
}

# sources TYPE SUITE...: the lines of a sources.list.
sources() {
	local type=$1 suite where
	for suite in "${@:2}"; do
		case $suite in *-security) where=$(archive -security) ;; *) where=$(archive) ;; esac
		[ -z "$where" ] || echo "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $where $suite main"
	done
}
