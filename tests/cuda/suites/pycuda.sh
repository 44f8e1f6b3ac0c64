#!/bin/bash
# SPDX-License-Identifier: MIT
# pycuda.sh ROOT SOURCE [TEST...]: PyCUDA's own tests. Its GPU kernels are compiled by NVIDIA's compiler, to PTX where PyCUDA asks for a cubin, which
# no driver in software executes. Prints a line for each: its name, a tab, and what became of it. run gives LIBRARIES and WITHIN.
set -uo pipefail
root=$1 source=$2
shift 2
bin=$source/nvcc-bin
mkdir -p "$bin/real"
cp "$root"/usr/lib/nvidia-cuda-toolkit/bin/{nvcc,cicc} "$bin/real/"
ln -sf "$root"/usr/bin/{cudafe++,ptxas,fatbinary,nvlink} "$bin/real/"
sed "s#/usr#$root/usr#g" "$root/etc/nvcc.profile" >"$bin/real/nvcc.profile"
cat >"$bin/nvcc" <<END
#!/bin/bash
all=() cubin=''
for x; do
	[ "\$x" != --cubin ] || { x=--ptx cubin=1; }
	all+=("\$x")
done
"$bin/real/nvcc" -ccbin clang-14 -I"$root/usr/include" -Wno-deprecated-gpu-targets "\${all[@]}" || exit
[ -z "\$cubin" ] || mv kernel.ptx kernel.cubin
END
chmod +x "$bin/nvcc"
cd "$source/test" || exit 1
[ $# != 0 ] || set -- test_driver.py test_cumath.py test_gpuarray.py
HOME=$source PATH=$bin:$PATH LD_LIBRARY_PATH=$LIBRARIES "$WITHIN" "${SUITE_SECONDS:-3000}" /usr/bin/python3 -m pytest -p no:cacheprovider -v --tb=line "$@" \
	</dev/null 2>>"$source/log" | sed -nE 's/^([^ ]*::[^ ]*) (PASSED|XFAIL).*/\1\tpassed/p; s/^([^ ]*::[^ ]*) SKIPPED.*/\1\tskipped: it says so/p;
		s/^([^ ]*::[^ ]*) (FAILED|ERROR|XPASS).*/\1\tfailed: \2/p'
