/* SPDX-License-Identifier: MIT */
/* The models of other schedulers. */
#include <string.h>

#include "builtin.h"
#include "peer.h"
#include "plugin.h"

extern const struct vgpu_policy_ops peer_nv_arr, peer_nv_least, peer_amd_fair, peer_amd_liquid,
	peer_gvt_tbs, peer_credit2, peer_lottery, peer_stride, peer_band, peer_pup, peer_bvt,
	peer_linux_eevdf, peer_lavd;

const struct vgpu_policy_ops *const peers[] = {
	&peer_nv_arr,  &peer_nv_least, &peer_amd_fair, &peer_amd_liquid,
	&peer_gvt_tbs, &peer_credit2,  &peer_lottery,  &peer_stride,
	&peer_band,    &peer_pup,      &peer_bvt,      &peer_linux_eevdf,
	&peer_lavd,    NULL,
};

const struct vgpu_policy_ops *peer_or_policy(const char *name)
{
	unsigned i;

	for (i = 0; peers[i]; i++)
		if (strcmp(peers[i]->name, name) == 0)
			return peers[i];
	for (i = 0; plugin_loaded(i); i++)
		if (strcmp(plugin_loaded(i)->name, name) == 0)
			return plugin_loaded(i);
	return vgpu_builtin_policy(name);
}
