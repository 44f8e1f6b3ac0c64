/* SPDX-License-Identifier: MIT */
/*
 * On which GPU each VF of a claim is booked: whatever way a server's VFs lie on GPUs, the amounts
 * that placement adds up lead back to one that adds up to the same; and answers that are none.
 */
#include <errno.h>

#include "vms/booked.h"
#include "draw.h"
#include "suite.h"

#define GPUS 8u
#define MIB (UINT64_C(1) << 20)

static struct control control;
static struct config config;
static struct claim claim;
static struct vgpu_error why;
static int32_t on[CLAIM_MAX_VFS];

static void host(void)
{
	uint32_t i;

	memset(&control, 0, sizeof(control));
	memset(&config, 0, sizeof(config));
	control.config = &config;
	control.n_gpus = GPUS;
	for (i = 0; i < GPUS; i++) {
		snprintf(config.gpus[i].name, sizeof(config.gpus[i].name), "gpu%u", i);
		strcpy(config.gpus[i].device, "null:");
		strcpy(config.gpus[i].pool, i % 2 ? "odd" : "even");
		config.gpus[i].vfs = 8;
		control.gpus[i].config = &config.gpus[i];
		control.gpus[i].control = &control;
	}
	config.n_gpus = GPUS;
}

/* Claims N VFs without a share or memory. */
static void claims(uint32_t n)
{
	memset(&claim, 0, sizeof(claim));
	claim.n_vfs = n;
	while (n-- > 0) {
		claim.vfs[n].vf = claim.vfs[n].hostdev = -1;
		snprintf(claim.vfs[n].name, sizeof(claim.vfs[n].name), "v%u", n);
	}
}

static void wants(uint32_t vf, uint32_t share, uint32_t mib)
{
	struct claim_param *p = &claim.vfs[vf].params[0];

	strcpy(p->name, "min_ppm");
	snprintf(p->value, sizeof(p->value), "%u", share * 1000);
	claim.vfs[vf].n_params = 1;
	claim.vfs[vf].memory = mib * MIB;
}

/* Reads the answer; afterwards ON must be whole: all VFs have a GPU, or none has. */
static int reads(const char *line)
{
	uint32_t i;
	int r;

	memset(on, 0x55, sizeof(on));
	why.text[0] = '\0';
	r = booked_read(&control, &claim, false, line, on, &why);
	for (i = 0; i < CLAIM_MAX_VFS && r <= 0; i++)
		CU_ASSERT_EQUAL(on[i], BOOKED_ANY);
	for (i = 0; i < claim.n_vfs && r > 0; i++)
		CU_ASSERT(on[i] >= 0 && on[i] < (int32_t)GPUS);
	CU_ASSERT((why.text[0] != '\0') == (r < 0));
	return r;
}

/* What a way of placing the VFs adds up to, on each GPU. */
struct sums {
	uint32_t vfs[GPUS], shares[GPUS], mibs[GPUS];
};

static struct sums add_up(const int32_t *place, const uint32_t *share, const uint32_t *mib)
{
	struct sums s = {0};
	uint32_t i;

	for (i = 0; i < claim.n_vfs; i++) {
		s.vfs[place[i]]++;
		s.shares[place[i]] += share[i];
		s.mibs[place[i]] += mib[i];
	}
	return s;
}

static void write_answer(const struct sums *s, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "{\"gpus\":{");
	uint32_t g;

	for (g = 0; g < GPUS; g++)
		if (s->vfs[g])
			n += (size_t)
				snprintf(out + n, size - n,
					 "%s\"gpu%u\":{\"VF\":%u,\"SHARE\":%u,\"MEMORY_MB\":%u}",
					 out[n - 1] == '{' ? "" : ",", g, s->vfs[g], s->shares[g],
					 s->mibs[g]);
	snprintf(out + n, size - n, "}}\n");
}

TEST(amounts_lead_back, "amounts lead back to GPUs")
{
	uint32_t share[CLAIM_MAX_VFS], mib[CLAIM_MAX_VFS], i, round;
	int32_t place[CLAIM_MAX_VFS];
	struct sums s, found;
	char line[2048];

	host();
	for (round = 0; round < 3000; round++) {
		claims(1 + (uint32_t)draw(CLAIM_MAX_VFS));
		for (i = 0; i < claim.n_vfs; i++) {
			/* Few different amounts, so that many VFs look alike, and sums meet by
			 * chance. */
			share[i] =
				round % 3 ? 100 * (1 + (uint32_t)draw(3)) : 1 + (uint32_t)draw(900);
			mib[i] = 64 << draw(3);
			place[i] = (int32_t)draw(1 + draw(GPUS));
			wants(i, share[i], mib[i]);
		}
		s = add_up(place, share, mib);
		write_answer(&s, line, sizeof(line));
		CU_ASSERT_EQUAL_FATAL(reads(line), 1);
		found = add_up(on, share, mib);
		CU_ASSERT(memcmp(&found, &s, sizeof(s)) == 0);
	}
}

