/* The list scheduler against the known answer of the runtime companion, section 0x09. */
#include <criterion/criterion.h>
#include <string.h>

#include "sim.h"

enum { CONTROL, PACK, COMM, COMPUTE };
enum { ROUTE, PACK0, PACK1, DISPATCH0, DISPATCH1, SHARED, EXPERT0, EXPERT1, COMBINE0, COMBINE1, REDUCE, N };

static const mf_sim_task fixture[N] = {{"route plan", 1, CONTROL, 0, {0}, 0, 0}, {"pack 0", 1, PACK, 1, {ROUTE}, 0, 0},
	{"pack 1", 1, PACK, 1, {ROUTE}, 0, 0}, {"dispatch 0", 3, COMM, 1, {PACK0}, 0, 0},
	{"dispatch 1", 3, COMM, 1, {PACK1}, 0, 0}, {"shared", 5, COMPUTE, 1, {ROUTE}, 0, 0},
	{"expert 0", 4, COMPUTE, 1, {DISPATCH0}, 0, 0}, {"expert 1", 2, COMPUTE, 1, {DISPATCH1}, 0, 0},
	{"combine 0", 2, COMM, 1, {EXPERT0}, 0, 0}, {"combine 1", 2, COMM, 1, {EXPERT1}, 0, 0},
	{"reduce", 1, COMPUTE, 3, {COMBINE0, COMBINE1, SHARED}, 0, 0}};

static double run(mf_sim_task *t)
{
	uint32_t scratch[MF_SIM_SCRATCH(N)];
	double span;

	memcpy(t, fixture, sizeof fixture);
	cr_assert_eq(mf_sim_run(t, N, NULL, scratch, &span), MF_OK);
	return span;
}

Test(sim, known_schedule)
{
	static const double want[N][2] = {
		{0, 1}, {1, 2}, {2, 3}, {2, 5}, {5, 8}, {1, 6}, {6, 10}, {10, 12}, {10, 12}, {12, 14}, {14, 15}};
	mf_sim_task t[N];

	cr_assert_float_eq(run(t), 15, 0);
	cr_assert_float_eq(mf_sim_serial(t, N), 25, 0);
	for (int i = 0; i < N; i++) {
		cr_expect_float_eq(t[i].start, want[i][0], 0, "%s starts at %g", t[i].name, t[i].start);
		cr_expect_float_eq(t[i].end, want[i][1], 0, "%s ends at %g", t[i].name, t[i].end);
	}
	cr_assert_float_eq(mf_sim_concurrent(t, N, 1u << COMPUTE, 1u << COMM), 8, 0);
}

Test(sim, known_buffer_lifetimes)
{
	mf_sim_buffer b[] = {{"send 0", PACK0, DISPATCH0, false, 1, 0, 0}, {"send 1", PACK1, DISPATCH1, false, 1, 0, 0},
		{"receive 0", DISPATCH0, EXPERT0, true, 1, 0, 0}, {"receive 1", DISPATCH1, EXPERT1, true, 1, 0, 0},
		{"expert out 0", EXPERT0, COMBINE0, true, 1, 0, 0}, {"expert out 1", EXPERT1, COMBINE1, true, 1, 0, 0},
		{"shared out", SHARED, REDUCE, true, 1, 0, 0}, {"combined 0", COMBINE0, REDUCE, true, 1, 0, 0},
		{"combined 1", COMBINE1, REDUCE, true, 1, 0, 0}};
	static const double want[][2] = {
		{1, 5}, {2, 8}, {5, 10}, {8, 12}, {10, 12}, {12, 14}, {6, 15}, {12, 15}, {14, 15}};
	mf_sim_task t[N];

	run(t);
	cr_assert_float_eq(mf_sim_buffers(t, b, MF_COUNT(b)), 3, 0);
	for (size_t i = 0; i < MF_COUNT(b); i++) {
		cr_expect_float_eq(b[i].allocated, want[i][0], 0, "%s", b[i].name);
		cr_expect_float_eq(b[i].released, want[i][1], 0, "%s", b[i].name);
	}
}

