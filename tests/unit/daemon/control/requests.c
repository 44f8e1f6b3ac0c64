/* SPDX-License-Identifier: MIT */
/* Requests of clients: each has an answer, however many there are; readers leave places to root. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/client.h"
#include "control/listen.h"
#include "control/log.h"
#include "bench.h"

#define REQUESTS 740u /* as many of the shortest as one read of the socket brings */

/* As many requests as one read brings: each is answered under its id, with a result or with an
 * error that says why there is no result. */
TEST(every_request_is_answered, "every request is answered")
{
	static char text[REQUESTS * 64];
	static bool had[REQUESTS];
	uint32_t i, k, n = 0, results = 0;
	struct json_object *o;

	bench_begin("fair");
	memset(had, 0, sizeof(had));
	for (i = 0; i < REQUESTS; i++)
		n += (uint32_t)sprintf(text + n, "{\"method\":\"stats\",\"id\":%u}\n", i);
	say(&one, text);
	for (k = 0; k < REQUESTS; k++) {
		o = hear(&one);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		i = (uint32_t)json_object_get_int(get(o, "id"));
		CU_ASSERT_FATAL(i < REQUESTS && !had[i]);
		had[i] = true;
		results += get(o, "result") != NULL;
		if (!get(o, "result")) {
			CU_ASSERT_STRING_EQUAL(text_at(o, "error", "code"), "EAGAIN");
			CU_ASSERT_PTR_NOT_NULL(strstr(text_at(o, "error", "message"),
						      "of this connection are under way"));
		}
		json_object_put(o);
	}
	CU_ASSERT(results >= 16);
	CU_ASSERT_EQUAL(one.n, 0);
	say(&one, "{\"method\":\"gpu.show\"}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	bench_end();
}

/* Hears N answers, and lets the peer go. Returns how many of them are refusals, for the reason WHY.
 */
static uint32_t count_refusals(struct peer *p, uint32_t n, const char *why)
{
	struct json_object *o;
	uint32_t refusals = 0;

	while (n-- > 0) {
		o = hear(p);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		if (!get(o, "result")) {
			refusals++;
			CU_ASSERT_STRING_EQUAL(text_at(o, "error", "code"), "EAGAIN");
			CU_ASSERT_PTR_NOT_NULL(strstr(text_at(o, "error", "message"), why));
		}
		json_object_put(o);
	}
	close(p->fd);
	free(p);
	return refusals;
}

/* Requests that only read fill the queue of an engine that does not answer. Some of them are
 * refused, with a message that says why; requests that change something wait and are carried
 * out. */
TEST(who_looks_does_not_keep_out, "requests that only read do not block changes")
{
	static struct peer *crowd[8];
	struct json_object *o;
	uint32_t i, k, refusals = 0;

	bench_begin("fair");
	turn();
	quick_block();
	for (i = 0; i < 8; i++) {
		crowd[i] = calloc(1, sizeof(*crowd[i]));
		join(crowd[i], config.socket);
		for (k = 0; k < 10; k++)
			say(crowd[i], "{\"method\":\"stats\"}\n");
	}
	for (i = 0; i < 100; i++)
		turn();
	CU_ASSERT(control.gpus[0].calls.under_way >= 40 && control.gpus[0].calls.under_way < 64);
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"300\"}}}\n");
	for (i = 0; i < 20; i++)
		say(&other, "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n");
	turn();
	quick_unblock();
	CU_ASSERT(says(&one, "weight", "300"));
	for (i = 0; i < 8; i++)
		refusals += count_refusals(crowd[i], 10, "requests to gpu0 are under way");
	CU_ASSERT_EQUAL(refusals, 80 - 48);
	for (i = 0; i < 20; i++) {
		o = hear(&other);
		CU_ASSERT_PTR_NOT_NULL(get(o, i < 4 ? "error" : "result"));
		json_object_put(o);
	}
	bench_end();
}

/* Changes from many connections, of which each may have 16 under way, fill the list of an engine
 * that does not answer. Those beyond it are refused with a message that says why; the others are
 * made when the engine answers again. */
TEST(changes_have_an_end, "changes of one GPU are limited over all connections")
{
	static struct peer *crowd[4];
	uint32_t i, k, refusals = 0;

	bench_begin("fair");
	turn();
	quick_block();
	for (i = 0; i < 4; i++) {
		crowd[i] = calloc(1, sizeof(*crowd[i]));
		join(crowd[i], config.socket);
		for (k = 0; k < 15; k++)
			say(crowd[i], k % 2 ? "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n"
					    : "{\"method\":\"vf.set\",\"args\":{\"vf\":1,"
					      "\"params\":{\"weight\":\"300\"}}}\n");
	}
	for (i = 0; i < 100; i++)
		turn();
	quick_unblock();
	for (i = 0; i < 4; i++)
		refusals += count_refusals(crowd[i], 15, "48 changes of gpu0 are under way");
	CU_ASSERT_EQUAL(refusals, 60 - 48);
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"200\"}}}\n");
	CU_ASSERT(says(&one, "weight", "200"));
	bench_end();
}

