/* plan.c: the plan as a value: its dimensions, defaults, derived degrees, stages, checks and hash. */
#include "plan_internal.h"

#include <stdio.h>
#include <string.h>

#define TRAIN (1u << MF_TRAIN)
#define SERVE (1u << MF_SERVE)

const mf_plan_dim mf_plan_dims[] = {
#define D(name, segment, title, help, phases, choices, form, prefix, field, min, max, unset)                           \
	{name, segment, title, help, phases, choices},
#include "plan_dims.def"
#undef D
	{NULL, NULL, NULL, NULL, 0, NULL},
};

const mf_dim_store mf_dim_stores[MF_DIM_COUNT] = {
#define D(name, segment, title, help, phases, choices, form, prefix, field, min, max, unset)                           \
	{MF_DIM_##form, prefix, offsetof(mf_plan, field), sizeof(((mf_plan *)0)->field), min, max, unset},
#include "plan_dims.def"
#undef D
};

uint16_t mf_dim_get(const mf_plan *p, int dim)
{
	const mf_dim_store *s = &mf_dim_stores[dim];
	const unsigned char *at = (const unsigned char *)p + s->offset;
	uint16_t value;

	if (s->size == 1)
		return *at;
	memcpy(&value, at, sizeof(value));
	return value;
}

void mf_dim_set(mf_plan *p, int dim, uint16_t value)
{
	const mf_dim_store *s = &mf_dim_stores[dim];
	unsigned char *at = (unsigned char *)p + s->offset;

	if (s->size == 1)
		*at = (unsigned char)value;
	else
		memcpy(at, &value, sizeof(value));
}

uint16_t mf_dim_unset(const mf_plan *p, int dim)
{
	if (dim == MF_DIM_OF_NUMBER_zero_stage && p->sharding == MF_FSDP)
		return 3;
	return mf_dim_stores[dim].unset;
}

mf_plan mf_plan_default(mf_phase phase)
{
	mf_plan p;

	memset(&p, 0, sizeof(p));
	for (int i = 0; i < MF_DIM_COUNT; i++)
		mf_dim_set(&p, i, mf_dim_stores[i].unset);
	p.recompute_layers = 1;
	p.phase = (uint8_t)phase;
	return p;
}

/* a / b where it divides, else 0. */
static uint32_t divide(uint64_t a, uint64_t b)
{
	return b && a % b == 0 ? (uint32_t)(a / b) : 0;
}

uint32_t mf_plan_dp(const mf_plan *p, uint32_t world)
{
	uint64_t model = (uint64_t)p->tp * p->cp * p->pp;

	return divide(world, p->phase == MF_SERVE ? model * p->replicas : model);
}

uint32_t mf_plan_etp(const mf_plan *p, uint32_t world)
{
	if (p->phase == MF_TRAIN)
		return p->etp ? p->etp : p->tp;
	return divide((uint64_t)p->tp * p->cp * mf_plan_dp(p, world), (uint64_t)p->ep * p->moe_dp);
}

uint32_t mf_plan_edp(const mf_plan *p, uint32_t world)
{
	return divide(world, (uint64_t)(p->etp ? p->etp : p->tp) * p->ep * p->pp);
}

size_t mf_stage_layout_parse(const char *text, uint16_t *counts, size_t cap)
{
	size_t n = 0;

	for (;;) {
		uint32_t value[2] = {0, 1}; /* layers, times */

		for (int i = 0; i < 2; i++) {
			const char *digits = text;

			for (value[i] = 0; *text >= '0' && *text <= '9'; text++) {
				value[i] = value[i] * 10 + (uint32_t)(*text - '0');
				if (value[i] > MF_MAX_LAYERS)
					return 0;
			}
			if (text == digits || (*digits == '0' && text - digits > 1))
				return 0;
			if (i == 0 && *text != 'x') {
				value[1] = 1;
				break;
			}
			if (i == 0)
				text++;
		}
		if (value[1] == 0 || value[1] > cap - n)
			return 0;
		while (value[1]--)
			counts[n++] = (uint16_t)value[0];
		if (*text == '\0')
			return n;
		if (*text++ != '-')
			return 0;
	}
}

bool mf_stage_layout_format(const uint16_t *counts, size_t n, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0, run; i < n; i += run) {
		int written;

		for (run = 1; i + run < n && counts[i + run] == counts[i];)
			run++;
		written = run > 1 ? snprintf(out + len, size - len, "%s%ux%zu", i ? "-" : "", counts[i], run)
				  : snprintf(out + len, size - len, "%s%u", i ? "-" : "", counts[i]);
		if (written < 0 || (size_t)written >= size - len)
			return false;
		len += (size_t)written;
	}
	return n > 0;
}

