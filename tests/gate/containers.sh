#!/bin/bash
# SPDX-License-Identifier: MIT
# containers.sh DIR: containers of podman, root's and a user's, whose programs compute by Venus on lavapipe, outside of them, and share it by
# weight. Beside two that always have work, a third one has llama.cpp's Vulkan back end test itself. virglrenderer and Mesa, the server's
# and the containers', are Debian 13's, of the root that tests/gate/setup made in DIR; the third image is fetched into DIR, once.
# Words are split on purpose: gpu and named print several.
# shellcheck disable=SC2046
dir=$(realpath "${1:?usage: containers.sh DIR}")
. "$(dirname "$0")/../system/containers-lib.sh"
ggml=$dir/ggml
[ -e "$ggml/done" ] || { "$here/../fetch" "$ggml" --of "trixie trixie-backports" libggml0-backend-vulkan mesa-vulkan-drivers &&
	mkdir -p "$ggml"/root/{proc,sys,dev,run,tmp} && ln -sfn usr/lib "$ggml/root/lib" && ln -sfn usr/lib64 "$ggml/root/lib64" && touch "$ggml/done"; } || exit
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
lib=usr/lib/x86_64-linux-gnu
mkdir -p "$run/layers"
# Not below $run, which is removed.
mount --bind -o ro "$dir/root" /media && ! touch /media/written 2>/dev/null || fail "$dir has no root"
{
	cp "$VGPU_BUILD"/tools/render/venus/libvgpud-venus-only.so "$VGPU_BUILD"/tools/render/layer/{libVkLayer_vgpud_gate.so,VkLayer_vgpud_gate.json} \
		"$run/layers" && cc -O1 -D_GNU_SOURCE -fPIC -shared -o "$run/udmabuf.so" "$here/udmabuf.c"
} || fail "this build has no Vulkan layer, or tests/gate/udmabuf.c does not compile"

# The server and its render server, which this machine does not have, with the loader of where they are.
there="/media/lib64/ld-linux-x86-64.so.2 --library-path /media/$lib"
cat >"$run/bin/vtest" <<SH
#!/bin/sh
RENDER_SERVER_EXEC_PATH=$run/bin/render-server LD_PRELOAD=$run/layers/libvgpud-venus-only.so exec $there /media/usr/bin/virgl_test_server "\$@" 2>>$run/vtest.txt
SH
cat >"$run/bin/render-server" <<SH
#!/bin/sh
[ -e /dev/udmabuf ] || export LD_PRELOAD=$run/udmabuf.so
exec $there /media/usr/libexec/virgl_render_server "\$@"
SH
chmod 755 "$run"/bin/*
echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "'"/media/$lib/libvulkan_lvp.so"'", "api_version": "1.3.0"}}' >"$run/lvp.json"
touch "$run/vtest.txt"
chmod 666 "$run/vtest.txt"

# What images have of it: Mesa's driver for Venus, and the loader. And a program.
for fs in root tenant; do
	mkdir -p "$run/$fs.fs/usr/share/vulkan/icd.d"
	cp "$load" "$VGPU_BUILD/tests/gate/gate-comes" "$run/$fs.fs/bin/"
	cp -L /media/lib64/ld-linux-x86-64.so.2 "$run/$fs.fs/lib64/"
	cp "/media/usr/share/vulkan/icd.d/virtio_icd.json" "$run/$fs.fs/usr/share/vulkan/icd.d/"
	for library in libvulkan_virtio.so libvulkan.so.1; do
		cp "/media/$lib/$library" "$run/$fs.fs/$lib/"
		# shellcheck disable=SC2086
		$there --list "/media/$lib/$library" | grep -o '/media[^ ]*' | xargs cp -Lt "$run/$fs.fs/$lib"
	done
done
chown -R 7777:7777 "$run/tenant.fs"

cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
hold_s = 1
[gpu gpu0]
device = vulkan:llvmpipe
vfs = 3
policy = fair
slice_us = 20000
grace_ms = 10000
CONF
"$VGPU_BUILD/tools/keeper/vgpud-keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; kill $keeper_pid; wait $keeper_pid; (exit $r); leave' EXIT
await 30 ctl gpu list
child() { tr -d ' ' <"/proc/$keeper_pid/task/$keeper_pid/children"; }
mkdir "$run/slot"
cdi() { # the server's PROGRAM
	ctl inventory --format cdi | sed "s,/[^\"]*/vgpud-oci-hook\",$hook\",; s,/[^\"]*/share/vgpud/slot\",$run/slot\"," |
		jq --argjson e "[\"VGPUD_TENANT_SOCKET=$run/tenant.sock\", \"VGPUD_VTEST=$1\", \"VGPUD_LAYERS=$run/layers\", \"VK_DRIVER_FILES=$run/lvp.json\"]" \
			'(.devices[].containerEdits.hooks // [])[].env += $e | .containerEdits.mounts |= map(select(.containerPath | startswith("/usr/") | not))' \
			>/etc/cdi/vgpud.json || fail "no file for containers"
}
cdi "$run/bin/vtest"
dirs() { find /tmp -maxdepth 1 -name 'vgpud-render.*' | wc -l; }
dirs_before=$(dirs)
servers() { pgrep -cf "virgl_test_server --venus --socket-path" || true; }
nothing_left() { [ "$(servers)" = 0 ] && [ "$(dirs)" = "$dirs_before" ] && has ""; }
venus=(env VN_DEBUG=vtest VTEST_SOCKET_NAME=/run/vgpud/gpu/vtest.sock timeout -s KILL 60 vgpu-vulkan --seconds 1 --steps 200)
right() { [ "$(jq .wrong "$run/out.txt")" = 0 ] || fail "$1: $(tail -n 5 "$run/out.txt" "$run/said.txt" "$run/vtest.txt")"; }

