/* SPDX-License-Identifier: MIT */
#include "control_client.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "silence.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

#define MAX_ANSWER (64u << 20)
/* The request for a sign of life, and its answer's id, which no other has. */
#define PING_ID "alive"
static const char ping[] = "{\"id\":\"" PING_ID "\",\"method\":\"ping\"}\n";

/* A request, and what has come back. */
struct exchange {
	int fd;
	bool endless;	 /* the other end is not vgpud itself: it may take its time */
	vgpu_nsec heard; /* when the last byte came */
	unsigned pings;	 /* number of unanswered pings */
	char *text;
	size_t size, have;
	/* Where the first line goes that a shell on the way has printed; NULL: there is no shell.
	 */
	char *skipped;
	size_t skipped_size;
};

/* Reports that access is denied, and names the socket's group, whose members may connect. */
static int deny(const char *path, struct vgpu_error *err)
{
	struct stat at;
	const struct group *group = stat(path, &at) == 0 ? getgrgid(at.st_gid) : NULL;

	if (!group || group->gr_gid == 0)
		return vgpu_error_set(err, -EACCES, "permission denied on %s: only root may use it",
				      path);
	return vgpu_error_set(err, -EACCES,
			      "permission denied on %s: you are not in group %s; 'usermod -a -G %s "
			      "USER' adds a user, from the next login on",
			      path, group->gr_name, group->gr_name);
}

int client_connect(const char *path, struct vgpu_error *err)
{
	int fd = vgpu_socket_connect_within(path, SILENCE_ASK + SILENCE_END);

	if (fd == -ENAMETOOLONG)
		return vgpu_error_set(err, fd, "socket path %s: longer than %u characters", path,
				      VGPU_SOCKET_PATH - 1);
	if (fd == -EACCES)
		return deny(path, err);
	return fd < 0 ? silence_at(path, fd, err) : fd;
}

/* Waits until UNTIL for more bytes. Returns 0; -ETIMEDOUT; -ECONNRESET: no more will come. */
static int fill(struct exchange *x, vgpu_nsec until)
{
	struct pollfd p = {.fd = x->fd, .events = POLLIN};
	vgpu_nsec now = vgpu_now();
	char *more;
	ssize_t n;

	if (x->have + 1 >= x->size) {
		x->size = x->size ? x->size * 2 : 65536;
		more = x->size <= MAX_ANSWER ? realloc(x->text, x->size) : NULL;
		if (!more)
			return -ECONNRESET;
		x->text = more;
	}
	if (!x->endless && (now >= until || poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1) == 0))
		return -ETIMEDOUT;
	n = read(x->fd, x->text + x->have, x->size - x->have - 1);
	if (n == 0 || (n < 0 && errno != EINTR))
		return -ECONNRESET;
	x->have += n > 0 ? (size_t)n : 0;
	x->heard = vgpu_now();
	return 0;
}

/* Takes the first line of what has come, which the caller frees; NULL: there is none. */
static char *take_line(struct exchange *x)
{
	char *end = x->have ? memchr(x->text, '\n', x->have) : NULL, *line;
	size_t n;

	if (!end)
		return NULL;
	n = (size_t)(end - x->text) + 1;
	line = strndup(x->text, n);
	x->have -= n;
	memmove(x->text, x->text + n, x->have);
	return line;
}

/* Returns whether a line answers a ping. */
static bool is_pong(const char *line)
{
	struct json_object *answer, *id;
	bool is = false;

	if (!strstr(line, PING_ID))
		return false;
	answer = json_tokener_parse(line);
	if (json_object_is_type(answer, json_type_object) &&
	    json_object_object_get_ex(answer, "id", &id))
		is = json_object_is_type(id, json_type_string) &&
		     strcmp(json_object_get_string(id), PING_ID) == 0;
	json_object_put(answer);
	return is;
}

/* Takes a line, unless none comes until UNTIL after the last byte. Returns 0: the line in *OUT,
 * which the caller frees, or NULL for a sign of life; or an error of fill(). */
static int next_line(struct exchange *x, vgpu_nsec timeout, char **out)
{
	int r = 0;

	while (!(*out = take_line(x)) && r == 0)
		r = fill(x, x->heard + timeout);
	if (r < 0 || !is_pong(*out))
		return r;
	free(*out);
	*out = NULL;
	x->pings -= x->pings > 0;
	return 0;
}

static void send_ping(struct exchange *x)
{
	struct iovec part = {(void *)(uintptr_t)ping, sizeof(ping) - 1};

	vgpu_socket_send(x->fd, &part, 1, NULL, 0, MSG_DONTWAIT);
	x->pings++;
}

/* Removes what comes before an object, and copies the first line of it that is not empty to
 * SKIPPED. Returns whether any of TEXT is left. */
static bool skip_lines(char *text, char *skipped, size_t size)
{
	char *object = strchrnul(text, '{'), *line = text + strspn(text, "\r\n");

	if (line < object && !skipped[0])
		snprintf(skipped, size, "%.*s", (int)strcspn(line, "\r\n{"), line);
	memmove(text, object, strlen(object) + 1);
	return *text;
}

