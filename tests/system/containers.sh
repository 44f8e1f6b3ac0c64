#!/bin/bash
# SPDX-License-Identifier: MIT
# Containers of podman with a slice of a GPU, by CDI: root's and an ordinary user's. What they see, how a start is refused, and that leases
# are those of the containers that live, whatever is killed, forged or started again.
# Words are split on purpose: gpu and named print several.
# shellcheck disable=SC2046
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
for c in podman crun newuidmap busybox; do command -v $c >/dev/null || { echo "skipped: $c is missing"; exit 77; }; done
unshare -m true 2>/dev/null || { echo "skipped: no mount namespace can be made here"; exit 77; }
# Mounts, and the files that CDI reads, are this test's own.
here=$(readlink /proc/self/ns/mnt)
[ -n "${1:-}" ] && [ "$1" != "$here" ] || exec unshare -m --propagation private "$0" "$here"
. "$(dirname "$0")/lib.sh"
choose_driver
chmod 755 "$run"
cd / # whatever directory this is, the user may not be let in
cuda=$VGPU_BUILD/tools/cuda
# What the user needs: the build may lie where only root can look.
mkdir "$run/programs"
cp "$VGPU_BUILD/tools/container/vgpud-oci-hook" "$vgpuctl" "$cuda/library/libcuda.so.1" "$cuda/nvml/libnvidia-ml.so.1" "$run/programs"
hook=$run/programs/vgpud-oci-hook
vgpuctl=$run/programs/vgpuctl

# crun refuses machines with both versions of cgroups.
! mountpoint -q /sys/fs/cgroup/unified || umount -l /sys/fs/cgroup/unified
mount -t tmpfs tmpfs /mnt && cp -a /etc /mnt && mount --bind /mnt/etc /etc || fail "no /etc of this test's own"
echo 'tenant:x:7777:7777::/nonexistent:/bin/sh' >>/etc/passwd
printf 'tenant:x:7777:\nvgpu-run:x:7778:tenant\n' >>/etc/group
echo tenant:700000:65536 | tee /etc/subuid >/etc/subgid
mkdir -p /etc/cdi
rm -f /etc/cdi/*

# A file system for containers: busybox, and our programs with what they load.
rootfs=$run/root.fs
mkdir -p "$rootfs"/{bin,proc,sys,dev,run,tmp,etc,usr/lib/x86_64-linux-gnu,lib64,build}
cp "$(command -v busybox)" "$rootfs/bin/busybox"
for c in sh sleep cat env; do ln -s busybox "$rootfs/bin/$c"; done
cp "$guest" "$cuda/library/vgpu-cuda-check" "$rootfs/build"
for f in $(ldd "$guest" "$cuda/library/vgpu-cuda-check" | grep -o '/[^ ]*[^ :]' | sort -u) /lib/x86_64-linux-gnu/libpthread.so.0; do
	[ ! -f "$f" ] || case $f in *.so*) cp -L "$f" "$rootfs/usr/lib/x86_64-linux-gnu/";; esac
done
cp -L /lib64/ld-linux-x86-64.so.2 "$rootfs/lib64/"
ln -s usr/lib "$rootfs/lib"
cp -a "$rootfs" "$run/tenant.fs"
chown -R 7777:7777 "$run/tenant.fs"
# One whose place of the lease is a link.
cp -a "$rootfs" "$run/trap.fs"
ln -s /etc "$run/trap.fs/run/vgpud"

start_gpu() {
	LD_LIBRARY_PATH=$driver start_softgpu --engine cuda --vfs 3 --vram 384M --window 32M --kill-after 2000 --socket-user root
}
start_gpu
config <<<$'vfs = 3\n[profile small]\nweight = 50'
sed -i 's/^\[daemon\]$/&\nhold_s = 1/' "$run/vgpud.conf"
start_vgpud
# The file as it is written where vgpud is installed: the places are here, and the libraries are there.
mkdir "$run/slot"
ctl inventory --format cdi | sed "s,/[^\"]*/vgpud-oci-hook\",$hook\",; s,/[^\"]*/share/vgpud/slot\",$run/slot\"," |
	jq --arg s "VGPUD_TENANT_SOCKET=$run/tenant.sock" --arg c "$run/programs/libcuda.so.1" --arg n "$run/programs/libnvidia-ml.so.1" '
		(.devices[].containerEdits.hooks // [])[].env += [$s] |
		.containerEdits.mounts |= map(select(.containerPath | startswith("/usr/") | not)) + [($c, $n) | {hostPath: .,
			containerPath: ("/usr/lib/x86_64-linux-gnu/" + (split("/") | last)), options: ["ro", "nosuid", "nodev", "rbind", "rprivate"]}]' \
	>/etc/cdi/vgpud.json || fail "no file for containers"

as_root() { podman --root "$run/store" --runroot "$run/runroot" --storage-driver vfs --cgroup-manager=cgroupfs --events-backend=file "$@"; }
mkdir -p "$run/home" "$run/xdg"
chown 7777:7777 "$run/home" "$run/xdg"
chmod 700 "$run/xdg"
as_tenant() { setpriv --reuid 7777 --regid 7777 --groups 7777,7778 env HOME="$run/home" XDG_RUNTIME_DIR="$run/xdg" \
	podman --storage-driver vfs --cgroup-manager=cgroupfs --events-backend=file "$@"; }
# WHO OPTIONS... -- COMMAND...: a container of root or of tenant.
start() {
	local who=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	"as_$who" run --network=none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 "${options[@]}" --rootfs "$run/$who.fs" "$@"
}
# On every way out: containers, and podman's process that keeps a user's namespaces.
leave() {
	local r=$?
	{ as_root rm -f -a -t 0; as_tenant rm -f -a -t 0; kill -9 "$(cat "$run/xdg/libpod/tmp/pause.pid")"; } >/dev/null 2>&1
	(exit $r)
	finish
}
trap leave EXIT
as_trap() { as_root "$@"; }
# The same in the background; prints its id.
begin() {
	local who=$1
	shift
	start "$who" -d "$@" 2>"$run/begin.txt" || fail "a container of $who does not start: $(cat "$run/begin.txt")"
}
end() { "as_$1" rm -f -t 0 "$2" >/dev/null 2>&1; }
running() { json tenant list | jq -r '[.tenants[] | select(.state == "running")] | map('"$1"') | join(" ")'; }
has() { [ "$(running .name)" = "$1" ]; }
gpu() { echo --device vgpud.dev/gpu="${1:-gpu0}"; }
named() { echo --annotation vgpud.dev/name="$1"; }
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
	await 10 has ""
	$where 2>&1 | grep -q "$why" || fail "$where: $($where 2>&1), not $why"
}
refused explained "want a size with its unit, like 2Gi" root $(gpu) --annotation vgpud.dev/memory=2
refused explained "want a part of the GPU's time, like 30%" root $(gpu) --annotation vgpud.dev/share=0.3
refused explained "there is no such annotation" root $(gpu) --annotation vgpud.dev/cores=4
refused explained "already" root $(gpu) $(gpu small)
refused hook_said "leads through a symbolic link in this image" trap $(gpu) --annotation run.oci.hooks.stderr="$run/hook.txt"
await 10 eval '[ "$(json tenant list | jq ".tenants | length")" = 0 ]' # what was held

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