# Nothing of the GPU is in the container: no node, no layer, and no library but Mesa's own. The server has no more rights than the user.
for who in root tenant; do
	id=$(begin $who --user 1000 $(gpu) $(named mine) -- sleep 1000)
	has mine || fail "a container of $who has no lease: $(running .name)"
	"as_$who" exec "$id" "${venus[@]}" >"$run/out.txt" 2>"$run/said.txt"
	right "in a container of $who"
	grep -q "Venus (llvmpipe" "$run/out.txt" || fail "another device: $(cat "$run/out.txt")"
	[ -z "$("as_$who" exec "$id" sh -c 'ls -d /dev/dri /dev/nvidia* /dev/udmabuf' 2>/dev/null)" ] || fail "a container of $who has a device"
	server=$(pgrep -f "virgl_test_server --venus --socket-path" | head -1)
	uid=$([ $who = root ] && echo 65534 || echo 7777)
	grep -qP "^Uid:\t$uid\t$uid\t" "/proc/$server/status" && grep -qP '^NoNewPrivs:\t1' "/proc/$server/status" &&
		grep -qP '^CapPrm:\t0+$' "/proc/$server/status" || fail "the server's rights, for $who: $(cat "/proc/$server/status")"
	end $who "$id"
	await 60 nothing_left
done

# Two that always have work, of two owners.
a=$(begin root $(gpu) $(named a) --annotation vgpud.dev/weight=70 -- vgpu-vulkan --seconds 3600 --steps 8000 --deep 4)
b=$(begin tenant $(gpu) $(named b) --annotation vgpud.dev/weight=30 -- vgpu-vulkan --seconds 3600 --steps 8000 --deep 4)
both_run() { [ "$(running .name | xargs -n 1 | sort | xargs)" = "a b" ]; } # in the order of VFs
vf_of() { json tenant list | jq --arg n "$1" '.tenants[] | select(.name == $n) | .vf'; }
await 60 at_least "$(vf_of a)" dispatches 20
await 60 at_least "$(vf_of b)" dispatches 20
shares_kept 10 "$(vf_of a)=70" "$(vf_of b)=30"

# ggml, llama.cpp's library, compares what its Vulkan back end computes with what its back end for the CPU does, beside both.
cases='type_a=(f32|q4_0),type_b=f32,m=16,n=1,k=256,bs=\[1,1\],nr=\[1,1\],per=\[0,1,2,3\],|type=f32,ne=\[64,5,4,3\],v=0'
timeout -s KILL 900 "$run/bin/podman" run "${plain[@]}" $(gpu) -e GGML_VK_VISIBLE_DEVICES=0 -e VK_DRIVER_FILES=/usr/share/vulkan/icd.d/virtio_icd.json --rootfs "$ggml/root:O" \
	/usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops test -b Vulkan0 -o MUL_MAT,RMS_NORM -p "$cases" >"$run/ggml.txt" 2>"$run/out.txt" ||
	fail "ggml ended with $?: $(tail -n 20 "$run/ggml.txt" "$run/out.txt")"
