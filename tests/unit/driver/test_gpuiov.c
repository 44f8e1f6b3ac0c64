/* SPDX-License-Identifier: MIT */
/*
 * The GPU-IOV driver on a softgpu in this process, behind a real vfio-user socket. The test sees
 * each access to the PF between the two. At an access of its choice it can let a reset end, or
 * answer with nonsense.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "softgpu.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/user_proto.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/driver.h"

#define VFS 2u
#define MAX_EVENTS 64u

static const struct vgpu_driver_ops *const ops = &vgpu_gpuiov_driver;

static char dir[64], socket_path[100], device_name[120];
static struct softgpu *gpu;
static struct vfio_server *server;
static pthread_rwlock_t endpoint_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct vfio_endpoint *endpoint;
static struct vgpu_driver *driver;
static struct vgpu_error err;

/* The events that the driver has reported. */
static struct vgpu_event events[MAX_EVENTS];
static uint32_t n_events;

/* What the test does between driver and device. */
/* Bits of VFs: the next read of a reset register waits until their resets end. */
static _Atomic uint32_t reset_ends_at_look;
static _Atomic bool busy_is_nonsense;
static _Atomic uint32_t looks; /* how often the driver has looked at the guests' resets */
/* A command that is under way to the device: its register and word are kept. */
static _Atomic enum { PASS, KEEP, KEPT } command_write;
static uint64_t kept_at;
static uint32_t kept_word;

/* What begin() makes. */
static const struct gpuiov_layout *layout = &gpuiov_layout_soft;
static bool interrupts, schedules;

static void on_event(void *, const struct vgpu_event *event)
{
	CU_ASSERT_FATAL(n_events < MAX_EVENTS);
	events[n_events++] = *event;
}

static uint32_t reg(enum gpuiov_register r)
{
	uint32_t value;

	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, gpuiov_layout_navi.at[r].offset, &value, 4);
	return value;
}

static void short_pause(void)
{
	struct timespec pause = {0, 200000};

	nanosleep(&pause, NULL);
}

static void on_region(void *, uint32_t index, struct vfio_server_region *out)
{
	struct softgpu_region r;

	softgpu_region(gpu, SOFTGPU_PF, index, &r);
	*out = (struct vfio_server_region){r.size, true, r.mmap_fd, r.mmap_size};
}

static uint32_t on_irqs(void *, uint32_t index)
{
	return index == VFIO_USER_IRQ_MSIX ? GPUIOV_PF_VECTORS : 0;
}

static bool is_at(uint32_t region, uint64_t offset, enum gpuiov_register r)
{
	return region == VFIO_REGION_BAR5 && offset == gpuiov_layout_navi.at[r].offset;
}

static void on_read(void *, uint32_t region, uint64_t offset, void *data, uint32_t count)
{
	uint32_t resets;

	softgpu_read(gpu, SOFTGPU_PF, region, offset, data, count);
	if (is_at(region, offset, GPUIOV_RESET_NOTIFICATION))
		atomic_fetch_add(&looks, 1);
	if (is_at(region, offset, GPUIOV_RESET_NOTIFICATION) ||
	    is_at(region, offset, GPUIOV_VF_RESET_REQ)) {
		resets = atomic_exchange(&reset_ends_at_look, 0);
		while (reg(GPUIOV_VF_RESET_REQ) & resets)
			short_pause();
	}
	/* The driver reads command, status and VM_BUSY in one access. */
	if (region == VFIO_REGION_CONFIG && count == 12 && atomic_load(&busy_is_nonsense))
		memset((char *)data + 8, 0xff, 4);
}

static void on_write(void *, uint32_t region, uint64_t offset, const void *data, uint32_t count)
{
	if (region == VFIO_REGION_CONFIG && count == 4 && atomic_load(&command_write) == KEEP) {
		kept_at = offset;
		memcpy(&kept_word, data, count);
		atomic_store(&command_write, KEPT);
		return;
	}
	softgpu_write(gpu, SOFTGPU_PF, region, offset, data, count);
}

static void on_reset(void *)
{
}

