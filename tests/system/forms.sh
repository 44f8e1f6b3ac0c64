#!/bin/bash
# SPDX-License-Identifier: MIT
# What the field's tools accept and print: 64 VFs, lists as comma-separated values, dmon, exit codes, --version and --help, and a
# configuration on a read-only file system. GPUs without a device are enough for all of it.
. "$(dirname "$0")/lib.sh"
mkdir "$run/etc"
cat >"$run/etc/vgpud.conf" <<-CONF
	[daemon]
	socket = $run/control.sock
	[gpu gpu0]
	device = null-firmware:
	vfs = 64
	policy = fair
	[gpu gpu1]
	device = null:memory_mib=4096
	vfs = 64
	policy = qos
	[vf gpu0/63]
	weight = 300
CONF
start() { # [COMMAND that runs vgpud]
	"$@" "$vgpud" --config "$run/etc/vgpud.conf" 2>>"$run/vgpud.log" &
	vgpud_pid=$!
	await 60 ctl gpu list
}
code() { # EXPECTED COMMAND...
	local want=$1 got
	shift
	"$@" >"$run/out.txt" 2>"$run/err.txt"
	got=$?
	[ $got = "$want" ] || fail "exit code $got, not $want: $* ($(cat "$run/err.txt"))"
}
says() { grep -qF -- "$1" "$run/err.txt" || fail "'$1' is not in: $(cat "$run/err.txt")"; }

# --version and --help in every program: one line, and the program's own name in it.
for program in scheduler/daemon/vgpud tools/vgpuctl/vgpuctl tools/libvirt/hook/vgpud-hook tools/libvirt/daemon/vgpud-libvirt tools/keeper/vgpud-keeper \
	tools/softgpu/device/softgpu tools/softgpu/vf/softgpu-vf tools/softgpu/worker/softgpu-worker tools/softgpu/guest/vgpu-guest tools/sim/vgpu-sim \
	tools/cuda/library/vgpu-cuda-check; do
	[ -x "$VGPU_BUILD/$program" ] || continue # vgpud-libvirt, where libvirt's headers are missing
	code 0 "$VGPU_BUILD/$program" --version
	grep -qE "^${program##*/} [0-9]+\.[0-9]" "$run/out.txt" && [ "$(wc -l <"$run/out.txt")" = 1 ] || fail "$program --version: $(cat "$run/out.txt")"
	code 0 "$VGPU_BUILD/$program" --help
	grep -q "${program##*/}" "$run/out.txt" || fail "$program --help: $(cat "$run/out.txt")"
	code 2 "$VGPU_BUILD/$program" --no-such-option
done

# 64 VFs of a GPU that firmware schedules, and of one that vgpud switches: the last one is a VF like all others.
start env
for gpu in gpu0 gpu1; do
	[ "$(json --gpu $gpu vf list | jq '.vfs | length')" = 64 ] || fail "$gpu does not have 64 VFs"
	before=$(json --gpu $gpu vf list | jq -c '[.vfs[].resets]')
	code 0 ctl --gpu $gpu vf reset 63
	was_reset() { json --gpu $gpu vf list | jq -e --argjson b "$before" '[.vfs[].resets] | .[63] > $b[63] and .[:63] == $b[:63]' >/dev/null; }
	await 30 was_reset
done
[ "$(json --gpu gpu0 vf show 63 | jq .params.weight)" = 300 ] || fail "VF 63 has another weight than configured"
served() { json --gpu gpu0 vf list | jq -e '.vfs | .[63].run_ns > 0 and .[31].run_ns > 0' >/dev/null; }
await 60 served
code 0 ctl --gpu gpu1 vf set 63 weight=300
code 5 ctl --gpu gpu1 vf set 64 weight=300; says "gpu1 has VFs 0 to 63"
ctl --gpu gpu1 memory show | grep -q "VF 63" || fail "VF 63 has no memory: $(ctl --gpu gpu1 memory show)"
sed 's/vfs = 64/vfs = 65/' "$run/etc/vgpud.conf" >"$run/65.conf"
code 78 "$vgpud" --config "$run/65.conf" --check-config; says "vfs = 65: want 1 to 64"

