# SPDX-License-Identifier: MIT
"""metrics-prometheus.py PROMETHEUS DIR TARGET DASHBOARD: a Prometheus collects from vgpud at TARGET, in the format that it
prefers, and evaluates the rules in DIR. Every query of the dashboard must get an answer, and the dashboard must be as Grafana's
schema wants it (github.com/grafana/grafana, kinds/dashboard)."""
import json, socket, subprocess, sys, time, urllib.error, urllib.parse, urllib.request

program, run, target, dashboard = sys.argv[1:]
d = json.load(open(dashboard))


def schema():
    wanted = {"uid": str, "title": str, "editable": bool, "graphTooltip": int, "style": str, "schemaVersion": int, "panels": list,
              "templating": dict, "time": dict, "annotations": dict, "tags": list}
    for key, kind in wanted.items():
        assert isinstance(d[key], kind), key
    assert d["schemaVersion"] >= 36 and d["graphTooltip"] in (0, 1, 2) and "id" not in d
    names = {v["name"] for v in d["templating"]["list"]}
    ids, places = set(), set()
    for p in d["panels"]:
        where = p["title"]
        assert p["type"] in ("timeseries", "stat"), where
        assert p["description"] and p["id"] not in ids, where
        ids.add(p["id"])
        assert isinstance(p["options"], dict) and p["fieldConfig"]["overrides"] == [] and p["fieldConfig"]["defaults"]["unit"], where
        assert p["datasource"]["type"] == "prometheus" and p["datasource"]["uid"] == "${datasource}", where
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & places, where
        places |= cells
        refs = [t["refId"] for t in p["targets"]]
        assert refs and len(set(refs)) == len(refs) and all(t["legendFormat"] for t in p["targets"]), where
    assert {"datasource", "gpu"} == names


schema()
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
open(f"{run}/prometheus.yml", "w").write(f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{run}/vgpud.rules.yml]
scrape_configs: [{{job_name: vgpud, static_configs: [{{targets: ["{target}"]}}]}}]
""")
prometheus = subprocess.Popen([program, f"--config.file={run}/prometheus.yml", f"--storage.tsdb.path={run}/prometheus",
                               f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"])


def api(path, **args):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(args)}"
    try:
        return json.load(urllib.request.urlopen(url, timeout=30))["data"]
    except urllib.error.HTTPError as e:
        if e.code == 503:  # it is starting
            raise
        raise AssertionError(f"{args}: {e.read().decode()}")


def until(what, condition):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert prometheus.poll() is None, "Prometheus has ended"
        try:
            if condition():
                return
        except urllib.error.URLError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"timed out waiting for {what}: {api('targets')}")


def answers(expr):
    for a, b in ("$__rate_interval", "1m"), ("$gpu", ".*"):
        expr = expr.replace(a, b)
    assert "$" not in expr, expr
    return api("query", query=expr)["result"]


try:
    until("two scrapes", lambda: [int(v["value"][1]) for v in api("query", query='count_over_time(up{job="vgpud"}[10m])')["result"]] >= [3])
    up = api("query", query="vgpud_gpu_up")["result"]
    assert up and up[0]["value"][1] == "1", up
    metadata = api("metadata")
    for metric, kind in ("vgpud_vf_run_seconds", "counter"), ("vgpud_gpu_boundary_lateness_seconds", "histogram"), ("vgpud_build", "info"):
        assert [m["type"] for m in metadata[metric]] == [kind] and metadata[metric][0]["help"], (metric, metadata.get(metric))
    until("an evaluation of each rule", lambda: all(r["health"] == "ok" for g in api("rules")["groups"] for r in g["rules"]))
    for p in d["panels"]:
        for t in p["targets"]:
            until(f"an answer to {t['expr']}", lambda: answers(t["expr"]))
finally:
    prometheus.kill()
    prometheus.wait()
