/*
 * command.c: a collected command as the bytes of a file, its provenance, and the hash that results are kept under. The
 * way back is command_read.c.
 */
#include "emit_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef MOEFS_VERSION
#define MOEFS_VERSION "unknown"
#endif

const mf_choice mf_command_format_choices[] = {
	{MF_CMD_JSON, "json", "an object with argv, env, hashes and provenance"},
	{MF_CMD_NUL, "nul", "arguments separated by NUL bytes, as for xargs -0"},
	{MF_CMD_SHELL, "shell", "a shell script"},
	{MF_CMD_SBATCH, "sbatch", "a batch script for Slurm"},
	{0, NULL, NULL},
};

mf_status mf_command_format_of_path(const char *path, mf_command_format *out, mf_err *err)
{
	static const struct {
		const char *suffix;
		mf_command_format format;
	} table[] = {
		{".json", MF_CMD_JSON},
		{".nul", MF_CMD_NUL},
		{".args0", MF_CMD_NUL},
		{".sh", MF_CMD_SHELL},
		{".sbatch", MF_CMD_SBATCH},
	};
	size_t len = strlen(path);

	for (size_t i = 0; i < MF_COUNT(table); i++) {
		size_t n = strlen(table[i].suffix);
		if (len > n && strcmp(path + len - n, table[i].suffix) == 0) {
			*out = table[i].format;
			return MF_OK;
		}
	}
	return mf_fail_at(err, MF_EINPUT, path, 0, NULL,
		"cannot tell the format from the suffix: use .json, .nul, .args0, .sh or .sbatch");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_string(mf_buf *b, const char *text)
{
	mf_buf_putc(b, '"');
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			mf_buf_printf(b, "\\%c", *p);
		else if (*p == '\n')
			mf_buf_puts(b, "\\n");
		else if (*p < 0x20 || *p == 0x7f)
			mf_buf_printf(b, "\\u%04x", *p);
		else
			mf_buf_putc(b, (char)*p);
	}
	mf_buf_putc(b, '"');
}

static void json_key(mf_buf *b, const char *name)
{
	char last = b->len ? b->data[b->len - 1] : '\0';

	if (last != '{' && last != '[')
		mf_buf_putc(b, ',');
	json_string(b, name);
	mf_buf_putc(b, ':');
}

static void json_text(mf_buf *b, const char *name, const char *text)
{
	json_key(b, name);
	json_string(b, text);
}

/* Unknown is null; otherwise enough digits to read the same double back. */
static void json_number(mf_buf *b, const char *name, double value)
{
	json_key(b, name);
	if (isfinite(value))
		mf_buf_printf(b, "%.17g", value);
	else
		mf_buf_puts(b, "null");
}

static void json_bool(mf_buf *b, const char *name, bool value)
{
	json_key(b, name);
	mf_buf_puts(b, value ? "true" : "false");
}

#define NUMBER(o, field) json_number(b, #field, (double)(o)->field)
#define BOOL(o, field) json_bool(b, #field, (o)->field)

/* One digit a layer. */
static void json_digits(mf_buf *b, const char *name, const uint8_t *digits, uint32_t n)
{
	json_key(b, name);
	mf_buf_putc(b, '"');
	for (uint32_t i = 0; i < n && i < MF_MAX_LAYERS; i++)
		mf_buf_putc(b, (char)('0' + digits[i]));
	mf_buf_putc(b, '"');
}

