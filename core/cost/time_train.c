/*
 * time_train.c: a training step under Megatron from its layers:
 *
 *   step = m * slowest rank + what the first forward and last backward cannot hide + bubble + p2p +
 *          visible gradient and parameter exchange + optimizer + fixed
 *
 * What a layer costs depends on few dimensions of the plan, so it is priced once per distinct key (time_train_layer.c)
 * and kept; a candidate then costs a look-up, or a comparison with the key before, and some multiplications.
 */
#include "time_train_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIGA 1e9
#define MICRO 1e-6
#define MILLI 1e-3

double tt_ring(const mf_train_time *s, double bytes, uint32_t n, uint32_t inside)
{
	double rate;

	if (n <= 1)
		return 0;
	rate = inside >= n ? s->ring_link : fmin(s->ring_link, inside * s->ring_nic);
	return bytes * (n - 1) / (n * rate) + s->ring_alpha[n];
}

/* ---- memo ----------------------------------------------------------------------------------------------------------
 */

static uint32_t slot_of(const tt_memo *m, const uint64_t key[3])
{
	uint64_t h = key[0] * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 29 ^ key[1]) * 0xbf58476d1ce4e5b9u;
	h = (h ^ h >> 32 ^ key[2]) * 0x94d049bb133111ebu;
	return (uint32_t)(h >> 32) & (m->cap - 1);
}

static tt_slot *memo_find(const tt_memo *m, const uint64_t key[3])
{
	for (uint32_t i = slot_of(m, key);; i = (i + 1) & (m->cap - 1)) {
		tt_slot *s = &m->slots[i];

		if (!s->value || memcmp(s->key, key, sizeof(s->key)) == 0)
			return s;
	}
}

static bool memo_init(tt_memo *m, uint32_t cap)
{
	m->slots = calloc(cap, sizeof(*m->slots));
	m->cap = m->slots ? cap : 0;
	m->used = 0;
	return m->slots != NULL;
}

static void memo_dispose(tt_memo *m)
{
	for (uint32_t i = 0; i < m->cap; i++)
		free(m->slots[i].value);
	free(m->slots);
	memset(m, 0, sizeof(*m));
}

/* Keys a memo keeps at most: 60 MB of prices. Spaces of a million plans have a few ten thousand. */
#define MEMO_MAX (1u << 18)

/* Room for a new value of `bytes` under `key`, or NULL when it is full or out of memory: the caller then goes without.
 */
static void *memo_add(tt_memo *m, const uint64_t key[3], size_t bytes)
{
	tt_slot *s;
	void *value;

	if (m->used >= MEMO_MAX)
		return NULL;
	if (m->used * 2 >= m->cap) {
		tt_memo next;

		if (!memo_init(&next, m->cap * 2))
			return NULL;
		for (uint32_t i = 0; i < m->cap; i++) {
			if (m->slots[i].value)
				*memo_find(&next, m->slots[i].key) = m->slots[i];
		}
		next.used = m->used;
		free(m->slots);
		*m = next;
	}
	value = malloc(bytes);
	if (!value)
		return NULL;
	s = memo_find(m, key);
	memcpy(s->key, key, sizeof(s->key));
	s->value = value;
	m->used++;
	return value;
}

void tt_layers_key(const mf_plan *p, uint64_t key[3])
{
	uint32_t etp = p->etp ? p->etp : p->tp;
	uint32_t modules = p->recompute == MF_RECOMPUTE_SELECTIVE ? p->recompute_modules : 0;

	key[0] = (uint64_t)p->tp | (uint64_t)p->cp << 16 | (uint64_t)p->ep << 32 | (uint64_t)etp << 48;
	key[1] = (uint64_t)p->micro_batch | (uint64_t)p->node_limit << 16 | (uint64_t)p->sm_budget << 32 |
		 (uint64_t)p->comm_chunks << 48 | (uint64_t)p->dispatcher << 56;
	key[2] = (uint64_t)modules | (uint64_t)p->recompute << 8 | (uint64_t)(p->overlap != 0) << 16 |
		 (uint64_t)(p->schedule == MF_DUALPIPE) << 17 | (uint64_t)p->kernel << 32;
}

