#!/bin/bash
# SPDX-License-Identifier: MIT
# systemd-analyze finds no fault in the unit files, and an exposure of at most 4.0: the services need the rest (writing /sys,
# VFIO, finding the users of a VF).
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is missing"; exit 77; }
mkdir "$run/units"
cp "$VGPU_BUILD"/tools/{packaging/systemd,libvirt/daemon}/*.service "$(dirname "$0")"/../../tools/packaging/systemd/*.socket "$run/units/"
sed -i "s|^ExecStart=.*/vgpud-libvirt$|ExecStart=/bin/true|; s|^ExecStart=[^ ]*/vgpud$|ExecStart=$vgpud|; s|^ExecStart=[^ ]*/softgpu|ExecStart=$softgpu|; s|^ExecReload=[^ ]*/vgpuctl|ExecReload=$vgpuctl|" "$run"/units/*.service
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
for unit in "$run"/units/*.service; do
	systemd-analyze security --offline=true --threshold=40 --no-pager "$unit" >"$run/security.txt" 2>&1 ||
		fail "${unit##*/}: $(grep -v '✓' "$run/security.txt")"
	grep 'Overall exposure' "$run/security.txt"
done
