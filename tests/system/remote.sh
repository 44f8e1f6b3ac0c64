#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl --host: another host's vgpud by ssh. The ssh on this PATH is a script that gives its command to a shell, as sshd does,
# with the environment of another user; all the rest is real.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
config <<-CONF
	policy = fair
	vfs = 2
CONF
start_vgpud
mkdir "$run/bin" "$run/there"
cat >"$run/bin/ssh" <<-SSH
	#!/bin/sh
	printf '%s\n' "\$*" >>"$run/ssh.txt"
	[ "\$1 \$2" = "-T --" ] || exit 254
	case \$3 in
	user@there | ssh://user@there:2222) ;;
	dies) exit 0 ;;
	talks) echo "Welcome to this host"; exit 0 ;;
	banner) printf '\\nWelcome to node7 (Ubuntu)\\n\\nLast login: never\\n' ;;
	prompt) printf 'node7> ' ;;
	*) echo "ssh: connect to host \$3 port 22: No route to host" >&2; exit 255 ;;
	esac
	exec env -i PATH="$run/there:${vgpuctl%/*}:/usr/bin:/bin" VGPUD_SOCKET="$run/control.sock" /bin/sh -c "\$4"
SSH
chmod +x "$run/bin/ssh"
there() { PATH=$run/bin:$PATH VGPUD_SOCKET=/nonexistent "$vgpuctl" --host user@there "$@" 2>"$run/said"; }

# The answers are those of the socket itself; changes are made.
for command in "gpu list" "policy show" "vf list" "vm list"; do
	there $command >"$run/a" || fail "$command: $(cat "$run/said")"
	ctl $command >"$run/b"
	[ "$command" = "vf list" ] || cmp "$run/a" "$run/b" || fail "$command differs: $(cat "$run/a")"
done
there vf set 1 weight=250 >/dev/null || fail "$(cat "$run/said")"
[ "$(json vf show 1 | jq .params.weight)" = 250 ] || fail "the weight was not set"
# A long answer, and a view that asks again and again over one connection.
there timeline --ms 60000 -o json >"$run/timeline.json" || fail "$(cat "$run/said")"
jq -e .records "$run/timeline.json" >/dev/null || fail "the timeline is cut"
: >"$run/ssh.txt"
there -w --interval 0.05 --count 3 gpu show >"$run/watch.txt" || fail "$(cat "$run/said")"
[ "$(wc -l <"$run/ssh.txt")" = 1 ] || fail "more than one ssh: $(cat "$run/ssh.txt")"
# Files are written here, and the socket's path is the other host's. Errors and exit codes are those of the answer.
there inventory --format nova --output "$run/vgpud.yaml" || fail "$(cat "$run/said")"
grep -q CUSTOM_VGPUD_VF "$run/vgpud.yaml" || fail "$(cat "$run/vgpud.yaml")"
there --socket "$run/none.sock" gpu list; [ $? = 3 ] || fail "a vgpud that is not there: $(cat "$run/said")"
grep -q "cannot connect to $run/none.sock" "$run/said" || fail "$(cat "$run/said")"
there vf set 1 weight=0 >/dev/null && fail "weight=0 was accepted"
grep -q "user@there: policy fair: weight = 0" "$run/said" || fail "$(cat "$run/said")"
there gpu show --gpu gpu9; [ $? = 5 ] || fail "$(cat "$run/said")"
# Every word arrives as it is: nothing of it is a command for the other shell.
cat >"$run/there/vgpud-libvirt" <<-AGENT
	#!/bin/sh
	printf '<%s>\n' "\$@" >"$run/words"