static const struct vfio_server_ops server_ops = {
	.region = on_region,
	.irqs = on_irqs,
	.read = on_read,
	.write = on_write,
	.reset = on_reset,
	.disconnected = on_reset,
};

static void on_irq(void *, int fn, uint32_t vector)
{
	pthread_rwlock_rdlock(&endpoint_lock);
	if (fn == SOFTGPU_PF && endpoint)
		vfio_endpoint_irq(endpoint, vector);
	pthread_rwlock_unlock(&endpoint_lock);
}

static int on_dma(void *, int, uint64_t, void *, uint64_t, bool)
{
	return -EFAULT;
}

static void on_vfs(void *, uint32_t)
{
}

static const struct softgpu_carrier carrier = {.irq = on_irq, .dma = on_dma, .vfs_changed = on_vfs};

static void set_endpoint(struct vfio_endpoint *e)
{
	pthread_rwlock_wrlock(&endpoint_lock);
	endpoint = e;
	pthread_rwlock_unlock(&endpoint_lock);
}

/* Opens a GPU and its driver. */
static void begin_with(const char *fault, const char *latency)
{
	struct vfio_endpoint *e;
	struct softgpu_config config = {.n_vfs = 31,
					.vram = 64u << 20,
					.layout = layout,
					.schedules = schedules,
					.seed = 1};
	struct vgpu_driver_config want = {.n_vfs = VFS, .host_node = -1, .interrupts = interrupts};
	struct vgpu_driver_found found;
	struct vgpu_driver_caps caps;

	CU_ASSERT_EQUAL_FATAL(softgpu_parse_latency(&config, latency, &err), 0);
	if (fault)
		CU_ASSERT_EQUAL_FATAL(softgpu_parse_fault(&config, fault, &err), 0);
	CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &config, &carrier, NULL, &err), 0);
	strcpy(dir, "/tmp/vgpud-gpuiov.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(socket_path, sizeof(socket_path), "%s/pf.sock", dir);
	snprintf(device_name, sizeof(device_name), "vfio-user:%s", socket_path);
	CU_ASSERT_EQUAL_FATAL(vfio_server_create(&server, "test", 0, &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_server_add(server, socket_path, &server_ops, NULL, &e, &err), 0);
	set_endpoint(e);
	want.device = device_name;
	n_events = 0;
	if (ops->device->open(&driver, &want, &caps, &found, on_event, NULL, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		CU_FAIL_FATAL("the driver does not open");
	}
	CU_ASSERT_EQUAL(caps.max_vfs, 31);
	CU_ASSERT_EQUAL(caps.kind, schedules ? VGPU_DRIVER_PROGRAMMED : VGPU_DRIVER_SWITCHED);
	CU_ASSERT_EQUAL(caps.chain, layout == &gpuiov_layout_soft && !schedules ? VGPU_CHAIN : 1);
	CU_ASSERT_EQUAL(n_events, 0);
}

static void begin(const char *fault)
{
	begin_with(fault, "flr=20000");
}

static void end(void)
{
	ops->device->close(driver, false);
	set_endpoint(NULL);
	vfio_server_destroy(server);
	softgpu_destroy(gpu);
	rmdir(dir);
}

/* Calls dispatch() until the driver reports an event. */
static const struct vgpu_event *next_event(void)
{
	vgpu_nsec now = VGPU_SEC;
	uint32_t had = n_events, tries;

	for (tries = 0; tries < 50000 && n_events == had; tries++) {
		CU_ASSERT_EQUAL_FATAL(ops->device->dispatch(driver, now += 100 * VGPU_MSEC), 0);
		if (n_events == had)
			short_pause();
	}
	CU_ASSERT_FATAL(n_events > had);
	return &events[had];
}

/* A reset that ends while the driver reads its state counts as done. */
TEST(reset_ends_meanwhile, "a reset that ends while the driver reads its state is done")
{
	const struct vgpu_event *e;

	begin(NULL);
	CU_ASSERT_EQUAL(ops->device->reset(driver, 1, VGPU_RESET_VF, VGPU_SEC), 0);
	atomic_store(&reset_ends_at_look, 1u << 1);
	e = next_event();
	CU_ASSERT_EQUAL(e->type, VGPU_EV_RESET_DONE);
	CU_ASSERT_EQUAL(e->vf, 1);
	CU_ASSERT_EQUAL(e->value, 0);
	CU_ASSERT_EQUAL(n_events, 1);
	end();
}

/* A reset that the device does not carry out is reported as failed. */
TEST(reset_fails, "a refused reset is reported as failed")
{
	const struct vgpu_event *e;

	begin("refuse-reset");
	CU_ASSERT_EQUAL(ops->device->reset(driver, 1, VGPU_RESET_VF, VGPU_SEC), 0);
	e = next_event();
	CU_ASSERT_EQUAL(e->type, VGPU_EV_RESET_DONE);
	CU_ASSERT_EQUAL(e->value, -EIO);
	end();
}

/* A command to a VF that its guest is resetting fails, and the driver does not blame the VF; also
 * if the reset ends at that instant. */
TEST(guest_resets_meanwhile, "a guest's reset does not count against its VF")
{
	const struct vgpu_order init = {1, VGPU_CMD_INIT, false};

	begin(NULL);
	softgpu_function_reset(gpu, 1);
	CU_ASSERT(reg(GPUIOV_VF_RESET_REQ) & 1u << 1);
	atomic_store(&reset_ends_at_look, 1u << 1);
	CU_ASSERT_EQUAL(ops->switched->commands(driver, &init, 1, VGPU_SEC), 0);
	CU_ASSERT_EQUAL_FATAL(n_events, 1);
	CU_ASSERT_EQUAL(events[0].type, VGPU_EV_GUEST_RESET);
	CU_ASSERT_EQUAL(events[0].vf, 1);
	end();
}

static const struct vgpu_order up[] = {{0, VGPU_CMD_INIT, false}, {0, VGPU_CMD_RUN, false}};
static const struct vgpu_order idle[] = {{0, VGPU_CMD_IDLE, false}};
static const struct vgpu_order over[] = {{0, VGPU_CMD_SAVE, false},
					 {1, VGPU_CMD_INIT, false},
					 {1, VGPU_CMD_RUN, false}};

/* Issues a chain, and waits for its answers. */
static void issue(const struct vgpu_order *orders, uint32_t n, uint32_t answers)
{
	vgpu_nsec until = vgpu_now() + 10 * VGPU_SEC;

	n_events = 0;
	CU_ASSERT_EQUAL(ops->switched->commands(driver, orders, n, vgpu_now()), 0);
	while (n_events < answers && vgpu_now() < until) {
		CU_ASSERT_EQUAL_FATAL(ops->device->dispatch(driver, vgpu_now()), 0);
		short_pause();
	}
	CU_ASSERT_EQUAL(n_events, answers);
}

static void is_done(uint32_t i, const struct vgpu_order *o)
{
	CU_ASSERT_EQUAL(events[i].type, VGPU_EV_DONE);
	CU_ASSERT_EQUAL(events[i].vf, o->vf);
	CU_ASSERT_EQUAL(events[i].code, o->command);
	CU_ASSERT_EQUAL(events[i].value, 0);
}

/* Each command of a chain is answered, with the instant at which it ended: at once, or after the
 * time that it takes. */
TEST(chains, "each command of a chain is answered")
{
	static const char *const latencies[] = {"flr=20000",
						"flr=20000,save=4000,init=7000,run=2000"};
	const vgpu_nsec took[2][3] = {{0, 0, 0}, {4 * VGPU_MSEC, 7 * VGPU_MSEC, 2 * VGPU_MSEC}};
	vgpu_nsec before;
	uint32_t i, k;

	for (k = 0; k < 2; k++) {
		begin_with(NULL, latencies[k]);
		issue(up, 2, 2);
		is_done(0, &up[0]);
		is_done(1, &up[1]);
		issue(idle, 1, 1);
		before = vgpu_now();
		issue(over, 3, 3);
		for (i = 0; i < 3; i++) {
			is_done(i, &over[i]);
			CU_ASSERT(events[i].now >= before + took[k][i]);
			before = events[i].now;
		}
		end();
	}
}

/* A chain ends with the VF that its guest resets; that VF is not blamed. */
TEST(guest_resets_in_a_chain, "a guest's reset ends a chain")
{
	begin(NULL);
	issue(up, 2, 2);
	issue(idle, 1, 1);
	softgpu_function_reset(gpu, 1);
	issue(over, 3, 2);
	is_done(0, &over[0]);
	CU_ASSERT_EQUAL(events[1].type, VGPU_EV_GUEST_RESET);
	CU_ASSERT_EQUAL(events[1].vf, 1);
	/* A command that fails for another reason is answered with its status. */
	n_events = 0;
	CU_ASSERT_EQUAL(ops->switched->commands(driver, over, 3, vgpu_now()), 0);
	CU_ASSERT_EQUAL(n_events, 1);
	CU_ASSERT(events[0].type == VGPU_EV_DONE && events[0].value == GPUIOV_STATUS_ABORTED);
	end();
}

/* What a chain has done before a guest's reset ended is reported before that reset, also if the
 * driver sees both in one look. */
TEST(answers_before_resets, "a chain's answers come before a later reset")
{
	vgpu_nsec until = vgpu_now() + 10 * VGPU_SEC;

	begin_with(NULL, "flr=20000,save=5000");
	issue(up, 2, 2);
	issue(idle, 1, 1);
	n_events = 0;
	CU_ASSERT_EQUAL(ops->switched->commands(driver, over, 3, vgpu_now()), 0);
	CU_ASSERT_EQUAL(n_events, 0);
	softgpu_function_reset(gpu, 0);
	atomic_store(&reset_ends_at_look, 1u << 0);
	while (n_events < 4 && vgpu_now() < until)
		CU_ASSERT_EQUAL_FATAL(ops->device->dispatch(driver, vgpu_now()), 0);
	CU_ASSERT_EQUAL_FATAL(n_events, 4);
	is_done(0, &over[0]);
	is_done(1, &over[1]);
	is_done(2, &over[2]);
	CU_ASSERT(events[3].type == VGPU_EV_GUEST_RESET && events[3].vf == 0);
	end();
}

/* The status page does not answer a command that has not reached the device yet. */
TEST(page_is_old, "a status page that is older than a command does not answer it")
{
	static const struct vgpu_order init = {1, VGPU_CMD_INIT, false},
				       save = {0, VGPU_CMD_SAVE, false};
	vgpu_nsec until = vgpu_now() + 10 * VGPU_SEC;
	uint32_t i;

	interrupts = true;
	begin_with(NULL, "flr=20000,init=2000");
	interrupts = false;
	issue(up, 2, 2); /* INIT is slow, so the next one is not waited for */
	issue(idle, 1, 1);
	issue(&save, 1, 1);
	n_events = 0;
	atomic_store(&command_write, KEEP);
	CU_ASSERT_EQUAL(ops->switched->commands(driver, &init, 1, vgpu_now()), 0);
	while (atomic_load(&command_write) != KEPT && vgpu_now() < until)
		short_pause();
	for (i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL(ops->device->dispatch(driver, vgpu_now()), 0);
		short_pause();
	}
	CU_ASSERT_EQUAL(n_events, 0);
	atomic_store(&command_write, PASS);
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, kept_at, &kept_word, 4);
	next_event();
	is_done(0, &init);
	end();
}

/* A device that has just gone answers with all ones, possibly in the middle of a read. The driver
 * reports nothing about VFs that do not exist. */
TEST(busy_bits_without_vfs, "busy bits of VFs that do not exist are ignored")
{
	uint32_t i;

	layout = &gpuiov_layout_navi;
	begin(NULL);
	layout = &gpuiov_layout_soft;
	atomic_store(&busy_is_nonsense, true);
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, VGPU_SEC), 0);
	atomic_store(&busy_is_nonsense, false);
	CU_ASSERT_EQUAL(n_events, VFS);
	for (i = 0; i < n_events; i++)
		CU_ASSERT(events[i].type == VGPU_EV_BUSY && events[i].vf < VFS);
	end();
}

