#!/bin/bash
# SPDX-License-Identifier: MIT
# A VM starts on the GPU that placement has booked for it, and if that cannot be learned, on one that vgpud chooses
# (docs/fleet.md). vgpud, the hook and vgpud-openstack are real; placement and Keystone are placement-server.py's; systemd's part,
# to pass a socket, is systemd-socket-activate's.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/placement.sh"
. "$(dirname "$0")/hooks.sh"
inetd=$(command -v systemd-socket-activate) || { echo "skipped: systemd-socket-activate is missing"; exit 77; }
conf() { # BOOKING_MS
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		metrics = unix:$run/metrics.sock
		bookings = $run/booking.sock
		booking_ms = $1
		[gpu gpu0]
		device = null:busy=0
		policy = qos
		vfs = 4
		pool = a
		partition = demand
		[gpu gpu1]
		device = null:busy=0
		policy = qos
		vfs = 4
		partition = demand
	CONF
}
waits() { conf "$1" && ctl config reload >/dev/null || fail "the configuration cannot be reloaded"; }
conf 5000 # a loaded machine answers, too
start_vgpud
# GPUs without a device begin with guests; a reset ends them.
available() { [ "$(json vf show "$2" --gpu "$1" | jq -r .state)" = available ]; }
for v in 0 1 2 3; do
	for g in gpu0 gpu1; do
		ctl vf reset $v --gpu $g >/dev/null || fail "VF $v of $g cannot be reset"
		await 60 available $g $v
	done
done
start_placement
echo s3cret >"$run/password"
cat >"$run/clouds.yaml" <<-CLOUDS
	clouds:
	  booking:
	    auth: {auth_url: "$url/keystone/v3", username: vgpud, password: s3cret, project_name: service, user_domain_name: Default, project_domain_name: Default}
CLOUDS
sed 's/s3cret/forgotten/' "$run/clouds.yaml" >"$run/forgotten.yaml"
# Listens at the socket that vgpud asks, and passes it to a program with the first connection; or has a process for each (--accept --inetd).
listen() { # COMMAND...
	rm -f "$run/booking.sock"
	"$inetd" --listen="$run/booking.sock" -E ASAN_OPTIONS -E UBSAN_OPTIONS -E TSAN_OPTIONS -E PYTHONDONTWRITEBYTECODE "$@" 2>>"$run/asker.txt" &
	listener=$!
	await 60 test -S "$run/booking.sock"
}
deaf() { kill "$listener"; wait "$listener" 2>/dev/null; rm -f "$run/booking.sock"; }
asks() { # LINE: what is answered
	/usr/bin/python3 - "$run/booking.sock" "$1" <<-'PY'
		import socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.settimeout(60)
		s.connect(sys.argv[1])
		s.sendall(sys.argv[2].encode() + b"\n")
		print(s.makefile().readline(), end="")
	PY
}
# start_agent CLOUDS [LINE]: the agent listens, and has been asked that, because it starts with its first connection.
start_agent() {
	listen -E OS_CLOUD=booking -E OS_CLIENT_CONFIG_FILE="$1" "$agent" bookings --provider node1
	asks "${2:-}" >"$run/asked"
}

