/* SPDX-License-Identifier: MIT */
/*
 * Attacks vgpud as one of its readers, or as a client of its metrics: many connections that idle,
 * that ask without reading, or that ask for the most expensive answers again and again. Meanwhile
 * it calls vgpud as root, a hundred times a second at most, each over a connection of its own, as
 * vgpuctl does. Runs as root: the connections get the user ids that are given, and no capabilities
 * count for them.
 *
 *     greedy CONTROL-SOCKET ADDRESS MODE CONNECTIONS SECONDS GROUP [UID...]
 *
 * ADDRESS is a socket's path or a TCP port of this host. Prints one line of JSON:
 *
 *     held       the most connections that were open at the same time
 *     closed     connections that the server closed
 *     answers    lines received;  bytes: the same in bytes
 *     refused    of these lines, errors;  said: the last one
 *     calls      root's calls that were answered;  lost: those that were not
 *     wait_ns    the longest of them, from connecting to the answer
 *     between    the most lines that readers received between a call of root and its answer
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 1024u
#define SECOND 1000000000ull
/* After the attack's time, how long root's call may still take. */
#define LAST_CALL (20 * SECOND)
#define CALL_EVERY (SECOND / 100) /* root's next call begins so long after an answer */

/* What the connections send: TEXT again and again, or, if SLOW, a byte at a time. */
static char explain[65000];
static const struct mode {
	const char *name, *text;
	bool reads, slow;
} modes[] = {
	{"idle", "", true, false},
	{"hoard", "{\"method\":\"timeline\",\"args\":{\"ms\":60000}}\n", false, false},
	{"timeline", "{\"method\":\"timeline\",\"args\":{\"ms\":60000}}\n", true, false},
	{"record", "{\"method\":\"record\"}\n", true, false},
	{"explain", explain, true, false},
	{"slow", explain, true, true},
	{"scrape", "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", true, false},
	{"scrape-hoard", "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", false, false},
	{"scrape-slow", "GET /metrics HTTP/1.1\r\n", true, true},
};

struct connection {
	int fd; /* -1: none */
	uid_t uid;
	size_t sent; /* of the mode's text */
	bool began;  /* the line that is being received has begun */
	bool error;  /* and it is an error */
};

static const struct mode *mode;
static const char *control, *address;
static struct connection all[MAX_CONNECTIONS], root = {.fd = -1};
static unsigned n, held, most_held, closed;
static uint64_t answers, bytes, refused, calls, lost, longest, between;
static uint64_t called_at, next_call, answers_then;
static char said[300];
static gid_t group; /* of the connections */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Returns a connection of user UID, or -1 if there is none at this time. */
static int open_as(uid_t uid, const char *where)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct sockaddr_in tcp = {.sin_family = AF_INET,
				  .sin_addr = {htonl(INADDR_LOOPBACK)},
				  .sin_port = htons((uint16_t)atoi(where))};
	bool is_path = where[0] == '/';
	int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	snprintf(local.sun_path, sizeof(local.sun_path), "%s", where);
	if (fd < 0 || setegid(uid ? group : 0) < 0 || seteuid(uid) < 0) {
		perror("greedy");
		exit(1);
	}
	r = is_path ? connect(fd, (struct sockaddr *)&local, sizeof(local))
		    : connect(fd, (struct sockaddr *)&tcp, sizeof(tcp));
	if (r < 0 && errno == EACCES) {
		perror(where);
		exit(1);
	}
	if (r < 0 && errno != EINPROGRESS) {
		close(fd);
		fd = -1;
	}
	if (seteuid(0) < 0)
		exit(1);
	return fd;
}

static void hang_up(struct connection *c)
{
	close(c->fd);
	*c = (struct connection){.fd = -1, .uid = c->uid};
	closed++;
	held--;
}

/* Counts the lines of what was received. */
static void count(struct connection *c, const char *text, size_t size)
{
	const char *end, *at = text;

	bytes += size;
	for (; (end = memchr(at, '\n', size - (size_t)(at - text))); at = end + 1) {
		if (!c->began)
			c->error = memmem(at, (size_t)(end - at), "\"error\"", 7) != NULL;
		if (c->error && (size_t)(end - at) < sizeof(said))
			snprintf(said, sizeof(said), "%.*s", (int)(end - at), at);
		answers++;
		refused += c->error;
		c->began = c->error = false;
	}
	c->began |= at < text + size;
}