/* From here on: a GPU that schedules itself. Real guests' words, in real time. */
static void begin_scheduling(const char *fault, const char *latency)
{
	schedules = true;
	begin_with(fault, latency);
	schedules = false;
}

static uint32_t own(uint32_t offset)
{
	uint32_t value;

	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, offset, &value, 4);
	return value;
}

static uint64_t mailbox(enum gpuiov_register r)
{
	return layout->at[r].offset;
}

/* A guest's driver sends a word. */
static void send(int vf, uint32_t word)
{
	const uint32_t none = 0, valid = GPUIOV_MBOX_TRN_VALID;

	softgpu_write(gpu, vf, VFIO_REGION_BAR5, mailbox(GPUIOV_MBOX_CONTROL), &none, 4);
	softgpu_write(gpu, vf, VFIO_REGION_BAR5, mailbox(GPUIOV_MBOX_TRN), &word, 4);
	softgpu_write(gpu, vf, VFIO_REGION_BAR5, mailbox(GPUIOV_MBOX_CONTROL), &valid, 4);
}

/* Returns whether the GPU has taken what VF has sent. */
static bool taken(int vf)
{
	uint32_t control = 0;

	softgpu_read(gpu, vf, VFIO_REGION_BAR5, mailbox(GPUIOV_MBOX_CONTROL), &control, 4);
	return control & GPUIOV_MBOX_TRN_ACK;
}