Test(sim, bad_graphs_are_refused)
{
	mf_sim_task loop[2] = {{"a", 1, 0, 1, {1}, 0, 0}, {"b", 1, 0, 1, {0}, 0, 0}};
	mf_sim_task far[1] = {{"a", 1, 0, 1, {7}, 0, 0}};
	mf_sim_task stream[1] = {{"a", 1, MF_SIM_MAX_STREAMS, 0, {0}, 0, 0}};
	uint32_t scratch[MF_SIM_SCRATCH(2)];
	double span;

	cr_assert_eq(mf_sim_run(loop, 2, NULL, scratch, &span), MF_EBUG);
	cr_assert_eq(mf_sim_run(far, 1, NULL, scratch, &span), MF_EBUG);
	cr_assert_eq(mf_sim_run(stream, 1, NULL, scratch, &span), MF_EBUG);
}

/* Properties that hold for any graph: no overlap on a stream, no start before a predecessor's end, span within bounds. */
Test(sim, random_graphs_keep_the_rules)
{
	uint64_t seed = 7;
	mf_sim_task t[40];
	uint32_t scratch[MF_SIM_SCRATCH(40)];
	double span, longest;

	for (int round = 0; round < 200; round++) {
		memset(t, 0, sizeof t);
		longest = 0;
		for (uint32_t i = 0; i < 40; i++) {
			t[i].name = "t";
			t[i].duration = (double)(mf_random_u64(&seed) % 9);
			t[i].stream = (uint16_t)(mf_random_u64(&seed) % 4);
			for (unsigned k = 0; i && k < mf_random_u64(&seed) % 3; k++)
				t[i].after[t[i].n_after++] = (uint32_t)(mf_random_u64(&seed) % i);
			longest = t[i].duration > longest ? t[i].duration : longest;
		}
		cr_assert_eq(mf_sim_run(t, 40, NULL, scratch, &span), MF_OK);
		cr_assert(span <= mf_sim_serial(t, 40) && span >= longest);
		for (int i = 0; i < 40; i++) {
			for (int k = 0; k < t[i].n_after; k++)
				cr_assert(t[i].start >= t[t[i].after[k]].end);
			for (int k = 0; k < i; k++)
				cr_assert(t[i].stream != t[k].stream || t[i].start >= t[k].end ||
					  t[k].start >= t[i].end || t[i].duration == 0 || t[k].duration == 0);
		}
	}
}

/* A stream in order does not pass over a task that waits; a free one does. */
Test(sim, streams_in_order_wait_for_their_head)
{
	static const mf_sim_task list[] = {
		{"long", 5, 0, 0, {0}, 0, 0}, {"needs long", 1, 1, 1, {0}, 0, 0}, {"free", 2, 1, 0, {0}, 0, 0}};
	const mf_sim_rules in_order = {.in_order = 2};
	uint32_t scratch[MF_SIM_SCRATCH(3)];
	mf_sim_task t[3];
	double span;

	memcpy(t, list, sizeof t);
	cr_assert_eq(mf_sim_run(t, 3, NULL, scratch, &span), MF_OK);
	cr_assert_float_eq(t[2].start, 0, 0);
	cr_assert_float_eq(span, 6, 0);
	memcpy(t, list, sizeof t);
	cr_assert_eq(mf_sim_run(t, 3, &in_order, scratch, &span), MF_OK);
	cr_assert_float_eq(t[2].start, 6, 0);
	cr_assert_float_eq(span, 8, 0);
}

/* Two tasks that slow each other by half: 6 of 4 units are done together at 6, the rest of the longer one runs alone. */
Test(sim, contention_stretches_what_runs_together)
{
	static const double slow[] = {0, 0.5, 0.5, 0};
	const mf_sim_rules rules = {.slow = slow, .n_slow = 2};
	mf_sim_task t[] = {{"a", 4, 0, 0, {0}, 0, 0}, {"b", 10, 1, 0, {0}, 0, 0}, {"c", 3, 2, 0, {0}, 0, 0}};
	uint32_t scratch[MF_SIM_SCRATCH(3)];
	double span;

	cr_assert_eq(mf_sim_run(t, 3, &rules, scratch, &span), MF_OK);
	cr_assert_float_eq(t[0].end, 6, 1e-12);
	cr_assert_float_eq(t[1].end, 12, 1e-12);
	cr_assert_float_eq(t[2].end, 3, 1e-12, "a stream outside the table takes no part");
}
