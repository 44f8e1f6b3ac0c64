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
for nonsense in host:80 127.0.0.1 127.0.0.1:99999 unix:relative; do
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
OPEN = "application/openmetrics-text"
def ask(method="GET", path="/metrics", accept=OPEN):
    c = Unix("localhost") if where.startswith("unix:") else http.client.HTTPConnection(where, timeout=30)
    c.request(method, path, headers={"Accept": accept} if accept else {})
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
        suffixes = {"counter": ["_total"], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}
        assert m[1].removeprefix(family) in suffixes[families[family]], line
        assert (m[1], m[2]) not in samples, line
        samples[m[1], m[2]] = float(m[3])
for f, t in families.items(): # each family has its samples: one per VF or one per GPU, and of states one for each
    n = sum(name in (f, f + "_total", f + "_info", f + "_count") for name, _ in samples)
    many = {"vgpud_vf_state": 24, "vgpud_grants": 3, "vgpud_refusals": 3 * 11, "vgpud_bookings": 4,
            "vgpud_vf_driver_seconds": 0, "vgpud_vf_driver_beyond_seconds": 0} # of gated GPUs alone
    assert n == many.get(f, 3 if f.startswith("vgpud_vf_") else 1), (f, n)
    assert f"# HELP {f} " in text, f
assert sum(v for (name, _), v in samples.items() if name == "vgpud_vf_state") == 3
assert samples["vgpud_vf_state", 'gpu="gpu0",vf="0",domain="",state="active"'] == 1
version = subprocess.run([vgpuctl, "--version"], capture_output=True, text=True).stdout.split()[1]
assert samples["vgpud_build_info", f'version="{version}"'] == 1
assert [l for name, l in samples if name == "vgpud_gpu_info"][0].endswith('policy="fair"')
# A histogram's buckets grow, and the last one has all.
for f in (f for f, t in families.items() if t == "histogram"):
    buckets = [v for (name, _), v in samples.items() if name == f + "_bucket"]
    total = samples[f + "_count", 'gpu="gpu0"']
    assert buckets == sorted(buckets) and buckets[-1] == total and len(buckets) > 10, (f, buckets)
assert samples["vgpud_gpu_decision_seconds_count", 'gpu="gpu0"'] > 0 and samples["vgpud_gpu_decision_seconds_sum", 'gpu="gpu0"'] > 0
# Who does not ask for OpenMetrics gets the older format: browsers, curl, and old collectors.
for accept in None, "*/*", "text/plain;version=0.0.4", OPEN + ";version=0.0.1":
    status, kind, text = ask(accept=accept)
    assert status == 200 and kind.startswith("text/plain; version=0.0.4"), (accept, kind)
    assert "# TYPE vgpud_vf_run_seconds_total counter\n" in text and "# EOF" not in text and "# UNIT" not in text
    assert {l.split("{")[0] for l in text.splitlines() if l[0] != "#"} == {name for name, _ in samples}
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
# Prometheus' own parser, its tests of the rules, and a Prometheus that collects from this vgpud: every rule can be evaluated, and
# every query of the dashboard gets an answer from it.
promtool=${PROMTOOL:-$(command -v promtool)}
packaging=$(dirname "$0")/../../tools/packaging
if [ -n "$promtool" ]; then
	cp "$packaging/prometheus/vgpud.rules.yml" "$(dirname "$0")/metrics-rules.yml" "$run/"
	/usr/bin/python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())' \
		http://127.0.0.1:$port/metrics >"$run/metrics"
	"$promtool" check metrics <"$run/metrics" >"$run/promtool.log" 2>&1 || fail "promtool check metrics finds faults"
	"$promtool" check rules "$run/vgpud.rules.yml" >"$run/promtool.log" 2>&1 || fail "promtool check rules finds faults"
	"$promtool" test rules "$run/metrics-rules.yml" >"$run/promtool.log" 2>&1 || fail "the rules do not say what metrics-rules.yml wants"
	for rule in $(sed -n 's/.*\(record\|alert\): //p' "$run/vgpud.rules.yml"); do
		grep -q "$rule\b" "$run/metrics-rules.yml" || fail "metrics-rules.yml tests nothing of $rule"
	done
	"$packaging/grafana/dashboard" >"$run/dashboard.json"
	/usr/bin/python3 "$(dirname "$0")/metrics-prometheus.py" "${promtool%/*}/prometheus" "$run" 127.0.0.1:$port "$run/dashboard.json" \
		>"$run/collected.log" 2>&1 || fail "Prometheus cannot use the metrics, or the dashboard has faults"
else
	echo "skipped: promtool is missing"
fi
kill $vgpud_pid; wait $vgpud_pid
conf unix:$run/metrics.sock
start_vgpud
await 30 at_least 0 dispatches 10
look unix:$run/metrics.sock
grep -q "without TLS" "$run/vgpud.log" && fail "vgpud warns of addresses that only this machine can reach"
kill $vgpud_pid; wait $vgpud_pid
conf 0.0.0.0:$port
start_vgpud
grep -q "metrics = 0.0.0.0:$port: everyone who can connect can read the metrics" "$run/vgpud.log" || fail "vgpud does not warn of metrics without TLS"
kill $vgpud_pid; wait $vgpud_pid
conf unix:$run/metrics.sock
start_vgpud
kill -INT $a
wait_guest $a a
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
[ ! -e "$run/metrics.sock" ] || fail "vgpud left the metrics socket behind"
