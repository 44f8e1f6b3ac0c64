# SPDX-License-Identifier: MIT
"""placement-server.py DIR: serves OpenStack's placement at 127.0.0.1, on the port that it writes to DIR/port, and says in DIR/which whether it
is the real one (Debian's python3-placement, on SQLite, without Keystone) or, where that is missing, a stand-in for those of its
methods that vgpud-openstack uses, as strict about generations, names and fields as the API reference. In front of either: while DIR/race
has a number, each GET of a provider's inventories or traits is followed by somebody else's change of that provider, and the number goes
down; as long as DIR/busy has one, requests get 503; DIR/requests lists what was asked. While they are there, DIR/instead is the answer to
everything, with the status in DIR/status, and requests whose path begins as DIR/slow says are answered when it is gone.

At /keystone/v3 is a stand-in for Keystone: for the password in DIR/password it gives tokens, which are valid as long as DIR/lifetime says
(s; an hour), or until DIR/revoke is there, which takes all that there are; while DIR/closed is there, it answers 503. The token "admin" is always valid."""
import datetime, io, json, os, re, socketserver, sys, threading, time, urllib.parse, uuid, wsgiref.simple_server

run = sys.argv[1]


class Refusal(Exception):
    def __init__(self, status, detail, code="placement.undefined_code"):
        super().__init__(detail)
        self.status, self.body = status, {"errors": [{"status": int(status.split()[0]), "detail": detail, "code": code}]}


def want(condition, detail, status="400 Bad Request", code="placement.undefined_code"):
    if not condition:
        raise Refusal(status, detail, code)


