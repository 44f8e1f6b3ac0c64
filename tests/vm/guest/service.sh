# SPDX-License-Identifier: MIT
# vgpud as a service of a real systemd: notification, watchdog, stored descriptors (they keep a PF that VFIO holds open),
# sockets that keep requests waiting during a restart, the journal and the status text.
. /tests/lib.sh
ctl() { vgpuctl "$@"; }
suffix= # the token is at its default path
mkdir -p /etc/vgpud
# No VF hangs here, so the grace is what a VF's process may wait for a CPU of a busy machine.
cat >/etc/vgpud/vgpud.conf <<END
[gpu gpu0]
device = vfio:$pf
grace_ms = 10000
vfs = 2
policy = equal
END
property() { systemctl show -P $1 vgpud; }
systemctl daemon-reload
need "vgpud.service starts" systemctl start vgpud
need "two VFs are ready" await 30 is 1 state available
says() { [ "$(property StatusText)" = "1 GPU, running; 0 VFs belong to VMs" ]; }
check "vgpud's status text counts GPUs and VFs" await 60 says # vgpud sends it once a second
check "the PF and both sockets are in systemd's store" [ "$(property NFileDescriptorStore)" -ge 3 ]
check "the control socket is for group vgpu" [ "$(stat -c '%G %a' /run/vgpud/control.sock)" = "vgpu 660" ]
check "the hook socket is for root alone" [ "$(stat -c '%U %a' /run/vgpud/hook.sock)" = "root 600" ]

# udev loads no driver of the host for the VFs of a PF that vgpud holds.
loads_a_driver() { udevadm test --action=add "$(readlink -f $devices/$1)" 2>&1 | grep -q "kmod load"; }
check "udev loads drivers for other devices" loads_a_driver 0000:00:1f.2
loads_a_driver "$(vf_address 0)"
check "udev loads no driver for a VF" [ $? = 1 ]

start_guest a 0 sha256 --seconds 10000
a=$guest_pid
start_guest b 1 spin --us 20000 --depth 16 --seconds 10000
b=$guest_pid
need "both run" await 60 at_least 1 dispatches 20
is_another() { [ "$(property MainPID)" != $old ] && [ "$(property ActiveState)" = active ]; }
goes_on() { # HOW
	need "$1: a new vgpud runs" await 60 is_another
	check "$1: the GPU is adopted" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
	check "$1: VF 1 gets slices again" await 30 at_least 1 dispatches 10
	check "$1: no VF was reset" [ "$(vf 0 resets)$(vf 1 resets)" = 00 ]
}
old=$(property MainPID)
check "systemctl restart succeeds" systemctl restart vgpud
goes_on restart
old=$(property MainPID)
kill -9 $old
check "a request during the restart waits and is answered" ctl gpu list
goes_on killed
old=$(property MainPID)
kill -STOP $old
goes_on watchdog
check "the journal reports the watchdog's time-out" await 60 sh -c 'journalctl -b --no-pager | grep -q "vgpud.service: Watchdog timeout"'
check "log lines in the journal have the field VGPU_GPU" await 60 sh -c "journalctl -b -t vgpud VGPU_GPU=gpu0 -o cat --no-pager | grep -q 'gpu=gpu0'"
# The journal knows the GPU, the place in the code, the kind of message (the catalog explains it), and that the GPU was adopted.
# Each vgpud but the first has adopted it.
entry() { journalctl -b -t vgpud -o json --no-pager --output-fields=MESSAGE,MESSAGE_ID,CODE_FUNC,CODE_FILE,VGPU_GPU | grep "$1" | tail -1; }
adopted() { entry 'adopted as it was found' | jq -e '.VGPU_GPU == "gpu0" and (.MESSAGE_ID | length) == 32 and .CODE_FUNC == "on_found" and (.CODE_FILE | endswith("daemon/main.c"))'; }
check "the journal has the adoption, with its fields" await 60 adopted
# More kills in a row than systemd's limit of starts allows by default.
for i in 1 2 3 4 5 6 7 8; do
	old=$(property MainPID)
	kill -9 $old
	need "killed $i times in a row: a new vgpud runs" await 60 is_another