/* Connects, and makes a reader of the client that has come: the test is no other user. */
static void make_reader(struct peer *p)
{
	struct client *last;

	while (!control.clients || !control.clients->next)
		turn(); /* ONE and OTHER are there */
	last = control.clients;
	join(p, config.socket);
	while (control.clients == last)
		turn();
	control.clients->may_change = false;
}

/* Of a reader's requests, however many it sends, one is under way at a time; each gets its result.
 * Meanwhile root's are answered, and the reader changes nothing. */
TEST(one_at_a_time, "a reader has one request at a time")
{
	static char text[REQUESTS * 64];
	static struct peer reader;
	struct json_object *o;
	uint32_t i, n = 0;

	bench_begin("fair");
	make_reader(&reader);
	for (i = 0; i < REQUESTS; i++)
		n += (uint32_t)sprintf(text + n, "{\"method\":\"stats\",\"id\":%u}\n", i);
	say(&reader, text);
	for (i = 0; i < REQUESTS; i++) {
		o = hear(&reader);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o);
		CU_ASSERT_EQUAL(json_object_get_int(get(o, "id")), (int32_t)i);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
		CU_ASSERT(control.gpus[0].calls.for_readers <= 1);
		if (i % 100 == 0) {
			say(&one, "{\"method\":\"gpu.show\"}\n");
			CU_ASSERT(says(&one, "policy", "fair"));
		}
	}
	say(&reader, "{\"method\":\"vf.reset\",\"args\":{\"vf\":1}}\n");
	CU_ASSERT(refused(&reader, "EACCES", "only root may do this"));
	close(reader.fd);
	bench_end();
}

/* Readers who go while their requests are under way leave their places, and their next requests
 * are not begun. */
TEST(gone, "readers who have gone leave their places")
{
	static struct peer readers[CLIENT_OF_USER];
	vgpu_nsec until;
	uint32_t i;

	bench_begin("fair");
	turn();
	quick_block();
	for (i = 0; i < CLIENT_OF_USER; i++) {
		make_reader(&readers[i]);
		say(&readers[i], "{\"method\":\"stats\"}\n{\"method\":\"stats\"}\n");
	}
	until = vgpu_now() + PATIENCE;
	while (control.gpus[0].calls.for_readers < CLIENT_OF_USER && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].calls.for_readers, CLIENT_OF_USER);
	for (i = 0; i < CLIENT_OF_USER; i++)
		close(readers[i].fd);
	quick_unblock();
	while (control.clients != NULL && control.clients->next->next && vgpu_now() < until)
		turn();
	CU_ASSERT_PTR_NULL(control.calls);
	CU_ASSERT(control.clients->may_change && control.clients->next->may_change);
	bench_end();
}

/* A reader with requests that the engine does not answer keeps no place from root's. */
TEST(readers_keep_nobody_out, "readers' requests leave places to root's")
{
	static struct peer readers[CLIENT_OF_USER];
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct json_object *o;
	uint32_t i;

	bench_begin("fair");
	turn();
	quick_block();
	for (i = 0; i < CLIENT_OF_USER; i++) {
		make_reader(&readers[i]);
		say(&readers[i], "{\"method\":\"stats\"}\n{\"method\":\"stats\"}\n");
	}
	while (control.gpus[0].calls.for_readers < CLIENT_OF_USER && vgpu_now() < until)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].calls.for_readers, CLIENT_OF_USER);
	for (i = 0; i < 16; i++)
		say(&one, "{\"method\":\"stats\"}\n");
	for (i = 0; i < 100; i++)
		turn();
	CU_ASSERT_EQUAL(control.gpus[0].calls.for_readers, CLIENT_OF_USER);
	CU_ASSERT_EQUAL(control.gpus[0].calls.under_way, CLIENT_OF_USER + 16);
	quick_unblock();
	for (i = 0; i < 16; i++) {
		o = hear(&one);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
	}
	for (i = 0; i < 2 * CLIENT_OF_USER; i++) {
		o = hear(&readers[i / 2]);
		CU_ASSERT_PTR_NOT_NULL(get(o, "result"));
		json_object_put(o);
	}
	for (i = 0; i < CLIENT_OF_USER; i++)
		close(readers[i].fd);
	bench_end();
}

