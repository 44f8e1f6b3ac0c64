/* SPDX-License-Identifier: MIT */
/* A VF's process and its worker, which here is this test: when a stop is late. The thread of the
 * VF's process may itself be late, on a host whose CPUs are busy: the clock is this test's. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"
#include "suite.h"
#include "vf.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define KILL_AFTER (25 * VGPU_MSEC)
#define KILL_DISTURBED (2 * VGPU_SEC)

static int worker = -1; /* its end of the socket */
static int looks;	/* at the clock, since the order to stop was sent */
static int irqs;	/* that the client got */
static vgpu_nsec later; /* than the real time */
static void (*meanwhile)(void);

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	struct worker_message m;
	vgpu_nsec at;
	int r;

	while (worker >= 0 && recv(worker, &m, sizeof(m), MSG_DONTWAIT) == sizeof(m))
		looks = m.type == WORKER_STOP ? 1 : looks;
	if (looks > 0 && looks++ > 1 && meanwhile)
		meanwhile();
	r = __real_clock_gettime(clock, t);
	at = (vgpu_nsec)t->tv_sec * VGPU_SEC + (vgpu_nsec)t->tv_nsec + later;
	*t = (struct timespec){at / VGPU_SEC, at % VGPU_SEC};
	return r;
}

/* What compute.c calls of the rest of a VF's process. */
void vf_take_orders(struct vf *)
{
}

int vf_dma(const struct vf *vf, uint64_t iova, void *buffer, uint32_t size, bool to_client)
{
	(void)vf, (void)iova, (void)buffer, (void)size, (void)to_client;
	return -1;
}

bool vf_publish(struct vf *)
{
	return false;
}

void vf_notify(struct vf *)
{
}

bool engine_has_work(const struct vf *)
{
	return false;
}

void engine_kick(struct vf *)
{
}

void vfio_endpoint_irq(struct vfio_endpoint *endpoint, uint32_t vector)
{
	(void)endpoint, (void)vector;
	irqs++;
}

static void say(struct worker_message m)
{
	CU_ASSERT_EQUAL_FATAL(send(worker, &m, sizeof(m), MSG_DONTWAIT), sizeof(m));
}

static void fence(void)
{
	say((struct worker_message){.type = WORKER_FENCE});
}

static void end(void)
{
	say((struct worker_message){.type = WORKER_ENDED,
				    .serial = 1,
				    .ended = {.end = WORKER_STOPPED}});
}

/* Executes a run that must stop at once, while MEANWHILE_IS called at each look at the clock after
 * the first that follows the order to stop. */
static uint64_t stops(vgpu_nsec quiet_since, void (*meanwhile_is)(void))
{
	struct vf *vf = calloc(1, sizeof(*vf));
	struct vf_page *page = calloc(1, sizeof(*page));
	struct compute_setup setup = {.kill_after = KILL_AFTER, .kill_disturbed = KILL_DISTURBED};
	struct worker_shared *shared;
	uint64_t error;
	int ends[2];

	setup.shared = memfd_create("shared", MFD_CLOEXEC);
	setup.wake = vgpu_eventfd();
	CU_ASSERT_FATAL(vf && page && setup.shared >= 0 && setup.wake >= 0);
	CU_ASSERT_EQUAL_FATAL(ftruncate(setup.shared, sizeof(*shared)), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, setup.shared, 0);
	CU_ASSERT_FATAL(shared != MAP_FAILED);
	atomic_store(&shared->state, WORKER_READY);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	setup.socket = ends[0];
	vf->page = page;
	vf->worker_events = epoll_create1(EPOLL_CLOEXEC);
	atomic_store(&page->run, VF_RUN_WORD(1, VF_WATCHED));
	atomic_store(&page->quiet_since, quiet_since);
	vf->compute = compute_create(vf, &setup);
	CU_ASSERT_PTR_NOT_NULL_FATAL(vf->compute);
	worker = ends[1];
	meanwhile = meanwhile_is;
	error = compute_execute(vf);
	worker = -1;
	looks = 0;
	later = 0;
	compute_destroy(vf->compute);
	munmap(shared, sizeof(*shared));
	close(ends[1]);
	close(vf->worker_events);
	free(page);
	free(vf);
	return error;
}

static void late_itself(void)
{
	if (later == 0) {
		fence();
		fence();
		end();
	}
	later = VGPU_SEC;
}

TEST(thread_is_late, "a worker is not late because the thread that looks is")
{
	irqs = 0;
	CU_ASSERT_EQUAL(stops(0, late_itself), SOFTGPU_OK);
	CU_ASSERT_EQUAL(irqs, 2);
}

TEST(worker_is_late, "a worker that does not stop is lost")
{
	CU_ASSERT_EQUAL(stops(0, NULL), SOFTGPU_FAULTED);
}

static void floods(void)
{
	fence();
	later = VGPU_SEC;
}

/* A worker that says much, but not that it has stopped, is late all the same. */
TEST(worker_floods, "so is one that floods its socket")
{
	irqs = 0;
	CU_ASSERT_EQUAL(stops(0, floods), SOFTGPU_FAULTED);
	CU_ASSERT(irqs > 1);
}

static void ends_at_last(void)
{
	if (later == VGPU_SEC)
		end();
	later += VGPU_SEC / 2;
}

/* While a worker starts or ends, stopping takes longer. */
TEST(others_start, "a worker has longer while others start or end")
{
	CU_ASSERT_EQUAL(stops(VGPU_NEVER, ends_at_last), SOFTGPU_OK);
	CU_ASSERT_EQUAL(stops(0, ends_at_last), SOFTGPU_FAULTED);
}

SUITE_MAIN("compute")
