# SPDX-License-Identifier: MIT
"""How servers start, fill the hosts, and go through their life, while nothing fails."""
import collections, concurrent.futures, os, pathlib
from checks import *


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
            computes(h, server)
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


def resize():
    """A server gets another flavor: on its host and on the other one, confirmed and reverted. Until then both flavors are booked, and
    only what runs has a VF."""
    one, other = hosts
    server = boot("vgpud.large", image=TENANT, host=one.name)
    active([server])
    for flavor, closed, to, answer, ends in (("vgpud.rest", other, one, "confirmResize", one), ("vgpud.large", one, other, "revertResize", one),
                                             ("vgpud.large", one, other, "confirmResize", other)):
        closed.set_service(status="disabled")
        act(server, resize={"flavorRef": flavor})
        found = settled([server])[server]
        want(found["status"] == "VERIFY_RESIZE" and host_of(found) == to.name, f"resized to {flavor}: {found['status']} on {host_of(found)}: {fault(found)}")
        agree(moving={u for h in hosts for u in h.booked()} - {server})
        want(len(one.booked()) + len(other.booked()) == 2, "a server that is resized has not booked both flavors")
        act(server, **{answer: None})
        found = settled([server], states=DONE)[server]
        want(found["status"] == "ACTIVE" and host_of(found) == ends.name, f"after {answer}: {found['status']} on {host_of(found)}: {fault(found)}")
        closed.set_service(status="enabled")
        agree()
        computes(ends, server)


def specs():
    """What a flavor's extra specs say is what its VFs are given (Nova 32 and later), and what vgpud cannot give is refused by name."""
    one = hosts[0]
    keys = {"vgpud:pool": "render", "vgpud:share_max": "50.5", "vgpud:on_hang": "pause"}
    make_flavor("two", {**resources(100, 32, "_A"), **resources(150, 48, "_B"), **keys, "group_policy": "none"})
    make_flavor("typo", {**resources(100, 16), "vgpud:colour": "red"})
    make_flavor("elsewhere", {**resources(100, 16), **keys, "vgpud:pool": "elsewhere"})
    server = boot("two", image=TENANT, host=one.name)
    active([server])
    agree()
    has = sorted((vf["params"]["min_ppm"], vf["params"]["max_ppm"], vf["memory_bytes"] >> 20, vf["on_hang"]) for _, _, vf in one.vfs(server))
    want(has == [(100000, 505000, 32, "pause"), (150000, 505000, 48, "pause")], f"the VFs of two groups have {has}")
    computes(one, server)
    keep(one, server, "specs")
    for flavor, why in (("typo", "vgpud:colour is not known"), ("elsewhere", "pool elsewhere")):
        found = settled([boot(flavor, host=one.name)])
        want(all(s["status"] == "ERROR" for s in found.values()), f"{flavor}: {[s['status'] for s in found.values()]}")
        want(tail(f"/logs/{one.name}-compute.log", 1, why), f"{one.name} does not say '{why}'")
    agree()