/* Returns the word that a guest finds in its mailbox. */
static uint32_t heard(int vf)
{
	uint32_t word = 0;

	softgpu_read(gpu, vf, VFIO_REGION_BAR5, mailbox(GPUIOV_MBOX_RCV), &word, 4);
	return word;
}

static bool hears(int vf, uint32_t word)
{
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;

	while (heard(vf) != word && vgpu_now() < until)
		short_pause();
	return heard(vf) == word;
}

static bool comes_up(int vf)
{
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;

	send(vf, GPUIOV_REQ_INIT);
	while (!taken(vf) && vgpu_now() < until)
		short_pause();
	if (!hears(vf, GPUIOV_READY))
		return false;
	/* That READY may be of an earlier window; until this one has begun, nobody listens. */
	while (!(own(SOFTGPU_TURN_UP) >> vf & 1) && vgpu_now() < until) {
		send(vf, GPUIOV_REL_INIT);
		short_pause();
	}
	return own(SOFTGPU_TURN_UP) >> vf & 1;
}

/* Programs equal quanta, and dispatches until the GPU has answered. Returns what programmed() does.
 */
static int programs(vgpu_nsec quantum, vgpu_nsec *now)
{
	struct vgpu_program p = {.keep_turns = false}, applied;
	uint32_t tries;
	int r;

	p.vfs[0].quantum = p.vfs[1].quantum = quantum;
	p.vfs[0].timeout = p.vfs[1].timeout = 20 * VGPU_MSEC;
	CU_ASSERT_EQUAL(ops->programmed->program(driver, &p, *now), 0);
	CU_ASSERT_EQUAL(ops->programmed->programmed(driver, &applied), 1);
	CU_ASSERT_EQUAL(ops->programmed->program(driver, &p, *now), -EBUSY);
	for (tries = 0; tries < 50000; tries++) {
		CU_ASSERT_EQUAL_FATAL(ops->device->dispatch(driver, *now += VGPU_MSEC), 0);
		r = ops->programmed->programmed(driver, &applied);
		if (r <= 0)
			return r;
		short_pause();
	}
	return 1;
}

