#!/bin/bash
# SPDX-License-Identifier: MIT
# Attacks by those who may only read, and by clients of the metrics: they idle, ask without reading, ask for the longest answers
# again and again, and take all descriptors. vgpud holds a bounded amount of memory for them, logs a few lines, gives them a fifth
# of its control thread's time, and answers root's calls meanwhile.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, to be other users"; exit 77; }
# AddressSanitizer would keep what vgpud has freed.
export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=0:thread_local_quarantine_size_kb=0
greedy=$VGPU_BUILD/tests/system/greedy
readers='65534 65533 65532'
chmod 755 "$run"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
group=$(getent group nogroup | cut -d: -f3)
cat >"$run/vgpud.conf" <<-CONF
	[daemon]
	socket = $run/control.sock
	group = nogroup
	metrics = 127.0.0.1:$port
	[gpu gpu0]
	device = null:command_us=1,memory_mib=8192
	vfs = 31
	policy = equal
	slice_us = 500
CONF
start_vgpud
# As many records as vgpud keeps (32768, less the oldest, which are overwritten meanwhile), so that 'timeline' has its longest
# answer.
full() { [ "$(json timeline --ms 60000 | jq '.records | length')" -ge 32000 ]; }
await 120 full

memory() { awk "/^$1:/ {print \$2 * 1024}" /proc/$vgpud_pid/status; }
ticks() { awk '{print $14 + $15}' /proc/$vgpud_pid/task/$vgpud_pid/stat; }
got() { jq -r ".$1" "$run/attack.json"; }
# attack MODE CONNECTIONS ADDRESS [UID...]: lets greedy attack for three seconds, and checks what must hold for every attack.
attack() {
	local mode=$1 n=$2 to=$3 lines began=$EPOCHREALTIME used rss
	shift 3
	echo 5 >/proc/$vgpud_pid/clear_refs # VmHWM begins again
	rss=$(memory VmRSS) used=$(ticks) lines=$(wc -l <"$run/vgpud.log")
	"$greedy" "$run/control.sock" "$to" "$mode" "$n" 3 "$group" "$@" >"$run/attack.json" 2>"$run/greedy.log" || fail "greedy $mode: $(cat "$run/greedy.log")"
	used=$(($(ticks) - used)) lines=$(($(wc -l <"$run/vgpud.log") - lines)) rss=$(($(memory VmHWM) - rss))
	used=$(awk "BEGIN {print int($used * 100 / $(getconf CLK_TCK) / ($EPOCHREALTIME - $began))}")
	echo "$mode, $n connections to ${to##*/}: $((rss >> 20)) MiB, control thread $used %, $lines lines logged, root waited $(($(got wait_ns) / 1000000)) ms: $(cat "$run/attack.json")"
	[ "$(got lost)" = 0 ] && [ "$(got calls)" -gt 0 ] || fail "$mode: root was not served"
	[ "$lines" -le 3 ] || fail "$mode: vgpud logged $lines lines"
	# Unread answers of at most 32 MiB, and one answer that is being made, twice while it grows.
	[ $rss -le $((48 << 20)) ] || fail "$mode: vgpud took $rss bytes for its readers"
	# A fifth, and the calls of root, a hundred a second; processor time, which other programs of this machine do not add to.
	[ "$used" -le 30 ] || fail "$mode: readers took $used % of the control thread's time"
	# Between a call of root and its answer, no reader has two answers. (An answer of the metrics has many lines.)
	[[ $to != /* ]] || [ "$(got between)" -le $((2 * n)) ] || fail "$mode: $(got between) answers were sent to others while root waited"
}
# Root's call does not wait for readers: while vgpud is stopped, 48 readers ask, and then root. vgpud serves one reader in each turn
# of its event loop, and root's answer is sent a few turns later. What is ready on an epoll descriptor is a queue, so it tells in
# which order the answers came.
/usr/bin/python3 - "$run/control.sock" $vgpud_pid "$group" $readers <<'END' || fail "root waited for readers"
import os, select, signal, socket, sys, time
path, pid, group, *users = sys.argv[1], *map(int, sys.argv[2:])
ask = b'{"method":"methods"}\n'
def connect(uid):
	os.setegid(group if uid else 0)
	os.seteuid(uid)
	s = socket.socket(socket.AF_UNIX)
	s.settimeout(60)
	s.connect(path)
	os.seteuid(0)
	s.sendall(ask)
	assert '"result"' in s.makefile().readline(), "vgpud refused a reader"
	return s
clients = [connect(uid) for uid in users * 16 + [0]]
root = clients[-1].fileno()
os.kill(pid, signal.SIGSTOP)
until = time.monotonic() + 60
while open(f"/proc/{pid}/stat").read().rsplit(") ")[1][0] != "T":
	assert time.monotonic() < until, "vgpud does not stop"
	time.sleep(0.01)
answers, order = select.epoll(), []
for s in clients:
	answers.register(s, select.EPOLLIN | select.EPOLLONESHOT)
	s.sendall(ask)
assert not answers.poll(0), "vgpud answered while it was stopped"
os.kill(pid, signal.SIGCONT)
while root not in order:
	assert (more := answers.poll(60)), "vgpud does not answer"
	order += [fd for fd, _ in more]
print(f"{order.index(root)} of {len(clients) - 1} readers were answered before root")
sys.exit(order.index(root) > 8)
END

# 16 connections of each user and 48 of all readers: root has places.
attack idle 64 "$run/control.sock" 65534
[ "$(got closed)" -ge 48 ] && [[ $(got said) == *"16 connections of your user are open"* ]] || fail "one user had more than 16 connections: $(got said)"
attack idle 100 "$run/control.sock" $readers 65531
[[ $(got said) == *"connections of users other than root are open"* || $(got said) == *"of your user are open"* ]] || fail "readers had more than 48 connections: $(got said)"
for mode in hoard timeline record explain slow; do
	attack $mode 48 "$run/control.sock" $readers
	# Readers are served, too: those of the attack before have left their places.
	case $mode in timeline | record) [ "$(got answers)" -gt "$(got refused)" ] || fail "$mode: readers were not served" ;; esac
done
for mode in idle scrape scrape-hoard scrape-slow; do
	attack $mode 100 $port 65534
done
# An honest client of the metrics is served while others idle there.
"$greedy" "$run/control.sock" $port idle 100 4 "$group" 65534 >"$run/attack.json" &
idle=$!
/usr/bin/python3 -c 'import sys, urllib.request as u; r = u.Request(sys.argv[1], headers={"Accept": "application/openmetrics-text"}); sys.exit(not u.urlopen(r, timeout=30).read().endswith(b"# EOF\n"))' \
	"http://127.0.0.1:$port/metrics" || fail "metrics were not served while other connections idled"
wait $idle || fail "greedy ended with $?"

# Root's own connections end, too, if nobody reads their answers.
/usr/bin/python3 - "$run/control.sock" <<'END' || fail "vgpud kept a client that did not read its answer for ten seconds"
import select, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"method":"timeline","args":{"ms":60000}}\n')
p = select.poll()
p.register(s, 0) # for the end of the connection only
assert p.poll(60000)
END

# With too few descriptors for all of them.
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
(ulimit -n 80 && exec "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log") &
vgpud_pid=$!
await 30 ctl gpu list
grep -q "set LimitNOFILE=1024" "$run/vgpud.log" || fail "vgpud did not say that it may open too few descriptors"
attack idle 100 $port 65534
attack idle 48 "$run/control.sock" $readers
grep -q "raise LimitNOFILE (" "$run/vgpud.log" || fail "vgpud did not say that descriptors were few"
ctl vf list >/dev/null || fail "vgpud does not answer after the attacks"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
