#!/bin/bash
# SPDX-License-Identifier: MIT
# Containers of podman with a share of a GPU, by CDI: root's and an ordinary user's. What they see, how a start is refused, and that leases
# are those of the containers that live, whatever is killed, forged or started again.
# Words are split on purpose: gpu and named print several.
# shellcheck disable=SC2046
. "$(dirname "$0")/containers-lib.sh"
# One whose place of the lease is a link.
cp -a "$rootfs" "$run/trap.fs"
ln -s /etc "$run/trap.fs/run/vgpud"

start_host 1
start_mount
as_trap() { as_root "$@"; }
works() { grep -q 'CUDA programs can run here' "$run/out.txt"; }
check=/build/vgpu-cuda-check
# Whether what is executed in a container of WHO can compute. A busy machine may need several tries.
can() { "as_$1" exec "$2" $check >"$run/out.txt" 2>&1; works; }

# Nothing tells programs where they are, and none of them needs to be told: whoever they are, and however they come in.
for who in root tenant; do
	whole() {
		start $who $(gpu) -e LD_LIBRARY_PATH=/of/the/image -- sh -c "echo \$LD_LIBRARY_PATH; unset LD_LIBRARY_PATH; $check; env" >"$run/out.txt" 2>&1
		works && grep -qx /of/the/image "$run/out.txt" && ! grep -qi vgpu_ "$run/out.txt"
	}
	await 120 whole
	has "" || fail "a container of $who has ended, and its lease has not: $(running .name)"
	id=$(begin $who --user 1000 $(gpu) $(named mine) -- sleep 1000)
	has mine || fail "tenants, with one of $who: $(running .name)"
	[ "$(running .owner)" = "$([ $who = root ] && echo 0 || echo 7777)" ] || fail "a container of $who is charged to $(running .owner)"
	await 120 can $who "$id"
	end $who "$id"
	has "" || fail "a container of $who was removed, and its lease was not: $(running .name)"
done

# A start that is refused says where to look, and why is kept; nothing stays.
explained() { ctl container explain last; }
hook_said() { cat "$run/hook.txt"; }
refused() { # WHERE WHY WHO OPTIONS...
	local where=$1 why=$2 code
	shift 2
	start "$@" -- sleep 0 >"$run/out.txt" 2>&1
	code=$?
	[ $code = 126 ] && grep -q vgpud-oci-hook "$run/out.txt" || fail "a start that is refused ($why) ends with $code: $(cat "$run/out.txt")"
	await 60 has ""
	$where 2>&1 | grep -q "$why" || fail "$where: $($where 2>&1), not $why"
}
refused explained "want a size with its unit, like 2Gi" root $(gpu) --annotation vgpud.dev/memory=2
refused explained "want a part of the GPU's time, like 30%" root $(gpu) --annotation vgpud.dev/share=0.3
refused explained "there is no such annotation" root $(gpu) --annotation vgpud.dev/cores=4
refused explained "already" root $(gpu) $(gpu small)
refused hook_said "leads through a symbolic link in this image" trap $(gpu) --annotation run.oci.hooks.stderr="$run/hook.txt"
await 60 eval '[ "$(json tenant list | jq ".tenants | length")" = 0 ]' # what was held

# Others' containers are not ended by what somebody says.
id=$(begin root $(gpu) $(named mine) -- sleep 1000)
forge() { setpriv --reuid 7777 --regid 7777 --groups 7777,7778 env VGPUD_TENANT_SOCKET="$run/tenant.sock" "$hook" "$@"; }
forge poststop <<<"{\"id\":\"$id\",\"pid\":0}" || fail "poststop fails, which runtimes complain of"
forge createRuntime <<<"{\"id\":\"forged\",\"pid\":$(running .process),\"root\":\"/\"}" 2>"$run/out.txt" && fail "a user got a lease for root's process"
grep -q "not in a user namespace of user 7777" "$run/out.txt" || fail "$(cat "$run/out.txt")"
forge createRuntime <<<'{"id":' 2>"$run/out.txt" && fail "the hook takes what is no JSON"
has mine || fail "a forged poststop ended the lease of $id"

# What is restarted under it goes on with it, and it with that.
kill "$vgpud_pid"; wait "$vgpud_pid"
start_vgpud
has mine || fail "after a restart of vgpud: $(running .name)"
await 120 can root "$id"
kill "$softgpu_pid"; wait "$softgpu_pid"
start_gpu
await 120 can root "$id"

