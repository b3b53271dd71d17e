/* workload.c: workloads, stacks and sites from YAML. What a file leaves out takes the default of its phase or toolchain. */
#include "plan_internal.h"

#include <math.h>
#include <string.h>

#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if ((st = (call)) < 0)                                                                                 \
			return st;                                                                                     \
	} while (0)

/* ---- workload ----------------------------------------------------------------------------------------------------- */

static mf_status read_micro_batches(mf_workload *w, const mf_doc *doc, const mf_node *root, mf_err *err)
{
	const mf_node *list = mf_node_get(root, "micro_batches");

	if (!list)
		return MF_OK;
	if (list->kind != MF_LIST || list->n_children == 0 || list->n_children > MF_MAX_MICRO_BATCHES)
		return mf_fail_at(err, MF_EINPUT, doc->name, list->line, "micro_batches", "a list of 1 to %d sizes",
			MF_MAX_MICRO_BATCHES);
	w->n_micro_batches = 0;
	for (const mf_node *n = list->first; n; n = n->next) {
		if (n->kind != MF_NUMBER || !(n->number >= 1 && n->number <= 65535) || n->number != floor(n->number))
			return mf_fail_at(err, MF_EINPUT, doc->name, n->line, "micro_batches",
				"\"%.40s\" is no whole number from 1 to 65535", n->text);
		w->micro_batches[w->n_micro_batches++] = (uint32_t)n->number;
	}
	return MF_OK;
}

/* Token counts or shares of each expert; stored as shares that add up to 1. */
static mf_status read_load(mf_workload *w, const mf_doc *doc, const mf_node *list, mf_err *err)
{
	double sum = 0;
	uint32_t n = 0;

	if (list->kind != MF_LIST || list->n_children == 0 || list->n_children > MF_MAX_LOAD_BINS)
		return mf_fail_at(err, MF_EINPUT, doc->name, list->line, "load",
			"a list of 1 to %d loads, one an expert", MF_MAX_LOAD_BINS);
	for (const mf_node *item = list->first; item; item = item->next) {
		if (item->kind != MF_NUMBER || !(item->number >= 0 && item->number <= 1e15))
			return mf_fail_at(err, MF_EINPUT, doc->name, item->line, "load",
				"\"%.40s\" is no load of 0 or more", item->text);
		sum += item->number;
	}
	if (!(sum > 0))
		return mf_fail_at(err, MF_EINPUT, doc->name, list->line, "load", "no expert has any load");
	for (const mf_node *item = list->first; item; item = item->next)
		w->load_bins[n++] = (float)(item->number / sum);
	w->n_load_bins = n;
	return MF_OK;
}

/* `load` is the histogram itself or the path of a file that is one. */
static mf_status read_histogram(mf_workload *w, const mf_doc *doc, const mf_node *root, mf_err *err)
{
	const mf_node *load = mf_node_get(root, "load"), *list;
	mf_doc file;
	mf_status st;

	if (!load)
		return MF_OK;
	if (load->kind != MF_STRING)
		return read_load(w, doc, load, err);
	TRY(mf_doc_read_file(&file, load->text, err));
	list = file.root->kind == MF_MAP ? mf_node_get(file.root, "load") : file.root;
	st = list ? read_load(w, &file, list, err)
		  : mf_fail_at(err, MF_EINPUT, file.name, file.root->line, "load", "missing");
	mf_doc_dispose(&file);
	return st;
}