/* Names and paths are left out of the four inputs: what a thing is called does not change what it does. */
static void json_model(mf_buf *b, const mf_model *m)
{
	mf_buf_putc(b, '{');
	NUMBER(m, layers);
	NUMBER(m, hidden);
	NUMBER(m, vocab);
	NUMBER(m, max_positions);
	NUMBER(m, learned_positions);
	json_text(b, "attention", m->attention == MF_MLA ? "mla" : "gqa");
	NUMBER(m, heads);
	NUMBER(m, kv_heads);
	NUMBER(m, head_dim);
	NUMBER(m, v_dim);
	NUMBER(m, q_lora);
	NUMBER(m, kv_lora);
	NUMBER(m, qk_nope);
	NUMBER(m, qk_rope);
	NUMBER(m, ffn);
	NUMBER(m, experts);
	NUMBER(m, topk);
	NUMBER(m, moe_ffn);
	NUMBER(m, shared_ffn);
	NUMBER(m, expert_groups);
	NUMBER(m, expert_group_topk);
	json_digits(b, "moe_layer", m->moe_layer, m->layers);
	json_digits(b, "bare_layer", m->bare_layer, m->layers);
	json_digits(b, "mixer", m->mixer, m->layers);
	NUMBER(m, mamba_heads);
	NUMBER(m, mamba_head_dim);
	NUMBER(m, mamba_state);
	NUMBER(m, mamba_groups);
	NUMBER(m, mamba_conv);
	NUMBER(m, delta_k_heads);
	NUMBER(m, delta_v_heads);
	NUMBER(m, delta_k_dim);
	NUMBER(m, delta_v_dim);
	NUMBER(m, delta_conv);
	NUMBER(m, index_heads);
	NUMBER(m, index_dim);
	NUMBER(m, index_topk);
	NUMBER(m, moe_latent);
	NUMBER(m, mtp_layers);
	NUMBER(m, window);
	NUMBER(m, window_layers);
	NUMBER(m, attention_chunk);
	NUMBER(m, chunk_layers);
	NUMBER(m, quant_block_n);
	NUMBER(m, quant_block_k);
	json_text(b, "quant", mf_choice_name(mf_quant_choices, (int)m->quant));
	BOOL(m, tied_embeddings);
	BOOL(m, other_parts);
	BOOL(m, gated);
	BOOL(m, qkv_bias);
	BOOL(m, linear_bias);
	BOOL(m, mlp_bias);
	BOOL(m, qk_norm);
	BOOL(m, qk_norm_whole);
	BOOL(m, attention_sinks);
	BOOL(m, attention_gate);
	BOOL(m, shared_gate);
	BOOL(m, sigmoid_router);
	BOOL(m, expert_bias);
	BOOL(m, norm_topk);
	BOOL(m, clamped_glu);
	NUMBER(m, routed_scaling);
	NUMBER(m, rope_theta);
	NUMBER(m, rope_scaling_factor);
	BOOL(m, yarn);
	NUMBER(m, yarn_mscale);
	NUMBER(m, yarn_mscale_all_dim);
	NUMBER(m, rope_original_positions);
	NUMBER(m, norm_eps);
	mf_buf_putc(b, '}');
}

static void json_cluster(mf_buf *b, const mf_cluster *c)
{
	mf_buf_putc(b, '{');
	json_text(b, "gpu", c->gpu);
	NUMBER(c, family);
	NUMBER(c, sm);
	NUMBER(c, sm_count);
	json_key(b, "tflops");
	mf_buf_putc(b, '{');
	json_number(b, "bf16", c->tflops[MF_BF16]);
	json_number(b, "fp8", c->tflops[MF_FP8]);
	json_number(b, "fp4", c->tflops[MF_FP4]);
	mf_buf_putc(b, '}');
	NUMBER(c, hbm_bytes);
	NUMBER(c, device_bytes);
	NUMBER(c, hbm_gbps);
	NUMBER(c, l2_bytes);
	NUMBER(c, gpus_per_node);
	NUMBER(c, nodes);
	NUMBER(c, nvlink_domain);
	json_text(b, "fabric", c->fabric == MF_FABRIC_PCIE ? "pcie" : "nvlink");
	NUMBER(c, link_gbps);
	NUMBER(c, link_latency_us);
	NUMBER(c, nic_gbps);
	NUMBER(c, nic_latency_us);
	NUMBER(c, pcie_gbps);
	NUMBER(c, host_memory_gbps);
	NUMBER(c, host_bytes);
	BOOL(c, grace);
	mf_buf_putc(b, '}');
}

