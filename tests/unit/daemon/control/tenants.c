/* SPDX-License-Identifier: MIT */
/* Programs and containers get VFs at a socket of their own, by their processes. This test is root,
 * and a program. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/caller.h"
#include "control/client.h"
#include "tenants/limits.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vms.h"

static struct peer door;

static void begin(const char *policy)
{
	config.hold_s = 60;
	config.n_tenants = 0;
	begin_free_with(policy);
	/* As a kind of GPU that programs can have. */
	strcpy(control.gpus[0].config->device, "null:");
	join(&door, config.tenant_socket);
}

static void end(void)
{
	close(door.fd);
	strcpy(control.gpus[0].config->device, "quick:");
	config.n_tenants = 0;
	bench_end();
}

/* A process that waits for its end. */
static pid_t a_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Asks for a container; MORE is further members of it. */
static void ask(const char *id, pid_t pid, const char *more)
{
	char text[400];

	snprintf(text, sizeof(text),
		 "{\"method\":\"tenant.start\",\"args\":{\"container\":{\"id\":\"%s\",\"pid\":%d%s}"
		 "}}\n",
		 id, (int)pid, more);
	say(&door, text);
}

/* The number of the VF that the answer gives; -1: another answer. */
static int given(void)
{
	struct json_object *o = hear(&door);
	int vf =
		get(get(o, "result"), "vf") ? json_object_get_int(get(get(o, "result"), "vf")) : -1;

	if (vf < 0)
		printf("\n  no VF: %s\n", json_object_to_json_string(o));
	json_object_put(o);
	return vf;
}

static size_t listed(void)
{
	struct json_object *o;
	size_t n;

	say(&door, "{\"method\":\"tenant.list\"}\n");
	o = hear(&door);
	n = json_object_array_length(get(get(o, "result"), "tenants"));
	json_object_put(o);
	return n;
}

/* Each socket has its own methods. */
TEST(methods_of_sockets, "methods of sockets")
{
	begin("fair");
	say(&one, "{\"method\":\"tenant.list\"}\n");
	CU_ASSERT(refused(&one, "EACCES", "only at the socket for programs"));
	say(&door, "{\"method\":\"vm.list\"}\n");
	CU_ASSERT(refused(&door, "EACCES", "not at the socket for programs"));
	say(&door, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(refused(&door, "EACCES", "not at the socket for programs"));
	say(&door, "{\"method\":\"ping\"}\n");
	CU_ASSERT(done(&door));
	end();
}

/* A program has one VF, for as long as its process lives, whatever becomes of its connection. */
TEST(a_program, "a program")
{
	begin("fair");
	say(&door, "{\"method\":\"tenant.start\",\"args\":{\"name\":\"a "
		   "b\",\"params\":{\"weight\":300}}}\n");
	CU_ASSERT_EQUAL(given(), 0);
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].process, (uint32_t)getpid());
	CU_ASSERT_NOT_EQUAL(strstr(control.gpus[0].leases[0].domain, "a_b["), NULL);
	CU_ASSERT_EQUAL(listed(), 1);
	say(&door, "{\"method\":\"tenant.start\",\"args\":{\"name\":\"again\"}}\n");
	CU_ASSERT(refused(&door, "EEXIST", "has VF 0 of gpu0 already"));
	say(&door, "{\"method\":\"tenant.stop\",\"args\":{}}\n");
	CU_ASSERT(done(&door));
	CU_ASSERT_EQUAL(listed(), 1);
	/* It is no VM. */
	say(&one, "{\"method\":\"vm.list\"}\n");
	CU_ASSERT(says(&one, "vms", "[ ]"));
	end();
}

static size_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool is_connected(pid_t pid)
{
	const struct client *c = control.clients;

	while (c && c->who.pid != (uint32_t)pid)
		c = c->next;
	return c;
}