/* Dispatches with a command planned for AFTER from now. Returns whether the driver looked at all.
 */
static bool looks_before(vgpu_nsec now, vgpu_nsec after)
{
	uint32_t before = atomic_load(&looks);

	ops->device->expect(driver, now + after);
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, now), 0);
	return atomic_load(&looks) != before;
}

/* A look at everything takes several trips to the device. It does not delay a planned command: it
 * waits for the command's answer, but not for ever. */
TEST(looks_keep_off, "a look at everything keeps off planned commands")
{
	static const struct vgpu_order init = {1, VGPU_CMD_INIT, false},
				       save = {0, VGPU_CMD_SAVE, false};
	const vgpu_nsec pause = 50 * VGPU_MSEC; /* between looks, and how long one is put off */
	vgpu_nsec now;

	interrupts = true;
	begin_with(NULL, "flr=20000,init=2000");
	interrupts = false;
	issue(up, 2, 2); /* INIT is slow, so the next one is not waited for */
	issue(idle, 1, 1);
	issue(&save, 1, 1);
	now = vgpu_now() + VGPU_SEC;
	CU_ASSERT(looks_before(now, VGPU_SEC));
	CU_ASSERT(!looks_before(now + pause - 1, VGPU_SEC));
	now += pause;
	CU_ASSERT(!looks_before(now, 1));
	CU_ASSERT_EQUAL(ops->device->deadline(driver), now + 1);
	CU_ASSERT(looks_before(now, VGPU_SEC));

	now += pause;
	CU_ASSERT(!looks_before(now, 1));
	CU_ASSERT(looks_before(now + pause, 1));

	now += 2 * pause;
	atomic_store(&command_write, KEEP);
	CU_ASSERT_EQUAL(ops->switched->commands(driver, &init, 1, now), 0);
	CU_ASSERT(!looks_before(now, VGPU_SEC));
	CU_ASSERT(ops->device->deadline(driver) > now);
	CU_ASSERT(looks_before(now + pause, VGPU_SEC));
	atomic_store(&command_write, PASS);
	end();
}