mf_status mf_workload_from_doc(mf_workload *out, const mf_doc *doc, mf_err *err)
{
	static const char *const keys[] = {"name", "phase", "seq", "global_batch", "micro_batches", "precision", "mtp",
		"input_tokens", "output_tokens", "concurrency", "ttft_target_ms", "tpot_target_ms", "fp8_kv",
		"length_spread", "requests", "draft_tokens", "accepted_tokens", "max_violation", "load", NULL};
	const mf_node *root = doc->root;
	int phase = MF_TRAIN, precision = MF_PREC_BF16;
	mf_workload w;
	mf_status st;

	memset(&w, 0, sizeof(w));
	w.seq = 4096;
	w.global_batch = 4096;
	w.n_micro_batches = 4;
	for (uint32_t i = 0; i < w.n_micro_batches; i++)
		w.micro_batches[i] = 1u << i;
	w.input_tokens = w.output_tokens = 1024;
	w.concurrency = 64;
	w.ttft_target_ms = w.tpot_target_ms = NAN;
	TRY(mf_only_keys(doc, root, keys, err));
	mf_input_name(doc->name, w.name, sizeof(w.name));
	TRY(mf_get_string(doc, root, "name", w.name, sizeof(w.name), err));
	if (!mf_node_get(root, "phase"))
		return mf_fail_at(err, MF_EINPUT, doc->name, root->line, "phase", "missing: train or serve");
	TRY(mf_get_choice(doc, root, "phase", mf_phase_choices, &phase, err));
	TRY(mf_get_u32(doc, root, "seq", 1, 1u << 24, &w.seq, err));
	TRY(mf_get_u32(doc, root, "global_batch", 1, 1u << 24, &w.global_batch, err));
	TRY(read_micro_batches(&w, doc, root, err));
	TRY(mf_get_choice(doc, root, "precision", mf_precision_choices, &precision, err));
	TRY(mf_get_bool(doc, root, "mtp", &w.mtp, err));
	TRY(mf_get_u32(doc, root, "input_tokens", 1, 1u << 24, &w.input_tokens, err));
	TRY(mf_get_u32(doc, root, "output_tokens", 1, 1u << 24, &w.output_tokens, err));
	TRY(mf_get_u32(doc, root, "concurrency", 1, 1u << 20, &w.concurrency, err));
	TRY(mf_get_double(doc, root, "ttft_target_ms", 0.001, 1e9, &w.ttft_target_ms, err));
	TRY(mf_get_double(doc, root, "tpot_target_ms", 0.001, 1e9, &w.tpot_target_ms, err));
	TRY(mf_get_bool(doc, root, "fp8_kv", &w.fp8_kv, err));
	TRY(mf_get_double(doc, root, "length_spread", 0, 0.99, &w.length_spread, err));
	TRY(mf_get_u32(doc, root, "requests", 1, 1u << 30, &w.requests, err));
	TRY(mf_get_u32(doc, root, "draft_tokens", 1, 64, &w.draft_tokens, err));
	w.accepted_tokens = 1;
	TRY(mf_get_double(doc, root, "accepted_tokens", 1, w.draft_tokens + 1.0, &w.accepted_tokens, err));
	TRY(mf_get_double(doc, root, "max_violation", 0, 1e3, &w.max_violation, err));
	TRY(read_histogram(&w, doc, root, err));
	w.phase = (mf_phase)phase;
	w.precision = (mf_precision)precision;
	*out = w;
	return MF_OK;
}

mf_status mf_workload_load(mf_workload *out, const char *name_or_path, mf_phase phase, mf_err *err)
{
	mf_doc doc;
	mf_workload w;
	mf_status st;

	if (!name_or_path || !*name_or_path)
		name_or_path = phase == MF_TRAIN ? "pretrain-4k" : "chat-1k";
	TRY(mf_input_open(&doc, "workloads", name_or_path, err));
	st = mf_workload_from_doc(&w, &doc, err);
	if (st == MF_OK && w.phase != phase)
		st = mf_fail_at(err, MF_EINPUT, doc.name, doc.root->line, "phase",
			"a %s workload, where %s is asked for", mf_choice_name(mf_phase_choices, w.phase),
			mf_choice_name(mf_phase_choices, phase));
	mf_doc_dispose(&doc);
	if (st == MF_OK)
		*out = w;
	return st;
}

/* ---- stack -------------------------------------------------------------------------------------------------------- */

const mf_choice mf_attention_choices[] = {
	{MF_ATTN_FLASH, "flash", "fused attention that keeps no scores"},
	{MF_ATTN_UNFUSED, "unfused", "scores are written to memory"},
	{0, NULL, NULL},
};
static const mf_choice loss_choices[] = {
	{MF_LOSS_EAGER, "eager", "cross entropy in plain PyTorch"},
	{MF_LOSS_NATIVE, "native", "Megatron's fused cross entropy"},
	{MF_LOSS_TE, "te", "Transformer Engine's fused cross entropy"},
	{0, NULL, NULL},
};
const mf_choice mf_graphs_choices[] = {
	{MF_GRAPHS_NONE, "none", "kernels are launched one by one"},
	{MF_GRAPHS_PARTIAL, "partial", "attention and router inside CUDA graphs"},
	{MF_GRAPHS_FULL, "full", "the whole iteration is one CUDA graph"},
	{0, NULL, NULL},
};

