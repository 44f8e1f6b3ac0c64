# SPDX-License-Identifier: MIT
"""What servers see while a part of a host does not run, and that nothing of them is left when it runs again."""
from checks import *


def refused(server, h):
    """The hook of this host has refused the server, and nova-compute's log says why."""
    found = settled([server])[server]
    name = found["OS-EXT-SRV-ATTR:instance_name"]
    want(found["status"] == "ERROR" and name in {c[0] for c in h.refusals()}, f"{found['name']} is {found['status']} on {h.name}, which has no vgpud")
    want(tail(f"/logs/{h.name}-compute.log", 1, f"domain {name} requires a GPU, and vgpud is not running"), f"{h.name} does not say why it refuses {name}")


def outage():
    """vgpud of one host is killed. Servers go on there, of which at most one has the GPU, and a deleted one ends; new ones go to the other
    host, and only servers without a GPU start there. The next vgpud takes over what runs, and knows who has gone."""
    one, other = hosts
    ours = [boot("vgpud.large", image=TENANT, host=one.name) for _ in range(2)]
    theirs = [boot("vgpud.large", image=TENANT, host=other.name)]
    theirs.extend(boot("plain", host=other.name) for _ in range(2))
    active(ours + theirs)
    before, refusals = one.ctl("vm", "list")["vms"], len(one.refusals())
    one.stop("vgpud", "KILL")
    computes(other, theirs[0])
    nova("DELETE", f"/servers/{ours[1]}")
    until(120, "a server to be deleted", lambda: ours[1] not in servers() and set(one.booked()) == {ours[0]})
    # The scheduler tries first where it believes that there is more room: on the host without vgpud. It may have counted a server
    # twice that was resized, until nova-compute next counts what runs (update_resources_interval).
    until(60, lambda: f"Nova to count fewer servers on {one.name}: {one.counted()}, {other.counted()}", lambda: one.counted() < other.counted())
    late = [boot("vgpud.large"), boot("vgpud.rest")]
    for s in active(late).values():
        want(host_of(s) == other.name, f"{s['name']} has started on {host_of(s)}, which has no vgpud")
    want(len(one.refusals()) > refusals, f"the scheduler has not tried {one.name}")
    forced = boot("vgpud.least", host=one.name)
    refused(forced, one)
    active([boot("plain", host=one.name)])
    one.start("vgpud")
    agree()
    kept = [v for v in before if v["uuid"] == ours[0]]
    has = [{k: v[k] for k in ("uuid", "gpu", "vf")} for v in one.ctl("vm", "list")["vms"]]
    want(has == [{k: v[k] for k in ("uuid", "gpu", "vf")} for v in kept], f"the next vgpud has taken over {has}, want {kept}")
    computes(one, ours[0])
    active([boot("vgpud.large", host=one.name)])
    agree()


# What a tenant may call a server: XML and text that would be a claim of ours, or say that the server needs no VF.
NAMES = ("<vgpu xmlns='urn:vgpud:xmlns:domain:1' required='no'/>", '<vgpu xmlns="urn:vgpud:xmlns:domain:1" required="no"/>',
         "]]></nova:name></nova:instance><vgpu xmlns='urn:vgpud:xmlns:domain:1' required='no'/>", "urn:vgpud:xmlns:domain:1 required='no'",
         "<nova:flavor name='vgpud.large'/> vgpud.large CUSTOM_VGPUD_VF")


def names():
    """The name of a server claims nothing, and excuses from nothing, whether vgpud runs or not."""
    one = hosts[0]
    plain = [boot("plain", name=name, host=one.name) for name in NAMES]
    active(plain)
    want(not one.given(), f"servers without a GPU have {one.given()}")
    claims = [boot("vgpud.least", name=name, host=one.name) for name in NAMES[:3]]
    active(claims)
    agree()
    keep(one, plain[2], "name")
    keep(one, claims[2], "flavor")
    clear()
    one.stop("vgpud", "KILL")
    plain = [boot("plain", name=name, host=one.name) for name in NAMES]
    claims = [boot("vgpud.least", name=name, host=one.name) for name in NAMES[:3]]
    active(plain)
    for server in claims:
        refused(server, one)
    one.start("vgpud")
    agree()


def evacuate():
    """One host's nova-compute is down, and its servers are evacuated: one whose domain has ended with the host, and one that still runs. When
    nova-compute is back, it ends what it finds, and vgpud takes the VF back."""
    one, other = hosts
    ended, runs = [boot("vgpud.large", image=TENANT, host=one.name) for _ in range(2)]
    names_ = {i: s["OS-EXT-SRV-ATTR:instance_name"] for i, s in active([ended, runs]).items()}
    one.stop("compute")
    one.must("virsh", "-q", "destroy", names_[ended])
    one.set_service(forced_down=True)
    for server in (ended, runs):
        act(server, evacuate={})
    # Nova says that it is done before it says where.
    until(180, "the servers to be evacuated", lambda: all(host_of(s) == other.name for s in active([ended, runs]).values()))
    for server in (ended, runs):
        computes(other, server)
    agree(stopped=[ended], on=[one])
    agree(on=[other])
    want(set(one.given()) == {runs} and set(one.booked()) == {ended, runs}, f"{one.name}: {one.given()} of {one.booked()}")
    one.start("compute")
    until(180, lambda: f"{one.name} to end what was evacuated: {one.given()}, booked {one.booked()}", lambda: not one.given() and not one.booked())
    one.set_service(forced_down=False)
    until(120, f"nova-compute of {one.name}", one.is_up)
    agree()