static void json_workload(mf_buf *b, const mf_workload *w)
{
	mf_buf_putc(b, '{');
	json_text(b, "phase", mf_choice_name(mf_phase_choices, (int)w->phase));
	NUMBER(w, seq);
	NUMBER(w, global_batch);
	json_text(b, "precision", mf_choice_name(mf_precision_choices, (int)w->precision));
	BOOL(w, mtp);
	NUMBER(w, input_tokens);
	NUMBER(w, output_tokens);
	NUMBER(w, concurrency);
	NUMBER(w, ttft_target_ms);
	NUMBER(w, tpot_target_ms);
	BOOL(w, fp8_kv);
	NUMBER(w, length_spread);
	NUMBER(w, requests);
	NUMBER(w, draft_tokens);
	NUMBER(w, accepted_tokens);
	NUMBER(w, max_violation);
	json_key(b, "load_bins");
	mf_buf_putc(b, '[');
	for (uint32_t i = 0; i < w->n_load_bins && i < MF_MAX_LOAD_BINS; i++)
		mf_buf_printf(b, "%s%.9g", i ? "," : "", (double)w->load_bins[i]);
	mf_buf_puts(b, "]}");
}

static void json_stack(mf_buf *b, const mf_stack *s)
{
	mf_buf_putc(b, '{');
	json_text(b, "toolchain", mf_choice_name(mf_toolchain_choices, (int)s->toolchain));
	json_text(b, "attention", s->attention == MF_ATTN_UNFUSED ? "unfused" : "flash");
	BOOL(s, transformer_engine);
	NUMBER(s, loss);
	NUMBER(s, graphs);
	BOOL(s, grad_reduce_bf16);
	BOOL(s, fused_quant);
	NUMBER(s, optimizer);
	BOOL(s, precision_aware);
	BOOL(s, overlap_grad_reduce);
	BOOL(s, overlap_param_gather);
	BOOL(s, delay_wgrad);
	BOOL(s, shared_expert_overlap);
	BOOL(s, permute_fusion);
	BOOL(s, deepep);
	BOOL(s, hybridep);
	BOOL(s, einops);
	BOOL(s, deep_gemm);
	NUMBER(s, attention_dropout);
	NUMBER(s, hidden_dropout);
	NUMBER(s, vocab_multiple);
	NUMBER(s, optimizer_instances);
	NUMBER(s, offload_activations);
	BOOL(s, separate_wgrad);
	BOOL(s, sequential_experts);
	BOOL(s, fp8_params);
	BOOL(s, mtp_repeated);
	json_text(b, "engine", mf_choice_name(mf_engine_choices, (int)s->engine));
	json_text(b, "runner_default", s->runner_default);
	NUMBER(s, mem_fraction);
	mf_buf_putc(b, '}');
}

static void json_inputs(mf_buf *b, const mf_plan *p, const mf_inputs *in)
{
	char text[MF_PLAN_TEXT_MAX];

	mf_plan_format(p, in->intern, text);
	json_text(b, "plan", text);
	json_key(b, "model");
	json_model(b, in->model);
	json_key(b, "cluster");
	json_cluster(b, in->cluster);
	json_key(b, "workload");
	json_workload(b, in->workload);
	json_key(b, "stack");
	json_stack(b, in->stack);
}

mf_status mf_plan_sha256(const mf_plan *p, const mf_inputs *in, char hex[65])
{
	mf_buf b = MF_BUF_INIT;
	mf_status st = MF_ENOMEM;

	hex[0] = '\0';
	mf_buf_putc(&b, '{');
	json_inputs(&b, p, in);
	mf_buf_putc(&b, '}');
	if (!b.failed)
		st = mf_sha256_hex(b.data, b.len, hex);
	mf_buf_dispose(&b);
	return st;
}