# book N PROVIDER=VFS:SHARE:MIB...: vmN books that, in place of what it had.
book() {
	local n=$1 generation=null all='{}' p amounts
	shift
	[ "${generations[n]:-0}" = 0 ] || generation=${generations[n]} # a consumer without allocations is forgotten
	for p; do
		IFS=: read -ra amounts <<<"${p#*=}"
		all=$(jq -c --arg u "${p%%=*}" --argjson v "${amounts[0]}" --argjson s "${amounts[1]}" --argjson m "${amounts[2]}" \
			'.[$u] = {resources: {CUSTOM_VGPUD_VF: $v, CUSTOM_VGPUD_SHARE: $s, CUSTOM_VGPUD_MEMORY_MB: $m}}' <<<"$all")
	done
	api PUT "allocations/$(uuid "$n")" "{\"allocations\": $all, \"project_id\": \"p\", \"user_id\": \"u\", \"consumer_generation\": $generation}" >"$run/booked"
	[ ! -s "$run/booked" ] || fail "$(cat "$run/booked")"
	generations[n]=$([ "$all" = {} ] && echo 0 || echo $((${generations[n]:-0} + 1)))
}
generations=()
result() { # RESULT
	curl -sS --unix-socket "$run/metrics.sock" http://localhost/metrics | sed -n "s/^vgpud_bookings_total{result=\"$1\"} //p"
}
results() { # of gpu, none, late and failed
	curl -sS --unix-socket "$run/metrics.sock" http://localhost/metrics | sed -n 's/^vgpud_bookings_total{.*} //p' | paste -sd' '
}
# counts RESULT COMMAND...: fails unless COMMAND succeeds, and one more question had that result.
counts() {
	local what=$1 before after r
	before=$(results)
	shift
	"$@" || fail "$*: $(cat "$run/said")"
	after=$(results)
	for r in gpu none late failed; do
		[ $((${after%% *} - ${before%% *})) = "$([ $r = "$what" ] && echo 1 || echo 0)" ] || fail "$*: wanted '$what', counted $(results)"
		before=${before#* } after=${after#* }
	done
}
gpu_of() { json vm list | jq -r "[.vms[] | select(.domain == \"vm$1\") | \"\(.vf_name)=\(.gpu)\"] | sort | join(\" \")"; }
is_on() { [ "$(gpu_of "$1")" = "$2" ] || fail "vm$1 has $(gpu_of "$1"), want $2: $(tail -3 "$run/asker.txt")"; }
# flavor SPECS...: the metadata of a server of Nova's.
flavor() {
	local s
	echo "<n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'><n:name>$server_name</n:name><n:flavor name='any'><n:extraSpecs>"
	for s; do echo "<n:extraSpec name='${s%=*}'>${s#*=}</n:extraSpec>"; done
	echo "</n:extraSpecs></n:flavor></n:instance>"
}
server_name=web
one=$(flavor resources_GPU:CUSTOM_VGPUD_VF=1 resources_GPU:CUSTOM_VGPUD_SHARE=100 resources_GPU:CUSTOM_VGPUD_MEMORY_MB=64)
ends() { hook "$1" "$2" release || fail "$(cat "$run/said")"; }

# Nobody listens: vgpud chooses, as it would without the key, and says so.
counts failed hook 1 "$one" prepare
is_on 1 GPU=gpu0
grep -q "vm1: vgpud does not know which GPU is booked, and chooses one: $run/booking.sock: No such file" "$run/vgpud.log" || fail "the log does not say why"
ends 1 "$one"

node1=$(made node1) node2=$(made node2)
for node in node1 node2; do
	"$agent" providers --provider $node >"$run/kept" 2>&1 || fail "$(cat "$run/kept")"
done
gpu0=$(uuid_of node1_vgpud_gpu0) gpu1=$(uuid_of node1_vgpud_gpu1) other0=$(uuid_of node2_vgpud_gpu0)
start_agent "$run/clouds.yaml" "../../nothing"
[ ! -s "$run/asked" ] && grep -q "want a server's UUID, got '../../nothing'" "$run/asker.txt" || fail "$(cat "$run/asked" "$run/asker.txt")"

# The booked GPU, where vgpud would choose another one; a hard reboot asks again.
book 1 "$gpu1"=1:100:64
for again in 1 2; do
	counts gpu sequence 1 "$one" prepare start started
	is_on 1 GPU=gpu1
	ends 1 "$one"
done
book 1 "$gpu0"=1:100:64
counts gpu hook 1 "$one" prepare
is_on 1 GPU=gpu0
ends 1 "$one"
# While a server is evacuated it has booked both hosts' GPUs: this one's counts.
book 1 "$other0"=1:100:64 "$gpu1"=1:100:64
counts gpu hook 1 "$one" prepare
is_on 1 GPU=gpu1
ends 1 "$one"
# What a tenant writes, the server's name, is no UUID.
server_name="&lt;/n:name&gt;&lt;uuid&gt;$(uuid 20)&lt;/uuid&gt;$(uuid 20)"
hostile=$(flavor resources_GPU:CUSTOM_VGPUD_VF=1 resources_GPU:CUSTOM_VGPUD_SHARE=100 resources_GPU:CUSTOM_VGPUD_MEMORY_MB=64)
book 20 "$gpu0"=1:100:64
: >"$run/requests"
counts gpu hook 1 "$hostile" prepare
is_on 1 GPU=gpu1
grep -q "$(uuid 20)" "$run/requests" && fail "vgpud asks about the server that a tenant names"
ends 1 "$hostile"
# Nothing, only another host's GPU, or only the host's own provider: any GPU.
book 1
counts none hook 1 "$one" prepare
ends 1 "$one"
book 1 "$other0"=1:100:64
counts none hook 1 "$one" prepare
ends 1 "$one"
api PUT "resource_providers/$node2/inventories" '{"inventories": {"CUSTOM_VGPUD_VF": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0}}, "resource_provider_generation": 0}' >/dev/null
api PUT "resource_providers/$node1/inventories" '{"inventories": {"CUSTOM_VGPUD_VF": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0}}, "resource_provider_generation": 0}' >/dev/null
api PUT "allocations/$(uuid 21)" "{\"allocations\": {\"$node1\": {\"resources\": {\"CUSTOM_VGPUD_VF\": 1}}}, \"project_id\": \"p\", \"user_id\": \"u\", \"consumer_generation\": null}" >/dev/null
counts none hook 21 "$one" prepare
is_on 21 GPU=gpu0
ends 21 "$one"
# Up to Nova 31 the flavor's name is all that the domain says, and the GPU is followed all the same.
named="<n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'><n:flavor name='vgpud.none'/></n:instance>"
book 2 "$gpu1"=1:100:64
refused "placement has booked gpu1, but gpu1: policy qos: no \[profile none\] is configured" hook 2 "$named" prepare

# Two VFs: what each has booked tells them apart, whichever GPU it is on.
two=$(flavor resources_A:CUSTOM_VGPUD_VF=1 resources_A:CUSTOM_VGPUD_SHARE=100 resources_A:CUSTOM_VGPUD_MEMORY_MB=64 \
	resources_B:CUSTOM_VGPUD_VF=1 resources_B:CUSTOM_VGPUD_SHARE=200 resources_B:CUSTOM_VGPUD_MEMORY_MB=64)
for at in "A=gpu0 B=gpu1" "A=gpu1 B=gpu0"; do
	case $at in A=gpu0*) book 3 "$gpu0"=1:100:64 "$gpu1"=1:200:64 ;; *) book 3 "$gpu1"=1:100:64 "$gpu0"=1:200:64 ;; esac
	counts gpu hook 3 "$two" prepare
	is_on 3 "$at"
	ends 3 "$two"
