#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""containers-random.py RUN SEED STEPS | RUN SEED --plan N,N,...: random operations on containers of podman, of root and of a user, and a
look after each one, which shares nothing with vgpud: what lives and which lease it has mounted is read from /proc, what vgpud holds
from its pidfds, and both must be what it lists. Asks containers-random.sh by lines on stdout, which answers with vgpud's pid.

An operation is a number, from which its kind and all it chooses follow, and what cannot be done at the time is left out, and not counted.
So any part of a plan is a plan."""
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

RUN, SEED = sys.argv[1], int(sys.argv[2])
VFS, MOST, HOLD = 3, 6, 1  # HOLD: hold_s
RUNS = {"root": [], "tenant": os.environ["TENANT"].split()}
OWNERS = {"root": 0, "tenant": 7777}
PLAIN = os.environ["PLAIN"].split()
SECONDS = 20  # for what takes a tenth of a second on an idle machine
SHRINKING = 900


class Wrong(Exception):
    pass


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def wait_for(what, condition):
    end = time.monotonic() + SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Wrong(f"{what}, after {SECONDS} s")
        time.sleep(0.01)


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


# What is there.

class First:
    """The first process of a container: whose it is, which container's, and the lease that is mounted in it."""

    def __init__(self, pid, mark, owner, lease):
        self.pid, self.mark, self.owner, self.lease = pid, mark, owner, lease


def look_at(pid):
    status = read(f"/proc/{pid}/status")
    numbers = re.search(r"^NSpid:((?:\t\d+)+)$", status, re.M)
    if not numbers or len(numbers[1].split()) < 2 or numbers[1].split()[-1] != "1" or re.search(r"^State:\t[ZX]", status, re.M):
        return None
    mark = re.search(rf"(?:^|\0)VGPU_MARK={RUN}/(\d+)(?:\0|$)", read(f"/proc/{pid}/environ"))
    lease = None
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        words = line.split(" ")
        if words[4] == "/run/vgpud/gpu":
            of = re.search(r"/([0-9a-f-]{36})/gpu", words[3])
            lease = of[1] if of and words[3].startswith(RUN) else None
    outside = read(f"/proc/{pid}/uid_map").split()
    if not outside or not (mark or lease):
        return None
    return First(pid, int(mark[1]) if mark else None, int(outside[1]), lease)


def living():
    return [f for f in map(look_at, processes()) if f]


def held_by_vgpud(vgpud):
    held = set()
    for path in glob.glob(f"/proc/{vgpud}/fdinfo/*"):
        pid = re.search(r"^Pid:\t(-?\d+)$", read(path), re.M)
        if pid and int(pid[1]) > 0:
            held.add(int(pid[1]))
    return held


def vgpuctl(who, *words):
    return subprocess.run(RUNS[who] + ["env", f"PATH={RUN}/bin:" + os.environ["PATH"], f"{RUN}/programs/vgpuctl", "--socket",
                                       f"{RUN}/control.sock", *words], capture_output=True, text=True, timeout=60)


def listed():
    """What vgpud says. One that has no CPU for seconds is asked again."""
    said = []

    def answers():
        said[:] = [vgpuctl("root", "-o", "json", "tenant", "list")]
        return said[0].returncode == 0
    try:
        wait_for("vgpuctl tenant list", answers)
    except Wrong as e:
        raise Wrong(f"{e}: {said[0].stderr}") from None
    return json.loads(said[0].stdout)["tenants"]


class Container:
    def __init__(self, who, name, mark, slot, leased):
        self.who, self.name, self.mark, self.slot, self.leased = who, name, mark, slot, leased
        self.brought = False  # its lease was asked for before it was started


