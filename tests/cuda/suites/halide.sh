#!/bin/bash
# SPDX-License-Identifier: MIT
# halide.sh ROOT WORK [NAME...]: those tests of Halide's source in WORK whose names have "gpu", against ROOT's library, compiled for a GPU of CUDA.
# Prints a line for each: its name, a tab, and what became of it. run gives LIBRARIES and WITHIN.
set -uo pipefail
root=$1 work=$2
shift 2
cd "$work" || exit 1
[ $# != 0 ] || mapfile -t names < <(basename -s .cpp test/correctness/*gpu*.cpp)
for name in "${@:-${names[@]}}"; do
	if ! g++ -std=c++17 -O0 -w -Itest/common -Itools -Itest -I"$root/usr/include/halide14" -o program "test/correctness/$name.cpp" \
		"$root"/usr/lib/*-linux-gnu/libHalide14.so -Wl,--allow-shlib-undefined -lpthread -ldl >log 2>&1; then
		printf '%s\tnot compiled: %s\n' "$name" "$(grep -m 1 -oE '(error|cannot|undefined).*' log)"
		continue
	fi
	HL_TARGET=host-cuda-cuda_capability_70 HL_JIT_TARGET=host-cuda-cuda_capability_70 LD_LIBRARY_PATH=$LIBRARIES \
		"$WITHIN" "${SUITE_SECONDS:-600}" ./program >log 2>&1 </dev/null
	status=$?
	# Its own runner counts what says [SKIP] as skipped.
	if grep -q '^\[SKIP\]' log; then
		printf '%s\tskipped: %s\n' "$name" "$(grep -m 1 '^\[SKIP\]' log)"
	elif [ $status = 0 ]; then
		printf '%s\tpassed\n' "$name"
	else
		printf '%s\tfailed: %s %s\n' "$name" $status "$(grep -m 1 -iE 'vgpu-cuda|error|wrong|instead' log)"
	fi
done
