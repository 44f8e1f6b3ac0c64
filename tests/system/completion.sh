#!/bin/bash
# SPDX-License-Identifier: MIT
# What bash offers after vgpuctl: its commands, as its table has them, and what vgpud knows of.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
echo "vfs = 2" | config
start_vgpud
export VGPUD_SOCKET=$run/control.sock
PATH=${vgpuctl%/*}:$PATH
. "$(dirname "$0")/../../tools/vgpuctl/completion.bash"
offers() { # WORDS, the last of which is being written; then "--" and what is offered
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	COMP_WORDS=(vgpuctl "${words[@]}") COMP_CWORD=${#words[@]}
	_vgpuctl
	[ "${COMPREPLY[*]}" = "$*" ] || fail "vgpuctl ${words[*]}: '${COMPREPLY[*]}' is offered, not '$*'"
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
# Each command of the table can be reached.
while read -r noun verb _; do
	COMP_WORDS=(vgpuctl "$noun") COMP_CWORD=1
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $noun "* ]] || fail "$noun is not offered"
	[[ $verb =~ ^[a-z]+$ ]] || continue
	COMP_WORDS=(vgpuctl "$noun" "") COMP_CWORD=2
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $verb "* ]] || fail "$noun $verb is not offered"
done < <("$vgpuctl" --help | sed -n '/^$/,/^$/s/^  \([^ ].*\)  .*/\1/p')
