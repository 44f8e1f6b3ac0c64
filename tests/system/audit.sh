#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-openstack audit: each way in which placement's allocations and vgpud's leases can differ is found, and nothing else is
# (docs/fleet.md). The servers get their VFs from the hook; libvirt's own test driver says which of them run.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
. "$(dirname "$0")/placement.sh"
vgpud_libvirt=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$vgpud_libvirt" ] || { echo "skipped: built without libvirt"; exit 77; }
start_softgpu --vfs 4
config <<-CONF
	policy = qos
	vfs = 4
	partition = demand
CONF
start_vgpud
server() { # N SHARE MIB: the flavor of server N
	echo "<n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'><n:flavor name='f'><n:extraSpecs>\
<n:extraSpec name='resources:CUSTOM_VGPUD_VF'>1</n:extraSpec><n:extraSpec name='resources:CUSTOM_VGPUD_SHARE'>$2</n:extraSpec>\
<n:extraSpec name='resources:CUSTOM_VGPUD_MEMORY_MB'>$3</n:extraSpec></n:extraSpecs></n:flavor></n:instance>"
}
start_server() { sequence "$1" "$(server "$@")" prepare start started || fail "$(cat "$run/said")"; }
booking() { # N SHARE MIB: an allocation as placement answers it
	echo "\"$(uuid "$1")\": {\"resources\": {\"VCPU\": 1, \"CUSTOM_VGPUD_VF\": 1, \"CUSTOM_VGPUD_SHARE\": $2, \"CUSTOM_VGPUD_MEMORY_MB\": $3}}"
}
provider() { # BOOKINGS...
	local IFS=,
	echo "{\"allocations\": {$*}, \"resource_provider_generation\": 7}"
}
mkdir "$run/bin"
cat >"$run/bin/vgpud-libvirt" <<-WRAPPER
	#!/bin/sh
	exec "$vgpud_libvirt" --connect "test://$run/node.xml" --socket "$run/hook.sock" "\$@"
WRAPPER
chmod +x "$run/bin/vgpud-libvirt"
runs() { # N... [stopped N...]: the domains that libvirt runs, and those that it has besides
	local state=1 n
	{
		echo "<node>"
		for n; do
			[ "$n" != stopped ] || { state=5; continue; }
			echo "<domain type='test' xmlns:t='http://libvirt.org/schemas/domain/test/1.0'><name>vm$n</name><uuid>$(uuid "$n")</uuid>\
<memory>65536</memory><os><type>hvm</type></os><t:runstate>$state</t:runstate></domain>"
		done
		echo "</node>"
	} >"$run/node.xml"
}
audit() { PATH=$run/bin:$PATH "$agent" audit -o json --allocations "${1:-$run/placement.json}" >"$run/audit.json" 2>"$run/said"; }
found() { jq -c '[.servers[] | "\(.domain) \(.finding)"] | sort' "$run/audit.json"; }
finds() { # CODE FINDINGS
	local r=0
	audit || r=$?
	[ "$r $(found)" = "$1 $2" ] || fail "want $1 $2; got $r $(found): $(cat "$run/said")"
}

# The claim of a server of Nova is its flavor, and vm set says so. Without either there is no claim; with both, ours is changed.
set_weight() { PATH=$run/bin:$PATH "$vgpuctl" vm set vm1 weight=200 >"$run/set.txt" 2>"$run/said"; }
with() { # METADATA: libvirt runs vm1 with it
	echo "<node><domain type='test'><name>vm1</name><uuid>$(uuid 1)</uuid><memory>65536</memory><metadata>$1</metadata>\
<os><type>hvm</type></os></domain></node>" >"$run/node.xml"
}
with "$(server 1 200 24)"
set_weight && fail "vm set changed a server of Nova"
[ "$(wc -l <"$run/said")" = 1 ] && grep -q "vm1: this is a server of OpenStack Nova, .*server resize --flavor FLAVOR $(uuid 1)" "$run/said" ||
	fail "$(cat "$run/said")"
with ""
set_weight && fail "vm set changed a domain without a claim"
grep -q "has no claim to change" "$run/said" || fail "$(cat "$run/said")"
with "$(server 1 200 24)$(claim "<v:sched><v:weight>100</v:weight></v:sched>")"
set_weight || fail "$(cat "$run/said")"
grep -q "weight 100 -> 200" "$run/set.txt" || fail "$(cat "$run/set.txt")"

