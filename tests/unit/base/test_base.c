/* SPDX-License-Identifier: MIT */
/* Small pure parts: partitions, error texts, numbers, histograms, queues, capability chains,
 * layouts. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/histogram.h"
#include "config/metrics_address.h"
#include "metrics/metrics_format.h"
#include "engine/spsc.h"
#include "engine/trail.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/gpuiov.h"
#include "vgpu/number.h"
#include "vgpu/options.h"
#include "vgpu/partition.h"
#include "vgpu/words.h"

#define MIB UINT64_C(1048576)

TEST(partition_equal, "partition: equal parts by default")
{
	struct vgpu_partition_request r = {.total = 512 * MIB,
					   .granule = 16 * MIB,
					   .pf_reserve = 16 * MIB,
					   .save_area = MIB,
					   .n_vfs = 4};
	struct vgpu_partition p;
	uint32_t i;

	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, NULL), 0);
	CU_ASSERT_EQUAL(p.pf.size, 32 * MIB);
	CU_ASSERT_EQUAL(p.save_area.offset, 31 * MIB);
	for (i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(p.vfs[i].size, 112 * MIB);
	CU_ASSERT_EQUAL(p.free, 32 * MIB);
}

TEST(partition_refusals, "partition: impossible requests are refused")
{
	struct vgpu_partition_request r = {.total = 64 * MIB,
					   .granule = 16 * MIB,
					   .pf_reserve = 16 * MIB,
					   .n_vfs = 4};
	struct vgpu_partition p = {.free = 7};
	struct vgpu_error err;

	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -ENOSPC); /* room for three */
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "MiB"));
	r.n_vfs = 0;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -EINVAL);
	r.n_vfs = 1;
	r.sizes[0] = UINT64_MAX - 5;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -ENOSPC);
	r.sizes[0] = 0;
	r.pf_reserve = UINT64_MAX;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -ENOSPC);
	CU_ASSERT_EQUAL(p.free, 7); /* a refusal leaves the plan unchanged */
}

/* With host memory, VFs have more memory together than the GPU has. Each VF that is not pinned has
 * a place in host memory, its home. */
TEST(partition_swapped, "partition: host memory, homes and pinned VFs")
{
	struct vgpu_partition_request r = {.total = 512 * MIB,
					   .granule = 16 * MIB,
					   .pf_reserve = 16 * MIB,
					   .save_area = MIB,
					   .n_vfs = 5,
					   .sizes = {[3] = 96 * MIB},
					   .host = 960 * MIB,
					   .pinned = 1u << 3};
	struct vgpu_partition p;
	struct vgpu_error err;
	uint64_t home = 512 * MIB;
	uint32_t i;

	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), 0);
	/* A pinned VF is placed first. */
	CU_ASSERT(p.vfs[3].offset == 32 * MIB && p.vfs[3].size == 96 * MIB);
	CU_ASSERT_EQUAL(p.homes[3].size, 0);
	for (i = 0; i < 5; i++) {
		if (i == 3)
			continue;
		CU_ASSERT(p.vfs[i].size == 240 * MIB && p.homes[i].size == 240 * MIB);
		CU_ASSERT_EQUAL(p.homes[i].offset, home);
		home += 240 * MIB;
		CU_ASSERT_EQUAL(p.vfs[i].offset, i == 0 ? 128 * MIB : p.homes[i].offset);
	}
	CU_ASSERT_EQUAL(p.free, 144 * MIB);
	/* profiles: a VF's home has the size of its profile */
	r.placement = VGPU_PLACE_PROFILE;
	r.sizes[0] = r.sizes[1] = 100 * MIB;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), 0);
	CU_ASSERT(p.vfs[0].size == 240 * MIB && p.vfs[3].size == 240 * MIB);
	CU_ASSERT(p.vfs[1].size == 240 * MIB && p.vfs[1].offset >= r.total);
	for (i = 0; i < 5; i++)
		CU_ASSERT(p.homes[i].offset + p.homes[i].size <= r.total + r.host &&
			  (i == 3 || p.homes[i].size == p.vfs[i].size));
	r.placement = VGPU_PLACE_BEST_FIT;
	/* VF 0 could never be swapped in beside the pinned VF */
	r.sizes[0] = 400 * MIB;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "never be swapped in"));
	/* more than host memory holds */
	r.sizes[0] = r.sizes[1] = r.sizes[2] = r.sizes[4] = 256 * MIB;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "host memory"));
	/* a pinned VF without a size */
	r.sizes[3] = 0;
	CU_ASSERT_EQUAL(vgpu_partition_plan(&r, &p, &err), -EINVAL);
}

