/* SPDX-License-Identifier: MIT */
#include "xe_kernel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define ADMIN PCI_DEVICES "/" PF "/sriov_admin/"
#define UNIT "/sys/bus/event_source/devices/xe_0000_03_00.0/"
#define UNIT_TYPE 42u
#define MAX_FDS 512
#define DEFAULT_MS 16u
#define DEFAULT_US 16000u

struct xe_function xe_functions[XE_VFS + 1];
uint64_t xe_free;
uint32_t xe_running;
char xe_trace[16384];
struct xe_fault xe_fault;
int xe_no_counters, xe_counters_gone;
_Atomic unsigned xe_calls, xe_fail_at;

/* What a descriptor stands for. */
static struct {
	char path[200];
	bool ours;
	uint64_t *counter;
} opened[MAX_FDS];
static const struct vfio_kernel *below; /* the machine */
static struct vfio_kernel kernel;
static uint32_t n_vfs;

/* `all` guards everything here; `settings` is Linux's own mutex: held, and waited for. */
static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held;
static unsigned waiting;

static const char *const words[] = {"low", "normal", "high"};

static bool ends(const char *path, const char *with)
{
	size_t n = strlen(path), m = strlen(with);

	return n >= m && strcmp(path + n - m, with) == 0;
}

static bool is_ours(const char *path)
{
	return strncmp(path, ADMIN, strlen(ADMIN)) == 0 || ends(path, "/reset");
}

/* Returns 0, or the error with which this call is made to fail. */
static int fault(const char *path, bool is_write)
{
	if (++xe_calls == xe_fail_at)
		return -EIO;
	if (!xe_fault.end || !ends(path, xe_fault.end) || (xe_fault.writes && !is_write))
		return 0;
	if (xe_fault.times && --xe_fault.times == 0)
		xe_fault.end = NULL;
	return xe_fault.error;
}

static void trace(const char *path, const char *text)
{
	size_t n = strlen(xe_trace);
	const char *name = strstr(path, "/sriov_admin/");

	name = name ? name + strlen("/sriov_admin/") : strrchr(path, '/') + 1;
	CU_ASSERT_FATAL(n + 200 < sizeof(xe_trace));
	snprintf(xe_trace + n, sizeof(xe_trace) - n, "%s=%s\n", name, text);
}

/* Linux makes the priority of single VFs read-only; other files can only be written. */
static bool is_allowed(const char *path, int access_mode)
{
	if (strncmp(path, ADMIN, strlen(ADMIN)) != 0)
		return true;
	if (access_mode == O_RDONLY)
		return path[strlen(ADMIN)] != '.' && !ends(path, "/stop");
	return path[strlen(ADMIN)] != 'v' || !ends(path, "sched_priority");
}

static int fake_open(const char *path, int flags)
{
	int fd, r;

	pthread_mutex_lock(&all);
	r = ++xe_calls == xe_fail_at ? -EIO : 0;
	if (r == 0 && !is_allowed(path, flags & O_ACCMODE))
		r = -EACCES;
	if (r == 0 && strncmp(path, ADMIN, strlen(ADMIN)) == 0 && access(inside(ADMIN), F_OK) < 0)
		r = -ENOENT;
	fd = r < 0	     ? r
	     : is_ours(path) ? open("/dev/null", O_RDWR | O_CLOEXEC)
			     : below->open(path, flags);
	if (fd >= 0 && fd < MAX_FDS) {
		snprintf(opened[fd].path, sizeof(opened[fd].path), "%s", path);
		opened[fd].ours = is_ours(path);
	}
	pthread_mutex_unlock(&all);
	return fd;
}

static void await_settings(void)
{
	waiting++;
	pthread_cond_broadcast(&changed);
	while (held)
		pthread_cond_wait(&changed, &all);
	waiting--;
}

/* Gets the function and the file that a path of sriov_admin means. */
static uint32_t parse(const char *path, char file[40])
{
	char folder[16];

	CU_ASSERT_EQUAL_FATAL(sscanf(path, ADMIN "%15[^/]/%39s", folder, file), 2);
	return strncmp(folder, "vf", 2) == 0 ? (uint32_t)atoi(folder + 2) : 0;
}