class World:
    def __init__(self):
        self.there, self.marks, self.vgpud = [], 0, self.ask("AFRESH")
        self.done, self.seen, self.engines_own = {}, [0] * (VFS + 1), 0

    def failed(self, c, said, may=False):
        """An engine's start has failed. If our hook made it fail, it must have had a reason (MAY); what else makes podman fail is podman's,
        and nothing of it may be left."""
        if "vgpud-oci-hook" not in said:
            self.engines_own += 1
        elif not may:
            raise Wrong(f"the hook refuses {c.who}'s container with {c.slot}: {said}")
        self.settle(exact=False)
        self.forget(c)

    def ask(self, what):
        print(what, flush=True)
        return int(sys.stdin.readline())

    def podman(self, who, *words, begin=False):
        words = RUNS[who] + [f"{RUN}/bin/podman", *words]
        if begin:
            return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    def words_of(self, c):
        device = ["--device", f"vgpud.dev/gpu={c.slot}"] if c.slot else []
        return ["run", "-d", "--name", c.name, *PLAIN, "-e", f"VGPU_MARK={RUN}/{c.mark}", *device, "--rootfs", f"{RUN}/{c.who}.fs",
                "sleep", "100000"]

    def new(self, r):
        self.marks += 1
        slot = r.choices(["gpu0", "later", None], [6, 3, 1])[0]
        return Container(r.choice(["root", "tenant"]), f"c{self.marks}", self.marks, slot, slot == "gpu0")

    def first(self, c):
        return next((f for f in living() if f.mark == c.mark), None)

    def free(self):
        return VFS - sum(1 for f in living() if f.lease)

    def forget(self, c):
        """Makes sure that nothing is left of a container whose start or monitor was killed: podman may not know it any more, or think
        that it runs. Its first process ends; podman's own rests are podman's."""
        if c in self.there:
            self.there.remove(c)
        for _ in range(2):
            self.podman(c.who, "rm", "-f", "-t", "0", c.name)
        known = {d.mark for d in self.there}
        for f in living():
            if f.mark == c.mark or (f.mark not in known and f.owner == OWNERS[c.who]):
                os.kill(f.pid, signal.SIGKILL)

    def settle(self, exact=True):
        """Waits until the leases are what lives. EXACT: and that is what was done."""
        seen = {}

        def same():
            there, tenants = living(), listed()
            mounted = sorted((f.pid, f.owner, f.lease) for f in there if f.lease)
            leases = sorted((t["process"], t["owner"], t["lease"]) for t in tenants if t["state"] == "running")
            held = sorted(held_by_vgpud(self.vgpud))
            directories = sorted(d for d in os.listdir(RUN) if re.fullmatch("[0-9a-f-]{36}", d))
            vfs = [t["vf"] for t in tenants]
            marks = sorted((f.mark or 0, f.lease is not None) for f in there)
            want = sorted((c.mark, c.leased) for c in self.there)
            seen.update(mounted=mounted, leases=leases, held=held, directories=directories, vfs=vfs, containers=marks, want=want)
            return (mounted == leases and held == sorted({pid for pid, _, _ in mounted}) and len(set(vfs)) == len(vfs) and
                    directories == sorted(lease for _, _, lease in leases) and (not exact or marks == want))

        try:
            wait_for("leases and containers differ", same)
        except Wrong as e:
            raise Wrong(f"{e}: {json.dumps(seen)}") from None


# Operations.

def start(w, r):
    if len(w.there) >= MOST:
        return False
    c, free = w.new(r), w.free()
    said = w.podman(c.who, *w.words_of(c))
    if said.returncode == 0:
        w.there.append(c)
    else:
        w.failed(c, said.stderr, may=c.leased and free <= 0)
    return True


def ask_first(w, r):
    """The lease is asked for, then the engine is started."""
    if len(w.there) >= MOST:
        return False
    c, free = w.new(r), w.free()
    c.slot, c.leased, c.brought = "gpu0", True, True
    said = vgpuctl(c.who, "run", "--gpu", "gpu0", f"weight={r.randint(1, 400)}", "--", "podman", *w.words_of(c))
    if said.returncode == 0:
        w.there.append(c)
    elif free > 0 and "vgpuctl: " in said.stderr:
        raise Wrong(f"vgpuctl run for {c.who}: {said.stderr}")
    else:
        w.failed(c, said.stderr)
    return True


def several(w, r):
    """Starts at the same time: as many as there are VFs get one."""
    batch, free = [w.new(r) for _ in range(r.randint(2, 4))], w.free()
    running = [(c, w.podman(c.who, *w.words_of(c), begin=True)) for c in batch]
    said = [p.communicate(timeout=120)[1] for _, p in running]
    failed = [(c, said[i]) for i, (c, p) in enumerate(running) if p.returncode]
    w.there += [c for c, p in running if p.returncode == 0]
    want = sum(1 for c in batch if c.leased)
    refused = sum(1 for _, text in failed if "vgpud-oci-hook" in text)
    if refused > max(0, want - free) or len(failed) < want - free:
        raise Wrong(f"of {want} starts {refused} are refused, with {free} free VFs: {[text for _, text in failed]}")
    for c, text in failed:
        w.failed(c, text, may=c.leased)
    return True


