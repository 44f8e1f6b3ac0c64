#!/bin/bash
# SPDX-License-Identifier: MIT
# The unit files, as systemd reads them. Exposure below 4: the rest is what the service is for (/sys, VFIO, who uses a VF).
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is missing"; exit 77; }
mkdir "$run/units"
cp "$VGPU_BUILD"/tools/{packaging/systemd,libvirt/daemon}/*.service "$(dirname "$0")"/../../tools/packaging/systemd/*.socket "$run/units/"
sed -i "s|^ExecStart=.*/vgpud-libvirt$|ExecStart=/bin/true|; s|^ExecStart=[^ ]*/vgpud$|ExecStart=$vgpud|; s|^ExecStart=[^ ]*/softgpu|ExecStart=$softgpu|" "$run"/units/*.service
mv "$run/units/vgpud-softgpu@.service" "$run/units/vgpud-softgpu@soft0.service"
# What it says of our units, and nobody else's.
verify() {
	SYSTEMD_UNIT_PATH="$run/units:" systemd-analyze verify --man=no "$run"/units/* >"$run/verify.txt" 2>&1
	grep "$run/units\|vgpud" "$run/verify.txt"
}
sed "/^\[Service\]/a Nonsense=1" "$run/units/vgpud.service" >"$run/units/vgpud-wrong.service"
verify >/dev/null || fail "systemd-analyze finds no fault with a unit that has one: $(cat "$run/verify.txt")"
rm "$run/units/vgpud-wrong.service"
said=$(verify) && fail "systemd-analyze verify says: $said"
for unit in "$run"/units/*.service; do
	systemd-analyze security --offline=true --threshold=40 --no-pager "$unit" >"$run/security.txt" 2>&1 ||
		fail "${unit##*/}: $(grep -v '✓' "$run/security.txt")"
	grep 'Overall exposure' "$run/security.txt"
done