mf_status mf_provenance_write(const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_buf *out, mf_err *err)
{
	char hex[65];
	mf_buf reason = MF_BUF_INIT;
	const mf_rule *rule = mf_rule_get(a->sink.rule);
	mf_status st;

	mf_buf_putc(out, '{');
	json_text(out, "moefs", MOEFS_VERSION);
	json_text(out, "model_name", in->model->name);
	json_text(out, "cluster_name", in->cluster->name);
	json_text(out, "workload_name", in->workload->name);
	json_text(out, "stack_name", in->stack->name);
	json_inputs(out, p, in);
	if ((st = mf_plan_sha256(p, in, hex)) < 0)
		goto done;
	json_text(out, "plan_sha256", hex);
	if ((st = mf_argv_sha256(a, hex)) < 0)
		goto done;
	json_text(out, "argv_sha256", hex);
	json_text(out, "verdict", a->sink.rule == MF_RULE_NONE ? "buildable" : "rejected");
	if (a->sink.rule != MF_RULE_NONE) {
		mf_sink_reason(&a->sink, &reason);
		json_text(out, "rule", rule->id);
		json_text(out, "stage", rule->stage);
		json_text(out, "reason", mf_buf_text(&reason));
	}
	mf_buf_putc(out, '}');
	st = out->failed ? MF_ENOMEM : MF_OK;
done:
	mf_buf_dispose(&reason);
	return st < 0 ? mf_fail(err, st, "cannot write provenance: out of memory") : MF_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static mf_status write_json(const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_buf *out, mf_err *err)
{
	char hex[65];
	mf_status st;

	mf_buf_puts(out, "{\"argv\":[");
	for (size_t i = 0; i < a->n; i++) {
		if (i)
			mf_buf_putc(out, ',');
		json_string(out, a->args[i]);
	}
	mf_buf_puts(out, "],\"env\":{");
	for (size_t i = 0; i < a->n_env; i++) {
		const char *equals = strchr(a->env[i], '=');
		char name[128];
		snprintf(name, sizeof(name), "%.*s", (int)(equals - a->env[i]), a->env[i]);
		json_text(out, name, equals + 1);
	}
	mf_buf_putc(out, '}');
	if ((st = mf_argv_sha256(a, hex)) < 0)
		return mf_fail(err, st, "out of memory");
	json_text(out, "argv_sha256", hex);
	mf_buf_puts(out, ",\"provenance\":");
	if ((st = mf_provenance_write(a, in, p, out, err)) < 0)
		return st;
	mf_buf_puts(out, "}\n");
	return MF_OK;
}

/*
 * `export NAME=value` lines, then the command, one flag a line. With `head` the rendezvous on this very machine becomes
 * one on the job's first node, which only the running job can name.
 */
static void write_body(const mf_argv *a, const char *prefix, bool head, mf_buf *out)
{
	for (size_t i = 0; i < a->n_env; i++) {
		const char *equals = strchr(a->env[i], '=');
		mf_buf_puts(out, "export ");
		mf_buf_add(out, a->env[i], (size_t)(equals - a->env[i]) + 1);
		mf_buf_shell_quote(out, equals + 1);
		mf_buf_putc(out, '\n');
	}
	mf_buf_putc(out, '\n');
	mf_buf_puts(out, prefix);
	for (size_t i = 0; i < a->n; i++) {
		if (i)
			mf_buf_puts(out, strncmp(a->args[i], "--", 2) == 0 ? " \\\n  " : " ");
		const char *colon = strchr(a->args[i], ':');
		if (head && colon && i &&
			(strcmp(a->args[i - 1], "--rdzv-endpoint") == 0 ||
				strcmp(a->args[i - 1], "--dist-init-addr") == 0))
			mf_buf_printf(out, "\"$head_node%s\"", colon);
		else
			mf_buf_shell_quote(out, a->args[i]);
	}
	mf_buf_putc(out, '\n');
}

/* A directive ends at its line's end: such a value has no way to be quoted. */
static mf_status directive(mf_buf *out, const char *option, const char *value, mf_err *err)
{
	if (!value[0])
		return MF_OK;
	if (strpbrk(value, " \t\n\r\"'"))
		return mf_fail(err, MF_EINPUT, "site: --%s cannot hold blanks or quotes in a batch script", option);
	mf_buf_printf(out, "#SBATCH --%s=%s\n", option, value);
	return MF_OK;
}

static mf_status write_sbatch(const mf_argv *a, const mf_inputs *in, mf_buf *out, mf_err *err)
{
	const mf_site *site = in->site;
	mf_buf prefix = MF_BUF_INIT;
	mf_status st;

	mf_buf_printf(out,
		"#!/bin/bash\n#SBATCH --job-name=moefs\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n"
		"#SBATCH --gpus-per-node=%u\n#SBATCH --exclusive\n",
		in->cluster->nodes, in->cluster->gpus_per_node);
	if ((st = directive(out, "partition", site->partition, err)) < 0 ||
		(st = directive(out, "account", site->account, err)) < 0)
		return st;
	/* Without -f a node list such as n[1-4] could match a file. */
	mf_buf_puts(out, "set -euf\n\n");
	bool head = in->cluster->nodes > 1 && (!site->master_addr[0] || strcmp(site->master_addr, "127.0.0.1") == 0 ||
						      strcmp(site->master_addr, "localhost") == 0);
	if (head)
		mf_buf_puts(out, "export head_node=\"$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\"\n");
	mf_buf_puts(&prefix, "srun ");
	if (site->container[0]) {
		mf_buf_puts(&prefix, "--container-image=");
		mf_buf_shell_quote(&prefix, site->container);
		mf_buf_putc(&prefix, ' ');
	}
	/* SGLang wants its node's number, which each task knows; the last of two --node-rank counts. */
	if (in->cluster->nodes > 1 && in->workload->phase == MF_SERVE)
		mf_buf_puts(&prefix, "sh -c 'exec \"$@\" --node-rank \"$SLURM_NODEID\"' sh ");
	write_body(a, mf_buf_text(&prefix), head, out);
	mf_buf_dispose(&prefix);
	return MF_OK;
}

mf_status mf_command_write(
	const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_command_format f, mf_buf *out, mf_err *err)
{
	mf_status st = MF_OK;

	if (a->failed)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	switch (f) {
	case MF_CMD_JSON: st = write_json(a, in, p, out, err); break;
	case MF_CMD_NUL:
		for (size_t i = 0; i < a->n; i++)
			mf_buf_add(out, a->args[i], strlen(a->args[i]) + 1);
		break;
	case MF_CMD_SHELL:
		mf_buf_puts(out, "#!/bin/sh\nset -eu\n\n");
		write_body(a, "exec ", false, out);
		break;
	case MF_CMD_SBATCH: st = write_sbatch(a, in, out, err); break;
	}
	if (st >= 0 && out->failed)
		st = mf_fail(err, MF_ENOMEM, "out of memory");
	return st;
}

mf_status mf_command_save(
	const char *path, const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_command_format f, mf_err *err)
{
	mf_buf command = MF_BUF_INIT, provenance = MF_BUF_INIT, beside = MF_BUF_INIT;
	unsigned mode = f == MF_CMD_SHELL || f == MF_CMD_SBATCH ? 0755 : 0644;
	mf_status st = mf_command_write(a, in, p, f, &command, err);

	if (st == MF_OK)
		st = mf_provenance_write(a, in, p, &provenance, err);
	mf_buf_printf(&beside, "%s.provenance.json", path);
	if (st == MF_OK)
		st = mf_file_write(mf_buf_text(&beside), provenance.data, provenance.len, 0644, err);
	if (st == MF_OK && (st = mf_file_write(path, command.data, command.len, mode, err)) < 0)
		remove(mf_buf_text(&beside));
	mf_buf_dispose(&command);
	mf_buf_dispose(&provenance);
	mf_buf_dispose(&beside);
	return st;
}
