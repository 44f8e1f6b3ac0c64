#!/bin/bash
# SPDX-License-Identifier: MIT
# Draws docs/figures/dashboard.svg: the panels of the package's Grafana dashboard, with what a real Prometheus answers to their
# queries about a softgpu with four tenants, one of which hogs the engine and one of which begins late. Two of them are VMs, as the hook
# says; other VMs are refused meanwhile. PROMTOOL is the promtool beside which tests/get-promtool has put prometheus. Takes two minutes.
. "$(dirname "$0")/../system/lib.sh"
. "$(dirname "$0")/../system/hooks.sh"
promtool=${PROMTOOL:-$("$(dirname "$0")/../get-promtool" "$VGPU_BUILD/promtool")}
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
top=$(cd "$(dirname "$0")/../.." && pwd)
cp "$top/tools/packaging/prometheus/vgpud.rules.yml" "$run/"
start_softgpu --vfs 6
cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
metrics = 127.0.0.1:$port
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
pool = render
policy = qos
vfs = 6
CONF
start_vgpud
vm() { sequence "$1" "$(claim "<v:device gpu='gpu0' vf='$2'/><v:sched><v:share min='$3'/></v:sched>")" prepare start started || fail "$(cat "$run/said")"; }
vm 1 0 10
start_guest a 0 mandelbrot --seconds 1000
start_guest b 1 sha256 --seconds 1000
start_guest hog 2 hog --us 5000 --seconds 1000
(sleep 45; exec "$guest" spin --us 300 --depth 4 --seconds 1000 --socket "$run/gpu/vf3.sock" >/dev/null 2>&1) &
(sleep 30; vm 2 4 20
for n in 3 4 5 6 7 8; do # more memory than there is; a share for which there is no time
	sleep 9
	hook "$n" "$(claim "<v:memory unit='GiB'>9</v:memory>")" prepare
	[ $((n % 2)) = 0 ] || hook "$n" "$(claim "<v:sched><v:share min='90'/></v:sched>")" prepare
done) >/dev/null 2>&1 &
"$top/tools/packaging/grafana/dashboard" >"$run/dashboard.json"
/usr/bin/python3 "$(dirname "$0")/dashboard.py" "${promtool%/*}/prometheus" "$run" "127.0.0.1:$port" \
	"$run/dashboard.json" 100 "$top/docs/figures/dashboard.svg" >"$run/drawn.log" 2>&1 || fail "the dashboard cannot be drawn"