done
book 3 "$gpu1"=2:300:128
counts gpu hook 3 "$two" prepare
is_on 3 "A=gpu1 B=gpu1"
ends 3 "$two"
# A claim that does not fit what is booked: vgpud chooses.
book 3 "$gpu0"=1:150:64 "$gpu1"=1:150:64
counts failed hook 3 "$two" prepare
ends 3 "$two"
grep -q "vm3: .*: the VM's claim does not fit what is booked on gpu0 and other GPUs" "$run/vgpud.log" || fail "the log does not say why"
# Booked is gpu1, and the flavor's pool has only gpu0.
pool=$(flavor resources_GPU:CUSTOM_VGPUD_VF=1 resources_GPU:CUSTOM_VGPUD_MEMORY_MB=64 vgpud:pool=a)
book 3 "$gpu1"=1:100:64
counts failed hook 3 "$pool" prepare
is_on 3 GPU=gpu0
ends 3 "$pool"

# The booked GPU has no VF left: refused, so that Nova books another host, though the other GPU is free.
api PUT "resource_providers/$gpu1/inventories" "$(api GET "resource_providers/$gpu1/inventories" |
	jq -c '.inventories.CUSTOM_VGPUD_VF |= (.total = 16 | .max_unit = 16) | {inventories, resource_provider_generation}')" >/dev/null # more than there are
for n in 11 12 13 14; do
	book $n "$gpu1"=1:100:64
	counts gpu hook $n "$one" prepare
done
book 4 "$gpu1"=1:100:64
refused "vm4/GPU: placement has booked gpu1, but all 4 VFs of gpu1 are in use" hook 4 "$one" prepare
book 4 "$gpu0"=1:100:64
counts gpu hook 4 "$one" prepare
is_on 4 GPU=gpu0
for n in 4 11 12 13 14; do ends $n "$one"; done

