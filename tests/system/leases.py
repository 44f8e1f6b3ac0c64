#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""leases.py TENANT-SOCKET CONTROL-SOCKET HOOK-SOCKET VFS STEPS SEED: starts and ends programs and containers of two users at
vgpud's socket for them, really, and compares vgpud's leases with the processes that live. Then it tries what nobody may.

A container here is a process in a user namespace of its user's. Each user has an agent: a process of his that does what it is
told, and whose children are the programs and containers. Asks by lines on stdout, and waits for one on stdin: "KILL" for
a new vgpud, "HOLD" for holds that last."""
import ctypes
import json
import os
import random
import signal
import socket
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, PR_SET_PDEATHSIG = 0x10000000, 1
GROUP = 100
ALICE, BOB, CAROL = 7777, 7778, 7779
DOOR, CONTROL, HOOK = sys.argv[1:4]
VFS, STEPS, SEED = map(int, sys.argv[4:7])


def fail(text):
    print(f"leases.py: seed {SEED}: {text}", flush=True)
    os._exit(1)


class Door:
    """A connection to a socket of vgpud's."""

    def __init__(self, path=DOOR):
        self.path, self.s, self.text = path, None, b""

    def ask(self, method, descriptors=(), **args):
        """Returns (result, None) or (None, (code, message)). A vgpud that was killed is asked again."""
        line = (json.dumps({"method": method, "args": args}) + "\n").encode()
        for _ in range(200):
            try:
                if not self.s:
                    self.s, self.text = socket.socket(socket.AF_UNIX), b""
                    self.s.connect(self.path)
                if descriptors:
                    socket.send_fds(self.s, [line], descriptors)
                else:
                    self.s.sendall(line)
                while b"\n" not in self.text:
                    more = self.s.recv(65536)
                    if not more:
                        raise ConnectionResetError
                    self.text += more
                one, self.text = self.text.split(b"\n", 1)
                answer = json.loads(one)
                if "error" in answer:
                    return None, (answer["error"]["code"], answer["error"]["message"])
                return answer["result"], None
            except PermissionError as e:
                return None, ("CLOSED", str(e))
            except OSError:
                self.s = None
                time.sleep(0.05)
        return None, ("NOBODY", "nobody answers")


def child_of(agent, work):
    """Makes a child that does WORK, tells the agent what that gave, and lives on until it is killed."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        there.sendall((json.dumps(work()) + "\n").encode())
        while True:
            signal.pause()
    there.close()
    text = b""
    while not text.endswith(b"\n"):
        more = here.recv(65536)
        if not more:
            break
        text += more
    here.close()
    return pid, json.loads(text or "null")


def new_namespace():
    return LIBC.unshare(CLONE_NEWUSER) == 0


def begin_passing():
    """A program has a connection to its VF. Returns it, where it says more, and the VF."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        def connect():
            s = socket.socket(socket.AF_UNIX)
            s.connect(lease["socket"])
            return socket.recv_fds(s, 1, 1)[1][0]
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        lease, why = Door().ask("tenant.start", name="passes")
        first = connect()
        there.sendall(b"%d" % lease["vf"])
        passes = [first]
        if there.recv(1) == b"o":
            os.close(first)
            passes = [connect() for _ in range(3)]
        socket.send_fds(there, [b"x"], passes)
        os._exit(0)
    there.close()
    return pid, here, int(here.recv(10))


def passed_on(pid, here, others):
    """That program passes its connection on, or others that it opens in its place, and ends. Whether each of them ends, too."""
    here.sendall(b"o" if others else b"t")
    _, fds, _, _ = socket.recv_fds(here, 1, 3)
    os.waitpid(pid, 0)
    ends = []
    for s in (socket.socket(fileno=fd) for fd in fds):
        s.settimeout(60)
        try:
            while s.recv(4096):
                pass
            ends.append(True)
        except ConnectionResetError:
            ends.append(True)
        except TimeoutError:
            ends.append(False)
    return ends