static const tt_layers *find_layers(const mf_cost *c, const mf_plan *p)
{
	mf_train_time *s = c->train_time;
	tt_layer kinds[TT_KINDS];
	uint64_t key[3];
	tt_layers *l;

	tt_layers_key(p, key);
	if (s->last_layers && memcmp(s->last_layers->key, key, sizeof(key)) == 0)
		return s->last_layers;
	l = memo_find(&s->layers, key)->value;
	if (!l) {
		l = memo_add(&s->layers, key, sizeof(*l));
		if (!l)
			l = &s->scratch_layers;
		memset(l, 0, sizeof(*l));
		memcpy(l->key, key, sizeof(key));
		tt_price_layers(c, p, l, kinds);
	}
	s->last_layers = l;
	return l;
}

static void add_rank(tt_stages *st, tt_rank r)
{
	for (uint32_t i = 0; i < st->n; i++) {
		if (memcmp(&st->rank[i], &r, sizeof(r)) == 0)
			return;
	}
	assert(st->n < MF_MAX_STAGES);
	st->rank[st->n++] = r;
}

/* Splits the layers over the ranks and keeps the distinct ones. */
static void lay_out(const mf_cost *c, const mf_plan *p, tt_stages *out)
{
	const mf_train_time *s = c->train_time;
	uint16_t counts[MF_MAX_LAYERS];
	tt_rank ranks[MF_MAX_LAYERS];
	size_t n = mf_plan_stages(p, c->in.model, c->in.intern, counts, MF_COUNT(counts), NULL), pp = p->pp;
	uint32_t layer = 0;

	out->n = 0;
	if (n == 0 || pp > MF_MAX_STAGES || n % pp != 0)
		return;
	memset(ranks, 0, sizeof(ranks));
	for (size_t i = 0; i < n; i++) {
		uint32_t end = layer + counts[i];

		if (end > c->in.model->layers)
			return;
		for (uint32_t k = 0; k < s->n_kinds; k++)
			ranks[i % pp].layers[k] += s->before[k][end] - s->before[k][layer];
		layer = end;
	}
	ranks[0].first = 1;
	ranks[pp - 1].last = 1;
	for (size_t i = 0; i < pp; i++) {
		tt_rank r = ranks[i];

		if (p->schedule == MF_DUALPIPE) {
			/* A DualPipe rank serves stage i for one direction's micro-batches and the mirrored stage for
			 * the other's. */
			const tt_rank *mirror = &ranks[pp - 1 - i];

			for (int k = 0; k < TT_KINDS; k++)
				r.layers[k] = (r.layers[k] + mirror->layers[k]) / 2;
			r.first = (r.first + mirror->first) / 2;
			r.last = (r.last + mirror->last) / 2;
		}
		add_rank(out, r);
	}
}

static const tt_stages *find_stages(const mf_cost *c, const mf_plan *p)
{
	mf_train_time *s = c->train_time;
	uint64_t key[3] = {(uint64_t)p->pp | (uint64_t)p->vpp << 16 | (uint64_t)p->first_layers << 32 |
				   (uint64_t)p->last_layers << 48,
		(uint64_t)p->stage_layout | (uint64_t)(p->schedule == MF_DUALPIPE) << 16, 0};
	tt_stages *st;

	if (s->last_stages && memcmp(s->last_stages->key, key, sizeof(s->last_stages->key)) == 0)
		return s->last_stages;
	st = memo_find(&s->stages, key)->value;
	if (!st) {
		st = memo_add(&s->stages, key, sizeof(*st));
		if (!st)
			st = &s->scratch_stages;
		memcpy(st->key, key, sizeof(st->key));
		lay_out(c, p, st);
	}
	s->last_stages = st;
	return st;
}

/* ---- state ---------------------------------------------------------------------------------------------------------
 */

static mf_dtype linear_dtype(mf_precision p)
{
	return p == MF_PREC_BF16 ? MF_BF16 : p == MF_PREC_NVFP4 ? MF_FP4 : MF_FP8;
}

mf_dtype mf_train_dtype(const mf_cost *c)
{
	return c->train_time->dtype;
}

/* Number of a kind, added when it is new; TT_KINDS when there is no room. */
static uint32_t kind_number(mf_train_time *s, tt_kind kind)
{
	for (uint32_t k = 0; k < s->n_kinds; k++)
		if (s->kind[k].mixer == kind.mixer && s->kind[k].ffn == kind.ffn)
			return k;
	if (s->n_kinds == TT_KINDS)
		return TT_KINDS;
	s->kind[s->n_kinds] = kind;
	return s->n_kinds++;
}

