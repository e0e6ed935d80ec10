/* clFFT on all devices: each transforms a batch of signals of one frequency each, and the next
 * transforms it back.
 *
 *   clfft [PLATFORM [DEVICES]]
 */
#include "common.h"
#include <clFFT.h>
#include <math.h>

enum { N = 64, BATCH = 4 };

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 0, 0);
	static float in[BATCH][N][2], got[BATCH][N][2];
	for (int b = 0; b < BATCH; b++)
		for (int i = 0; i < N; i++) {
			in[b][i][0] = cos(2 * M_PI * (b + 3) * i / N);
			in[b][i][1] = sin(2 * M_PI * (b + 3) * i / N);
		}
	clfftSetupData setup;
	static clfftPlanHandle plan[MOST_DEVICES]; /* one is for one device only */
	size_t n = N;
	OK(clfftInitSetupData(&setup));
	OK(clfftSetup(&setup));
	for (cl_uint i = 0; i < h->n; i++) {
		OK(clfftCreateDefaultPlan(&plan[i], h->ctx, CLFFT_1D, &n));
		OK(clfftSetPlanPrecision(plan[i], CLFFT_SINGLE));
		OK(clfftSetLayout(plan[i], CLFFT_COMPLEX_INTERLEAVED, CLFFT_COMPLEX_INTERLEAVED));
		OK(clfftSetResultLocation(plan[i], CLFFT_INPLACE));
		OK(clfftSetPlanBatchSize(plan[i], BATCH));
		OK(clfftBakePlan(plan[i], 1, &h->q[i], NULL, NULL));
	}
	cl_mem m = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof in, in);
	for (cl_uint i = 0; i < h->n; i++) {
		cl_command_queue q = h->q[i], other = h->q[(i + 1) % h->n];
		OK(clfftEnqueueTransform(plan[i], CLFFT_FORWARD, 1, &q, 0, NULL, NULL, &m, NULL, NULL));
		OK(clFinish(q));
		OK(clEnqueueReadBuffer(other, m, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
		for (int b = 0; b < BATCH; b++)
			for (int k = 0; k < N; k++)
				CHECK(fabs(got[b][k][0] - (k == b + 3 ? N : 0)) < 1e-3 && fabs(got[b][k][1]) < 1e-3);
		OK(clfftEnqueueTransform(plan[(i + 1) % h->n], CLFFT_BACKWARD, 1, &other, 0, NULL, NULL, &m, NULL, NULL));
		OK(clFinish(other));
		OK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
		for (int b = 0; b < BATCH; b++)
			for (int k = 0; k < N; k++)
				CHECK(fabs(got[b][k][0] - in[b][k][0]) < 1e-5 && fabs(got[b][k][1] - in[b][k][1]) < 1e-5);
	}
	for (cl_uint i = 0; i < h->n; i++)
		OK(clfftDestroyPlan(&plan[i]));
	OK(clfftTeardown());
	OK(clReleaseMemObject(m));
	leave(h);
	printf("OK\n");
	return 0;
}
