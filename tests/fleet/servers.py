#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""servers.py [PART...]: what servers of the fleet do, and what must hold. Each part begins and ends with hosts that have none.
On each host two servers vgpud.large and one vgpud.rest take all shares, and leave a VF and memory free."""
import collections, concurrent.futures, json, os, pathlib, subprocess, sys, time, traceback
from fleet import *

begun = time.monotonic()
NO_HOST = "No valid host was found"
figures = {}


def say(text):
    print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)


def prepare():
    """Waits for the hosts, and makes the flavors of their inventory."""
    global hosts, empty
    hosts = [Host(1), Host(2)]
    until(240, "nova-compute of both hosts", lambda: all(h.is_up() for h in hosts))
    until(120, "vgpud's inventory of both hosts in placement", lambda: all(h.has_provider() and len(h.totals()) == 3 for h in hosts))
    subprocess.run(["nova-manage", "cell_v2", "discover_hosts"], check=True, capture_output=True)
    totals = hosts[0].totals()
    want(totals == hosts[1].totals(), f"the hosts offer {totals} and {hosts[1].totals()}")
    least = hosts[0].ctl("inventory", "--format", "json")["gpus"][0]["shares"]["least"]
    make_flavor("plain", {})
    make_flavor("vgpud.large", resources(300, 48))
    make_flavor("vgpud.rest", resources(totals["SHARE"] - 600, 48))
    make_flavor("vgpud.least", resources(least, 16))
    empty = [h.left() for h in hosts]
    say(f"the fleet is up; each host offers {totals}")


def agree(stopped=()):
    """What placement has booked is what vgpud has given, to the unit, on each host; servers that are stopped keep their booking. vgpuctl
    audit says the same. Bookings of servers that are deleted or moved end some seconds after Nova says that they are."""
    for h in hosts:
        def same():
            booked, given = h.booked(), h.given()
            return {u: b for u, b in booked.items() if u not in stopped} == given and set(booked) - set(given) <= set(stopped)
        until(60, lambda: f"{h.name}: placement has booked {h.booked()}, vgpud has given {h.given()}", same)
        status, found = h.audit()
        want(status == 0 and found == {u: "stopped" if u in stopped else "agrees" for u in h.booked()}, f"{h.name}: vgpuctl audit: {status} {found}")


def clear():
    """Deletes all servers. Nothing of them is left."""
    for s in servers():
        nova("DELETE", f"/servers/{s}")
    until(120, "the servers to be deleted", lambda: not servers())
    for h, before in zip(hosts, empty):
        until(60, lambda: f"{h.name} to have what it had before:\n{h.left()}\n{before}", lambda: h.left() == before)


def no_host(ids, seconds=180):
    """The scheduler has refused these servers, and no hook was asked."""
    for s in settled(ids, seconds).values():
        want(s["status"] == "ERROR" and NO_HOST in fault(s) and not host_of(s), f"want '{NO_HOST}': {s['status']} on {host_of(s)}: {fault(s)}")


def fill():
    """Servers fill both hosts exactly, and the scheduler refuses the next one."""
    active([boot("vgpud.large") for _ in range(4)])
    active([boot("vgpud.rest") for _ in hosts])
    for h in hosts:
        used, totals = h.usages(), h.totals()
        want(used["SHARE"] == totals["SHARE"] and all(used[c] < totals[c] for c in ("VF", "MEMORY_MB")),
             f"{h.name} is to have only its shares used up: {used} of {totals}")
    calls = [h.hook_calls() for h in hosts]
    no_host([boot("vgpud.least"), boot("vgpud.large")])
    want(calls == [h.hook_calls() for h in hosts], "a hook was called for a server that the scheduler refused")
    agree()
    figures["memory_mib"] = memory_mib()


def memory_mib():
    """What all processes here use, shared pages counted once, and the files that they have written, which are in memory."""
    pss = 0
    for p in pathlib.Path("/proc").glob("[0-9]*/smaps_rollup"):
        try:
            pss += sum(int(line.split()[1]) for line in p.read_text().splitlines() if line.startswith("Pss:"))
        except OSError:
            pass  # It has ended.
    files = [os.statvfs(d) for d in ("/", "/run", "/tmp")]
    return pss // 1024 + sum((f.f_blocks - f.f_bfree) * f.f_frsize for f in files) // (1 << 20)


def compute():
    """Servers of both hosts compute on the VFs that Nova has booked, and go on after a hard reboot."""
    at = {boot("vgpud.large", image=TENANT, host=h.name): h for h in hosts}
    active(at)
    for again in range(2):
        for server, h in at.items():
            until(120, f"a server on {h.name} to compute", lambda: h.jobs(server) >= 8)
        if not again:
            for server in at:
                act(server, reboot={"type": "HARD"})
            active(at)
    agree()


def race():
    """Of ten servers that are asked for at the same time, those that fit start."""
    refused = [h.refusals() for h in hosts]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        ids = list(pool.map(boot, 10 * ["vgpud.large"]))
    found = settled(ids)
    count = collections.Counter(s["status"] for s in found.values())
    want(count == {"ACTIVE": 4, "ERROR": 6}, f"want 4 active servers and 6 refused: {count} {[fault(s) for s in found.values()]}")
    no_host(i for i, s in found.items() if s["status"] == "ERROR")
    want(refused == [h.refusals() for h in hosts], f"hooks have refused: {[h.refusals() for h in hosts]}")
    agree()


def life():
    """A server is rebooted, stopped and started."""
    one = hosts[0]
    server = boot("vgpud.large", host=one.name)
    active([server])
    prepares = len([c for c in one.hook_calls() if c[1] == "prepare"])
    act(server, reboot={"type": "HARD"})
    active([server])
    want(len([c for c in one.hook_calls() if c[1] == "prepare"]) > prepares, "the hook was not asked at a hard reboot")
    agree()
    act(server, **{"os-stop": None})
    want(settled([server])[server]["status"] == "SHUTOFF", "the server does not stop")
    agree(stopped=[server])
    act(server, **{"os-start": None})
    active([server])
    agree()


PARTS = {"fill": fill, "compute": compute, "race": race, "life": life}


def main():
    parts = sys.argv[1:] or list(PARTS)
    prepare()
    figures["ready_s"] = round(time.monotonic() - begun, 1)
    for part in parts:
        start = time.monotonic()
        PARTS[part]()
        say(f"{part}: {time.monotonic() - start:.0f} s")
        clear()
    pathlib.Path("/logs/figures.json").write_text(json.dumps(figures, indent=1) + "\n")


try:
    main()
except Exception as failure:
    say(f"FAILED: {failure}" if isinstance(failure, Failed) else "FAILED: " + traceback.format_exc())
    for log in sorted(pathlib.Path("/logs").glob("n*.log")):
        if lines := tail(log, 3, r" ERROR nova\.(compute|virt|conductor|scheduler)|FAILED"):
            print(f"--- {log}\n{lines}")
    sys.exit(1)
