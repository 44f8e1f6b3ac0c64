/* SPDX-License-Identifier: MIT */
/*
 * vgpud-hook as libvirt calls it, with a vgpud that the test plays: which XML contains a claim,
 * which answer is a refusal, and what happens if vgpud is absent or has a full backlog.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"

#define OPEN "<domain type='kvm'><name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid>"
#define OURS "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'"
#define NOVA(flavor, name)                                                                         \
	"<nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>"                 \
	"<nova:package version='31.0.0'/><nova:name>" name "</nova:name>"                          \
	"<nova:flavor name='" flavor "'><nova:vcpus>1</nova:vcpus></nova:flavor></nova:instance>"
/* A server's name as Nova escapes it. */
#define HOSTILE                                                                                    \
	"&lt;v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' required='no'&gt;"              \
	"&lt;v:vf name='a'/&gt;&lt;/v:vgpu&gt;"
#define REQUIRED OPEN "<metadata>" OURS "><v:vf name='a'/></v:vgpu></metadata></domain>"
#define OPTIONAL                                                                                   \
	OPEN "<metadata>" OURS " required='no'><v:vf name='a'/></v:vgpu></metadata></domain>"

static char dir[64], path[100], said[4096], printed[4096];
static int listener = -1;

static void begin(void)
{
	strcpy(dir, "/tmp/vgpud-hook.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/hook.sock", dir);
	setenv("VGPUD_HOOK_SOCKET", path, 1);
	setenv("VGPUD_LIBVIRT_DIR", dir, 1);
}

static void end(void)
{
	unlink(path);
	rmdir(dir);
}

