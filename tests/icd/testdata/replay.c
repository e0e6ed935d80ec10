/* What a command costs in a command buffer, beside an enqueue of its own: time of the calls, and until all has ended, in
 * microseconds a command. Medians of turns that alternate.
 *
 *   replay [PLATFORM [DEVICES [COMMANDS]]]
 */
#include "command_buffer.h"

#define TURNS 41

static const char *source = "kernel void k(global int *y, global const int *x, int n) { y[get_global_id(0)] = x[get_global_id(0)] + n; }";

int main(int argc, char **argv)
{
	struct house *h = house(argc > 1 ? argv[1] : "Godwit", argc > 2 ? atoi(argv[2]) : 1, 0);
	int count = argc > 3 ? atoi(argv[3]) : 200;
	find_command_buffers(h->dev[0]);
	cl_kernel k = kernel(built(h->ctx, source), "k");
	cl_int err;
	cl_mem m[2] = {buffer(h->ctx, 0, 256, NULL), buffer(h->ctx, 0, 256, NULL)};
	int zero = 0;
	for (int i = 0; i < 2; i++)
		OK(clEnqueueFillBuffer(h->q[0], m[i], &zero, 4, 0, 256, 0, NULL, NULL));
	cl_properties props[] = {0x1293, CL_COMMAND_BUFFER_MUTABLE_KHR | CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
	cl_command_buffer_khr b = clCreateCommandBufferKHR(h->n, h->q, props, &err);
	OK(err);
	size_t size = 64, local = 64;
	cl_sync_point_khr p = 0;
	cl_mutable_command_khr *handle = calloc(count, sizeof *handle);
#define SET(i)                                                                \
	do {                                                                  \
		OK(clSetKernelArg(k, 0, sizeof(cl_mem), &m[(i) % 2]));        \
		OK(clSetKernelArg(k, 1, sizeof(cl_mem), &m[1 - (i) % 2]));    \
		OK(clSetKernelArg(k, 2, sizeof(int), &(i)));                  \
	} while (0)
	for (int i = 0; i < count; i++) {
		SET(i);
		OK(clCommandNDRangeKernelKHR(b, h->q[i * h->n / count], NULL, k, 1, NULL, &size, &local, p != 0, p ? &p : NULL, &p, &handle[i]));
	}
	OK(clFinalizeCommandBufferKHR(b));
	cl_mutable_dispatch_arg_khr *arg = calloc(count, sizeof *arg);
	cl_mutable_dispatch_config_khr *config = calloc(count, sizeof *config);
	cl_uint *type = calloc(count, sizeof *type);
	const void **all = calloc(count, sizeof *all);
	double call[3][TURNS], whole[3][TURNS], update[TURNS];
	for (int turn = -2; turn < TURNS; turn++)
		for (int way = 0; way < 3; way++) {
			for (cl_uint i = 0; i < h->n; i++)
				OK(clFinish(h->q[i]));
			if (way == 2) { /* with another value in each */
				for (int i = 0; i < count; i++) {
					arg[i] = (cl_mutable_dispatch_arg_khr){2, sizeof turn, &turn};
					config[i] = (cl_mutable_dispatch_config_khr){.command = handle[i], .num_args = 1, .arg_list = &arg[i]};
					all[i] = &config[i];
				}
				double t = now();
				OK(clUpdateMutableCommandsKHR(b, count, type, all));
				if (turn >= 0)
					update[turn] = now() - t;
			}
			double start = now();
			if (way)
				OK(clEnqueueCommandBufferKHR(0, NULL, b, 0, NULL, NULL));
			else
				for (int i = 0; i < count; i++) {
					SET(i);
					OK(clEnqueueNDRangeKernel(h->q[i * h->n / count], k, 1, NULL, &size, &local, 0, NULL, NULL));
				}
			double called = now();
			for (cl_uint i = 0; i < h->n; i++)
				OK(clFinish(h->q[i]));
			if (turn >= 0)
				call[way][turn] = called - start, whole[way][turn] = now() - start;
		}
	fprintf(stderr, "%s\n", h->platform);
	const char *name[] = {"enqueue", "replay", "updated"};
	printf("{");
	for (int way = 0; way < 3; way++)
		printf("\"%s_us\": %.4f, \"%s_finish_us\": %.4f, ", name[way], median(call[way], TURNS) * 1e6 / count, name[way],
		       median(whole[way], TURNS) * 1e6 / count);
	printf("\"update_us\": %.4f}\n", median(update, TURNS) * 1e6 / count);
	return 0;
}
