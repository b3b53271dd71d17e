/* The plan's text form, its derived degrees, stages, checks, and the interned texts. */
#include "plan.h"
#include "plan_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static mf_intern *names;

static void setup(void)
{
	names = mf_intern_new();
}
static void teardown(void)
{
	mf_intern_free(names);
}
TestSuite(plan, .init = setup, .fini = teardown);

static mf_plan parsed(const char *text, mf_phase phase)
{
	mf_plan p;
	mf_err err = {0};

	cr_assert_eq(mf_plan_parse(&p, text, phase, names, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

static const char *canonical(const char *text, mf_phase phase)
{
	static char out[MF_PLAN_TEXT_MAX];
	mf_plan p = parsed(text, phase);

	mf_plan_format(&p, names, out);
	return out;
}

static void refused(const char *text, mf_phase phase, const char *part)
{
	mf_plan p;
	mf_err err = {0};

	cr_expect_eq(mf_plan_parse(&p, text, phase, names, &err), MF_EINPUT, "\"%s\" was accepted", text);
	cr_expect(strstr(err.msg, part), "\"%s\": message \"%s\" lacks \"%s\"", text, err.msg, part);
}

Test(plan, canonical_texts_print_as_written)
{
	static const char *const train[] = {
		"tp1/pp1/ep8/1f1b+ov",
		"tp1/pp1/ep8/dualpipe+ov",
		"tp1/pp2/ep4/1f1b",
		"tp2/cp2/pp4/v2/ep8/etp1/interleaved+ov/mb2/zero1_offload/rc:selective/r32",
		"tp1/pp1/ep8/1f1b/fsdp",
		"tp1/pp1/ep8/1f1b/fsdp/z1",
		"tp1/pp1/ep8/1f1b/z0",
		"tp1/pp1/ep8/1f1b/rc:full",
		"tp1/pp1/ep8/1f1b/rc:full2",
		"tp1/pp1/ep8/1f1b/rc:moe_act,layernorm",
		"tp1/pp2/ep4/1f1b/first13/last14",
		"tp1/pp2/ep4/1f1b/lay:13-14",
		"tp1/pp4/ep4/1f1b/lay:7x3-6/map:eplb-1",
		"tp1/pp1/ep64/1f1b+ov/disp:deepep/nl4/ch2/sm20",
		"tp1/pp1/ep8/1f1b/pl:comm_first/k:gc-64x128x64-w8-s3",
		"tp1/pp1/ep8/1f1b/k:128x128x32-w4-s4",
	};
	static const char *const serve[] = {
		"tp8/pp1/ep1",
		"tp1/pp1/ep8/a2a:deepep/run:deep_gemm/dm:low_latency/tbo/r32",
		"tp4/cp2/pp1/ep4/mdp2/rep2",
		"tp8/pp1/ep8/g:off/ck8192",
		"tp8/pp1/ep8/map:hot",
	};

	for (size_t i = 0; i < MF_COUNT(train); i++)
		cr_expect_str_eq(canonical(train[i], MF_TRAIN), train[i]);
	for (size_t i = 0; i < MF_COUNT(serve); i++)
		cr_expect_str_eq(canonical(serve[i], MF_SERVE), serve[i]);
}

Test(plan, any_order_is_read_and_defaults_are_left_out)
{
	cr_expect_str_eq(canonical("1f1b+ov/ep8", MF_TRAIN), "tp1/pp1/ep8/1f1b+ov");
	cr_expect_str_eq(canonical("z3/mb1/fsdp/disp:alltoall/rc:none/cp1/ep8", MF_TRAIN), "tp1/pp1/ep8/1f1b/fsdp");
	cr_expect_str_eq(canonical("rc:core_attn/zero1/comm:stream", MF_TRAIN), "tp1/pp1/ep1/1f1b/rc:selective");
	cr_expect_str_eq(canonical("tp1/pp2/ep128/interleaved+ov", MF_TRAIN), "tp1/pp2/v2/ep128/interleaved+ov");
	cr_expect_str_eq(canonical("tp8", MF_SERVE), "tp8/pp1/ep1");
	cr_expect_str_eq(canonical("tp2/pp1/ep1/1f1b", MF_SERVE), "tp2/pp1/ep1");
	cr_expect_str_eq(canonical("ep8/1f1b+ov", MF_SERVE), "tp1/pp1/ep8/tbo");
}

Test(plan, bad_texts_name_the_column_and_what_was_expected)
{
	refused("", MF_TRAIN, "column 1: empty segment; expected one of tp cp pp");
	refused("tp1//ep8", MF_TRAIN, "column 5");
	refused("tp1/", MF_TRAIN, "column 5");
	refused("tp0", MF_TRAIN, "column 3");
	refused("tp-1", MF_TRAIN, "tp takes a whole number from 1 to 65535");
	refused("tp+1", MF_TRAIN, "tp takes");
	refused("tp1/ep65536", MF_TRAIN, "column 7");
	refused("tp1/ep99999999999999999999", MF_TRAIN, "column 7");
	refused("tp01", MF_TRAIN, "column 3");
	refused("tp", MF_TRAIN, "tp takes");
	refused("tp1x", MF_TRAIN, "tp takes");
	refused("z4", MF_TRAIN, "z takes a whole number from 0 to 3");
	refused("tp1/pp1/tp1", MF_TRAIN, "tp is given twice");
	refused("ov1f1b", MF_TRAIN, "expected one of");
	refused("ep8/dualpip+ov", MF_TRAIN, "nearest: dualpipe");
	refused("ep8/1f1b+o", MF_TRAIN, "column 9: \"1f1b+o\": only +ov");
	refused("fsdp+ov", MF_TRAIN, "only +ov");
	refused("zero1/fsdp", MF_TRAIN, "sharding is given twice");
	refused("tbo/1f1b+ov", MF_SERVE, "tbo is given twice");
	refused("rc:attn", MF_TRAIN, "modules of core_attn|moe_act");
	refused("rc:moe_act,moe_act", MF_TRAIN, "twice");
	refused("rc:full0", MF_TRAIN, "rc:full takes");
	refused("rc:", MF_TRAIN, "rc takes");
	refused("disp:flex", MF_TRAIN, "disp takes alltoall|allgather|deepep|hybridep");
	refused("mb2", MF_SERVE, "mb is no dimension of a serve plan");
	refused("tp8/rep2", MF_TRAIN, "rep is no dimension of a train plan");
	refused("ck300", MF_SERVE, "a multiple of 256");
	refused("v2", MF_TRAIN, "needs the interleaved schedule");
	refused("v1/interleaved", MF_TRAIN, "interleaved needs v2");
	refused("dualpipe", MF_SERVE, "no dualpipe schedule");
	refused("comm:device", MF_TRAIN, "comm:device is refused");
	refused("first3", MF_TRAIN, "pp2 or more");
	refused("pp2/first3/lay:13-14", MF_TRAIN, "leave first and last out");
	refused("lay:13-", MF_TRAIN, "lay takes");
	refused("lay:13-14x0", MF_TRAIN, "lay takes");
	refused("map:a b", MF_TRAIN, "column 6");
	refused("map:a$", MF_TRAIN, "map takes");
	refused("k:gc-64x128x65-w8-s3", MF_TRAIN, "k takes");
	refused("k:gc-64x128x64-w8-s6", MF_TRAIN, "column 20");
	refused("tp1 ", MF_TRAIN, "column 4");
	refused("tp1/\xc3\xa9p8", MF_TRAIN, "column 5");
}

Test(plan, layouts_and_maps_need_names)
{
	mf_plan p;
	mf_err err;

	cr_expect_eq(mf_plan_parse(&p, "pp2/lay:13-14", MF_TRAIN, NULL, &err), MF_EINPUT);
	cr_expect_eq(mf_plan_parse(&p, "map:x", MF_SERVE, NULL, &err), MF_EINPUT);
}

/* A plan with every field drawn at random, then mended until it is a plan. */
static mf_plan draw(uint64_t *seed, mf_phase phase)
{
	static const char *const layouts[] = {"13-14", "7x3-6", "1-0-256"};
	mf_plan p = mf_plan_default(phase);

	for (int i = 0; i < MF_DIM_COUNT; i++) {
		const mf_dim_store *s = &mf_dim_stores[i];
		uint64_t roll = mf_random_u64(seed);

		if (!(mf_plan_dims[i].phases & 1u << phase) || roll % 3 == 0)
			continue;
		roll = mf_random_u64(seed) % 4 ? mf_random_u64(seed) % 16 : mf_random_u64(seed);
		if (s->form == MF_DIM_LAYOUT)
			mf_dim_set(&p, i, mf_intern_id(names, layouts[roll % 3]));
		else if (s->form == MF_DIM_MAP)
			mf_dim_set(&p, i, mf_intern_id(names, roll % 2 ? "one" : "two"));
		else if (s->form == MF_DIM_KERNEL)
			mf_dim_set(&p, i,
				mf_kernel_pack(&(mf_kernel){roll & 1, roll >> 1 & 1, (uint8_t)(4 + roll % 5),
					(uint8_t)(4 + roll / 5 % 5), (uint8_t)(4 + roll / 25 % 5),
					(uint8_t)(1 + roll % 4), (uint8_t)(1 + roll % 5)}));
		else
			mf_dim_set(&p, i, (uint16_t)(s->min + roll % (s->max - s->min + 1u)));
	}
	p.comm_kind = MF_COMM_STREAM;
	if (phase == MF_SERVE)
		p.schedule = MF_1F1B;
	if (p.schedule != MF_INTERLEAVED)
		p.vpp = 1;
	else if (p.vpp < 2)
		p.vpp = 2;
	if (p.pp < 2 || p.stage_layout)
		p.first_layers = p.last_layers = 0;
	if (p.recompute == MF_RECOMPUTE_SELECTIVE)
		p.recompute_modules = (uint8_t)(1 + mf_random_u64(seed) % 127);
	if (p.recompute == MF_RECOMPUTE_FULL)
		p.recompute_layers = (uint16_t)(1 + mf_random_u64(seed) % MF_MAX_LAYERS);
	return p;
}

Test(plan, parse_is_the_inverse_of_format)
{
	uint64_t seed = 1;

	for (int i = 0; i < 200000; i++) {
		mf_plan p = draw(&seed, i % 2 ? MF_TRAIN : MF_SERVE), back;
		char text[MF_PLAN_TEXT_MAX], again[MF_PLAN_TEXT_MAX];
		mf_err err = {0};
		size_t len;

		cr_assert_eq(mf_plan_validate(&p, &err), MF_OK, "%s", err.msg);
		len = mf_plan_format(&p, names, text);
		cr_assert_eq(len, strlen(text));
		cr_assert_eq(mf_plan_parse(&back, text, p.phase, names, &err), MF_OK, "%s: %s", text, err.msg);
		cr_assert(memcmp(&p, &back, sizeof(p)) == 0, "%s", text);
		cr_assert_eq(mf_plan_hash(&p), mf_plan_hash(&back));
		mf_plan_format(&back, names, again);
		cr_assert_str_eq(text, again);
	}
}

Test(plan, the_longest_text_fits)
{
	mf_plan p = mf_plan_default(MF_TRAIN);
	char text[MF_PLAN_TEXT_MAX], lay[MF_LAYOUT_TEXT_MAX + 1], map[MF_MAP_TEXT_MAX + 1];
	size_t longest = 0;

	for (size_t i = 0; i < MF_LAYOUT_TEXT_MAX; i++)
		lay[i] = i % 2 ? '-' : '1';
	lay[MF_LAYOUT_TEXT_MAX] = '\0';
	memset(map, 'm', MF_MAP_TEXT_MAX);
	map[MF_MAP_TEXT_MAX] = '\0';
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		if (mf_plan_dims[i].phases & 1u << MF_TRAIN && mf_dim_stores[i].form == MF_DIM_NUMBER)
			mf_dim_set(&p, i, mf_dim_stores[i].max);
	}
	p.schedule = MF_INTERLEAVED;
	p.overlap = 1;
	p.sharding = MF_ZERO1_OFFLOAD;
	p.recompute = MF_RECOMPUTE_SELECTIVE;
	p.recompute_modules = 127;
	p.dispatcher = MF_DISP_ALLGATHER;
	p.placement = MF_PLACE_COMPUTE_FIRST;
	p.first_layers = p.last_layers = 0;
	p.stage_layout = mf_intern_id(names, lay);
	p.expert_map = mf_intern_id(names, map);
	p.kernel = mf_kernel_pack(&(mf_kernel){true, true, 8, 8, 8, 4, 5});
	cr_assert_eq(mf_plan_validate(&p, NULL), MF_OK);
	longest = mf_plan_format(&p, names, text);
	cr_expect_lt(longest, MF_PLAN_TEXT_MAX - 1);
	cr_expect_eq(mf_plan_parse(&p, text, MF_TRAIN, names, NULL), MF_OK);
}

Test(plan, values_that_are_no_plan_are_refused)
{
	mf_plan p = mf_plan_default(MF_TRAIN);
	mf_err err;

	p.comm_kind = MF_COMM_DEVICE;
	cr_expect_eq(mf_plan_validate(&p, &err), MF_EINPUT);
	p = mf_plan_default(MF_TRAIN);
	p.tp = 0;
	cr_expect_eq(mf_plan_validate(&p, &err), MF_EINPUT);
	p = mf_plan_default(MF_SERVE);
	p.micro_batch = 2;
	cr_expect_eq(mf_plan_validate(&p, &err), MF_EINPUT);
	p = mf_plan_default(MF_TRAIN);
	p.kernel = 1;
	cr_expect_eq(mf_plan_validate(&p, &err), MF_EINPUT);
	p = mf_plan_default(MF_TRAIN);
	p.recompute = MF_RECOMPUTE_SELECTIVE;
	cr_expect_eq(mf_plan_validate(&p, &err), MF_EINPUT);
	cr_expect_eq(mf_plan_validate(&(mf_plan){0}, &err), MF_EINPUT);
}

Test(plan, degrees_are_what_the_world_leaves)
{
	mf_plan p = parsed("tp2/cp2/pp4/ep8/etp1", MF_TRAIN), s = parsed("tp4/ep4/mdp2/rep2", MF_SERVE);

	cr_expect_eq(mf_plan_dp(&p, 64), 4);
	cr_expect_eq(mf_plan_etp(&p, 64), 1);
	cr_expect_eq(mf_plan_edp(&p, 64), 2);
	cr_expect_eq(mf_plan_dp(&p, 24), 0);
	p.etp = 0;
	cr_expect_eq(mf_plan_etp(&p, 64), 2);
	cr_expect_eq(mf_plan_edp(&p, 64), 1);
	cr_expect_eq(mf_plan_dp(&s, 16), 2);
	cr_expect_eq(mf_plan_etp(&s, 16), 1); /* 8 ranks of a replica over ep4 x mdp2 */
	cr_expect_eq(mf_plan_etp(&s, 8), 0);  /* 4 ranks do not divide into 8 */
}

Test(plan, stages_hold_every_layer)
{
	mf_model m = {.layers = 27};
	uint16_t counts[64];
	bool even;
	mf_plan p = parsed("pp2", MF_TRAIN);

	cr_assert_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 2);
	cr_expect(counts[0] == 14 && counts[1] == 13 && !even);
	p = parsed("pp2/first13/last14", MF_TRAIN);
	cr_assert_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 2);
	cr_expect(counts[0] == 13 && counts[1] == 14 && even);
	p = parsed("pp3/first7", MF_TRAIN);
	cr_assert_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 3);
	cr_expect(counts[0] == 7 && counts[1] == 10 && counts[2] == 10 && even);
	p = parsed("pp3/v2/interleaved/first4/last5", MF_TRAIN);
	cr_assert_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 6);
	cr_expect(counts[0] == 2 && counts[3] == 2 && counts[1] == 9 && counts[4] == 9 && !even);
	cr_expect(counts[2] == 3 && counts[5] == 2);
	p = parsed("pp4/lay:7x3-6", MF_TRAIN);
	cr_assert_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 4);
	cr_expect(counts[2] == 7 && counts[3] == 6 && even);
	p = parsed("pp4/lay:7x3-7", MF_TRAIN);
	cr_expect_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 0);
	p = parsed("pp2/first20/last20", MF_TRAIN);
	cr_expect_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 0);
	p = parsed("pp64/v2/interleaved", MF_TRAIN);
	cr_expect_eq(mf_plan_stages(&p, &m, names, counts, 64, &even), 0);
}

