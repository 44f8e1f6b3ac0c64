#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""servers.py [PART...]: what servers of the fleet do, and what must hold. Each part begins and ends with hosts that have none."""
import datetime, json, os, pathlib, re, subprocess, sys, time, traceback
import failures, gpus, latency, operations, parts
from checks import *

PARTS = {p.__name__: p for p in (parts.fill, parts.compute, parts.race, parts.life, parts.resize, parts.specs, failures.outage,
                                 failures.names, failures.evacuate, latency.latency, operations.operations, gpus.gpus)}


def machine():
    cpu = re.search("model name.*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True).stdout.split()[3]
    return f"{cpu}, {os.cpu_count()} CPUs, Linux {os.uname().release}, QEMU {qemu} with TCG, Nova {release()} of Debian's packages"


def main():
    # Up to Nova 31 no extra spec is in a domain.
    chosen = sys.argv[1:] or [p for p in PARTS if p not in ("specs", "gpus") or release() > 31]
    prepare()
    figures.update({"bench": "cloud", "day": str(datetime.date.today()), "machine": machine()})
    figures["ready_s"] = round(time.monotonic() - begun, 1)
    for part in chosen:
        start = time.monotonic()
        PARTS[part]()
        clear()
        figures.setdefault("parts_s", {})[part] = round(time.monotonic() - start, 1)
        say(f"{part}: {figures['parts_s'][part]} s")
    pathlib.Path("/logs/figures.json").write_text(json.dumps(figures, indent=1) + "\n")


try:
    main()
except Exception as failure:
    say(f"FAILED: {failure}" if isinstance(failure, Failed) else "FAILED: " + traceback.format_exc())
    for log in sorted(pathlib.Path("/logs").glob("n*.log")):
        if lines := tail(log, 3, r" ERROR nova\.(compute|virt|conductor|scheduler)|FAILED").splitlines():
            print(f"--- {log}", *(line[:1000] for line in lines), sep="\n")
    sys.exit(1)
