# SPDX-License-Identifier: MIT
"""What a GPU host has, as its vgpud and its libvirt say: asked by vgpuctl and vgpud-libvirt, here or by ssh."""
import json
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .api import LONGEST

SSH_FAILED, NOT_REACHED = 255, 3


class HostError(Exception):
    """vgpud or libvirt gave no answer. `code` is an exit code of vgpuctl's; an empty text: the reason is on stderr already."""

    def __init__(self, code: int, text: str = ""):
        super().__init__(text)
        self.code = code


def not_understood(program: str) -> HostError:
    return HostError(1, f"{program}: not what it prints in this version")


_SPACE = re.compile(r"\s*")


class Domains(NamedTuple):
    """libvirt's domains by UUID: their names, and which of them run."""

    names: Dict[str, str]
    running: Dict[str, bool]


class Host:
    """NAME: [USER@]HOST for ssh; None: this machine."""

    def __init__(self, name: Optional[str] = None):
        self.name = name

    def _output(self, program: Sequence[str]) -> str:
        try:
            with subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
                text = child.stdout.read(LONGEST + 1)
                if len(text) > LONGEST:
                    child.kill()
        except OSError as e:
            raise HostError(1, f"cannot run {program[0]}: {e.strerror}") from None
        if len(text) > LONGEST:
            raise HostError(1, f"{program[0]}: longer than {LONGEST} bytes, the most that are read")
        if child.returncode:
            raise HostError(child.returncode if child.returncode > 0 else 1)
        return text.decode(errors="replace")

    def ask(self, *words: str) -> List[Any]:
        """The answers of `vgpuctl WORDS -o json`, which are one for each GPU where the command is about each GPU."""
        text = self._output(["vgpuctl", *(["--host", self.name] if self.name else []), *words, "-o", "json"])
        decoder, answers, at = json.JSONDecoder(), [], _SPACE.match(text).end()
        try:
            while at < len(text):
                answer, at = decoder.raw_decode(text, at)
                at = _SPACE.match(text, at).end()
                answers.append(answer)
        except (ValueError, RecursionError):
            raise not_understood("vgpuctl") from None
        if not answers:
            raise not_understood("vgpuctl")
        return answers

    def inventory(self) -> Dict[str, Any]:
        """What the host offers to VMs. vgpuctl refuses if there is no GPU, or if one of them is lost."""
        return self.ask("inventory")[0]

    def domains(self) -> Optional[Domains]:
        """None: libvirt cannot be asked."""
        command = ["vgpud-libvirt", "list"]
        try:
            text = self._output(["ssh", "-T", "--", self.name, "exec " + " ".join(command)] if self.name else command)
        except HostError:
            return None
        found = Domains({}, {})
        for line in text.splitlines():
            uuid, _, rest = line.partition(" ")
            state, _, name = rest.partition(" ")
            if is_uuid(uuid) and state and name:  # the shell of another host may print lines of its own
                found.names[uuid.lower()] = name
                if state == "running":
                    found.running[uuid.lower()] = True
        return found


def is_uuid(text: str) -> bool:
    """Whether that is a UUID in its usual form: groups of 8, 4, 4, 4 and 12 hexadecimal digits."""
    groups = text.split("-")
    return [len(g) for g in groups] == [8, 4, 4, 4, 12] and all(c in "0123456789abcdefABCDEF" for g in groups for c in g)
