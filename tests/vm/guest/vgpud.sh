# vgpud whole: configuration, VFs, strict slices between two tenants that compute on VFs through the kernel's VFIO.
. /tests/lib.sh
config "$hold:$pf" <<END
vfs = 4
policy = strict
slice_us = 4000
idle = donate
END
say "vgpud holds the PF by $hold"
need "vgpud starts" start_vgpud
check "four VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
for i in 0 1 2 3; do check "VF $i has vfio-pci" [ "$(driver_of "$(vf_address $i)")" = vfio-pci ]; done
await 20 is 0 state available
start_guest a 0 sha256 --seconds 8
a=$guest_pid
start_guest b 1 gemm --seconds 8
b=$guest_pid
check "both drivers come up" await 30 is 0 state active
await 30 is 1 state active
ctl vf list
wait $a
check "tenant A ends well" [ $? = 0 ]
wait $b
check "tenant B ends well" [ $? = 0 ]
check "A's results are right" right a
check "B's results are right" right b
cat /run/a.json /run/b.json
ctl gpu show
ctl stats
kill $vgpud_pid
wait $vgpud_pid
check "vgpud ends well" [ $? = 0 ]
check "VFs are still there" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
finish
