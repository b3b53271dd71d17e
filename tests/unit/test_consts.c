/* Constants: factory values, overlays, their domain and what is refused. */
#include "cost.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mf_cluster cluster(const char *name)
{
	mf_cluster c;
	mf_err err = {0};

	cr_assert(eq(int, mf_cluster_load(&c, name, &err), MF_OK), "%s: %s", name, err.msg);
	return c;
}

/* Applies overlay text through a file. */
static mf_status apply(mf_consts *k, const char *text, mf_err *err)
{
	char path[] = "/tmp/moefs-overlay-XXXXXX.yaml";
	int fd = mkstemps(path, 5);
	mf_status st;

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, (int)write(fd, text, strlen(text)), (int)strlen(text)));
	close(fd);
	st = mf_consts_overlay(k, path, err);
	unlink(path);
	return st;
}

Test(consts, every_constant_has_a_name_a_unit_and_a_source)
{
	for (int i = 0; i < MF_CONST_COUNT; i++) {
		cr_expect(mf_const_infos[i].name[0] && mf_const_infos[i].unit[0] && mf_const_infos[i].source[0],
			"constant %d", i);
		for (int j = 0; j < i; j++)
			cr_expect(strcmp(mf_const_infos[i].name, mf_const_infos[j].name) != 0, "%s twice",
				mf_const_infos[i].name);
	}
}

Test(consts, factory_follows_family_and_board)
{
	mf_cluster hopper = cluster("8xh800"), b200 = cluster("8xb200"), gb300 = cluster("gb300-nvl72");
	mf_consts k;

	mf_consts_factory(&k, &hopper);
	cr_expect(eq(dbl, k.v[MF_C_GEMM_BF16], 0.838));
	cr_expect(isnan(k.v[MF_C_TAX_TRAIN]) && isnan(k.v[MF_C_TAX_SERVE]) && isnan(k.v[MF_C_OFFLOAD_OVERLAP]));
	cr_expect(k.overlay[0] == 0);
	mf_consts_factory(&k, &b200);
	cr_expect(eq(dbl, k.v[MF_C_SUSTAIN], 0.67));
	mf_consts_factory(&k, &gb300);
	cr_expect(eq(dbl, k.v[MF_C_SUSTAIN], 0.87));
	cr_expect(eq(dbl, k.v[MF_C_ATT_ULTRA], 1.15));
	cr_expect(not(mf_consts_extrapolated(&k, &hopper, MF_FP4, 1e9, 1)), "a factory constant has no domain");
}

Test(consts, built_in_overlays)
{
	mf_cluster h800 = cluster("8xh800"), ada = cluster("2xrtx4090"), h100 = cluster("8xh100");
	mf_consts k, factory;
	mf_err err = {0};

	mf_consts_factory(&factory, &h800);
	k = factory;
	cr_assert(eq(int, mf_consts_overlay(&k, "h800", &err), MF_OK), "%s", err.msg);
	cr_expect(eq(dbl, k.v[MF_C_TAX_SERVE], 1.236));
	cr_expect(eq(dbl, k.v[MF_C_TAX_TRAIN], -0.077));
	cr_expect(eq(dbl, k.v[MF_C_OFFLOAD_OVERLAP], 0.027086));
	cr_expect(eq(int, k.from_overlay[MF_C_TAX_TRAIN], 1));
	cr_expect(eq(int, k.from_overlay[MF_C_GEMM_BF16], 0));
	cr_expect(eq(dbl, k.v[MF_C_GEMM_BF16], factory.v[MF_C_GEMM_BF16]));
	cr_expect(not(mf_consts_extrapolated(&k, &h800, MF_BF16, 64, 8)));
	cr_expect(not(mf_consts_extrapolated(&k, &h800, MF_BF16, NAN, 8)));
	cr_expect(mf_consts_extrapolated(&k, &h800, MF_BF16, 63, 8));
	cr_expect(mf_consts_extrapolated(&k, &h800, MF_BF16, 8193, 8));
	cr_expect(mf_consts_extrapolated(&k, &h800, MF_FP8, 64, 8));
	cr_expect(mf_consts_extrapolated(&k, &h100, MF_BF16, 64, 8));

	mf_consts_factory(&k, &ada);
	cr_assert(eq(int, mf_consts_overlay(&k, "rtx4090", &err), MF_OK), "%s", err.msg);
	cr_expect(eq(dbl, k.v[MF_C_TAX_TRAIN], 0.266));
	cr_expect(isnan(k.v[MF_C_OFFLOAD_OVERLAP]));
	cr_expect(not(mf_consts_extrapolated(&k, &ada, MF_BF16, 64, 2)),
		"names differ by vendor, brand and blanks alone");
}

