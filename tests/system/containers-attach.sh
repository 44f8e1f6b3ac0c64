#!/bin/bash
# SPDX-License-Identifier: MIT
# What a container that runs was given, over restarts of everything; images that cannot use it; and what makes whoever mounts there wait.
# Words are split on purpose: gpu and named print several.
# shellcheck disable=SC2046
. "$(dirname "$0")/containers-lib.sh"
check=/build/vgpu-cuda-check
# Whether what is executed in a container of WHO can compute. A busy machine may need several tries.
can() { "as_$1" exec "$2" $check >"$run/out.txt" 2>&1; grep -q 'CUDA programs can run here' "$run/out.txt"; }
start_host 1
start_mount
hold() { sed -i "s/^hold_s = .*/hold_s = $1/" "$run/vgpud.conf" && ctl config reload >/dev/null || fail "config reload"; }
lease() { json tenant list | jq -er --arg id "$1" '.tenants[] | select(.id == $id) | '"$2"; } # ID FIELD
weight() { json vf show "$(lease "$1" .vf)" | jq -r '.params.weight // .weight'; }
empty() { "as_$1" exec "$2" $check >"$run/out.txt" 2>&1; grep -q 'no lease is in /run/vgpud/gpu' "$run/out.txt"; }
explain() { ctl container explain "$1" 2>&1; }

for who in root tenant; do
	# A container whose slot nobody has filled starts again with an empty one.
	id=$(begin $who $(gpu later) --name later -- sleep 1000)
	empty $who "$id" || fail "a slot of $who: $(cat "$run/out.txt")"
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart with an empty slot: $(cat "$run/out.txt")"
	empty $who "$id" && has "" || fail "after a restart: $(cat "$run/out.txt") $(running .name)"

	by $who container attach later --gpu gpu0 weight=200 2>"$run/out.txt" || fail "$who cannot attach: $(cat "$run/out.txt" "$run/mount.log")"
	[ "$(weight "$id")" = 200 ] || fail "attached with weight $(weight "$id")"
	vf=$(lease "$id" .vf)
	explain later | grep -q "has VF $vf of gpu0 (running); it was attached, and is attached again if the container is restarted within hold_s" || fail "$(explain later)"
	await 120 can $who "$id"
	# vgpud and softgpu.
	kill "$vgpud_pid"; wait "$vgpud_pid"
	start_vgpud
	await 120 can $who "$id"
	kill "$softgpu_pid"; wait "$softgpu_pid"
	start_gpu
	await 120 can $who "$id"
	# The container: what was attached is attached again, as it was claimed.
	hold 60
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart of what was attached: $(cat "$run/out.txt")"
	[ "$(lease "$id" '"\(.vf) \(.state) \(.name)"')" = "$vf running later" ] || fail "after a restart: $(json tenant list)"
	await 120 can $who "$id"
	[ "$(weight "$id")" = 200 ] || fail "attached again with weight $(weight "$id")"
	# vgpud is away while it restarts: it starts, without one.
	kill "$vgpud_pid"; wait "$vgpud_pid"
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart without vgpud: $(cat "$run/out.txt")"
	start_vgpud
	empty $who "$id" || fail "without vgpud, a slot is filled: $(cat "$run/out.txt")"
	by $who container attach later 2>"$run/out.txt" || fail "$who cannot attach again: $(cat "$run/out.txt" "$run/mount.log")"
	# Away for too long: it is said what to do.
	hold 1
	"as_$who" stop -t 0 "$id" >/dev/null 2>&1
	given_back() { explain later | grep -q "it did not start again within hold_s, and the VF that was attached to it was given back: attach one again"; }
	await 30 given_back
	"as_$who" start "$id" >/dev/null 2>"$run/out.txt" || fail "a later start: $(cat "$run/out.txt")"
	empty $who "$id" && has "" || fail "after hold_s: $(cat "$run/out.txt") $(running .name)"
	end $who "$id"

	# Asked first, started then: what is refused starts no engine, and what is given is the container's, and again after a restart.
	engine=(podman run -d "${plain[@]}" --device vgpud.dev/gpu=gpu0 --rootfs "$run/$who.fs" sleep 1000)
	by $who run --gpu gpu0 --memory 100G -- "${engine[@]}" >"$run/out.txt" 2>&1 && fail "100 GiB are given"
	grep -q "102400 MiB" "$run/out.txt" && [ -z "$("as_$who" ps -aq)" ] || fail "a refusal before the start: $(cat "$run/out.txt"; "as_$who" ps -a)"
	id=$(by $who run --gpu gpu0 weight=70 -- "${engine[@]}" 2>"$run/out.txt") || fail "vgpuctl run -- podman run: $(cat "$run/out.txt")"
	given=$(lease "$id" '"\(.kind) \(.state) \(.lease)"')
	[[ $given == "container running "* ]] && [ "$(weight "$id")" = 70 ] || fail "what vgpuctl run has asked for: $(json tenant list)"
	await 120 can $who "$id"
	hold 60
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart of what vgpuctl run has started: $(cat "$run/out.txt")"
	[ "$(lease "$id" '"\(.kind) \(.state) \(.lease)"')" = "$given" ] && [ "$(weight "$id")" = 70 ] || fail "after a restart, not $given: $(json tenant list)"
	hold 1
	"as_$who" stop -t 0 "$id" >/dev/null 2>&1
	await 30 eval '[ "$(json tenant list | jq ".tenants | length")" = 0 ]'
	"as_$who" start "$id" >/dev/null 2>&1 && fail "a container starts whose lease was another's by now"
	explain "${id:0:12}" | grep -q "no such lease of a program that runs: start a new container by 'vgpuctl run'" || fail "a late restart: $(explain "${id:0:12}")"
	end $who "$id"
