# SPDX-License-Identifier: MIT
# vgpud's driver xe under a real kernel: the lab's module lab_xe has softgpu's PF, with the files, modes, errors and counters of
# Linux's own driver, and softgpu schedules itself by what is written there. Guests compute on the VFs through VFIO. Everything
# is judged by counts: of what the guests have done, of writes that the kernel saw, of turns by softgpu's counters.
. /tests/lib.sh
mount -t debugfs debugfs /sys/kernel/debug
admin=$devices/$pf/sriov_admin
faults=/sys/kernel/debug/lab_xe
load() { rmmod lab_xe 2>/dev/null; insmod /lib/modules/lab_xe.ko version=$1 admin_fails=${2:-0}; }
quantum() { cat $admin/vf$1/profile/exec_quantum_ms; }
timeout_of() { cat $admin/vf$1/profile/preempt_timeout_us; }
vfs() { echo $1 >$devices/$pf/sriov_numvfs; }
gpu() { ctl -o json gpu show | jq -r ".$1"; }
gpu_is() { [ "$(gpu "$1")" = "$2" ]; }
gpu_at_least() { [ "$(gpu "$1")" -ge "$2" ]; }
said() { grep -q "$1" /run/vgpud.log; }
fault() { echo $2 >$faults/$1; }
left() { cat $faults/$1; }
is_used_up() { [ "$(left $1)" = 0 ]; }
# What vgpud says of a quantum is what the kernel has.
as_shown() { [ "$(vf $1 quantum_ns)" = "$(quantum $((1 + $1)))000000" ]; }
# goes_on N: VF N is served, by the GPU's counters as vgpud reads them, 200 ms more than now.
goes_on() { await 30 at_least $1 run_ns $(($(vf $1 run_ns) + 200000000)); }
by_weight() { [ "$(ctl -o json vf list | jq '[.vfs[] | .error_ppm] | length == 2 and all(. != null and fabs <= 30000)')" = true ]; }
# longer_turn N: VF N's quantum is more than twice that of the other one.
longer_turn() { [ "$(quantum $((1 + $1)))" -gt $((2 * $(quantum $((2 - $1))))) ]; }
# nominal N: VF N's quantum is three times that of the other one.
nominal() { [ "$(quantum $((1 + $1)))" = $((3 * $(quantum $((2 - $1))))) ]; }
# verifies CODE SECONDS: 'vgpuctl verify' ends with that code, for VFs that always work. judged N FILTER: N of its checks are such.
verifies() {
	ctl verify --seconds $2 --busy all --output /run/verify.json >/run/verify.log 2>&1
	code=$?
	cat /run/verify.log
	[ $code = $1 ]
}
judged() { [ "$(jq "[.checks[] | select($2)] | length" /run/verify.json)" = $1 ]; }
# turn_around: the VF that had three quarters gets a quarter, and the other way round.
big=1
turn_around() {
	big=$((1 - big))
	ctl vf set $big weight=300 && ctl vf set $((1 - big)) weight=100
} >/dev/null 2>&1

# Of making the folder, its 5 functions and a link, one step fails: nothing is left over.
for step in 1 3 7; do
	need "the module is loaded, to fail at step $step" load 7.2 $step
	check "the PF has no driver" [ ! -e $devices/$pf/driver ]
	check "nor a sriov_admin" [ ! -e $admin ]
done

# The files, against what vgpud takes them to be, and the defaults of three versions of Linux.
need "the module takes the PF" load 7.2
check "the PF has driver xe" [ "$(driver_of $pf)" = xe ]
check "files, modes, numbers and errors are as in Linux 7.3" test-xe-abi $admin /tests/xe-admin $faults
vfs 2
check "Linux 7.2 gives VFs turns of 16 ms" [ "$(quantum 1) $(timeout_of 2) $(quantum 3)" = "16 16000 0" ]
check "and memory" [ "$(cat $admin/vf2/profile/vram_quota)" -gt 0 ]
check "a VF is linked from its folder" [ "$(basename "$(readlink $admin/vf1/device)")" = "$(vf_address 0)" ]
vfs 0
check "all that goes with the VFs" [ "$(quantum 1) $(cat $admin/pf/profile/exec_quantum_ms $admin/vf2/profile/vram_quota | xargs)" = "0 0 0" ]
need "the module is loaded as Linux 7.0" load 7.0
vfs 2
check "Linux 7.0 gives VFs endless turns, and memory" sh -c "[ $(quantum 1) = 0 ] && [ $(cat $admin/vf1/profile/vram_quota) -gt 0 ]"
vgpuctl doctor >/run/doctor.log 2>&1
check "doctor says endless" grep -q endless /run/doctor.log
vfs 0
need "the module is loaded as Linux 6.19" load 6.19
check "Linux 6.19 does not divide memory" [ ! -e $admin/vf1/profile/vram_quota ]
config xe:$pf <<END
vfs = 2
[vf gpu0/0]
memory_mib = 48
[vf gpu0/1]
memory_mib = 32
END
vgpud --config /run/vgpud.conf 2>/run/refused &
refused=$!
check "vgpud refuses memory_mib there" await 60 grep -q "vram_quota is missing (Linux 7.0); remove memory_mib" /run/refused
kill $refused
wait $refused
check "and has made no VFs" [ "$(cat $devices/$pf/sriov_numvfs)$(quantum 1)" = 00 ]

