/* SPDX-License-Identifier: MIT */
/*
 * Policies and tables that break the contract, one for each value of -DHOW. Each is the example
 * policy with one operation, or one field of the table, replaced.
 */
#define vgpu_policy_entry good_entry
#include "turns.c"
#undef vgpu_policy_entry

#define NO_SUCH_VF 1 /* picks a VF that does not exist */
#define NO_WORK 2    /* picks a VF whose guest has no driver */
#define ZERO_SLICE 3
#define NEVER_PICKS 4
#define LATE_START 5
#define HUGE_SLICE 6 /* no fault: the host clamps the slice and counts it */
#define SLOW 7
#define EXTREMES                                                                                   \
	8 /* no fault: lags, shares and bounds that cannot be                                      \
	   */
#define WRONG_MAJOR 20
#define SHORT_TABLE 21
#define LONG_TABLE 22	    /* sets an operation that this host does not know */
#define LONG_EMPTY_TABLE 23 /* has room for such an operation, and leaves it empty */
#define NO_PICK 24
#define UNKNOWN_PROMISE 25
#define BAD_DEFAULT 26
#define BAD_NAME 27
#define BUILT_IN_NAME 28

#if HOW < WRONG_MAJOR
static void hostile_pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct turns *t = state;
	volatile uint64_t spin;

	switch (HOW) {
	case NO_SUCH_VF:
		out->vf = t->facts->max_vfs + 7;
		out->slice = VGPU_MSEC;
		return;
	case NO_WORK:
		out->vf = t->facts->max_vfs - 1;
		out->slice = VGPU_MSEC;
		return;
	case NEVER_PICKS:
		return;
	default:
		pick(state, out, now);
	}
	if (HOW == ZERO_SLICE)
		out->slice = 0;
	if (HOW == HUGE_SLICE)
		out->slice = UINT64_MAX;
	if (HOW == LATE_START)
		out->not_before = now + 1000 * VGPU_SEC;
	if (HOW == SLOW)
		for (spin = 0; spin < 100000000; spin++)
			;
}
#endif

#if HOW == BAD_NAME
#define NAME "../evil"
#elif HOW == BUILT_IN_NAME
#define NAME "fair"
#elif defined(hostile_name)
#define NAME hostile_name
#else
#define NAME "hostile"
#endif

#if HOW == EXTREMES
static unsigned asked;
static const uint64_t extremes[] = {0,		1,
				    INT64_MAX,	(uint64_t)INT64_MIN,
				    UINT64_MAX, UINT64_MAX - 1};

static uint64_t extreme(void)
{
	return extremes[asked++ % (sizeof(extremes) / sizeof(extremes[0]))];
}

static int64_t extreme_lag(void *state, uint32_t vf)
{
	(void)state;
	return vf == 0 ? INT64_MIN : INT64_MAX;
}

static void extreme_share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	(void)state;
	(void)vf;
	*numerator = extreme();
	*denominator = asked % 5 ? extreme() : 0;
}

static void extreme_bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	(void)state;
	(void)vf;
	out->max_lag = extreme();
	out->max_wait = extreme();
}
#endif

static const struct vgpu_param bad_params[] = {
	{"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 4, NULL},
	{.name = NULL},
};

#if HOW == LONG_TABLE || HOW == LONG_EMPTY_TABLE
__attribute__((visibility("default"))) const struct {
	struct vgpu_policy_ops ops;
	void *future;
} vgpu_policy_entry = {
	.ops =
		{
#else
__attribute__((visibility("default"))) const struct vgpu_policy_ops vgpu_policy_entry = {
#endif
			.size = HOW == SHORT_TABLE ? 64
				: HOW == LONG_TABLE || HOW == LONG_EMPTY_TABLE
					? sizeof(struct vgpu_policy_ops) + sizeof(void *)
					: sizeof(struct vgpu_policy_ops),
			.abi_major = HOW == WRONG_MAJOR ? 9 : VGPU_POLICY_ABI_MAJOR,
			.abi_minor = VGPU_POLICY_ABI_MINOR,
			.name = NAME,
			.help = "breaks the contract",
			.promises = HOW == UNKNOWN_PROMISE ? UINT64_C(1) << 60
							   : VGPU_PROMISE_WORK_CONSERVING,
			.params = HOW == BAD_DEFAULT ? bad_params : params,
			.vf_params = vf_params,
			.memory = memory,
			.attach = attach,
			.set_params = set_params,
			.admit = admit,
			.set_vf = set_vf,
			.remove = remove_vf,
			.online = no_change,
			.offline = no_change,
			.wake = wake,
			.sleep = sleep_vf,
#if HOW < WRONG_MAJOR
			.pick = hostile_pick,
#else
	.pick = HOW == NO_PICK ? NULL : pick,
#endif
			.account = account,
#if HOW == EXTREMES
			.export_lag = extreme_lag,
			.share = extreme_share,
			.bound = extreme_bound,
#else
	.export_lag = export_lag,
	.share = share,
	.bound = bound,
#endif
			.import_lag = import_lag,
#if HOW == LONG_TABLE
		},
	.future = (void *)1
#elif HOW == LONG_EMPTY_TABLE
}
#endif
};
