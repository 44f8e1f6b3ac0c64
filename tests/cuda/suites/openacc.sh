#!/bin/bash
# SPDX-License-Identifier: MIT
# openacc.sh ROOT WORK [NAME...]: libgomp's tests of OpenACC in C, of GCC's source in ROOT, compiled by ROOT's compiler for GPUs, as its
# testsuite does for NVIDIA's: those that are to be run, and not only compiled. Prints a line for each: its name, a tab, and
# what became of it. run gives LIBRARIES and WITHIN.
set -uo pipefail
root=$1 work=$2
shift 2
[ -d "$work/libgomp" ] || { mkdir -p "$work" && tar -xJf "$(echo "$root"/usr/src/gcc-12/gcc-*.tar.xz)" -C "$work" --strip-components 1 \
	--wildcards '*/libgomp/testsuite/libgomp.oacc-c*' '*/include/gomp-constants.h' '*/gcc/testsuite/c-c++-common/goacc/*'; } || exit 1
ln -sf "$root/usr/include/cuda.h" "$work/include/" # some call the Driver API, too
cd "$work/libgomp/testsuite/libgomp.oacc-c-c++-common" || exit 1
offload=$(echo "$root"/usr/lib/gcc/*/12)
[ $# != 0 ] || set -- *.c
for f in "$@"; do
	grep -qE 'dg-do +(compile|link)' "$f" && continue
	options=$(sed -nE 's/.*dg-(additional-)?options +"([^"]*)".*/\2/p' "$f" | grep -v '\$' | tr '\n' ' ')
	more=$(sed -nE 's/.*dg-additional-sources +"?([^" }]*).*/\1/p' "$f")
	# shellcheck disable=SC2086
	if ! PATH=$root/usr/bin:/usr/bin:/bin gcc -O2 -w -fopenacc -foffload=nvptx-none -DACC_DEVICE_TYPE_nvidia=1 -DACC_MEM_SHARED=0 \
		-B"$offload/" -I"$work/include" -L"$VGPU_BUILD/tools/cuda/library" -o "$work/program" "$f" $more $options -lm >"$work/log" 2>&1; then
		printf '%s\tnot compiled: %s\n' "$f" "$(grep -m 1 -oE '(error|cannot|undefined).*' "$work/log")"
		continue
	fi
	mapfile -t set < <(sed -nE 's/.*dg-set-target-env-var "?([A-Z_]+)"? "([^"]*)".*/\1=\2/p' "$f")
	env "${set[@]}" ACC_DEVICE_TYPE=nvidia LD_LIBRARY_PATH="$LIBRARIES" "$WITHIN" "${SUITE_SECONDS:-600}" "$work/program" >"$work/log" 2>&1 </dev/null
	status=$?
	if grep dg-shouldfail "$f" | grep -qv this-really; then status=$((status == 0)); fi
	[ $status = 0 ] && printf '%s\tpassed\n' "$f" || printf '%s\tfailed: %s %s\n' "$f" $status "$(grep -E 'vgpu-cuda|libgomp' "$work/log" | tail -1)"
done
