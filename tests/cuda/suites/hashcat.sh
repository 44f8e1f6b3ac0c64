#!/bin/bash
# SPDX-License-Identifier: MIT
# hashcat.sh ROOT WORK [MODE...]: hashcat finds the passwords of hashes that its documentation publishes, one of each mode, among
# wrong ones, and runs its benchmark. Prints a line for each: the mode, a tab, and what became of it. run gives LIBRARIES and WITHIN.
set -uo pipefail
root=$1 work=$2
shift 2
mkdir -p "$work"
share=$root/usr/share/hashcat
cp "$root/usr/bin/hashcat" "$share/" || exit 1 # it looks for its files beside itself
ln -sf "$root"/usr/lib/*-linux-gnu/libnvrtc.so.11.2 "$work/libnvrtc.so" # the name that it looks for
[ $# != 0 ] || set -- benchmark 0 10 100 300 400 500 900 1000 1400 1700 1800 3000 3200 5600 6000 7400
# The least work at a time: the GPU is a CPU.
hashcat() {
	HOME=$work LD_LIBRARY_PATH=$work:$LIBRARIES "$WITHIN" "${SUITE_SECONDS:-600}" "$share/hashcat" --backend-ignore-opencl --force -n 1 -u 1 -T 1 \
		--potfile-disable "$@" </dev/null 2>>"$work/log"
}
: >"$work/log"
for mode; do
	if [ "$mode" = benchmark ]; then
		speed=$(hashcat -b -m 0 --machine-readable | grep '^[0-9]' | cut -d: -f6)
		[ "${speed%.*}" -gt 0 ] 2>/dev/null && printf 'benchmark\tpassed\n' || printf 'benchmark\tfailed: %s\n' "$speed"
		continue
	fi
	about=$(hashcat -m "$mode" --hash-info)
	hash=$(sed -n 's/^ *Example\.Hash\.*: //p' <<<"$about") word=$(sed -n 's/^ *Example\.Pass\.*: //p' <<<"$about")
	printf 'wrong1\n%s\nwrong2\n' "$word" >"$work/words"
	printf '%s\n' "$hash" >"$work/hash"
	found=$(hashcat -m "$mode" -a 0 --self-test-disable --quiet "$work/hash" "$work/words" | tail -1)
	[ -n "$word" ] && [ "${found##*:}" = "$word" ] && printf '%s\tpassed\n' "$mode" || printf '%s\tfailed: %s\n' "$mode" "$found"
done
