# SPDX-License-Identifier: MIT
"""Hosts with several GPUs, of which each is a provider of its own in placement."""
import collections
from checks import *

FIRST, SECOND = "gpu0", "gpu1"


def provider_of(h, gpu):
    """The UUID of a GPU's provider."""
    name = f"{h.name}_vgpud_{gpu}"
    found = {n: u for u, n in h.providers().items()}
    want(name in found, f"{h.name} has the providers {sorted(found)}, not {name}")
    return found[name]


def reserve(h, gpu, all_of_it):
    """Lets placement book nothing of a GPU any more, or all of it."""
    path = f"/resource_providers/{provider_of(h, gpu)}/inventories/CUSTOM_VGPUD_VF"
    inventory = placement(path)
    inventory["reserved"] = inventory["total"] if all_of_it else 0
    status, answer = call(8778, "placement", "1.39", "PUT", path, inventory)
    want(status == 200, f"placement answers {status}: {answer}")


def follow(h):
    """Every server has VFs of the GPUs that placement has booked for it, as many as it has booked there."""
    agree(on=[h])
    booked = {(u, name.rpartition("_vgpud_")[2]): amounts[0] for (u, name), amounts in h.bookings().items()}
    given = dict(collections.Counter((u, gpu) for u, gpu, _ in h.vfs()))
    want(booked == given, f"placement has booked VFs of {booked}, vgpud has given VFs of {given}")
    return collections.Counter(gpu for _, gpu in given)


def gpus():
    """A host gets a second GPU, and its GPUs are booked one by one. A server has the GPU that is booked for it, although vgpud would have chosen
    another; two groups of a flavor have one each; when one GPU is full, servers go to the other. No part can follow: the host keeps both."""
    one, other = hosts
    other.set_service(status="disabled")
    for what in ("compute", "vgpud"):
        one.stop(what)
    one.must("/fleet/second-gpu")
    for what in ("vgpud", "compute"):
        one.start(what)
    until(180, f"{one.name} to offer nothing of its own", lambda: one.is_up() and not one.totals())
    one.must("vgpud-openstack", "providers", "--provider", one.name)
    want(one.gpus() == [FIRST, SECOND], f"{one.name} has {one.gpus()}")
    empty[0] = one.left()
    make_flavor("half", resources(400, 48, "_GPU"))
    make_flavor("both", {**resources(200, 32, "_A"), **resources(200, 48, "_B"), "group_policy": "isolate"})
    for gpu, closed in ((SECOND, FIRST), (FIRST, SECOND)):
        reserve(one, closed, True)
        server = boot("half", image=TENANT)
        active([server])
        want([g for _, g, _ in one.vfs(server)] == [gpu], f"{gpu} is booked, and the server has {one.vfs(server)}")
        computes(one, server)
        act(server, reboot={"type": "HARD"})
        active([server])
        computes(one, server)
        reserve(one, closed, False)
        follow(one)
    server = boot("both", image=TENANT)
    active([server])
    computes(one, server)
    want(follow(one) == {FIRST: 2, SECOND: 2}, f"two GPUs with a server each, and one server with both: {one.vfs()}")
    clear()
    # One after the other: of a host, Nova only tries placement's first answer, which may be a GPU that another server has just filled.
    for _ in range(4):
        active([boot("half")])
    want(follow(one) == {FIRST: 2, SECOND: 2}, f"four halves of two GPUs: {one.vfs()}")
    no_host([boot("half")])
    figures["gpus"] = one.metric("vgpud_bookings_total", "result")
    want(figures["gpus"]["gpu"] >= 9 and not figures["gpus"]["failed"] and not figures["gpus"]["late"], f"bookings were asked for: {figures['gpus']}")
    other.set_service(status="enabled")
