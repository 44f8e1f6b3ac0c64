#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""late.py HOOK: vgpud-oci-hook gives a lease back, and says why, if a container's start takes too long.

A process that shares this mount namespace is no container, so the hook has a lease and cannot use it. Whoever is vgpud here does not
answer what it says about that: the hook's process waits, until the one above it ends it.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

said = []


def serve(connection, hears):
    lines = connection.makefile('rw')
    for line in lines:
        order = json.loads(line)
        said.append((order['method'], order.get('args')))
        result = {'lease': 'L1', 'dir': '/', 'gpu': 'g'} if order['method'] == 'tenant.start' else {}
        if hears or order['method'] != 'tenant.note':
            lines.write(json.dumps({'id': order.get('id'), 'result': result}) + '\n')
            lines.flush()


def accept(listener):
    hears = False  # the first connection is that of the process that waits
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], hears), daemon=True).start()
        hears = True


with tempfile.TemporaryDirectory() as run:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(run + '/tenant.sock')
    listener.listen(8)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    state = {'ociVersion': '1.0', 'id': 'late', 'pid': os.getpid(), 'root': run, 'bundle': run, 'annotations': {}}
    r = subprocess.run([sys.argv[1], 'createRuntime', '--gpu', 'g'], input=json.dumps(state), text=True, stderr=subprocess.PIPE,
                       env={'VGPUD_TENANT_SOCKET': run + '/tenant.sock'}, timeout=120, check=False)
notes = [args['why'] for method, args in said if method == 'tenant.note']
stops = [args for method, args in said if method == 'tenant.stop']
if r.returncode != 1 or 'no answer in 20 seconds' not in r.stderr or len(notes) != 2 or notes[1] not in r.stderr or stops != [{'lease': 'L1'}]:
    sys.exit(f'FAILED: ended with {r.returncode}, and said: {r.stderr}; to vgpud: {said}')