def agent_loop(s):
    """What an agent does: one line in, one line out."""
    door = Door()
    for line in s.makefile():
        order = json.loads(line)
        what = order.pop("do")
        if what == "program":
            out = child_of(s, lambda: Door().ask("tenant.start", **order))
        elif what == "process":
            out = child_of(s, new_namespace)
        elif what == "plain":
            out = child_of(s, lambda: True)
        elif what == "end":
            os.kill(order["pid"], signal.SIGKILL)
            os.waitid(os.P_PID, order["pid"], os.WEXITED | (os.WNOWAIT if order.get("zombie") else 0))
            out = True
        elif what == "ask":
            out = door.ask(order.pop("method"), **order)
        elif what == "flood":
            doors = [Door() for _ in range(order["n"])]
            out = [d.ask("ping") for d in doors]
        elif what == "begin to pass":
            *passing, out = begin_passing()
        elif what == "pass":
            out = passed_on(*passing, order["others"])
        elif what == "descriptor":
            out = Door().ask("ping", descriptors=[0])
        s.sendall((json.dumps(out) + "\n").encode())


class Agent:
    def __init__(self, uid):
        self.uid = uid
        self.s, there = socket.socketpair()
        if os.fork() == 0:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self.s.close()
            os.setgroups([GROUP])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            LIBC.prctl(4, 1)  # PR_SET_DUMPABLE: /proc of its children is theirs again
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            agent_loop(there)
            os._exit(0)
        there.close()
        self.lines = self.s.makefile()

    def do(self, what, **order):
        self.s.sendall((json.dumps({"do": what, **order}) + "\n").encode())
        return json.loads(self.lines.readline() or fail(f"the agent of {self.uid} has ended"))

    def ask(self, method, **args):
        return self.do("ask", method=method, **args)


def start(agent, kind, name):
    """Returns (pid, what the start gave)."""
    if kind == "program":
        return agent.do("program", name=name)
    pid, made = agent.do("process")
    if not made:
        fail("no user namespaces")
    return pid, agent.ask("tenant.start", container={"id": name, "pid": pid})


def tenants(root):
    list_, why = root.ask("tenant.list")
    return list_["tenants"] if list_ else fail(f"tenant.list: {why}")


def check(root, live, step):
    """The leases that run are those of the processes that live; what is held is a container's."""
    want = sorted((p["pid"], p["uid"], p["kind"], p["vf"]) for p in live)
    got = sorted((t["process"], t["owner"], t["kind"], t["vf"]) for t in tenants(root) if t["state"] == "running")
    if want != got:
        fail(f"after {step}: the processes {want} live, and the leases are {got}")


def random_steps(root, agents):
    rng = random.Random(SEED)
    live, gone, count = [], [], dict.fromkeys(("start", "restart", "end", "refused", "stop", "kill"), 0)
    for step in range(STEPS):
        agent = rng.choice(agents)
        what = rng.choices(("start", "restart", "end", "stop", "kill"), (40, 15, 40, 10, 0.5))[0]
        if what == "kill":
            print("KILL", flush=True)
            sys.stdin.readline()
        elif what == "stop" and live:  # only its owner ends a lease, by its name
            p, by = rng.choice(live), rng.choice(("lease", "container"))
            _, why = agent.ask("tenant.stop", **{by: p["lease" if by == "lease" else "name"]})
            if why:
                fail(f"tenant.stop: {why}")
            if by == "lease" and agent is p["agent"]:
                live.remove(p)
                agent.do("end", pid=p["pid"])
        elif what == "end" and live:
            p = live.pop(rng.randrange(len(live)))
            p["agent"].do("end", pid=p["pid"])
            gone.append(p)
        elif what in ("start", "restart"):
            kind, name = rng.choice(("program", "container")), f"{agent.uid}-{step}-{SEED}"
            before = [p for p in gone if p["agent"] is agent and p["kind"] == "container"]
            if what == "restart" and before:
                kind, name = "container", before[-1]["name"]
                gone.remove(before[-1])
            pid, (answer, why) = start(agent, kind, name)
            if why:
                agent.do("end", pid=pid)
                if why[0] not in ("EBUSY", "EDQUOT"):
                    fail(f"{what} of a {kind}: {why}")
                what = "refused"
            else:
                live.append({"pid": pid, "uid": agent.uid, "kind": kind, "name": name, "vf": answer["vf"],
                             "lease": answer["lease"], "agent": agent})
        count[what] += 1
        check(root, live, f"step {step} ({what})")
    for p in live:
        p["agent"].do("end", pid=p["pid"])
    check(root, [], "the end")
    print(f"{STEPS} steps: {count}", flush=True)


