#!/bin/bash
# SPDX-License-Identifier: MIT
# bash completion of vgpuctl offers the commands of vgpuctl's table and the GPUs, VFs and policies that vgpud knows.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
echo "vfs = 2" | config
start_vgpud
export VGPUD_SOCKET=$run/control.sock
PATH=${vgpuctl%/*}:$PATH
. "$(dirname "$0")/../../tools/vgpuctl/completion.bash"
offers() { # WORDS -- OFFERS: completing the last of WORDS offers exactly OFFERS
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	COMP_WORDS=(vgpuctl "${words[@]}") COMP_CWORD=${#words[@]}
	_vgpuctl
	[ "${COMPREPLY[*]}" = "$*" ] || fail "completion of vgpuctl ${words[*]} offers '${COMPREPLY[*]}', want '$*'"
}
offers p -- policy
offers gpu "" -- list show
offers vm e -- explain
offers -o json vf s -- show set
offers --gpu "" -- gpu0
offers vf show "" -- 0 1
offers vf set 1 w -- weight=
offers policy set be -- best-effort
offers top --int -- --interval
offers nonsense "" --
# Every command in vgpuctl's table is offered.
while read -r noun verb _; do
	COMP_WORDS=(vgpuctl "$noun") COMP_CWORD=1
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $noun "* ]] || fail "$noun is not offered"
	[[ $verb =~ ^[a-z]+$ ]] || continue
	COMP_WORDS=(vgpuctl "$noun" "") COMP_CWORD=2
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $verb "* ]] || fail "$noun $verb is not offered"
done < <("$vgpuctl" --help | sed -n '/^$/,/^$/s/^  \([^ ].*\)  .*/\1/p')