AGENT
chmod +x "$run/there/vgpud-libvirt"
hostile="a'b; touch $run/hacked; \$(touch $run/hacked) \"c\" *"
there vm set "$hostile" weight=5 || fail "$(cat "$run/said")"
[ "$(cat "$run/words")" = "<set>
<$hostile>
<weight=5>" ] || fail "$(cat "$run/words")"
[ ! -e "$run/hacked" ] || fail "a word ran as a command on the other host"
# virsh's form of a host, with a port.
PATH=$run/bin:$PATH "$vgpuctl" --host ssh://user@there:2222 gpu list >"$run/a" || fail "ssh:// does not work"
ctl gpu list | cmp - "$run/a" || fail "the answer differs"
# An ssh that ends at once, and one that says something else.
for host in dies talks; do
	PATH=$run/bin:$PATH "$vgpuctl" --host $host gpu list >"$run/a" 2>"$run/said"; r=$?
	[ $r != 0 ] && [ ! -s "$run/a" ] && grep -q "$host" "$run/said" || fail "--host $host: $r $(cat "$run/a" "$run/said")"
done
# A shell that prints before it runs the program: what it prints is skipped and named, and no answer is lost.
for host in banner prompt; do
	printed() { PATH=$run/bin:$PATH VGPUD_SOCKET=/nonexistent "$vgpuctl" --host $host "$@" 2>"$run/said"; }
	printed gpu list >"$run/a" || fail "--host $host: $(cat "$run/said")"
	ctl gpu list | cmp - "$run/a" || fail "--host $host: $(cat "$run/a")"
	grep -q "$host: skipped what the remote shell prints, beginning with \"\(Welcome to node7 (Ubuntu)\|node7> \)\"" "$run/said" &&
		[ "$(wc -l <"$run/said")" = 1 ] || fail "--host $host: $(cat "$run/said")"
	printed -w --interval 0.05 --count 3 gpu show >/dev/null || fail "--host $host: $(cat "$run/said")"
	printed doctor -o json >"$run/doctor.json"
	[ $host = prompt ] || jq -e 'length > 0' "$run/doctor.json" >/dev/null || fail "--host $host, doctor: $(cat "$run/doctor.json")"
done
PATH=$run/bin:$PATH "$vgpuctl" --host talks gpu list 2>"$run/said"; [ $? = 3 ] && grep -q 'talks: the remote shell prints "Welcome to this host", and no vgpud answers' "$run/said" || fail "$(cat "$run/said")"
# doctor runs there.
there doctor -o json >"$run/doctor.json" # its findings, and so its exit code, are this machine's
jq -e 'length > 0' "$run/doctor.json" >/dev/null || fail "$(cat "$run/said")"
grep -q "'doctor' '-o' 'json'" "$run/ssh.txt" || fail "doctor did not run on the other host"
# What a command cannot do on another host, it refuses, and runs nothing; a socket that a command does not use, too.
: >"$run/ssh.txt"
for command in bridge verify complete; do
	there $command gpu0 2>"$run/said"; [ $? = 2 ] && grep -q "$command takes no --host" "$run/said" || fail "--host $command: $(cat "$run/said")"
done
[ ! -s "$run/ssh.txt" ] || fail "ssh was run: $(cat "$run/ssh.txt")"
for command in "vm set vm1 weight=1" "validate -"; do
	"$vgpuctl" --socket "$run/control.sock" $command 2>"$run/said" </dev/null; [ $? = 2 ] && grep -q "takes no --socket" "$run/said" || fail "$command: $(cat "$run/said")"
done
there --socket "$run/other.sock" doctor >/dev/null
grep -q "'doctor' '-o' 'text' '--socket' '$run/other.sock'" "$run/ssh.txt" || fail "doctor's socket is lost: $(cat "$run/ssh.txt")"
# validate with --host is about a domain there, also where a file here has its name.
echo "<domain><name>here</name></domain>" >"$run/vm1"
(cd "$run" && there validate vm1 >/dev/null)
[ "$(cat "$run/words")" = "<xml>
<vm1>" ] || fail "validate read a file of this host: $(cat "$run/words")"
# The clocks of two hosts began at different times: events have the time of day all the same, and --since is as long ago as it says.
if [ "$(id -u)" = 0 ] && unshare --time --monotonic 100000 true 2>/dev/null; then
	kill $vgpud_pid; wait $vgpud_pid
	printf '[daemon]\nsocket = %s\n[gpu gpu0]\ndevice = null:\nvfs = 2\n' "$run/control.sock" >"$run/vgpud.conf"
	unshare --time --monotonic 100000 --fork --kill-child "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
	await 30 ctl gpu list
	ctl vf reset 1 || fail "vgpuctl vf reset failed"
	resets() { there events --since 5m -o json | jq -r '[.records[] | select(.type == "reset-done")][-1].time // ""'; }
	is_reset() { [ -n "$(resets)" ]; }
	await 30 is_reset
	[ $(($(date +%s) - $(date -d "$(resets)" +%s))) -lt 300 ] || fail "the reset was at $(resets), says events, and it is $(date)"
	there events --since 5m | grep -q "reset-done" || fail "events --since 5m does not have the reset: $(there events)"
else
	echo "skipped: needs root and time namespaces to have another clock"
fi
# An audit compares what is booked, a file here, with what runs there.
cat >"$run/there/vgpud-libvirt" <<-AGENT
	#!/bin/sh
	[ "\$*" = list ] && echo "8a1f0b3c-0000-4000-8000-000000000001 running web"
AGENT
echo '{"allocations": {"8a1f0b3c-0000-4000-8000-000000000001": {"resources": {"CUSTOM_VGPUD_VF": 1}}}}' >"$run/placement.json"
PYTHONDONTWRITEBYTECODE=1 PATH=$run/bin:${vgpuctl%/*}:$PATH "$VGPU_BUILD/tools/openstack/vgpud-openstack" audit -o json --host user@there \
	--allocations "$run/placement.json" >"$run/audit.json" 2>"$run/said"; [ $? = 1 ] || fail "$(cat "$run/said")"
[ "$(jq -c '[.servers[] | "\(.domain) \(.finding)"]' "$run/audit.json")" = '["web without-gpu"]' ] || fail "$(cat "$run/audit.json")"
# Another host whose answers have anything in the place of anything: vgpuctl says or shows something, and never what steers a terminal.
mkdir "$run/hostile"
cp "$(dirname "$0")/mutate-answers.py" "$run/hostile/ssh"
for seed in 0 1 2 3; do
	for command in "gpu list" "gpu show" "vf list" "vf show 0" "vm list" "vm top --count 1" "policy list" "policy show" "policy explain" "memory show" "timeline --ms 9" "-o json inventory"; do
		SEED=$seed VGPUD=$run/control.sock PATH=$run/hostile:$PATH "$vgpuctl" --host hostile $command >"$run/a" 2>"$run/said"; r=$?
		[ $r -lt 124 ] || fail "$command: exit code $r with answers of seed $seed: $(cat "$run/said")"
		! LC_ALL=C grep -qaP '\x1b|\x07|\xc2\x9b' "$run/a" "$run/said" || fail "$command prints what steers a terminal, seed $seed: $(cat -v "$run/a" "$run/said")"
	done
	for command in "audit --allocations $run/placement.json" "providers --check"; do
		SEED=$seed VGPUD=$run/control.sock PATH=$run/hostile:${vgpuctl%/*}:$PATH PYTHONDONTWRITEBYTECODE=1 "$VGPU_BUILD/tools/openstack/vgpud-openstack" $command --host hostile >"$run/a" 2>"$run/said"
		! grep -q Traceback "$run/said" || fail "vgpud-openstack $command with answers of seed $seed: $(cat "$run/said")"
	done
done
# One that goes on when it has answered keeps nobody.
SEED=0 STAYS=600 VGPUD=$run/control.sock PATH=$run/hostile:$PATH timeout 300 "$vgpuctl" --host hostile gpu list >"$run/a" 2>&1; [ $? != 124 ] || fail "an ssh that does not end keeps vgpuctl"
# A host that is not reached, and one that would be an option of ssh.
PATH=$run/bin:$PATH "$vgpuctl" --host nowhere gpu list 2>"$run/said"; [ $? = 3 ] || fail "$(cat "$run/said")"
grep -q "No route to host" "$run/said" || fail "$(cat "$run/said")"
: >"$run/ssh.txt"
for host in -oProxyCommand=true ""; do
	PATH=$run/bin:$PATH "$vgpuctl" --host="$host" gpu list 2>"$run/said"; [ $? = 2 ] || fail "--host '$host': $(cat "$run/said")"
done
[ ! -s "$run/ssh.txt" ] || fail "ssh was run: $(cat "$run/ssh.txt")"
PATH=/nonexistent "$vgpuctl" --host there gpu list 2>"$run/said"; [ $? = 3 ] && grep -q "cannot run ssh" "$run/said" || fail "$(cat "$run/said")"
