# SPDX-License-Identifier: MIT
"""dashboard.py PROMETHEUS DIR TARGET DASHBOARD SECONDS SVG: lets a Prometheus collect from TARGET for some seconds, and draws the
panels of a Grafana dashboard with its answers. The drawing is plain: lines, units, and legends."""
import html, json, re, socket, subprocess, sys, time, urllib.parse, urllib.request

program, run, target, dashboard, seconds, svg = sys.argv[1:]
panels = json.load(open(dashboard))["panels"]
colours = ["#3274d9", "#e0752d", "#37872d", "#8f3bb8", "#c4162a", "#0097a7", "#b58900", "#555555"]
CELL, ROW, MARGIN = 46, 30, 8  # of the dashboard's grid, in pixels
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
open(f"{run}/prometheus.yml", "w").write(f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{run}/vgpud.rules.yml]
scrape_configs: [{{job_name: vgpud, static_configs: [{{targets: ["{target}"]}}]}}]
""")
prometheus = subprocess.Popen([program, f"--config.file={run}/prometheus.yml", f"--storage.tsdb.path={run}/prometheus",
                               f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"])


def shown(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    for size, name in {"s": [(1, "s"), (1e-3, "ms"), (1e-6, "µs")], "bytes": [(1 << 30, "GiB"), (1 << 20, "MiB"), (1, "B")]}.get(unit, []):
        if value >= size or name in ("µs", "B"):
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


def series(panel, begin, end):
    for t in panel["targets"]:
        expr = t["expr"].replace("$__rate_interval", "10s").replace("$gpu", ".*")
        args = urllib.parse.urlencode({"query": expr, "start": begin, "end": end, "step": 1})
        for r in json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query_range?{args}"))["data"]["result"]:
            name = re.sub(r"{{(\w+)}}", lambda m: r["metric"].get(m[1], ""), t["legendFormat"]).strip()
            points = [(float(at), float(v)) for at, v in r["values"] if v not in ("NaN", "+Inf")]
            if points:
                yield name, points


def text(x, y, words, size=11, anchor="start", colour="#333"):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'


def draw(panel, begin, end):
    g, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    x, y, w, h = g["x"] * CELL + MARGIN, g["y"] * ROW + MARGIN, g["w"] * CELL - MARGIN, g["h"] * ROW - MARGIN
    out = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="#fff" stroke="#ccc"/>', text(x + 8, y + 18, panel["title"], 13)]
    found = list(series(panel, begin, end))
    if panel["type"] == "stat":
        return out + [text(x + w / 2, y + h / 2 + 20 * (i + 1), f"{shown(p[-1][1], unit)}   {n}", 18, "middle", "#37872d")
                      for i, (n, p) in enumerate(found)]
    if panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal":
        below = {}
        for i, (name, points) in enumerate(found):
            found[i] = name, [(at, below.setdefault(at, 0) + v) for at, v in points]
            below.update(found[i][1])
    left, top, right, bottom = x + 64, y + 30, x + w - 12, y + h - 34
    most = max([v for _, p in found for _, v in p] + [panel["fieldConfig"]["defaults"].get("max", 0)]) or 1
    for part in 0, 0.5, 1:
        at = bottom - (bottom - top) * part
        out += [f'<path d="M{left} {at:.0f}H{right}" stroke="#eee"/>', text(left - 4, at + 4, shown(most * part, unit), 10, "end")]
    legend = left
    for i, (name, points) in enumerate(found):
        d = " ".join(f"{left + (right - left) * (at - begin) / (end - begin):.1f},{bottom - (bottom - top) * min(v / most, 1):.1f}" for at, v in points)
        colour = colours[i % len(colours)]
        out += [f'<polyline points="{d}" fill="none" stroke="{colour}" stroke-width="1.3"/>']
        if legend + 7 * len(name) < right:
            out += [f'<path d="M{legend:.0f} {bottom + 20}h12" stroke="{colour}" stroke-width="3"/>', text(legend + 16, bottom + 24, name, 10)]
        legend += 34 + 6.2 * len(name)
    return out


try:
    time.sleep(int(seconds))  # the time that the picture shows
    end = time.time()
    drawn = [line for p in panels for line in draw(p, end - int(seconds) + 15, end)]
    width, height = 24 * CELL + MARGIN, max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) * ROW + MARGIN
    assert sum("<polyline" in line for line in drawn) > 10, "the panels are empty"
    with open(svg, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
                f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>\n' + "\n".join(drawn) + "\n</svg>\n")
finally:
    prometheus.kill()
    prometheus.wait()
