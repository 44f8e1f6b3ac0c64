#!/bin/bash
# SPDX-License-Identifier: MIT
# Policies as plug-ins: the example, built against the installed header; one built with the header of version 1.0; faulty
# ones, which vgpud evicts with a reason while tenants keep working; and files that vgpud refuses to load, each with a
# sentence that says why.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)
sim=$VGPU_BUILD/tools/sim/vgpu-sim
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, whom plug-ins have to belong to"; exit 77; }
command -v pkg-config >/dev/null || { echo "skipped: pkg-config is missing"; exit 77; }
cc=${CC:-gcc}
plugins=$run/plugins
mkdir -m 755 "$plugins"
chmod 755 "$run"

# Installs what a packager gives to those who write plug-ins, then builds one as they do.
DESTDIR=$run/root meson install -C "$VGPU_BUILD" --no-rebuild --quiet --tags devel >"$run/install.log" 2>&1 || fail "meson install failed"
pc=$(find "$run/root" -name vgpu-policy.pc)
[ -n "$pc" ] || fail "meson install installed no vgpu-policy.pc"
cflags=$(PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$run/root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 pkg-config --cflags vgpu-policy) ||
	fail "pkg-config does not find vgpu-policy"
# shellcheck disable=SC2086
build() { "$cc" -std=gnu11 -Wall -Wextra -Werror -O1 -fPIC -shared -fvisibility=default "$@" || fail "cannot build: $*"; }
build $cflags -o "$plugins/turns.so" "$here/docs/example/turns.c"
"$sim" prove --plugin "$plugins/turns.so" --decisions 20000 || fail "the example breaks its promises"
build $cflags -include vgpu/vtime.h -o "$run/vtime.so" "$here/docs/example/turns.c"
build -I"$here/scheduler/include" -include vgpu/vtime.h -o "$run/vtime.so" "$here/docs/example/turns.c"
"$sim" compare --plugin "$plugins/turns.so" --mix mix4 --until 1 | grep '^turns ' >/dev/null || fail "compare has no line for the plug-in"

# A copy of version 1.0 of the header, which stays as it was released.
mkdir -p "$run/old/vgpu"
cp "$here/tests/abi/policy-1.0.h" "$run/old/vgpu/policy.h"
cp "$here/tests/abi/types-1.0.h" "$run/old/vgpu/types.h"
sed 's/"turns"/"old"/' "$here/docs/example/turns.c" >"$run/old.c"
build -I"$run/old" -o "$plugins/old.so" "$run/old.c"
"$sim" prove --plugin "$plugins/old.so" --decisions 20000 || fail "a plug-in built with version 1.0 of the header does not load or breaks its promises"

hostile() { build -I"$here/docs/example" $cflags -Wno-unused -DHOW="$1" -o "$plugins/hostile.so" "$here/tests/abi/hostile.c"; }
refused() { # HOW SENTENCE
	hostile "$1"
	"$sim" prove --plugin "$plugins/hostile.so" --decisions 10 >"$run/said" 2>&1
	[ $? = 2 ] || fail "$1 was loaded: $(cat "$run/said")"
	grep -- "$2" "$run/said" >/dev/null || fail "$1: '$2' is not in: $(cat "$run/said")"
}
refused WRONG_MAJOR "made for version 9 of the policy contract"
refused SHORT_TABLE "its table has 64 bytes"
refused LONG_TABLE "it needs operations that this vgpud does not have"
refused NO_PICK "its table has no pick"
refused UNKNOWN_PROMISE "promises that this vgpud does not know"
refused BAD_DEFAULT "the default of slice_us is not in its range"
refused BAD_NAME "its name has other characters than small letters"
refused BUILT_IN_NAME "there is a built-in policy of that name"
hostile LONG_EMPTY_TABLE
"$sim" prove --plugin "$plugins/hostile.so" --decisions 10000 || fail "a longer table whose additional entries are empty was refused"
"$sim" prove --plugin /dev/null >"$run/said" 2>&1 && fail "vgpu-sim accepted /dev/null as a plug-in"

# In vgpud: faulty policies are loaded by name and evicted for their decisions, while tenants keep working.
start_softgpu --vfs 3
config <<-CONF
	vfs = 3
	policy = turns
