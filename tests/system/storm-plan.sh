# SPDX-License-Identifier: MIT
# Sourced by storm.sh: what happens in a storm, drawn from its seed and from nothing else. The same seed gives the same
# choices on every machine: which process is hit by what, at which instant, and what happens beside it.
tenants=(0 1 2)          # VFs of programs that compute
visits=(3 4 5 6 7 8)     # VFs of visitors, in turn: a tenant that leaves marks, or an attack; killed in each event
vm=9 idle_vm=10          # VFs of VMs: one whose guest computes, and one that starts and ends
vfs=11

# Each line: how often it is drawn, and what it is.
hits=(
	"14 vgpud KILL"
	"8 vgpud STOP"
	"14 vf KILL"
	"9 vf STOP"
	"13 guest KILL"
	"7 guest STOP"
	"6 libvirtd KILL"
	"4 libvirtd STOP"
	"6 agent KILL"
	"4 agent STOP"
	"8 qemu KILL"
	"4 qemu STOP"
)
asides=(
	"18 nothing"
	"12 compact"
	"10 resize"
	"6 resize-force"
	"6 reset"
	"16 policy"
	"10 weight"
	"6 rubbish"
	"12 vm"
	"8 vgpud"
)
visitors=("10 canary" "2 interrupts" "2 holes" "2 registers" "2 requests" "2 doorbells" "2 maps" "2 resets" "2 silence")
policies=(
	"4 fair"
	"4 equal"
	"4 strict idle=compress"
	"2 wdrr"
	"1 best-effort"
	"1 qos"
	"1 prio"
	"1 deadline"
)

# Knuth's MMIX generator; its upper half is used. draw N: sets $drawn to 0 ... N-1.
draw() {
	state=$((state * 6364136223846793005 + 1442695040888963407))
	drawn=$(((state >> 33 & 0x7fffffff) % $1))
}
# draw_from TABLE: sets $drawn to the text of one of its lines.
draw_from() {
	local -n table=$1
	local line sum=0
	for line in "${table[@]}"; do sum=$((sum + ${line%% *})); done
	draw $sum
	for line in "${table[@]}"; do
		drawn=$((drawn - ${line%% *}))
		[ $drawn -lt 0 ] && { drawn=${line#* }; return; }
	done
}
# plan EVENT: draws the next event. Every event takes the same number of draws, whatever is drawn. Times are milliseconds from
# its start. Sets
#   what, signal, target       the process that is hit: one of hits, and which VF's, if there are several
#   hit_at, hit_for            when, and for how long it is stopped by SIGSTOP: usually shorter than the grace, else for seconds
#   aside, aside_vf, aside_mib, aside_text, aside_at     what an operator or a tenant does meanwhile
#   visit_vf, visitor, visit_end                         the visitor, and when it is killed
plan() {
	local long
	draw_from hits; what=${drawn% *} signal=${drawn#* }
	draw $vfs; target=$drawn
	[ $what != guest ] || target=$((target % ${#tenants[@]}))
	draw 800; hit_at=$drawn
	draw 10; long=$((drawn < 3 ? 3000 : 400))
	draw $long; hit_for=$((drawn + 5))
	draw_from asides; aside=$drawn
	draw ${#visits[@]}; aside_vf=${visits[drawn]}
	draw 2; aside_mib=$((16 + 16 * drawn))
	draw_from policies; aside_text=$drawn
	draw ${#tenants[@]}; [ $aside != weight ] && [ $aside != reset ] || aside_vf=${tenants[drawn]}
	[ $aside != resize-force ] || aside_vf=${tenants[drawn]}
	draw 4; weight=$((50 + 50 * drawn))
	draw 1000; aside_at=$drawn
	draw_from visitors; visitor=$drawn
	draw 1200; visit_end=$drawn
	visit_vf=${visits[$1 % ${#visits[@]}]}
	[ $aside != resize ] || [ $aside_vf != $visit_vf ] || aside_vf=${visits[($1 + 1) % ${#visits[@]}]}
}
planned() { # the event in one line
	local it=$what
	case $what in vf) it="process of VF $target" ;; guest) it="guest of VF $target" ;; esac
	printf '%s %s at %d ms' "$signal" "$it" $hit_at
	[ $signal = KILL ] || printf ' for %d ms' $hit_for
	case $aside in
	nothing) ;;
	policy) printf '; policy %s' "$aside_text" ;;
	weight) printf '; VF %d weighs %d' $aside_vf $weight ;;
	resize*) printf '; %s VF %d to %d MiB' $aside $aside_vf $aside_mib ;;
	reset) printf '; reset VF %d' $aside_vf ;;
	*) printf '; %s' $aside ;;
	esac
	[ $aside = nothing ] || printf ' at %d ms' $aside_at
	printf '; %s in VF %d until %d ms\n' $visitor $visit_vf $visit_end
}
