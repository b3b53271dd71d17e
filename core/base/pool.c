/* pool.c: worker threads that share out the items of one job at a time; clock and random numbers. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

#define MAX_THREADS 64

struct worker {
	mf_pool *pool;
	unsigned index;
	pthread_t thread;
};

struct mf_pool {
	unsigned threads; /* the caller's included */
	pthread_mutex_t lock;
	pthread_cond_t start, done;
	unsigned long job; /* number of the job the workers should be at */
	unsigned busy;     /* workers not yet done with it */
	bool quit;
	size_t n;
	atomic_size_t next;
	void (*fn)(void *payload, size_t item, unsigned worker);
	void *payload;
	struct worker workers[MAX_THREADS];
};

static void take_items(mf_pool *p, unsigned worker)
{
	size_t i;

	while ((i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
		p->fn(p->payload, i, worker);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	mf_pool *p = w->pool;
	unsigned long seen = 0;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (p->job == seen && !p->quit)
			pthread_cond_wait(&p->start, &p->lock);
		if (p->quit)
			break;
		seen = p->job;
		pthread_mutex_unlock(&p->lock);
		take_items(p, w->index);
		pthread_mutex_lock(&p->lock);
		if (--p->busy == 0)
			pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

mf_status mf_pool_new(mf_pool **out, unsigned threads, mf_err *err)
{
	mf_pool *p;
	unsigned i;

	*out = NULL;
	if (!threads) {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		threads = n > 0 ? (unsigned)n : 1;
	}
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	p = calloc(1, sizeof *p);
	if (!p)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->start, NULL);
	pthread_cond_init(&p->done, NULL);
	p->threads = 1;
	for (i = 1; i < threads; i++) {
		p->workers[i].pool = p;
		p->workers[i].index = i;
		/* Fewer workers than asked for is slower, not wrong. */
		if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]) != 0)
			break;
		p->threads++;
	}
	*out = p;
	return MF_OK;
}

void mf_pool_free(mf_pool *p)
{
	unsigned i;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	for (i = 1; i < p->threads; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->start);
	pthread_cond_destroy(&p->done);
	free(p);
}

unsigned mf_pool_threads(const mf_pool *p)
{
	return p->threads;
}

void mf_pool_run(mf_pool *p, size_t n, void (*fn)(void *payload, size_t item, unsigned worker), void *payload)
{
	pthread_mutex_lock(&p->lock);
	p->n = n;
	p->fn = fn;
	p->payload = payload;
	atomic_store(&p->next, 0);
	p->busy = p->threads - 1;
	p->job++;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	take_items(p, 0);
	pthread_mutex_lock(&p->lock);
	while (p->busy)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

double mf_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

uint64_t mf_random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}