/* Partitions are disjoint, aligned and within the total, each at least as large as requested; with
 * the free memory they add up to the total. */
static bool is_partition(const struct vgpu_partition_request *r, const struct vgpu_partition *p)
{
	uint64_t total = r->total / r->granule * r->granule, sum = p->pf.size + p->free;
	uint64_t span = total - p->pf.size, all;
	uint32_t i, j;

	for (i = 0; i < r->n_vfs; i++) {
		const struct vgpu_extent *e = &p->vfs[i];

		sum += e->size;
		if (r->sizes[i] == VGPU_SIZE_NONE ? e->size > 0
						  : e->size == 0 || e->size < r->sizes[i])
			return false;
		if (e->size == 0)
			continue;
		if (e->offset % r->granule || e->size % r->granule || e->offset < p->pf.size ||
		    e->offset + e->size > total)
			return false;
		for (all = e->size; 2 * all <= span; all *= 2)
			;
		if (r->placement == VGPU_PLACE_PROFILE &&
		    ((e->offset - p->pf.size) % e->size || 32 * (span - all) > span))
			return false;
		for (j = 0; j < i; j++)
			if (e->offset < p->vfs[j].offset + p->vfs[j].size &&
			    p->vfs[j].offset < e->offset + e->size)
				return false;
		/* With best fit, partitions follow one another without a gap. */
		if (i > 0 && r->placement == VGPU_PLACE_BEST_FIT && p->vfs[i - 1].size &&
		    e->offset != p->vfs[i - 1].offset + p->vfs[i - 1].size)
			return false;
	}
	return sum == total;
}

/* Random requests: each is refused or gives a correct plan. */
TEST(partition_properties, "partition: 20 000 random requests give correct plans")
{
	struct vgpu_partition_request r;
	struct vgpu_partition p;
	uint32_t round, i, planned[2] = {0};

	srand(1);
	for (round = 0; round < 20000; round++) {
		memset(&r, 0, sizeof(r));
		r.granule = (uint64_t)1 << (rand() % 5 + 20);
		r.total = (uint64_t)(rand() % 4096) * MIB;
		r.pf_reserve = (uint64_t)(rand() % 64) * MIB;
		r.save_area = (uint64_t)(rand() % 32) * (256 << 10);
		r.n_vfs = (uint32_t)(rand() % 33);
		r.placement = rand() % 3 ? VGPU_PLACE_BEST_FIT : VGPU_PLACE_PROFILE;
		for (i = 0; i < VGPU_GPU_MAX_VFS; i++)
			r.sizes[i] = rand() % 2	  ? 0
				     : rand() % 8 ? (uint64_t)(rand() % 300) * MIB
						  : VGPU_SIZE_NONE;
		if (vgpu_partition_plan(&r, &p, NULL) < 0)
			continue;
		planned[r.placement]++;
		CU_ASSERT(p.save_area.offset + p.save_area.size <= p.pf.size);
		CU_ASSERT(is_partition(&r, &p));
	}
	CU_ASSERT(planned[VGPU_PLACE_BEST_FIT] > 1000 && planned[VGPU_PLACE_PROFILE] > 500);
}

