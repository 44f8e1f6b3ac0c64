#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs what docs/gated.md shows an operator, on lavapipe, and compares what it prints with the page. A stand-in for systemctl restarts vgpud;
# the page's program is vgpu-vulkan.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
if [ -z "${IN_NAMESPACE:-}" ]; then
	unshare --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces here"; exit 77; }
	IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/../gate/lavapipe.sh"
mkdir -p "$run"/{bin,etc/vgpud.conf.d,run,tenant} /etc/vgpud /run/vgpud /run/vgpud-tenant
mount --bind "$run/etc" /etc/vgpud
mount --bind "$run/run" /run/vgpud
mount --bind "$run/tenant" /run/vgpud-tenant
unset VGPUD_SOCKET
cp "$here/../../tools/packaging/systemd/vgpud.conf" /etc/vgpud/
ln -s "$vgpud" "$vgpuctl" "$run/bin/"
printf '#!/bin/sh\nexec %s --seconds 1000 --steps 500 >%s/program.txt 2>&1\n' "$load" "$run" >"$run/bin/my-program"
cat >"$run/bin/systemctl" <<SH
#!/bin/bash
[ "\$*" = "restart vgpud" ] || { echo "systemctl \$*: this stand-in cannot do that"; exit 1; }
setsid vgpud --config /etc/vgpud/vgpud.conf >>"$run/vgpud.log" 2>&1 </dev/null &
echo \$! >"$run/vgpud.pid"
for i in {1..600}; do vgpuctl gpu list >/dev/null 2>&1 && exit; sleep 0.05; done
exit 1
SH
chmod +x "$run"/bin/*
PATH=$run/bin:$PATH
ended() { [ ! -e "/proc/$1" ]; }
"$here/run-page.py" ${SHOW:+--show} "$here/../../docs/gated.md" "In five commands" || r=$?
pid=$(cat "$run/vgpud.pid") && kill "$pid" && await 30 ended "$pid"
[ "${r:-0}" = 0 ] || fail "gated.md shows something else than the programs print"
