#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs and containers of ordinary users: leases are the processes that live, exactly, over random starts, ends and restarts and while
# vgpud is killed; nobody gets what is another's; and 'vgpuctl run' as a user.
. "$(dirname "$0")/lib.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
[ "$(id -u)" = 0 ] || { echo "skipped: root is needed, to be other users"; exit 77; }
setpriv --reuid 7777 --clear-groups unshare -U true 2>/dev/null || { echo "skipped: users may make no user namespaces here"; exit 77; }
group=$(getent group 100 | cut -d: -f1)
[ -n "$group" ] || { echo "skipped: there is no group 100"; exit 77; }
chmod 755 "$run"
start_softgpu --vfs 6
cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
tenant_group = $group
hold_s = 1
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
vfs = 6
policy = qos
[tenant 7777]
leases = 4
[tenant *]
leases = 6
share_percent = 50
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$1" ] && ctl gpu list; }

# As the user 7777, the real commands. A refusal is printed before anything starts.
cp "$vgpuctl" "$run/vgpuctl"
chmod 755 "$run/vgpuctl"
as() { local uid=$1; shift; setpriv --reuid "$uid" --regid "$uid" --groups 100 "$run/vgpuctl" --socket "$run/control.sock" "$@"; }
as 7777 run --gpu gpu0 --weight 200 --limit 40% --memory 4M min=20% -- sh -c 'echo "${VGPU_CUDA_VF#lease:}"; [ -S "${VGPU_CUDA_VF#lease:}" ]' >"$run/said.txt" || fail "a user's program: $? $(cat "$run/said.txt")"
[ ! -e "$(cat "$run/said.txt")" ] || await 60 test ! -e "$(cat "$run/said.txt")"
refused() { # CODE TEXT OPTIONS...
	local code=$1 text=$2
	shift 2
	as 7778 run "$@" -- touch "$run/began" 2>"$run/refused.txt"
	[ $? = "$code" ] || fail "not refused with $code: $*: $(cat "$run/refused.txt")"
	[ ! -e "$run/began" ] || fail "the program began although it was refused: $*"
	grep -qF -- "$text" "$run/refused.txt" || fail "refused without \"$text\": $(cat "$run/refused.txt")"
}
touch "$run/began" && rm "$run/began" && chmod 777 "$run"
refused 1 "a share of 60.0 % is asked for beside 0.0 % that this user has; 50 % are allowed ($run/vgpud.conf:12: [tenant *])" min=60%
refused 1 "want a part of the GPU's time, like 30%" --limit 40
refused 1 'there is no GPU gpu1' --gpu gpu1
as 7778 container explain last | grep -q 'no GPU gpu1' || fail "container explain: $(as 7778 container explain last)"
as 7777 container explain last 2>"$run/explained.txt" && fail "a user was told of another's refusal"
as 7777 gpu list 2>/dev/null && fail "a user who is in no group of vgpud's reads the control socket"

# What runs can be changed, by its owner alone; limits that were changed hold for what starts from then on.
"$run/vgpuctl" --socket "$run/control.sock" run --gpu gpu0 min=30% -- sleep 60 &
sleeper=$!
lease() { ctl -o json tenant list | jq -er '.tenants[] | select(.name | startswith("sleep")).lease'; }
await 60 lease
ctl container set "$(lease)" min=20% >"$run/set.txt" && grep -q 200000 "$run/set.txt" || fail "tenant set: $(cat "$run/set.txt")"
as 7778 container set "$(lease)" min=5% 2>/dev/null && fail "another user could change a lease"
vf=$(ctl -o json tenant list | jq -er '.tenants[] | select(.name | startswith("sleep")).vf')
ctl vf set "$vf" weight=3 2>"$run/set.txt" && fail "the VF of a program was changed as if it were free"
grep -q "vgpuctl container set $(lease) weight=3" "$run/set.txt" || fail "vf set: $(cat "$run/set.txt")"
kill $sleeper
sed -i 's/share_percent = 50/share_percent = 10/' "$run/vgpud.conf"
ctl config reload >/dev/null || fail "config reload"
refused 1 '20.0 % is asked for beside 0.0 % that this user has; 10 % are allowed' min=20%
printf '[tenant nobody-is-called-so]\nleases = 1\n' >>"$run/vgpud.conf"
"$vgpud" --check-config --config "$run/vgpud.conf" >"$run/check.txt" 2>&1
grep -q 'nobody-is-called-so.: this host has no such user' "$run/check.txt" || fail "--check-config: $(cat "$run/check.txt")"
sed -i '/nobody-is-called-so/,$d' "$run/vgpud.conf"
none() { ! lease; }
await 60 none

# What is found out only by many: leases against processes.
steps=${1:-150}
seed=${VGPU_SEED:-$RANDOM}
coproc PY { python3 "$(dirname "$0")/leases.py" "$run/tenant.sock" "$run/control.sock" "$run/hook.sock" 6 $steps "$seed" 2>"$run/leases.log"; }
exec {out}<&"${PY[0]}" {in}>&"${PY[1]}"
last=''
while read -r -u "$out" line; do
	last=$line
	case $line in
	HOLD) # a restart that is slow is one, too
		sed -i 's/hold_s = 1$/hold_s = 60/' "$run/vgpud.conf"
		ctl config reload >/dev/null || fail "config reload"
		echo held >&"$in"
		continue ;;
	KILL) ;;
	minutes*) minutes=${line#* }; continue ;;
	*) echo "$line"; continue ;;
	esac
	old=$(child)
	kill -9 "$old"
	await 60 other_child "$old"
	echo "VGPUD $(child)" >&"$in"
done
[ "$last" = "done" ] || fail "leases.py: $last"
lines=$(grep -c 'logged of user 7779' "$run/vgpud.log")
[ "$lines" -ge 1 ] && [ "$lines" -le $((30 * minutes)) ] || fail "150 refusals of one user are $lines lines of the log in $minutes minutes"
