# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Stops softgpu's process of VF 1 when the test asks for it.
if wait_for $((deadline - SECONDS)) '^LAB-STILL'; then
	for child in $(cat "/proc/$pid"/task/*/children); do
		! tr '\0' ' ' <"/proc/$child/cmdline" | grep -q -e '--vf 1 ' || kill -STOP "$child"
	done
fi
