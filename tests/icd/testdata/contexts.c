/* Contexts over one device that holds what one of them uses at once, and little more: each command needs memory that
 * others hold. First they take turns, then each has a thread. No call may fail for want of memory, and every word is
 * compared.
 *
 *   contexts [PLATFORM [CONTEXTS [ROUNDS]]]
 */
#include "common.h"
#include <pthread.h>

enum { ARGS = 8, BUFFERS = 12, WORDS = 64 << 10 };

static const char *source =
	"kernel void blend(global uint *y, global const uint *a, global const uint *b, global const uint *c, global const uint *d,"
	" global const uint *e, global const uint *f, global const uint *g) {"
	" size_t i = get_global_id(0); y[i] += a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + 1; }";

struct user {
	struct house *h;
	cl_kernel k;
	cl_mem m[BUFFERS];
	cl_uint word[BUFFERS]; /* each word of it */
	int rounds, from;
};

static void launch(struct user *u, int round)
{
	size_t n = WORDS;
	for (int i = 0; i < ARGS; i++) {
		int b = (round + i) % BUFFERS;
		OK(clSetKernelArg(u->k, i, sizeof(cl_mem), &u->m[b]));
		if (i > 0)
			u->word[round % BUFFERS] += u->word[b];
	}
	u->word[round % BUFFERS]++;
	OK(clEnqueueNDRangeKernel(u->h->q[0], u->k, 1, NULL, &n, NULL, 0, NULL, NULL));
}

static void compare(struct user *u)
{
	static __thread cl_uint got[WORDS];
	for (int b = 0; b < BUFFERS; b++) {
		OK(clEnqueueReadBuffer(u->h->q[0], u->m[b], CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
		for (int i = 0; i < WORDS; i++)
			CHECK(got[i] == u->word[b]);
	}
}

static void *run(void *p)
{
	struct user *u = p;
	for (int r = 0; r < u->rounds; r++)
		launch(u, u->from + r);
	compare(u);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 2, rounds = argc > 3 ? atoi(argv[3]) : 40;
	struct user all[16];
	pthread_t threads[16];
	CHECK(n > 0 && n <= 16);
	for (int i = 0; i < n; i++) {
		struct user *u = &all[i];
		memset(u, 0, sizeof *u);
		u->h = house(argc > 1 ? argv[1] : "Godwit", 1, 0);
		u->k = kernel(built(u->h->ctx, source), "blend");
		u->rounds = u->from = rounds;
		for (int b = 0; b < BUFFERS; b++) {
			u->m[b] = buffer(u->h->ctx, CL_MEM_READ_WRITE, WORDS * 4, NULL);
			OK(clEnqueueFillBuffer(u->h->q[0], u->m[b], &b, 4, 0, WORDS * 4, 0, NULL, NULL));
			u->word[b] = b;
		}
	}
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++)
			launch(&all[i], r);
	for (int i = 0; i < n; i++)
		compare(&all[i]);
	for (int i = 0; i < n; i++)
		OK(pthread_create(&threads[i], NULL, run, &all[i]));
	for (int i = 0; i < n; i++)
		OK(pthread_join(threads[i], NULL));
	puts("OK");
	return 0;
}