static int show(const char *path, char *out, size_t size)
{
	char file[40];
	uint32_t f = parse(path, file);
	const struct xe_function *x = &xe_functions[f];
	bool quantum = strcmp(file, "profile/exec_quantum_ms") == 0;
	const uint32_t *gts = quantum ? x->quantum : x->timeout;
	uint32_t i;
	int n = 0;

	if (strcmp(file, "profile/sched_priority") == 0) {
		for (i = 0; i < (f ? 2u : 3u); i++)
			n += snprintf(out + n, size - (size_t)n,
				      x->priority == i ? "%s[%s]" : "%s%s", i ? " " : "", words[i]);
		return n + snprintf(out + n, size - (size_t)n, "\n");
	}
	if (strcmp(file, "profile/vram_quota") == 0)
		return snprintf(out, size, "%llu\n", (unsigned long long)x->memory);
	if (gts[0] != gts[1])
		return -EUCLEAN;
	return snprintf(out, size, "%u\n", gts[0]);
}

static ssize_t fake_read(int fd, void *data, size_t size, uint64_t offset)
{
	char text[64];
	ssize_t r;

	pthread_mutex_lock(&all);
	r = fault(opened[fd].path, false);
	if (r == 0 && !opened[fd].ours) {
		r = below->read(fd, data, size, offset);
	} else if (r == 0) {
		await_settings();
		r = show(opened[fd].path, text, sizeof(text));
		if (r > 0)
			memcpy(data, text, (size_t)r);
	}
	pthread_mutex_unlock(&all);
	return r;
}

/* Takes away what the VF has, and then looks for the new size. */
static int store_memory(struct xe_function *x, uint64_t bytes, int error)
{
	bytes = (bytes + 2 * XE_MIB - 1) / (2 * XE_MIB) * 2 * XE_MIB;
	if (x == &xe_functions[xe_running])
		return -EIO;
	xe_free += x->memory;
	x->memory = 0;
	if (error || bytes > xe_free)
		return error ? error : -ENOSPC;
	xe_free -= bytes;
	x->memory = bytes;
	return 0;
}

/* A new line at the end does not count. */
static bool is_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	return strncmp(text, word, n) == 0 && (!text[n] || strcmp(text + n, "\n") == 0);
}

/* As Linux's kstrtoull() with base 0. */
static int parse_number(const char *text, unsigned long long most, unsigned long long *out)
{
	const char *digits = text + (*text == '+');
	char *end;

	errno = 0;
	*out = strtoull(digits, &end, 0);
	if (!isdigit((unsigned char)*digits) || (*end && strcmp(end, "\n") != 0))
		return -EINVAL;
	return errno == ERANGE || *out > most ? -ERANGE : 0;
}

/* As Linux's kstrtobool(). */
static int parse_bool(const char *text, bool *out)
{
	*out = *text && strchr("yYtT1", *text);
	if (*out || (*text && strchr("nNfF0", *text)))
		return 0;
	*out = strncasecmp(text, "on", 2) == 0;
	return *out || strncasecmp(text, "of", 2) == 0 ? 0 : -EINVAL;
}

static int store_priority(uint32_t f, bool everybody, const char *text)
{
	uint32_t value, i;

	for (value = 0; value < 3 && !is_word(text, words[value]); value++)
		;
	if (value == 3 || (value == 2 && (f || everybody)))
		return -EINVAL;
	for (i = 0; i <= XE_VFS && everybody; i++)
		xe_functions[i].priority = value;
	xe_functions[f].priority = value;
	return 0;
}

static int store_setting(struct xe_function *x, const char *file, uint32_t value, int error)
{
	bool quantum = ends(file, "exec_quantum_ms");
	uint32_t *gts = quantum ? x->quantum : x->timeout, max = quantum ? 100000 : 100000000, i;

	for (i = 0; i < XE_GTS; i++)
		if (!error || xe_fault.applied >> i & 1)
			gts[i] = value > max ? max : value;
	return error;
}

static int store(const char *path, const char *text, int error)
{
	char file[40];
	uint32_t f = parse(path, file), first = f, last = f;
	unsigned long long value;
	bool everybody = strstr(path, ".bulk_profile") != NULL, memory = ends(file, "vram_quota"),
	     yes;
	int r;

	if (ends(file, "sched_priority"))
		return error ? error : store_priority(f, everybody, text);
	if (strcmp(file, "stop") == 0) {
		r = parse_bool(text, &yes);
		xe_functions[f].stops += r == 0 && yes && !error;
		return r ? r : error;
	}
	r = parse_number(text, memory ? UINT64_MAX : UINT32_MAX, &value);
	if (everybody) {
		first = memory;
		last = XE_VFS;
	}
	for (f = first; f <= last && r == 0; f++)
		r = memory ? store_memory(&xe_functions[f], value, error)
			   : store_setting(&xe_functions[f], file, (uint32_t)value, error);
	return r;
}

static bool are_default(void)
{
	uint32_t i;

	for (i = 0; i <= n_vfs; i++)
		if (xe_functions[i].quantum[0] || xe_functions[i].timeout[0] ||
		    xe_functions[i].priority)
			return false;
	return true;
}

