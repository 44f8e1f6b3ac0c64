# SPDX-License-Identifier: MIT
# Sourced by the scripts that run in the fleet's namespaces.
set -uo pipefail
cd /
fail() {
	echo "FAILED: $*"
	exit 1
}
await() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "timed out waiting for: $*"
		sleep 0.1
	done
}
# Nova's release. Up to 31 a domain has only the name of its flavor.
release() { dpkg-query -W -f '${source:Upstream-Version}' nova-common | cut -d. -f1; }
# add_gpu N: starts softgpu as GPU N of this host, and adds it to vgpud's configuration.
add_gpu() {
	local host dir vf
	host=$(hostname)
	dir=/srv/$host
	mkdir -p "$dir/gpu$1"
	/vgpud/tools/softgpu/device/softgpu --dir "$dir/gpu$1" --vram 256M --vfs 4 >"/logs/$host-softgpu$1.log" 2>&1 </dev/null &
	await 30 test -S "$dir/gpu$1/pf.sock"
	cat >>"$dir/vgpud.conf" <<-CONF
		[gpu gpu$1]
		device = vfio-user:$dir/gpu$1/pf.sock
		vfs = 4
		policy = qos
		grace_ms = 1000
		partition = demand
		pool = render
		# Switches of softgpu take a millisecond when this machine is busy. Shares are promised as if they always did, in long periods.
		switch_least_us = 2000
	CONF
	for vf in 0 1 2 3; do printf '[vf gpu%s/%s]\nperiod_ms = 330\n' "$1" $vf; done >>"$dir/vgpud.conf"
}
listens() { (: </dev/tcp/"$1"/"$2") 2>/dev/null; } # ADDRESS PORT
