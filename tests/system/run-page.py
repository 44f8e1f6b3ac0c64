#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""run-page.py [--show] [--outside PATTERN] PAGE HEADING: runs what a section of a document shows, and compares what it prints.

In the blocks ```console of the section, a line that begins with "# " is a command of root; what follows, up to the next command,
is what it prints, with its errors. A block ```FORMAT FILE makes the file, in the directory where the commands run. Numbers,
dates, UUIDs and the space between words are not compared. "..." in a line of the document stands for any words, and alone for any number
of lines. A command of vgpuctl's that only looks is run again for some seconds until it prints what the document shows: what a VM's
claim says is in force a moment after it was changed. Commands that begin with a match of PATTERN are not run: whoever calls this has
done what they do. --show prints what the commands print instead."""
import argparse
import re
import subprocess
import sys
import time

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--show", action="store_true")
arguments.add_argument("--outside", default="(?!)")
arguments.add_argument("page")
arguments.add_argument("heading")
options = arguments.parse_args()
show, page, heading = options.show, options.page, options.heading
TIMEOUT = 120
AGAIN = 20  # seconds
LOOKS = re.compile(r"vgpuctl (vm list|vm explain|vf list|gpu list|policy explain|events)\b")


def section():
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", open(page).read(), re.M | re.S)
    assert found, f"{page} has no section {heading}"
    return found.group(1)


def commands(block):
    """Splits a block into pairs of a command and what it prints; a here-document belongs to its command."""
    ends, command, output = None, [], []
    for line in block.splitlines():
        if ends is not None:
            command.append(line)
            ends = None if line == ends else ends
        elif line.startswith("# "):
            if command:
                yield "\n".join(command), output
            command, output = [line[2:]], []
            here = re.search(r"<<'?(\S+?)'?$", line)
            ends = here and here.group(1)
        else:
            output.append(line)
    assert ends is None, f"a here-document does not end with {ends}"
    if command:
        yield "\n".join(command), output


def plain(line):
    """What is compared of a line: everything but its numbers, dates, UUIDs, and how wide its columns are."""
    words = " ".join(line.split())
    words = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", words)
    words = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", words)
    return re.sub(r"(?<![\w-])-?\d+(\.\d+)?", "N", words)


def like(want, has):
    """Whether a line HAS is that of the document."""
    return re.fullmatch(".*".join(re.escape(part) for part in plain(want).split("...")), plain(has)) is not None


def same(wants, has):
    """Whether the lines HAS are those of the document."""
    if not wants:
        return not has
    if wants[0] == "...":
        return any(same(wants[1:], has[i:]) for i in range(len(has) + 1))
    return bool(has) and like(wants[0], has[0]) and same(wants[1:], has[1:])


def run(command):
    """The lines that a command prints, but for empty ones."""
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=TIMEOUT, text=True)
    return [line for line in done.stdout.splitlines() if line.strip()]


n = wrong = outside = 0
for kind, name, block in re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", section(), re.M | re.S):
    if kind != "console":
        if name:
            open(name, "w").write(block)
        continue
    for command, wants in commands(block):
        if re.match(options.outside, command):
            outside += 1
            continue
        wants = [line for line in wants if line.strip()]
        end = time.monotonic() + AGAIN
        has = run(command)
        while not show and LOOKS.match(command) and not same(wants, has) and time.monotonic() < end:
            time.sleep(0.1)
            has = run(command)
        n += 1
        if show:
            print("# " + command, *has, sep="\n")
        elif not same(wants, has):
            wrong += 1
            print(f"FAILED: {page}: # {command}", "--- the document has", *wants, "--- it prints", *has, sep="\n")
done = f" ({outside} more were run elsewhere)" if outside else ""
print(f"{n} commands of {page}, {heading}: {wrong} print something else than the document{done}")
sys.exit(wrong > 0 or n == 0)
