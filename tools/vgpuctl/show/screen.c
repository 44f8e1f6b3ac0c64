/* SPDX-License-Identifier: MIT */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"

bool view_colour;

#define WIDEST 4000u
/* Shows the cursor, and restores the terminal's former contents. */
#define GIVE_BACK "\033[?25h\033[?1049l"

static volatile sig_atomic_t over, changed;
static bool drawn, keys; /* stdout is drawn on; stdin delivers keys */
static struct termios usual;
static FILE *page, *terminal;
static char *text;
static size_t size;
static unsigned first; /* the first visible line of those that scroll */

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);
	int64_t n;

	return value && vgpu_parse_between(value, 20, WIDEST, &n) == 0 ? (unsigned)n : otherwise;
}

static struct winsize size_of(void)
{
	struct winsize w = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0)
		w.ws_col = (unsigned short)from_environment("COLUMNS", 80);
	if (w.ws_row == 0)
		w.ws_row = (unsigned short)from_environment("LINES", 24);
	return w;
}

unsigned screen_width(void)
{
	return isatty(STDOUT_FILENO) ? size_of().ws_col : SCREEN_ANY;
}

unsigned screen_picture_width(void)
{
	unsigned width =
		isatty(STDOUT_FILENO) ? size_of().ws_col : from_environment("COLUMNS", 100);

	return width < WIDEST ? width : WIDEST;
}

/* The second signal ends the program here, because the main loop may be blocked: vgpud does not
 * answer, or stdout accepts no output. */
static void on_signal(int n)
{
	ssize_t ignored = 0;

	if (n == SIGWINCH || n == SIGCONT) {
		changed = 1;
	} else if (over) {
		if (keys)
			tcsetattr(STDIN_FILENO, TCSANOW, &usual);
		if (drawn)
			ignored = write(STDOUT_FILENO, GIVE_BACK, sizeof(GIVE_BACK) - 1);
		(void)ignored; /* the program ends in any case */
		_exit(128 + n);
	} else {
		over = 1;
	}
}

static void take_keys(void)
{
	struct termios raw = usual;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

void screen_catch(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
	struct sigaction action = {.sa_handler = on_signal};
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

void screen_begin(void)
{
	const char *kind = getenv("TERM");

	screen_catch();
	drawn = isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0;
	keys = drawn && tcgetattr(STDIN_FILENO, &usual) == 0;
	if (keys)
		take_keys();
	if (drawn)
		fputs("\033[?1049h\033[?25l", stdout);
}

void screen_end(void)
{
	if (page) {
		fclose(page);
		stdout = terminal;
		page = NULL;
		free(text);
	}
	if (drawn)
		fputs(GIVE_BACK, stdout);
	fflush(stdout);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	drawn = keys = false;
}

bool screen_is_drawn(void)
{
	return drawn;
}

/* Replaces glibc's variable stdout, as glibc allows. */
void screen_open(void)
{
	page = drawn ? open_memstream(&text, &size) : NULL;
	if (!page)
		return;
	terminal = stdout;
	stdout = page;
}

/* Draws the line at LINE. Returns the next line, or NULL if there is none. */
static const char *draw_line(const char *line, unsigned width)
{
	const char *end = strchr(line, '\n');
	size_t n = end ? (size_t)(end - line) : strlen(line);
	char *copy = strndup(line, n);

	/* Without colours, so that a line can be cut anywhere. */
	if (copy)
		text_put(stdout, copy, width);
	free(copy);
	return end && end[1] ? end + 1 : NULL;
}

static unsigned count_lines(const char *from)
{
	unsigned n = 0;

	for (; *from; from++)
		n += *from == '\n';
	return n;
}

void screen_draw(unsigned fixed)
{
	struct winsize w = size_of();
	unsigned rows = w.ws_row, lines, i, skip, row = 0;
	const char *line;

	if (!page) {
		fflush(stdout);
		return;
	}
	fclose(page);
	stdout = terminal;
	page = NULL;
	lines = count_lines(text);
	if (lines <= rows || rows <= fixed)
		first = 0;
	else if (first > lines - rows)
		first = lines - rows;
	skip = first;
	fputs("\033[H", stdout);
	for (line = *text ? text : NULL, i = 0; line && row < rows; i++) {
		if (i >= fixed && skip > 0) {
			skip--;
			line = strchr(line, '\n');
			line = line && line[1] ? line + 1 : NULL;
			continue;
		}
		fputs(row ? "\n" : "", stdout);
		line = draw_line(line, w.ws_col);
		fputs("\033[K", stdout);
		row++;
	}
	fputs("\033[J", stdout);
	fflush(stdout);
	free(text);
	text = NULL;
}

/* Typed bytes that were not taken yet. */
static char typed[64];
static size_t n_typed;

static bool read_keys(void)
{
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));

	n_typed = n > 0 ? (size_t)n : 0;
	return n > 0;
}

/* Takes a key. The arrows arrive as ESC [ A and ESC [ B; sequences of other keys are ignored. */
static int take_key(void)
{
	size_t n = 1;
	int key = typed[0];

	if (key == '\033') {
		while (n < n_typed && n < 8 && typed[n] != '\033' &&
		       (n == 1 || typed[n] < '@' || typed[n] > '~'))
			n++;
		key = n < n_typed && typed[n] == 'A'   ? KEY_UP
		      : n < n_typed && typed[n] == 'B' ? KEY_DOWN
						       : KEY_AGAIN;
		n += n < n_typed && typed[n] != '\033';
	}
	n_typed -= n;
	memmove(typed, typed + n, n_typed);
	return key;
}

static int do_key(int key)
{
	switch (key) {
	case 'q':
		return KEY_END;
	case KEY_UP:
	case 'k':
		first -= first > 0;
		return KEY_AGAIN;
	case KEY_DOWN:
	case 'j':
		first++;
		return KEY_AGAIN;
	default:
		return key;
	}
}

static int wait_for_key(vgpu_nsec until, const sigset_t *usually)
{
	struct pollfd in = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	vgpu_nsec now;
	struct timespec left;
	int n;

	while (!over && !changed && (now = vgpu_now()) < until) {
		if (n_typed > 0)
			return do_key(take_key());
		left = (struct timespec){(time_t)((until - now) / VGPU_SEC),
					 (long)((until - now) % VGPU_SEC)};
		n = ppoll(&in, 1, &left, usually);
		if (n < 0 && errno != EINTR)
			return KEY_END;
		if (n > 0 && !read_keys())
			return KEY_END;
	}
	return over ? KEY_END : changed ? KEY_AGAIN : KEY_NONE;
}

int screen_wait(vgpu_nsec until)
{
	sigset_t all, usually;
	int key;

	/* Unblocked only in ppoll(), so that a signal that arrives before it interrupts it. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &usually);
	key = wait_for_key(until, &usually);
	changed = 0;
	sigprocmask(SIG_SETMASK, &usually, NULL);
	if (key == KEY_AGAIN && keys)
		take_keys();
	return key;
}
