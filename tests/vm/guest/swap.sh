# SPDX-License-Identifier: MIT
# VFs have more memory together than the GPU has, with a real Linux: the PF copies by DMA through the IOMMU to huge pages of
# the host, which outlive vgpud. vgpud refuses host memory for a PF without DMA.
. /tests/lib.sh
echo 160 >/proc/sys/vm/nr_hugepages
check "there are huge pages" [ "$(cat /proc/sys/vm/nr_hugepages)" = 160 ]
huge_pages="host_memory_mib = 256
host_huge_pages = yes"
config "sysfs:$pf" <<END
vfs = 2
$huge_pages
END
vgpud --config /run/vgpud.conf 2>/run/refused.txt &
refused=$!
check "a PF without DMA is refused" await 60 grep -q "GPU lost: .*hold it by VFIO" /run/refused.txt
kill $refused
wait $refused
begin <<END
vfs = 2
policy = equal
epoch_ms = 200
$huge_pages
END
total() { ctl -o json memory show | jq ".$1"; }
swapped() { [ "$(total swaps_in)" -ge "$1" ]; }
check "one VF is swapped out" [ "$(ctl -o json vf list | jq '[.vfs[] | select(.swapped)] | length')" = 1 ]
check "host memory consists of huge pages" [ "$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)" = 32 ]
start_guest a 0 sha256 --seconds 10000
a=$guest_pid
start_guest b 1 gemm --seconds 10000
b=$guest_pid
need "both are swapped" await 120 swapped 6
on_the_way() { ctl -o json memory show | jq -e '[.extents[], .host_extents[] | select(.state == "moving")] | length > 0'; }
for i in 1 2 3; do
	await 60 on_the_way
	need "vgpud starts again" kill_and_start_vgpud
	check "vgpud adopts the GPU" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
	check "A gets turns" await 60 at_least 0 dispatches 5
	check "B gets turns" await 60 at_least 1 dispatches 5
	check "no VF was reset" [ "$(vf 0 resets)$(vf 1 resets)" = 00 ]
done
for g in a b; do
	eval kill -INT \$$g
	eval wait \$$g
	check "tenant $g ends well" [ $? = 0 ]
	[ "$failed" = 0 ] || { ctl vf list; ctl -o json vf show 0; ctl -o json memory show; }
	check "the results of tenant $g are right" right $g
	check "tenant $g was never reset" [ "$(jq .resets /run/$g.json)" = 0 ]
done
check "the keeper ends well" stop_vgpud
finish
