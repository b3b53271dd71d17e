/* pair.c: moefs explain --plan P --decode-plan P2, prompts and tokens on pools of their own. */
#include <math.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "cli.h"

static cJSON *pool_json(const char *plan, const mf_cluster *c, const mf_pool *p, double busy, bool prefill)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "plan", plan);
	cJSON_AddStringToObject(o, "cluster", c->name);
	cJSON_AddNumberToObject(o, "gpus", mf_cluster_world(c));
	mf_json_number(o, prefill ? "prompt_tokens_per_s_per_gpu" : "output_tokens_per_s_per_gpu", p->tokens_per_s);
	mf_json_number(o, "pass_ms", p->pass_ms);
	mf_json_number(o, prefill ? "prompt_ms" : "token_ms", p->latency_ms);
	mf_json_number(o, "batch", p->batch);
	if (prefill)
		mf_json_number(o, "transfer_ms", p->transfer_ms);
	mf_json_number(o, "busy", busy);
	cJSON_AddBoolToObject(o, "extrapolated", p->extrapolated);
	return o;
}

static void print_json(const mf_session *s, const mf_cluster *dc, const char *p, const char *d, const mf_pair *x)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToObject(o, "prefill", pool_json(p, &s->cluster, &x->prefill, x->prefill_busy, true));
	cJSON_AddItemToObject(o, "decode", pool_json(d, dc, &x->decode, x->decode_busy, false));
	mf_json_number(o, "requests_per_s", x->requests_per_s);
	mf_json_number(o, "throughput", x->throughput);
	cJSON_AddStringToObject(o, "unit", "output tokens/s/GPU of both pools");
	mf_json_number(o, "ttft_ms", x->ttft_ms);
	mf_json_number(o, "tpot_ms", x->tpot_ms);
	mf_json_number(o, "prefill_gpus_per_decode_gpu", x->balance);
	mf_json_print(o, true);
}

static void print_pool(
	const char *name, const char *plan, const mf_cluster *c, const mf_pool *p, double busy, bool prefill)
{
	printf("%-8s %s on %s\n", name, plan, c->name);
	printf("  %10.1f  %s tokens/s/GPU when busy%s\n", p->tokens_per_s, prefill ? "prompt" : "output",
		p->extrapolated ? ", extrapolated" : "");
	printf("  %10.3f  ms a pass of %.0f %s\n", p->pass_ms, p->batch, prefill ? "prompts" : "requests");
	printf("  %10.3f  ms %s\n", p->latency_ms, prefill ? "a prompt alone" : "a token");
	if (prefill)
		printf("  %10.3f  ms to hand its KV over\n", p->transfer_ms);
	printf("  %9.1f%%  busy\n", 100 * busy);
}

mf_status mf_print_pair(mf_session *s, const mf_plan *p, const mf_args *a, mf_err *err)
{
	mf_cluster dc = s->cluster;
	mf_inputs in = s->in;
	mf_consts consts = s->consts;
	char pt[MF_PLAN_TEXT_MAX], dt[MF_PLAN_TEXT_MAX];
	mf_cost *decode = NULL;
	mf_pair x;
	mf_plan d;
	mf_status st;

	if (s->workload.phase != MF_SERVE)
		return mf_fail(err, MF_EINPUT, "--decode-plan is for serving; use --phase serve");
	if (a->value[OPT_DECODE_CLUSTER]) {
		if ((st = mf_cluster_load(&dc, a->value[OPT_DECODE_CLUSTER], err)) < 0)
			return st;
		mf_consts_factory(&consts, &dc);
		if (a->value[OPT_OVERLAY] && (st = mf_consts_overlay(&consts, a->value[OPT_OVERLAY], err)) < 0)
			return st;
	}
	in.cluster = &dc;
	if ((st = mf_plan_parse(&d, a->value[OPT_DECODE_PLAN], MF_SERVE, s->in.intern, err)) < 0 ||
		(st = mf_cost_new(&decode, &in, &consts, &s->cost_opts, err)) < 0)
		return st;
	if ((st = mf_cost_pair(s->cost, p, decode, &d, &x, err)) == MF_OK) {
		mf_plan_format(p, s->in.intern, pt);
		mf_plan_format(&d, s->in.intern, dt);
		if (a->value[OPT_JSON]) {
			print_json(s, &dc, pt, dt, &x);
		} else {
			printf("%.1f output tokens/s/GPU of both pools  TTFT %.1f ms  TPOT %.2f ms  %.2f "
			       "requests/s\n\n",
				x.throughput, x.ttft_ms, x.tpot_ms, x.requests_per_s);
			print_pool("prefill", pt, &s->cluster, &x.prefill, x.prefill_busy, true);
			print_pool("decode", dt, &dc, &x.decode, x.decode_busy, false);
			printf("\nneither pool waits for the other at %.2f prefill GPUs a decode GPU\n", x.balance);
		}
	}
	mf_cost_free(decode);
	return st;
}