/* Waits for the answer, for as long as vgpud shows signs of life. */
static int await_answer(struct exchange *x, char **answer)
{
	vgpu_nsec began = vgpu_now();
	enum silence state;
	int r;

	for (*answer = NULL; !*answer;) {
		r = next_line(x, SILENCE_ASK + (x->pings ? SILENCE_END : 0), answer);
		if (r == -ECONNRESET)
			return r;
		if (r == 0 && *answer && x->skipped &&
		    !skip_lines(*answer, x->skipped, x->skipped_size)) {
			free(*answer);
			*answer = NULL;
		}
		if (r == 0)
			continue;
		state = silence_of(x->fd);
		if (state == SILENCE_FROZEN)
			return -ETIMEDOUT;
		if (!x->pings)
			send_ping(x);
		else if (state != SILENCE_STARTING || x->heard > began + SILENCE_START)
			return -ETIMEDOUT;
		else
			x->heard = vgpu_now();
	}
	return 0;
}

/* Returns the errno for a name that vgpud sends, such as "EBUSY"; EIO for an unknown name. */
static int error_number(const char *name)
{
	int i;

	for (i = 1; i < 134; i++)
		if (strerrorname_np(i) && strcmp(strerrorname_np(i), name) == 0)
			return i;
	return EIO;
}

char *client_request(const char *method, struct json_object *args)
{
	struct json_object *request = json_object_new_object();
	char *line;

	json_object_object_add(request, "id", json_object_new_int(1));
	json_object_object_add(request, "method", json_object_new_string(method));
	if (args)
		json_object_object_add(request, "args", args);
	if (asprintf(&line, "%s\n",
		     json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN)) < 0)
		line = NULL;
	json_object_put(request);
	return line;
}

/* Reads vgpud's reason for refusing into ERR. Returns vgpud's negative errno. */
static int read_refusal(struct json_object *error, struct vgpu_error *err)
{
	const char *message = json_object_get_string(json_object_object_get(error, "message"));
	const char *code = json_object_get_string(json_object_object_get(error, "code"));

	return vgpu_error_set(err, code ? -error_number(code) : -EIO, "%s",
			      message && *message ? message : "refused, without a reason");
}

int client_answer(const char *line, struct json_object **result, int *refusal,
		  struct vgpu_error *err)
{
	struct json_object *answer = json_tokener_parse(line), *part;
	int r = 0;

	if (!json_object_is_type(answer, json_type_object)) {
		r = vgpu_error_set(err, -EPROTO,
				   "vgpud's answer is not a JSON object; is it of the same version "
				   "as this program?");
	} else if (json_object_object_get_ex(answer, "error", &part)) {
		*refusal = read_refusal(part, err);
		r = 1;
	} else if (json_object_object_get_ex(answer, "result", &part)) {
		*result = json_object_get(part);
	} else {
		r = vgpu_error_set(err, -EPROTO,
				   "vgpud's answer has neither result nor error; is it of the same "
				   "version as this program?");
	}
	json_object_put(answer);
	return r;
}

/* Sends REQUEST, which it frees, and takes the line that answers it; that is the caller's. NULL:
 * out of memory. Returns 0, -ECONNRESET or -ETIMEDOUT. vgpud may have said why it refuses the
 * connection, and closed it, before the line was sent. */
static int exchange(struct exchange *x, char *request, char **answer)
{
	char *pong = NULL;
	int r = -ECONNRESET;

	if (!request)
		return r;
	x->endless = x->endless || silence_of(x->fd) == SILENCE_OWN;
	x->heard = vgpu_now();
	r = vgpu_socket_send_all(x->fd, request, strlen(request));
	free(request);
	r = r == -EAGAIN ? -ETIMEDOUT : await_answer(x, answer);
	/* Nothing of this call is to be left for the next one. */
	while (r == 0 && x->pings && next_line(x, SILENCE_END, &pong) == 0)
		free(pong);
	if (r == -ETIMEDOUT)
		shutdown(x->fd, SHUT_RDWR);
	free(x->text);
	return r;
}

/* Reads the refusal or the result from ANSWER, which it frees; NULL: none came. */
static int take_answer(char *answer, struct json_object **result, struct vgpu_error *err)
{
	int refusal = 0, r;

	if (!answer)
		return vgpu_error_set(err, -ECONNRESET,
				      "vgpud closed the connection without an answer: it has "
				      "stopped, or is out of memory");
	r = client_answer(answer, result, &refusal, err);
	free(answer);
	return r > 0 ? refusal : r;
}

static int call(struct exchange *x, const char *method, struct json_object *args,
		struct json_object **result, struct vgpu_error *err)
{
	char *answer = NULL;
	int r = exchange(x, client_request(method, args), &answer);

	return r == -ETIMEDOUT ? silence_on(x->fd, err) : take_answer(answer, result, err);
}

int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err)
{
	return call(&(struct exchange){.fd = fd}, method, args, result, err);
}

int client_call_patient(int fd, const char *method, struct json_object *args,
			struct json_object **result, struct vgpu_error *err)
{
	return call(&(struct exchange){.fd = fd, .endless = true}, method, args, result, err);
}

int client_call_beyond(int fd, const char *method, struct json_object *args,
		       struct json_object **result, char *skipped, size_t size,
		       struct vgpu_error *err)
{
	struct exchange x = {.fd = fd, .skipped = skipped, .skipped_size = size};
	struct vgpu_error why;
	char *answer = NULL;
	int r;

	skipped[0] = '\0';
	r = exchange(&x, client_request(method, args), &answer);
	if (r == -ETIMEDOUT)
		return silence_on(fd, err);
	r = take_answer(answer, result, &why);
	if (r == -ECONNRESET && skipped[0])
		return vgpu_error_set(err, r,
				      "the remote shell prints \"%.80s\", and no vgpud answers",
				      skipped);
	return r < 0 ? vgpu_error_set(err, r, "%s", why.text) : r;
}
