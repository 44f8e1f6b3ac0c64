# SPDX-License-Identifier: MIT
"""Answers vgpud, at the socket `bookings` of its configuration, which GPU placement has booked for a VM.

vgpud sends a line, the UUID of the server. The answer is a line of JSON, {"gpus": {"NAME": {"VF": N, "SHARE": N, "MEMORY_MB": N}}}, without
GPUs if none of their own providers is booked; or none, and the reason is in the log. vgpud waits no longer than it has said it would
(booking_ms). This process keeps the token; each question has a process of its own, which reads what placement sends and ends with the
answer."""
import json
import logging
import os
import signal
import socket
import socketserver
from typing import Any, Dict

from . import amounts, api, cloud, host, tree

log = logging.getLogger(__name__)
LONGEST_S = 6  # of a question: longer than vgpud waits, so that it knows of an answer that is late
MOST = 64  # questions at the same time: servers that start together
LOOK_S = 30  # between looks at the token
FIRST_FD = 3  # of those that systemd passes: sd_listen_fds(3)


def answer(placement: api.Placement, provider: str, server: str) -> Dict[str, Any]:
    """What the server has booked of the GPUs of the host whose provider that is."""
    path = f"allocations/{server}"
    allocations = api.member(placement.must("to show what is booked", "GET", path), "allocations", dict, path)
    booked = {uuid: amounts.read(api.member(a, "resources", dict, path), path) for uuid, a in allocations.items()}
    if not any(booked.values()):
        return {"gpus": {}}
    gpus = tree.Tree(placement, provider).gpus
    return {"gpus": {gpu: amounts.named(booked[p.uuid]) for gpu, p in gpus.items() if booked.get(p.uuid)}}


class _Question(socketserver.StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST_S)
        uuid = self.rfile.readline(64).decode(errors="replace").strip()
        if not host.is_uuid(uuid):
            log.error("want a server's UUID, got %r", uuid)
            return
        try:
            said = answer(self.server.placement, self.server.provider, uuid.lower())
            self.wfile.write(json.dumps(said).encode() + b"\n")
        except api.CloudError as e:
            log.error("%s: %s", uuid, e)
        except BrokenPipeError:
            log.warning("%s: vgpud no longer waits for the answer", uuid)


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    max_children = MOST + 1  # verify_request() refuses before this many are waited for

    def __init__(self, placement: cloud.Cloud, provider: str):
        super().__init__("", _Question, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=FIRST_FD)
        self.placement, self.provider = placement, provider

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.collect_children()
        if len(self.active_children or ()) < MOST:
            return True
        log.error("%d questions are under way: another one is refused", MOST)
        return False

    def service_actions(self) -> None:
        super().service_actions()
        try:
            self.placement.renew()
        except api.CloudError as e:
            log.warning("no token from Keystone, which is asked again in %d s: %s", LOOK_S, e)


def serve(placement: cloud.Cloud, provider: str) -> int:
    """Serves the socket that systemd passes, for ever."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        log.error("no socket: systemd passes it (vgpud-booking.socket)")
        return 2
    server = _Server(placement, provider)
    server.service_actions()
    server.serve_forever(poll_interval=LOOK_S)
    return 0