def pick(w, r, which=lambda c: True):
    found = [c for c in w.there if which(c)]
    return r.choice(found) if found else None


def stop(w, r):
    c = pick(w, r)
    if not c:
        return False
    said = w.podman(c.who, "rm", "-f", "-t", "0", c.name)
    if said.returncode:
        raise Wrong(f"podman rm: {said.stderr}")
    w.there.remove(c)
    return True


def restart(w, r):
    # What was taken from a container comes back with it, if there is one.
    c = pick(w, r, lambda c: c.slot != "gpu0" or c.leased or w.free() > 0)
    if not c:
        return False
    lease = {t["lease"]: t["vf"] for t in listed()}
    ended = c.brought and not c.leased  # what it has brought was taken from it, and is nobody's any more
    before = lease.get(w.first(c).lease)
    began = time.monotonic()
    said = w.podman(c.who, "restart", "-t", "0", c.name)
    if said.returncode:
        # What it has brought is nobody's after the hold.
        w.failed(c, said.stderr, may=ended or (c.brought and time.monotonic() - began >= HOLD))
        return True
    if ended:
        raise Wrong("a container starts again whose lease has ended")
    after = wait_for("a container that was restarted does not run", lambda: w.first(c))
    c.leased = after.lease is not None
    if c.slot == "gpu0" and not c.leased:
        raise Wrong("a container has no lease after a restart")
    now = next((t["vf"] for t in listed() if t["lease"] == after.lease), None)
    # A machine on which it took longer than the hold shows nothing of holds.
    if before is not None and c.leased and now != before and time.monotonic() - began < HOLD:
        raise Wrong(f"after a restart a container has VF {now} instead of {before}")
    return True


def kill_first(w, r):
    c = pick(w, r)
    if not c:
        return False
    pid = w.first(c).pid
    os.kill(pid, signal.SIGKILL)
    wait_for("a container was killed, and is there", lambda: not w.first(c))
    w.there.remove(c)
    w.settle()
    w.forget(c)
    return True


def of_this_test(program, also=""):
    found = []
    for pid in processes():
        words = read(f"/proc/{pid}/cmdline")
        if read(f"/proc/{pid}/comm").strip() == program and RUN in words and also in words:
            found.append(pid)
    return found


def kill_conmon(w, r):
    c = pick(w, r)
    if not c:
        return False
    for pid in of_this_test("conmon", f"\0{c.name}\0"):
        os.kill(pid, signal.SIGKILL)
    w.settle(exact=False)
    w.forget(c)
    return True


def cut(w, r):
    """A start or a restart of which one process is killed at some instant: podman's, the monitor, the runtime or the hook."""
    victim, later = r.choice(["podman", "conmon", "crun", "vgpud-oci-hook"]), r.uniform(0, 0.03)
    c = pick(w, r) if r.random() < 0.4 else None
    if not c and len(w.there) >= MOST:
        return False
    if c:
        p = w.podman(c.who, "restart", "-t", "0", c.name, begin=True)
    else:
        c = w.new(r)
        p = w.podman(c.who, *w.words_of(c), begin=True)
    while p.poll() is None:
        found = of_this_test(victim, "" if victim == "vgpud-oci-hook" else c.name)
        if found:
            time.sleep(later)  # a random instant, which follows from the plan
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            break
    p.communicate(timeout=60)
    w.settle(exact=False)
    w.forget(c)
    return True


def kill_vgpud(w, r):
    w.vgpud = w.ask("VGPUD")
    return True


def kill_softgpu(w, r):
    w.vgpud = w.ask("SOFTGPU")
    return True


def attach(w, r):
    c = pick(w, r, lambda c: c.slot == "later" and not c.leased)
    if not c:
        return False
    free = w.free()
    said = vgpuctl(c.who, "container", "attach", c.name, "--gpu", "gpu0", f"weight={r.randint(1, 400)}")
    if said.returncode and free > 0:
        raise Wrong(f"attach for {c.who}: {said.stderr}")
    if said.returncode == 0 and free <= 0:
        raise Wrong("attach although no VF is free")
    c.leased = said.returncode == 0
    return True