CONF
sed -i "s|^\[daemon\]|[daemon]\npolicy_dir = $plugins|" "$run/vgpud.conf"
start_vgpud
start_guest a 0 mixed --seconds 200; a=$guest_pid
start_guest b 1 gemm --seconds 200; b=$guest_pid
await 30 active 2
[ "$(json policy show | jq -r .policy)" = turns ] || fail "turns is not in force"
evictions() { [ "$(json stats | jq .evictions)" -ge "$1" ]; }
n=0
for how in NO_SUCH_VF NO_WORK ZERO_SLICE NEVER_PICKS LATE_START SLOW; do
	n=$((n + 1))
	build -I"$here/docs/example" $cflags -Wno-unused -DHOW=$how -Dhostile_name="\"bad$n\"" -o "$plugins/bad$n.so" "$here/tests/abi/hostile.c"
	ctl policy set "bad$n" >/dev/null || fail "bad$n was not loaded: $how"
	await 60 evictions $n
	[ "$(json policy show | jq -r .policy)" = equal ] || fail "$how: after the eviction equal is not in force"
	json gpu show | jq -r .evicted_why
done
# A policy that was evicted can be set again and is evicted again; equal, which replaces it, keeps its own parameters.
for i in 1 3 1; do
	n=$((n + 1))
	ctl policy set "bad$i" >/dev/null || fail "bad$i, which was evicted before, was refused"
	await 60 evictions $n
	[ "$(json policy show | jq -r .policy)" = equal ] || fail "bad$i: after the eviction equal is not in force"
done
ctl policy set slice_us=3000 >/dev/null || fail "parameters of equal were refused after an eviction"
[ "$(json policy show | jq .values.slice_us)" = 3000 ] || fail "equal does not have slice_us = 3000, as set"
# A slice that is too long is not a fault: vgpud clamps it and counts it.
build -I"$here/docs/example" $cflags -Wno-unused -DHOW=HUGE_SLICE -Dhostile_name="\"huge\"" -o "$plugins/huge.so" "$here/tests/abi/hostile.c"
ctl policy set huge >/dev/null || fail "huge was not loaded"
clamped() { [ "$(json stats | jq .clamped_slices)" -ge 1 ]; }
await 60 clamped
# Nor are lags, shares and bounds that cannot be: the policy that follows gives all VFs turns.
build -I"$here/docs/example" $cflags -Wno-unused -DHOW=EXTREMES -Dhostile_name="\"extremes\"" -o "$plugins/extremes.so" "$here/tests/abi/hostile.c"
had_turns() { at_least 0 dispatches $(($1 + 5)) && at_least 1 dispatches $(($2 + 5)); }
for policy in fair strict wdrr equal; do
	ctl policy set extremes >/dev/null || fail "extremes was not loaded"
	for command in "vf list" "policy show" "gpu show"; do json $command | jq . >/dev/null || fail "extremes: no answer to $command"; done
	ctl policy set $policy >/dev/null || fail "vgpuctl policy set $policy failed"
	[ "$(json policy show | jq -r .policy)" = $policy ] || fail "$policy is not in force"
	await 60 had_turns "$(vf 0 dispatches)" "$(vf 1 dispatches)"
done
ctl policy set fair >/dev/null || fail "vgpuctl policy set fair failed"

denied() { # NAME SENTENCE
	ctl policy set "$1" >"$run/said" 2>&1 && fail "$1 was loaded"
	grep -- "$2" "$run/said" >/dev/null || fail "$1: '$2' is not in: $(cat "$run/said")"
}
cp "$plugins/turns.so" "$plugins/loose.so"; chmod 666 "$plugins/loose.so"
denied loose "writable by others than its owner"
cp "$plugins/turns.so" "$plugins/foreign.so"; chown 65534 "$plugins/foreign.so"
denied foreign "not owned by root"
ln -s turns.so "$plugins/link.so"
denied link "link.so"
cp "$plugins/turns.so" "$plugins/other.so"
denied other "the policy in it is named turns"
denied nothing "nothing.so"
denied ../x "not a policy's name"
chmod 777 "$plugins"
denied late "the directory is writable by others than its owner"
kill -INT $a $b
wait_guest $a a; wait_guest $b b
