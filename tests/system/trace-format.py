# SPDX-License-Identifier: MIT
"""trace-format.py FILE: checks a trace against the Trace Event Format, and against what Perfetto's importer of it does beyond
that: a process or thread of number 0 is the idle one; a thread's name is looked up by its number alone; a thread whose number
is its process's is the main one; of slices of a thread that overlap, one is dropped; with some versions, displayTimeUnit changes
the unit. Prints how many slices, counters and instants it has, or what is wrong."""
import json, math, sys


def wrong(what, event=None):
    sys.exit(f"{sys.argv[1]}: {what}{': ' + json.dumps(event) if event is not None else ''}")


def once(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        wrong("a key occurs twice", dict(pairs))
    return dict(pairs)


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)


trace = json.load(open(sys.argv[1]), object_pairs_hook=once, parse_constant=lambda c: wrong(f"{c} is no number of JSON"))
if list(trace) != ["traceEvents"]:
    wrong(f"want traceEvents alone, got {list(trace)}")
FIELDS = {"M": {"ph", "pid", "name", "args"}, "X": {"ph", "pid", "tid", "name", "ts", "dur"},
          "C": {"ph", "pid", "name", "ts", "args"}, "i": {"ph", "pid", "tid", "name", "ts", "s"}}
processes, threads, slices, counters, instants = {}, {}, {}, {}, 0
for e in trace["traceEvents"]:
    fields = FIELDS.get(e.get("ph"))
    if fields is None:
        wrong("a phase that a viewer of slices and counters does not show", e)
    if e["ph"] == "M" and e.get("name") == "thread_name":
        fields = fields | {"tid"}
    if set(e) != fields:
        wrong(f"want the fields {sorted(fields)}", e)
    for key in {"pid", "tid"} & fields:
        if type(e[key]) is not int or not 0 < e[key] < 1 << 31:
            wrong(f"{key} is no number above 0", e)
    if not isinstance(e["name"], str) or not e["name"]:
        wrong("no name", e)
    for key in {"ts", "dur"} & fields:
        if not is_number(e[key]) or e[key] < 0:
            wrong(f"{key} is no time", e)
    if e["ph"] == "M":
        of, key = {"process_name": (processes, "pid"), "thread_name": (threads, "tid")}.get(e["name"], (None, None))
        if of is None or list(e["args"]) != ["name"] or not isinstance(e["args"]["name"], str):
            wrong("metadata that is no name of a process or thread", e)
        if e[key] in of:
            wrong(f"a second name for {key} {e[key]}", e)
        of[e[key]] = (e["pid"], e["args"]["name"])
        continue
    if e["pid"] not in processes:
        wrong("its process has no name yet", e)
    if "tid" in fields and threads.get(e["tid"], (None,))[0] != e["pid"]:
        wrong("its thread has no name, or is another process's", e)
    if e["ph"] == "X":
        slices.setdefault(e["tid"], []).append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e))
    elif e["ph"] == "C":
        if not e["args"] or not all(is_number(v) for v in e["args"].values()):
            wrong("a counter without numbers", e)
        before = counters.setdefault((e["pid"], e["name"]), [])
        if before and (before[-1]["ts"] >= e["ts"] or list(before[-1]["args"]) != list(e["args"])):
            wrong("a counter that goes back, or whose series change", e)
        before.append(e)
    else:
        instants += 1
        if e["s"] != "t":
            wrong("an instant that is not of its thread", e)
for number in threads:
    if number in processes:
        wrong(f"thread {number} is the main one of a process")
for of in slices.values():
    open_until = []
    for begin, end, e in sorted(of, key=lambda s: (s[0], -s[1])):
        if end <= begin:
            wrong("a slice without a length", e)
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        if open_until and open_until[-1] < end:
            wrong("a slice that ends after the one in which it begins", e)
        open_until.append(end)
print(f"{len(processes)} processes, {len(threads)} threads, {sum(map(len, slices.values()))} slices, {len(counters)} counters, {instants} instants")
