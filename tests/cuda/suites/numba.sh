#!/bin/bash
# SPDX-License-Identifier: MIT
# numba.sh RUNNER [TEST...]: numba's tests of GPUs, a process for each file of them, or for each that is named.
set -uo pipefail
runner=$1
shift
[ $# != 0 ] || mapfile -t files < <(/usr/bin/python3 "$runner" --list)
for tests in "${@:-${files[@]}}"; do
	"$WITHIN" "${SUITE_SECONDS:-900}" /usr/bin/python3 "$runner" "$tests" </dev/null
	status=$?
	[ $status = 0 ] || printf '%s\tended with %s\n' "$tests" $status
done