# Each answer that is none: the VM starts, on the GPU that vgpud chooses, though gpu1 is booked.
book 5 "$gpu1"=1:100:64
chooses() { # WHY
	counts failed hook 5 "$one" prepare
	is_on 5 GPU=gpu0
	ends 5 "$one"
	[ -z "${1:-}" ] || grep -q "$1" "$run/asker.txt" || fail "the asker does not say '$1': $(cat "$run/asker.txt")"
	: >"$run/asker.txt"
}
for wrong in '' '{' '[]' 7 null '{"allocations": []}' '{"allocations": {"x": 5}}' '{"allocations": {"x": {"resources": []}}}' \
	'{"allocations": {"x": {"resources": {"CUSTOM_VGPUD_VF": "1"}}}}' '{"allocations": {"x": {"resources": {"CUSTOM_VGPUD_VF": -1}}}}' \
	'{"allocations": {"x": {"resources": {"CUSTOM_VGPUD_VF": 9223372036854775807}}}}' '{"allocations": {"x": {"resources": {"CUSTOM_VGPUD_VF": 1}}}}'; do
	printf '%s' "$wrong" >"$run/instead"
	chooses "not what placement answers"
done
head -c 17000000 /dev/zero | tr '\0' ' ' >"$run/instead"
chooses "longer than"
echo '{"errors": [{"status": 404, "detail": "no such thing"}]}' >"$run/instead"
for status in "404 Not Found" "500 Internal Server Error" "302 Found"; do
	echo "$status" >"$run/status"
	chooses "HTTP ${status%% *}: no such thing"
done
rm "$run/instead" "$run/status"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
# All of this took one token. One that Keystone takes back is renewed; so is one that is about to end, by each question until the agent does.
logins() { grep -c "POST /keystone" "$run/requests"; }
: >"$run/requests"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
[ "$(logins)" = 0 ] || fail "a question takes a token of its own: $(cat "$run/requests")"
touch "$run/revoke"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
[ "$(logins)" = 1 ] || fail "a token that was taken back: $(cat "$run/requests")"
# Placement is busy for a moment: it is asked again. Keystone is down: the token lasts.
deaf
start_agent "$run/clouds.yaml"
echo 1 >"$run/busy"
touch "$run/closed"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
# Without a token nothing is learned, and with the wrong password there is none.
deaf
start_agent "$run/clouds.yaml"
chooses "503"
rm "$run/closed"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
deaf
start_agent "$run/forgotten.yaml"
chooses "wrong password"
# More questions than any host has are refused at once, and those who ask nothing are ended.
deaf
start_agent "$run/clouds.yaml"
/usr/bin/python3 - "$run/booking.sock" "$run/many" <<-'PY' &
	import socket, sys, time
	many = [socket.socket(socket.AF_UNIX) for _ in range(64)]
	for s in many:
	    s.connect(sys.argv[1])
	open(sys.argv[2], "w").write("connected")
	for s in many:
	    assert s.recv(1) == b""
PY
many=$!
await 60 test -s "$run/many"
chooses "64 questions are under way: another one is refused"
wait $many || fail "a connection that asks nothing stays open"
counts gpu hook 5 "$one" prepare
ends 5 "$one"
# An audit that knows of which GPU a server has booked finds one that has got another's, and only that.
audits() { # CODE FINDING
	local r=0
	"$agent" audit -o json --provider node1 >"$run/audit.json" 2>"$run/said" || r=$?
	[ "$r $(jq -r '.servers[] | select(.domain == "vm5") | .finding' "$run/audit.json")" = "$1 $2" ] || fail "want $1 $2: $r $(jq -c .servers "$run/audit.json") $(cat "$run/said")"
}
sequence 5 "$one" prepare start started || fail "$(cat "$run/said")"
is_on 5 GPU=gpu1
audits 0 agrees
ends 5 "$one"
deaf
sequence 5 "$one" prepare start started || fail "$(cat "$run/said")"
is_on 5 GPU=gpu0
audits 1 elsewhere
ends 5 "$one"
OS_TOKEN=wrong "$agent" audit --provider node1 2>"$run/said"; [ $? = 1 ] && grep -q "HTTP 401" "$run/said" || fail "$(cat "$run/said")"
start_agent "$run/clouds.yaml"

