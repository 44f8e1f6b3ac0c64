#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl audit: each way in which placement's allocations and vgpud's leases can differ is found, and nothing else is
# (docs/fleet.md). The servers get their VFs from the hook; libvirt's own test driver says which of them run.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: built without libvirt"; exit 77; }
start_softgpu --vfs 4
cat >"$run/vgpud.conf" <<-CONF
	[daemon]
	socket = $run/control.sock
	[gpu gpu0]
	device = vfio-user:$run/gpu/pf.sock
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
	exec "$agent" --connect "test://$run/node.xml" --socket "$run/hook.sock" "\$@"
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
audit() { PATH=$run/bin:$PATH ctl -o json audit --placement "${1:-$run/placement.json}" >"$run/audit.json" 2>"$run/said"; }
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
PATH=$run/bin:$PATH ctl audit --placement "$run/placement.json" >"$run/audit.txt"
grep -q "vm1 *differs *2 VF, 400 permille, 48 MiB *1 VF, 200 permille, 32 MiB" "$run/audit.txt" || fail "$(cat "$run/audit.txt")"

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
ctl audit 2>/dev/null; [ $? = 2 ] || fail "audit without --placement: no usage error"

# By HTTP, with the token in a header and not among the arguments.
cat >"$run/serve.py" <<-'PY'
	import http.server, sys
	class Placement(http.server.BaseHTTPRequestHandler):
	    def do_GET(self):
	        what = self.path[1:]
	        if what in ("404", "500", "302"):
	            self.send_response(int(what)); self.send_header("Location", "/placement/resource_providers/x/allocations"); self.end_headers()
	            return self.wfile.write(b"no")
	        if what in ("html", "empty"):
	            self.send_response(200); self.end_headers()
	            return self.wfile.write(b"<html>" if what == "html" else b"")
	        if what == "cut":
	            self.send_response(200); self.send_header("Content-Length", "100"); self.end_headers()
	            return self.wfile.write(b'{"allocations": {}')
	        if what == "huge":
	            self.send_response(200); self.end_headers()
	            return self.wfile.write(b'{"allocations": {}' + b" " * (17 << 20) + b"}")
	        if what == "rubbish":
	            return self.wfile.write(b"\0\1\2 rubbish")
	        ok = self.path == "/placement/resource_providers/x/allocations" and self.headers["X-Auth-Token"] == "secret" \
	            and self.headers["OpenStack-API-Version"].startswith("placement 1.")
	        self.send_response(200 if ok else 401); self.end_headers()
	        self.wfile.write(open(sys.argv[1], "rb").read() if ok else b"{}")
	s = http.server.HTTPServer(("127.0.0.1", 0), Placement)
	print(s.server_port, flush=True)
	s.serve_forever()
PY
provider "$(booking 1 200 24)" "$(booking 2 300 16)" >"$run/placement.json"
/usr/bin/python3 "$run/serve.py" "$run/placement.json" >"$run/port" 2>"$run/serve.txt" &
pids+=($!)
await 10 test -s "$run/port"
url=http://127.0.0.1:$(cat "$run/port")/placement/resource_providers/x/allocations
OS_TOKEN=secret audit "$url" || fail "$(cat "$run/said")"
[ "$(found)" = '["vm1 agrees","vm2 agrees"]' ] || fail "$(found)"
OS_TOKEN=wrong audit "$url"; [ $? = 1 ] && grep -q 401 "$run/said" || fail "$(cat "$run/said")"
# The token from a file that somebody renews, of which the first line counts; a wrong one; and none.
printf 'secret\nX-Auth-Token: wrong\n' >"$run/token"
OS_TOKEN_FILE=$run/token audit "$url" || fail "$(cat "$run/said")"
echo wrong >"$run/token"
OS_TOKEN_FILE=$run/token audit "$url"; [ $? = 1 ] && grep -q 401 "$run/said" || fail "$(cat "$run/said")"
OS_TOKEN_FILE=$run/none audit "$url"; [ $? = 1 ] && grep -q "OS_TOKEN_FILE: $run/none: No such file" "$run/said" || fail "$(cat "$run/said")"
# Whatever the server does instead of answering, the audit fails in one sentence, and nobody is found to have booked nothing.
broken() { # PATH WORDS
	local r=0
	OS_TOKEN=secret audit "${url%%/placement*}/$1" || r=$?
	[ $r = 1 ] && [ ! -s "$run/audit.json" ] && [ "$(wc -l <"$run/said")" = 1 ] && grep -q "$2" "$run/said" || fail "$1: $r $(cat "$run/said" "$run/audit.json")"
}
broken 404 "HTTP 404"
broken 500 "HTTP 500"
broken 302 "HTTP 302"
broken html "not what placement answers"
broken empty "not what placement answers"
broken cut "transfer closed\|end of response\|outstanding"
broken huge "longer than 16777216 bytes"
broken rubbish "HTTP/0.9\|Unsupported\|weird"
url=http://127.0.0.1:1/
OS_TOKEN=secret audit "$url"; [ $? = 1 ] && grep -qi "connect" "$run/said" || fail "$(cat "$run/said")"
for wrong in "http://" "http://127.0.0.1:notaport/"; do
	audit "$wrong"; [ $? = 1 ] && [ -s "$run/said" ] && [ ! -s "$run/audit.json" ] || fail "$wrong: $(cat "$run/said" "$run/audit.json")"
done
