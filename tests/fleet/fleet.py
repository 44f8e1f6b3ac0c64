# SPDX-License-Identifier: MIT
"""The fleet as servers.py sees it: Nova's and placement's API, and its two hosts. Bookings and leases are read here once more than
`vgpud-openstack audit` reads them, so that the audit is tested, too."""
import json, os, pathlib, re, subprocess, time, urllib.error, urllib.request

API = "http://10.9.0.1"
CLASSES = ("VF", "SHARE", "MEMORY_MB")
# Images (stand-ins.py): nothing to boot from; a program that computes on the VF, and says on the console what came out.
EMPTY, TENANT = "a0000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000002"
DONE = ("ACTIVE", "ERROR", "SHUTOFF")
SETTLED = (*DONE, "VERIFY_RESIZE")


class Failed(Exception):
    pass


def want(condition, text):
    if not condition:
        raise Failed(text)


def tail(path, lines, pattern=""):
    """The last lines of a file that contain a pattern."""
    return "\n".join([line for line in pathlib.Path(path).read_text(errors="replace").splitlines() if re.search(pattern, line)][-lines:])


def until(seconds, what, probe, every=0.2):
    """Calls probe until what it returns is true, and returns that. A deadline that passes is a failure."""
    end = time.monotonic() + seconds
    while not (result := probe()):
        want(time.monotonic() < end, f"timed out after {seconds} s waiting for {what() if callable(what) else what}")
        time.sleep(every)
    return result


def call(port, service, version, method, path, body=None):
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/json", "Accept": "application/json",
               "OpenStack-API-Version": f"{service} {version}"}
    request = urllib.request.Request(f"{API}:{port}{path}", method=method, headers=headers, data=json.dumps(body).encode() if body is not None else None)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def nova(method, path, body=None):
    status, answer = call(8774, "compute", "2.90", method, "/v2.1" + path, body)
    want(status < 400, f"Nova answers {status} to {method} {path}: {answer}")
    return answer


def placement(path):
    status, answer = call(8778, "placement", "1.39", "GET", path)
    want(status < 400, f"placement answers {status} to {path}: {answer}")
    return answer


def release():
    """Nova's release. Up to 31 a domain has only the name of its flavor."""
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", "nova-common"], capture_output=True, text=True, check=True)
    return int(shown.stdout.split(".")[0])


def resources(share, memory, group=""):
    return {f"resources{group}:CUSTOM_VGPUD_VF": "1", f"resources{group}:CUSTOM_VGPUD_SHARE": str(share), f"resources{group}:CUSTOM_VGPUD_MEMORY_MB": str(memory)}


def make_flavor(name, specs):
    nova("POST", "/flavors", {"flavor": {"name": name, "id": name, "ram": 64, "vcpus": 1, "disk": 0}})
    if specs:
        nova("POST", f"/flavors/{name}/os-extra_specs", {"extra_specs": specs})


def boot(flavor, name="server", image=EMPTY, **more):
    """Asks for a server, and returns its UUID."""
    body = {"name": name, "flavorRef": flavor, "imageRef": image, "networks": "none", **more}
    return nova("POST", "/servers", {"server": body})["server"]["id"]


def servers():
    """All servers, by UUID."""
    return {s["id"]: s for s in nova("GET", "/servers/detail?all_tenants=1")["servers"]}


def act(server, **action):
    nova("POST", f"/servers/{server}/action", action)


def settled(ids, seconds=180, states=SETTLED):
    """Waits until nothing is under way with these servers, and returns them. Why one failed is not in Nova's list, and is known later
    than that it failed."""
    ids = list(ids)

    def look():
        all_ = servers()
        now = [all_.get(i) for i in ids]
        if not all(s and s["status"] in states and not s["OS-EXT-STS:task_state"] for s in now):
            return None
        found = {i: nova("GET", f"/servers/{i}")["server"] for i in ids}
        return all(s["status"] != "ERROR" or fault(s) for s in found.values()) and found
    return until(seconds, lambda: f"the servers to settle: {[(s['status'], s['OS-EXT-STS:task_state']) for s in servers().values()]}", look, 0.5) if ids else {}