# Containers that run get a VF, and lose it.
for who in root tenant; do
	later=$(begin $who $(gpu later) --read-only -- sleep 1000)
	"as_$who" exec "$later" $check >"$run/out.txt" 2>&1; grep -q 'no lease is in /run/vgpud/gpu' "$run/out.txt" || fail "an empty slot: $(cat "$run/out.txt")"
	by $who container attach "$later" --gpu gpu0 weight=200 2>"$run/out.txt" || fail "$who cannot attach: $(cat "$run/out.txt" "$run/mount.log")"
	await 120 can $who "$later"
	by $who container set "${later:0:12}" weight=300 || fail "$who cannot change a lease"
	by $who container attach "$later" 2>"$run/out.txt" && fail "a container gets two VFs"
	# Not what is others'.
	[ $who = tenant ] || { by tenant container detach "${later:0:12}" 2>/dev/null && fail "a user takes away root's VF"; }
	lease=$(json tenant list | jq -r --arg id "$later" '.tenants[] | select(.id == $id) | .lease')
	by $who container detach "${later:0:12}" 2>"$run/out.txt" || fail "$who cannot detach: $(cat "$run/out.txt" "$run/mount.log")"
	"as_$who" exec "$later" $check >"$run/out.txt" 2>&1; grep -q 'no lease is in /run/vgpud/gpu' "$run/out.txt" || fail "after detach: $(cat "$run/out.txt")"
	[ ! -e "$run/$lease" ] && [ "$(running .name)" = mine ] || fail "a lease is left after detach: $(running .name)"
	end $who "$later"
done
without=$(begin root -- sleep 1000)
by root container attach "$without" 2>"$run/out.txt" && fail "a container without a slot gets a VF"
grep -q "was not started with a slot: start it with --device vgpud.dev/gpu=later" "$run/out.txt" || fail "$(cat "$run/out.txt")"
[ "$(running .name)" = mine ] || fail "a lease is left that could not be mounted: $(running .name)"
# What has a user namespace, and the host's files, is no container.
setpriv --reuid 7777 --regid 7777 --clear-groups unshare -U sleep 1000 &
sham=$!
await 60 eval '[ "$(readlink /proc/$sham/ns/user)" != "$(readlink /proc/self/ns/user)" ]'
forge createRuntime <<<"{\"id\":\"sham\",\"pid\":$sham,\"root\":\"/\"}" 2>"$run/out.txt" && fail "the host's files are taken for a container's"
kill $sham; wait $sham 2>/dev/null
await 60 eval '[ "$(running .name)" = mine ]'
# A lease of others is mounted for nobody, whatever is sent.
order() { # UID TEXT
	python3 -c 'import os, socket, sys; os.setgroups([]); os.setresuid(*[int(sys.argv[3])] * 3); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n"); print(s.recv(4096).decode())' "$run/mount.sock" "$2" "$1"
}
lease=$(running .lease)
for text in '{"method":"attach","args":{"lease":"'"$lease"'"}}' '{"method":"detach","args":{"lease":"'"$lease"'"}}' '{"method":"attach","args":{"lease":"../../../../../../../../../../../../../.."}}' \
	'{"method":"attach"}' '{' '7' '{"method":"x","args":{"lease":"'"$lease"'"}}'; do
	order 7777 "$text" >"$run/out.txt" 2>&1 && grep -q '"error"' "$run/out.txt" || fail "vgpud-mount takes $text: $(cat "$run/out.txt")"
done
# Nor for root's process that has ended, whose number may be another's.
python3 -c 'import os, socket, sys
s = socket.socket(socket.AF_UNIX)
child = os.fork()
if child == 0:
    s.connect(sys.argv[1]); os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
s.sendall(sys.argv[2].encode() + b"\n"); print(s.recv(4096).decode())' "$run/mount.sock" '{"method":"detach","args":{"lease":"'"$lease"'"}}' >"$run/out.txt" 2>&1
grep -q '"error"' "$run/out.txt" || fail "vgpud-mount obeys who has ended: $(cat "$run/out.txt")"
await 120 can root "$id"
end root "$without"

# A restart keeps the VF, though others take all that is free.
vf=$(running .vf)
other() { start tenant $(gpu) -- sleep 1000 >/dev/null 2>&1; }
(while :; do other; done) & greedy=$!
await 60 eval '[ "$(running .name | wc -w)" -ge 2 ]'
as_root restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart: $(cat "$run/out.txt")"
[ "$(json tenant list | jq -r '.tenants[] | select(.name == "mine") | "\(.vf) \(.state)"')" = "$vf running" ] || fail "after a restart: $(json tenant list)"
kill $greedy; wait $greedy 2>/dev/null
for c in $(as_tenant ps -q); do end tenant "$c"; done
end root "$id"
await 60 has ""

# Killed: whoever looks after it, and it.
id=$(begin root $(gpu) $(named mine) -- sleep 1000)
process=$(running .process)
kill -9 "$(ps -o ppid= -p "$process" | tr -d ' ')"
kill -9 "$process" 2>/dev/null
await 60 has ""
end root "$id"; end root "$id"

start root -- sleep 0 || fail "a container without a device does not start"
has "" || fail "a container without a device has a lease"
