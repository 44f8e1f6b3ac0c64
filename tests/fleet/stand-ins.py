#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What Nova asks of Glance (port 9292) and Neutron (9696) for servers that have no network: the image `empty`, a disk of zeros; the
image `tenant`, the same with a kernel, which computes on a VF (tests/vm/bare/tenant.c); lists without entries."""
import http.server, json, pathlib, sys, threading
from fleet import EMPTY, TENANT

KERNEL = "a0000000-0000-4000-8000-0000000000ff"


def image(uuid, name, size, form, container, **more):
    return {"id": uuid, "name": name, "status": "active", "visibility": "public", "container_format": container, "disk_format": form,
            "min_disk": 0, "min_ram": 0, "size": size, "virtual_size": size, "checksum": None, "os_hash_algo": None, "os_hash_value": None,
            "os_hidden": False, "protected": False, "owner": "admin", "tags": [], "locations": [], "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z", "file": f"/v2/images/{uuid}/file", "schema": "/v2/schemas/image", **more}


disk, kernel = bytes(1 << 20), pathlib.Path("/vgpud/tests/vm/tenant").read_bytes()
files = {EMPTY: disk, TENANT: disk, KERNEL: kernel}
images = {EMPTY: image(EMPTY, "empty", len(disk), "raw", "bare"), KERNEL: image(KERNEL, "kernel", len(kernel), "aki", "aki"),
          TENANT: image(TENANT, "tenant", len(disk), "raw", "bare", kernel_id=KERNEL)}
# Nova takes what is no base property for the image's own.
schema = {"name": "image", "properties": {key: {"is_base": key != "kernel_id"} for key in images[TENANT]}}
version = {"id": "v2.9", "status": "CURRENT", "links": [{"rel": "self", "href": "http://10.9.0.1:9292/v2/"}]}


def glance(path):
    match path.split("/")[1:]:
        case []:
            return 300, {"versions": [version]}
        case ["v2", "schemas", "image"]:
            return 200, schema
        case ["v2", "images", uuid] if uuid in images:
            return 200, images[uuid]
        case ["v2", "images", uuid, "file"] if uuid in files:
            return 200, files[uuid]
    return 404, {}


def neutron(path):  # /v2.0/ports, security-groups, ...: none of it
    return 200, {path.rsplit("/", 1)[-1].removesuffix(".json").replace("-", "_"): []}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0].rstrip("/")
        status, body = self.server.answer(path)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        sys.stderr.write(f"{self.server.server_port} {format % args}\n")


for port, answer in ((9292, glance), (9696, neutron)):
    server = http.server.ThreadingHTTPServer(("10.9.0.1", port), Handler)
    server.answer = answer
    threading.Thread(target=server.serve_forever).start()
