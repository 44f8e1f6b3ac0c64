#!/bin/bash
# SPDX-License-Identifier: MIT
# Draws docs/figures/dashboard.svg: the panels of the package's Grafana dashboard, with what a real Prometheus answers to their
# queries about a softgpu with four tenants, one of which hogs the engine and one of which begins late. PROMTOOL is the promtool beside
# which tests/get-promtool has put prometheus. Takes two minutes.
. "$(dirname "$0")/../system/lib.sh"
promtool=${PROMTOOL:-$("$(dirname "$0")/../get-promtool" "$VGPU_BUILD/promtool")}
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
top=$(cd "$(dirname "$0")/../.." && pwd)
cp "$top/tools/packaging/prometheus/vgpud.rules.yml" "$run/"
start_softgpu --vfs 4
cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
metrics = 127.0.0.1:$port
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
vfs = 4
CONF
start_vgpud
start_guest a 0 mandelbrot --seconds 1000
start_guest b 1 sha256 --seconds 1000
start_guest hog 2 hog --us 5000 --seconds 1000
(sleep 45; exec "$guest" spin --us 300 --depth 4 --seconds 1000 --socket "$run/gpu/vf3.sock" >/dev/null 2>&1) &
pids+=($!)
/usr/bin/python3 "$(dirname "$0")/dashboard.py" "${promtool%/*}/prometheus" "$run" "127.0.0.1:$port" \
	"$top/tools/packaging/grafana/vgpud.json" 100 "$top/docs/figures/dashboard.svg" >"$run/drawn.log" 2>&1 || fail "the dashboard cannot be drawn"
