//go:build cgo

#define _GNU_SOURCE
#include "hooks.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct gw_test_sink {
	pthread_mutex_t mu;
	pthread_cond_t some;
	gw_ended *list;
	int n, cap;
};

gw_test_sink *gw_test_sink_new(void)
{
	gw_test_sink *s = calloc(1, sizeof *s);
	pthread_mutex_init(&s->mu, NULL);
	pthread_cond_init(&s->some, NULL);
	return s;
}

void gw_test_sink_free(gw_test_sink *s)
{
	free(s->list);
	free(s);
}

void gw_test_ended(uint64_t sink, uint64_t id, int32_t status)
{
	gw_test_sink *s = (gw_test_sink *)(uintptr_t)sink;
	pthread_mutex_lock(&s->mu);
	if (s->n == s->cap)
		s->list = realloc(s->list, (s->cap = 2 * s->cap + 16) * sizeof *s->list);
	s->list[s->n++] = (gw_ended){id, status, 0};
	pthread_cond_signal(&s->some);
	pthread_mutex_unlock(&s->mu);
}

// gw_test_take takes the oldest end; 0 where none comes for so long.
int gw_test_take(gw_test_sink *s, gw_ended *out, int64_t ns)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (until.tv_nsec + ns) / 1000000000;
	until.tv_nsec = (until.tv_nsec + ns) % 1000000000;
	pthread_mutex_lock(&s->mu);
	while (s->n == 0 && pthread_cond_timedwait(&s->some, &s->mu, &until) == 0)
		;
	int ok = s->n > 0;
	if (ok) {
		*out = s->list[0];
		for (int i = 1; i < s->n; i++)
			s->list[i - 1] = s->list[i];
		s->n--;
	}
	pthread_mutex_unlock(&s->mu);
	return ok;
}

int gw_test_poll(uint64_t gate) { return __atomic_load_n((int32_t *)(uintptr_t)gate, __ATOMIC_SEQ_CST); }

int64_t gw_test_call(void *f, int64_t a, int64_t b, int64_t c) { return ((int64_t(*)(int64_t, int64_t, int64_t))f)(a, b, c); }

int gw_cuda_forked(void); // of package nvlink
int gw_cuda_enter(void);

int gw_test_in_child(void)
{
	pid_t child = fork();
	if (child == 0) {
		alarm(20); // a child that hangs is a failure, too
		_exit(!gw_cuda_forked() ? 1 : gw_cuda_enter() ? 2 : 0);
	}
	int status = -1;
	while (child > 0 && waitpid(child, &status, 0) < 0)
		;
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