static void serve(struct connection *c, short what)
{
	static char text[1u << 20];
	size_t length = strlen(mode->text), left = length - c->sent;
	ssize_t got;

	if (what & (POLLIN | POLLHUP | POLLERR) && (mode->reads || !(what & POLLIN))) {
		got = read(c->fd, text, sizeof(text));
		if (got > 0)
			count(c, text, (size_t)got);
		else if (got == 0 || errno != EAGAIN)
			hang_up(c);
	}
	if (c->fd < 0 || !(what & POLLOUT) || length == 0)
		return;
	got = send(c->fd, mode->text + c->sent, mode->slow ? 1 : left, MSG_NOSIGNAL);
	if (got > 0)
		c->sent = (c->sent + (size_t)got) % length;
	else if (got < 0 && errno != EAGAIN)
		hang_up(c);
}

/* Begins or ends a call of root. */
static void call(short what)
{
	static const char ask[] = "{\"method\":\"gpu.show\"}\n";
	char text[65536];
	ssize_t got = 0;

	if (root.fd < 0) {
		if (!called_at) {
			if (now() < next_call)
				return;
			called_at = now();
			answers_then = answers;
		}
		root.fd = open_as(0, control);
		if (root.fd >= 0 && send(root.fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) < 0)
			what = POLLIN;
	}
	if (root.fd < 0 || !(what & (POLLIN | POLLHUP | POLLERR)))
		return;
	got = read(root.fd, text, sizeof(text));
	if (got < 0 && errno == EAGAIN)
		return;
	if (got > 0 && memmem(text, (size_t)got, "\"result\"", 8))
		calls++;
	else
		lost++;
	longest = now() - called_at > longest ? now() - called_at : longest;
	between = answers - answers_then > between ? answers - answers_then : between;
	called_at = 0;
	next_call = now() + CALL_EVERY;
	close(root.fd);
	root.fd = -1;
}

static void attack(uint64_t until)
{
	static struct pollfd fds[MAX_CONNECTIONS + 1];
	short out = mode->text[0] ? POLLOUT : 0;
	unsigned i;

	/* Until the time is over, and root's last call. */
	while (now() < until || (called_at && now() < until + LAST_CALL)) {
		for (i = 0; i < n; i++) {
			if (all[i].fd < 0 && (all[i].fd = open_as(all[i].uid, address)) >= 0)
				held++;
			fds[i] = (struct pollfd){all[i].fd,
						 (short)((mode->reads ? POLLIN : 0) | out), 0};
		}
		most_held = held > most_held ? held : most_held;
		fds[n] = (struct pollfd){root.fd, POLLIN, 0};
		poll(fds, n + 1, 2);
		for (i = 0; i < n; i++)
			if (all[i].fd >= 0 && fds[i].revents)
				serve(&all[i], fds[i].revents);
		if (called_at || now() < until)
			call(root.fd >= 0 ? fds[n].revents : 0);
	}
	lost += called_at != 0;
}

int main(int argc, char **argv)
{
	unsigned i;

	if (argc < 7)
		return 2;
	control = argv[1];
	address = argv[2];
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, argv[3]) == 0)
			mode = &modes[i];
	n = (unsigned)atoi(argv[4]);
	group = (gid_t)atoi(argv[6]);
	if (!mode || n > MAX_CONNECTIONS)
		return 2;
	/* A claim's XML, nearly as long as a request may be, with as many elements as fit. */
	strcpy(explain, "{\"method\":\"vm.explain\",\"args\":{\"xml\":\"<domain>");
	for (i = (unsigned)strlen(explain); i < sizeof(explain) - 40; i += 4)
		memcpy(explain + i, "<a/>", 4);
	strcpy(explain + i, "</domain>\"}}\n");
	for (i = 0; i < n; i++)
		all[i] = (struct connection){
			.fd = -1,
			.uid = argc > 7 ? (uid_t)atoi(argv[7 + i % (unsigned)(argc - 7)]) : 0};
	attack(now() + (uint64_t)atoi(argv[5]) * SECOND);
	for (i = 0; said[i]; i++)
		if (said[i] == '"' || said[i] == '\\')
			said[i] = '\'';
	printf("{\"held\":%u,\"closed\":%u,\"answers\":%llu,\"bytes\":%llu,\"refused\":%llu,"
	       "\"said\":\"%s\",\"calls\":%llu,\"lost\":%llu,\"wait_ns\":%llu,\"between\":%llu}\n",
	       most_held, closed, (unsigned long long)answers, (unsigned long long)bytes,
	       (unsigned long long)refused, said, (unsigned long long)calls,
	       (unsigned long long)lost, (unsigned long long)longest, (unsigned long long)between);
	return 0;
}