/* Sorts the layers into kinds. */
static mf_status find_kinds(mf_train_time *s, const mf_model *m, mf_err *err)
{
	uint8_t kind_of[MF_MAX_LAYERS];
	tt_kind mtp = {MF_MIX_ATTENTION, TT_FFN_DENSE};

	if (m->layers > MF_MAX_LAYERS)
		return mf_fail(
			err, MF_EINPUT, "%u layers are more than the %d that can be priced", m->layers, MF_MAX_LAYERS);
	for (uint32_t i = 0; i < m->layers; i++) {
		tt_kind kind = {m->mixer[i], m->moe_layer[i]    ? TT_FFN_MOE
					     : m->bare_layer[i] ? TT_FFN_NONE
								: TT_FFN_DENSE};
		uint32_t k = kind_number(s, kind);

		if (k == TT_KINDS)
			return mf_fail(err, MF_EINPUT, "more than %d kinds of layers", TT_KINDS);
		kind_of[i] = (uint8_t)k;
	}
	for (uint32_t k = 0; k < s->n_kinds; k++)
		for (uint32_t i = 0; i < m->layers; i++)
			s->before[k][i + 1] = (uint16_t)(s->before[k][i] + (kind_of[i] == k));
	if (m->moe_layers && (m->bare_layers || m->moe_layer[m->layers - 1]))
		mtp.ffn = TT_FFN_MOE;
	s->mtp_kind = kind_number(s, mtp);
	if (s->mtp_kind == TT_KINDS)
		return mf_fail(err, MF_EINPUT, "more than %d kinds of layers", TT_KINDS);
	return MF_OK;
}

mf_status mf_train_time_new(mf_cost *c, mf_err *err)
{
	const mf_cluster *cl = c->in.cluster;
	const mf_stack *stack = c->in.stack;
	const mf_model *m = c->in.model;
	mf_train_time *s = calloc(1, sizeof(*s));

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory for the training model");
	c->train_time = s;
	s->ring_alpha = calloc((size_t)c->world + 1, sizeof(*s->ring_alpha));
	if (!memo_init(&s->layers, 1024) || !memo_init(&s->stages, 256) || !s->ring_alpha) {
		mf_train_time_free(s);
		c->train_time = NULL;
		return mf_fail(err, MF_ENOMEM, "out of memory for the training model");
	}
	for (uint32_t n = 1; n <= c->world; n++)
		s->ring_alpha[n] = mf_k(c, MF_C_RING_US) * MICRO * (1 + 0.3 * log2(n));
	if (find_kinds(s, m, err) < 0) {
		mf_train_time_free(s);
		c->train_time = NULL;
		return MF_EINPUT;
	}
	/* Without NVLink the node's own fabric is the domain. */
	s->domain = cl->fabric == MF_FABRIC_PCIE ? cl->gpus_per_node : cl->nvlink_domain;
	s->link = cl->link_gbps * GIGA;
	s->nic = cl->nic_gbps * GIGA;
	s->ring_link = s->link * mf_k(c, MF_C_LINK_RING);
	s->ring_nic = s->nic * mf_k(c, MF_C_NIC);
	s->stream = cl->hbm_gbps * GIGA * mf_k(c, MF_C_HBM);
	s->kernel_tail = mf_k(c, MF_C_KERNEL_TAIL) * MICRO;
	s->dtype = linear_dtype(c->in.workload->precision);
	s->fused_quant = cl->family == MF_BLACKWELL && stack->transformer_engine && stack->fused_quant;
	s->grad_bytes = stack->grad_reduce_bf16 ? 2 : 4;
	s->gather_bytes = s->dtype == MF_BF16 ? 2 : 1;
	return MF_OK;
}

void mf_train_time_free(struct mf_train_time *s)
{
	if (!s)
		return;
	memo_dispose(&s->layers);
	memo_dispose(&s->stages);
	free(s->ring_alpha);
	free(s);
}

/* ---- the step ------------------------------------------------------------------------------------------------------
 */

/* Seconds of one micro-batch on a rank. */
static inline double rank_time(uint32_t n_kinds, const tt_layers *l, const tt_rank *r)
{
	double t = r->first * l->embedding + r->last * (l->head + l->mtp);

	for (uint32_t k = 0; k < n_kinds; k++)
		t += r->layers[k] * l->t[k];
	return t;
}