mf_status mf_stack_from_doc(mf_stack *out, const mf_doc *doc, mf_err *err)
{
	static const char *const keys[] = {"name", "toolchain", "attention", "transformer_engine", "loss", "graphs",
		"grad_reduce_bf16", "fused_quant", "optimizer", "precision_aware", "overlap_grad_reduce",
		"overlap_param_gather", "delay_wgrad", "shared_expert_overlap", "permute_fusion", "deepep", "hybridep",
		"einops", "deep_gemm", "attention_dropout", "runner_default", "mem_fraction", "engine", NULL};
	const mf_node *root = doc->root;
	int toolchain = -1, attention = MF_ATTN_FLASH, loss = MF_LOSS_NATIVE, graphs = MF_GRAPHS_NONE,
	    runner = MF_RUN_AUTO, optimizer = MF_OPT_ADAM, engine = MF_ENGINE_SGLANG;
	bool megatron;
	mf_stack s;
	mf_status st;

	memset(&s, 0, sizeof(s));
	TRY(mf_only_keys(doc, root, keys, err));
	mf_input_name(doc->name, s.name, sizeof(s.name));
	TRY(mf_get_string(doc, root, "name", s.name, sizeof(s.name), err));
	TRY(mf_get_choice(doc, root, "toolchain", mf_toolchain_choices, &toolchain, err));
	if (toolchain < 0)
		return mf_fail_at(err, MF_EINPUT, doc->name, root->line, "toolchain", "missing, e.g. megatron-0.18.0");
	s.toolchain = (mf_toolchain)toolchain;
	/* A plain installation: what `pip install` of the toolchain and its required packages gives. */
	megatron = mf_toolchain_is_megatron(s.toolchain);
	s.transformer_engine = s.permute_fusion = s.overlap_grad_reduce = s.overlap_param_gather = megatron;
	s.einops = true;
	s.deepep = s.deep_gemm = !megatron;
	s.mem_fraction = NAN;
	TRY(mf_get_choice(doc, root, "attention", mf_attention_choices, &attention, err));
	TRY(mf_get_bool(doc, root, "transformer_engine", &s.transformer_engine, err));
	TRY(mf_get_choice(doc, root, "loss", loss_choices, &loss, err));
	TRY(mf_get_choice(doc, root, "graphs", mf_graphs_choices, &graphs, err));
	TRY(mf_get_bool(doc, root, "grad_reduce_bf16", &s.grad_reduce_bf16, err));
	TRY(mf_get_bool(doc, root, "fused_quant", &s.fused_quant, err));
	TRY(mf_get_choice(doc, root, "optimizer", mf_optimizer_choices, &optimizer, err));
	TRY(mf_get_bool(doc, root, "precision_aware", &s.precision_aware, err));
	TRY(mf_get_bool(doc, root, "overlap_grad_reduce", &s.overlap_grad_reduce, err));
	TRY(mf_get_bool(doc, root, "overlap_param_gather", &s.overlap_param_gather, err));
	TRY(mf_get_bool(doc, root, "delay_wgrad", &s.delay_wgrad, err));
	TRY(mf_get_bool(doc, root, "shared_expert_overlap", &s.shared_expert_overlap, err));
	TRY(mf_get_bool(doc, root, "permute_fusion", &s.permute_fusion, err));
	TRY(mf_get_bool(doc, root, "deepep", &s.deepep, err));
	TRY(mf_get_bool(doc, root, "hybridep", &s.hybridep, err));
	TRY(mf_get_bool(doc, root, "einops", &s.einops, err));
	TRY(mf_get_bool(doc, root, "deep_gemm", &s.deep_gemm, err));
	TRY(mf_get_double(doc, root, "attention_dropout", 0, 0.99, &s.attention_dropout, err));
	TRY(mf_get_choice(doc, root, "runner_default", mf_runner_choices, &runner, err));
	TRY(mf_get_double(doc, root, "mem_fraction", 0.01, 1, &s.mem_fraction, err));
	TRY(mf_get_choice(doc, root, "engine", mf_engine_choices, &engine, err));
	s.engine = (mf_engine)engine;
	s.attention = (mf_attn_backend)attention;
	s.loss = (mf_loss)loss;
	s.graphs = (mf_graphs)graphs;
	s.optimizer = (mf_optimizer)optimizer;
	snprintf(s.runner_default, sizeof(s.runner_default), "%s", mf_choice_name(mf_runner_choices, runner));
	*out = s;
	return MF_OK;
}

