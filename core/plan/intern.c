/* intern.c: numbers for texts that do not fit a plan. Texts never move, so a borrowed one outlives later additions. */
#include "plan_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64u

struct mf_intern {
	pthread_rwlock_t lock;
	char **texts; /* texts[id - 1] */
	uint32_t n, cap;
	uint16_t *slots; /* open addressing: id, 0 when empty; n_slots is a power of two */
	uint32_t n_slots;
};

static uint32_t text_hash(const char *text)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

mf_intern *mf_intern_new(void)
{
	mf_intern *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->n_slots = SLOTS_FIRST;
	in->slots = calloc(in->n_slots, sizeof(*in->slots));
	if (!in->slots || pthread_rwlock_init(&in->lock, NULL) != 0) {
		free(in->slots);
		free(in);
		return NULL;
	}
	return in;
}

void mf_intern_free(mf_intern *in)
{
	if (!in)
		return;
	for (uint32_t i = 0; i < in->n; i++)
		free(in->texts[i]);
	free(in->texts);
	free(in->slots);
	pthread_rwlock_destroy(&in->lock);
	free(in);
}

/* Slot of `text`, or the empty one where it belongs. */
static uint32_t find_slot(const mf_intern *in, const char *text)
{
	uint32_t i = text_hash(text) & (in->n_slots - 1);

	while (in->slots[i] && strcmp(in->texts[in->slots[i] - 1], text) != 0)
		i = (i + 1) & (in->n_slots - 1);
	return i;
}

static bool grow(mf_intern *in)
{
	if (in->n == in->cap) {
		uint32_t cap = in->cap ? in->cap * 2 : 16;
		char **texts = realloc(in->texts, cap * sizeof(*texts));

		if (!texts)
			return false;
		in->texts = texts;
		in->cap = cap;
	}
	if (in->n * 2 >= in->n_slots) {
		uint16_t *slots = calloc((size_t)in->n_slots * 2, sizeof(*slots));

		if (!slots)
			return false;
		free(in->slots);
		in->slots = slots;
		in->n_slots *= 2;
		for (uint32_t i = 0; i < in->n; i++)
			in->slots[find_slot(in, in->texts[i])] = (uint16_t)(i + 1);
	}
	return true;
}

uint16_t mf_intern_id(mf_intern *in, const char *text)
{
	uint16_t id;
	uint32_t slot;

	pthread_rwlock_rdlock(&in->lock);
	id = in->slots[find_slot(in, text)];
	pthread_rwlock_unlock(&in->lock);
	if (id)
		return id;

	pthread_rwlock_wrlock(&in->lock);
	id = in->slots[find_slot(in, text)]; /* another thread may have added it between the locks */
	if (!id && in->n < UINT16_MAX && grow(in)) {
		in->texts[in->n] = strdup(text);
		if (in->texts[in->n]) {
			slot = find_slot(in, text);
			in->slots[slot] = id = (uint16_t)++in->n;
		}
	}
	pthread_rwlock_unlock(&in->lock);
	return id;
}

const char *mf_intern_text(const mf_intern *in, uint16_t id)
{
	/* The lock is not part of the value: reading stays const for callers. */
	pthread_rwlock_t *lock = (pthread_rwlock_t *)(uintptr_t)&in->lock;
	const char *text = NULL;

	pthread_rwlock_rdlock(lock);
	if (id >= 1 && id <= in->n)
		text = in->texts[id - 1];
	pthread_rwlock_unlock(lock);
	return text;
}
