# SPDX-License-Identifier: MIT
# Errors of PCI Express that nothing can mend, reported for the PF (AER): vgpud says so, brings the GPU up anew, and
# tenants compute again.
. /tests/lib.sh
token=/run/vf-token
[ "$hold" = vfio ] && suffix=,token-file=$token
config "$hold:$pf$suffix" <<END
vfs = 2
END
: >/run/vgpud.log
need "vgpud starts" start_kept_vgpud
need "VFs are ready" await 20 is 1 state available
poke() { printf "$3" | dd of=$devices/$1/config bs=1 seek=$2 conv=notrunc 2>/dev/null; }
# What a host's firmware does, or a later kernel, and this machine does not: the GPU reports errors (its device control),
# and the root port forwards them (SERR in its bridge control).
report_errors() {
	poke 0000:00:01.0 62 '\002'
	poke $pf 80 '\017'
}
counted() { [ "$(grep -c "$1" /run/vgpud.log)" = "$2" ]; }
reported() { [ "$(dmesg | grep -c "$pf: .*PCIe Bus Error")" -ge "$1" ]; }
n=0
for error in COMP_ABORT MALF_TLP; do
	n=$((n + 1))
	report_errors
	echo "LAB-ERROR-$error"
	check "$error: the kernel has seen it" await 30 reported $n
	check "$error: vgpud says so" await 30 counted "lost:.*gpu=gpu0" $n
	check "$error: vgpud goes on" await 30 counted "found again" $n
	check "$error: VFs are ready" await 30 is 1 state available
	start_guest a 0 sha256 --seconds 5
	wait $guest_pid
	check "$error: a tenant computes" right a
done
cat /run/vgpud.log
finish
