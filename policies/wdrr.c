/* SPDX-License-Identifier: MIT */
/*
 * wdrr: weighted deficit round robin (Shreedhar and Varghese, SIGCOMM '95): the smallest fair
 * policy, to learn from and to start from; docs/writing-a-policy.md explains it.
 *
 * VFs that have work form a circle. In each round a VF's deficit grows by its quantum. The VF may
 * run for as long as its deficit, and its run time is subtracted. A VF that ran too long begins its
 * next turn with less.
 */
#include "vgpu/policy.h"

enum { P_QUANTUM };
enum { V_WEIGHT };

struct vf {
	bool admitted, awake;
	bool served;		 /* it has had a turn since it was admitted or woke */
	uint32_t weight;	 /* in hundredths of the quantum */
	uint32_t next, previous; /* neighbours in the circle */
	int64_t deficit, worst;	 /* ns; worst: the largest debt, or kept rest, so far */
	int64_t over, late;	 /* how late it has stopped, and started, at most, ns */
	int64_t since;		 /* `done` at the end of its last turn, or when it woke */
	int64_t brought;	 /* what it was owed under the previous policy, ns */
};

struct wdrr {
	const struct vgpu_facts *facts;
	int64_t quantum;  /* of this round, ns, the same for all */
	int64_t next;	  /* `quantum` from the next round on */
	uint32_t start;	  /* the VF with whose turn a round begins */
	uint32_t turn;	  /* the VF whose turn it is, or VGPU_NO_VF if none has work */
	uint32_t first;	  /* the VF that begins, while none has run: the one that is owed most */
	bool fresh;	  /* the VF whose turn it is has not got its quantum for this turn yet */
	bool extended;	  /* the running VF was extended beyond `offered` */
	vgpu_nsec beside; /* since when another VF has work, too; VGPU_NEVER: no other has */
	int64_t offered;
	vgpu_nsec expected; /* when the last pick was planned to run */
	bool runs;	    /* the picked VF runs, since `began` */
	vgpu_nsec began;
	int64_t done;		      /* service of all VFs so far, ns */
	uint64_t weights, contenders; /* sums of the weights of all VFs, and of those with work */
	struct vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_QUANTUM] = {"quantum_us", "us", "time that a VF of weight 100 gets in each round",
		       VGPU_PARAM_INT, 500, 500000, 4000, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_WEIGHT] = {"weight", "",
		      "share, relative to the other VFs' weights; a VF of weight 100 gets "
		      "quantum_us in each round",
		      VGPU_PARAM_INT, 1, 10000, 100, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct wdrr) + max_vfs * sizeof(struct vf);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct wdrr *w = state;

	(void)now;
	w->next = values[P_QUANTUM] * (int64_t)VGPU_USEC;
	if (w->turn == VGPU_NO_VF)
		w->quantum = w->next;
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct wdrr *w = state;

	w->facts = facts;
	w->turn = VGPU_NO_VF;
	w->beside = VGPU_NEVER;
	set_params(state, values, 0);
}

static int64_t quantum_of(const struct wdrr *w, const struct vf *vf)
{
	return w->quantum * vf->weight / 100;
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];
	int64_t used = w->runs && w->turn == index ? (int64_t)(now - w->began) : 0;

	(void)why;
	w->weights += (uint64_t)values[V_WEIGHT] - vf->weight;
	if (vf->awake)
		w->contenders += (uint64_t)values[V_WEIGHT] - vf->weight;
	vf->weight = (uint32_t)values[V_WEIGHT];
	/* A deficit from a larger weight is not kept under a smaller one; what the VF has used of
	 * its turn so far and is not charged yet came from the larger one. */
	if (vf->deficit - used > quantum_of(w, vf))
		vf->deficit = quantum_of(w, vf) + used;
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct wdrr *w = state;

	w->vfs[index].admitted = true;
	return set_vf(state, index, values, now, why);
}

static void no_change(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

/* Joins the circle where the wait is longest: just before the VF whose turn it is. Until a VF has
 * run, the turn goes to the VF that is owed most. */
static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];

	vf->awake = true;
	if (w->beside > now)
		w->beside = now;
	vf->served = w->done > 0;
	vf->since = w->done;
	w->contenders += vf->weight;
	if (w->turn == VGPU_NO_VF) {
		vf->next = index;
		vf->previous = index;
		w->turn = index;
		w->first = index;
		w->start = index;
		w->fresh = true;
		return true;
	}
	vf->next = w->turn;
	vf->previous = w->vfs[w->turn].previous;
	w->vfs[vf->previous].next = index;
	w->vfs[vf->next].previous = index;
	if (vf->brought > w->vfs[w->first].brought)
		w->first = index;
	return false;
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];

	(void)now;
	vf->awake = false;
	w->contenders -= vf->weight;
	if (w->first == index)
		w->first = vf->next;
	if (w->start == index)
		w->start = vf->next;
	if (vf->deficit > 0) /* a VF without work is owed nothing; it keeps its debt */
		vf->deficit = 0;
	if (w->turn == index) {
		w->turn = vf->next == index ? VGPU_NO_VF : vf->next;
		w->fresh = true;
	}
	if (w->turn == VGPU_NO_VF)
		w->quantum = w->next;
	w->vfs[vf->previous].next = vf->next;
	w->vfs[vf->next].previous = vf->previous;
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;

	if (w->vfs[index].awake)
		sleep_vf(state, index, now);
	w->weights -= w->vfs[index].weight;
	w->vfs[index].weight = 0;
	w->vfs[index].admitted = false;
}