done
goes_on "killed 8 times"
check "both sockets are still in the store" [ "$(property NFileDescriptorStore)" -ge 3 ]
kill -INT $a $b
wait $a $b
check "A's results are right" right a
check "B's results are right" right b
# The counters of a vgpud end with it; the tenants count every reset.
check "A was never reset" [ "$(jq .resets /run/a.json)" = 0 ]
check "B was never reset" [ "$(jq .resets /run/b.json)" = 0 ]

# Whatever ends vgpud, it comes back, but for a stop: no request starts a vgpud that was stopped.
old=$(property MainPID)
kill -INT $old
need "a new vgpud runs after SIGINT" await 60 is_another
ready() { systemctl is-active --quiet vgpud && ctl gpu list; }
need "it answers" await 60 ready
old=$(property MainPID)
kill -HUP $old
check "SIGHUP is logged as a reload" await 60 sh -c "journalctl -b -t vgpud -o cat --no-pager | grep -q 'the configuration was reloaded'"
check "SIGHUP does not end vgpud" [ "$(property MainPID)" = $old ]
check "systemctl stop succeeds" systemctl stop vgpud
check "vgpud ended without error" [ "$(property Result)" = success ]
ctl gpu list 2>/run/said.txt
check "a request is not answered" [ $? = 3 ]
check "it says that vgpud was stopped" grep -q "vgpud is not running: it was stopped at" /run/said.txt
check "vgpud is still inactive" [ "$(property ActiveState)" = inactive ]
# softgpu as a service: each VF's process is in a control group that limits its memory.
echo 'SOFTGPU_OPTIONS=--vfs 2 --vram 64M' >/etc/vgpud/softgpu-x.conf
need "vgpud-softgpu@x starts" systemctl start vgpud-softgpu@x
cat >/etc/vgpud/vgpud.conf <<END
[gpu soft]
device = vfio-user:/run/softgpu/x/pf.sock
vfs = 2
END
check "vgpud starts on it" systemctl restart vgpud
need "its VFs are ready" await 30 is 1 state available
groups=/sys/fs/cgroup$(systemctl show -P ControlGroup vgpud-softgpu@x)
process() { head -1 $groups/vf$1/cgroup.procs; }
check "VF 1's process is in its group" await 60 grep -q softgpu-vf "/proc/$(process 1)/comm"
memory=$(ctl -o json vf show 1 | jq .memory_bytes)
check "its memory is limited to the partition and 64 MiB" [ "$(cat $groups/vf1/memory.max)" = $((memory + (64 << 20))) ]
check "the device is not in a VF's group" grep -q "^$(systemctl show -P MainPID vgpud-softgpu@x)$" $groups/device/cgroup.procs
neighbour=$(process 0)
# More than the group may have, in a process of it: that one is killed, and no other group's.
sh -c 'echo 0 >"$0/cgroup.procs"; head -c $1 /dev/zero | tail' "$groups/vf1" $((memory + (128 << 20))) >/dev/null
check "what exceeds the limit is killed" grep -q '^oom_kill [1-9]' $groups/vf1/memory.events
check "a neighbour's process goes on" [ "$(process 0)" = "$neighbour" ]
check "no other group was hit" [ "$(sed -n 's/^oom_kill //p' $groups/vf0/memory.events)" = 0 ]
check "softgpu stops" systemctl stop vgpud-softgpu@x

# With a wrong configuration the unit fails and the journal says why.
systemctl stop vgpud
echo 'nonsense = 1' >>/etc/vgpud/vgpud.conf
systemctl start vgpud
check "with a wrong configuration the start fails" [ $? != 0 ]
check "it says by its exit status that the configuration cannot be used" [ "$(property ExecMainStatus)" = 78 ]
check "systemd does not try again" [ "$(property NRestarts) $(property ActiveState)" = "0 failed" ]
for i in 1 2 3 4 5 6 7 8 9 10; do ctl gpu list; done 2>/run/said.txt
check "clients say why, each at once" [ "$(grep -c "its start failed at .*nonsense" /run/said.txt)" = 10 ]
check "and start nothing" [ "$(property NRestarts) $(property ActiveState)" = "0 failed" ]
check "the journal names the wrong key" await 60 sh -c "journalctl -b -t vgpud -o cat --no-pager | grep -q 'nonsense'"
finish