/* Who has ended gets nothing, and leaves nothing behind. */
TEST(a_program_that_has_ended, "a program that has ended")
{
	static struct peer gone;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	vgpu_nsec until = vgpu_now() + PATIENCE;
	size_t before;
	pid_t pid;
	int i;

	begin("fair");
	snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", config.tenant_socket);
	gone = (struct peer){.fd = socket(AF_UNIX, SOCK_STREAM, 0)};
	pid = fork();
	if (pid == 0)
		_exit(connect(gone.fd, (void *)&at, sizeof(at)) < 0 || pause());
	while (!is_connected(pid) && vgpu_now() < until)
		turn();
	end_process(pid);
	before = descriptors();
	for (i = 0; i < 3; i++) {
		say(&gone, "{\"method\":\"tenant.start\",\"args\":{\"name\":\"a\"}}\n");
		CU_ASSERT(refused(&gone, "ESRCH", "the calling process has ended"));
	}
	CU_ASSERT_EQUAL(descriptors(), before);
	close(gone.fd);
	end();
}

/* What is not given yet is nobody's to see or to end. */
TEST(a_start_under_way, "a start under way")
{
	struct lease *l;

	begin("fair");
	l = control.gpus[0].leases;
	*l = (struct lease){.state = LEASE_RUNNING,
			    .by = CLAIM_BY_PROGRAM,
			    .owner = getuid(),
			    .host = "tenants",
			    .uuid = "not-given"};
	CU_ASSERT_EQUAL(listed(), 0);
	say(&door, "{\"method\":\"tenant.stop\",\"args\":{\"lease\":\"not-given\"}}\n");
	CU_ASSERT(done(&door));
	CU_ASSERT_EQUAL(l->state, LEASE_RUNNING);
	l->state = LEASE_NONE;
	end();
}

/* A socket that another vgpud has is not removed. */
TEST(another_has_the_socket, "another has the socket")
{
	char path[sizeof(config.tenant_socket)];
	int fd;

	snprintf(path, sizeof(path), "%s/tenant", bench_dir);
	fd = vgpu_socket_listen(path, 0600, 1, NULL);
	CU_ASSERT_FATAL(fd >= 0);
	bench_begin("fair");
	CU_ASSERT_PTR_NULL(control.doors.tenants);
	bench_end();
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	close(fd);
	unlink(path);
}

/* The lease of a container ends with its process, is held for it alone, and ends then. */
TEST(a_container, "a container")
{
	pid_t first, second, third;
	struct lease *l;

	begin("fair");
	l = control.gpus[0].leases;
	first = a_process();
	ask("abcdef0123456789", first,
	    ",\"annotations\":{\"vgpud.dev/weight\":\"300\",\"other\":\"x\"}");
	CU_ASSERT_EQUAL(given(), 0);
	ask("abcdef0123456789", first, "");
	CU_ASSERT(refused(&door, "EEXIST", "abcdef012345 has VF 0 of gpu0 already"));
	end_process(first);
	second = a_process();
	/* Whoever asks next does not get what is held. */
	ask("another", second, "");
	CU_ASSERT_EQUAL(given(), 1);
	CU_ASSERT_EQUAL(l[0].state, LEASE_HELD);
	third = a_process();
	ask("abcdef0123456789", third, ",\"annotations\":{\"vgpud.dev/weight\":\"300\"}");
	CU_ASSERT_EQUAL(given(), 0);
	CU_ASSERT_EQUAL(l[0].process, (uint32_t)third);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[0][0], 300);
	end_process(second);
	end_process(third);
	CU_ASSERT_EQUAL(listed(), 2);
	l[0].expires = l[1].expires = 0;
	CU_ASSERT_EQUAL(listed(), 0);
	control_settle(&control);
	CU_ASSERT_EQUAL(engine_policy(control.gpus[0].engine)->to_come.vf_params[0][0], 100);
	end();
}