done

# musl: nothing of vgpud's can be loaded there, and that is said, at the start and when a VF is attached.
cp -a "$run/root.fs" "$run/musl.fs"
rm "$run/musl.fs/lib64/ld-linux-x86-64.so.2"
touch "$run/musl.fs/usr/lib/ld-musl-x86_64.so.1"
musl="the image's C library is musl: libcuda.so.1 of vgpud needs glibc 2.28 or later; take an image of Debian, Ubuntu, Fedora or their like"
as_musl() { as_root "$@"; }
start musl $(gpu) -- sleep 0 >"$run/out.txt" 2>&1 && fail "a container of a musl image starts with a VF"
explain last | grep -q "$musl" || fail "explain last: $(explain last)"
await 60 has ""
# What keeps its root there to deceive: the check goes along no link out of it.
id=$(begin musl $(gpu later) -- sleep 1000)
by root container attach "$id" 2>"$run/out.txt" && fail "a VF is attached to a container of a musl image"
grep -q "$musl" "$run/out.txt" || fail "$(cat "$run/out.txt")"
await 60 has ""
end root "$id"
cp -a "$run/musl.fs" "$run/link.fs"
rm "$run/link.fs/lib"
ln -s ../../../../../usr/lib "$run/link.fs/lib"
as_link() { as_root "$@"; }
start link $(gpu) -- sleep 0 >"$run/out.txt" 2>&1 && fail "a link hides an image's musl"
explain last | grep -q "$musl" || fail "explain last, by a link: $(explain last)"

# Two processes of a container at a time: the second one is told.
id=$(begin root $(gpu) -- sleep 1000)
as_root exec -d "$id" /build/vgpu-guest sha256 --device lease:/run/vgpud/gpu/vf.sock --seconds 1000
used() { [ "$(json vf list | jq -r --argjson vf "$(lease "$id" .vf)" '.vfs[] | select(.vf == $vf) | .state')" = active ]; }
await 60 used
as_root exec "$id" $check >"$run/out.txt" 2>&1 && fail "two processes use one VF of a container at a time"
grep -q "another process uses the VF of this lease, which serves one at a time" "$run/out.txt" || fail "a second process is told: $(cat "$run/out.txt")"
end root "$id"
await 60 has ""

# A frozen container: whoever mounts there does not wait for it.
id=$(begin root $(gpu later) -- sleep 1000)
kill -STOP "$(as_root inspect --format '{{.State.Pid}}' "$id")"
by root container attach "$id" --gpu gpu0 2>"$run/out.txt" || fail "a stopped container gets no VF: $(cat "$run/out.txt")"
by root container detach "${id:0:12}" 2>"$run/out.txt" || fail "a stopped container keeps its VF: $(cat "$run/out.txt")"
kill -CONT "$(as_root inspect --format '{{.State.Pid}}' "$id")"
end root "$id"
await 60 has ""

# Whoever orders nothing is not waited for: vgpud-mount ends by itself, after 2 s.
silent=$(python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b"{"); s.settimeout(60)
begun = time.monotonic(); print(repr(s.recv(100)), time.monotonic() - begun)' "$run/mount.sock")
read -r answer seconds <<<"$silent"
[ "$answer" = "b''" ] && awk "BEGIN {exit !($seconds > 1.5 && $seconds < 30)}" || fail "vgpud-mount waits for an order: $silent"

# A container's file system may never answer. That of a user is closed to whoever mounts there, so nothing waits for it; for root's,
# vgpud-mount gives up after 10 s.
# as_user WHO COMMAND... is the end of its subshell.
as_user() { if [ "$1" = root ]; then exec "${@:2}"; else exec setpriv --reuid 7777 --regid 7777 --groups 7777,7778 "${@:2}"; fi; }
ask() { # WHO SOCKET METHOD ARGS: prints the answer and how long it took
	as_user "$1" /usr/bin/python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(60); begun = time.monotonic()
s.sendall(("{\"method\":\"%s\",\"args\":%s}\n" % (sys.argv[2], sys.argv[3])).encode()); print(s.makefile().readline().strip(), int(time.monotonic() - begun))' "${@:2}"
}
for who in tenant root; do
	[ $who = root ] && options=-m || options=-Urm
	as_user $who unshare $options --propagation private /usr/bin/python3 -c 'import ctypes, os, time
fd, done = os.open("/dev/fuse", os.O_RDWR), os.open("'"$run/xdg"'", os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).mount(b"silent", b"/run", b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd) == 0: os.open("mounted", os.O_CREAT, dir_fd=done)
time.sleep(1000)' &
	silent=$!
	await 60 test -e "$run/xdg/mounted"
	rm "$run/xdg/mounted"
	lease=$(ask $who "$run/tenant.sock" tenant.start "{\"container\":{\"id\":\"silent\",\"pid\":$silent}}" | jq -r 'select(type == "object") | .result.lease')
	said=$(ask $who "$run/mount.sock" attach "{\"lease\":\"$lease\"}")
	if [ $who = root ]; then
		[[ $said =~ ^\ ([0-9]+)$ && ${BASH_REMATCH[1]} -ge 9 ]] || fail "mounting where nobody answers: $said"
	else
		[[ $said == *EACCES*Permission\ denied* ]] || fail "mounting over a user's file system: $said"
	fi
	kill $silent; wait $silent 2>/dev/null
	await 60 has ""
done