grep -q "Device description: .*Venus (llvmpipe" "$run/ggml.txt" || fail "ggml on another device: $(cat "$run/ggml.txt")"
cases=$(sed 's/\x1b\[[0-9;]*m//g' "$run/ggml.txt" | grep -c '): OK$')
[ "$cases" -ge 8 ] || fail "ggml has compared $cases cases: $(cat "$run/ggml.txt")"
both_run || fail "beside ggml, a container has ended: $(running .name)"
echo "ggml: $cases products of matrices and norms are those of the CPU"

# vgpud is killed, and one container is started again: what begins in either finds its GPU.
old=$(child)
kill -9 "$old"
await 60 eval '[ -n "$(child)" ] && [ "$(child)" != "$old" ] && ctl gpu list'
vf_a=$(vf_of a)
as_root restart -t 0 "$a" >/dev/null 2>"$run/out.txt" || fail "a restart: $(cat "$run/out.txt")"
[ "$(vf_of a)" = "$vf_a" ] || fail "after a restart: $(json tenant list)"
# Two programs at a time, beside that which the container was started with: a VF is all of theirs.
for who in root tenant; do
	id=$([ $who = root ] && echo "$a" || echo "$b")
	"as_$who" exec "$id" "${venus[@]}" >"$run/second.txt" 2>"$run/second.log" &
	second=$!
	"as_$who" exec "$id" "${venus[@]}" >"$run/out.txt" 2>"$run/said.txt"
	right "after vgpud was killed, in a container of $who"
	wait $second && jq -e '.wrong == 0' "$run/second.txt" >/dev/null || fail "a second program: $(cat "$run/second.txt" "$run/second.log")"
done

# The worker of one is killed: its container lives, and further programs in it find no GPU. The neighbour goes on.
pkill -9 -U 7777 -x vgpud-render || fail "there is no worker of the user's container"
as_tenant exec "$b" "${venus[@]}" >"$run/out.txt" 2>"$run/said.txt" && fail "a container computes whose worker was killed"
before=$(vf "$(vf_of a)" dispatches)
await 60 at_least "$(vf_of a)" dispatches $((before + 5))
both_run || fail "a lease has ended with the worker: $(running .name)"
end tenant "$b"
end root "$a"
find /tmp -maxdepth 1 -name 'vgpud-render.*' -user 7777 -exec rm -r {} + # of the worker that was killed
await 60 nothing_left

# Without a server no container starts, and the reason is kept.
cdi "$run/bin/none"
start root $(gpu) -- sleep 0 >"$run/out.txt" 2>&1 && fail "a container starts without a server"
ctl container explain last | grep -q "$run/bin/none: No such file or directory (Debian: virgl-server)" || fail "explain: $(ctl container explain last)"
await 60 nothing_left

