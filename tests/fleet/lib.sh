# SPDX-License-Identifier: MIT
# Sourced by the scripts that run in the fleet's namespaces.
set -uo pipefail
cd /
fail() {
	echo "FAILED: $*"
	exit 1
}
await() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "timed out waiting for: $*"
		sleep 0.1
	done
}
listens() { (: </dev/tcp/"$1"/"$2") 2>/dev/null; } # ADDRESS PORT
