# SPDX-License-Identifier: MIT
# Completes vgpuctl's commands from "vgpuctl --help", and their arguments from what vgpud and libvirt report.

_vgpuctl_asked() { vgpuctl -o json "$@" 2>/dev/null | jq -r "$_vgpuctl_filter" 2>/dev/null; }

_vgpuctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} table words=() i _vgpuctl_filter
	table=$(vgpuctl --help 2>/dev/null | sed -n '/^$/,/^$/s/^  \([^ ].*\)  .*/\1/p')
	COMPREPLY=()
	case $before in
	--gpu)
		_vgpuctl_filter='.gpus[].gpu'
		COMPREPLY=($(compgen -W "$(_vgpuctl_asked gpu list)" -- "$word"))
		return ;;
	-o) COMPREPLY=($(compgen -W json -- "$word")); return ;;
	--socket | --svg | --output) COMPREPLY=($(compgen -f -- "$word")); return ;;
	esac
	case $word in -*)
		COMPREPLY=($(compgen -W "$(vgpuctl --help 2>/dev/null | grep -o -- '--[a-z]*' | sort -u) -o" -- "$word"))
		return ;;
	esac
	# The words before the cursor, without options and their values.
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--force | --help | --save | --version) ;;
		-*) i=$((i + 1)) ;;
		*) words+=("${COMP_WORDS[i]}") ;;
		esac
	done
	case "${words[*]}" in
	"") COMPREPLY=($(compgen -W "$(awk '!seen[$1]++ {print $1}' <<<"$table")" -- "$word")) ;;
	"vf show" | "vf set" | "vf reset")
		_vgpuctl_filter='.vfs[].vf'
		COMPREPLY=($(compgen -W "$(_vgpuctl_asked vf list)" -- "$word")) ;;
	"vf set "*)
		_vgpuctl_filter='.params | keys[] + "="'
		COMPREPLY=($(compgen -W "$(_vgpuctl_asked vf show "${words[2]}")" -- "$word")) ;;
	"policy set")
		_vgpuctl_filter='.policies[].policy'
		COMPREPLY=($(compgen -W "$(_vgpuctl_asked policy list)" -- "$word")) ;;
	"vm explain" | "vm set") COMPREPLY=($(compgen -W "$(virsh list --all --name 2>/dev/null)" -- "$word")) ;;
	validate) COMPREPLY=($(compgen -f -W "$(virsh list --all --name 2>/dev/null)" -- "$word")) ;;
	*) [ ${#words[@]} = 1 ] &&
		COMPREPLY=($(compgen -W "$(awk -v noun="${words[0]}" '$1 == noun && $2 ~ /^[a-z]+$/ {print $2}' <<<"$table")" -- "$word")) ;;
	esac
	[[ ${COMPREPLY[0]:-} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -F _vgpuctl vgpuctl
