# SPDX-License-Identifier: MIT
"""What the parts of servers.py share: the fleet's two hosts, its flavors, what is measured, and what must hold after each step.
On each host two servers vgpud.large and one vgpud.rest take all shares, and leave a VF and memory free."""
import pathlib, subprocess, time
from fleet import *

begun = time.monotonic()
NO_HOST = "No valid host was found"
figures = {}
hosts, empty = [], []


def say(text):
    print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)


def prepare():
    """Waits for the hosts, and makes the flavors of their inventory."""
    hosts.extend([Host(1), Host(2)])
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
    empty.extend(h.left() for h in hosts)
    say(f"the fleet is up; each host offers {totals}")


def agree(stopped=(), moving=(), on=hosts):
    """What placement has booked is what vgpud has given, to the unit, on these hosts; servers that are stopped keep their booking, and
    migrations, which are no servers, have that of the host that is left. vgpud-openstack audit says the same. Bookings of servers that are
    deleted or moved end some seconds after Nova says that they are."""
    idle = {**{u: "stopped" for u in stopped}, **{u: "orphan" for u in moving}}
    for h in on:
        def same():
            booked, given = h.booked(), h.given()
            return {u: b for u, b in booked.items() if u not in idle} == given and set(booked) - set(given) <= set(idle)
        until(120, lambda: f"{h.name}: placement has booked {h.booked()}, vgpud has given {h.given()}", same)
        status, found = h.audit()
        right = {u: idle.get(u, "agrees") for u in h.booked()}
        want(found == right and status == ("orphan" in right.values()), f"{h.name}: vgpud-openstack audit: {status} {found}")


def keep(host, server, name):
    """Writes the domain as Nova wrote it to the logs: unit-nova reads what was kept in tests/unit/domain/nova."""
    pathlib.Path(f"/logs/{name}.xml").write_text(host.must("virsh", "-q", "dumpxml", server))


def clear():
    """Deletes all servers. Nothing of them is left."""
    for s in servers():
        nova("DELETE", f"/servers/{s}")
    until(120, "the servers to be deleted", lambda: not servers())
    for h, before in zip(hosts, empty):
        until(120, lambda: f"{h.name} to have what it had before:\n{h.left()}\n{before}", lambda: h.left() == before)


def no_host(ids, seconds=180):
    """The scheduler has refused these servers, and no hook was asked."""
    for s in settled(ids, seconds).values():
        want(s["status"] == "ERROR" and NO_HOST in fault(s) and not host_of(s), f"want '{NO_HOST}': {s['status']} on {host_of(s)}: {fault(s)}")


def computes(h, server, more=8):
    """The tenant in this server does more jobs on its VF, all right."""
    before = h.jobs(server)
    until(120, f"a server on {h.name} to compute", lambda: h.jobs(server) >= before + more)