/* A client whose credentials cannot be read is refused, and not taken for root. */
TEST(strangers, "a client without credentials is refused")
{
	struct ucred peer = {.uid = 7};
	int fds[2], pair[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL(listen_peer(fds[0], &peer), -ENOTSOCK);
	CU_ASSERT_EQUAL(peer.uid, 7);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CU_ASSERT_EQUAL(listen_peer(pair[0], &peer), 0);
	CU_ASSERT_EQUAL(peer.uid, getuid());
	close(pair[0]);
	close(pair[1]);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0); /* has no peer credentials */
	CU_ASSERT(listen_peer(pair[0], &peer) < 0);
	close(pair[0]);
	close(fds[0]);
	close(fds[1]);
}

/* Requests that are JSON but lack what their method needs. */
TEST(not_wanted, "requests with unsuitable arguments are refused")
{
	static const char *const requests[][2] = {
		{"{\"method\":\"policy.set\",\"args\":{\"params\":{\"slice_us\":null}}}\n",
		 "slice_us = null: want a value"},
		{"{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":null}}}\n",
		 "weight = null: want a value"},
		{"{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":[1]}}}\n",
		 "weight = [ 1 ]: want"},
		{"{\"method\":\"policy.set\",\"args\":{\"policy\":null}}\n", "policy: want string"},
		{"{\"method\":\"policy.set\",\"args\":{\"params\":null}}\n", "params: want object"},
		{"{\"method\":null}\n", "method is missing"},
		{"null\n", "want one JSON object"},
	};
	size_t i;

	bench_begin("fair");
	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		say(&one, requests[i][0]);
		CU_ASSERT(refused(&one, "EINVAL", requests[i][1]));
	}
	bench_end();
}

/* Each violation that a GPU reports has its word in the events, and its sentence and priority in
 * the log. */
TEST(violations_are_told_apart, "violations are told apart")
{
	static const char *const want[VGPU_VIOLATION_COUNT][2] = {
		[VGPU_VIOLATION_ACCESS] = {"\"what\": \"access\"", "<4>vgpud: VF 1 accessed"},
		[VGPU_VIOLATION_OVERLAP] = {"\"what\": \"overlap\"",
					    "<3>vgpud: VF 1 has a partition that overlaps"},
		[VGPU_VIOLATION_GATE] = {"\"what\": \"gate\"", "<4>vgpud: VF 1 computed while"},
		[VGPU_VIOLATION_HIDES] = {"\"what\": \"hides\"",
					  "<4>vgpud: VF 1 has a process whose use"},
	};
	vgpu_nsec until = vgpu_now() + PATIENCE;
	char log[2048] = "";
	int keep = dup(STDERR_FILENO);
	FILE *f = tmpfile();
	uint32_t kind;
	bool told = false;

	CU_ASSERT_FATAL(f && keep >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	bench_begin("fair");
	for (kind = 0; kind < VGPU_VIOLATION_COUNT; kind++)
		quick_violates(1, kind);
	while (!told && vgpu_now() < until) {
		struct json_object *o;
		const char *events;

		say(&one, "{\"method\":\"events\"}\n");
		o = hear(&one);
		events = text_at(o, "result", "records");
		for (told = true, kind = 0; kind < VGPU_VIOLATION_COUNT; kind++)
			told = told && strstr(events, want[kind][0]);
		json_object_put(o);
	}
	bench_end();
	dup2(keep, STDERR_FILENO);
	close(keep);
	rewind(f);
	log[fread(log, 1, sizeof(log) - 1, f)] = '\0';
	fclose(f);
	CU_ASSERT(told);
	for (kind = 0; kind < VGPU_VIOLATION_COUNT; kind++)
		CU_ASSERT_PTR_NOT_NULL(strstr(log, want[kind][1]));
}

/* A name with control characters neither ends a line of the log nor begins one. */
TEST(one_line_each, "a log message stays on one line")
{
	char text[200] = "";
	int keep = dup(STDERR_FILENO);
	FILE *f = tmpfile();

	CU_ASSERT_FATAL(f && keep >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	log_line(LOG_INFO, "%s", "VM a\n<3>vgpud: VM b\r\033[2J: c");
	dup2(keep, STDERR_FILENO);
	close(keep);
	rewind(f);
	CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof(text), f));
	CU_ASSERT_STRING_EQUAL(text, "<6>vgpud: VM a?<3>vgpud: VM b??[2J: c\n");
	fclose(f);
}