# Placement is slow, at its first answer or at a later one: vgpud waits for booking_ms, and serves others meanwhile.
waits 1500
for path in /allocations /resource_providers; do
	: >"$run/requests"
	echo -n $path >"$run/slow"
	late=$(result late)
	hook 5 "$one" prepare &
	starts=$!
	await 60 grep -q "$path" "$run/requests"
	(domain 6 "" | "$hook_program" vm6 prepare begin -) || fail "a VM without a GPU waits"
	ctl gpu list >/dev/null || fail "vgpud does not answer while it waits"
	kill -0 $starts 2>/dev/null || [ "$(result late)" = $((late + 1)) ] || fail "vgpud has not waited for $path: $(results)"
	wait $starts || fail "$(cat "$run/said")"
	[ "$(result late)" = $((late + 1)) ] || fail "the late answer is not counted: $(results)"
	is_on 5 GPU=gpu0
	ends 5 "$one"
	rm "$run/slow"
done
grep -q "vm5: vgpud does not know which GPU is booked, and chooses one: no answer within booking_ms" "$run/vgpud.log" || fail "the log does not say why"
# The VM's start is given up meanwhile, by libvirt or with it: nothing stays reserved. Judged if vgpud still waited then.
waits 5000
killed() { kill -9 $starts; wait $starts 2>/dev/null; true; }
ended() { hook 7 "$one" release; }
questions() { local n total=0; for n in $(results); do total=$((total + n)); done; echo $total; }
all_counted() { [ "$(questions)" = "$1" ]; }
gives_up() { # ACT
	local late i asked
	domain 7 "$one" >"$run/vm7.xml"
	for i in 1 2 3 4 5; do
		late=$(result late) asked=$(questions)
		: >"$run/requests"
		echo -n / >"$run/slow"
		"$hook_program" vm7 prepare begin - <"$run/vm7.xml" 2>/dev/null &
		starts=$!
		await 60 grep -q "$(uuid 7)" "$run/requests"
		$1 || fail "$(cat "$run/said")"
		[ "$(result late)" != "$late" ] || i=judged
		rm "$run/slow"
		wait $starts 2>/dev/null && [ $i = judged ] && fail "a VM that has ended got a VF"
		await 60 all_counted $((asked + 1))
		counts none hook 8 "$one" prepare
		[ $i != judged ] || leases_are '["vm8 reserved"]'
		ends 8 "$one"
		ends 7 "$one"
		[ $i != judged ] || return 0
	done
	fail "this machine is too slow to give up in time"
}
gives_up killed
gives_up ended
# Nothing listens at placement's port.
kill $placement
wait $placement 2>/dev/null
chooses "onnect"
deaf

# Whoever listens there can say what he likes, and vgpud gets on.
lies() { # ANSWER: a command of the shell
	listen --accept --inetd /bin/bash -c "$1"
	counts failed hook 9 "$one" prepare
	ends 9 "$one"
	deaf
}
lies 'read -r; head -c 100000 /dev/zero'
lies 'read -r; yes | head -c 9000 | tr -d "\n"'
lies 'read -r; echo "{\"gpus\": {\"gpu7\": {\"VF\": 1}}}"'
lies 'read -r; printf "{\"gpus\": {\"\\u0000\\n<2>forged\": {\"VF\": 1}}}\n"'
lies 'read -r; echo "{\"gpus\": {\"gpu0\": {\"VF\": 1}, \"gpu1\": {\"VF\": 1}}}"'
lies 'exit 0'
grep -q "^<2>forged" "$run/vgpud.log" && fail "a name of placement's has made a line of the log"
waits 500
listen --accept --inetd /bin/bash -c 'read -r; while sleep 0.1; do printf x; done'
late=$(result late)
hook 9 "$one" prepare || fail "$(cat "$run/said")"
[ "$(result late)" = $((late + 1)) ] || fail "who sends byte by byte has more time: $(results)"
ends 9 "$one"
# vgpud ends while it waits.
waits 5000
: >"$run/read"
deaf
listen --accept --inetd /bin/bash -c "read -r; echo >$run/read; read -r"
"$hook_program" vm9 prepare begin - <<<"$(domain 9 "$one")" 2>/dev/null &
await 60 test -s "$run/read"
kill $vgpud_pid
wait $vgpud_pid || fail "vgpud ended with $?"