# Lists as comma-separated values: the heads once, the GPU in each line, and nothing else.
ctl -o csv vf list >"$run/vfs.csv" || fail "vf list as comma-separated values"
ctl -o csv gpu list >"$run/gpus.csv"
/usr/bin/python3 - "$run/vfs.csv" "$run/gpus.csv" <<'PY' || fail "$(head -3 "$run/vfs.csv" "$run/gpus.csv")"
import csv, sys
rows = list(csv.reader(open(sys.argv[1])))
kinds = [r for r in rows if r[0] == 'GPU']
assert len(kinds) == 2 and all(r[1] == 'VF' for r in kinds), kinds # the two kinds of GPU have other columns
assert [sum(r[0] == g for r in rows) for g in ('gpu0', 'gpu1')] == [64, 64]
width = 0
for r in rows:
    width = len(r) if r[0] == 'GPU' else width
    assert len(r) == width, r
rows = list(csv.DictReader(open(sys.argv[2])))
assert [r['GPU'] for r in rows] == ['gpu0', 'gpu1'] and [r['VFS'] for r in rows] == ['64', '64'], rows
PY
code 2 ctl -o csv gpu show; says "-o csv is for"
code 2 ctl -o yaml gpu list; says "-o yaml: want json, csv or text"

# dmon: one line for each VF in each interval, after one line of heads.
code 0 ctl --gpu gpu0 dmon --interval 0.1 --count 3
[ "$(wc -l <"$run/out.txt")" = $((1 + 3 * 64)) ] && [ "$(grep -c '^TIME .* GPU .*VF VM .*NOW %' "$run/out.txt")" = 1 ] &&
	[ "$(grep -cE '^20[0-9]{2}-[0-9-]+T[0-9:]+ gpu0 +63 ' "$run/out.txt")" = 3 ] || fail "dmon: $(head -4 "$run/out.txt")"
code 0 ctl -o csv dmon --interval 0.5 --count 2
/usr/bin/python3 - "$run/out.txt" <<'PY' || fail "dmon as comma-separated values: $(head -3 "$run/out.txt")"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 2 * 128 and {r['GPU'] for r in rows} == {'gpu0', 'gpu1'}, len(rows)
for g in 'gpu0', 'gpu1':
    # A turn counts whole where it ends: up to a slice more than the interval. '-': nothing was served in the interval.
    assert sum(float(r['NOW %']) for r in rows[-128:] if r['GPU'] == g and r['NOW %'] != '-') <= 110, g
PY
code 0 ctl -o json --gpu gpu0 dmon --interval 0.1 --count 2
[ "$(jq -s length "$run/out.txt")" = 2 ] && [ "$(wc -l <"$run/out.txt")" = 2 ] || fail "dmon as JSON is not one line for each interval"

# vgpuctl's exit codes, one by one (vgpuctl(8)).
code 0 ctl gpu list
code 1 ctl --gpu gpu0 vf set 1 weight=0
code 2 ctl vf list more
code 3 "$vgpuctl" --socket "$run/none.sock" gpu list
for words in "--gpu nowhere gpu show" "vf show 0000:99:00.1" "vf show pci_0000_99_00_1" "--gpu gpu0 vf show 64" "vm show nobody" "verify nowhere"; do
	code 5 ctl $words
done
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$run"
	cp "$vgpuctl" "$run/vgpuctl" && chmod 755 "$run/vgpuctl"
	code 4 setpriv --reuid 65534 --regid 65534 --clear-groups "$run/vgpuctl" --socket "$run/control.sock" gpu list; says "permission denied on $run/control.sock"
fi
# vgpud's: usage 2, a configuration that cannot be used 78.
code 2 "$vgpud" more
code 78 "$vgpud" --config "$run/none.conf"

# A configuration that nobody can write: the reason is the file system's, the change is not made, and it is no "no such VF".
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	kill $vgpud_pid; wait $vgpud_pid
	start unshare --mount --propagation private sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' "$run/etc"
	code 1 ctl --gpu gpu0 vf set 1 weight=200 --save; says "Read-only file system"
	[ "$(json --gpu gpu0 vf show 1 | jq .params.weight)" = 100 ] || fail "a change was made although it cannot be saved"
fi
exit 0
