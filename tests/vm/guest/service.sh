# SPDX-License-Identifier: MIT
# vgpud as a service of a real systemd: notification, watchdog, descriptors that outlive it with a PF held by VFIO,
# sockets that wait meanwhile, what it says in the journal and in its status.
. /tests/lib.sh
ctl() { vgpuctl "$@"; }
suffix= # the token is where it usually is
mkdir -p /etc/vgpud
cat >/etc/vgpud/vgpud.conf <<END
[gpu gpu0]
device = vfio:$pf
grace_ms = 1000
vfs = 2
policy = equal
END
property() { systemctl show -P $1 vgpud; }
systemctl daemon-reload
need "vgpud.service starts" systemctl start vgpud
need "two VFs are ready" await 30 is 1 state available
says() { [ "$(property StatusText)" = "1 GPU, running; 0 VFs belong to VMs" ]; }
check "its status says what there is" await 10 says # a word a second
check "descriptors are in systemd's store" [ "$(property NFileDescriptorStore)" -ge 1 ]
check "sockets are systemd's" [ "$(systemctl is-active vgpud-control.socket vgpud-hook.socket | sort -u)" = active ]
check "their owner is group vgpu" [ "$(stat -c '%G %a' /run/vgpud/control.sock)" = "vgpu 660" ]
check "the hook's is root's alone" [ "$(stat -c '%U %a' /run/vgpud/hook.sock)" = "root 600" ]

# VFs of a PF that vgpud holds: udev loads no driver of the host's for them.
loads_a_driver() { udevadm test --action=add "$(readlink -f $devices/$1)" 2>&1 | grep -q "kmod load"; }
check "udev loads drivers for devices" loads_a_driver 0000:00:1f.2
loads_a_driver "$(vf_address 0)"
check "and none for a VF" [ $? = 1 ]

start_guest a 0 sha256 --seconds 10000
a=$guest_pid
start_guest b 1 spin --us 20000 --depth 16 --seconds 10000
b=$guest_pid
need "both run" await 60 at_least 1 dispatches 20
is_another() { [ "$(property MainPID)" != $old ] && [ "$(property ActiveState)" = active ]; }
goes_on() { # HOW
	need "$1: there is another vgpud" await 60 is_another
	check "$1: the GPU is adopted" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
	check "$1: slices go on" await 30 at_least 1 dispatches 10
	check "$1: no VF was reset" [ "$(vf 0 resets)$(vf 1 resets)" = 00 ]
}
old=$(property MainPID)
check "restarted" systemctl restart vgpud
goes_on restart
old=$(property MainPID)
kill -9 $old
check "who asks meanwhile waits, and is answered" ctl gpu list
goes_on killed
old=$(property MainPID)
kill -STOP $old
goes_on watchdog
check "the journal tells of the watchdog" await 20 sh -c 'journalctl -b --no-pager | grep -q "vgpud.service: Watchdog timeout"'
check "lines are by GPU" await 20 sh -c "journalctl -b -t vgpud VGPU_GPU=gpu0 -o cat --no-pager | grep -q 'gpu=gpu0'"
kill -INT $a $b
wait $a $b
check "A's results are right" right a
check "B's results are right" right b
# A vgpud that is ended takes its counts with it; the tenants know of every reset.
check "A was never reset" [ "$(jq .resets /run/a.json)" = 0 ]
check "B was never reset" [ "$(jq .resets /run/b.json)" = 0 ]

# Stopped, it is started by who asks.
check "stopped" systemctl stop vgpud
check "and cleanly" [ "$(property Result)" = success ]
check "who asks starts it" ctl gpu list
check "it is active" [ "$(property ActiveState)" = active ]
# A configuration that is wrong: the unit fails, and says why.
systemctl stop vgpud vgpud-control.socket vgpud-hook.socket
echo 'nonsense = 1' >>/etc/vgpud/vgpud.conf
systemctl start vgpud
check "a wrong configuration is a failed start" [ $? != 0 ]
check "with its reason in the journal" await 20 sh -c "journalctl -b -t vgpud -o cat --no-pager | grep -q 'nonsense'"
finish