/* Spreads `layers` over `n` parts, one more each for the first ones when they do not divide. */
static bool spread(uint32_t layers, uint32_t n, uint16_t *counts, size_t stride)
{
	for (uint32_t i = 0; i < n; i++)
		counts[i * stride] = (uint16_t)(layers / n + (i < layers % n));
	return layers % n == 0;
}

size_t mf_plan_stages(
	const mf_plan *p, const mf_model *m, const mf_intern *intern, uint16_t *counts, size_t cap, bool *even)
{
	size_t n = (size_t)p->pp * p->vpp;
	uint32_t middle = p->pp, rest = m->layers;
	bool divides = true;

	if (n == 0 || n > cap)
		return 0;
	if (p->stage_layout) {
		const char *text = intern ? mf_intern_text(intern, p->stage_layout) : NULL;
		uint32_t sum = 0;

		if (!text || mf_stage_layout_parse(text, counts, cap) != n)
			return 0;
		for (size_t i = 0; i < n; i++)
			sum += counts[i];
		if (sum != m->layers)
			return 0;
	} else if (p->first_layers || p->last_layers) {
		/* The first and last rank hold what they are told, spread over their chunks; the others share the rest. */
		middle -= (p->first_layers != 0) + (p->last_layers != 0);
		if (p->pp < 2 || (uint32_t)p->first_layers + p->last_layers > rest)
			return 0;
		rest -= (uint32_t)p->first_layers + p->last_layers;
		if (middle == 0 && rest != 0)
			return 0;
		if (p->first_layers)
			divides &= spread(p->first_layers, p->vpp, counts, p->pp);
		if (p->last_layers)
			divides &= spread(p->last_layers, p->vpp, counts + p->pp - 1, p->pp);
		for (uint32_t r = 0; r < middle; r++) {
			uint32_t layers = rest / middle + (r < rest % middle);

			divides &= spread(layers, p->vpp, counts + r + (p->first_layers != 0), p->pp);
		}
		divides &= middle == 0 || rest % middle == 0;
	} else {
		divides = spread(rest, (uint32_t)n, counts, 1);
	}
	if (even)
		*even = divides;
	return n;
}

uint16_t mf_kernel_pack(const mf_kernel *k)
{
	/* gather, combine: 1 bit; tiles: 3 bits each, from 4; warps: 2 bits, from 1; stages: 3 bits, never 0. */
	return (uint16_t)((unsigned)k->fuse_gather | (unsigned)k->fuse_combine << 1 | (k->tile_m_log2 - 4u) << 2 |
			  (k->tile_n_log2 - 4u) << 5 | (k->tile_k_log2 - 4u) << 8 | (k->warps_log2 - 1u) << 11 |
			  (unsigned)k->stages << 13);
}

