#!/bin/bash
# SPDX-License-Identifier: MIT
# Nothing hangs: whatever keeps vgpud from serving, its clients say so within 5 seconds, and why. One GPU that cannot be opened, or
# a port that another program has, keeps vgpud from nothing else. SIGHUP reloads.
. "$(dirname "$0")/lib.sh"
hook=$VGPU_BUILD/tools/libvirt/hook/vgpud-hook
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
config null:busy=2 <<CONF
vfs = 2
CONF
export VGPUD_HOOK_SOCKET=$run/hook.sock VGPUD_LIBVIRT_DIR=$run
claim="<domain type='kvm'><name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'/></v:vgpu></metadata></domain>"
# in_time COMMAND...: runs it, with what it says in $run/said, and its exit code in $code; fails if it takes more than 5 seconds, but
# for what the machine lets it wait for a CPU.
in_time() {
	local before=$EPOCHREALTIME
	timeout -s KILL 60 "$@" >"$run/said" 2>&1
	code=$?
	took=$(awk -v a="$before" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
	echo "$took s: ${*##*/}"
	awk -v t="$took" -v limit="${LIMIT_S:-10}" 'BEGIN {exit t > limit}' || fail "$* took $took s: $(cat "$run/said")"
}
# silent REASON [COMMAND...]: all clients give it. doctor has other findings, too.
silent() {
	local words reason=$1
	shift
	[ $# -gt 0 ] || set -- "gpu list" "gpu show" "vf list" "vf set 0 weight=3" "vm list" "memory show" "policy show" "policy set strict" "config reload" events stats "-o json inventory" "top --count 1"
	for words; do
		in_time "$vgpuctl" --socket "$run/control.sock" $words
		[ $code = 3 ] || fail "vgpuctl $words ended with $code: $(cat "$run/said")"
		grep -q "$reason" "$run/said" || fail "vgpuctl $words does not say \"$reason\": $(cat "$run/said")"
	done
	in_time "$vgpuctl" --socket "$run/control.sock" doctor
	grep -q "$reason" "$run/said" || fail "doctor does not say \"$reason\": $(cat "$run/said")"
	[ -x "$hook" ] || return 0
	in_time sh -c "echo \"\$0\" | $hook vm1 prepare begin -" "$claim"
	[ $code = 1 ] && grep -q "requires a GPU, and .*$reason" "$run/said" || fail "the hook does not say \"$reason\": $(cat "$run/said")"
}
start_vgpud
[ ! -e "$run/control.sock.note" ] || fail "a vgpud that is ready leaves a note: $(cat "$run/control.sock.note")"
kill -STOP "$vgpud_pid"
silent "'kill -CONT $vgpud_pid' lets it continue" "gpu list" "vm list" "config reload"
kill -CONT "$vgpud_pid"
in_time "$vgpuctl" --socket "$run/control.sock" gpu list
[ $code = 0 ] || fail "vgpud does not go on: $(cat "$run/said")"
kill "$vgpud_pid"; wait "$vgpud_pid" || fail "vgpud ended with $?"
silent "it was stopped at 2"
echo 'nonsense = 1' >>"$run/vgpud.conf"
"$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log"
[ $? = 78 ] || fail "vgpud took a wrong configuration"
silent "its start failed at 2.*vgpud.conf:7: "
sed -i '$d' "$run/vgpud.conf"
# Where vgpud-libvirt is not built, nothing waits for it.
if [ -x "$agent" ] && in_time "$agent" --socket "$run/hook.sock" set vm1 a:weight=3; then
	[ $code != 0 ] || fail "vgpud-libvirt changed a claim without vgpud"
fi
# A GPU whose softgpu is not there, and one whose memory is too small for its VFs, are lost, with the reason; the others are
# scheduled. The lost ones are looked for.
cat >>"$run/vgpud.conf" <<CONF
[gpu late]
device = vfio-user:$run/gpu/pf.sock
vfs = 2
[gpu small]
device = null:memory_mib=64
vfs = 2
[vf small/1]
memory_mib = 5000
CONF
start_vgpud
lost() { json gpu list | jq -r ".gpus[] | select(.gpu == \"$1\") | select(.state == \"lost\") | .why"; }
[ -z "$(lost gpu0)" ] || fail "gpu0 is lost: $(lost gpu0)"
grep -q "$run/gpu/pf.sock: No such file or directory" <<<"$(lost late)" || fail "of late: $(lost late)"
grep -q 5000 <<<"$(lost small)" || fail "of small: $(lost small)"
ctl gpu list | grep -q "^late is lost, and vgpud looks for it: " || fail "$(ctl gpu list)"
grep -q "GPU lost: it cannot be opened: .*pf.sock.* gpu=late" "$run/vgpud.log" || fail "the log does not say why late is lost"
for view in "gpu show" "vf list" "vf show 1" "memory show" "policy show" "policy explain" stats events timeline; do
	for gpu in late small; do ctl --gpu $gpu $view >"$run/view.txt" 2>&1 || fail "$view fails for $gpu: $(cat "$run/view.txt")"; done
done
! ctl --gpu late vf reset 0 2>/dev/null || fail "a VF of a lost GPU was reset"
ctl --gpu late vf set 1 weight=250 2>/dev/null || fail "a lost GPU takes no parameters for when it comes"
start_softgpu --vfs 2
comes() { [ -z "$(lost late)" ]; }
await 60 comes
[ "$(ctl --gpu late -o json vf show 1 | jq .params.weight)" = 250 ] || fail "the GPU came without the parameters that were set before"
is_free() { [ "$(ctl --gpu late -o json vf show 1 | jq -r .state)" = available ]; }
await 60 is_free
start_guest a 1 sha256 --jobs 20; a=$guest_pid
wait_guest $a a
# What the check passes, a start takes: it looks at GPUs, and asks the vgpud that has one.
too_much() { # GPU: the check finds that its VF 1 is to have more memory than it has, and nothing else
	"$vgpud" --config "$run/vgpud.conf" --check-config >"$run/said" 2>&1
	[ $? = 78 ] && [ "$(wc -l <"$run/said")" = 1 ] && grep -q "\[gpu $1\]: VF 1 is to have 5000 MiB, but the GPU has" "$run/said" || fail "--check-config of $1: $(cat "$run/said")"
}
too_much small
cp "$run/vgpud.conf" "$run/kept.conf"
sed -i '/^\[gpu small\]/,$d' "$run/vgpud.conf"
printf '[vf late/1]\nmemory_mib = 5000\n' >>"$run/vgpud.conf"
too_much late
! ctl config reload >"$run/said" 2>&1 && grep -q "VF 1 is to have 5000 MiB" "$run/said" || fail "a reload takes what a start would not: $(cat "$run/said")"
sed "s,$run/control.sock,$run/other.sock,; s/5000/10/" "$run/vgpud.conf" >"$run/other.conf"
"$vgpud" --config "$run/other.conf" --check-config >"$run/said" 2>&1 || fail "$(cat "$run/said")"
grep -q "^not everything can be checked before a start: GPU late: .*another program holds this device" "$run/said" || fail "--check-config does not say what it cannot tell: $(cat "$run/said")"
cp "$run/kept.conf" "$run/vgpud.conf"
# SIGHUP reloads; one with mistakes changes nothing, and the log says why.
sed -i 's/^vfs = 2$/&\nslice_us = 3000/; ' "$run/vgpud.conf"
kill -HUP "$vgpud_pid"
slice_is() { [ "$(ctl --gpu gpu0 -o json policy show | jq .values.slice_us)" = "$1" ]; }
await 30 slice_is 3000
await 30 grep -q 'the configuration was reloaded' "$run/vgpud.log"
sed -i 's/slice_us = 3000/slice_us = 4/' "$run/vgpud.conf"
kill -HUP "$vgpud_pid"
await 30 grep -q 'the configuration was not reloaded: .*slice_us' "$run/vgpud.log"
slice_is 3000 || fail "a wrong configuration was reloaded"
# A GPU that was lost meanwhile keeps no other from its new values, and comes back with its own.
kill "$softgpu_pid"; wait "$softgpu_pid"
is_lost() { [ -n "$(lost late)" ]; }
await 60 is_lost
sed -i 's/slice_us = 4/slice_us = 3500/' "$run/vgpud.conf"
ctl config reload >"$run/said" 2>&1 || fail "one GPU that is lost keeps all from a reload: $(cat "$run/said")"
slice_is 3500 || fail "gpu0 does not have what was reloaded"
start_softgpu --vfs 2
await 60 comes
[ "$(ctl --gpu late -o json policy show | jq .values.slice_us)" = 3500 ] || fail "the GPU came back without what was reloaded"
# softgpu is no worse for it: its tenants would lose their work.
kill -HUP "$softgpu_pid"
start_guest b 1 sha256 --jobs 20; b=$guest_pid
wait_guest $b b
kill "$vgpud_pid"; wait "$vgpud_pid" || fail "vgpud ended with $?"
sed -i '/^\[gpu small\]/,$d' "$run/vgpud.conf"
printf '[vf late/1]\nmemory_mib = 5000\n' >>"$run/vgpud.conf"
too_much late
# Another program has the port of the metrics: vgpud serves them as soon as it goes.
mkfifo "$run/hold"
/usr/bin/python3 -c 'import socket, sys
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True)
open(sys.argv[1]).read()' "$run/hold" >"$run/port" &
holder=$!
await 30 test -s "$run/port"
port=$(cat "$run/port")
cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
metrics = 127.0.0.1:$port
[gpu gpu0]
device = null:busy=2
vfs = 2
CONF
start_vgpud
await 30 grep -q "metrics = 127.0.0.1:$port: Address already in use; no metrics are served; vgpud keeps trying" "$run/vgpud.log"
: >"$run/hold" # its reader ends
wait $holder
await 30 grep -q "metrics = 127.0.0.1:$port: served from now on" "$run/vgpud.log"
/usr/bin/python3 - "$port" <<'PY' || fail "HEAD or another method is answered wrongly"
import http.client, sys
def ask(method):
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    c.request(method, "/metrics")
    r = c.getresponse()
    return r, r.read()
r, body = ask("HEAD")
assert r.status == 200 and body == b"" and int(r.getheader("Content-Length")) > 1000, (r.status, r.getheaders())
r, body = ask("POST")
assert r.status == 405 and r.getheader("Allow") == "GET, HEAD", (r.status, r.getheaders())
PY