/* Layers of the whole model, each kind times its `figure`. */
static inline double model_sum(const mf_cost *c, const double figure[TT_KINDS])
{
	const mf_train_time *s = c->train_time;
	double sum = 0;

	for (uint32_t k = 0; k < s->n_kinds; k++)
		sum += tt_count(s, c->in.model, k) * figure[k];
	return sum;
}

/* ---- the best split ------------------------------------------------------------------------------------------------
 */

/* Layers of each rank under a budget of time: how many fit in all. */
static uint32_t fill_ranks(uint32_t pp, double budget, double layer, double first, double last, uint32_t *ranks)
{
	uint32_t sum = 0;

	for (uint32_t r = 0; r < pp; r++) {
		double left = budget - (r == 0 ? first : 0) - (r == pp - 1 ? last : 0);

		ranks[r] = left > 0 ? (uint32_t)(left / layer + 1e-9) : 0;
		sum += ranks[r];
	}
	return sum;
}

/* Writes counts as runs: "2x4-3". */
static bool write_layout(const uint16_t *counts, size_t n, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0, run; i < n; i += run) {
		int k;

		for (run = 1; i + run < n && counts[i + run] == counts[i]; run++)
			;
		k = run > 1 ? snprintf(out + len, size - len, "%s%ux%zu", i ? "-" : "", counts[i], run)
			    : snprintf(out + len, size - len, "%s%u", i ? "-" : "", counts[i]);
		if (k < 0 || (size_t)k >= size - len)
			return false;
		len += (size_t)k;
	}
	return true;
}

bool mf_train_layout(mf_cost *c, const mf_plan *p, char *out, size_t size)
{
	const tt_layers *l = find_layers(c, p);
	uint32_t pp = p->pp, v = p->vpp, layers = c->in.model->layers, ranks[MF_MAX_LAYERS], sum;
	uint16_t counts[MF_MAX_LAYERS];
	double layer = model_sum(c, l->t) / layers, last = l->head + l->mtp, budget = INFINITY;
	const double offsets[] = {0, l->embedding, last};

	if (pp == 1 || (size_t)pp * v > MF_MAX_LAYERS || !(layer > 0))
		return false;
	/* A best budget is whole layers on some rank. */
	for (size_t i = 0; i < MF_COUNT(offsets); i++)
		for (uint32_t n = 0; n <= layers; n++) {
			double b = n * layer + offsets[i];

			if (b < budget && b >= last && fill_ranks(pp, b, layer, l->embedding, last, ranks) >= layers)
				budget = b;
		}
	sum = fill_ranks(pp, budget, layer, l->embedding, last, ranks);
	if (sum < layers)
		return false;
	/* What is too much comes off the ranks that hold most, the last of them first. */
	for (; sum > layers; sum--) {
		uint32_t most = pp - 1;

		for (uint32_t r = pp; r-- > 0;)
			if (ranks[r] > ranks[most])
				most = r;
		ranks[most]--;
	}
	for (uint32_t r = 0; r < pp; r++)
		for (uint32_t k = 0; k < v; k++)
			counts[k * pp + r] = (uint16_t)(ranks[r] / v + (k < ranks[r] % v));
	return write_layout(counts, (size_t)pp * v, out, size);
}

/* ---- parts of a step -----------------------------------------------------------------------------------------------
 */

/* Fill, drain and transfers of the pipeline. */
static void pipeline(const mf_cost *c, const mf_plan *p, tt_step *st)
{
	const tt_layers *l = st->l;
	double pp = p->pp, m_ = st->m;

	st->bubble = st->p2p = 0;
	if (p->pp == 1)
		return;
	if (p->schedule == MF_DUALPIPE) {
		/* (pp/2 - 1)(F&B + B - 3W), F&B a stage's forward and backward together: DeepSeek-V3 report, table 2.
		 */
		double fill = model_sum(c, l->fill) + l->embedding + l->head + l->mtp;

		st->bubble = fmax(0, fmax(0, pp / 2 - 1) * fill / pp);
		st->p2p = l->p2p * (2 * (pp - 1) + 0.3 * m_);
		return;
	}
	st->bubble = (model_sum(c, l->t) + l->embedding + l->head + l->mtp) * (pp - 1) / (pp * p->vpp);
	/* Chunked stages send behind compute; 30 % of it stays visible. */
	st->p2p = p->vpp == 1 ? 2 * l->p2p * (m_ + pp - 1) : l->p2p * (2 * (pp - 1) + 0.3 * m_ * p->vpp);
}

