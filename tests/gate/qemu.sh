#!/bin/bash
# SPDX-License-Identifier: MIT
# qemu.sh VGPUD-QEMU LIBRARY: vgpud-qemu starts no QEMU for a GPU if the loader would leave out the library that switches virgl off.
run=$(mktemp -d /tmp/vgpud-test.XXXXXX)
trap 'rm -rf "$run"' EXIT
bad=0
mkdir "$run"/{right,broken,'a b',"a\$LIB",none}
for d in right 'a b' "a\$LIB"; do cp "$2" "$run/$d/"; done
echo '/* not a library */' >"$run/broken/${2##*/}"
want() { # DIRECTORY WHAT-IT-SAYS
	VGPUD_GATE=$run/door VK_ADD_LAYER_PATH=$run/$1 VGPUD_QEMU=$run/no-qemu "$vgpud_qemu" -device virtio-gpu-gl-pci,venus=on,blob=on,hostmem=1G \
		2>"$run/said"
	[ $? = 1 ] && grep -q "$2" "$run/said" || { echo "layers in '$1': want '$2', got: $(cat "$run/said")"; bad=1; }
}
vgpud_qemu=$1
want right "no-qemu: No such file"
want none "cannot open shared object"
want broken "vgpud-qemu: .*broken/"
want 'a b' "without blank"
want "a\$LIB" "without blank"
exit $bad