static void begin_listening(int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {20, 0};

	strcpy(address.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(listener, backlog), 0);
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* Runs the hook to its end. Returns its exit status; its messages are in SAID, and what libvirt
 * would take for the domain in PRINTED. */
static int hook(const char *operation, const char *xml)
{
	int in[2], out[2], sink = memfd_create("stdout", MFD_CLOEXEC), status = -1;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	CU_ASSERT_FATAL(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDERR_FILENO);
		dup2(sink, STDOUT_FILENO);
		execl(HOOK, HOOK, "vm1", operation, "begin", "-", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	/* The hook does not read XML that is too long to its end. */
	signal(SIGPIPE, SIG_IGN);
	while (*xml && (n = write(in[1], xml, strlen(xml))) > 0)
		xml += n;
	close(in[1]);
	while ((n = read(out[0], said + have, sizeof(said) - 1 - have)) > 0)
		have += (size_t)n;
	said[have] = '\0';
	close(out[0]);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	n = pread(sink, printed, sizeof(printed) - 1, 0);
	printed[n > 0 ? n : 0] = '\0';
	close(sink);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Plays vgpud: answers one request. */
static _Atomic unsigned asked;

static void *answer(void *text)
{
	int fd = accept(listener, NULL, NULL);
	size_t have = 0;
	char line[65536];
	ssize_t n;

	while ((n = read(fd, line + have, sizeof(line) - 1 - have)) > 0) {
		have += (size_t)n;
		if (memchr(line, '\n', have))
			break;
	}
	atomic_fetch_add(&asked, 1);
	CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return NULL;
}

/* Without vgpud, a VM starts if it claims no VF or its claim is optional. */
TEST(claims, "claims are told from what looks like one")
{
	static const struct {
		const char *xml;
		int status;
	} cases[] = {
		{OPEN "</domain>", 0},
		{REQUIRED, 1},
		{OPTIONAL, 0},
		/* Neither a comment nor a text is a claim. */
		{OPEN "<!-- " OURS "> --></domain>", 0},
		{OPEN "<title>urn:vgpud:xmlns:domain:1</title></domain>", 0},
		/* Only the element's own attribute says whether the claim is required. */
		{OPEN "<!-- <v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' required='no'> -->"
		      "<metadata>" OURS "><v:vf name='a'/></v:vgpu></metadata></domain>",
		 1},
		{OPEN "<metadata>" OURS
		      " required = \"no\"><v:vf name='a'/></v:vgpu></metadata></domain>",
		 0},
		{OPEN "<metadata>" OURS "><v:vf name='required=no'/></v:vgpu></metadata></domain>",
		 1},
		/* Nova's flavor is a claim; what its tenant writes is none, and cannot make the
		 * flavor's claim optional. */
		{OPEN "<metadata>" NOVA("small", "") "</metadata></domain>", 0},
		{OPEN "<metadata>" NOVA("vgpud.small", "web") "</metadata></domain>", 1},
		{OPEN "<metadata>" NOVA("vgpud.small", HOSTILE) "</metadata></domain>", 1},
		{OPEN "<metadata>" NOVA("small", HOSTILE) "</metadata></domain>", 0},
		/* A claim that violates the schema is left to vgpud to judge. */
		{OPEN "<metadata>" OURS "><v:slcie/></v:vgpu></metadata></domain>", 1},
	};
	unsigned i;

	begin();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = hook("prepare", cases[i].xml);

		if (status != cases[i].status)
			fprintf(stderr, "case %u: %d: %s\n", i, status, said);
		CU_ASSERT_EQUAL(status, cases[i].status);
		CU_ASSERT((said[0] == '\0') == (status == 0));
	}
	end();
}

/* If it cannot be told which libvirt calls, vgpud is not asked: a VM that requires its VF does not
 * start, and is told what to do; what cannot be refused succeeds. */
TEST(which_libvirt, "which libvirt calls must be known")
{
	static const struct {
		const char *operation, *xml;
		int status;
	} cases[] = {{"prepare", REQUIRED, 1},
		     {"migrate", REQUIRED, 1},
		     {"prepare", OPTIONAL, 0},
		     {"release", REQUIRED, 0},
		     {"prepare", OPEN "</domain>", 0}};
	struct pollfd none = {.events = POLLIN};
	unsigned i;

	begin();
	begin_listening(4);
	setenv("VGPUD_LIBVIRT_DIR", "/nonexistent", 1);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(hook(cases[i].operation, cases[i].xml), cases[i].status);
		CU_ASSERT_EQUAL(!!strstr(said, "/nonexistent: No such file or directory; make it a "
					       "link to the directory with libvirt's sockets"),
				cases[i].status);
	}
	none.fd = listener;
	CU_ASSERT_EQUAL(poll(&none, 1, 0), 0); /* nobody has asked */
	close(listener);
	end();
}

/* A claim beyond the length that the hook reads is not overlooked: the start is refused. Operations
 * that cannot be refused succeed. */
TEST(too_long, "XML that is too long is refused")
{
	size_t max = 1u << 20;
	char *xml = malloc(max + sizeof(REQUIRED));

	begin();
	memset(xml, ' ', max);
	strcpy(xml + max, REQUIRED);
	CU_ASSERT_EQUAL(hook("prepare", xml), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "vgpud: vm1: cannot read the domain's XML"));
	CU_ASSERT_EQUAL(hook("reconnect", xml), 0);
	strcpy(xml + max - strlen(REQUIRED), REQUIRED);
	CU_ASSERT_EQUAL(hook("prepare", xml), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "vm1 requires a GPU"));
	free(xml);
	end();
}

TEST(answers, "refusals are told from other answers")
{
	static const struct {
		const char *text;
		int status;
		const char *says;
	} cases[] = {
		{"{\"id\":1,\"result\":{}}\n", 0, ""},
		{"{\"id\":1,\"result\":{\"gpu\":\"error\",\"message\":\"of the day\"}}\n", 0, ""},
		{"{\"id\":1,\"error\":{\"code\":\"EBUSY\",\"message\":\"all \\\"VFs\\\" are\\nin "
		 "\\u00fcse\"}}\n",
		 1, "vgpud: all \"VFs\" are in \xc3\xbcse\n"},
		{"{ \"error\" : { \"message\" : \"no\" }, \"id\" : 1 }\n", 1, "vgpud: no\n"},
		{"rubbish\n", 1, "vgpud: domain vm1 requires a GPU, and vgpud "},
	};
	pthread_t thread;
	unsigned i;

	begin();
	begin_listening(16);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pthread_create(&thread, NULL, answer, (void *)cases[i].text);
		CU_ASSERT_EQUAL(hook("prepare", REQUIRED), cases[i].status);
		CU_ASSERT_EQUAL(strncmp(said, cases[i].says, strlen(cases[i].says)), 0);
		pthread_join(thread, NULL);
	}
	CU_ASSERT_EQUAL(atomic_load(&asked), i);
	close(listener);
	end();
}

