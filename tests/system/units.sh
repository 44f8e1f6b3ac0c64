#!/bin/bash
# SPDX-License-Identifier: MIT
# systemd-analyze finds no fault in the unit files, and an exposure of at most 2.9: vgpud.service says what vgpud needs the
# rest for. The unit of softgpu has NVIDIA's driver ready before softgpu starts.
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is missing"; exit 77; }
mkdir "$run/units"
cp "$VGPU_BUILD"/tools/{packaging/systemd,libvirt/daemon}/*.service "$(dirname "$0")"/../../tools/packaging/systemd/*.{path,socket,target,timer} "$run/units/"
sed -i "s|^ExecStart=.*/vgpud-libvirt$|ExecStart=/bin/true|; s|^ExecStart=[^ ]*/vgpud$|ExecStart=$vgpud|; s|^ExecStart=[^ ]*/softgpu|ExecStart=$softgpu|; s|^Exec\([A-Za-z]*\)=[^ ]*/vgpuctl|Exec\1=$vgpuctl|; s|^ExecStart=.*/vgpud-mount$|ExecStart=$VGPU_BUILD/tools/container/vgpud-mount|; s|^ExecStart=.*/vgpud-openstack|ExecStart=$VGPU_BUILD/tools/openstack/vgpud-openstack|" "$run"/units/*.service
mv "$run/units/vgpud-softgpu@.service" "$run/units/vgpud-softgpu@soft0.service"
# Prints what systemd-analyze says about vgpud's units, without its remarks about other units.
verify() {
	SYSTEMD_UNIT_PATH="$run/units:" systemd-analyze verify --man=no "$run"/units/* >"$run/verify.txt" 2>&1
	grep "$run/units\|vgpud" "$run/verify.txt"
}
sed "/^\[Service\]/a Nonsense=1" "$run/units/vgpud.service" >"$run/units/vgpud-wrong.service"
verify >/dev/null || fail "systemd-analyze does not report the fault that the test put into a unit: $(cat "$run/verify.txt")"
rm "$run/units/vgpud-wrong.service"
said=$(verify) && fail "systemd-analyze verify says: $said"
# Each message of the log that has a MESSAGE_ID is explained in the catalog, and the catalog explains no other.
catalog=$(dirname "$0")/../../tools/packaging/systemd/vgpud.catalog
diff <(sed -n 's/.*\[LOG_[A-Z_]*\] = "\([0-9a-f]*\)".*/\1/p' "$(dirname "$0")/../../scheduler/daemon/control/log.c" | sort) \
	<(sed -n 's/^-- //p' "$catalog" | sort) >"$run/catalog.log" || fail "vgpud.catalog does not explain the messages of log.c"
[ "$(sed -n 's/^-- //p' "$catalog" | sort -u | grep -cE '^[0-9a-f]{32}$')" = "$(grep -c '^-- ' "$catalog")" ] || fail "vgpud.catalog has wrong or equal numbers"
# Workers can neither load nvidia-uvm nor make its files, and NVIDIA's driver works with its daemons: softgpu's unit has both before softgpu.
has() { # SECTION KEY WORD: a line of the section sets KEY to words of which WORD is one
	awk -v section="[$1]" -v key="$2=" -v word="$3" '
		/^\[/ {here = $0 == section}
		here && index($0, key) == 1 {n = split(substr($0, length(key) + 1), words, " "); for (i = 1; i <= n; i++) found = found || words[i] == word}
		END {exit !found}' "$run/units/vgpud-softgpu@soft0.service" || fail "softgpu's unit lacks $2=$3"
}
has Unit Wants modprobe@nvidia_uvm.service
# vgpud starts after softgpu, and does not wait for its stop, which waits for VMs.
has Unit Before vgpud-softgpu.target
has Unit Wants vgpud-softgpu.target
grep -q '^Before=.*vgpud.service' "$run/units/vgpud-softgpu@soft0.service" && fail "vgpud waits while softgpu is stopped"
grep -qx 'Before=vgpud.service' "$run/units/vgpud-softgpu.target" || fail "vgpud does not start after softgpu"
for unit in modprobe@nvidia_uvm nvidia-persistenced nvidia-fabricmanager; do has Unit After $unit.service; done
grep -qx 'ExecStartPre=+-/usr/bin/nvidia-modprobe -c 0 -u' "$run/units/vgpud-softgpu@soft0.service" || fail "softgpu's unit does not make nvidia-uvm's files"
for unit in "$run"/units/*.service; do
	[ "${unit##*/}" != vgpud-names.service ] || continue # it starts engines, which need what a user needs
	systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" >"$run/security.txt" 2>&1 ||
		fail "${unit##*/}: $(grep -v '✓' "$run/security.txt")"
	grep 'Overall exposure' "$run/security.txt"
done
