#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile-libvirtd.py SOCKET KIND: a libvirtd that lies. storm: events without an end; long: many domains, each with 4 MiB of XML;
churn: other domains with claims each time; mute: it answers nothing that is about domains. Prints "asked" when its domains are asked for,
and then, each time that they are listed, "looks N P": they were listed N times before, and these looks took the part P of the time.

Its answers are packets of libvirt's protocol, src/rpc/virnetprotocol.x and src/remote/remote_protocol.x."""
import os
import random
import socket
import struct
import sys
import threading
import time

REMOTE, KEEPALIVE = 0x20008086, 0x6B656570
OPEN, SUPPORTS, AUTH_LIST, GET_URI = 1, 60, 66, 110
XML, STATE, LIST, REGISTER, LIFECYCLE = 14, 212, 273, 316, 318
path, kind = sys.argv[1:]


def text(s):
    return struct.pack('>I', len(s)) + s + b'\0' * (-len(s) % 4)


def domain(n):
    return text(b'vm%d' % n) + struct.pack('>4Ii', 0x11111111, 0x22224333, 0x84445555, n, n)


def xml(n):
    claim = b"<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'/></v:vgpu>"
    fill = b'x' * (4194304 - 1000) if kind == 'long' else b''
    uuid = b'11111111-2222-4333-8444-5555%08x' % n
    return b"<domain type='qemu'><name>vm%d</name><uuid>%s</uuid><metadata>%s</metadata><description>%s</description></domain>" % (n, uuid, claim, fill)


def domains():
    return random.sample(range(1, 1 << 31), 64) if kind == 'churn' else range(1, 65 if kind == 'long' else 9)


def answer(procedure, args):
    """Returns what is answered; None: an error, b'-': nothing at all."""
    if procedure in (LIST, XML, STATE):
        print('asked', flush=True)
        if kind == 'mute':
            return b'-'
    if procedure == AUTH_LIST:
        return struct.pack('>II', 1, 0)
    if procedure == OPEN:
        return b''
    if procedure in (SUPPORTS, REGISTER):
        return struct.pack('>i', 1)
    if procedure == GET_URI:
        return text(b'qemu:///system')
    if procedure == LIST:
        all_of = list(domains())
        return struct.pack('>I', len(all_of)) + b''.join(map(domain, all_of)) + struct.pack('>I', len(all_of))
    if procedure == XML:
        name = args[4:4 + struct.unpack('>I', args[:4])[0]]
        return text(xml(int(name[2:])))
    if procedure == STATE:
        return struct.pack('>ii', 1, 1)
    return None


def packet(program, procedure, sort, serial, status, body):
    return struct.pack('>IIIiiIi', 28 + len(body), program, 1, procedure, sort, serial, status) + body


def storm(peer, lock):
    event = packet(REMOTE, LIFECYCLE, 2, 0, 0, struct.pack('>i', 1) + domain(1) + struct.pack('>ii', 2, 0)) * 100
    try:
        while True:
            with lock:
                peer.sendall(event)
            time.sleep(0.001)  # answers come as well
    except OSError:
        pass


def serve(peer):
    lock, stream, storms = threading.Lock(), peer.makefile('rb'), False
    looks, first, began, last, busy = 0, 0, 0, 0, 0
    while True:
        head = stream.read(28)
        if len(head) < 28:
            return
        size, program, _, procedure, _, serial, _ = struct.unpack('>IIIiiIi', head)
        args = stream.read(size - 28)
        if program == KEEPALIVE:
            if procedure == 1:
                with lock:
                    peer.sendall(packet(KEEPALIVE, 2, 2, 0, 0, b''))
            continue
        if procedure == LIST:
            now = time.monotonic()
            if looks:
                busy += last - began
                print('looks %d %.3f' % (looks, busy / (now - first)), flush=True)
            first, began, looks = first or now, now, looks + 1
        said = answer(procedure, args)
        if said == b'-':
            continue
        failed = said is None
        if failed:
            said = struct.pack('>iiI', 1, 7, 1) + text(b'no') + struct.pack('>iIIIIiiI', 2, 0, 0, 0, 0, 0, 0, 0)
        with lock:
            peer.sendall(packet(program, procedure, 1, serial, int(failed), said))
        last = time.monotonic()
        if procedure == LIST and kind == 'storm' and not storms:
            storms = True
            threading.Thread(target=storm, args=(peer, lock), daemon=True).start()


def main():
    listener = socket.socket(socket.AF_UNIX)
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(path)
    listener.listen(8)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


main()
