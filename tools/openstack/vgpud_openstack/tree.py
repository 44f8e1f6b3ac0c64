# SPDX-License-Identifier: MIT
"""A host's resource providers: its own, which Nova makes, and those of vgpud's GPUs right below it, named HOST_vgpud_GPU."""
from typing import Any, Dict, Iterator, NamedTuple, Optional
from urllib.parse import quote

from . import amounts, api

INFIX = "_vgpud_"


class Provider(NamedTuple):
    uuid: str
    name: str
    gpu: Optional[str]  # None: it is no GPU's

    @property
    def path(self) -> str:
        return f"resource_providers/{quote(self.uuid, safe='')}"


def _list(placement: api.Placement, what: str, **query: str) -> Iterator[Dict[str, Any]]:
    for provider in api.member(placement.must(what, "GET", "resource_providers", **query), "resource_providers", list, what):
        for key in "uuid", "name":
            api.member(provider, key, str, what)
        yield provider


class Tree:
    """The providers of HOST, as they are now."""

    def __init__(self, placement: api.Placement, host: str):
        root = next(_list(placement, "to list providers", name=host), None)
        if root is None:
            raise api.CloudError(f"placement has no provider {host}: start nova-compute on the host, or name its provider with "
                                   "--provider (the hypervisor's host name)")
        found = list(_list(placement, "to list the host's providers", in_tree=root["uuid"]))
        if root["uuid"] not in (p["uuid"] for p in found):
            raise api.not_understood("to list the host's providers")
        self.host, prefix = host, host + INFIX
        self.own = Provider(root["uuid"], root["name"], None)
        self.all = [Provider(p["uuid"], p["name"], p["name"][len(prefix):] if p["name"].startswith(prefix) and
                             p.get("parent_provider_uuid") == root["uuid"] else None) for p in found]
        self.gpus = {p.gpu: p for p in self.all if p.gpu is not None}


def bookings(placement: api.Placement, provider: Provider) -> Dict[str, amounts.Amounts]:
    """What is booked of a provider, by server."""
    path = provider.path + "/allocations"
    return amounts.by_server(placement.must("to list what is booked", "GET", path), path)