Test(consts, an_empty_domain_is_any)
{
	mf_cluster c = cluster("8xh100");
	mf_consts k;
	mf_err err = {0};

	mf_consts_factory(&k, &c);
	cr_assert(eq(int, apply(&k, "values: {hbm_stream_frac: 0.8}\n", &err), MF_OK), "%s", err.msg);
	cr_expect(eq(dbl, k.v[MF_C_HBM], 0.8));
	cr_expect(not(mf_consts_extrapolated(&k, &c, MF_FP4, 1, 4096)));
	cr_assert(eq(int, apply(&k, "domain: {world_range: [2, 8]}\nvalues: {}\n", &err), MF_OK), "%s", err.msg);
	cr_expect(mf_consts_extrapolated(&k, &c, MF_BF16, 1, 16));
}

Test(consts, what_is_wrong_is_named_and_changes_nothing)
{
	static const struct {
		const char *text;
		int line;
		const char *field, *says;
	} bad[] = {
		{"values:\n  hbm_stream_frac: 0.8\n  kernel_patch_overhead_frac_tran: 1\n", 3,
			"kernel_patch_overhead_frac_tran", "kernel_patch_overhead_frac_train"},
		{"values: {hbm_stream_frac: fast}\n", 1, "hbm_stream_frac", "number"},
		{"values: {hbm_stream_frac: -1}\n", 1, "hbm_stream_frac", "small"},
		{"values: {hbm_stream_frac: .nan}\n", 1, "hbm_stream_frac", "number"},
		{"values: {kernel_patch_overhead_frac_train: -1}\n", 1, "kernel_patch_overhead_frac_train", "small"},
		{"values: 3\n", 1, "values", "map"},
		{"domain: {}\n", 1, "values", "map"},
		{"domain: [a]\nvalues: {}\n", 1, "domain", "map"},
		{"domain:\n  dtypes: [bf16, fp64]\nvalues: {}\n", 2, "dtypes", "fp64"},
		{"domain:\n  m_range: [64]\nvalues: {}\n", 2, "m_range", "two"},
		{"domain:\n  m_range: [64, 8]\nvalues: {}\n", 2, "m_range", "least"},
		{"domian: {}\nvalues: {}\n", 1, "domian", "domain"},
		{"- 1\n", 1, "", "map"},
	};
	mf_cluster c = cluster("8xh100");

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		mf_consts k, before;
		mf_err err = {0};

		mf_consts_factory(&k, &c);
		before = k;
		cr_expect(eq(int, apply(&k, bad[i].text, &err), MF_EINPUT), "%s", bad[i].text);
		cr_expect(eq(int, err.line, bad[i].line), "%s: line %d", bad[i].text, err.line);
		cr_expect(eq(str, err.field, (char *)bad[i].field), "%s", bad[i].text);
		cr_expect(strstr(err.msg, bad[i].says) != NULL, "%s: %s", bad[i].text, err.msg);
		cr_expect(eq(int, memcmp(&k, &before, sizeof(k)), 0));
	}
}

Test(consts, an_overlay_that_is_not_there)
{
	mf_cluster c = cluster("8xh100");
	mf_consts k;
	mf_err err = {0};

	mf_consts_factory(&k, &c);
	cr_expect(eq(int, mf_consts_overlay(&k, "h80", &err), MF_EINPUT));
	cr_expect(strstr(err.msg, "h800") != NULL, "%s", err.msg);
	cr_expect(lt(int, mf_consts_overlay(&k, "/no/such/overlay.yaml", &err), 0));
}

/* ---- curves of an overlay ---- */

#define BMM_VALUES                                                                                                     \
	"    values: {serve_mla_bmm_t0_us: 3, serve_mla_bmm_roof_frac: 0.4, serve_mla_bmm_hbm_frac: 2, "               \
	"serve_mla_bmm_l2_frac: 0.3, serve_mla_bmm_warm_speed: 2}\n"