TEST(errors, "error texts and their prefixes")
{
	struct vgpu_error err;

	CU_ASSERT_EQUAL(vgpu_error_set(&err, -EIO, "disk %d", 3), -EIO);
	CU_ASSERT_EQUAL(vgpu_error_prefix(&err, -EIO, "gpu %s", "a"), -EIO);
	CU_ASSERT_STRING_EQUAL(err.text, "gpu a: disk 3");
	CU_ASSERT_EQUAL(vgpu_error_set(NULL, -EIO, "x"), -EIO);
}

TEST(histogram_is_monotone, "histogram: buckets are monotone and narrow")
{
	vgpu_nsec t;
	uint32_t b, last = 0;

	for (t = 0; t < 1000000; t++) {
		b = histogram_bucket(t);
		CU_ASSERT(b >= last && histogram_value(b) <= t);
		/* no bucket is wider than a sixteenth of its value */
		CU_ASSERT(t < 32 || (t - histogram_value(b)) * 16 <= t);
		last = b;
	}
	CU_ASSERT_EQUAL(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

TEST(histogram_quantiles, "histogram: quantiles")
{
	static struct histogram h;
	vgpu_nsec t;

	CU_ASSERT_EQUAL(histogram_quantile(&h, 500), 0);
	for (t = 1; t <= 10000; t++)
		histogram_add(&h, t * 100);
	CU_ASSERT(histogram_quantile(&h, 500) >= 500000 && histogram_quantile(&h, 500) < 540000);
	CU_ASSERT(histogram_quantile(&h, 999) >= 999000 && histogram_quantile(&h, 999) <= 1000000);
	CU_ASSERT_EQUAL(histogram_quantile(&h, 1000), 1000000);
}

#define CROSSINGS 200000u

static void *produce(void *arg)
{
	uint32_t i;

	for (i = 0; i < CROSSINGS;)
		if (spsc_push(arg, &i))
			i++;
	return NULL;
}

TEST(queue_keeps_order, "queue: keeps its order between two threads")
{
	struct spsc q = {0};
	pthread_t thread;
	uint32_t expected = 0, got, one = 1;

	CU_ASSERT(spsc_init(&q, 8, sizeof(uint32_t)));
	CU_ASSERT_FALSE(spsc_pop(&q, &got));
	while (spsc_push(&q, &one))
		expected++;
	CU_ASSERT_EQUAL(expected, 8); /* the queue holds 8, and refuses more */
	while (spsc_pop(&q, &got))
		;
	pthread_create(&thread, NULL, produce, &q);
	for (expected = 0; expected < CROSSINGS;) {
		if (!spsc_pop(&q, &got))
			continue;
		if (got != expected)
			break;
		expected++;
	}
	CU_ASSERT_EQUAL(expected, CROSSINGS);
	pthread_join(thread, NULL);
	spsc_finish(&q);
}

#define WRITTEN 200000u

static void *write_trail(void *arg)
{
	uint64_t i;

	for (i = 0; i < WRITTEN; i++)
		trail_add(arg, &(struct vgpu_record){.t = i, .a = i, .b = i});
	return NULL;
}

/* A reader gets the record that it asks for, whole, or learns that it was overwritten. */
TEST(trail_reads_whole_records, "trail: a reader gets whole records")
{
	struct vgpu_record got;
	uint64_t next = 0, n = 0, missed = 0, begin;
	pthread_t writer;
	struct trail t;

	CU_ASSERT_FATAL(trail_init(&t, 8));
	CU_ASSERT(trail_begin(&t) == 0 && trail_end(&t) == 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&writer, NULL, write_trail, &t), 0);
	while (next < WRITTEN) {
		if (next == trail_end(&t))
			continue;
		if (trail_read(&t, next, &got)) {
			n += got.t == next && got.a == next && got.b == next;
			next++;
		} else {
			begin = trail_begin(&t);
			missed += begin - next;
			next = begin;
		}
	}
	CU_ASSERT_EQUAL(n + missed, WRITTEN);
	pthread_join(writer, NULL);
	CU_ASSERT_EQUAL(trail_begin(&t), WRITTEN - 7);
	CU_ASSERT(trail_read(&t, WRITTEN - 1, &got) && got.t == WRITTEN - 1);
	CU_ASSERT(trail_read(&t, WRITTEN - 7, &got) && got.t == WRITTEN - 7);
	CU_ASSERT_FALSE(trail_read(&t, WRITTEN - 8, &got));
	trail_finish(&t);
}

static void put32(uint8_t *config, uint32_t at, uint32_t value)
{
	memcpy(config + at, &value, 4);
}

TEST(capability_walk, "capabilities: a chain with two vendor capabilities")
{
	static uint8_t config[4096];
	uint16_t at = 0;

	put32(config, 0x100, 0x000b | 1 << 16 | 0x330u << 20);
	put32(config, 0x330, 0x0010 | 1 << 16 | 0x400u << 20);
	put32(config, 0x400, 0x000b | 1 << 16);
	CU_ASSERT(vfio_find_ext_cap(config, 0x0010, &at) && at == 0x330);
	at = 0;
	CU_ASSERT(vfio_find_ext_cap(config, 0x000b, &at) && at == 0x100);
	CU_ASSERT(vfio_find_ext_cap(config, 0x000b, &at) && at == 0x400);
	CU_ASSERT_FALSE(vfio_find_ext_cap(config, 0x000b, &at));
}

/* Loops, pointers to the end of the space, random bytes: the walk ends and stays inside the
 * space. */
TEST(capability_walk_hostile, "capabilities: the walk through a hostile chain ends")
{
	static uint8_t config[4096];
	uint16_t at;
	uint32_t round, i;

	put32(config, 0x100, 0x0001 | 0x100u << 20);
	at = 0;
	CU_ASSERT_FALSE(vfio_find_ext_cap(config, 0x000b, &at));
	put32(config, 0x100, 0x0001 | 0xffcu << 20);
	at = 0;
	CU_ASSERT_FALSE(vfio_find_ext_cap(config, 0x000b, &at));
	srand(2);
	for (round = 0; round < 2000; round++) {
		for (i = 0; i < sizeof(config); i++)
			config[i] = (uint8_t)rand();
		at = 0;
		for (i = 0; i < 2000 && vfio_find_ext_cap(config, 0x000b, &at); i++)
			CU_ASSERT(at >= 0x100 && at <= 4088);
	}
}

/* The tables agree with the published numbers. */
TEST(layouts, "layouts: agree with the published numbers")
{
	const struct gpuiov_layout *n = gpuiov_layout_by_name("navi");
	const struct gpuiov_layout *t = gpuiov_layout_by_name("tonga");

	CU_ASSERT_PTR_NULL(gpuiov_layout_by_name("nov"));
	CU_ASSERT_EQUAL(n->at[GPUIOV_CONTEXT].offset, 0x24);
	CU_ASSERT_EQUAL(n->at[GPUIOV_FB_TABLE].offset, 0x38);
	CU_ASSERT_EQUAL(n->at[GPUIOV_CMD].space, GPUIOV_BLOCK);
	CU_ASSERT_EQUAL(n->at[GPUIOV_CMD].offset, 4);
	CU_ASSERT_EQUAL(n->at[GPUIOV_GATE_DOORBELL].offset, 4 * 0xe45);
	CU_ASSERT_EQUAL(n->at[GPUIOV_MBOX_CONTROL].offset, 4 * 0xe5e);
	CU_ASSERT_EQUAL(n->fb_size_bias, 0);
	CU_ASSERT_EQUAL(t->at[GPUIOV_CMD].offset, 0x0c);
	CU_ASSERT_EQUAL(t->at[GPUIOV_CMD_STATUS].offset, 0x10);
	CU_ASSERT_EQUAL(t->at[GPUIOV_CONTEXT].offset, 0x20);
	CU_ASSERT_EQUAL(t->at[GPUIOV_FB_TABLE].offset, 0x2c);
	CU_ASSERT_EQUAL(t->at[GPUIOV_MBOX_INDEX].offset, 4 * 0x14c6);
	CU_ASSERT_EQUAL(t->at[GPUIOV_VF_RESET_REQ].offset, 4 * 0xfb4c);
	CU_ASSERT_EQUAL(t->fb_size_bias, 1);
	CU_ASSERT_EQUAL(t->at[GPUIOV_INTR_ENABLE].space, GPUIOV_NOWHERE);
}

TEST(numbers, "numbers: signed")
{
	static const char *const none[] = {"", "-", "x", "1x", "1 ", "0x", "0x10", "1.0", NULL};
	int64_t value = 7;
	size_t i;

	for (i = 0; none[i]; i++)
		CU_ASSERT_EQUAL(vgpu_parse_int(none[i], &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_int("9223372036854775808", &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_between("4", 5, 9, &value), -ERANGE);
	CU_ASSERT_EQUAL(vgpu_parse_between("10", 5, 9, &value), -ERANGE);
	CU_ASSERT_EQUAL(vgpu_parse_between("five", 5, 9, &value), -EINVAL);
	CU_ASSERT_EQUAL(value, 7); /* a refusal leaves the value unchanged */
	CU_ASSERT(vgpu_parse_int("-9223372036854775808", &value) == 0 && value == INT64_MIN);
	CU_ASSERT(vgpu_parse_between("-5", -5, 9, &value) == 0 && value == -5);
	CU_ASSERT(vgpu_parse_between("9", -5, 9, &value) == 0 && value == 9);
}

TEST(numbers_without_a_sign, "numbers: unsigned")
{
	static const char *const none[] = {"", "-1", "+1", " 1", "0x", "0xg", "1x", "x1", NULL};
	uint64_t value = 7;
	size_t i;

	for (i = 0; none[i]; i++)
		CU_ASSERT_EQUAL(vgpu_parse_unsigned(none[i], UINT64_MAX, &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_unsigned("18446744073709551616", UINT64_MAX, &value), -ERANGE);
	CU_ASSERT_EQUAL(vgpu_parse_unsigned("11", 10, &value), -ERANGE);
	CU_ASSERT_EQUAL(value, 7);
	CU_ASSERT(vgpu_parse_unsigned("18446744073709551615", UINT64_MAX, &value) == 0 &&
		  value == UINT64_MAX);
	CU_ASSERT(vgpu_parse_unsigned("010", 10, &value) == 0 && value == 10);
	CU_ASSERT(vgpu_parse_unsigned("0xfF", 255, &value) == 0 && value == 255);
}

TEST(numbers_with_a_fraction, "numbers: fractions")
{
	double value = 7;

	CU_ASSERT_EQUAL(vgpu_parse_real("", 0, 1, &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_real("0.5s", 0, 1, &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_real("1.5", 0, 1, &value), -ERANGE);
	CU_ASSERT_EQUAL(vgpu_parse_real("nan", 0, 1, &value), -ERANGE);
	CU_ASSERT(vgpu_parse_real("0.25", 0, 1, &value) == 0 && value == 0.25);
}

TEST(numbers_of_bytes, "numbers: sizes and hexadecimal bytes")
{
	static const char *const none[] = {"", "M", "-1M", "1k", "1MB", "1 M", "1.5G", NULL};
	uint64_t value = 7, most = UINT64_C(1) << 40;
	uint8_t byte = 7;
	size_t i;

	for (i = 0; none[i]; i++)
		CU_ASSERT_EQUAL(vgpu_parse_size(none[i], most, &value), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_size("1025G", most, &value), -ERANGE);
	CU_ASSERT_EQUAL(vgpu_parse_size("17179869184G", most, &value), -ERANGE); /* 2^64 bytes */
	CU_ASSERT_EQUAL(vgpu_parse_size("17179869184G", UINT64_MAX, &value), -ERANGE);
	CU_ASSERT_EQUAL(value, 7);
	CU_ASSERT(vgpu_parse_size("1024G", most, &value) == 0 && value == most);
	CU_ASSERT(vgpu_parse_size("3M", most, &value) == 0 && value == 3 * MIB);
	CU_ASSERT(vgpu_parse_size("4096", most, &value) == 0 && value == 4096);
	CU_ASSERT_EQUAL(vgpu_parse_hex_byte("f", &byte), -EINVAL);
	CU_ASSERT_EQUAL(vgpu_parse_hex_byte("-1", &byte), -EINVAL);
	CU_ASSERT(vgpu_parse_hex_byte("fAce", &byte) == 0 && byte == 0xfa);
}

TEST(histogram_bounds, "histogram: bounds that are powers of two are exact")
{
	static struct histogram h;
	vgpu_nsec t;

	for (t = 0; t < 5000; t++)
		histogram_add(&h, t);
	CU_ASSERT_EQUAL(histogram_below(&h, 10), 1024);
	CU_ASSERT_EQUAL(histogram_below(&h, 12), 4096);
	CU_ASSERT_EQUAL(histogram_below(&h, 32), 5000);
	CU_ASSERT_EQUAL(h.sum, 5000 * 4999 / 2);
}

TEST(metrics_formats, "metrics: the format that a client prefers")
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} clients[] = {
		{NULL, METRICS_TEXT},
		{"", METRICS_TEXT},
		{"*/*", METRICS_TEXT},
		{"text/html,application/xhtml+xml,*/*;q=0.8", METRICS_TEXT},
		{"application/openmetrics-text", METRICS_OPEN},
		{" Application/OpenMetrics-Text ; version=1.0.0 ; charset=utf-8", METRICS_OPEN},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		 "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 METRICS_OPEN},
		{"application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
		 METRICS_TEXT},
		{"application/openmetrics-text;version=0.0.4", METRICS_TEXT},
		{"application/openmetrics-text;q=0.3,text/plain;version=0.0.4;q=0.5", METRICS_TEXT},
		{"text/plain;q=0.5,application/openmetrics-text;q=0.5", METRICS_OPEN},
		{"application/openmetrics-text;q=0", METRICS_TEXT},
		{"application/openmetrics-text;q=2", METRICS_TEXT},
		{"application/openmetrics-text;q=0.5,text/*;q=0.9", METRICS_TEXT},
		{"text/plain;q=0.1,*/*;q=0.9,application/openmetrics-text;q=0.5", METRICS_OPEN},
		{",;=,q=;,", METRICS_TEXT},
	};
	size_t i;

	for (i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
		CU_ASSERT_EQUAL(metrics_choose(clients[i].accept), clients[i].format);
}

TEST(metrics_addresses, "metrics: addresses")
{
	static const char *const wrong[] = {"",	       "127.0.0.1",	"127.0.0.1:0",
					    "host:80", "1.2.3:80",	"127.0.0.1:70000",
					    "::1:80",  "[::1]80",	"[]:80",
					    ":80",     "[127.0.0.1]:80"};
	struct sockaddr_storage a;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CU_ASSERT_EQUAL(metrics_address_parse(wrong[i], &a), 0);
	CU_ASSERT(metrics_address_parse("localhost:9475", &a) && metrics_address_is_local(&a));
	CU_ASSERT(metrics_address_parse("127.0.0.9:9475", &a) && metrics_address_is_local(&a));
	CU_ASSERT(metrics_address_parse("[::1]:9475", &a) && metrics_address_is_local(&a));
	CU_ASSERT(metrics_address_parse("0.0.0.0:9475", &a) && !metrics_address_is_local(&a));
	CU_ASSERT(metrics_address_parse("[::]:9475", &a) && !metrics_address_is_local(&a));
	CU_ASSERT(metrics_address_parse("[fe80::1]:9475", &a) && !metrics_address_is_local(&a));
}

/* Bytes on both sides stay as they are. */
TEST(words_copy_memory, "words: a copy as by memcpy(), wherever it begins and ends")
{
	enum { MOST = 300, MARGIN = 64 };
	uint8_t from[MOST + 2 * MARGIN], to[MOST + 2 * MARGIN], wanted[MOST + 2 * MARGIN];
	size_t bytes, i, x, y;

	for (i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (bytes = 0; bytes <= MOST; bytes++) {
		for (i = 0; i < 17 * 17; i++) {
			x = MARGIN + i % 17;
			y = MARGIN + i / 17;
			memset(to, 0xee, sizeof(to));
			memset(wanted, 0xee, sizeof(wanted));
			memcpy(wanted + y, from + x, bytes);
			vgpu_copy_words(to + y, from + x, bytes);
			if (memcmp(to, wanted, sizeof(to)) != 0)
				break;
		}
		CU_ASSERT_EQUAL(i, 17 * 17);
	}
}

struct wanted {
	const char *text;
	uint64_t whole, times, size;
	uint32_t small;
	bool flag;
};

#define WANT(name, kind, member, ...)                                                              \
	VGPU_OPTION(name, "N", "as in a table", kind, offsetof(struct wanted, member), __VA_ARGS__)
static const struct vgpu_option options[] = {
	WANT("text", TEXT, text),
	WANT("flag", FLAG, flag),
	WANT("whole", WHOLE, whole),
	WANT("small", WHOLE32, small, .min = 2, .max = 9),
	WANT("times", TIMES, times, .min = 1, .max = 5, .scale = 1e3),
	WANT("size", SIZE, size),
	{.name = NULL},
};

static void no_help(FILE *to)
{
	fputs("help", to);
}

static int read_words(const char *first, const char *second, struct wanted *w)
{
	const char *words[] = {"test", first, second, "rest", NULL};
	char *argv[5];

	memcpy(argv, words, sizeof(argv));
	optind = 0; /* glibc: begin anew */
	return vgpu_options_read("test", options, no_help, 4, argv, w);
}

/* Each kind takes its values to the edge, and nothing beyond; what is wrong changes nothing. */
TEST(options_are_read, "options: each kind to its edges")
{
	static const char *const wrong[] = {
		"--whole=-1",	"--whole=18446744073709551616",
		"--small=1",	"--small=10",
		"--small=2x",	"--times=0.9",
		"--times=6",	"--size=1025G",
		"--size=large", "--flag=1",
		"--nothing",
	};
	struct wanted w = {.text = NULL}, none = {.text = NULL};
	unsigned i;

	CU_ASSERT_EQUAL(read_words("--text=a b", "--flag", &w), 0);
	CU_ASSERT(w.flag && strcmp(w.text, "a b") == 0 && optind == 3);
	CU_ASSERT_EQUAL(read_words("--whole=18446744073709551615", "--small=9", &w), 0);
	CU_ASSERT(w.whole == UINT64_MAX && w.small == 9);
	CU_ASSERT_EQUAL(read_words("--times=1.5", "--size=2G", &w), 0);
	CU_ASSERT(w.times == 1500 && w.size == UINT64_C(2) << 30);
	CU_ASSERT_EQUAL(read_words("--small=2", "--help", &w), 1);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		w = none;
		CU_ASSERT_EQUAL(read_words(wrong[i], "rest", &w), -EINVAL);
		CU_ASSERT_EQUAL(memcmp(&w, &none, sizeof(w)), 0);
	}
}

TEST(options_are_listed, "options: the help is wrapped")
{
	static const struct vgpu_option listed[] = {
		{"a", "X", "short", VGPU_OPTION_TEXT, 0, 0, 0, 0, NULL},
		{"longer-than-that", "X", "one two three four five six seven eight nine ten eleven",
		 VGPU_OPTION_TEXT, 0, 0, 0, 0, NULL},
		{"hidden", "X", NULL, VGPU_OPTION_TEXT, 0, 0, 0, 0, NULL},
		{.name = NULL},
	};
	char text[512] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	vgpu_options_list(listed, 30, f);
	fclose(f);
	CU_ASSERT_STRING_EQUAL(text, "  --a X                       short\n"
				     "  --longer-than-that X        one two three four five six "
				     "seven eight nine ten\n"
				     "                              eleven\n"
				     "  --help, --version\n");
}

SUITE_MAIN("base")