def process_of(vf):
    """The process that serves the VF. A client may have its connection before softgpu has started the process."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline").read().split("\0")
                mine = os.path.dirname(DOOR).encode() in open(f"/proc/{open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1]}/cmdline", "rb").read()
            except OSError:
                continue
            if mine and "softgpu-vf" in words[0] and f"--vf {vf} " in " ".join(words) + " ":
                return int(pid)
        time.sleep(0.02)
    return fail(f"VF {vf} has no process")


def want(answer, code, words):
    if answer[1] is None or answer[1][0] != code or words not in answer[1][1]:
        fail(f"want {code} \"{words}\", got {answer}")


def run_in(flags, path, method):
    """What root of other namespaces is told."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        if LIBC.unshare(flags) != 0:
            os._exit(2)
        inner = os.fork()  # the first of a new PID namespace
        if inner == 0:
            if flags & CLONE_NEWUSER:
                open("/proc/self/setgroups", "w").write("deny") if os.path.exists("/proc/self/setgroups") else None
            os.write(w, json.dumps(Door(path).ask(method)).encode())
            os._exit(0)
        os.waitpid(inner, 0)
        os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    return json.loads(os.read(r, 65536) or "null")


def in_namespace_of_root(path, method):
    """What a user of a namespace that root has made is told, although he is in the group."""
    r, w = os.pipe()
    made, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(made[1], b"x" if LIBC.unshare(CLONE_NEWUSER) == 0 else b"-")
        os.read(go[0], 1)
        os.setgid(0)
        os.setuid(1)
        os.write(w, json.dumps(Door(path).ask(method)).encode())
        os._exit(0)
    os.close(w)
    if os.read(made[0], 1) != b"x":
        fail("no user namespaces")
    for name, first in (("uid", 100000), ("gid", GROUP)):
        with open(f"/proc/{pid}/{name}_map", "w") as f:
            f.write(f"0 {first} {2 if name == 'uid' else 1}\n")
    os.write(go[1], b"x")
    os.waitpid(pid, 0)
    return json.loads(os.read(r, 65536) or "null")


