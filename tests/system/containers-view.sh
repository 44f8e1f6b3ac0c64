#!/bin/bash
# SPDX-License-Identifier: MIT
# What containers are called, everywhere that they are shown: by the annotations of engines that write any, and by what podman says when it is
# asked afterwards. And whether what vgpud, the kernel and podman say of them goes together.
# Words are split on purpose: gpu and named print several.
# shellcheck disable=SC2046
. "$(dirname "$0")/containers-lib.sh"
check=/build/vgpu-cuda-check
# Whether what is executed in a container of WHO can compute. A busy machine may need several tries.
can() { "as_$1" exec "$2" $check >"$run/out.txt" 2>&1; grep -q 'CUDA programs can run here' "$run/out.txt"; }
start_host 1
sed -i "s,^\[daemon\]\$,&\nmetrics = unix:$run/metrics.sock," "$run/vgpud.conf"
restart_vgpud() { kill "$vgpud_pid"; wait "$vgpud_pid"; start_vgpud; }
restart_vgpud
lease() { json tenant list | jq -er --arg id "$1" '.tenants[] | select(.id == $id) | '"$2"; } # ID FIELD
metrics() {
	/usr/bin/python3 - "$run/metrics.sock" <<'PY'
import http.client, socket, sys
c = http.client.HTTPConnection("localhost")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.request("GET", "/metrics")
print(c.getresponse().read().decode())
PY
}
ask() { # METHOD ARGS: at the tenants' socket, as root
	python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b"{\"method\":\"%s\",\"args\":%s}\n" % (sys.argv[2].encode(), sys.argv[3].encode())); print(s.makefile().readline())' "$run/tenant.sock" "$1" "$2"
}

# podman tells no hook what a container is called. It is asked, and from then on it is called so everywhere.
tar c -C "$run/root.fs" . | as_root import - localhost/web:1 >/dev/null 2>&1 || fail "no image"
as_root run -d --name web --network=none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 $(gpu) localhost/web:1 sleep 1000 >"$run/id.txt" 2>"$run/out.txt" ||
	fail "a container of an image does not start: $(cat "$run/out.txt")"
id=$(cat "$run/id.txt")
[ "$(lease "$id" .name)" = "${id:0:12}" ] || fail "before podman is asked, a container is called $(lease "$id" .name)"
by root container name || fail "container name"
called() { [ "$(lease "$id" '"\(.name) \(.image)"')" = "web localhost/web:1" ]; }
called || fail "it is called $(lease "$id" '"\(.name) \(.image)"')"
by root container name nonsense 2>/dev/null && fail "container name takes an argument"
restart_vgpud
called || fail "after a restart of vgpud it is called $(lease "$id" '"\(.name) \(.image)"')"
hold() { sed -i "s/^hold_s = .*/hold_s = $1/" "$run/vgpud.conf" && ctl config reload >/dev/null || fail "config reload"; }
hold 60 # a restart that is slow is one, too
as_root restart -t 0 "$id" >/dev/null 2>"$run/out.txt" || fail "a restart: $(cat "$run/out.txt")"
hold 1
called || fail "after its own restart it is called $(lease "$id" '"\(.name) \(.image)"')"
await 120 can root "$id"
ctl tenant list | grep -q '^web .*localhost/web:1' || fail "tenant list: $(ctl tenant list)"
metrics >"$run/metrics.txt"
vf=$(lease "$id" .vf)
grep -qF "vgpud_vf_tenant_info{gpu=\"gpu0\",vf=\"$vf\",domain=\"web\",kind=\"container\",image=\"localhost/web:1\",pod=\"\",namespace=\"\"} 1" "$run/metrics.txt" ||
	fail "metrics: $(grep tenant "$run/metrics.txt")"
grep -q "^vgpud_vf_run_seconds_total{gpu=\"gpu0\",vf=\"$vf\",domain=\"web\"} 0*[1-9.]" "$run/metrics.txt" || fail "metrics: $(grep run_sec "$run/metrics.txt")"
ctl vf list | grep -q " web " || fail "vf list: $(ctl vf list)"
ctl top --count 1 | grep -q "web" || fail "top: $(ctl top --count 1)"
ctl -o json timeline | jq -e '[.. | strings] | index("web")' >/dev/null || fail "timeline: $(ctl -o json timeline | head -c 600)"
as_root rm -f -t 0 web >/dev/null 2>&1
await 60 has ""
ctl events | grep -qE "VF $vf +reset-done +vf after [0-9.]+ ms  web$" || fail "events: $(ctl events)"
json events | jq -e '[.records[] | select(.domain == "web" and .type == "window")] | length > 0' >/dev/null || fail "events: $(json events)"

