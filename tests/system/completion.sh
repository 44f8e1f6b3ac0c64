#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion of vgpuctl offers the commands of vgpuctl's table and the GPUs, VFs and policies that vgpud knows: in bash, zsh and
# fish, where these are installed.
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
offers -o "" -- json csv text
offers top --sort r -- received
offers -o json vf s -- show set
offers --gpu "" -- gpu0
offers vf show "" -- 0 1
offers vf set 1 w -- weight=
offers policy set be -- best-effort
offers policy set fair sl -- slice_us= slice=
offers memory set 1 "" -- none
offers top --int -- --interval
offers verify "" -- gpu0
offers verify --change "" -- 0 1
offers verify --busy "" -- all
offers gpu list --svg --
offers validate "$run/vgpud.c" -- "$run/vgpud.conf"
offers timeline --svg "$run/vgpud.c" -- "$run/vgpud.conf"
offers nonsense "" --
# Another host's VFs are not this one's, and completion does not run ssh, which might want to ask for a password.
mkdir "$run/bin"
printf '#!/bin/sh\n: >"%s"\n' "$run/ssh-ran" >"$run/bin/ssh"
chmod +x "$run/bin/ssh"
PATH=$run/bin:$PATH
offers --host there vf s -- show set
offers --host there vf show "" --
[ ! -e "$run/ssh-ran" ] || fail "completion runs ssh"
(VGPUD_SOCKET=$run/nothing.sock && offers vf show "" --) || exit 1
completions=$(dirname "$0")/../../tools/vgpuctl
if command -v fish >/dev/null; then
	# Without a home of its own, fish warns.
	in_fish() { HOME=$run XDG_CONFIG_HOME=$run fish -N -c "source $completions/completion.fish; complete -C '$1'" 2>&1 | sort | paste -sd' '; }
	[ "$(in_fish "vgpuctl vf s") $(in_fish "vgpuctl vf show ")" = "set show 0 1" ] || fail "fish offers: $(in_fish "vgpuctl vf s"), $(in_fish "vgpuctl vf show ")"
else
	echo "skipped: no fish"
fi
if command -v zsh >/dev/null; then
	# Outside of the line editor, compadd prints what it is given: the names of arrays behind -a.
	in_zsh() {
		zsh -fc 'compadd() { local a=${argv[-1]}; print -l ${(P)a}; }; _files() { print files; }; words=(vgpuctl "${@[2,-1]}") CURRENT=$#; source $1/completion.zsh' \
			zsh "$completions" "$@" 2>&1 | grep -v '^$' | paste -sd' '
	}
	[ "$(in_zsh vf show ""), $(in_zsh vf set 1 ""), $(in_zsh validate "")" = "0 1, weight= latency_slice_us=, files" ] ||
		fail "zsh offers: $(in_zsh vf show ""), $(in_zsh vf set 1 ""), $(in_zsh validate "")"
else
	echo "skipped: no zsh"
fi
# Every command in vgpuctl's table is offered.
while read -r noun verb _; do
	COMP_WORDS=(vgpuctl "$noun") COMP_CWORD=1
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $noun "* ]] || fail "$noun is not offered"
	[[ $verb =~ ^[a-z]+$ ]] || continue # an argument
	COMP_WORDS=(vgpuctl "$noun" "") COMP_CWORD=2
	_vgpuctl
	[[ " ${COMPREPLY[*]} " == *" $verb "* ]] || fail "$noun $verb is not offered"
done < <("$vgpuctl" --help | sed -n '/^$/,/^$/s/^  \([^ ].*\)  .*/\1/p')