# Containers that run get one, and lose it: a program that runs all the time finds it when it makes its next instance, and is told when it
# goes, whether it asks or waits; nothing of it stays.
cdi "$run/bin/vtest"
for who in root tenant; do
	attach() { VGPUD_VTEST=$run/bin/vtest VGPUD_LAYERS=$run/layers VK_DRIVER_FILES=$run/lvp.json by $who container attach "$id" "$@" 2>"$run/out.txt"; }
	id=$(begin $who --user 1000 $(gpu later) -- gate-comes)
	says() { "as_$who" logs "$id" 2>>"$run/said.txt" >"$run/comes.txt"; [ "$(tr '\n' ' ' <"$run/comes.txt")" = "$1" ]; }
	attach && fail "a VF of a gated GPU is attached without its name"
	grep -q "no GPU gives containers VFs without being named: --gpu NAME" "$run/out.txt" || fail "attach without a name: $(cat "$run/out.txt")"
	await 60 nothing_left
	said=''
	for n in 1 2; do
		attach --gpu gpu0 weight=200 || fail "$who cannot attach: $(cat "$run/out.txt" "$run/vtest.txt")"
		[ "$(json tenant list | jq -r '.tenants[] | select(.state != "held") | "\(.id) \(.gpu) \(.state)"')" = "$id gpu0 running" ] || fail "after attach: $(json tenant list)"
		await 60 says "${said}has a GPU "
		await 60 at_least "$(running .vf)" dispatches 2
		attach --gpu gpu0 && fail "a container gets two VFs"
		by $who container detach "${id:0:12}" 2>"$run/out.txt" || fail "$who cannot detach: $(cat "$run/out.txt")"
		await 60 says "${said}has a GPU VkResult -4 "
		await 60 nothing_left
		said="${said}has a GPU VkResult -4 "
		! grep -q vgpud-render "/proc/$("as_$who" inspect --format '{{.State.Pid}}' "$id" 2>/dev/null)/mountinfo" 2>/dev/null || fail "a mount is left: $(cat "$run/comes.txt")"
	done
	end $who "$id"

	# What was attached comes back when the container is started again within hold_s. Whoever does not end in time is ended.
	sed -i "s/^hold_s = .*/hold_s = 60/" "$run/vgpud.conf" && ctl config reload >/dev/null || fail "config reload"
	id=$(begin $who $(gpu later) -- vgpu-vulkan --seconds 1000)
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart with an empty slot: $(cat "$run/out.txt")"
	end $who "$id"
	id=$(begin $who $(gpu later) -- sleep 1000)
	attach --gpu gpu0 || fail "$who cannot attach: $(cat "$run/out.txt")"
	"as_$who" restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart of what was attached: $(cat "$run/out.txt")"
	[ "$(running .id)" = "$id" ] || fail "after a restart: $(json tenant list)"
	"as_$who" exec "$id" "${venus[@]}" >"$run/out.txt" 2>"$run/said.txt"
	right "attached again, in a container of $who"
	"as_$who" exec -d "$id" env VN_DEBUG=vtest VTEST_SOCKET_NAME=/run/vgpud/gpu/vtest.sock vgpu-vulkan --endless >"$run/out.txt" 2>&1 || fail "$(cat "$run/out.txt")"
	await 60 at_least "$(running .vf)" dispatches 1
	by $who container detach "${id:0:12}" 2>"$run/out.txt" || fail "$who cannot detach from whoever does not end: $(cat "$run/out.txt")"
	await 60 nothing_left
	end $who "$id"
	sed -i "s/^hold_s = .*/hold_s = 1/" "$run/vgpud.conf" && ctl config reload >/dev/null || fail "config reload"
done
# Others' are not theirs, and what is no slot gets nothing. Nobody names another's process as the one that computes for him.
id=$(begin tenant $(gpu later) -- sleep 1000)
"${tenant_runs[@]}" /usr/bin/python3 -c 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(json.dumps({"method": "tenant.start", "args": {"gpu": "gpu0", "container": {"id": sys.argv[2], "pid": int(sys.argv[3]), "worker": int(sys.argv[4])}}}).encode() + b"\n")
print(s.makefile().readline())' "$run/tenant.sock" "$id" "$(as_tenant inspect --format '{{.State.Pid}}' "$id")" "$keeper_pid" >"$run/out.txt" 2>&1
grep -q "process $keeper_pid is not one of user 7777" "$run/out.txt" || fail "root's process computes for a user: $(cat "$run/out.txt")"
end tenant "$id"
id=$(begin root $(gpu later) -- sleep 1000)
attach() { VGPUD_VTEST=$run/bin/vtest VGPUD_LAYERS=$run/layers VK_DRIVER_FILES=$run/lvp.json by "$1" container attach "$2" --gpu gpu0 2>"$run/out.txt"; }
attach root "$id" || fail "root cannot attach: $(cat "$run/out.txt")"
by tenant container detach "${id:0:12}" 2>/dev/null && fail "a user takes away root's VF"
[ "$(running .id)" = "$id" ] || fail "root's VF is gone: $(json tenant list)"
by root container detach "${id:0:12}" || fail "root cannot detach"
end root "$id"
for who in root tenant; do
	id=$(begin $who -- sleep 1000)
	attach $who "$id" && fail "a container without a slot gets a VF"
	grep -q "was not started with a slot: start it with --device vgpud.dev/gpu=later" "$run/out.txt" || fail "$(cat "$run/out.txt")"
	await 60 nothing_left
	end $who "$id"
done