bool mf_kernel_unpack(mf_kernel *out, uint16_t packed)
{
	mf_kernel k = {
		.fuse_gather = packed & 1,
		.fuse_combine = packed >> 1 & 1,
		.tile_m_log2 = (uint8_t)((packed >> 2 & 7) + 4),
		.tile_n_log2 = (uint8_t)((packed >> 5 & 7) + 4),
		.tile_k_log2 = (uint8_t)((packed >> 8 & 7) + 4),
		.warps_log2 = (uint8_t)((packed >> 11 & 3) + 1),
		.stages = (uint8_t)(packed >> 13),
	};

	if (k.tile_m_log2 > 8 || k.tile_n_log2 > 8 || k.tile_k_log2 > 8 || k.stages < 1 || k.stages > 5)
		return false;
	*out = k;
	return true;
}

static bool value_ok(const mf_plan *p, int dim, uint16_t value)
{
	const mf_dim_store *s = &mf_dim_stores[dim];
	mf_kernel kernel;

	if (value == mf_dim_unset(p, dim))
		return true;
	if (s->form == MF_DIM_KERNEL)
		return mf_kernel_unpack(&kernel, value);
	return value >= s->min && value <= s->max;
}

/* True when some dimension of the plan's phase uses the same field. */
static bool field_in_phase(const mf_plan *p, int dim)
{
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		if (mf_plan_dims[i].phases & 1u << p->phase && mf_dim_stores[i].offset == mf_dim_stores[dim].offset)
			return true;
	}
	return false;
}

#define BAD(...) return mf_fail_at(err, MF_EINPUT, NULL, 0, "plan", __VA_ARGS__)

mf_status mf_plan_validate(const mf_plan *p, mf_err *err)
{
	if (p->phase > MF_SERVE)
		BAD("phase %u is neither train nor serve", p->phase);
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		const mf_plan_dim *d = &mf_plan_dims[i];
		uint16_t value = mf_dim_get(p, i);

		if (!field_in_phase(p, i)) {
			if (value != mf_dim_stores[i].unset)
				BAD("%s is no dimension of a %s plan", d->name,
					mf_choice_name(mf_phase_choices, p->phase));
		} else if (!value_ok(p, i, value)) {
			BAD("%s is %u; it takes %u to %u", d->name, value, mf_dim_stores[i].min, mf_dim_stores[i].max);
		}
	}
	if (p->comm_kind == MF_COMM_DEVICE)
		BAD("comm:device is refused: communication started by the device cannot be validated here; use "
		    "comm:stream");
	if (p->phase == MF_SERVE && p->schedule != MF_1F1B)
		BAD("a serving plan has no %s schedule; leave the schedule out or write 1f1b",
			mf_choice_name(mf_schedule_choices, p->schedule));
	if (p->schedule == MF_INTERLEAVED && p->vpp < 2)
		BAD("interleaved needs v2 or more: one chunk a rank is 1f1b");
	if (p->schedule != MF_INTERLEAVED && p->vpp != 1)
		BAD("v%u needs the interleaved schedule", p->vpp);
	if (p->stage_layout && (p->first_layers || p->last_layers))
		BAD("lay already gives the layers of the first and last stage; leave first and last out");
	if ((p->first_layers || p->last_layers) && p->pp < 2)
		BAD("first and last need pp2 or more");
	if (p->recompute == MF_RECOMPUTE_SELECTIVE ? p->recompute_modules == 0 || p->recompute_modules > 127
						   : p->recompute_modules != 0)
		BAD("rc: modules are named under selective recompute, and only there");
	if (p->recompute_layers < 1 || p->recompute_layers > MF_MAX_LAYERS ||
		(p->recompute != MF_RECOMPUTE_FULL && p->recompute_layers != 1))
		BAD("rc: layers are counted under full recompute only, from 1 to %d", MF_MAX_LAYERS);
	if (p->pad)
		BAD("the spare byte is not zero");
	return MF_OK;
}

uint64_t mf_plan_hash(const mf_plan *p)
{
	uint64_t words[8] = {0}, h = 0;

	memcpy(words, p, sizeof(*p));
	for (size_t i = 0; i < MF_COUNT(words); i++) {
		h ^= words[i];
		h = mf_random_u64(&h); /* splitmix64: a bijection of its state, so no word is lost */
	}
	return h;
}