static void provision(uint32_t i, uint32_t ms, uint32_t us)
{
	uint32_t k;

	for (k = 0; k < XE_GTS; k++) {
		xe_functions[i].quantum[k] = ms;
		xe_functions[i].timeout[k] = us;
	}
}

/* VFs get what nobody has set; when they go, all that was set goes. */
static void vfs_changed(uint32_t n)
{
	bool automatic, memory = true;
	char text[100], address[PCI_ADDRESS_SIZE];
	uint64_t share;
	uint32_t i;

	n_vfs = n;
	automatic = are_default();
	for (i = 1; i <= XE_VFS; i++)
		memory &= xe_functions[i].memory == 0;
	share = n ? xe_free / (n + 1) / (2 * XE_MIB) * 2 * XE_MIB : 0;
	for (i = 0; i <= XE_VFS; i++) {
		if (i && !n)
			store_memory(&xe_functions[i], 0, 0);
		if (!n)
			provision(i, 0, 0);
		if (i <= n && n && automatic)
			provision(i, DEFAULT_MS, DEFAULT_US);
		if (i && i <= n && memory)
			store_memory(&xe_functions[i], share, 0);
		xe_functions[i].priority *= n != 0;
	}
	for (i = 0; i < n; i++) {
		snprintf(text, sizeof(text), PCI_DEVICES "/" PF "/virtfn%u", i);
		below->readlink(text, address, sizeof(address));
		put_file("pci:v00008086d0000E211sv00008086sd00001100bc03sc80i00\n", "%s/modalias",
			 text);
	}
}

static ssize_t fake_write(int fd, const void *data, size_t size, uint64_t offset)
{
	const char *path = opened[fd].path;
	char text[64], of[8];
	ssize_t r;
	uint32_t vf;

	pthread_mutex_lock(&all);
	snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)data);
	if (strncmp(path, ADMIN, strlen(ADMIN)) == 0)
		await_settings();
	r = fault(path, true);
	if (r == 0 || xe_fault.applied || ends(path, "vram_quota"))
		trace(path, text);
	if (ends(path, "/reset")) {
		CU_ASSERT_EQUAL(sscanf(path, PCI_DEVICES "/" PF "/virtfn%u/%5s", &vf, of), 2);
		xe_functions[vf + 1].resets += r == 0;
	} else if (opened[fd].ours) {
		r = store(path, text, (int)r);
	} else if (r == 0) {
		/* The machine reads its own files; nobody else runs while it binds drivers. */
		vfio_kernel = below;
		r = below->write(fd, data, size, offset);
		vfio_kernel = &kernel;
		if (r > 0 && ends(path, "/sriov_numvfs"))
			vfs_changed((uint32_t)atoi(text));
	}
	pthread_mutex_unlock(&all);
	return r < 0 ? r : (ssize_t)size;
}

static ssize_t fake_readlink(const char *path, char *out, size_t size)
{
	ssize_t r;

	pthread_mutex_lock(&all);
	r = ++xe_calls == xe_fail_at ? -EIO : below->readlink(path, out, size);
	pthread_mutex_unlock(&all);
	return r;
}

static int fake_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	bool fails;

	pthread_mutex_lock(&all);
	fails = ++xe_calls == xe_fail_at;
	pthread_mutex_unlock(&all);
	/* EACH may call the kernel. */
	return fails ? -EIO : below->list(path, each, data);
}

static int fake_perf_open(uint32_t type, uint64_t config, int cpu)
{
	/* Engines 0 to 2 are the first of classes 0, 1 and 4. */
	static const int engine_of_class[] = {0, 1, -1, -1, 2};
	uint32_t event = config & 0xfff, instance = config >> 12 & 0xff,
		 class = config >> 20 & 0xff;
	uint32_t function = config >> 44 & 0xffff, gt = (uint32_t)(config >> 60);
	int fd, r;

	pthread_mutex_lock(&all);
	r = ++xe_calls == xe_fail_at ? -EIO : xe_no_counters;
	if (r == 0 && (type != UNIT_TYPE || cpu != 0 || function > n_vfs || gt || instance ||
		       class > 4 || engine_of_class[class] < 0 || (event != 2 && event != 3)))
		r = -ENOENT;
	fd = r < 0 ? r : open("/dev/null", O_RDONLY | O_CLOEXEC);
	CU_ASSERT_FATAL(fd < MAX_FDS);
	if (fd >= 0)
		opened[fd].counter =
			event == 3 ? &xe_functions[function].total
				   : &xe_functions[function].active[engine_of_class[class]];
	pthread_mutex_unlock(&all);
	return fd;
}