# All agrees. 24 MiB are booked, and the partition is larger, because it is a multiple of the granule.
start_server 1 200 24
start_server 2 300 16
runs 1 2
provider "$(booking 1 200 24)" "$(booking 2 300 16)" "\"$(uuid 9)\": {\"resources\": {\"VCPU\": 2}}" >"$run/placement.json"
finds 0 '["vm1 agrees","vm2 agrees"]'
[ "$(jq .agree "$run/audit.json")" = true ] || fail "$(cat "$run/audit.json")"
# A booked server that runs without a VF, and one that does not run.
runs 1 2 3 stopped 4
provider "$(booking 1 200 24)" "$(booking 2 300 16)" "$(booking 3 100 16)" "$(booking 4 100 16)" >"$run/placement.json"
finds 1 '["vm1 agrees","vm2 agrees","vm3 without-gpu","vm4 stopped"]'
# A booking without a domain. Only a stopped server: nothing is wrong. Without libvirt it cannot be told.
provider "$(booking 1 200 24)" "$(booking 2 300 16)" "$(booking 5 100 16)" >"$run/placement.json"
finds 1 '["null orphan","vm1 agrees","vm2 agrees"]'
provider "$(booking 1 200 24)" "$(booking 2 300 16)" "$(booking 4 100 16)" >"$run/placement.json"
finds 0 '["vm1 agrees","vm2 agrees","vm4 stopped"]'
mv "$run/node.xml" "$run/gone.xml"
finds 0 '["null unknown","vm1 agrees","vm2 agrees"]'
mv "$run/gone.xml" "$run/node.xml"
# A server that was not booked; a share, a memory and a number of VFs that differ. Several providers add up.
provider "$(booking 1 200 24)" >"$run/placement.json"
finds 1 '["vm1 agrees","vm2 not-booked"]'
for other in "199 24" "201 24" "200 33" "200 8"; do
	provider "$(booking 1 $other)" "$(booking 2 300 16)" >"$run/placement.json"
	finds 1 '["vm1 differs","vm2 agrees"]'
done
echo "[$(provider "$(booking 1 200 24)"), $(provider "$(booking 2 300 16)")]" >"$run/placement.json"
finds 0 '["vm1 agrees","vm2 agrees"]'
echo "[$(provider "$(booking 1 200 24)"), $(provider "$(booking 1 200 24)" "$(booking 2 300 16)")]" >"$run/placement.json"
finds 1 '["vm1 differs","vm2 agrees"]'
PATH=$run/bin:$PATH "$agent" audit --allocations "$run/placement.json" >"$run/audit.txt"
grep -q "vm1 *differs *2 VF, 400 permille, 48 MiB *1 VF, 200 permille, 32 MiB" "$run/audit.txt" || fail "$(cat "$run/audit.txt")"
PATH=$run/bin:$PATH "$agent" audit -o csv --allocations - <"$run/placement.json" | tr -d '\r' >"$run/audit.csv"
grep -q "^$(uuid 1) vm1,differs,\"2 VF, 400 permille, 48 MiB\",\"1 VF, 200 permille, 32 MiB\"," "$run/audit.csv" || fail "$(cat "$run/audit.csv")"

# Partitions that were made before a VM claimed them, and profiles, are larger than what is booked; less is wrong.
for more in "partition = equal" $'partition = demand\nplacement = profile'; do
	for n in 1 2; do sequence $n "$(server $n 200 24)" stopped release || fail "$(cat "$run/said")"; done
	kill $vgpud_pid; wait $vgpud_pid
	sed -i "/^partition/,\$d" "$run/vgpud.conf"
	echo "$more" >>"$run/vgpud.conf"
	start_vgpud
	start_server 1 200 24
	start_server 2 300 16
	provider "$(booking 1 200 24)" "$(booking 2 300 16)" >"$run/placement.json"
	finds 0 '["vm1 agrees","vm2 agrees"]'
	provider "$(booking 1 200 255)" "$(booking 2 300 16)" >"$run/placement.json"
	finds 1 '["vm1 differs","vm2 agrees"]'
done

# What is no answer of placement is refused, and never taken for "nothing is booked".
for wrong in "" "[]" "{" "{\"allocations\": [1]}" "{\"allocations\": {}, \"project_id\": \"p\"}" "[{\"allocations\": {}}, 5]" "7" \
	"$(provider "$(booking 1 -1 24)")" "$(provider "$(booking 1 9223372036854775807 24)")" "$(provider "$(booking 1 '"200"' 24)")"; do
	echo "$wrong" >"$run/placement.json"
	audit; [ $? = 1 ] && grep -q "not what placement answers" "$run/said" || fail "'$wrong': $(cat "$run/said")"
