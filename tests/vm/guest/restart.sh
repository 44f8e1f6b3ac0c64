# SPDX-License-Identifier: MIT
# vgpud is killed during a slice: the VFs are not reset, the next vgpud adopts them, and results stay right. A tenant is
# killed: its VF is reset and scrubbed, and the other tenant continues.
. /tests/lib.sh
begin <<END
vfs = 2
policy = equal
END
[ "$hold" = sysfs ] || check "Linux has no method to reset the PF" [ -z "$(cat $devices/$pf/reset_method)" ]
start_guest a 0 sha256 --seconds 10000
a=$guest_pid
start_guest b 1 spin --us 20000 --depth 16 --seconds 10000
b=$guest_pid
need "both run" await 40 at_least 1 dispatches 20
for i in 1 2 3; do
	check "VF 0 is on the engine" await 60 is 0 on_engine true
	need "vgpud starts again" kill_and_start_vgpud
	check "vgpud adopts the GPU" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
	check "VF 0 gets slices again" await 60 at_least 0 dispatches 10
	check "VF 1 gets slices again" await 60 at_least 1 dispatches 10
	check "no VF was reset" [ "$(vf 0 resets)$(vf 1 resets)" = 00 ]
done
kill -INT $a
wait $a
check "tenant A ends well" [ $? = 0 ]
check "A's results are right" right a
check "A was never reset" [ "$(jq .resets /run/a.json)" = 0 ]

start_guest c 0 sha256 --seconds 10000
c=$guest_pid
need "C runs" await 40 is 0 state active
resets=$(vf 0 guest_resets)
before=$(vf 1 dispatches)
kill -9 $c
wait $c
check "C's VF is reset, scrubbed and free again" await 60 is 0 state available
check "B continues" await 60 at_least 1 dispatches $((before + 20))
check "VF 1 was not reset" [ "$(vf 1 resets)$(vf 1 hangs)" = 00 ]
start_guest e 0 sha256 --jobs 2 --seconds 120
wait $guest_pid
check "the VF serves another tenant" right e
# While the gates of a VF are closed, all its memory reads as ones: the guest notices that its VF is being reset, and starts
# again.
check "vf reset 1 succeeds" ctl vf reset 1
check "VF 1 is active again" await 60 is 1 state active
check "VF 1 gets turns again" await 60 at_least 1 dispatches $(($(vf 1 dispatches) + 5))
# softgpu's process of VF 1 stands still, and this machine with it at B's next access, which reads ones when softgpu has killed that
# process. Such a VF has not gone: B starts again.
await 60 at_least 1 dispatches $(($(vf 1 dispatches) + 5))
resets=$(vf 1 resets)
echo LAB-STILL
check "the VF's process is killed" await 60 at_least 1 resets $((resets + 1))
check "VF 1 gets turns once more" await 60 at_least 1 dispatches $(($(vf 1 dispatches) + 5))
kill -INT $b
wait $b
check "tenant B ends well" [ $? = 0 ]
check "B's results are right" right b
# Three times, if the new process has let it in before vgpud knew of the old one's end.
check "B was reset twice" sh -c 'r=$(jq .resets /run/b.json); [ "$r" = 2 ] || [ "$r" = 3 ]'
if [ "$hold" = vfio ]; then
	check "vgpud --release names the program that holds the PF" sh -c "vgpud --release $pf 2>&1 | grep -q 'in use by vgpud'"
	check "the keeper ends well" stop_vgpud
	check "the GPU is given back" vgpud --release $pf
	check "the PF has its reset methods again" grep -q flr $devices/$pf/reset_method
fi
finish
