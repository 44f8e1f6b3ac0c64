#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud serves metrics by TCP and by a Unix socket, in the OpenMetrics format, with the values that vgpuctl shows.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
conf() {
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		metrics = $1
		[gpu gpu0]
		device = vfio-user:$run/gpu/pf.sock
		vfs = 3
	CONF
}
for nonsense in 0.0.0.0:80 127.0.0.1 127.0.0.1:99999 unix:relative; do
	conf $nonsense
	"$vgpud" --config "$run/vgpud.conf" --check-config 2>"$run/said" && fail "vgpud accepted metrics = $nonsense"
	grep -q "metrics = $nonsense: want" "$run/said" || fail "$(cat "$run/said")"
done
conf 127.0.0.1:$port
start_vgpud
start_guest a 0 sha256 --seconds 1000; a=$guest_pid
await 30 at_least 0 dispatches 10
cat >"$run/look.py" <<'PY'
import http.client, json, re, socket, subprocess, sys, threading, time
where, vgpuctl, control = sys.argv[1:4]
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(30); self.sock.connect(where[5:])
def ask(method="GET", path="/metrics"):
    c = Unix("localhost") if where.startswith("unix:") else http.client.HTTPConnection(where, timeout=30)
    c.request(method, path)
    r = c.getresponse()
    return r.status, r.getheader("Content-Type"), r.read().decode()
status, kind, text = ask()
assert status == 200 and kind.startswith("application/openmetrics-text; version=1.0.0"), (status, kind)
lines = text.split("\n")
assert lines[-2:] == ["# EOF", ""]
families, family, samples = {}, None, {}
for line in lines[:-2]:
    if line.startswith("# TYPE "):
        _, _, family, t = line.split(" ")
        assert family not in families, family
        families[family] = t
    elif line.startswith("# "):
        assert line.split(" ")[2] == family and line.split(" ")[1] in ("HELP", "UNIT"), line
    else:
        m = re.fullmatch(r'([a-z0-9_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\d+(?:\.\d+)?(?:e-?\d+)?)', line)
        assert m, line
        assert m[1] == family + ("_total" if families[family] == "counter" else ""), line
        assert (m[1], m[2]) not in samples, line
        samples[m[1], m[2]] = float(m[3])
for f in families: # each family has its samples: one per VF or one per GPU
    n = sum(name.removesuffix("_total") == f for name, _ in samples)
    assert n == (3 if f.startswith("vgpud_vf_") else 1), (f, n)
vf = json.loads(subprocess.run([vgpuctl, "--socket", control, "-o", "json", "vf", "show", "0"], capture_output=True).stdout)
label = 'gpu="gpu0",vf="0",domain=""'
assert 10 <= samples["vgpud_vf_dispatches_total", label] <= vf["dispatches"]
assert 0 < samples["vgpud_vf_run_seconds_total", label] <= vf["run_ns"] / 1e9
assert samples["vgpud_vf_memory_bytes", label] == vf["memory_bytes"]
assert samples["vgpud_gpu_up", 'gpu="gpu0"'] == 1
assert ask(path="/")[0] == 404 and ask("POST")[0] in (405, 501)
# Requests one after the other: all are served.
assert [ask()[0] for _ in range(16)] == [200] * 16
# Many requests at once, beside idle connections: vgpud serves four at a time (MAX_SCRAPES) and answers the others with 503.
# They are served when they ask again.
idle = []
if not where.startswith("unix:"):
    host, port = where.split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(20)]
seen = []
threads = [threading.Thread(target=lambda: seen.append(ask()[0])) for _ in range(16)]
for t in threads: t.start()
for t in threads: t.join()
assert len(seen) == 16 and set(seen) <= {200, 503} and seen.count(200) >= 4, seen
served, end = seen.count(200), time.monotonic() + 30
while served < 16 and time.monotonic() < end:
    served += ask()[0] == 200
assert served == 16, served
PY
look() { /usr/bin/python3 "$run/look.py" "$1" "$vgpuctl" "$run/control.sock" 2>"$run/look.log" || fail "metrics at $1 are wrong"; }
look 127.0.0.1:$port
# Prometheus' own parsers. The one for OpenMetrics requires time stamps. The other has more rules for names, but does not
# know the suffix _total.
promtool=${PROMTOOL:-$(command -v promtool)}
if [ -n "$promtool" ]; then
	/usr/bin/python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())' \
		http://127.0.0.1:$port/metrics >"$run/metrics"
	sed "/^#/!s/$/ $(date +%s)/" "$run/metrics" >"$run/metrics.timed"
	"$promtool" tsdb create-blocks-from openmetrics "$run/metrics.timed" "$run/tsdb" >"$run/promtool.log" 2>&1 || fail "promtool refuses the metrics as OpenMetrics"
	counters=$(sed -n 's/^# TYPE \([a-z_]*\) counter$/\1/p' "$run/metrics" | paste -sd'|')
	sed -E "s/^(# [A-Z]+ ($counters)) /\\1_total /" "$run/metrics" | "$promtool" check metrics >"$run/promtool.log" 2>&1 || fail "promtool check metrics finds faults"
else
	echo "skipped: promtool is missing"
fi
kill $vgpud_pid; wait $vgpud_pid
conf unix:$run/metrics.sock
start_vgpud
await 30 at_least 0 dispatches 10
look unix:$run/metrics.sock
kill -INT $a
wait_guest $a a
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
[ ! -e "$run/metrics.sock" ] || fail "vgpud left the metrics socket behind"
