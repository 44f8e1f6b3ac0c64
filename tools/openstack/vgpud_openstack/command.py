# SPDX-License-Identifier: MIT
"""The command line of vgpud-openstack, its log, and its exit codes, which are vgpuctl's."""
import argparse
import logging
import os
import socket
import sys
import urllib.parse
from typing import Any, Dict, List, Optional

from . import api, audit, providers
from .host import Host, HostError

log = logging.getLogger(__name__)
EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
JOURNAL_LEVELS = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}


class _Lines(logging.Formatter):
    """One line for each record: what others wrote into it makes no second one. systemd reads the level (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        text = "".join(c if c.isprintable() else "?" for c in record.getMessage())
        if "JOURNAL_STREAM" in os.environ:
            return f"<{JOURNAL_LEVELS.get(record.levelno, 7)}>{text}"
        return f"vgpud-openstack: {text}"


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in "keystoneauth", "openstack", "urllib3":
        logging.getLogger(chatty).setLevel(logging.ERROR)


def _cloud(o: argparse.Namespace, **limits: int):
    from . import cloud  # openstacksdk takes a third of a second, which who asks for no cloud need not wait

    return cloud.Cloud(o.os_cloud, o.placement, **limits)


def _keep(o: argparse.Namespace) -> int:
    inventory = _checked(Host(o.host).inventory(), "vgpuctl") if o.inventory is None else _read_inventory(o.inventory)
    # What another host says of itself does not choose whose providers are changed.
    keeper = providers.Keeper(_cloud(o), o.provider or (_plain_name(o.host) if o.host else inventory["host"]), o.check)
    return EXIT_OK if keeper.keep(inventory["gpus"]) else EXIT_FAILED


def _plain_name(host: str) -> str:
    """The name in [USER@]HOST or ssh://[USER@]HOST[:PORT]."""
    return host.rpartition("@")[2] if "://" not in host else urllib.parse.urlsplit(host).hostname or host


def _is_gpu(gpu: Any) -> bool:
    """Whether a host that is believed in what it offers of vgpud's, and in nothing else, may say that."""
    try:
        offers = [(name, type(offer["total"])) for name, offer in gpu["inventories"].items()]
        return isinstance(gpu["gpu"], str) and all(kind is int for _, kind in offers) and all(map(providers.is_ours, [n for n, _ in offers] + gpu["traits"]))
    except (AttributeError, KeyError, TypeError):
        return False


def _checked(inventory: Any, name: str) -> Dict[str, Any]:
    gpus = inventory.get("gpus") if isinstance(inventory, dict) else None
    if isinstance(gpus, list) and gpus and isinstance(inventory.get("host"), str) and inventory["host"] and all(map(_is_gpu, gpus)):
        return inventory
    raise api.CloudError(f"{name}: not what 'vgpuctl inventory --format json' of this version prints")


def _read_inventory(name: str) -> Dict[str, Any]:
    try:
        with open(0 if name == "-" else name, "rb") as f:
            return _checked(api.parse(f.read()), name)
    except OSError as e:
        raise api.CloudError(f"{name}: {e.strerror}") from None


def _answer(o: argparse.Namespace) -> int:
    from . import bookings

    # A start of a VM waits for the answer: one more attempt, after half a second, and no more.
    return bookings.serve(_cloud(o, timeout=bookings.LONGEST_S, retries=1), o.provider or socket.gethostname())


def _audit(o: argparse.Namespace) -> int:
    if o.allocations:
        booked = audit.Booked.of(o.allocations)
    else:
        booked = audit.Booked.at(_cloud(o), o.provider or socket.gethostname())
    host = Host(o.host)
    agree, servers = audit.compare(booked, audit.Given(host), host.domains())
    audit.show(agree, servers, o.format)
    return EXIT_OK if agree else EXIT_FAILED


def _host_name(text: str) -> str:
    if not text or text.startswith("-"):
        raise argparse.ArgumentTypeError("want [USER@]HOST or ssh://[USER@]HOST[:PORT]")
    return text


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vgpud-openstack", description="vgpud's GPUs at OpenStack's placement: docs/fleet.md", allow_abbrev=False,
                                     epilog="Credentials are those of clouds.yaml or of OS_... variables, as for the command openstack.")
    parser.add_argument("--version", action="version", version=f"vgpud-openstack {version}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    there = argparse.ArgumentParser(add_help=False)
    there.add_argument("--host", type=_host_name, help="the vgpud of another host, by ssh: [USER@]HOST or ssh://[USER@]HOST[:PORT]")
    at = argparse.ArgumentParser(add_help=False)
    at.add_argument("--os-cloud", metavar="NAME", help="the cloud of clouds.yaml (default: $OS_CLOUD)")
    at.add_argument("--placement", metavar="URL", help="placement's URL (default: that of Keystone's catalog)")
    at.add_argument("--provider", metavar="NAME", help="the host's resource provider (default: the host's name)")

    def add(name: str, function, parents: list, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=parents, help=text, description=text, allow_abbrev=False)
        command.set_defaults(function=function)
        return command

    keep = add("providers", _keep, [at, there], "keep a resource provider for each GPU of a host")
    keep.add_argument("--check", action="store_true", help="change nothing, and fail if something would be changed")
    keep.add_argument("--inventory", metavar="FILE", help="what 'vgpuctl inventory --format json' has written (default: ask vgpud)")
    add("bookings", _answer, [at], "answer vgpud which GPU is booked for a VM, at the socket that systemd passes")
    compare = add("audit", _audit, [at, there], "compare what is booked with what VMs have")
    compare.add_argument("--allocations", metavar="FILE", help="what the providers' allocations are, without asking placement")
    compare.add_argument("-o", dest="format", choices=["text", "json", "csv"], default="text", help="the format of the output (default: text)")
    return parser


def main(version: str, argv: Optional[List[str]] = None) -> int:
    """Runs a command. Returns its exit code."""
    parser = _parser(version)
    o = parser.parse_args(argv)
    if getattr(o, "allocations", None) and (o.placement or o.provider or o.os_cloud):
        parser.error("--allocations is in place of --os-cloud, --placement and --provider")
    if getattr(o, "inventory", None) and o.host:
        parser.error("--inventory is in place of --host")
    _log_to_stderr()
    try:
        code = o.function(o)
        sys.stdout.flush()
        return code
    except HostError as e:
        if str(e):
            log.error("%s", e)
        return e.code
    except api.CloudError as e:
        log.error("%s", e)
    except OSError as e:  # stdout is full, or nobody reads it
        log.error("stdout: %s", e.strerror)
        sys.stdout = None  # its buffer is not tried again
    return EXIT_FAILED