# Containers that run get a VF, and lose it. The mounting program is started for each order, as by systemd.
python3 - "$run/mount.sock" "$VGPU_BUILD/tools/container/vgpud-mount" 2>>"$run/mount.log" <<'PY' &
import os, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen(8)
while True:
    c, _ = s.accept()
    subprocess.run([sys.argv[2]], stdin=c, env={**os.environ, "VGPUD_TENANT_SOCKET": os.path.dirname(sys.argv[1]) + "/tenant.sock"})
    c.close()
PY
pids+=($!)
await 20 test -S "$run/mount.sock"
# The engine of whoever calls vgpuctl.
mkdir "$run/bin"
printf '#!/bin/bash\n[ "$(id -u)" = 0 ] && set -- --root %q --runroot %q "$@"\nexec %q --storage-driver vfs --cgroup-manager=cgroupfs --events-backend=file "$@"\n' \
	"$run/store" "$run/runroot" "$(command -v podman)" >"$run/bin/podman"
chmod 755 "$run/bin/podman"
by() { # WHO vgpuctl's words
	local as=()
	[ "$1" = root ] || as=(setpriv --reuid 7777 --regid 7777 --groups "7777,7778" env HOME="$run/home" XDG_RUNTIME_DIR="$run/xdg")
	PATH=$run/bin:$PATH "${as[@]}" "$vgpuctl" --socket "$run/control.sock" "${@:2}"
}
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
plain=$(begin root -- sleep 1000)
by root container attach "$plain" 2>"$run/out.txt" && fail "a container without a slot gets a VF"
grep -q "was not started with a slot: start it with --device vgpud.dev/gpu=later" "$run/out.txt" || fail "$(cat "$run/out.txt")"
[ "$(running .name)" = mine ] || fail "a lease is left that could not be mounted: $(running .name)"
# What has a user namespace, and the host's files, is no container.
setpriv --reuid 7777 --regid 7777 --clear-groups unshare -U sleep 1000 &
sham=$!
pids+=($sham)
await 20 eval '[ "$(readlink /proc/$sham/ns/user)" != "$(readlink /proc/self/ns/user)" ]'
forge createRuntime <<<"{\"id\":\"sham\",\"pid\":$sham,\"root\":\"/\"}" 2>"$run/out.txt" && fail "the host's files are taken for a container's"
kill $sham; wait $sham 2>/dev/null
await 20 eval '[ "$(running .name)" = mine ]'
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
await 120 can root "$id"
end root "$plain"

# A restart keeps the VF, though others take all that is free.
vf=$(running .vf)
other() { start tenant $(gpu) -- sleep 1000 >/dev/null 2>&1; }
(while :; do other; done) & greedy=$!
pids+=($greedy)
await 60 eval '[ "$(running .name | wc -w)" -ge 2 ]'
as_root restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart: $(cat "$run/out.txt")"
[ "$(json tenant list | jq -r '.tenants[] | select(.name == "mine") | "\(.vf) \(.state)"')" = "$vf running" ] || fail "after a restart: $(json tenant list)"
kill $greedy; wait $greedy 2>/dev/null
for c in $(as_tenant ps -q); do end tenant "$c"; done
end root "$id"
await 20 has ""

# Killed: whoever looks after it, and it.
id=$(begin root $(gpu) $(named mine) -- sleep 1000)
process=$(running .process)
kill -9 "$(ps -o ppid= -p "$process" | tr -d ' ')"
kill -9 "$process" 2>/dev/null
await 10 has ""
end root "$id"; end root "$id"

start root -- sleep 0 || fail "a container without a device does not start"
has "" || fail "a container without a device has a lease"