static vgpu_nsec quantum_in_force(void)
{
	return own(SOFTGPU_TURN_PLAN_OF(0)) * VGPU_USEC;
}

/* A plan takes its time, is clamped, and read back. One that is refused, or never answered, leaves
 * the one before it in force. */
TEST(plans, "plans are programmed as a whole, or not")
{
	vgpu_nsec now = VGPU_SEC;

	begin_scheduling("refuse-plan,skip=1,count=1", "config=20000");
	CU_ASSERT_EQUAL(programs(7 * VGPU_MSEC, &now), 0);
	CU_ASSERT_EQUAL(quantum_in_force(), 7 * VGPU_MSEC);
	CU_ASSERT_EQUAL(programs(8 * VGPU_MSEC, &now), -EIO);
	CU_ASSERT_EQUAL(quantum_in_force(), 7 * VGPU_MSEC);
	CU_ASSERT_EQUAL(programs(0, &now), 0);
	CU_ASSERT_EQUAL(quantum_in_force(), VGPU_MSEC);
	end();
	now = VGPU_SEC;
	begin_scheduling("hang,cmd=config,count=1", "flr=0");
	CU_ASSERT_EQUAL(programs(7 * VGPU_MSEC, &now), -EIO);
	CU_ASSERT(now > VGPU_SEC + 400 * VGPU_MSEC);
	CU_ASSERT_EQUAL(programs(7 * VGPU_MSEC, &now), 0);
	CU_ASSERT_EQUAL(quantum_in_force(), 7 * VGPU_MSEC);
	end();
}

/* vgpud ends after it has written a plan and before it puts it into force, or before the GPU
 * schedules: the next one finds the plan before it, and lets the GPU schedule. */
TEST(cut_short, "a plan that vgpud did not finish leaves the GPU as it is")
{
	struct vgpu_driver_config want = {.n_vfs = VFS, .host_node = -1, .device = device_name};
	struct vgpu_driver_found found;
	struct vgpu_driver_caps caps;
	struct vgpu_program applied;
	const uint32_t longer[] = {99000, 99000};
	uint32_t region = VFIO_REGION_CONFIG, dword = GPUIOV_CMD_DISABLE_AUTO | GPUIOV_CMD_EXECUTE;
	vgpu_nsec now = VGPU_SEC;
	uint8_t pointer;

	begin_scheduling(NULL, "flr=0");
	CU_ASSERT_EQUAL(programs(7 * VGPU_MSEC, &now), 0);
	CU_ASSERT(comes_up(0));
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_TURN_PLAN, longer, 8);
	softgpu_read(gpu, SOFTGPU_PF, region, 0x400 + layout->block_pointer, &pointer, 1);
	softgpu_write(gpu, SOFTGPU_PF, region,
		      0x400 + (uint64_t)pointer * 16 + layout->at[GPUIOV_CMD].offset, &dword, 4);
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_STATE), 0);
	ops->device->close(driver, false);
	n_events = 0;
	CU_ASSERT_EQUAL_FATAL(ops->device->open(&driver, &want, &caps, &found, on_event, NULL,
						&err),
			      0);
	CU_ASSERT(found.adopted && found.driver_up[0] && !found.driver_up[1]);
	CU_ASSERT_EQUAL(ops->programmed->programmed(driver, &applied), 0);
	CU_ASSERT_EQUAL(applied.vfs[0].quantum, 7 * VGPU_MSEC);
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_STATE), 1);
	CU_ASSERT(comes_up(1));
	end();
}

