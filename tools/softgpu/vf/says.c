/* SPDX-License-Identifier: MIT */
/* Messages of a VF's process: notices to softgpu's device, requests to the client. */
#include <errno.h>
#include <sys/socket.h>

#include "vf.h"
#include "vgpu/descriptor.h"

struct packet_limits vf_limits(const struct vf *vf)
{
	return (struct packet_limits){.window = vf->window,
				      .size = vf->size,
				      .modules = vf->modules};
}

bool vf_publish(struct vf *vf)
{
	uint64_t bits = (vf->busy ? VF_BUSY : 0) | (vf->dead ? VF_DEAD : 0) |
			(vf->dead && vf->error == SOFTGPU_FAULTED ? VF_FAULTED : 0);

	bits |= (uint64_t)vf->generation << 32;
	return atomic_exchange(&vf->page->status, bits) != bits;
}

void vf_note(struct vf *vf)
{
	atomic_fetch_add(&vf->page->notices, 1);
}

void vf_notify(struct vf *vf)
{
	vf_note(vf);
	vgpu_eventfd_signal(VF_NOTICE_FD);
}

int vf_dma(const struct vf *vf, uint64_t iova, void *buffer, uint32_t size, bool to_client)
{
	struct vf_dma ask = {.iova = iova, .size = size, .to_client = to_client};
	struct iovec iov[2] = {{&ask, sizeof(ask)}, {buffer, size}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = to_client ? 2 : 1};

	if (!vf->has_carrier)
		return vfio_endpoint_dma(vf->endpoint, iova, buffer, size, to_client);
	if (sendmsg(VF_DMA_FD, &m, MSG_NOSIGNAL) < 0)
		return -EFAULT;
	m.msg_iovlen = to_client ? 1 : 2;
	if (recvmsg(VF_DMA_FD, &m, 0) < (ssize_t)sizeof(ask))
		return -EFAULT;
	return ask.result;
}
