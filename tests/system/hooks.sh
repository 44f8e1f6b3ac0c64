# SPDX-License-Identifier: MIT
# Sourced by tests that call vgpud-hook as libvirt does.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for whom alone the hook asks vgpud"; exit 77; }
hook_program=$VGPU_BUILD/tools/libvirt/hook/vgpud-hook
export VGPUD_HOOK_SOCKET=$run/hook.sock VGPUD_LIBVIRT_DIR=$run
uuid() { printf '8a1f0b3c-0000-4000-8000-%012d' "$1"; }
domain() { # N CLAIM
	echo "<domain type='kvm'><name>vm$1</name><uuid>$(uuid "$1")</uuid><metadata>$2</metadata></domain>"
}
claim() { # INSIDE [ATTRIBUTES]
	echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' ${2:-}><v:vf name='a'>$1</v:vf></v:vgpu>"
}
# hook N CLAIM OPERATION: calls the hook as libvirt does for domain vmN; its messages go to $run/said.
hook() {
	local sub=begin extra=-
	case $3 in stopped) sub=end ;; release) sub=end extra=destroyed ;; esac
	domain "$1" "$2" | "$hook_program" "vm$1" "$3" $sub $extra 2>"$run/said"
}
sequence() { # N CLAIM OPERATIONS...
	local n=$1 claim=$2
	shift 2
	for operation; do hook "$n" "$claim" "$operation" || return; done
}
refused() { # WORDS COMMAND...: fails unless COMMAND fails with one line that contains WORDS
	local words=$1
	shift
	"$@" && fail "want a refusal, but this succeeded: $*"
	[ "$(wc -l <"$run/said")" = 1 ] && grep -q "$words" "$run/said" || fail "want one line that says '$words', got: $(cat "$run/said")"
}
leases() { json vm list | jq -c '[.vms[] | "\(.domain) \(.state)"] | sort'; }
vf_of() { json vm list | jq ".vms[] | select(.domain == \"vm$1\") | .vf"; }
leases_are() { [ "$(leases)" = "$1" ] || fail "leases are $(leases), want $1"; }
# vm_sync PAUSED XML... : vgpud-libvirt's report: these domains are there; PAUSED: 1, and their CPUs do not run. Only $host's, which the
# test sets to what "named DIRECTORY" prints, as vgpud-hook and vgpud-libvirt name a libvirt.
vm_sync() {
	/usr/bin/python3 - "$run/hook.sock" "$host" "$@" <<-'PY' || fail "vm.sync failed"
		import json, re, socket, sys, time
		path, host, paused, files = sys.argv[1], sys.argv[2], sys.argv[3] == "1", sys.argv[4:]
		texts = [open(f).read() for f in files]
		domains = {re.search("<uuid>(.*?)</uuid>", t).group(1): t for t in texts}
		s = socket.socket(socket.AF_UNIX)
		s.connect(path)
		args = {"as_of_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC), "domains": domains, "host": host, "paused": {u: True for u in domains} if paused else {}}
		s.sendall(json.dumps({"method": "vm.sync", "args": args}).encode() + b"\n")
		answer = s.makefile().readline()
		sys.exit("result" not in json.loads(answer) and answer)
	PY
}
named() { stat -c '%D:%i' "$1" | /usr/bin/python3 -c 'd, i = input().split(":"); print("%s:%x" % (d, int(i)))'; }
