#!/bin/bash
# SPDX-License-Identifier: MIT
# A name service that does not answer delays a start and a reload for a bounded time, and nothing else; and a vgpud that is told to end
# while it starts leaves nothing behind.
. "$(dirname "$0")/lib.sh"
tenants() { # NAME...
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		hook_socket = $run/hook.sock
		tenant_socket = $run/tenant.sock
		leases = $run/leases.json
		live = $run/live.json
		[gpu gpu0]
		device = null:
		vfs = 4
	CONF
	for name in "$@"; do printf '[tenant %s]\nleases = 3\n' "$name" >>"$run/vgpud.conf"; done
}
left() { find "$run" -name '*.sock*' ! -name '*.note'; }
tenants somebody
# At the moment at which each of its sockets appears, and a little later.
for n in $(seq 30); do
	python3 - "$vgpud" "$run" "$n" <<-'PY' || fail "vgpud was told to end while it started: $(left; tail -3 "$run/vgpud.log")"
		import os, signal, subprocess, sys, time
		vgpud, run, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
		with open(run + '/vgpud.log', 'a') as log:
		    p = subprocess.Popen([vgpud, '--config', run + '/vgpud.conf'], stderr=log)
		    socket = run + ('/control.sock', '/hook.sock', '/tenant.sock')[n % 3]
		    end = time.monotonic() + 60
		    while not os.path.exists(socket) and p.poll() is None and time.monotonic() < end:
		        pass
		    p.send_signal((signal.SIGTERM, signal.SIGINT)[n % 2])
		    sys.exit(p.wait() != 0)
	PY
	[ -z "$(left)" ] || fail "a vgpud that was told to end while it started leaves $(left)"
done
! sanitized "$vgpud" || { echo "skipped: a name service that hangs: nothing can be loaded before a sanitizer"; exit 0; }
rm "$run/vgpud.log"
HANGS_NOW=$run/hangs LD_PRELOAD=$VGPU_BUILD/tests/system/libslow_names.so start_vgpud
! grep -q "tenant somebody" "$run/vgpud.log" || fail "somebody was not found: $(grep tenant "$run/vgpud.log")"
tenants somebody hangs nobody-here
python3 - "$run/control.sock" <<-'PY' || fail "a reload and a name service that hangs: $(tail -3 "$run/vgpud.log")"
	import json, select, socket, sys
	def connect():
	    s = socket.socket(socket.AF_UNIX)
	    s.settimeout(60)
	    s.connect(sys.argv[1])
	    return s, s.makefile('r')
	def ask(s, method):
	    s[0].sendall((json.dumps({'id': 1, 'method': method}) + '\n').encode())
	def answer(s):
	    return json.loads(s[1].readline())
	reload, other = connect(), connect()
	ask(reload, 'config.reload')
	for i in range(3):
	    ask(other, 'vf.list')
	    assert 'result' in answer(other)
	ask(other, 'config.reload')
	assert 'a reload is under way' in answer(other)['error']['message']
	assert not select.select([reload[0]], [], [], 0)[0], 'the reload did not wait for names'
	assert 'result' in answer(reload)
PY
grep -q "tenant hangs.: the host's name service does not answer" "$run/vgpud.log" || fail "nobody is told whose limits are unknown: $(tail -3 "$run/vgpud.log")"
! grep -q "tenant somebody" "$run/vgpud.log" || fail "a name that hangs keeps another from being found: $(grep tenant "$run/vgpud.log")"
# Who had a name keeps his limits while it cannot be found.
touch "$run/hangs"
ctl config reload >"$run/said" || fail "$(cat "$run/said")"
grep -q "tenant somebody.*its limits are those of whoever had the name" "$run/vgpud.log" || fail "a name service that hangs takes limits away: $(tail -3 "$run/vgpud.log")"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