#define COMES(at)                                                                                  \
	OPEN "<metadata>" OURS "><v:vf name='a'/></v:vgpu></metadata><devices><hostdev "           \
	     "type='pci'><source><address domain='0x0000' " at "/></source></hostdev></devices>"   \
	     "</domain>"
#define AT_3 "bus='0x03' slot='0x00' function='0x1'"
#define AT_4 "bus='0x04' slot='0x10' function='0x2'"
#define MOVED(from) "{\"from\":\"" from "\",\"to\":\"0000:04:10.2\"}"
#define DEVICES(list) "{\"id\":1,\"result\":{\"devices\":[" list "]}}\n"
#define MOVED_3 MOVED("0000:03:00.1")

/* What the hook prints is the domain for libvirt: with the VFs that vgpud gives, for the operations
 * of which libvirt reads it, or nothing. */
TEST(prints, "what libvirt takes for the domain")
{
	static const struct {
		const char *operation, *answer;
		int status;
		const char *says, *prints;
	} cases[] = {
		{"migrate", DEVICES(MOVED_3), 0, "", COMES(AT_4)},
		{"restore", DEVICES(MOVED_3), 0, "", COMES(AT_4)},
		{"migrate", DEVICES(""), 0, "", ""},
		{"migrate", "{\"id\":1,\"result\":{}}\n", 0, "", ""},
		{"prepare", DEVICES(MOVED_3), 0, "", ""},
		{"reconnect", DEVICES(MOVED_3), 0, "", ""},
		{"migrate", DEVICES(MOVED("0000:05:00.1")), 1,
		 "vgpud: the domain has no PCI device at", ""},
		{"migrate", DEVICES(MOVED("x")), 1, "vgpud: x, 0000:04:10.2: not PCI addresses",
		 ""},
		{"migrate", DEVICES("{}"), 1, "vgpud: , : not PCI addresses", ""},
		{"migrate", DEVICES("1,1,1,1,1,1,1,1," MOVED_3), 1,
		 "vgpud: vgpud moves more than 8 VFs", ""},
		{"migrate", "{\"id\":1,\"error\":{\"code\":\"EBUSY\",\"message\":\"no\"}}\n", 1,
		 "vgpud: no", ""},
	};
	pthread_t thread;
	unsigned i;

	begin();
	begin_listening(16);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pthread_create(&thread, NULL, answer, (void *)cases[i].answer);
		CU_ASSERT_EQUAL(hook(cases[i].operation, COMES(AT_3)), cases[i].status);
		CU_ASSERT_EQUAL(strncmp(said, cases[i].says, strlen(cases[i].says)), 0);
		CU_ASSERT_STRING_EQUAL(printed, cases[i].prints);
		if (strcmp(printed, cases[i].prints) != 0)
			printf("\n  case %u: %s%s\n", i, printed, said);
		pthread_join(thread, NULL);
	}
	close(listener);
	end();
}

/* Other connections are ahead in the backlog: the hook waits for its turn, and does not fail. */
static void *make_room(void *fd)
{
	struct timespec pause = {0, 100000000}; /* the hook finds the backlog full */
	int other;

	nanosleep(&pause, NULL);
	other = accept(listener, NULL, NULL);
	close(other);
	close(*(int *)fd);
	return answer((void *)"{\"id\":1,\"result\":{}}\n");
}

TEST(full_backlog, "the hook waits at a full backlog")
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), more;
	pthread_t thread;

	begin();
	begin_listening(0);
	strcpy(address.sun_path, path);
	CU_ASSERT_EQUAL(connect(waiting, (struct sockaddr *)&address, sizeof(address)), 0);
	more = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CU_ASSERT(connect(more, (struct sockaddr *)&address, sizeof(address)) < 0 &&
		  errno == EAGAIN);
	close(more);
	pthread_create(&thread, NULL, make_room, &waiting);
	CU_ASSERT_EQUAL(hook("prepare", REQUIRED), 0);
	CU_ASSERT_STRING_EQUAL(said, "");
	pthread_join(thread, NULL);
	close(listener);
	end();
}

int main(int argc, char **argv)
{

	if (geteuid() != 0) {
		puts("skipped: needs root, for whom alone the hook asks vgpud");
		return 77;
	}
	return suite_main("libvirt's hook", NULL, argc, argv);
}