/* A held VF, and what its container had, are known to the next vgpud. */
TEST(held_over_a_restart, "held over a restart")
{
	pid_t pid;
	struct lease *l;

	begin("fair");
	l = control.gpus[0].leases;
	pid = a_process();
	ask("abcdef0123456789", pid, ",\"annotations\":{\"vgpud.dev/weight\":\"300\"}");
	CU_ASSERT_EQUAL(given(), 0);
	end_process(pid);
	CU_ASSERT_EQUAL(listed(), 1);
	lease_clear(&l[0]);
	leases_load(&control);
	CU_ASSERT_EQUAL(l[0].state, LEASE_HELD);
	CU_ASSERT_EQUAL(l[0].by, CLAIM_BY_CONTAINER);
	CU_ASSERT_STRING_EQUAL(l[0].id, "abcdef0123456789");
	CU_ASSERT(control.gpus[0].clearing.vfs & 1);
	l[0].expires = 0;
	CU_ASSERT_EQUAL(listed(), 0);
	end();
}

/* A lease that is being taken back ends in time under the next vgpud, too. */
TEST(taken_back_over_a_restart, "taken back over a restart")
{
	vgpu_nsec by;
	struct lease *l;
	char text[160];
	pid_t pid;

	begin("fair");
	l = control.gpus[0].leases;
	pid = a_process();
	ask("abcdef0123456789", pid, "");
	CU_ASSERT_EQUAL(given(), 0);
	l->worker = (uint32_t)pid; /* as of a gated GPU */
	snprintf(text, sizeof(text), "{\"method\":\"tenant.stop\",\"args\":{\"lease\":\"%s\"}}\n",
		 l->uuid);
	say(&door, text);
	CU_ASSERT(done(&door));
	by = l->loses_by;
	CU_ASSERT(by > 0);
	lease_clear(l);
	leases_load(&control);
	CU_ASSERT_EQUAL(l->loses_by, by);
	CU_ASSERT_EQUAL(listed(), 1);
	l->loses_by = 1;
	CU_ASSERT_EQUAL(listed(), 0);
	end_process(pid);
	end();
}