def hostile(root, alice, bob):
    # Connections that were passed on end with the lease: also those that wait for the VF's next process.
    for others in (False, True):
        vf = alice.do("begin to pass")
        if others:
            os.kill(process_of(vf), signal.SIGSTOP)  # it does not see that its client has gone
        ends = alice.do("pass", others=others)
        if not all(ends):
            fail(f"connections to VF {vf} whose lease has ended: {ends}")
    pid, (mine, why) = start(alice, "container", "one-and-the-same")
    if why:
        fail(f"a container: {why}")
    # Another's process, another's lease, another's reason.
    want(bob.ask("tenant.start", container={"id": "stolen", "pid": pid}), "EPERM", "not in a user namespace of user 7778")
    want(bob.ask("tenant.set", lease=mine["lease"], params={"weight": "1"}), "ENOENT", "you have no running lease of this name")
    want(bob.ask("tenant.explain", id="one-and-the-same"), "ENOENT", "nothing of")
    if bob.ask("tenant.list")[0]["tenants"]:
        fail("bob sees leases of alice's")
    # Processes that are nobody's container, although they are one's own.
    for other in (1, os.getpid()):
        want(alice.ask("tenant.start", container={"id": "x", "pid": other}), "EPERM", "not in a user namespace")
    plain, _ = alice.do("plain")
    want(alice.ask("tenant.start", container={"id": "x", "pid": plain}), "EPERM", "not in a user namespace")
    alice.do("end", pid=plain)
    # The same id is another user's container.
    twin, (its, why) = start(bob, "container", "one-and-the-same")
    if why or its["vf"] == mine["vf"]:
        fail(f"the same id of another user: {why or its}")
    # A lease of another's does not travel to a container of one's own.
    other, _ = bob.do("process")
    want(bob.ask("tenant.start", container={"id": "y", "pid": other, "annotations": {"vgpud.dev/lease": mine["lease"]}}), "ENOENT", "no such lease")
    # A process that has ended, reaped or not.
    bob.do("end", pid=other, zombie=True)
    want(bob.ask("tenant.start", container={"id": "y", "pid": other}), "ESRCH", "no process")
    # A restart beside somebody who takes all that is free.
    alice.do("end", pid=pid)
    greedy = []
    for i in range(VFS):
        p, (answer, why) = start(bob, "container", f"greedy-{i}")
        if answer and answer["vf"] == mine["vf"]:
            fail("what is held for a container went to another's")
        greedy.append(p)
    pid, (again, why) = start(alice, "container", "one-and-the-same")
    if why or again["vf"] != mine["vf"]:
        fail(f"a container that restarts has had VF {mine['vf']} and got {why or again}")
    # Root of another user or PID namespace is nobody, at no socket; real root is.
    for path, method in ((DOOR, "tenant.list"), (CONTROL, "gpu.list"), (HOOK, "ping")):
        if Door(path).ask(method)[1]:
            fail(f"root is refused at {path}")
        for flags in (CLONE_NEWUSER, 0x20000000):  # CLONE_NEWPID
            answer = run_in(flags, path, method)
            if answer is None or answer[1] is None or answer[1][0] not in ("EACCES", "CLOSED"):
                fail(f"root of namespaces {flags:#x} at {path}: {answer}")
    answer = in_namespace_of_root(DOOR, "tenant.list")  # else he would have root's limits: none
    if answer is None or answer[1] is None or answer[1][0] not in ("EACCES", "CLOSED"):
        fail(f"a user of a namespace of root's: {answer}")
    # Descriptors, and more connections than one user may have.
    answer = alice.do("descriptor")  # newer kernels refuse them themselves
    if answer[1] is None or answer[1][0] not in ("EPERM", "CLOSED"):
        fail(f"a descriptor was taken: {answer}")
    answers = alice.do("flood", n=20)
    if sum(a[1] is None for a in answers) > 16 or not any(a[1] and "connections of your user" in a[1][1] for a in answers):
        fail(f"20 connections of one user: {answers}")
    # What a user causes in the log is bounded: the caller counts the lines.
    begun, carol = time.monotonic(), Agent(CAROL)
    own, _ = carol.do("process")
    for _ in range(150):
        want(carol.ask("tenant.start", container={"id": "logged", "pid": own, "annotations": {"vgpud.dev/memory": "2"}}), "EINVAL", "want a size")
    print(f"minutes {int(time.monotonic() - begun) // 60 + 1}", flush=True)
    for agent, p in [(alice, pid), (bob, twin)] + [(bob, p) for p in greedy]:
        agent.do("end", pid=p)


def main():
    root, alice, bob = Door(), Agent(ALICE), Agent(BOB)
    random_steps(root, (alice, bob))
    deadline = time.monotonic() + 60
    while tenants(root) and time.monotonic() < deadline:
        time.sleep(0.05)
    if tenants(root):
        fail("what was held is never free")
    print("HOLD", flush=True)
    sys.stdin.readline()
    hostile(root, alice, bob)
    print("done", flush=True)


main()
