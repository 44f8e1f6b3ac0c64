# SPDX-License-Identifier: MIT
"""What is asked of placement (docs.openstack.org/api-ref/placement), and what is wrong with its answers. Its lists have no pages."""
import json
from typing import Any, NamedTuple

LONGEST = 16 << 20  # bytes of an answer


class CloudError(Exception):
    """Placement, or Keystone before it, did not do what it was asked to. The text is one line for an operator."""


class Answer(NamedTuple):
    status: int
    body: Any  # what the JSON was; None: there was none

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    def fault(self, key: str) -> str:
        """What placement says of a request that it has refused: its "code" or its "detail"."""
        errors = self.body.get("errors") if isinstance(self.body, dict) else None
        first = errors[0] if isinstance(errors, list) and errors else None
        text = first.get(key) if isinstance(first, dict) else None
        return text if isinstance(text, str) else ""


def refused(what: str, answer: Answer) -> CloudError:
    why = answer.fault("detail").partition("\n")[0]
    if not why and answer.status == 401:
        why = "the credentials are not accepted"
    return CloudError(f"placement refuses {what}: HTTP {answer.status}{': ' if why else ''}{why}")


def not_understood(what: str) -> CloudError:
    return CloudError(f"{what}: not what placement answers")


def member(body: Any, key: str, kind: type, what: str) -> Any:
    """BODY[KEY], which must be of that kind; WHAT it is an answer to."""
    value = body.get(key) if isinstance(body, dict) else None
    if type(value) is not kind:
        raise not_understood(what)
    return value


def parse(text: bytes) -> Any:
    """JSON; None: it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Placement:
    """Placement, however it is reached: cloud.Cloud."""

    def request(self, method: str, path: str, body: Any = None, **query: str) -> Answer:
        """Sends a request, whatever comes of it."""
        raise NotImplementedError

    def must(self, what: str, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Sends a request that must succeed: WHAT, as in "placement refuses WHAT". Returns the answer's JSON."""
        answer = self.request(method, path, body, **query)
        if not answer.good:
            raise refused(what, answer)
        return answer.body