# Others write annotations for whoever looks from outside. A name is a name: what could mean something to a terminal or a metric does not come through.
id=$(begin root $(gpu) --annotation io.kubernetes.container.name=main --annotation io.kubernetes.pod.name=train-0 --annotation io.kubernetes.pod.namespace=ml \
	--annotation 'io.kubernetes.cri-o.ImageName=quay.io/x;$:1' -- sleep 1000)
[ "$(lease "$id" '"\(.name) \(.pod) \(.namespace) \(.image)"')" = "main train-0 ml quay.io/x__:1" ] || fail "CRI-O's container is called $(lease "$id" .)"
metrics >"$run/metrics.txt"
grep -qF 'domain="main",kind="container",image="quay.io/x__:1",pod="train-0",namespace="ml"}' "$run/metrics.txt" || fail "metrics: $(grep tenant "$run/metrics.txt")"
end root "$id"
id=$(begin root $(gpu) --annotation io.kubernetes.cri.container-name=c --annotation io.kubernetes.cri.sandbox-name=p --annotation io.kubernetes.cri.sandbox-namespace=n \
	--annotation io.kubernetes.cri.image-name=i $(named mine) -- sleep 1000)
[ "$(lease "$id" '"\(.name) \(.pod) \(.namespace) \(.image)"')" = "mine p n i" ] || fail "containerd's container is called $(lease "$id" .)"
# The names of others' are not one's own to change.
said=$(setpriv --reuid 7777 --regid 7777 --groups 7777,7778 /usr/bin/python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b"{\"method\":\"tenant.name\",\"args\":{\"lease\":\"%s\",\"names\":{\"name\":\"x\"}}}\n" % sys.argv[2].encode()); print(s.makefile().readline())' "$run/tenant.sock" "$(lease "$id" .lease)")
[[ $said == *ENOENT* && $(lease "$id" .image) = i ]] || fail "a user named root's container: $said"
end root "$id"

# A user's own engine, followed: what starts later is named, too. Not through by(): the process of the number that is kept is the program.
"${tenant_runs[@]}" PATH="$run/bin:$PATH" "$vgpuctl" --socket "$run/control.sock" container name --follow 2>"$run/follow.log" &
id=$(begin tenant $(gpu) --name trained -- sleep 1000)
followed() { [ "$(lease "$id" .name)" = trained ]; }
await 60 followed
end tenant "$id"
await 60 has ""

# An audit: nothing differs, whatever runs.
clean_audit() { by root audit "$@" >"$run/audit.txt" 2>"$run/audit.log" && grep -q ': 0 differences$' "$run/audit.txt"; }
id=$(begin root $(gpu) --name web -- sleep 1000)
other=$(begin tenant $(gpu) -- sleep 1000)
await 60 clean_audit
await 60 clean_audit --podman
of_users() { by tenant audit --podman 2>"$run/audit.log" | grep -q '^1 lease .* 1 container of podman: 0 differences$'; }
await 60 of_users
in_json() { by root -o json audit 2>"$run/audit.log" | jq -e '. == {leases: 2, containers: null, differences: []}'; }
await 60 in_json
says() {
	by root audit --podman >"$run/audit.txt" 2>"$run/audit.log"
	[ $? = 1 ] && grep -qE "$1" "$run/audit.txt" && grep -q ': 1 difference$' "$run/audit.txt"
}
differs() { await 60 says "$1"; } # TEXT
# The directory of a lease that is not its own any more.
ask tenant.stop "{\"lease\":\"$(lease "$id" .lease)\"}" >/dev/null
differs "^container web: it has the directory of lease [0-9a-f-]{36}, which is not its own"
end root "$id"
# podman goes on believing in a container whose monitor was killed.
id=$(begin root $(gpu) --name web -- sleep 1000)
process=$(lease "$id" .process)
kill -9 "$(ps -o ppid= -p "$process" | tr -d ' ')"
kill -9 "$process" 2>/dev/null
mine_ended() { ! lease "$id" .state || [ "$(lease "$id" .state)" = held ]; }
await 60 mine_ended
[ "$(as_root inspect --format '{{.State.Status}}' "$id")" = running ] || fail "podman knows that a container ended whose monitor was killed: nothing to find"
differs "^container web: podman says that it runs, and its process $process has ended"
await 60 clean_audit
end root "$id"; end root "$id"
# A lease of what podman does not know.
sleep 1000 &
ghost=$!
ask tenant.start "{\"container\":{\"id\":\"ghost\",\"pid\":$ghost}}" >/dev/null
differs "^container ghost: it has a lease, and podman has no container ghost"
kill $ghost
await 60 clean_audit --podman