def detach(w, r):
    c = pick(w, r, lambda c: c.leased)
    if not c:
        return False
    said = vgpuctl(c.who, "container", "detach", w.first(c).lease)
    if said.returncode:
        raise Wrong(f"detach for {c.who}: {said.stderr}")
    c.leased = False
    return True


def change(w, r):
    c = pick(w, r, lambda c: c.leased)
    if not c:
        return False
    weight, lease = r.randint(1, 400), w.first(c).lease
    said = vgpuctl(c.who, "container", "set", lease, f"weight={weight}")
    if said.returncode:
        raise Wrong(f"set for {c.who}: {said.stderr}")
    vf = next(t["vf"] for t in listed() if t["lease"] == lease)

    def has_it():
        shown = json.loads(vgpuctl("root", "-o", "json", "vf", "show", str(vf)).stdout)
        return weight in (shown.get("weight"), shown.get("params", {}).get("weight"))
    wait_for(f"weight {weight} was set and is not there", has_it)
    return True


OPERATIONS = {start: 36, ask_first: 8, several: 6, stop: 10, restart: 12, kill_first: 8, kill_conmon: 5, cut: 12, kill_vgpud: 6, kill_softgpu: 2,
              attach: 10, detach: 6, change: 6}


def carry_out(plan, steps=None):
    """Carries a plan out; STEPS of it, and then shows what was done."""
    w, began, done = World(), time.monotonic(), 0
    for i, number in enumerate(plan):
        if done == steps:
            break
        r = random.Random(number)
        operation = r.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        name = operation.__name__
        try:
            if operation(w, r):
                done += 1
                w.done[name] = w.done.get(name, 0) + 1
                w.settle()
                if steps and done % 100 == 0:
                    print(f"{done} of {steps}, after {time.monotonic() - began:.0f} s", flush=True)
                w.seen[len([c for c in w.there if c.leased])] += 1
        except Wrong as e:
            raise Wrong(f"step {i} of {len(plan)}, {name} ({number}): {e}") from None
    for c in list(w.there):
        stop_all = w.podman(c.who, "rm", "-f", "-t", "0", c.name)
        if stop_all.returncode:
            raise Wrong(f"podman rm at the end: {stop_all.stderr}")
    w.there = []
    w.settle()
    # What was held is over.
    wait_for("a lease is held for ever", lambda: not listed())
    if steps:
        print(", ".join(f"{n} {k}" for k, n in sorted(w.done.items())) + f"; {w.engines_own} failed for podman's own reasons; "
              f"with 0, 1, 2 and 3 leases: {w.seen}", flush=True)


def clean():
    for who in RUNS:
        subprocess.run(RUNS[who] + [f"{RUN}/bin/podman", "rm", "-f", "-a", "-t", "0"], capture_output=True, timeout=120)
    for f in living():
        os.kill(f.pid, signal.SIGKILL)


def fails(plan):
    clean()
    try:
        carry_out(plan)
    except Wrong as e:
        return str(e)
    return None


def shrink(plan, why):
    """Leaves out parts of a plan that fails, as long as what is left fails."""
    end, size = time.monotonic() + SHRINKING, max(1, len(plan) // 2)
    while size and time.monotonic() < end:
        at = 0
        while at < len(plan) and time.monotonic() < end:
            less = plan[:at] + plan[at + size:]
            reason = fails(less) if less else None
            if reason:
                plan, why = less, reason
            else:
                at += size
        size = min(size, len(plan)) // 2
    return plan, why


def main():
    if sys.argv[3] == "--plan":
        plan = [int(n) for n in sys.argv[4].split(",")]
    else:
        draw = random.Random(SEED)
        plan = [draw.randrange(10 ** 6) for _ in range(2 * int(sys.argv[3]))]
    print(f"seed {SEED}", flush=True)
    try:
        carry_out(plan, None if sys.argv[3] == "--plan" else int(sys.argv[3]))
    except Wrong as e:
        print(e, flush=True)
        step = int(re.match(r"step (\d+)", str(e))[1]) if str(e).startswith("step") else len(plan) - 1
        plan, why = shrink(plan[:step + 1], str(e)) if len(sys.argv) == 4 else (plan, str(e))
        print(f"--plan {','.join(map(str, plan))}: {why}", flush=True)
        return
    print("done", flush=True)


main()