/* Gradients and parameters between data-parallel ranks, and the optimizer. */
static void exchange_and_update(const mf_cost *c, const mf_plan *p, uint32_t dp, uint32_t edp, tt_step *st)
{
	const mf_train_time *s = c->train_time;
	const mf_stack *stack = c->in.stack;
	const tt_layers *l = st->l;
	uint32_t n = dp * p->cp, in_d = n < l->domain_dense ? n : l->domain_dense;
	uint32_t in_e = edp < l->domain_expert ? edp : l->domain_expert;
	double scatter, gather, shard, gather_bytes = s->gather_bytes;
	bool sharded =
		p->sharding == MF_FSDP ? p->zero_stage >= 1 : p->zero_stage >= 1 || p->sharding == MF_ZERO1_OFFLOAD;

	st->dense = l->params_dense / p->pp;
	st->experts = l->params_expert / p->pp;
	if (!sharded)
		gather_bytes = s->grad_bytes; /* an all-reduce: its second half carries gradients */
	scatter = tt_ring(s, st->dense * s->grad_bytes, n, in_d) + tt_ring(s, st->experts * s->grad_bytes, edp, in_e);
	gather = tt_ring(s, st->dense * gather_bytes, n, in_d) + tt_ring(s, st->experts * gather_bytes, edp, in_e);
	if (c->opts.frozen) { /* adapters are small enough to leave out; sharded weights are still gathered */
		scatter = 0;
		gather = p->sharding == MF_FSDP && p->zero_stage >= 3 ? gather : 0;
	}
	if (p->sharding == MF_FSDP && p->zero_stage >= 2) {
		/* Gradients are scattered every micro-batch; under stage 3 parameters are gathered for both passes too.
		 */
		double each = scatter + (p->zero_stage >= 3 ? 2 * gather : 0);
		double compute = st->rank_s + (st->bubble + st->p2p) / st->m;
		double shown = fmax(0, each - mf_k(c, MF_C_HIDE_FSDP) * compute) + mf_k(c, MF_C_FSDP_REST) * each;

		st->dp_comm = st->m * each;
		st->dp_hidden = st->dp_comm - st->m * fmin(shown, each);
		if (p->zero_stage == 2)
			st->dp_comm += gather;
	} else {
		/* Backward is two thirds of a micro-batch, forward one; an all-reduce has only the backward to hide
		 * behind. */
		double hide = mf_k(c, MF_C_HIDE_DP), rest = mf_k(c, MF_C_DP_REST), back = st->rank_s * 2 / 3,
		       fwd = st->rank_s / 3;

		if (!sharded) {
			scatter += gather;
			gather = 0;
		}
		st->dp_comm = scatter + gather;
		st->dp_hidden = 0;
		if (stack->overlap_grad_reduce)
			st->dp_hidden += fmax(0, scatter - fmax(0, scatter - hide * back) - rest * scatter);
		if (stack->overlap_param_gather)
			st->dp_hidden += fmax(0, gather - fmax(0, gather - hide * fwd) - rest * gather);
	}
	st->scatter = scatter;
	st->gather = gather;
	st->optimizer = st->offload = st->offload_copy = 0;
	if (c->opts.frozen)
		return;
	shard = sharded ? st->dense / n + st->experts / edp : st->dense + st->experts;
	st->optimizer = tt_stream(s, (st->dense + st->experts) * mf_k(c, MF_C_OPT_LOCAL), 20) +
			tt_stream(s, shard * mf_k(c, MF_C_OPT_SHARD), 20);
	if (stack->optimizer == MF_OPT_MUON) {
		/* Five Newton-Schulz rounds of (4 a^2 b + 2 a^3) flop on every a x b matrix of the shard, a <= b; expert
		 * matrices stand for all, dense ones count 6 a flop an element. */
		double h = c->in.model->hidden, f = c->in.model->moe_ffn ? c->in.model->moe_ffn : c->in.model->ffn;
		double a = fmin(h, f), b = fmax(h, f), round = 4 * a * a * b + 2 * a * a * a;

		st->optimizer += 5 * (st->experts / edp / (h * f) * round + st->dense / n * 6 * h) /
				 (c->in.cluster->tflops[MF_BF16] * 1e12 * mf_k(c, MF_C_MUON_ROOF));
	}
	if (p->sharding == MF_ZERO1_OFFLOAD) {
		/* Gradient down, parameter up and the states once each way over the host's memory. */
		const mf_cluster *cl = c->in.cluster;

		st->offload_copy = shard * 16 / (cl->pcie_gbps * GIGA * mf_k(c, MF_C_OFFLOAD_PCIE));
		st->offload =
			st->offload_copy + shard * 30 / (cl->host_memory_gbps * GIGA * mf_k(c, MF_C_OFFLOAD_HOST));
	}
}