done
audit "$run/missing.json"; [ $? = 1 ] && grep -q "missing.json: No such file" "$run/said" || fail "$(cat "$run/said")"
"$agent" audit --allocations "$run/placement.json" --provider node1 2>/dev/null; [ $? = 2 ] || fail "a file and a provider: no usage error"
echo '{"allocations": {}}' | "$agent" audit --allocations - >/dev/full 2>"$run/said"; [ $? = 1 ] && grep -q "stdout: No space" "$run/said" || fail "a full disk goes unnoticed: $(cat "$run/said")"
echo '{"allocations": {}}' | VGPUD_SOCKET=$run/none.sock "$agent" audit --allocations - 2>"$run/said"; [ $? = 3 ] || fail "without vgpud: $(cat "$run/said")"

# Placement itself is asked.
start_placement
asks() { # WORDS [PROVIDER]: the audit fails with one line that says that, and nobody is found to have booked nothing
	local r=0
	PATH=$run/bin:$PATH "$agent" audit -o json --provider "${2:-node1}" >"$run/audit.json" 2>"$run/said" || r=$?
	[ $r = 1 ] && [ ! -s "$run/audit.json" ] && [ "$(wc -l <"$run/said")" = 1 ] && grep -q "$1" "$run/said" || fail "want '$1': $r $(cat "$run/said" "$run/audit.json")"
}
asks "placement has no provider node2: start nova-compute" node2
node1=$(made node1)
offer='{"total": 1000, "reserved": 0, "min_unit": 1, "max_unit": 1000, "step_size": 1, "allocation_ratio": 1.0}'
api PUT resource_classes/CUSTOM_VGPUD_VF
api PUT resource_classes/CUSTOM_VGPUD_SHARE
api PUT resource_classes/CUSTOM_VGPUD_MEMORY_MB
api PUT resource_providers/$node1/inventories "{\"inventories\": {\"CUSTOM_VGPUD_VF\": $offer, \"CUSTOM_VGPUD_SHARE\": $offer, \"CUSTOM_VGPUD_MEMORY_MB\": $offer}, \
	\"resource_provider_generation\": 0}" >/dev/null
for booked in "1 200 24" "2 300 16"; do
	read -r n share mib <<<"$booked"
	api PUT "allocations/$(uuid "$n")" "{\"allocations\": {\"$node1\": {\"resources\": {\"CUSTOM_VGPUD_VF\": 1, \"CUSTOM_VGPUD_SHARE\": $share, \
		\"CUSTOM_VGPUD_MEMORY_MB\": $mib}}}, \"project_id\": \"p\", \"user_id\": \"u\", \"consumer_generation\": null}"
done
PATH=$run/bin:$PATH "$agent" audit -o json --provider node1 >"$run/audit.json" 2>"$run/said" || fail "$(cat "$run/said")"
[ "$(found)" = '["vm1 agrees","vm2 agrees"]' ] || fail "$(found)"
OS_TOKEN=wrong asks "HTTP 401"
# Whatever comes instead of an answer, the audit fails in one sentence.
for status in "404 Not Found" "500 Internal Server Error" "302 Found"; do
	echo "$status" >"$run/status"
	echo no >"$run/instead"
	asks "HTTP ${status%% *}"
done
rm "$run/status"
for wrong in "<html>" "" '{"resource_providers": {}' "$(printf '[%.0s' {1..20000})"; do
	printf '%s' "$wrong" >"$run/instead"
	asks "not what placement answers"
done
{ printf '{"resource_providers": []'; head -c 17000000 /dev/zero | tr '\0' ' '; echo "}"; } >"$run/instead"
asks "longer than 16777216 bytes"
# No HTTP at all, an answer that is cut off, and nobody there.
cat >"$run/serve.py" <<-'PY'
	import socketserver, sys
	class Rubbish(socketserver.BaseRequestHandler):
	    def handle(self):
	        self.request.recv(65536)
	        self.request.sendall(open(sys.argv[1], "rb").read())
	s = socketserver.TCPServer(("127.0.0.1", 0), Rubbish)
	print(s.server_address[1], flush=True)
	s.serve_forever()
PY
printf '\0\1\2 rubbish\r\n\r\n' >"$run/answer"
/usr/bin/python3 "$run/serve.py" "$run/answer" >"$run/other" 2>"$run/serve.txt" &
await 60 test -s "$run/other"
export OS_PLACEMENT_CONNECT_RETRIES=0 OS_ENDPOINT
OS_ENDPOINT=http://127.0.0.1:$(cat "$run/other")
asks "rubbish\|BadStatusLine\|onnect"
printf 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"resource_providers": ' >"$run/answer"
asks "not what placement answers\|IncompleteRead"
OS_ENDPOINT=http://127.0.0.1:1
asks "onnect"
for OS_ENDPOINT in "http://" "http://127.0.0.1:notaport/"; do
	asks "no credentials\|onnect\|URL\|Failed to parse"
done