/* Gives the VF its quantum of this round, or of the next if that begins with it. */
static void give(struct wdrr *w, uint32_t index)
{
	if (index == w->start)
		w->quantum = w->next;
	w->vfs[index].deficit += quantum_of(w, &w->vfs[index]);
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct wdrr *w = state;
	int64_t least = (int64_t)w->facts->min_slice_ns, rounds, few = INT64_MAX;
	int64_t quantum = w->quantum;
	uint32_t i;

	if (w->turn == VGPU_NO_VF)
		return;
	if (w->done == 0 && w->fresh) {
		w->turn = w->first;
		w->start = w->first;
	}
	w->extended = false;
	w->beside = VGPU_NEVER;
	w->expected = now + w->facts->switch_ns;
	for (i = w->turn;;) {
		struct vf *vf = &w->vfs[i];

		if (w->fresh)
			give(w, i);
		w->fresh = false;
		if (vf->deficit >= least) {
			w->turn = i;
			out->vf = i;
			out->slice = (vgpu_nsec)vf->deficit;
			if (out->slice > w->facts->max_slice_ns) /* the turn is served in parts */
				out->slice = w->facts->max_slice_ns;
			w->offered = (int64_t)out->slice;
			return;
		}
		rounds = (least - vf->deficit + quantum_of(w, vf) - 1) / quantum_of(w, vf);
		few = rounds < few ? rounds : few;
		i = vf->next;
		w->fresh = true;
		if (i != w->turn)
			continue;
		/* No VF may run in this round, nor in the next few: skip those at once, unless
		 * this round was counted in two quanta. */
		few = w->quantum == quantum ? few : 1;
		do {
			w->vfs[i].deficit += (few - 1) * quantum_of(w, &w->vfs[i]);
			i = w->vfs[i].next;
		} while (i != w->turn);
		few = INT64_MAX;
		quantum = w->quantum;
	}
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;

	w->runs = true;
	w->began = now;
	if (now > w->expected && (int64_t)(now - w->expected) > w->vfs[index].late)
		w->vfs[index].late = (int64_t)(now - w->expected);
}

/* Extends a VF that is alone in the circle: its next turn would follow immediately. */
static vgpu_nsec extend(void *state, uint32_t index, vgpu_nsec end)
{
	struct wdrr *w = state;

	(void)end;
	if (w->turn != index || w->vfs[index].next != index)
		return 0;
	w->extended = true;
	w->beside = VGPU_NEVER;
	return w->facts->max_slice_ns;
}

/* Returns whether VF keeps the rest of its turn for the next one, because it stops sooner than it
 * usually does and another dispatch would cost all VFs a switch. It keeps at most a quantum, and
 * nothing of a turn that was cut short or is served in several parts. */
static bool keeps_rest(struct wdrr *w, struct vf *vf, const struct vgpu_usage *usage)
{
	if (usage->reason != VGPU_END_SLICE || vf->deficit > quantum_of(w, vf) ||
	    (int64_t)usage->granted - (int64_t)usage->charge < vf->deficit)
		return false;
	vf->worst = vf->deficit > vf->worst ? vf->deficit : vf->worst;
	return true;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[usage->vf];
	vgpu_nsec shared = usage->end > w->beside ? usage->end - w->beside : 0, own;
	int64_t more, late = (int64_t)usage->overrun;

	w->runs = false;
	/* What a VF that was alone uses after another VF has work is its debt, even if it stops no
	 * later than usual. */
	own = usage->used > shared ? usage->used - shared : 0;
	more = (int64_t)(own < usage->granted ? own : usage->granted) - w->offered;
	if (w->extended) {
		more = more > 0 ? more : 0;
		vf->deficit += more; /* not subtracted, because no other VF wanted that time */
		late = (int64_t)usage->used - w->offered - more;
	}
	w->done += (int64_t)usage->charge;
	vf->deficit -= (int64_t)usage->charge;
	vf->over = late > vf->over ? late : vf->over;
	if (-vf->deficit > vf->worst)
		vf->worst = -vf->deficit;
	/* The VF ran out of work: it gives up the rest of its turn, except a rest that is too short
	 * to run. */
	if (usage->reason == VGPU_END_YIELD && vf->deficit >= (int64_t)w->facts->min_slice_ns)
		vf->deficit = (int64_t)w->facts->min_slice_ns - 1;
	if (vf->deficit >= (int64_t)w->facts->min_slice_ns && !keeps_rest(w, vf, usage))
		return; /* its turn was cut short, and continues */
	vf->served = true;
	vf->since = w->done;
	w->turn = vf->next;
	w->fresh = true;
}

