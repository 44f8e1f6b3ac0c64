# SPDX-License-Identifier: MIT
"""Keeps a resource provider for each GPU of a host at placement.

Placement gives each provider a generation, which every change of the provider makes greater; a change that names an older one gets 409
with the code placement.concurrent_update. Then the provider is read again, and the change is made for what it is now."""
import logging
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import amounts, api, tree

log = logging.getLogger(__name__)
TRIES = 5
CONFLICT = 409

Gpu = Dict[str, Any]  # of `vgpuctl inventory -o json`


def is_ours(name: str) -> bool:
    return name.startswith(amounts.PREFIX)


def _inventories(gpu: Optional[Gpu], has: Dict[str, Any]) -> Dict[str, Any]:
    """What the GPU offers. What somebody has reserved stays reserved, and what else the provider has, it keeps: placement replaces all
    of it together."""
    wanted = {name: inventory for name, inventory in has.items() if not is_ours(name)}
    for name, offer in (gpu["inventories"] if gpu else {}).items():
        old = has.get(name)
        reserved = old.get("reserved") if isinstance(old, dict) else 0
        reserved = min(reserved, offer["total"]) if type(reserved) is int else 0
        wanted[name] = {**offer, "reserved": reserved, "allocation_ratio": 1.0}
    return wanted


def _traits(gpu: Optional[Gpu], has: List[Any]) -> List[str]:
    """The GPU's traits (None: none), and those that somebody else gave to the provider."""
    return sorted({*(gpu["traits"] if gpu else []), *(t for t in has if isinstance(t, str) and not is_ours(t))})


class Aspect(NamedTuple):
    """One of the two things that a provider has."""

    key: str
    change: str  # "GPU: was CHANGE"
    kind: type
    wanted: Callable[[Optional[Gpu], Any], Any]
    names: str  # where placement keeps the names
    name: str  # what one of them is called


INVENTORIES = Aspect("inventories", "given its inventory", dict, _inventories, "resource_classes", "a resource class")
TRAITS = Aspect("traits", "given its traits", list, _traits, "traits", "a trait")
# Nova never takes a trait away: those of a provider configuration stay after it is removed.
HOST_TRAITS = TRAITS._replace(change="rid of old traits of vgpud's")


class Keeper:
    """CHECK: says what would be changed, and changes nothing."""

    def __init__(self, placement: api.Placement, host: str, check: bool):
        self.placement, self.check, self.changes = placement, check, 0
        self.tree = tree.Tree(placement, host)

    def _note(self, name: str, change: str) -> None:
        print(f"{name}: {'would be ' if self.check else ''}{change}", flush=True)
        self.changes += 1

    def _aspect(self, aspect: Aspect, provider: tree.Provider, gpu: Optional[Gpu]) -> None:
        """Makes an aspect of a provider what it should be, whoever changes the provider meanwhile."""
        what, path = f"the {aspect.key} of {provider.name}", f"{provider.path}/{aspect.key}"
        for _ in range(TRIES):
            body = self.placement.must(what, "GET", path)
            has = api.member(body, aspect.key, aspect.kind, path)
            wanted = aspect.wanted(gpu, has)
            if wanted == (sorted(has, key=str) if aspect.kind is list else has):
                return
            if self.check:
                break
            for name in filter(is_ours, wanted):  # placement knows most of them already
                self.placement.must(aspect.name, "PUT", f"{aspect.names}/{name}")
            answer = self.placement.request("PUT", path, {aspect.key: wanted, "resource_provider_generation": body.get("resource_provider_generation")})
            if answer.good:
                break
            if answer.status != CONFLICT or answer.fault("code") != "placement.concurrent_update":
                raise api.refused(what, answer)
        else:
            raise api.refused(what, answer)
        self._note(provider.name, aspect.change)

    def _gpu(self, gpu: Gpu) -> None:
        provider = self.tree.gpus.get(gpu["gpu"])
        if provider is None:
            name = f"{self.tree.host}{tree.INFIX}{gpu['gpu']}"
            what = f"to make {name}"
            if not self.check:
                made = self.placement.must(what, "POST", "resource_providers", {"name": name, "parent_provider_uuid": self.tree.own.uuid})
                provider = tree.Provider(api.member(made, "uuid", str, what), name, gpu["gpu"])
            self._note(name, "made")
        if provider is not None:
            self._aspect(INVENTORIES, provider, gpu)
            self._aspect(TRAITS, provider, gpu)

    def _drop(self, provider: tree.Provider) -> bool:
        """Deletes a provider whose GPU is gone. Placement keeps one that servers have booked."""
        try:
            if not self.check:
                self.placement.must(f"to delete {provider.name}, whose GPU is gone", "DELETE", provider.path)
        except api.CloudError as e:
            log.error("%s", e)
            return False
        self._note(provider.name, "deleted")
        return True

    def _check_host(self) -> None:
        """Refuses if the host's own provider offers the same: it would be offered twice."""
        path = self.tree.own.path + "/inventories"
        body = self.placement.must("to show the host's inventory", "GET", path)
        for name in filter(is_ours, api.member(body, "inventories", dict, path)):
            raise api.CloudError(f"the provider {self.tree.host} has {name} itself, and the GPUs would be offered twice: remove Nova's provider "
                                   "configuration (vgpud.yaml) and restart nova-compute first")

    def keep(self, gpus: List[Gpu]) -> bool:
        """Makes the providers what GPUS say: one for each, and none for GPUs that are gone. Returns whether all is as it should be."""
        self._check_host()
        good = True
        try:
            self._aspect(HOST_TRAITS, self.tree.own, None)
            for gpu in gpus:
                self._gpu(gpu)
        except api.CloudError as e:
            log.error("%s", e)
            good = False
        there = {gpu["gpu"] for gpu in gpus}
        good &= all([self._drop(p) for name, p in self.tree.gpus.items() if name not in there])
        if good and not self.changes:
            print(f"{self.tree.host}: up to date")
        return good and not (self.check and self.changes)
