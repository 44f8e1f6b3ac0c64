# SPDX-License-Identifier: MIT
# vgpuctl itself says how the last word may go on.
function __vgpuctl_offers
	set -l words (commandline -opc) (commandline -ct)
	for offer in (vgpuctl complete -- $words[2..-1] 2>/dev/null)
		switch $offer
			case :files
				__fish_complete_path (commandline -ct)
			case :vms
				virsh list --all --name 2>/dev/null | string match -v ''
			case '*'
				echo $offer
		end
	end
end
complete -c vgpuctl -f -a '(__vgpuctl_offers)'