/* Asks for a process of a user as that user, or, if not DUMPABLE, one that has had more rights. */
static int open_worker(bool dumpable, struct vgpu_error *err)
{
	const uid_t user = geteuid() == 0 ? 65534 : geteuid();
	const struct caller caller = {.uid = user, .owner = user, .is_here = true};
	struct caller out = {.pidfd = -1};
	int ready[2], r;
	char byte;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (setresuid(user, user, user) < 0 || prctl(PR_SET_DUMPABLE, dumpable) < 0 ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	r = caller_open_any(&caller, (uint32_t)pid, &out, err);
	vgpu_close(&out.pidfd);
	end_process(pid);
	return r;
}

/* A process that is not dumpable has or had more rights than its user: it is not the user's. */
TEST(anothers_worker, "another's worker")
{
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL(open_worker(true, &err), 0);
	CU_ASSERT_EQUAL(open_worker(false, &err), -EPERM);
}

/* What is held stays held while its container starts again. */
TEST(held_while_it_starts, "held while it starts")
{
	vgpu_nsec begun;
	struct lease *l;
	pid_t pid;

	begin("fair");
	l = control.gpus[0].leases;
	pid = a_process();
	ask("abcdef0123456789", pid, "");
	CU_ASSERT_EQUAL(given(), 0);
	end_process(pid);
	CU_ASSERT_EQUAL(listed(), 1);
	begun = vgpu_now();
	l->expires = begun + 9 * VGPU_SEC;
	pid = a_process();
	ask("abcdef0123456789", pid, ",\"annotations\":{\"vgpud.dev/share\":\"30%\"}");
	CU_ASSERT(refused(&door, "EBUSY", "min"));
	CU_ASSERT_EQUAL(l->state, LEASE_HELD);
	CU_ASSERT(l->expires >= begun + 10 * VGPU_SEC);
	end_process(pid);
	l->expires = 0;
	CU_ASSERT_EQUAL(listed(), 0);
	end();
}

/* What is asked is checked before anything is given, and the reason is kept. */
TEST(refusals, "refusals")
{
	static const struct {
		const char *id, *more, *code, *words;
	} rows[] = {
		{"../x", "", "EINVAL", "id: want"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/memory\":\"2\"}", "EINVAL", "like 2Gi"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/memory\":\"2G\"}", "EINVAL", "like 2Gi"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/share\":\"30\"}", "EINVAL", "like 30%"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/shares\":\"30%\"}", "EINVAL",
		 "no such annotation"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/gpu\":\"gpu1\"}", "EBUSY",
		 "no GPU gpu1"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/share\":\"30%\"}", "EBUSY", "min"},
		{"aaaaaaa", ",\"annotations\":{\"vgpud.dev/lease\":\"x\"}", "ENOENT",
		 "no such lease"},
		{"aaaaaaa", ",\"worker\":0", "EINVAL", "worker: want a process"},
		{"aaaaaaa", ",\"worker\":2147483647", "ESRCH", "no process 2147483647"},
	};
	pid_t pid;
	size_t i;

	begin("fair");
	pid = a_process();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask(rows[i].id, pid, rows[i].more);
		CU_ASSERT(refused(&door, rows[i].code, rows[i].words));
	}
	CU_ASSERT_EQUAL(listed(), 0);
	say(&door, "{\"method\":\"tenant.explain\",\"args\":{\"id\":\"aaaaaaa\"}}\n");
	CU_ASSERT(says(&door, "id", "aaaaaaa"));
	say(&door, "{\"method\":\"tenant.explain\",\"args\":{\"id\":\"bbbbbbb\"}}\n");
	CU_ASSERT(refused(&door, "ENOENT", "nothing of bbbbbbb"));
	ask("aaaaaaa", pid, ",\"annotations\":{\"vgpud.dev/memory\":\"8Mi\"}");
	CU_ASSERT(given() >= 0);
	end_process(pid);
	ask("ccccccc", pid, "");
	CU_ASSERT(refused(&door, "ESRCH", "no process"));
	say(&door, "{\"method\":\"tenant.explain\",\"args\":{\"id\":\"ccccccc\"}}\n");
	CU_ASSERT(says(&door, "id", "ccccccc"));
	/* Root reads it at a terminal: nothing that a hook says steers that. */
	say(&door, "{\"method\":\"tenant.note\",\"args\":{\"container\":{\"id\":\"ddddddd\"},"
		   "\"why\":\"\\u001b[2J\\n\\u009b7mwell\"}}\n");
	CU_ASSERT(done(&door));
	say(&door, "{\"method\":\"tenant.explain\",\"args\":{\"id\":\"ddddddd\"}}\n");
	CU_ASSERT(says(&door, "why", "?[2J???7mwell"));
	CU_ASSERT_EQUAL(listed(), 1);
	control.gpus[0].leases[0].expires = 0;
	CU_ASSERT_EQUAL(listed(), 0);
	end();
}

/* A container can have the lease of a program of the same owner, and has it again when it restarts.
 */
TEST(a_lease_travels, "a lease travels")
{
	char more[120], uuid[40];
	pid_t pid;

	begin("fair");
	say(&door, "{\"method\":\"tenant.start\",\"args\":{\"name\":\"podman\","
		   "\"params\":{\"weight\":300}}}\n");
	CU_ASSERT_EQUAL(given(), 0);
	snprintf(uuid, sizeof(uuid), "%s", control.gpus[0].leases[0].uuid);
	snprintf(more, sizeof(more), ",\"annotations\":{\"vgpud.dev/lease\":\"%s\"}", uuid);
	pid = a_process();
	ask("abcdef0123456789", pid, more);
	CU_ASSERT_EQUAL(given(), 0);
	CU_ASSERT_EQUAL(listed(), 1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].process, (uint32_t)pid);
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].by, CLAIM_BY_CONTAINER);
	end_process(pid);
	CU_ASSERT_EQUAL(listed(), 1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].state, LEASE_HELD);
	pid = a_process();
	ask("abcdef0123456789", pid, more);
	CU_ASSERT_EQUAL(given(), 0);
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].process, (uint32_t)pid);
	CU_ASSERT_STRING_EQUAL(control.gpus[0].leases[0].uuid, uuid);
	CU_ASSERT_EQUAL(weight(0), 300);
	end_process(pid);
	CU_ASSERT_EQUAL(listed(), 1);
	end();
}