class StandIn:
    def __init__(self):
        self.providers, self.classes, self.traits, self.consumers = {}, {"VCPU"}, {"HW_CPU_X86_VMX"}, {}

    def shown(self, u):
        p = self.providers[u]
        return {"uuid": u, "name": p["name"], "generation": p["generation"], "parent_provider_uuid": p["parent"], "root_provider_uuid": self.root(u)}

    def root(self, u):
        return self.root(self.providers[u]["parent"]) if self.providers[u]["parent"] else u

    def booked(self, u):
        return {c for allocations in self.consumers.values() for c in allocations.get(u, {})}

    def list(self, query):
        want(set(query) <= {"name", "in_tree"}, f"unknown parameters {query}")
        found = [u for u, p in self.providers.items() if query.get("name", p["name"]) == p["name"]]
        if "in_tree" in query:
            found = [u for u in found if query["in_tree"] in self.providers and self.root(u) == self.root(query["in_tree"])]
        return {"resource_providers": [self.shown(u) for u in found]}

    def make(self, body):
        want({"name"} <= set(body) <= {"name", "uuid", "parent_provider_uuid"}, "bad fields")
        want(all(p["name"] != body["name"] for p in self.providers.values()), "the name exists", "409 Conflict", "placement.duplicate_name")
        parent = body.get("parent_provider_uuid")
        want(parent is None or parent in self.providers, "no such parent")
        u = body.get("uuid") or str(uuid.uuid4())
        self.providers[u] = {"name": body["name"], "parent": parent, "generation": 0, "inventories": {}, "traits": []}
        return self.shown(u)

    def put(self, u, key, body):
        p = self.providers[u]
        want(set(body) == {key, "resource_provider_generation"}, f"bad fields {set(body)}")
        want(type(body["resource_provider_generation"]) is int, "the generation is no number")
        want(body["resource_provider_generation"] == p["generation"], "resource provider generation conflict", "409 Conflict", "placement.concurrent_update")
        if key == "traits":
            want(len(set(body[key])) == len(body[key]) and set(body[key]) <= self.traits, "unknown or repeated traits")
        else:
            for name, v in body[key].items():
                want(name in self.classes, f"unknown class {name}")
                want(set(v) == {"total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"}, f"fields {set(v)}")
                want(all(type(v[f]) is int for f in v if f != "allocation_ratio"), "an amount is no whole number")
                want(1 <= v["min_unit"] <= v["max_unit"] <= v["total"] and 0 <= v["reserved"] <= v["total"], "amounts out of range")
            want(self.booked(u) <= set(body[key]), "a class is in use", "409 Conflict", "placement.inventory.inuse")
        p["generation"] += key == "inventories" or set(p[key]) != set(body[key])
        p[key] = body[key]
        return {key: p[key], "resource_provider_generation": p["generation"]}

    def allocate(self, consumer, body):
        for u, a in body["allocations"].items():
            want(u in self.providers and all(c in self.providers[u]["inventories"] for c in a["resources"]), "no such inventory", "409 Conflict")
        self.consumers[consumer] = {u: a["resources"] for u, a in body["allocations"].items()}

    def allocations(self, consumer):
        return {"allocations": {u: {"generation": self.providers[u]["generation"], "resources": r} for u, r in self.consumers.get(consumer, {}).items()}}

    def answer(self, method, path, query, body):
        if m := re.fullmatch(r"/(traits|resource_classes)/(CUSTOM_[A-Z0-9_]{1,248})", path):
            want(method == "PUT", "", "405 Method Not Allowed")
            {"traits": self.traits, "resource_classes": self.classes}[m[1]].add(m[2])
            return None
        if path == "/resource_providers":
            return self.list(query) if method == "GET" else self.make(body)
        if m := re.fullmatch("/allocations/(.+)", path):
            return self.allocations(m[1]) if method == "GET" else self.allocate(m[1], body)
        if (m := re.fullmatch("/resource_providers/([^/]+)/allocations", path)) and m[1] in self.providers:
            booked = {c: {"resources": a[m[1]]} for c, a in self.consumers.items() if m[1] in a}
            return {"allocations": booked, "resource_provider_generation": self.providers[m[1]]["generation"]}
        m = re.fullmatch("/resource_providers/([^/]+)(?:/(inventories|traits))?", path)
        want(m and m[1] in self.providers, "no such provider", "404 Not Found")
        u, key = m[1], m[2]
        if key:
            return self.put(u, key, body) if method == "PUT" else {key: self.providers[u][key], "resource_provider_generation": self.providers[u]["generation"]}
        if method == "GET":
            return self.shown(u)
        want(method == "DELETE", "", "405 Method Not Allowed")
        want(not self.booked(u), "Unable to delete resource provider: it has allocations", "409 Conflict", "placement.resource_provider.inuse")
        want(all(p["parent"] != u for p in self.providers.values()), "it has children", "409 Conflict")
        del self.providers[u]
        return None

    def __call__(self, env, start):
        try:
            want(env.get("HTTP_X_AUTH_TOKEN") == "admin", "no token", "401 Unauthorized")
            version = re.fullmatch(r"placement 1\.(\d+)", env.get("HTTP_OPENSTACK_API_VERSION", ""))
            want(version and int(version[1]) >= 28, "this stand-in knows the API from 1.28 on", "406 Not Acceptable")
            text = env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
            want(not text or env.get("CONTENT_TYPE") == "application/json", "not JSON", "415 Unsupported Media Type")
            query = dict(urllib.parse.parse_qsl(env["QUERY_STRING"]))
            out, status = self.answer(env["REQUEST_METHOD"], env["PATH_INFO"], query, json.loads(text) if text else None), "200 OK"
        except Refusal as r:
            out, status = r.body, r.status
        start(status if out is not None else "204 No Content", [("Content-Type", "application/json")])
        return [json.dumps(out).encode()] if out is not None else []


