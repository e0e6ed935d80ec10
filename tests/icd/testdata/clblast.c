/* CLBlast on all devices in turns: y = y + a x, and products of matrices of which the last one's
 * result is the next one's factor. Whole numbers that floats hold exactly are compared.
 *
 *   clblast [PLATFORM [DEVICES]]
 */
#include "common.h"
#include <clblast_c.h>

enum { N = 48 };

#define BLAS(call)                                                                     \
	do {                                                                           \
		CLBlastStatusCode st_ = (call);                                        \
		if (st_ != CLBlastSuccess) {                                           \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, st_); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 0, 0);
	static float a[N * N], b[N * N], want[N * N], next[N * N], got[N * N];
	for (int i = 0; i < N * N; i++) {
		a[i] = (i * 7 + i / N) % 3 - 1;
		b[i] = want[i] = (i * 5 + i / N) % 3 - 1;
	}
	cl_mem ma = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof a, a);
	cl_mem mb = buffer(h->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof b, b);
	cl_mem mc = buffer(h->ctx, CL_MEM_READ_WRITE, sizeof a, NULL);
	for (cl_uint i = 0; i < h->n; i++) {
		cl_command_queue q = h->q[i];
		cl_event e;
		BLAS(CLBlastSaxpy(N * N, 2, ma, 0, 1, mb, 0, 1, &q, &e));
		OK(clWaitForEvents(1, &e));
		OK(clReleaseEvent(e));
		for (int k = 0; k < N * N; k++)
			want[k] = want[k] + 2 * a[k];
	}
	for (cl_uint i = 0; i < 3 || i < h->n; i++) {
		cl_command_queue q = h->q[i % h->n];
		cl_event e;
		BLAS(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, N, N, N, 1, ma, 0, N, mb, 0, N, 0, mc, 0, N, &q, &e));
		OK(clWaitForEvents(1, &e));
		OK(clReleaseEvent(e));
		for (int r = 0; r < N; r++)
			for (int c = 0; c < N; c++) {
				float s = 0;
				for (int k = 0; k < N; k++)
					s += a[r * N + k] * want[k * N + c];
				next[r * N + c] = s;
			}
		memcpy(want, next, sizeof want);
		cl_mem t = mb;
		mb = mc, mc = t;
	}
	OK(clEnqueueReadBuffer(h->q[0], mb, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
	for (int i = 0; i < N * N; i++)
		if (got[i] != want[i]) {
			fprintf(stderr, "element %d is %g, not %g\n", i, got[i], want[i]);
			return 1;
		}
	BLAS(CLBlastClearCache());
	OK(clReleaseMemObject(ma));
	OK(clReleaseMemObject(mb));
	OK(clReleaseMemObject(mc));
	leave(h);
	printf("OK\n");
	return 0;
}
