# SPDX-License-Identifier: MIT
"""What a server with a GPU costs beside one without."""
import statistics
from checks import *

EACH = 20


def summary(values, unit):
    return {"n": len(values), f"median_{unit}": round(statistics.median(values), 3), f"max_{unit}": round(max(values), 3)}


def latency():
    """Servers are booted one after the other with and without a GPU: from the request to ACTIVE, and the time that libvirt has spent in the
    hook until then. Each kind follows each kind equally often."""
    one = hosts[0]
    took, hook = {"plain": [], "vgpud.least": []}, {"plain": [], "vgpud.least": []}
    for i in range(2 * EACH):
        flavor = ("plain", "vgpud.least", "vgpud.least", "plain")[i % 4]
        calls, asked = len(one.hook_calls()), time.monotonic()
        server = boot(flavor, host=one.name)
        found = until(180, f"a server {flavor} to be active", lambda: (s := nova("GET", f"/servers/{server}")["server"])["status"] in DONE and s, 0.05)
        took[flavor].append(time.monotonic() - asked)
        want(found["status"] == "ACTIVE", f"{flavor}: {found['status']}: {fault(found)}")
        hook[flavor].append(sum(int(c[3]) for c in one.hook_calls()[calls:]) / 1000)
        nova("DELETE", f"/servers/{server}")
        until(120, "the server to be deleted", lambda: not servers())
        until(60, "its lease and booking to end", lambda: not one.given() and not one.booked())
    figures["active"] = {f: summary(v, "s") for f, v in took.items()}
    figures["hook"] = {f: summary(v, "ms") for f, v in hook.items()}
    say(f"latency: {figures['active']}, of which in the hook {figures['hook']}")