/*
 * Overlap over an offloaded optimizer, where an overlay measured what it costs (B8). The share of the exchange that hides
 * was measured where compute fills the step; there copies do (the GPU is 0-26 % busy), so that share is conditioned out
 * beside the penalty: paper, section V-B.
 */
static bool copies_rule(const mf_cost *c, const mf_plan *p)
{
	return c->opts.tax && p->sharding == MF_ZERO1_OFFLOAD && p->overlap && !isnan(mf_k(c, MF_C_OFFLOAD_OVERLAP));
}

/*
 * Measured throughput ratios of whole stacks: a generated kernel's patch, and overlap over an offloaded optimizer. They
 * touch only plans that take that path, and an unset one leaves the step bit for bit as it is.
 */
static double tax(const mf_cost *c, const mf_plan *p)
{
	double t = 1;

	if (!c->opts.tax)
		return t;
	if (p->kernel && !isnan(mf_k(c, MF_C_TAX_TRAIN)))
		t *= 1 + mf_k(c, MF_C_TAX_TRAIN);
	if (copies_rule(c, p))
		t *= 1 + mf_k(c, MF_C_OFFLOAD_OVERLAP);
	return t;
}

bool tt_step_of(mf_cost *c, const mf_plan *p, tt_step *out)
{
	const mf_workload *w = c->in.workload;
	uint32_t dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world);
	const tt_stages *stages = find_stages(c, p);
	uint32_t kinds = c->train_time->n_kinds;
	tt_step st;

	if (dp == 0 || edp == 0 || stages->n == 0)
		return false;
	st.l = find_layers(c, p);
	st.m = (w->global_batch + dp * p->micro_batch - 1) / (dp * p->micro_batch);
	st.rank_s = NAN;
	for (uint32_t i = 0; i < stages->n; i++) {
		double t = rank_time(kinds, st.l, &stages->rank[i]);

		if (i == 0 || t > st.rank_s) {
			st.rank_s = t;
			st.rank = stages->rank[i];
		}
	}
	st.unhidden = 0;
	for (uint32_t k = 0; k < kinds; k++)
		st.unhidden += st.rank.layers[k] * st.l->unhidden[k];
	st.shown = copies_rule(c, p) ? st.m : 1;
	st.unhidden *= st.shown;
	pipeline(c, p, &st);
	exchange_and_update(c, p, dp, edp, &st);
	st.fixed = mf_k(c, MF_C_STEP_FIXED) * MILLI;
	st.step = st.m * st.rank_s + st.unhidden + st.bubble + st.p2p + st.dp_comm - st.dp_hidden + st.optimizer +
		  st.offload + st.fixed;
	st.tax = tax(c, p);
	if (st.tax != 1)
		st.step *= st.tax;
	*out = st;
	return true;
}

void mf_train_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	const mf_workload *w = c->in.workload;
	double comm, hidden, tokens = (double)w->global_batch * w->seq;
	tt_step st;

	*out = (mf_time){NAN, NAN, NAN, NAN, NAN, NAN, NAN, false};
	if (!tt_step_of(c, p, &st))
		return;
	out->throughput = tokens / (st.step * c->world);
	out->step_ms = st.step / MILLI;
	comm = st.dp_comm + st.p2p;
	hidden = st.dp_hidden;
	for (uint32_t k = 0; k < c->train_time->n_kinds; k++) {
		comm += st.m * st.rank.layers[k] * st.l->comm[k];
		hidden += st.rank.layers[k] * (st.m * st.l->comm_hidden[k] - st.shown * st.l->hidden[k]);
	}
	out->hidden_fraction = comm > 0 ? hidden / comm : NAN;
	out->bubble_fraction = st.bubble / st.step;
	out->extrapolated = st.l->extrapolated;
	if (ex)
		tt_explain(c, p, &st, ex);
}