static int fake_perf_read(int fd, uint64_t *value)
{
	pthread_mutex_lock(&all);
	*value = *opened[fd].counter;
	pthread_mutex_unlock(&all);
	return xe_counters_gone;
}

static void make_files(void)
{
	static const char *const files[] = {"exec_quantum_ms", "preempt_timeout_us",
					    "sched_priority", "vram_quota"};
	static const struct {
		const char *name, *text;
	} unit[] = {
		{"type", "42\n"},
		{"cpumask", "0\n"},
		{"events/engine-active-ticks", "event=0x02\n"},
		{"events/engine-total-ticks", "event=0x03\n"},
		{"format/event", "config:0-11\n"},
		{"format/engine_instance", "config:12-19\n"},
		{"format/engine_class", "config:20-27\n"},
		{"format/function", "config:44-59\n"},
		{"format/gt", "config:60-63\n"},
	};
	struct utsname system;
	uint32_t i;

	/* These are for lists; what is in them is in xe_functions. */
	for (i = 0; i < 4; i++) {
		put_file("", ADMIN ".bulk_profile/%s", files[i]);
		put_file("", ADMIN "vf1/profile/%s", files[i]);
		if (i < 3)
			put_file("", ADMIN "pf/profile/%s", files[i]);
	}
	for (i = 0; i < sizeof(unit) / sizeof(unit[0]); i++)
		put_file(unit[i].text, UNIT "%s", unit[i].name);
	put_file("0x8086\n", PCI_DEVICES "/%s/vendor", PF);
	put_file("0xe211\n", PCI_DEVICES "/%s/device", PF);
	put_file("", PCI_DEVICES "/%s/config", PF);
	point("../../drivers/xe", PCI_DEVICES "/" PF "/driver");
	put_file("", "/sys/bus/pci/drivers/%s/bind", "xe-vfio-pci");
	uname(&system);
	put_file("alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci\n"
		 "alias vfio_pci:v00008086d0000E211sv*sd*bc*sc*i* xe_vfio_pci\n",
		 "/lib/modules/%s/modules.alias", system.release);
}

void make_xe_machine(void)
{
	make_machine();
	make_files();
	memset(xe_functions, 0, sizeof(xe_functions));
	memset(opened, 0, sizeof(opened));
	xe_free = 16384 * XE_MIB;
	xe_running = XE_VFS + 1;
	xe_trace[0] = '\0';
	xe_fault = (struct xe_fault){.end = NULL};
	xe_no_counters = xe_counters_gone = 0;
	xe_calls = xe_fail_at = 0;
	n_vfs = 0;
	held = false;
	below = vfio_kernel;
	kernel = *below;
	kernel.open = fake_open;
	kernel.read = fake_read;
	kernel.write = fake_write;
	kernel.readlink = fake_readlink;
	kernel.list = fake_list;
	kernel.perf_open = fake_perf_open;
	kernel.perf_read = fake_perf_read;
	vfio_kernel = &kernel;
}

void remove_xe_machine(void)
{
	remove_machine();
}

void xe_hold(void)
{
	pthread_mutex_lock(&all);
	held = true;
	pthread_mutex_unlock(&all);
}

void xe_release(void)
{
	pthread_mutex_lock(&all);
	held = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&all);
}

bool xe_is_waited_for(void)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	pthread_mutex_lock(&all);
	while (!(held && waiting) && r == 0)
		r = pthread_cond_timedwait(&changed, &all, &until);
	pthread_mutex_unlock(&all);
	return r == 0;
}

void xe_pass(uint64_t ms)
{
	uint64_t sum = 0;
	uint32_t i;

	pthread_mutex_lock(&all);
	for (i = 0; i <= n_vfs; i++)
		sum += xe_functions[i].quantum[0];
	for (i = 0; i <= n_vfs && sum; i++)
		xe_functions[i].total += ms * XE_TICKS * xe_functions[i].quantum[0] / sum;
	pthread_mutex_unlock(&all);
}

void xe_serve(uint32_t function, uint32_t engine, uint64_t ms)
{
	pthread_mutex_lock(&all);
	xe_functions[function].active[engine] += ms * XE_TICKS;
	pthread_mutex_unlock(&all);
}

void xe_use(uint32_t n)
{
	char target[32];

	snprintf(target, sizeof(target), "/dev/vfio/%u", 50 + n);
	put_file("qemu\n", "/proc/%s/comm", "4711");
	put_file("", "/proc/%s/fd/0", "4711");
	point(target, "/proc/4711/fd/9");
}

void xe_use_none(void)
{
	take("/proc/4711/fd/9");
}