/* A guest that does not give its window back loses it, and its neighbour is served. */
static void window_is_lost(const char *fault)
{
	begin_scheduling(fault, "flr=0");
	send(0, GPUIOV_REQ_INIT);
	CU_ASSERT(hears(0, GPUIOV_READY));
	CU_ASSERT(comes_up(1));
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_COUNTS_OF(0) + 12), 1);
}

/* Its VF is then reset, and gets no other window before its time. */
TEST(windows, "windows are bounded, spaced and paid for")
{
	const struct vgpu_event *e;
	uint64_t active[2];

	window_is_lost(NULL);
	CU_ASSERT(hears(0, GPUIOV_FLR_DONE));
	send(0, GPUIOV_REQ_INIT);
	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_TURN_ACTIVE, active, 16);
	/* The window was its own time. */
	CU_ASSERT(active[0] >= 500 * VGPU_MSEC && active[1] < active[0]);
	for (e = next_event(); e->type != VGPU_EV_HANG; e = next_event())
		;
	CU_ASSERT_EQUAL(e->vf, 0);
	/* Its next one comes after a minute, and not after the least pause, which is over now. */
	nanosleep(&(struct timespec){.tv_nsec = 30 * 10 * VGPU_MSEC}, NULL);
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_COUNTS_OF(0) + 8), 1);
	CU_ASSERT(heard(0) != GPUIOV_READY);
	end();
}

TEST(windows_of_a_broken_vf, "a VF whose reset fails does not stop the others")
{
	window_is_lost("refuse-reset,vf=0");
	CU_ASSERT_EQUAL(heard(0), GPUIOV_FLR);
	end();
}

/* A guest may ask for three resets a minute. */
TEST(resets, "a guest may ask for so many resets")
{
	uint32_t i;

	begin_scheduling(NULL, "flr=0");
	for (i = 0; i < 3; i++) {
		send(0, GPUIOV_REQ_RESET);
		CU_ASSERT(hears(0, GPUIOV_FLR_DONE));
		CU_ASSERT_EQUAL(comes_up(0), true);
	}
	send(0, GPUIOV_REQ_RESET);
	CU_ASSERT(hears(0, GPUIOV_FAIL));
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_UP), 1);
	end();
}

/* VFs that are disabled in a window leave nothing behind. */
TEST(disabled, "VFs that are disabled in a window leave nothing behind")
{
	struct vgpu_driver_config want = {.n_vfs = VFS, .host_node = -1, .device = device_name};
	struct vgpu_driver_found found;
	struct vgpu_driver_caps caps;
	uint16_t none = 0;

	begin_scheduling(NULL, "flr=0");
	send(0, GPUIOV_REQ_INIT);
	CU_ASSERT(hears(0, GPUIOV_READY));
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, 0x330 + SRIOV_CTRL, &none, 2);
	CU_ASSERT_EQUAL(own(SOFTGPU_TURN_UP), 0);
	ops->device->close(driver, false);
	n_events = 0;
	CU_ASSERT_EQUAL_FATAL(ops->device->open(&driver, &want, &caps, &found, on_event, NULL,
						&err),
			      0);
	CU_ASSERT(!found.adopted);
	CU_ASSERT(comes_up(1));
	end();
}

SUITE_MAIN("the GPU-IOV driver")