def real():
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = run
    with open(f"{run}/placement.conf", "w") as f:
        f.write(f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///{run}/placement.db\nsync_on_startup = True\n")
    sys.argv = ["placement-api"]
    from placement.wsgi import init_application
    return init_application()


try:
    app, which = real(), "real"
except ImportError:
    app, which = StandIn(), "stand-in"


def ask(method, path, body=None):
    """A request of somebody else."""
    text, got = json.dumps(body).encode() if body is not None else b"", []
    env = {"REQUEST_METHOD": method, "PATH_INFO": path, "SCRIPT_NAME": "", "QUERY_STRING": "", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "1",
           "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_X_AUTH_TOKEN": "admin", "HTTP_OPENSTACK_API_VERSION": "placement 1.28", "HTTP_ACCEPT": "application/json",
           "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(text)), "wsgi.input": io.BytesIO(text), "wsgi.errors": sys.stderr,
           "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.multithread": False, "wsgi.multiprocess": False, "wsgi.run_once": False}
    out = b"".join(app(env, lambda status, headers, *_: got.append(status)))
    assert got[0].startswith("2"), (method, path, got, out)
    return json.loads(out) if out else None


def interfere(path):
    m = re.fullmatch("/resource_providers/([^/]+)/(?:inventories|traits)", path)
    if not m or ask("GET", f"/resource_providers/{m[1]}")["parent_provider_uuid"] is None or not counted_down("race"):
        return
    ask("PUT", "/traits/CUSTOM_SOMEBODY_ELSES")
    now = ask("GET", f"/resource_providers/{m[1]}/traits")
    # A change that changes nothing does not make the generation greater.
    traits = sorted(({*now["traits"]} ^ {"HW_CPU_X86_VMX"}) | {"CUSTOM_SOMEBODY_ELSES"})
    ask("PUT", f"/resource_providers/{m[1]}/traits", {"traits": traits, "resource_provider_generation": now["resource_provider_generation"]})


def text_of(name):
    try:
        return open(f"{run}/{name}").read()
    except FileNotFoundError:
        return None


def counted_down(name):
    """Whether DIR/NAME has a number above 0, which is made smaller."""
    left = int(text_of(name) or 0)
    if left:
        open(f"{run}/{name}", "w").write(str(left - 1))
    return left > 0


tokens = {"admin"}


def keystone(env, start):
    """https://docs.openstack.org/api-ref/identity/v3: a token by password, with a catalog that has placement."""
    here = f"http://127.0.0.1:{server.server_port}"
    if os.path.exists(f"{run}/closed"):
        start("503 Service Unavailable", [])
        return []
    if env["REQUEST_METHOD"] == "GET":
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps({"version": {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{here}/keystone/v3/"}]}}).encode()]
    user = json.loads(env["wsgi.input"].read(int(env["CONTENT_LENGTH"])))["auth"]["identity"]["password"]["user"]
    if user["password"] != (text_of("password") or "").strip():
        start("401 Unauthorized", [("Content-Type", "application/json")])
        return [b'{"error": {"code": 401, "message": "wrong password", "title": "Unauthorized"}}']
    token = uuid.uuid4().hex
    tokens.add(token)
    ends = datetime.datetime.utcnow() + datetime.timedelta(seconds=int(text_of("lifetime") or 3600))
    endpoint = {"interface": "public", "region": "r", "region_id": "r", "url": here, "id": "e"}
    body = {"token": {"methods": ["password"], "user": {"name": user["name"], "id": "u", "domain": {"id": "default", "name": "Default"}},
                      "expires_at": ends.isoformat() + "Z", "issued_at": datetime.datetime.utcnow().isoformat() + "Z", "roles": [],
                      "catalog": [{"type": "placement", "name": "placement", "id": "p", "endpoints": [endpoint]}]}}
    start("201 Created", [("Content-Type", "application/json"), ("X-Subject-Token", token)])
    return [json.dumps(body).encode()]


one_at_a_time = threading.Lock()


def front(env, start):
    with open(f"{run}/requests", "a") as f:
        f.write(f"{env['REQUEST_METHOD']} {env['PATH_INFO']}\n")
    while (slow := text_of("slow")) is not None and env["PATH_INFO"].startswith(slow):
        time.sleep(0.02)
    with one_at_a_time:
        if os.path.exists(f"{run}/revoke"):
            os.remove(f"{run}/revoke")
            tokens.intersection_update({"admin"})
        if env["PATH_INFO"].startswith("/keystone/v3"):
            return keystone(env, start)
        if counted_down("busy"):
            start("503 Service Unavailable", [])
            return []
        if "HTTP_X_AUTH_TOKEN" in env and env["HTTP_X_AUTH_TOKEN"] not in tokens:
            start("401 Unauthorized", [("Content-Type", "application/json")])
            return [b'{"errors": [{"status": 401, "detail": "wrong token"}]}']
        env["HTTP_X_AUTH_TOKEN"] = env.get("HTTP_X_AUTH_TOKEN") and "admin" or ""
    if os.path.exists(f"{run}/instead"):
        start((text_of("status") or "200 OK").strip(), [("Content-Type", "application/json")])
        return [open(f"{run}/instead", "rb").read()]
    with one_at_a_time:
        out = b"".join(app(env, start))
        if env["REQUEST_METHOD"] == "GET":
            interfere(env["PATH_INFO"])
    return [out]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *a):
        pass


class Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True

    def handle_error(self, *a): # who asked has gone
        pass


server = wsgiref.simple_server.make_server("127.0.0.1", 0, front, server_class=Threads, handler_class=Quiet)
open(f"{run}/which", "w").write(which)
open(f"{run}/port.new", "w").write(str(server.server_port))
os.rename(f"{run}/port.new", f"{run}/port")
server.serve_forever()
