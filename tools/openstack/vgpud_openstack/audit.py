# SPDX-License-Identifier: MIT
"""Compares what placement has booked on a host with what vgpud gave.

Placement counts what it has booked and never looks at a host; vgpud gives what a claim says and never looks at placement. They differ
when a flavor books and claims nothing (its server starts without a GPU), when an operator changes a claim, and when a server has gone
on one side only. The server's UUID is the domain's."""
import collections
import csv
import json
import sys
from typing import Any, Dict, List, Optional, Tuple

from . import amounts, api, tree
from .host import Domains, Host, not_understood

# By finding: whether it is wrong, and what it means.
FINDINGS = {
    "without-gpu": (True, "runs without a VF: its flavor claims none (Nova up to 31: the flavor must be named vgpud.NAME), or the hook was "
                          "not called (vgpuctl doctor)"),
    "not-attached": (True, "runs without its VF, which vgpud-libvirt has not attached: its log says why (journalctl -u vgpud-libvirt)"),
    "orphan": (True, "libvirt has no such domain: the server is gone and its booking is not, or this is a migration or resize that is not "
                     "confirmed"),
    "not-booked": (True, "has a VF, and placement has booked none for it on this host"),
    "differs": (True, "has another share, memory or number of VFs than was booked"),
    "elsewhere": (True, "has VFs of other GPUs than those that placement has booked: start it again (openstack server reboot --hard)"),
    "unknown": (False, "has no VF; whether it runs cannot be told, because vgpud-libvirt gives no list"),
    "stopped": (False, "does not run"),
    "agrees": (False, "has what was booked"),
}
ANY_SIZE = 1 << 40  # more than any partition has, MiB


class Booked:
    """By server: what it has booked, and how many VFs of each GPU that has a provider of its own."""

    def __init__(self) -> None:
        self.amounts: Dict[str, amounts.Amounts] = {}
        self.on: Dict[str, Dict[str, int]] = collections.defaultdict(dict)

    @classmethod
    def at(cls, placement: api.Placement, host: str) -> "Booked":
        booked = cls()
        for provider in tree.Tree(placement, host).all:
            found = tree.bookings(placement, provider)
            amounts.add(booked.amounts, found)
            if provider.gpu is not None:
                for server, (vfs, *_) in found.items():
                    booked.on[server][provider.gpu] = vfs
        return booked

    @classmethod
    def of(cls, name: str) -> "Booked":
        """Reads a file ("-": stdin) with the answer of one provider, or with a list of those of several."""
        booked = cls()
        try:
            with open(0 if name == "-" else name, "rb") as f:
                text = f.read(api.LONGEST + 1)
        except OSError as e:
            raise api.CloudError(f"{name}: {e.strerror}") from None
        if len(text) > api.LONGEST:
            raise api.CloudError(f"{name}: longer than {api.LONGEST} bytes, the most that are read")
        body = api.parse(text)
        answers = body if isinstance(body, list) else [body]
        if not answers:
            raise api.not_understood(name)
        for answer in answers:
            amounts.add(booked.amounts, amounts.by_server(answer, name))
        return booked


class Given:
    """By VM: what vgpud has given, of which GPUs, the domain's name, and whether it runs without a VF of its own."""

    def __init__(self, host: Host):
        self.amounts: Dict[str, amounts.Amounts] = {}
        self.on: Dict[str, Dict[str, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
        self.names: Dict[str, str] = {}
        self.bare = set()
        try:
            self._read(host)
        except (AttributeError, IndexError, KeyError, TypeError):  # another host may answer anything
            raise not_understood("vgpuctl") from None

    def _read(self, host: Host) -> None:
        vms = host.ask("vm", "list")[0]["vms"]
        vfs = {(answer["gpu"], vf["vf"]): vf for answer in host.ask("vf", "list") for vf in answer["vfs"]}
        for vm in vms:
            uuid, vf = vm["uuid"], vfs[vm["gpu"], vm["vf"]]
            amounts.add(self.amounts, {uuid: [1, (vf["params"].get("min_ppm") or 0) // 1000, vf["memory_bytes"] >> 20]})
            self.names[uuid] = vm["domain"]
            self.on[uuid][vm["gpu"]] += 1
            if vm["state"] == "running" and vm.get("attached") is False:
                self.bare.add(uuid)
        # MiB: a partition is larger than what was claimed by less than that.
        self.spare = max([1, *(m["granule_bytes"] >> 20 if m["exact"] else ANY_SIZE for m in host.ask("memory", "show"))])


def _same(booked: amounts.Amounts, has: amounts.Amounts, spare: int) -> bool:
    """A flavor that books no memory or no VF (Nova's PCI alias does) leaves both to others."""
    vfs, share, memory = booked
    return vfs in (0, has[0]) and share == has[1] and (memory == 0 or memory <= has[2] < memory + spare * has[0])


def _elsewhere(booked: Dict[str, int], has: Dict[str, int]) -> bool:
    """Whether a server has VFs of other GPUs than those of which it has booked any. Flavors that book no VFs leave their number open."""
    return bool(booked) and (booked.keys() != has.keys() or any(n not in (0, has[gpu]) for gpu, n in booked.items()))


def _judge(server: str, booked: Booked, given: Given, domains: Optional[Domains]) -> str:
    """What is found of a server that has booked something."""
    has = given.amounts.get(server)
    if has is None:
        if domains is None:
            return "unknown"
        return "without-gpu" if server in domains.running else "stopped" if server in domains.names else "orphan"
    if server in given.bare:
        return "not-attached"
    if not _same(booked.amounts[server], has, given.spare):
        return "differs"
    return "elsewhere" if _elsewhere(booked.on.get(server, {}), given.on[server]) else "agrees"


def compare(booked: Booked, given: Given, domains: Optional[Domains]) -> Tuple[bool, List[Dict[str, Any]]]:
    """Judges all servers that either side knows. Returns whether all is right, and the findings."""
    names = {**(domains.names if domains else {}), **given.names}
    findings = {server: _judge(server, booked, given, domains) for server in booked.amounts}
    findings.update((server, "not-booked") for server in given.amounts if server not in booked.amounts)
    servers = [{"uuid": server, "domain": names.get(server), "finding": finding, "text": FINDINGS[finding][1],
                "booked": amounts.named(booked.amounts.get(server)), "has": amounts.named(given.amounts.get(server))}
               for server, finding in findings.items()]
    return not any(FINDINGS[f][0] for f in findings.values()), servers


def _cells(server: Dict[str, Any]) -> List[str]:
    sides = ("{VF} VF, {SHARE} permille, {MEMORY_MB} MiB".format(**side) if side else "-" for side in (server["booked"], server["has"]))
    return [" ".join(filter(None, (server["uuid"], server["domain"]))), server["finding"], *sides, server["text"]]


def show(agree: bool, servers: List[Dict[str, Any]], form: str) -> None:
    """Prints the findings as json, csv or text."""
    if form == "json":
        print(json.dumps({"agree": agree, "servers": servers}, indent=2))
        return
    rows = [["SERVER", "FINDING", "BOOKED", "HAS", ""], *map(_cells, servers)]
    if form == "csv":
        csv.writer(sys.stdout).writerows(rows)
        return
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
