# SPDX-License-Identifier: MIT
# Sourced by the tests of CUDA programs in VMs: a Linux in QEMU with a VF of softgpu's CUDA engine as a vfio-user device. softgpu, vgpud
# and the workers run on this machine; the workers' own driver is the one in software (tools/cuda/driver/soft_cuda.c).
# VGPU_BUILD is the build, VGPU_LAB what tests/vm/setup has made.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
qemu=${VGPU_QEMU:-$here/../../build/vm-vfio-user/qemu}
[ -x "$qemu" ] || { echo "skipped: no QEMU with vfio-user; tests/vm/setup-vfio-user fetches one"; exit 77; }
. "$here/../system/lib.sh"
on=() # where QEMU runs

make_image() { "$here/image" "$VGPU_LAB" "$run/image.gz" "$@" || fail "the image cannot be made"; } # PROGRAM...
start_cuda_softgpu() { LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/driver start_softgpu --engine cuda --window 16M --kill-after 8000 "$@"; } # options
# vm NAME VF MIB TEST [WORD...]: starts a VM with that VF, which runs tests/vm/guest/TEST.sh. WORDS go on the kernel's command line. The
# VM's console is NAME.console, what order() writes its input. Sets $qemu_pid.
declare -A orders
vm() {
	local name=$1 vf=$2 mib=$3 test=$4 fd
	shift 4
	mkfifo "$run/$name.orders"
	exec {fd}<>"$run/$name.orders"
	orders[$name]=$fd
	# The VM's memory is shared with softgpu, as vfio-user needs it. For a machine that can only have one CPU, QEMU makes plain
	# accesses of locked ones, and a write of the host's in between is lost.
	"${on[@]}" "$qemu" -nodefaults -no-user-config -no-reboot -display none -monitor none -serial stdio \
		-machine q35,memory-backend=m -m "$mib" -object "memory-backend-memfd,id=m,size=${mib}M,share=on" -accel tcg -cpu max -smp 1,maxcpus=2 \
		-kernel "$VGPU_LAB/vmlinuz" -initrd "$run/image.gz" -append "console=ttyS0 quiet panic=-1 lab.test=$test $*" \
		-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$run/gpu/vf$vf.sock\"}}" \
		<"$run/$name.orders" >"$run/$name.console" 2>"$run/$name.qemu.log" &
	qemu_pid=$!
}
order() { echo "$2" >&"${orders[$1]}"; }                   # VM WORD
gone() { ! kill -0 "$1" 2>/dev/null; }                     # PID
console() { tr -d '\r' <"$run/$1.console"; }               # VM: prints what it has said
said() { console "$1" | grep -a "$2" >/dev/null; }         # VM PATTERN
# ends_well VM PID: its test has passed, and its QEMU ends.
ends_well() {
	said "$1" '^LAB-RESULT 0 ' || fail "the test failed in the VM"
	gone "$2" || fail "the VM does not end"
	wait "$2" || fail "QEMU ended with $?"
}
stop_all() {
	kill "$vgpud_pid"; wait "$vgpud_pid" || fail "vgpud ended with $?"
	kill "$softgpu_pid"; wait "$softgpu_pid" || fail "softgpu ended with $?"
}