# vgpud makes the VFs, by weights 100 and 300.
need "the module is loaded as Linux 7.2" load 7.2
config xe:$pf <<END
vfs = 2
policy = fair
[vf gpu0/0]
memory_mib = 48
[vf gpu0/1]
memory_mib = 32
weight = 300
END
need "vgpud starts" start_vgpud
check "VFs have vfio-pci" [ "$(driver_of "$(vf_address 0)") $(driver_of "$(vf_address 1)")" = "vfio-pci vfio-pci" ]
check "VFs have their memory" [ "$(cat $admin/vf1/profile/vram_quota $admin/vf2/profile/vram_quota | xargs)" = "50331648 33554432" ]
check "the PF has the least turn" [ "$(cat $admin/pf/profile/exec_quantum_ms)" = 1 ]
await 30 gpu_is governor "counters stand still"
check "no VF has work: vgpud leaves the plan alone" said "no VF's counter moves"
check "quanta are by weight" nominal 1
check "vgpud shows what the kernel has" as_shown 0
writes=$(gpu plan_writes) stores=$(left stores)

start_guest a 0 spin --us 5000 --depth 8 --seconds 10000
a=$guest_pid
start_guest b 1 spin --us 5000 --depth 8 --seconds 10000
b=$guest_pid
need "VF 0 is served" goes_on 0
check "VF 1 is served" goes_on 1
check "the governor works" await 30 gpu_is governor governed
began=$(gpu epochs)
check "24 epochs pass" await 90 gpu_at_least epochs $((began + 24))
check "shares of 10 s come to be by weight, within 3 points" await 120 by_weight
ctl vf list
# The report that an operator makes of such a GPU.
check "vgpuctl verify: what it judges is kept" verifies 0 8
# An emulated machine stands still at times, and the bounds of shares allow for it: few seconds may be too few to judge them.
check "verify: both shares are looked at" judged 2 '.check == "share" and (.verdict == "kept" or .verdict == "not judged")'
check "verify: both waits" judged 2 '.check == "wait" and .verdict == "kept"'
check "verify: both counters move, and the GPU's sums are true" judged 6 '(.check | startswith("counter")) and .verdict == "kept"'
check "verify: B was served two to four times as much as A" jq -e '[.checks[] | select(.check == "received").measured_ns] |
	.[1] > 2 * .[0] and .[1] < 4 * .[0]' /run/verify.json
check "verify: the report has the GPU, its driver's counters and epochs" jq -e '.format == "vgpud-verify-1" and
	.gpu.scheduler == "firmware" and (.gpu.device | startswith("xe:")) and (.samples | length) > 4 and
	([.epochs[] | select(.type == "served")] | length) > 8' /run/verify.json
kill -INT $a $b
wait $a
check "tenant A ends well" [ $? = 0 ]
wait $b
check "tenant B ends well" [ $? = 0 ]
check "by their own count, B has done more than one and a half times as much as A" \
	[ "$(jq .jobs /run/b.json)" -gt $(($(jq .jobs /run/a.json) * 3 / 2)) ]
say "jobs: $(jq .jobs /run/a.json) and $(jq .jobs /run/b.json)"
await 30 gpu_is governor "counters stand still"
await 30 gpu_at_least epochs $(($(gpu epochs) + 3))
say "settings written: $(($(gpu plan_writes) - writes)), writes that the kernel saw: $(($(left stores) - stores))"
check "each setting that changed is one write, and nothing else is written" [ $(($(gpu plan_writes) - writes)) = $(($(left stores) - stores)) ]

# Faults, while guests compute.
start_guest c 0 sha256 --seconds 10000
c=$guest_pid
start_guest d 1 sha256 --seconds 10000
d=$guest_pid
need "VF 0 is served again" goes_on 0
need "VF 1 is served again" goes_on 1
refusals=$(gpu plans_failed)
fault busy 5
turn_around
check "EBUSY: vgpud tries until the GPU is back" await 30 is_used_up busy
check "EBUSY: then the plan is in force" await 30 longer_turn $big
check "EBUSY: the governor is not told" gpu_is plans_failed $refusals
refusals=$(gpu plans_failed)
fault partial 1
turn_around
check "one GT refuses a setting" await 30 is_used_up partial
check "EUCLEAN: what differs is written again, and the GTs agree" await 30 longer_turn $big
check "EUCLEAN: the governor is not told" gpu_is plans_failed $refusals
refusals=$(gpu plans_failed)
fault refused 1
turn_around
check "the firmware refuses a setting" await 30 is_used_up refused
check "EIO: the governor is told" await 30 gpu_at_least plans_failed $((refusals + 1))
check "EIO: it says so" said "the GPU has refused a part of the plan"
check "EIO: and programs again" await 30 longer_turn $big
refusals=$(gpu plans_failed)
fault wedged 1
turn_around
check "ECANCELED: the governor is told" await 30 gpu_at_least plans_failed $((refusals + 1))
check "ECANCELED: VFs go on" goes_on 0
check "ECANCELED: the GPU is not lost" gpu_is state running
fault wedged 0
check "when the kernel takes settings again, the plan comes into force" await 30 longer_turn $big
clamped=$(gpu settings_clamped)
fault clamp_ms 5
turn_around
check "a clamp in silence is found by reading back" await 30 gpu_at_least settings_clamped $((clamped + 1))
check "vgpud shows the clamped quantum" await 30 is $big quantum_ns 5000000
fault clamp_ms 0
check "without the clamp the plan comes into force" await 60 longer_turn $big

