#compdef vgpuctl
# SPDX-License-Identifier: MIT
# vgpuctl itself says how the last word may go on.
local -a offers plain open
offers=("${(@f)$(vgpuctl complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
plain=(${${offers:#*=}:#:*}) open=(${(M)offers:#*=})
(( ${offers[(I):vms]} )) && plain+=(${(f)"$(virsh list --all --name 2>/dev/null)"})
compadd -a plain
compadd -S '' -a open
(( ${offers[(I):files]} )) && _files