Test(consts, a_curve_has_its_own_domain)
{
	mf_cluster c = cluster("8xh200");
	mf_consts k;
	mf_err err = {0};

	mf_consts_factory(&k, &c);
	cr_expect(not(mf_curve_outside(&k, MF_CURVE_BMM, (double[4]){1e9, 1e9, 0, 0})), "factory");
	cr_assert(eq(int,
			  apply(&k,
				  "curves:\n  mla_bmm:\n" BMM_VALUES "    domain: {tokens: [1, 256]}\n    source: a "
				  "table\n    rows: 300\n    median: 0.05\n",
				  &err),
			  MF_OK),
		"%s", err.msg);
	cr_expect(eq(dbl, k.v[MF_C_S_BMM], 3));
	cr_expect(eq(u32, k.curves[MF_CURVE_BMM].rows, 300));
	cr_expect(not(mf_curve_outside(&k, MF_CURVE_BMM, (double[4]){256, 1e9, 0, 0})), "no range is any");
	cr_expect(mf_curve_outside(&k, MF_CURVE_BMM, (double[4]){257, 8, 0, 0}));
	cr_expect(mf_curve_outside(&k, MF_CURVE_BMM, (double[4]){0.5, 8, 0, 0}));
	cr_expect(not(mf_curve_outside(&k, MF_CURVE_AG, (double[4]){9, 9, 9, 9})), "another curve");
}

Test(consts, an_unsupported_curve_keeps_the_factory_constants_and_is_always_outside)
{
	mf_cluster c = cluster("8xl40s");
	mf_consts k, factory;
	mf_err err = {0};

	mf_consts_factory(&factory, &c);
	k = factory;
	cr_assert(eq(int, apply(&k, "curves:\n  pcie_gather:\n    unsupported: median error 0.9\n", &err), MF_OK));
	cr_expect(eq(dbl, k.v[MF_C_S_PAG], factory.v[MF_C_S_PAG]));
	cr_expect(mf_curve_outside(&k, MF_CURVE_PAG, (double[4]){2, 1024, 0, 0}));
}

Test(consts, bad_curves_are_refused_by_line_and_field)
{
	static const struct {
		const char *text, *message;
		int line;
	} bad[] = {
		{"curves: 3\n", "expected a map of curves", 1},
		{"curves:\n  mla_bnm:\n" BMM_VALUES, "did you mean mla_bmm", 2},
		{"curves:\n  mla_bmm: 4\n", "expected a map", 2},
		{"curves:\n  mla_bmm:\n    values: {serve_mla_bmm_t0_us: 3}\n", "given together", 3},
		{"curves:\n  mla_bmm:\n    values: {serve_sampler_us: 3}\n", "is no constant of the curve mla_bmm", 3},
		{"curves:\n  mla_bmm:\n    rows: 3\n", "either values or unsupported", 2},
		{"curves:\n  mla_bmm:\n" BMM_VALUES "    unsupported: no\n", "either values or unsupported", 2},
		{"curves:\n  mla_bmm:\n" BMM_VALUES "    domain: {ranks: [1, 2]}\n", "ranks", 4},
		{"curves:\n  mla_bmm:\n" BMM_VALUES "    domain: {tokens: [2, 1]}\n", "[least, most]", 4},
	};

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		mf_cluster c = cluster("8xh200");
		mf_consts k, before;
		mf_err err = {0};

		mf_consts_factory(&k, &c);
		before = k;
		cr_expect(eq(int, apply(&k, bad[i].text, &err), MF_EINPUT), "%zu", i);
		cr_expect(strstr(err.msg, bad[i].message) || strstr(err.field, bad[i].message), "%zu: %s: %s", i,
			err.field, err.msg);
		cr_expect(eq(int, err.line, bad[i].line), "%zu", i);
		cr_expect(eq(int, memcmp(&k, &before, sizeof k), 0), "a refused overlay changes nothing");
	}
}

Test(consts, the_shipped_overlays_are_read)
{
	for (const char *const *name = mf_builtin_names("calibrated"); *name; name++) {
		mf_cluster c = cluster("8xh200");
		mf_consts k;
		mf_err err = {0};

		mf_consts_factory(&k, &c);
		cr_expect(eq(int, mf_consts_overlay(&k, *name, &err), MF_OK), "%s: %s %s", *name, err.field, err.msg);
		cr_expect(k.domain.gpu[0] && k.domain.source[0], "%s does not say where it holds", *name);
	}
}

Test(consts, the_overlay_of_a_gpu_goes_by_its_name)
{
	cr_expect_str_eq(mf_consts_overlay_of("H200"), "h200");
	cr_expect_str_eq(mf_consts_overlay_of("NVIDIA GeForce RTX 4090"), "rtx4090");
	cr_expect_null(mf_consts_overlay_of("H2000"));
	cr_expect_null(mf_consts_overlay_of(""));
}