# The kernel holds its mutex, as it does for up to 5 s while it clears a VF's memory. What the quanta are cannot be read then.
echo 1 >$faults/hold &
hold_pid=$!
need "the mutex is held" await 60 grep -q Y $faults/held
epochs=$(gpu epochs)
turn_around
check "a mutex that is held does not stop the governor" await 60 gpu_at_least epochs $((epochs + 4))
check "nor readings of what VFs were served" goes_on $big
check "it is still held" grep -q Y $faults/held
echo 0 >$faults/hold
wait $hold_pid
check "then the plan is written" await 30 longer_turn $big

# The GPU is reset: counters of functions stand still, until VFs are made anew.
fault frozen 1
check "counters that stand still are noticed" await 30 gpu_is governor "counters stand still"
check "the nominal plan is written" await 30 nominal $big
check "verify finds that they stand still" verifies 6 6
check "verify: it says which" judged 2 '.check == "counter moves" and .verdict == "BROKEN"'
fault frozen 0
check "when they count again, vgpud goes on" await 30 gpu_is governor governed
check "and says so" said "the VFs' counters move again"

# vgpud is killed, and adopts what there is.
before="$(quantum 1) $(quantum 2)"
kill -9 $vgpud_pid
wait $vgpud_pid
check "the last plan stands" [ "$(quantum 1) $(quantum 2)" = "$before" ]
lines() { dmesg | grep -c "$1"; }
quanta=$(lines 'execution quantum') timeouts=$(lines 'preemption timeout')
sed -i "s/^weight.*//; s/^\[vf gpu0\/$big\]/&\nweight = 300/" /run/vgpud.conf
need "vgpud starts again" start_vgpud
check "vgpud adopts the GPU" [ "$(gpu adopted)" = true ]
check "VF 0 goes on" goes_on 0
check "VF 1 goes on" goes_on 1
check "no VF was reset" [ "$(vf 0 resets)$(vf 1 resets)" = 00 ]
check "time-outs, which have not changed, were not written" [ "$(lines 'preemption timeout')" = "$timeouts" ]
say "quanta written after that: $((($(lines 'execution quantum') - quanta) / 2))"

# A VF is reset while its guest computes, which then has to begin anew. The other one does not notice.
check "vf reset 0 succeeds" ctl vf reset 0
check "C is told, and begins anew" goes_on 0
kill -INT $c 2>/dev/null
wait $c
check "C's results are right" right c
check "C knows of one reset" [ "$(jq .resets /run/c.json)" = 1 ]
start_guest f 0 sha256 --seconds 10000
f=$guest_pid
check "VF 0 serves another guest" goes_on 0
check "VF 1 was not reset" is 1 resets 0

# A clean stop writes the nominal plan. What runs goes on.
check "the governor corrects" await 30 gpu_is governor governed
check "vgpud ends well" stop_vgpud
check "a clean stop writes the nominal plan" nominal $big
check "VFs and their memory stay" [ "$(cat $devices/$pf/sriov_numvfs) $(cat $admin/vf1/profile/vram_quota)" = "2 50331648" ]
kill -INT $d $f
wait $d
check "tenant D ends well" [ $? = 0 ]
wait $f
check "tenant F ends well" [ $? = 0 ]
check "D's results are right" right d
check "F's results are right" right f
check "D was never reset" [ "$(jq .resets /run/d.json)" = 0 ]

# The PF loses its driver, and gets it back.
need "vgpud starts on that GPU" start_vgpud
echo $pf >/sys/bus/pci/drivers/xe/unbind
turn_around
check "a PF without a driver is a lost GPU" await 30 gpu_is state lost
say "$(gpu why)"
echo $pf >/sys/bus/pci/drivers/xe/bind
check "vgpud starts the GPU anew" await 30 gpu_is state running
check "with two VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 2 ]
start_guest e 1 sha256 --jobs 2 --seconds 120
wait $guest_pid
check "a VF serves again" right e
check "vgpud ends well again" stop_vgpud
finish