/* One more or less of anything, on several GPUs, is another server's. */
TEST(other_amounts_are_refused, "other amounts are refused")
{
	host();
	claims(2);
	wants(0, 100, 64);
	wants(1, 200, 64);
#define ON(v0, s0, m0, v1, s1, m1)                                                                 \
	"{\"gpus\":{\"gpu2\":{\"VF\":" #v0 ",\"SHARE\":" #s0 ",\"MEMORY_MB\":" #m0                 \
	"},\"gpu5\":{\"VF\":" #v1 ",\"SHARE\":" #s1 ",\"MEMORY_MB\":" #m1 "}}}"
	CU_ASSERT_EQUAL(reads(ON(1, 100, 64, 1, 200, 64)), 1);
	CU_ASSERT(on[0] == 2 && on[1] == 5);
	CU_ASSERT_EQUAL(reads(ON(1, 200, 64, 1, 100, 64)), 1);
	CU_ASSERT(on[0] == 5 && on[1] == 2);
	CU_ASSERT_EQUAL(reads(ON(1, 0, 0, 1, 0, 0)), 1); /* a flavor that books VFs alone */
	CU_ASSERT_EQUAL(reads(ON(1, 150, 64, 1, 150, 64)), -ESRCH);
	CU_ASSERT_EQUAL(reads(ON(1, 100, 32, 1, 200, 96)), -ESRCH);
	CU_ASSERT_EQUAL(reads(ON(1, 100, 64, 1, 201, 64)), -ESRCH);
	CU_ASSERT_EQUAL(reads(ON(1, 100, 64, 2, 200, 64)), -ESRCH);
	CU_ASSERT_EQUAL(reads(ON(0, 100, 64, 2, 200, 64)), -ESRCH);
	CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "does not fit what is booked on gpu2"));
	/* On one GPU, amounts tell nothing: they may be a profile's, or not be booked. */
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu3\":{}}}"), 1);
	CU_ASSERT(on[0] == 3 && on[1] == 3);
}

/* The claim's own GPU, pool and profile. */
TEST(claim_has_its_say, "the claim has its say")
{
	struct profile *p = &config.profiles[0];

	host();
	claims(2);
	strcpy(claim.vfs[0].pool, "odd");
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu3\":{\"VF\":2}}}"), 1);
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu4\":{\"VF\":2}}}"), -ESRCH);
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu4\":{\"VF\":1},\"gpu3\":{\"VF\":1}}}"), 1);
	CU_ASSERT(on[0] == 3 && on[1] == 4);
	strcpy(claim.vfs[1].gpu, "gpu6");
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu4\":{\"VF\":1},\"gpu3\":{\"VF\":1}}}"), -ESRCH);
	claims(2);
	*p = (struct profile){.name = "p", .memory_mib = 128, .n_params = 1};
	strcpy(p->params[0].name, "min_ppm");
	strcpy(p->params[0].value, "300000");
	config.n_profiles = 1;
	strcpy(claim.vfs[0].profile, "p");
	wants(1, 100, 64);
	CU_ASSERT_EQUAL(reads(ON(1, 100, 64, 1, 300, 128)), 1);
	CU_ASSERT(on[0] == 5 && on[1] == 2);
}

TEST(no_answers, "no answers")
{
	static const char *const texts[] = {
		"",
		"{",
		"null",
		"[]",
		"7",
		"{}",
		"{\"gpus\":[]}",
		"{\"gpus\":null}",
		"{\"gpus\":{\"gpu0\":[]}}",
		"{\"gpus\":{\"gpu0\":{\"VF\":\"1\"}}}",
		"{\"gpus\":{\"gpu0\":{\"VF\":1.5}}}",
		"{\"gpus\":{\"gpu0\":{\"VF\":-1}}}",
		"{\"gpus\":{\"gpu0\":{\"SHARE\":2147483648}}}",
		"{\"gpus\":{\"gpu0\":{\"SHARE\":99999999999999999999}}}",
		"{\"gpus\":{\"gpu0\":{\"MEMORY_MB\":null}}}",
	};
	size_t i;

	host();
	claims(2);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CU_ASSERT_EQUAL(reads(texts[i]), -EPROTO);
	CU_ASSERT_EQUAL(reads("{\"gpus\":{}}"), 0);
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu9\":{\"VF\":2}}}"), -ESRCH);
	CU_ASSERT_PTR_NOT_NULL(strstr(why.text, "gpu9 is booked, and vgpud has no such GPU"));
	CU_ASSERT_EQUAL(reads("{\"gpus\":{\"gpu0\":{\"VF\":1},\"gpu1\":{\"VF\":1},"
			      "\"gpu2\":{\"VF\":1}}}"),
			-ESRCH);
}

SUITE_MAIN("booked")
