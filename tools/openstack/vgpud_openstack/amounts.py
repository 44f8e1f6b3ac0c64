# SPDX-License-Identifier: MIT
"""What allocations of placement have booked of vgpud's resource classes."""
from typing import Any, Dict, List, Optional

from . import api

PREFIX = "CUSTOM_VGPUD"
CLASSES = ("VF", "SHARE", "MEMORY_MB")
LARGEST = (1 << 31) - 1  # placement's amounts are INTEGERs of SQL

Amounts = List[int]  # of CLASSES, in their order


def read(resources: Any, what: str) -> Optional[Amounts]:
    """The amounts among RESOURCES, of an allocation; None: there are none of vgpud's."""
    if not isinstance(resources, dict):
        raise api.not_understood(what)
    ours = {name[len(PREFIX) + 1:]: n for name, n in resources.items() if name.startswith(PREFIX + "_")}
    if any(type(n) is not int or not 0 <= n <= LARGEST for n in ours.values()):
        raise api.not_understood(what)
    return [ours.get(c, 0) for c in CLASSES] if ours else None


def by_server(answer: Any, what: str) -> Dict[str, Amounts]:
    """Reads a provider's allocations. Those of one server, by provider, name a project, and are refused: nobody could tell them apart
    later."""
    allocations = api.member(answer, "allocations", dict, what)
    if answer.get("project_id"):
        raise api.not_understood(what)
    found = {server: read(api.member(a, "resources", dict, what), what) for server, a in allocations.items()}
    return {server: amounts for server, amounts in found.items() if amounts}


def add(sums: Dict[str, Amounts], more: Dict[str, Amounts]) -> None:
    """Adds MORE to SUMS, by server."""
    for server, amounts in more.items():
        sums[server] = [a + b for a, b in zip(sums.get(server, [0] * len(CLASSES)), amounts)]


def named(amounts: Optional[Amounts]) -> Optional[Dict[str, int]]:
    """The amounts by class, for output."""
    return dict(zip(CLASSES, amounts)) if amounts else None
