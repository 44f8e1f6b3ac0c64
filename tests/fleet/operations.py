# SPDX-License-Identifier: MIT
"""Servers that come, go and change, at random and eight at a time. A seed determines what each of them is asked to do.
    VGPU_OPERATIONS    how many operations; default 1000
    VGPU_OPERATIONS_S  after so many seconds none is begun; default 1800
    VGPU_SEED          default: today's date"""
import collections, concurrent.futures, os, random, threading
from checks import *

TENANTS, EACH = 8, 12  # after so many operations of each tenant, bookings and leases are compared
FLAVORS = ("vgpud.large", "vgpud.rest", "vgpud.least")
# What is done next with a server in this state, and how often.
NEXT = {None: {"boot": 1}, "ACTIVE": {"delete": 3, "reboot": 3, "stop": 2, "resize": 2}, "SHUTOFF": {"start": 3, "delete": 1}, "ERROR": {"delete": 1}}
BAR = 0.005  # of all starts that the scheduler has sent to a host, how many the host may refuse


class Watch:
    """Nova's list of servers, asked for once for all tenants that wait."""
    def __init__(self):
        self.lock, self.at, self.servers = threading.Lock(), 0.0, {}

    def look(self, since):
        """The list as it was after SINCE, and half a second ago at most."""
        with self.lock:
            if self.at < max(since, time.monotonic() - 0.5):
                self.at = time.monotonic()
                self.servers = servers()
            return self.servers


class Tenant:
    """Somebody who has one server or none, and does one thing after the other."""
    def __init__(self, watch, seed):
        self.watch, self.random, self.count = watch, random.Random(seed), collections.Counter()
        self.server = self.state = self.flavor = None

    def wait(self, what, states=SETTLED):
        """Waits until nothing is under way with the server, or it is gone."""
        since = time.monotonic()

        def look():
            s = self.watch.look(since).get(self.server)
            return [s] if s is None or s["status"] in states and not s["OS-EXT-STS:task_state"] else None
        s, = until(240, lambda: f"{what} of server {self.server}, which is {self.watch.servers.get(self.server)}", look)
        self.state, self.flavor = (s["status"], s["flavor"]["original_name"]) if s else (None, None)

    def boot(self):
        self.server = boot(self.random.choice(FLAVORS))
        self.wait("boot")

    def delete(self):
        nova("DELETE", f"/servers/{self.server}")
        self.wait("delete", states=())

    def reboot(self):
        act(self.server, reboot={"type": "HARD"})
        self.wait("reboot")

    def stop(self):
        act(self.server, **{"os-stop": None})
        self.wait("stop")

    def start(self):
        act(self.server, **{"os-start": None})
        self.wait("start")

    def resize(self):
        flavor = self.random.choice([f for f in FLAVORS if f != self.flavor])
        answer = self.random.choice(("confirmResize", "revertResize"))
        act(self.server, resize={"flavorRef": flavor})
        self.wait("resize")
        if self.state == "VERIFY_RESIZE":
            act(self.server, **{answer: None})
            self.wait(answer, states=DONE)
            self.count[answer] += 1

    def operate(self, end):
        """Does some operations. Only the scheduler may refuse a server, as it may refuse a resize."""
        for _ in range(EACH):
            if time.monotonic() > end:
                return
            before, ways = self.state, NEXT[self.state]
            what, = self.random.choices(list(ways), list(ways.values()))
            getattr(self, what)()
            self.count[what] += 1
            if self.state == "ERROR":
                why = until(30, f"the reason why {what} has failed", lambda: fault(nova("GET", f"/servers/{self.server}")["server"]))
                want(what == "boot" and NO_HOST in why, f"{what}: {before} server {self.server} has failed: {why}")
                self.count["no host"] += 1


def starts():
    """How many starts the hosts' hooks have been asked for, and how many they have refused."""
    return sum(c[1] == "prepare" for h in hosts for c in h.hook_calls()), sum(len(h.refusals()) for h in hosts)


def operations():
    """At random, servers are booted, deleted, rebooted, stopped, started and resized."""
    number, seconds, seed = int(os.environ["VGPU_OPERATIONS"]), int(os.environ["VGPU_OPERATIONS_S"]), os.environ["VGPU_SEED"]
    say(f"operations: {number} of seed {seed}, in {seconds} s")
    begin, before, watch, compared, done = time.monotonic(), starts(), Watch(), 0, 0
    tenants = [Tenant(watch, f"{seed}-{i}") for i in range(TENANTS)]
    with concurrent.futures.ThreadPoolExecutor(TENANTS) as pool:
        while done < number and time.monotonic() < begin + seconds:
            list(pool.map(lambda t: t.operate(begin + seconds), tenants))
            agree(stopped={t.server for t in tenants if t.state == "SHUTOFF"})
            compared += 1
            count = sum((t.count for t in tenants), collections.Counter())
            done = sum(count[what] for what in {what for ways in NEXT.values() for what in ways})
    asked, refused = (now - then for now, then in zip(starts(), before))
    figures["operations"] = {"seed": seed, "operations": done, "seconds": round(time.monotonic() - begin), "compared": compared,
                             **dict(sorted(count.items())), "starts": asked, "refused_by_host": refused}
    say(f"operations: {figures['operations']}")
    want(done >= number and asked > 0, f"{done} of {number} operations were done in {seconds} s, and hosts were asked for {asked} starts")
    want(refused <= BAR * asked, f"hosts have refused {refused} of {asked} starts that the scheduler had sent them")