def host_of(server):
    return server["OS-EXT-SRV-ATTR:host"]


def fault(server):
    return server.get("fault", {}).get("message", "")


def active(ids, seconds=180):
    """Waits until all these servers are active, and returns them."""
    found = settled(ids, seconds)
    for s in found.values():
        want(s["status"] == "ACTIVE", f"{s['name']} is {s['status']} on {host_of(s)}: {fault(s)}")
    return found


def sums(pairs):
    """Adds up amounts by their key."""
    found = {}
    for key, amounts in pairs:
        found[key] = tuple(map(sum, zip(found.get(key, (0, 0, 0)), amounts)))
    return found


class Host:
    def __init__(self, n):
        self.name, self.dir = f"node{n}", pathlib.Path(f"/srv/node{n}")
        outer = pathlib.Path(f"/run/node{n}.pid").read_text().strip()
        children = pathlib.Path(f"/proc/{outer}/task/{outer}/children")
        want(children.exists() and children.read_text(), f"{self.name} has ended: {tail(f'/logs/{self.name}.log', 3)}")
        self.pid = children.read_text().split()[0]

    def run(self, *command):
        """Runs a command in the host's namespaces. Returns its exit status and what it printed, its errors last."""
        done = subprocess.run(["nsenter", "-t", self.pid, "--mount", "--uts", "--net", "--pid", *command], capture_output=True, text=True,
                              env={**os.environ, "OS_AUTH_TYPE": "admin_token", "OS_TOKEN": "admin", "OS_ENDPOINT": f"{API}:8778"}, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def must(self, *command):
        status, out, err = self.run(*command)
        want(status == 0, f"{self.name}: {' '.join(command)} ends with {status}: {out}{err}")
        return out

    def ctl(self, *arguments):
        return json.loads(self.must("vgpuctl", "-o", "json", *arguments))

    def has_provider(self):
        return placement(f"/resource_providers?name={self.name}")["resource_providers"] != []

    def provider(self):
        return placement(f"/resource_providers?name={self.name}")["resource_providers"][0]["uuid"]

    def totals(self):
        found = placement(f"/resource_providers/{self.provider()}/inventories")["inventories"]
        return {c: found[f"CUSTOM_VGPUD_{c}"]["total"] for c in CLASSES if f"CUSTOM_VGPUD_{c}" in found}

    def usages(self):
        found = placement(f"/resource_providers/{self.provider()}/usages")["usages"]
        return {c: found[f"CUSTOM_VGPUD_{c}"] for c in CLASSES}

    def gpus(self):
        return [g["gpu"] for g in self.ctl("gpu", "list")["gpus"]]

    def providers(self):
        """The host's own provider, and those of its GPUs if they have their own: names by UUID."""
        return {p["uuid"]: p["name"] for p in placement(f"/resource_providers?in_tree={self.provider()}")["resource_providers"]}

    def bookings(self):
        """What placement has booked here, by server and provider: VFs, share and memory."""
        return {(u, name): tuple(a["resources"].get(f"CUSTOM_VGPUD_{c}", 0) for c in CLASSES) for p, name in self.providers().items()
                for u, a in placement(f"/resource_providers/{p}/allocations")["allocations"].items()
                if any(r.startswith("CUSTOM_VGPUD_") for r in a["resources"])}

    def vfs(self, server=None):
        """The VFs that VMs have, or this server: the VM's UUID, the GPU, and vgpud's view of the VF."""
        return [(vm["uuid"], vm["gpu"], {**vm, **self.ctl("vf", "show", str(vm["vf"]), "--gpu", vm["gpu"])})
                for vm in self.ctl("vm", "list")["vms"] if server in (None, vm["uuid"])]

    def booked(self):
        """What placement has booked here, by server."""
        return sums((u, amounts) for (u, _), amounts in self.bookings().items())

    def given(self):
        """What vgpud has given here, by server."""
        return sums((u, (1, vf["params"]["min_ppm"] / 1000, vf["memory_bytes"] / (1 << 20))) for u, _, vf in self.vfs())

    def audit(self):
        """The agent's own comparison: its exit status, and what it found, by server."""
        status, out, err = self.run("vgpud-openstack", "audit", "-o", "json", "--provider", self.name)
        want(out, f"{self.name}: vgpud-openstack audit ends with {status}: {err}")
        return status, {s["uuid"]: s["finding"] for s in json.loads(out)["servers"]}

    def metric(self, name, label):
        """vgpud's counters of this name, by the value of their label."""
        text = self.must("curl", "-sS", "--unix-socket", "/run/vgpud/metrics.sock", "http://localhost/metrics")
        return {value: int(count) for value, count in re.findall(rf'^{name}{{{label}="(\w+)"}} (\d+)$', text, re.M)}

    def hook_calls(self):
        """The calls of the hook: domain, operation, exit status, microseconds."""
        path = self.dir / "hook.log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def refusals(self):
        return [c for c in self.hook_calls() if c[2] != "0"]

    def counted(self):
        """How many servers of one CPU the scheduler believes to be here. Later versions of the API do not show it."""
        status, answer = call(8774, "compute", "2.87", "GET", "/v2.1/os-hypervisors/detail")
        want(status == 200, f"Nova answers {status} when asked for its hosts: {answer}")
        return next(h["vcpus_used"] for h in answer["hypervisors"] if h["hypervisor_hostname"] == self.name)

    def services(self):
        return [s for s in nova("GET", "/os-services?binary=nova-compute")["services"] if s["host"] == self.name]

    def set_service(self, **change):
        nova("PUT", f"/os-services/{self.services()[0]['id']}", change)

    def is_up(self):
        want(os.path.exists(f"/proc/{self.pid}"), f"{self.name} has ended: {tail(f'/logs/{self.name}.log', 3)}")
        return any(s["state"] == "up" for s in self.services())

    def stop(self, what, signal="TERM"):
        """Ends vgpud or compute, by the file that its script wrote."""
        pid = (self.dir / f"{what}.pid").read_text().strip()
        self.must("kill", f"-{signal}", pid)
        until(60, f"{what} of {self.name} to end", lambda: self.run("test", "-e", f"/proc/{pid}")[0])

    def start(self, what):
        self.must(f"/fleet/start-{what}")

    def jobs(self, server):
        """How many jobs a tenant has done on its VF, all right."""
        console = (self.dir / f"nova/instances/{server}/console.log").read_text(errors="replace").replace("\r", "")
        want(not re.search("wrong [1-9]|reset", console), f"{self.name}: the tenant's console: {console[-500:]}")
        done = re.findall(r"^jobs (\d+) wrong 0$", console, re.M)
        return int(done[-1]) if done else 0

    def left(self):
        """What must be the same whenever the host has no server: VMs, leases, guarantees, memory, and the descriptors of our programs."""
        held, gpus = {}, {}
        for gpu in self.gpus():
            memory = self.ctl("memory", "show", "--gpu", gpu)
            vfs = [self.ctl("vf", "show", str(v["vf"]), "--gpu", gpu) for v in self.ctl("vf", "list", "--gpu", gpu)["vfs"]]
            gpus[gpu] = (memory["scrubbing_bytes"], memory["largest_free_bytes"], [(v["state"], v["params"]["min_ppm"]) for v in vfs])
        for p in self.must("pgrep", "-x", "vgpud|softgpu|softgpu-vf|qemu.*").split():
            name = self.run("cat", f"/proc/{p}/comm")[1].strip()
            held.setdefault(name, []).append(len(self.run("ls", f"/proc/{p}/fd")[1].split()))
        return {"domains": self.must("virsh", "-q", "list", "--all", "--name").split(), "leases": self.ctl("vm", "list")["vms"],
                "gpus": gpus, "descriptors": {n: sorted(c) for n, c in held.items()}, "booked": self.booked()}
