# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by scripts that fetch packages from the machine's own archives without installing them.

# archive [-security]: prints the archive's URL; prints nothing if the machine has none.
archive() {
	sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list \
		/etc/apt/sources.list.d/debian.* 2>/dev/null | grep "debian${1:-}/*$" | head -1 || true
}

# sources TYPE SUITE...: prints the lines of a sources.list.
sources() {
	local type=$1 suite where
	for suite in "${@:2}"; do
		case $suite in *-security) where=$(archive -security) ;; *) where=$(archive) ;; esac
		[ -z "$where" ] || echo "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $where $suite main"
	done
}
