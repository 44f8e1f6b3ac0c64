# SPDX-License-Identifier: MIT
# vgpuctl itself says how the last word may go on.
_vgpuctl() {
	local word=${COMP_WORDS[COMP_CWORD]} offer
	COMPREPLY=()
	while read -r offer; do
		case $offer in
		:files) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word") ;;
		:vms) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$(virsh list --all --name 2>/dev/null)" -- "$word") ;;
		"$word"*) COMPREPLY+=("$offer") ;;
		esac
	done < <(vgpuctl complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[[ ${COMPREPLY[0]:-} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -F _vgpuctl vgpuctl