/* What root has configured bounds an owner, his changes too; the reason says where it stands. */
TEST(limits, "limits")
{
	static const struct {
		const char *more, *words;
	} rows[] = {
		{",\"annotations\":{\"vgpud.dev/weight\":\"300\",\"vgpud.dev/limit\":\"40%\"}",
		 "weight 300 is asked for, 200 is allowed (here:7: [tenant me])"},
		{",\"annotations\":{\"vgpud.dev/limit\":\"60%\"}", "60.0 % is asked for, 50 %"},
		{"", "no limit is asked for"},
		{",\"annotations\":{\"vgpud.dev/limit\":\"40%\",\"vgpud.dev/share\":\"40%\"}",
		 "a share of 40.0 % is asked for beside 0.0 %"},
		{",\"annotations\":{\"vgpud.dev/limit\":\"40%\",\"vgpud.dev/gpu\":\"gpu1\"}",
		 "gpu1 is asked for; allowed: gpu0"},
	};
	struct tenant_config *t = config.tenants;
	pid_t pid, second;
	char text[200];
	size_t i;

	begin("qos");
	snprintf(config.file, sizeof(config.file), "here");
	config.n_tenants = 1;
	*t = (struct tenant_config){.name = "me",
				    .who = TENANT_USER,
				    .number = getuid(),
				    .at = {0, 7},
				    .leases = 1,
				    .weight = 200,
				    .share_percent = 30,
				    .limit_percent = 50,
				    .gpus = "gpu0"};
	pid = a_process();
	second = a_process();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask("aaaaaaa", pid, rows[i].more);
		CU_ASSERT(refused(&door, "EDQUOT", rows[i].words));
	}
	ask("aaaaaaa", pid,
	    ",\"annotations\":{\"vgpud.dev/limit\":\"40%\",\"vgpud.dev/share\":\"20%\"}");
	CU_ASSERT_EQUAL(given(), 0);
	ask("bbbbbbb", second, ",\"annotations\":{\"vgpud.dev/limit\":\"40%\"}");
	CU_ASSERT(refused(&door, "EDQUOT", "has 1 leases; 1 are allowed"));
	t->leases = 2;
	ask("bbbbbbb", second,
	    ",\"annotations\":{\"vgpud.dev/limit\":\"40%\",\"vgpud.dev/share\":\"20%\"}");
	CU_ASSERT(refused(&door, "EDQUOT", "20.0 % is asked for beside 20.0 %"));
	snprintf(text, sizeof(text),
		 "{\"method\":\"tenant.set\",\"args\":{\"lease\":\"%s\",\"params\":{\"min\":\"25%%"
		 "\"}}}\n",
		 control.gpus[0].leases[0].uuid);
	say(&door, text);
	CU_ASSERT(says(&door, "min_ppm", "250000"));
	t->memory_mib = 1;
	ask("bbbbbbb", second, ",\"annotations\":{\"vgpud.dev/limit\":\"40%\"}");
	CU_ASSERT(refused(&door, "EDQUOT", "1 MiB are allowed"));
	end_process(pid);
	end_process(second);
	CU_ASSERT_EQUAL(listed(), 1);
	end();
}

static void share(int64_t percent)
{
	config.n_tenants = 1;
	config.tenants[0] = (struct tenant_config){.name = "me",
						   .who = TENANT_USER,
						   .number = getuid(),
						   .leases = 4,
						   .share_percent = percent,
						   .limit_percent = 100};
}

static void ask_with(pid_t pid, const char *params)
{
	char text[300];

	snprintf(text, sizeof(text),
		 "{\"method\":\"tenant.start\",\"args\":{\"params\":{%s},\"container\":{\"id\":"
		 "\"c%d\",\"pid\":%d}}}\n",
		 params, (int)pid, (int)pid);
	say(&door, text);
}

