/* SPDX-License-Identifier: MIT */
/* Which GPU is booked for a VM: the test answers vgpud at the socket where it asks. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "vgpu/local_socket.h"
#include "vms.h"

/* Where vgpud asks which GPU is booked. */
static int asker;

/* Begins with a second GPU, which has one VF, and a socket to ask at. */
static void begin_two(void)
{
	static struct config read;
	struct engine_config engine_config;
	struct vgpu_error err = {""};
	struct engine *engine;
	char path[200];
	FILE *f;

	begin_free();
	snprintf(path, sizeof(path), "%s/second.conf", bench_dir);
	f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs("[gpu gpu1]\ndevice = null:busy=0\nvfs = 1\nrealtime = no\n", f);
	fclose(f);
	CU_ASSERT_EQUAL_FATAL(config_read(&read, path, stdout), 0);
	unlink(path);
	config_to_engine(&read.gpus[0], &engine_config);
	CU_ASSERT_EQUAL_FATAL(engine_start(&engine, &engine_config, &err), 0);
	CU_ASSERT_EQUAL_FATAL(control_add(&control, &read.gpus[0], engine), 0);
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"gpu\":\"gpu1\",\"vf\":0}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT_FATAL(
		comes_to_say(&one,
			     "{\"method\":\"vf.show\",\"args\":{\"gpu\":\"gpu1\",\"vf\":0}}\n",
			     "state", "available"));
	snprintf(config.bookings, sizeof(config.bookings), "%s/bookings", bench_dir);
	config.booking_ms = 5000;
	asker = vgpu_socket_listen(config.bookings, 0, 4, &err);
	CU_ASSERT_FATAL(asker >= 0);
}

static void end_two(void)
{
	close(asker);
	unlink(config.bookings);
	config.bookings[0] = '\0';
	bench_end();
}

/* Waits until vgpud asks about vm1. Returns the connection. */
static int is_asked(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	char line[64];
	int fd = -1;

	while (fd < 0 && vgpu_now() < until) {
		turn();
		fd = accept4(asker, NULL, NULL, SOCK_CLOEXEC);
	}
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(read(fd, line, sizeof(line)), (ssize_t)strlen(VM_UUID "\n"));
	CU_ASSERT_EQUAL(memcmp(line, VM_UUID "\n", strlen(VM_UUID "\n")), 0);
	return fd;
}

/* vm1 starts with that XML, and vgpud is answered with TEXT. */
static void start_with(const char *xml, const char *text)
{
	int fd;

	hook(&one, "prepare", xml);
	fd = is_asked();
	CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void start_booked(const char *text)
{
	start_with(CLAIM(HEAVY) "</domain>", text);
}

/* Returns on which GPU vm1 is; -1: on none, -2: on both. Its VF is free again afterwards. */
static int whose_vm1(void)
{
	int on = -1, g;
	uint32_t vf;

	for (g = 0; g < 2; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			if (control.gpus[g].leases[vf].state != LEASE_NONE)
				on = on == -1 ? g : -2;
	hook(&one, "release", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	return on;
}

/* A VM gets a VF of the GPU that is booked for it, or none. */
TEST(follows_the_booking, "a VM starts on the GPU that is booked for it")
{
	const uint64_t *counts = control.refusals.bookings;

	begin_two();
	start_booked("{\"gpus\":{\"gpu1\":{\"VF\":1,\"SHARE\":250}}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 1);
	start_booked("{\"gpus\":{\"gpu0\":{\"VF\":1}}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_GPU], 2);
	/* Another VM has the only VF of gpu1; gpu0 has three. */
	snprintf(control.gpus[1].leases[0].uuid, 37, NO_VM);
	snprintf(control.gpus[1].leases[0].domain, 256, "vm2");
	control.gpus[1].leases[0].state = LEASE_RUNNING;
	start_booked("{\"gpus\":{\"gpu1\":{\"VF\":1}}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "placement has booked gpu1, but all 1 VFs of gpu1"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	/* Of several GPUs the one that came nearest says why: gpu0 has memory for VFs, not that
	 * much; gpu1 has no VF. */
	start_with(CLAIM("<v:vf name='a'><v:memory unit='GiB'>200</v:memory></v:vf>") "</domain>",
		   "{\"gpus\":{}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "gpu0 can free at most 32 MiB in one block"));
	control.gpus[1].leases[0].state = LEASE_NONE;
	/* Nothing is booked; and a question is not asked about other things than starts. */
	start_booked("{\"gpus\":{}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_NONE], 2);
	say(&one, "{\"method\":\"vm.explain\",\"args\":{\"xml\":\"" CLAIM(HEAVY) "</domain>\"}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(accept4(asker, NULL, NULL, SOCK_CLOEXEC) < 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_LATE] + counts[REFUSAL_BOOKING_FAILED], 0);
	end_two();
}

/* Without an answer that can be used, vgpud chooses. */
TEST(chooses_without_an_answer, "a VM starts though nobody says what is booked")
{
	const uint64_t *counts = control.refusals.bookings;
	static char endless[3 * 8192];
	vgpu_nsec until;
	int fd;

	begin_two();
	start_booked("");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	start_booked("{\"gpus\":{\"gpu1\":{\"VF\":true}}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	memset(endless, ' ', sizeof(endless) - 1);
	start_booked(endless);
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_FAILED], 3);
	/* Silence; and an answer that comes byte by byte, for ever. */
	config.booking_ms = 200;
	hook(&one, "prepare", CLAIM(HEAVY) "</domain>");
	fd = is_asked();
	CU_ASSERT(done(&one));
	close(fd);
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	hook(&one, "prepare", CLAIM(HEAVY) "</domain>");
	fd = is_asked();
	for (until = vgpu_now() + PATIENCE; control.calls && vgpu_now() < until;) {
		send(fd, " ", 1, MSG_NOSIGNAL);
		usleep(10000);
		turn();
	}
	CU_ASSERT_PTR_NULL(control.calls);
	close(fd);
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_LATE], 2);
	/* Nobody is there. */
	close(asker);
	hook(&one, "prepare", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(whose_vm1(), 0);
	CU_ASSERT_EQUAL(counts[REFUSAL_BOOKING_FAILED], 4);
	asker = -1;
	end_two();
}
