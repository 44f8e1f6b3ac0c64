# SPDX-License-Identifier: MIT
# CUDA programs in a VM, as users: maker is a member of the group video, reader is not. There is no daemon in the VM, and no driver.
. /tests/lib.sh
mkdir -p /etc/udev/rules.d /run/udev
cp /bin/60-vgpu-cuda.rules /etc/udev/rules.d/
printf 'root:x:0:0::/:/bin/sh\nmaker:x:1000:1000::/tmp:/bin/sh\nreader:x:1001:1001::/tmp:/bin/sh\n' >/etc/passwd
printf 'root:x:0:\nvideo:x:44:maker\nmaker:x:1000:\nreader:x:1001:\n' >/etc/group
chmod 755 /
chmod 1777 /tmp /run
cp /bin/libcuda.so.1 /bin/libnvidia-ml.so.1 /lib/x86_64-linux-gnu/
export VGPU_CUDA_LOG=1
# as USER NAME COMMAND: runs a command, with its output in /run/NAME.log
# The host lets a VF have nine windows a minute, and a program that is alone takes two: one that is refused for that waits.
as() { su -s /bin/sh "$1" -c "$3" >/run/"$2".log 2>&1; }
says() { grep -q "$2" /run/"$1".log; }
refused() { ! as "$1" "$2" "$3" && says "$2" "$4"; }
starts() { # NAME: starts a program that goes on; sets $program
	rm -f /run/"$1".log
	as maker "$1" "echo \$\$ >/run/$1.pid; exec cuda-sample loop" &
	program=$!
	await 60 says "$1" ready
}
works() { nvml-sample >/run/works.log && says works "^utilization [1-9]"; }
address=$(basename "$(dirname "$(grep -l 0x5348 $devices/*/device)")")
need "the VM has a VF" [ -e $devices/$address/resource0 ]
# Before udev has done anything, only root may use it; here it is switched off, too, which not every firmware leaves it.
check "only root may use the VF" refused maker rights "vgpu-cuda-check" "this user may not use it"
dd if=/dev/zero of=$devices/$address/config bs=1 count=2 seek=4 conv=notrunc 2>/dev/null # the command register
check "the check says that the VF is switched off" refused root off "vgpu-cuda-check" "write 1 to /sys/bus/pci/devices/$address/enable"
systemd-udevd --daemon
udevadm trigger --action=add
need "udev ends" udevadm settle --timeout=30
check "the rule gives the group video rights" [ "$(stat -c '%U:%G %a' $devices/$address/resource5)" = "root:video 660" ]

need "all checks of the sample pass" as maker sample cuda-sample
says sample "0 of" || cat /run/sample.log
check "another user may not use the VF" refused reader reader "cuda-sample" "this user may not use it"
check "vgpu-cuda-check says so, too" refused reader reader "vgpu-cuda-check" "add the user to the group"
check "vgpu-cuda-check finds nothing wrong" as maker check "vgpu-cuda-check"
check "GPU kernels reach memory of the program" says check "^managed  *yes"
check "it names the GPU" says check "compute capability"
check "it finds NVML" says check "^NVML .*/libnvidia-ml.so.1"
check "VGPU_CUDA_VF names the VF" as maker named "VGPU_CUDA_VF=$address vgpu-cuda-check"
check "VGPU_CUDA_VF names no VF" refused maker wrong "VGPU_CUDA_VF=0000:00:00.0 vgpu-cuda-check" "not a VF of softgpu"
[ "$failed" = 0 ] || cat /run/*.log

# What a program leaves in the VF's memory, the next does not find.
check "a program leaves a mark" as maker mark "cuda-sample mark"
check "the next finds none" as maker clean "cuda-sample clean"

# Several programs have the VF at a time. One that is killed leaves nothing, and the others go on.
starts other
other=$program
for i in 1 2 3 4; do
	starts loop
	[ $i != 1 ] || check "NVML sees the GPU work" await 60 works
	usleep $((50000 + i * 70000))
	check "the program that is killed is there ($i)" kill -9 "$(cat /run/loop.pid)"
	wait $program
done
check "vgpu-cuda-check runs beside another program" as maker check "vgpu-cuda-check"
check "what killed programs have left is gone" as maker clean "cuda-sample rest"
check "the results of the other program were right" kill -9 "$(cat /run/other.pid)"
wait $other
check "after the last one was killed, nothing is left" as maker clean "cuda-sample clean"
# With the name resource:ADDRESS, a program has the VF alone.
starts loop
check "a program that wants the VF alone is refused" refused maker alone "VGPU_CUDA_VF=resource:$address cuda-sample" "another program holds this VF"
kill -9 "$(cat /run/loop.pid)"
wait $program

# NVML looks at the VF, also while a program has it, and tells what each user may know.
holds() { # USER: starts a program that has 5 MiB and goes on
	rm -f /run/hold.*
	mkfifo -m 666 /run/hold.in
	su -s /bin/sh "$1" -c "exec nvml-hold" </run/hold.in >/run/hold.log 2>&1 &
	exec 5>/run/hold.in
	echo +5242880 >&5
	await 90 says hold ^ok
}
ends() {
	exec 5>&-
	wait
	rm -f /run/hold.log
}
touch /run/hold.log
check "another user may not look at the VF" refused reader nvml "nvml-sample" "init this user may not"
check "a user may look at the VF" as maker nvml "nvml-sample"
for line in "name no GPU, but its interface in software, CUDA 12.4" "pci 0000$address" "capability 7.0" "total [1-9]" "used 0" "utilization [0-9]" "compute default\$" "virtualization vGPU\$" "persistence disabled\$" "mig disabled, then disabled\$"; do
	check "NVML says: $line" says nvml "^$line"
done
check "NVML knows no process" [ -z "$(grep ^process /run/nvml.log)" ]
holds maker
uuid=$(grep ^GPU- /run/hold.log)
for user in maker root; do
	check "NVML works beside a program, for $user" as $user nvml "nvml-sample"
	for line in "uuid $uuid" "$(grep ^compute /run/hold.log)" "$(grep ^total /run/hold.log)" "used 5242880" "process $(pidof nvml-hold) 5242880"; do
		check "NVML says to $user: $line" says nvml "^$line\$"
	done
done
ends
check "memory is free when the program has ended" as maker nvml "nvml-sample"
check "NVML says that none is used" says nvml "^used 0"
holds root
check "NVML works beside another user's program" as maker nvml "nvml-sample"
check "NVML does not know its memory" says nvml "^memory this user may not know this"
check "NVML knows its process" says nvml "^process $(pidof nvml-hold) unknown"
ends
killall systemd-udevd
finish
