#!/bin/bash
# SPDX-License-Identifier: MIT
# The register tests of softgpu over vfio-user. The unit tests run the same tests on the library, the lab runs them over PCI.
. "$(dirname "$0")/lib.sh"
for layout in navi tonga soft; do
	"$softgpu" --dir "$run/$layout" --vram 512M --vfs 4 --layout $layout 2>>"$run/softgpu.log" &
	await 60 test -S "$run/$layout/pf.sock"
done
"$VGPU_BUILD/tests/unit/test-registers" vfio-user:"$run"/{navi,tonga,soft}/pf.sock || fail "test-registers failed: see its output above"
