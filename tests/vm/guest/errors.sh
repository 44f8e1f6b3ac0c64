# SPDX-License-Identifier: MIT
# Uncorrectable errors of PCI Express are reported for the PF (AER): vgpud reports them, does not spin, brings the GPU up again
# if it can, and tenants compute again.
. /tests/lib.sh
begin <<END
vfs = 2
END

poke() { printf "$3" | dd of=$devices/$1/config bs=1 seek=$2 conv=notrunc 2>/dev/null; }
# Makes the GPU report errors (in its device control) and the root port forward them (SERR in its bridge control). On other
# hosts, firmware or a later Linux does this.
report_errors() {
	poke 0000:00:01.0 62 '\002'
	poke $pf 80 '\017'
}
counted() { [ "$(grep -c "$1" /run/vgpud.log)" = "$2" ]; }
reported() { [ "$(dmesg | grep -c "$pf: .*PCIe Bus Error")" -ge "$1" ]; }
why() { ctl -o json gpu show | jq -r .why; }
n=0
error() { # NAME
	n=$((n + 1))
	report_errors
	echo "LAB-ERROR-$1"
	check "$1: Linux has seen the error" await 30 reported $n
	check "$1: vgpud reports the GPU as lost" await 30 counted "lost:" $n
}
computes() {
	check "$1: vgpud has found the GPU again" await 30 counted "found again" $n
	check "$1: VFs are ready" await 30 is 1 state available
	start_guest a 0 sha256 --jobs 2 --seconds 120
	wait $guest_pid
	check "$1: a tenant computes" right a
}
if [ "$hold" = vfio ]; then # vgpud is notified of both errors and brings the GPU up again
	error COMP_ABORT
	computes COMP_ABORT
	error MALF_TLP
	computes MALF_TLP
else # pci-pf-stub has no error handler: Linux resets the link and leaves the PF without its addresses
	error MALF_TLP
	check "vgpud gives the reason: the PF has lost its addresses" await 60 sh -c "vgpuctl --socket /run/control.sock -o json gpu show | grep -q 'lost its addresses'"
	say "$(why)"
	check "vgpud does not spin" rests $vgpud_pid 3
	echo LAB-UNPLUG
	check "the GPU is out of its slot" await 40 [ ! -e $devices/$pf ]
	echo LAB-PLUG
	check "the GPU is back in its slot" await 40 [ -e $devices/$pf ]
	computes "put back"
fi
cat /run/vgpud.log
finish