/*
 * Returns what the VF is owed for its wait, in ns, beside its deficit: a part of its next quantum,
 * which grows from none to all of it during the others' turns. A VF that has had a turn is half a
 * quantum ahead at the beginning of that wait, and half a quantum behind at its end.
 */
static int64_t waited(const struct wdrr *w, const struct vf *vf)
{
	int64_t round = w->quantum * (int64_t)w->contenders / 100, passed = w->done - vf->since;

	if (!vf->awake || round == 0)
		return 0;
	passed = (passed < round ? passed : round) * 1024 / round - (vf->served ? 512 : 0);
	return quantum_of(w, vf) * passed / 1024;
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct wdrr *w = state;

	const struct vf *vf = &w->vfs[index];
	/* The quantum of a turn that is not over is not owed yet. */
	int64_t had = w->turn == index && !w->fresh ? quantum_of(w, vf) : 0;

	return vf->deficit - had + waited(w, vf);
}

/* Imports a lag, ns. The VF's place in the circle accounts for a lag of up to half a quantum, ahead
 * or behind. */
static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];
	int64_t most = 2 * quantum_of(w, vf), half = quantum_of(w, vf) / 2, size;

	vf->brought = lag;
	lag = lag > half ? lag - half : lag < -half ? lag + half : 0;
	vf->deficit = lag > most ? most : lag;
	size = vf->deficit < 0 ? -vf->deficit : vf->deficit;
	vf->worst = size > vf->worst ? size : vf->worst;
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct wdrr *w = state;

	*numerator = w->vfs[index].weight;
	*denominator = w->weights;
}

/* Returns the VF's quantum in this round or in the next, whichever is larger, ns. */
static int64_t largest_quantum(const struct wdrr *w, const struct vf *vf)
{
	return (w->next > w->quantum ? w->next : w->quantum) * vf->weight / 100;
}

/* Returns how long a turn may take, ns: what the VF may have kept, its quantum, and lateness. */
static uint64_t turn_bound(const struct wdrr *w, const struct vf *vf)
{
	int64_t quantum = largest_quantum(w, vf), kept = vf->worst < quantum ? vf->worst : quantum;
	uint64_t turn = (uint64_t)(quantum + kept) + w->facts->min_slice_ns;
	uint64_t parts = 1 + turn / w->facts->max_slice_ns;

	return turn + 2 * parts * w->facts->switch_ns + parts * (uint64_t)(vf->over + vf->late);
}

/*
 * A deficit lies between the worst debt and a quantum plus a shortest slice (what was too short to
 * run is kept): reach = quantum + slice + worst. For a turn of VF i the fluid server gives this VF
 * up to weight / (weight + weight i) of it, if only those two have work then; and where many have
 * had turns that the fluid server has not paid for yet, at most half of each. So |lag| <= 2 reach +
 * sum over others of reach i * max(weight / (weight + weight i), 1/2)
 *            + half of the largest reach i
 * Its own reach counts twice: the VF may be owed a turn, get it, and then be ahead by another.
 */
static uint64_t lag_bound(const struct wdrr *w, uint32_t index)
{
	const struct vf *own = &w->vfs[index];
	uint64_t lag = 0, most = 0, reach;
	uint32_t i;

	for (i = 0; i < w->facts->max_vfs; i++) {
		const struct vf *vf = &w->vfs[i];

		if (!vf->admitted)
			continue;
		reach = (uint64_t)(largest_quantum(w, vf) + vf->worst) + w->facts->min_slice_ns;
		if (i == index) {
			lag += 2 * reach;
			continue;
		}
		most = reach > most ? reach : most;
		lag += vf->weight > own->weight ? reach / 2
						: reach * own->weight / (own->weight + vf->weight);
	}
	return lag + most / 2;
}

/* Writes the bounds. Between two of a VF's quanta every other VF has one turn. The VF waits until
 * its quanta have paid its debt and are enough for the shortest slice. */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct wdrr *w = state;
	const struct vf *own = &w->vfs[index];
	uint64_t round = 0, least = w->facts->min_slice_ns;
	uint32_t i;

	for (i = 0; i < w->facts->max_vfs; i++)
		if (w->vfs[i].admitted)
			round += turn_bound(w, &w->vfs[i]);
	out->max_lag = lag_bound(w, index);
	out->max_wait = round * (1 + ((uint64_t)own->worst + least) / (uint64_t)quantum_of(w, own));
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "wdrr",
	.help = "weighted deficit round robin: the smallest fair policy",
	.promises = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_PROPORTIONAL |
		    VGPU_PROMISE_NO_STARVATION,
	.params = params,
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
	.pick = pick,
	.run = run,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
	.extend = extend,
};