/* A share counts as what the policy makes of it, on the VF that is given. */
TEST(shares, "shares")
{
	static const struct {
		const char *params, *words;
	} rows[] = {
		{"\"budget_us\":16500", "a share of 50.0 % is asked for beside 0.0 %"},
		{"\"budget_us\":2000,\"period_us\":5000", "a share of 40.0 %"},
		{"\"budget_us\":9000000000000000000", "a share of 100.0 %"},
		{"\"fps\":1", "a share of 100.0 %"},
	};
	pid_t pid[2];
	size_t i;

	begin("deadline");
	share(30);
	pid[0] = a_process();
	pid[1] = a_process();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask_with(pid[0], rows[i].params);
		CU_ASSERT(refused(&door, "EDQUOT", rows[i].words));
	}
	ask_with(pid[0], "\"budget_us\":3300");
	CU_ASSERT_EQUAL(given(), 0);
	/* What only the VF that it gets says. */
	control.gpus[0].config->vf_params[1][1] = 10000;
	ask_with(pid[1], "\"budget_us\":3000");
	CU_ASSERT(refused(&door, "EDQUOT", "a share of 30.0 % is asked for beside 10.0 %"));
	CU_ASSERT_EQUAL(listed(), 1);
	end_process(pid[0]);
	end_process(pid[1]);
	end();
}

/* Of all that is begun at once, only so much is done as is allowed. */
TEST(changes_at_once, "changes at once")
{
	static struct peer second;
	struct json_object *o;
	struct client *c;
	struct lease *l;
	char text[200];
	pid_t pid[3];
	int i, n = 0;

	begin("qos");
	share(30);
	join(&second, config.tenant_socket);
	l = control.gpus[0].leases;
	for (i = 0; i < 3; i++)
		pid[i] = a_process();
	for (i = 0; i < 2; i++) {
		ask_with(pid[i], "\"min\":\"10%\"");
		CU_ASSERT_EQUAL(given(), i);
	}
	/* One that is being changed counts as what it is about to have. */
	l[0].set_ppm = 200000;
	ask_with(pid[2], "\"min\":\"10%\"");
	CU_ASSERT(refused(&door, "EDQUOT", "beside 30.0 % that this user has"));
	l[0].set_ppm = 0;
	say(&second, "{\"method\":\"ping\"}\n");
	CU_ASSERT(done(&second));
	for (c = control.clients; c; c = c->next)
		c->who.is_root = false;
	for (i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 "{\"method\":\"tenant.set\",\"args\":{\"lease\":\"%s\",\"params\":"
			 "{\"min\":\"20%%\"}}}\n",
			 l[i].uuid);
		say(i ? &second : &door, text);
	}
	for (i = 0; i < 2; i++) {
		o = hear(i ? &second : &door);
		n += get(o, "result") != NULL;
		if (!get(o, "result"))
			CU_ASSERT_STRING_EQUAL(text_at(o, "error", "code"), "EDQUOT");
		json_object_put(o);
	}
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_EQUAL(l[0].set_ppm + l[1].set_ppm, 0);
	for (i = 0; i < 3; i++)
		end_process(pid[i]);
	close(second.fd);
	end();
}

/* A program of a gated GPU that claims no memory has all of its VF; whoever is bounded in memory
 * gets no VF without a size. */
TEST(memory_of_a_gate, "memory of a gate")
{
	struct vgpu_error err = {""};

	begin("fair");
	share(100);
	strcpy(control.gpus[0].config->device, "vulkan:x");
	say(&door, "{\"method\":\"tenant.start\",\"args\":{\"name\":\"a\"}}\n");
	CU_ASSERT_EQUAL(given(), 0);
	CU_ASSERT(control.gpus[0].leases[0].memory > 0);
	config.tenants[0].memory_mib = 1024;
	CU_ASSERT_EQUAL(limits_check_given(config.tenants, control.gpus, 0, &err), 0);
	control.gpus[0].leases[0].memory = 0;
	CU_ASSERT_EQUAL(limits_check_given(config.tenants, control.gpus, 0, &err), -EDQUOT);
	CU_ASSERT_NOT_EQUAL(strstr(err.text, "no memory is asked for"), NULL);
	end();
}