Test(plan, kernels_pack_into_sixteen_bits_and_never_zero)
{
	for (unsigned v = 0; v < 4 * 125 * 4 * 5; v++) {
		mf_kernel k = {v & 1, v >> 1 & 1, (uint8_t)(4 + v / 4 % 5), (uint8_t)(4 + v / 20 % 5),
				  (uint8_t)(4 + v / 100 % 5), (uint8_t)(1 + v / 500 % 4), (uint8_t)(1 + v / 2000)},
			  back;
		uint16_t packed = mf_kernel_pack(&k);

		cr_assert_neq(packed, 0);
		cr_assert(mf_kernel_unpack(&back, packed));
		cr_assert(memcmp(&k, &back, sizeof(k)) == 0);
	}
	cr_expect_not(mf_kernel_unpack(&(mf_kernel){0}, 0));
}

Test(plan, dimensions_are_described)
{
	int n = 0;

	for (const mf_plan_dim *d = mf_plan_dims; d->name; d++, n++) {
		cr_expect(d->segment && d->title && d->help && d->help[0] && d->phases, "%s", d->name);
		for (const mf_choice *c = d->choices; c && c->name; c++)
			cr_expect(c->help && c->help[0], "%s %s", d->name, c->name);
	}
	cr_expect_eq(n, MF_DIM_COUNT);
}