mf_status mf_stack_load(mf_stack *out, const char *name_or_path, mf_phase phase, mf_err *err)
{
	mf_doc doc;
	mf_stack s;
	mf_status st;

	if (!name_or_path || !*name_or_path)
		name_or_path = phase == MF_TRAIN ? "megatron-0.18.0" : "sglang-0.5.15";
	TRY(mf_input_open(&doc, "stacks", name_or_path, err));
	st = mf_stack_from_doc(&s, &doc, err);
	if (st == MF_OK && mf_toolchain_is_megatron(s.toolchain) != (phase == MF_TRAIN))
		st = mf_fail_at(err, MF_EINPUT, doc.name, doc.root->line, "toolchain", "%s does not %s",
			mf_choice_name(mf_toolchain_choices, s.toolchain), mf_choice_name(mf_phase_choices, phase));
	mf_doc_dispose(&doc);
	if (st == MF_OK)
		*out = s;
	return st;
}

/* ---- site --------------------------------------------------------------------------------------------------------- */

static void site_default(mf_site *s)
{
	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "default");
	snprintf(s->pretrain_script, sizeof(s->pretrain_script), "pretrain_gpt.py");
	snprintf(s->python, sizeof(s->python), "python3");
	snprintf(s->host, sizeof(s->host), "127.0.0.1");
	s->port = 30000;
	snprintf(s->master_addr, sizeof(s->master_addr), "127.0.0.1");
	s->master_port = 29500;
	s->train_iters = 10;
	s->log_interval = 1;
}

mf_status mf_site_load(mf_site *out, const char *path, mf_err *err)
{
	static const char *const keys[] = {"name", "pretrain_script", "python", "model_path", "data_path",
		"tokenizer_path", "host", "port", "master_addr", "master_port", "train_iters", "log_interval",
		"log_dir", "partition", "account", "container", NULL};
	const struct {
		const char *key;
		char *at;
		size_t size;
	} texts[] = {
		{"name", out->name, sizeof(out->name)},
		{"pretrain_script", out->pretrain_script, sizeof(out->pretrain_script)},
		{"python", out->python, sizeof(out->python)},
		{"model_path", out->model_path, sizeof(out->model_path)},
		{"data_path", out->data_path, sizeof(out->data_path)},
		{"tokenizer_path", out->tokenizer_path, sizeof(out->tokenizer_path)},
		{"host", out->host, sizeof(out->host)},
		{"master_addr", out->master_addr, sizeof(out->master_addr)},
		{"log_dir", out->log_dir, sizeof(out->log_dir)},
		{"partition", out->partition, sizeof(out->partition)},
		{"account", out->account, sizeof(out->account)},
		{"container", out->container, sizeof(out->container)},
	};
	mf_status st = MF_OK;
	mf_doc doc;

	site_default(out);
	if (!path || !*path)
		return MF_OK;
	TRY(mf_doc_read_file(&doc, path, err));
	st = mf_only_keys(&doc, doc.root, keys, err);
	for (size_t i = 0; i < MF_COUNT(texts) && st == MF_OK; i++)
		st = mf_get_string(&doc, doc.root, texts[i].key, texts[i].at, texts[i].size, err);
	if (st == MF_OK)
		st = mf_get_u32(&doc, doc.root, "port", 1, 65535, &out->port, err);
	if (st == MF_OK)
		st = mf_get_u32(&doc, doc.root, "master_port", 1, 65535, &out->master_port, err);
	if (st == MF_OK)
		st = mf_get_u32(&doc, doc.root, "train_iters", 1, 1u << 30, &out->train_iters, err);
	if (st == MF_OK)
		st = mf_get_u32(&doc, doc.root, "log_interval", 1, 1u << 30, &out->log_interval, err);
	mf_doc_dispose(&doc);
	return st;
}
