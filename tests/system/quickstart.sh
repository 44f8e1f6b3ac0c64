#!/bin/bash
# SPDX-License-Identifier: MIT
# ./quickstart, with the programs of this build: beside busy processes it ends with 0, or with 77, the reason and its figure, and
# calls no promise broken. With ./check --all also a vgpud whose slices end late, which it must find; and what it says to a user
# who is not root, and to a mistake.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
top=$(cd "$(dirname "$0")/../.." && pwd)
# tries CODES ARGS...: what it prints is in said
tries() {
	local got=0
	timeout 380 "$top/quickstart" "${@:2}" >"$run/said" 2>&1 </dev/null || got=$?
	[[ " $1 " = *" $got "* ]] || fail "quickstart ${*:2} ended with $got, want one of $1: $(tail -60 "$run/said")"
	code=$got
}
# Before it does anything, it looks at what it was asked, and by whom. /nonexistent: it would fail as soon as it ran a program.
for wrong in "--engine gpu" "--seconds 1" "--seconds x" "--seconds" "firmware" "--firmware --engine host"; do
	# shellcheck disable=SC2086
	tries 2 $wrong
	grep -q "^quickstart: .*see ./quickstart --help" "$run/said" && [ "$(wc -l <"$run/said")" = 1 ] || fail "$wrong: $(cat "$run/said")"
done
tries 0 --help
grep -q "^usage: ./quickstart" "$run/said" || fail "$(cat "$run/said")"
tries 1 --build /nonexistent
setpriv --reuid 65534 --regid 65534 --clear-groups "$BASH" "$top/quickstart" >"$run/said" 2>&1 && fail "quickstart runs without root"
grep -q "^quickstart: run this as root" "$run/said" && [ "$(wc -l <"$run/said")" = 1 ] || fail "$(cat "$run/said")"
for program in check tools/packaging/install tools/packaging/debian/build; do
	"$top/$program" --help | grep -q "^usage: " || fail "$program --help"
	"$top/$program" --nothing >/dev/null 2>"$run/said"
	[ $? = 2 ] && grep -q -- "--nothing" "$run/said" || fail "$program takes --nothing: $(cat "$run/said")"
done
# What builds vgpud needs no tool of the tests.
sed -n '/^# use build/,/^# use packages/p' "$top/tools/packaging/packages" | grep -qE 'clang|fish|lintian|libvirt' && fail "the set of build is too large"

judged() {
	! grep -q $'\e' "$run/said" || fail "quickstart writes escape codes to a file"
	case $code in
	0) grep -q "^== All promises kept" "$run/said" ;;
	77) grep -qE '^quickstart: not judged: (this machine was busy|tenants had too little work).* other programs took [0-9]+ % of this machine.s CPU time' "$run/said" ;;
	1) grep -q "^quickstart: vgpud has not kept to its policy's bounds" "$run/said" && grep -q "promises broken; the first: " "$run/said" ;;
	esac || fail "quickstart ends with $code, without the reason: $(tail -60 "$run/said")"
	[ $code = 1 ] || ! grep -qi broken "$run/said" || fail "quickstart calls a promise broken: $(cat "$run/said")"
}
busy() { # N busy processes, over all CPUs
	local n cpu cpus
	read -ra cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done | xargs)
	for n in $(seq "$1"); do
		cpu=${cpus[n % ${#cpus[@]}]}
		taskset -c "$cpu" "$BASH" -c 'while :; do :; done' &
		load+=($!)
	done
}
load=()
busy $((2 * $(nproc)))
tries "0 77" --seconds 2 --build "$VGPU_BUILD"
judged
# It says where its files are, and they are there.
if [ $code = 0 ]; then
	sed -n '/^files:/,/^$/p' "$run/said" | grep / >"$run/files"
	[ "$(wc -l <"$run/files")" -ge 5 ] || fail "few files: $(cat "$run/said")"
	while read -r f; do [ -s "$f" ] || fail "there is no $f"; done <"$run/files"
fi
kill "${load[@]}"

[ "${VGPU_CYCLES:-0}" -ge 40 ] || exit 0
tries "0 77" --firmware --seconds 4 --build "$VGPU_BUILD"
judged
# The same build, but for a vgpud whose timers come late.
cp -rs "$VGPU_BUILD" "$run/late"
rm "$run/late/scheduler/daemon/vgpud"
cat >"$run/late/scheduler/daemon/vgpud" <<-SH
	#!/bin/sh
	export ASAN_OPTIONS="\${ASAN_OPTIONS:+\$ASAN_OPTIONS:}verify_asan_link_order=0"
	LD_PRELOAD=$VGPU_BUILD/tests/system/liblate-timer.so exec "$vgpud" "\$@"
SH
chmod +x "$run/late/scheduler/daemon/vgpud"
# The machine's figure stands still, so that nothing excuses what is found.
unshare --mount true 2>/dev/null || { echo "skipped: no namespaces here"; exit 77; }
cp /proc/stat "$run/stat"
still() { unshare --mount --propagation private "$BASH" -c 'mount --bind "$1" /proc/stat && shift && exec "$@"' still "$run/stat" "$@"; }
got=0
still timeout 380 "$top/quickstart" --seconds 4 --build "$run/late" >"$run/said" 2>&1 </dev/null || got=$?
[ $got = 1 ] || fail "a vgpud whose slices end late: quickstart ended with $got: $(tail -60 "$run/said")"
code=1
judged
