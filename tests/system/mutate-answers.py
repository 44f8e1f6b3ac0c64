#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# In the place of ssh: another host whose vgpud answers, and each part of whose answers may be something else, by the seed in $SEED. It
# stays when its client has gone.
import json
import os
import random
import socket
import sys
import time

rest = ["\u001b[2J\u009b31m\u0007", "", None, 7, -1, 1e300, 2**63 - 1, True, [], {}, [None], [[1]], {"a": None}, {"\u001bkey": "x"}, "x" * 3000, "%s%n"]
chance = random.Random(int(os.environ["SEED"]))
rate = chance.choice([0.02, 0.1, 0.5])


def mutate(o):
    if chance.random() < rate:
        return chance.choice(rest)
    if isinstance(o, dict):
        return {k: mutate(v) for k, v in o.items() if chance.random() > rate / 4}
    if isinstance(o, list):
        return [mutate(v) for v in o] * chance.choice([1, 1, 1, 0, 2])
    return o


s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["VGPUD"])
answers = s.makefile()
for line in sys.stdin:
    s.sendall(line.encode())
    answer = json.loads(answers.readline())
    part = "result" if "result" in answer else "error"
    answer[part] = mutate(answer[part])
    print(json.dumps(answer), flush=True)
time.sleep(int(os.environ.get("STAYS", 0)))