Test(plan, interned_texts_keep_their_number)
{
	char text[16];

	for (int i = 1; i <= 5000; i++) {
		snprintf(text, sizeof(text), "%d", i);
		cr_assert_eq(mf_intern_id(names, text), i);
	}
	cr_expect_eq(mf_intern_id(names, "77"), 77);
	cr_expect_str_eq(mf_intern_text(names, 4999), "4999");
	cr_expect_null(mf_intern_text(names, 0));
	cr_expect_null(mf_intern_text(names, 5001));
}

static void intern_some(void *payload, size_t item, unsigned worker)
{
	uint16_t *ids = payload;
	char text[16];

	(void)worker;
	snprintf(text, sizeof(text), "%zu", item % 100);
	ids[item] = mf_intern_id(names, text);
	cr_assert_str_eq(mf_intern_text(names, ids[item]), text);
}

Test(plan, interning_is_safe_from_many_threads)
{
	enum { ITEMS = 2000 };
	uint16_t ids[ITEMS];
	mf_pool *pool;

	cr_assert_eq(mf_pool_new(&pool, 4, NULL), MF_OK);
	mf_pool_run(pool, ITEMS, intern_some, ids);
	mf_pool_free(pool);
	for (size_t i = 100; i < ITEMS; i++)
		cr_assert_eq(ids[i], ids[i % 100]);
	cr_expect_null(mf_intern_text(names, 101));
}
