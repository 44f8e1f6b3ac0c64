# SPDX-License-Identifier: MIT
# CUDA programs in one of several VMs, which do what tests/vm/cuda-four.sh orders on the console: "programs", "work", "rest" and "end". $mib:
# what programs may have of the VF's memory, MiB. These are few programs: each takes a window of the
# VF, for which the other VMs wait.
. /tests/lib.sh
cp /bin/libcuda.so.1 /bin/libnvidia-ml.so.1 /lib/x86_64-linux-gnu/
export VGPU_CUDA_LOG=1
as() { sh -c "$2" >/run/"$1".log 2>&1; } # NAME COMMAND: runs a command, with its output in /run/NAME.log
says() { grep -q "$2" /run/"$1".log; }
programs() {
	as sample cuda-sample && says sample "^cuda-sample: 0 checks failed" || { cat /run/sample.log; return 1; }
}
address=$(basename "$(dirname "$(grep -l 0x5348 $devices/*/device)")")
echo 1 >$devices/$address/enable
check "vgpu-cuda-check finds nothing wrong" as check vgpu-cuda-check
check "the VF has this VM's quota" says check "^memory  *$mib MiB for programs"
[ "$failed" = 0 ] || cat /run/check.log
say "ready"
echo "READY"
while read -r order; do
	case $order in
	programs)
		check "all checks of the sample pass" programs
		;;
	work)
		cuda-sample loop >/run/loop.log 2>&1 &
		loop=$!
		check "a program computes until it is killed" await 60 says loop ready
		;;
	rest)
		check "all results of that program were right" kill -9 $loop
		wait $loop
		;;
	end) break ;;
	esac
	say "done"
	echo "DONE $order"
done
finish
