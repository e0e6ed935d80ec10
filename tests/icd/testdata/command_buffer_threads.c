/* Threads that call whatever they like with command buffers, queues of another context, and objects that another thread
 * releases meanwhile: each call is answered, by success or an error, and all of it ends.
 *
 *   command_buffer_threads [PLATFORM [DEVICES [SEED [CALLS]]]]
 */
#include "command_buffer.h"
#include <pthread.h>

#define POOL 24
#define THREADS 4

static struct house *h, *other;
static cl_command_buffer_khr buffers[POOL];
static cl_mutable_command_khr commands[POOL];
static cl_mem mem[POOL];
static cl_event gates[POOL];
static cl_kernel kernels[4];
static unsigned long seed = 1, calls = 20000, done;
static __thread unsigned long long state;

static unsigned rnd(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

/* Puts an object into a pool, and gives back the one before it. */
#define REPLACE(place, with) __atomic_exchange_n(&(place), with, __ATOMIC_SEQ_CST)

static cl_command_queue queue(void)
{
	switch (rnd(12)) {
	case 0: return NULL;
	case 1: return other->q[0];
	case 2: return (cl_command_queue)mem[rnd(POOL)];
	}
	return h->q[rnd(h->n)];
}

/* Makes and releases objects. */
static cl_int replace_one(void)
{
	cl_int err = 0;
	unsigned i = rnd(POOL);
	cl_command_queue q[] = {queue(), queue(), queue()};
	cl_properties props[] = {CL_COMMAND_BUFFER_FLAGS_KHR, rnd(9), 0};
	switch (rnd(4)) {
	case 0: {
		cl_command_buffer_khr b = clCreateCommandBufferKHR(1 + rnd(3), q, rnd(4) ? props : NULL, &err);
		if (b && (b = REPLACE(buffers[i], b)))
			clReleaseCommandBufferKHR(b);
		return err;
	}
	case 1: {
		cl_command_buffer_khr b = REPLACE(buffers[i], NULL);
		return b ? clReleaseCommandBufferKHR(b) : 0;
	}
	case 2: {
		cl_mem m = REPLACE(mem[i], clCreateBuffer(h->ctx, 0, 256, NULL, &err));
		int v = i;
		clSetKernelArg(kernels[rnd(4)], 0, sizeof(cl_mem), &mem[rnd(POOL)]);
		clSetKernelArg(kernels[rnd(4)], 1, sizeof v, &v);
		return clReleaseMemObject(m);
	}
	}
	cl_event e = REPLACE(gates[i], clCreateUserEvent(h->ctx, &err));
	if (e) {
		clSetUserEventStatus(e, rnd(4) ? CL_COMPLETE : -1);
		clReleaseEvent(e);
	}
	return err;
}

static cl_int record_one(cl_command_buffer_khr b)
{
	cl_sync_point_khr p[3] = {rnd(6), rnd(6), 1}, out;
	cl_uint n = rnd(3);
	const cl_sync_point_khr *list = n && rnd(8) ? p : NULL;
	cl_mem x = mem[rnd(POOL)], y = mem[rnd(POOL)];
	cl_command_queue q = queue();
	size_t a[3] = {rnd(8), rnd(4), 0}, c[3] = {rnd(8), rnd(4), 0}, region[3] = {rnd(9), rnd(4), 1}, off = 8 * rnd(8), size = rnd(5) * 16, local = 1 << rnd(5);
	cl_mutable_command_khr handle;
	cl_int err;
	switch (rnd(5)) {
	case 0: return clCommandBarrierWithWaitListKHR(b, q, NULL, n, list, &out, NULL);
	case 1: return clCommandCopyBufferKHR(b, q, NULL, x, y, off, rnd(64), rnd(64), n, list, &out, NULL);
	case 2: return clCommandFillBufferKHR(b, q, NULL, x, &off, 1 << rnd(4), off, 8 * rnd(8), n, list, &out, NULL);
	case 3: return clCommandCopyBufferRectKHR(b, q, NULL, x, y, a, c, region, rnd(2) * 16, 0, rnd(2) * 16, 0, n, list, &out, NULL);
	}
	err = clCommandNDRangeKernelKHR(b, q, NULL, kernels[rnd(4)], 1, &off, &size, rnd(2) ? &local : NULL, n, list, &out, &handle);
	if (!err)
		commands[rnd(POOL)] = handle;
	return err;
}

static cl_int use_one(cl_command_buffer_khr b)
{
	cl_command_queue q[] = {queue(), queue(), queue()};
	cl_event gate = gates[rnd(POOL)], e = NULL;
	cl_mutable_command_khr c = commands[rnd(POOL)], copy;
	cl_mem m = mem[rnd(POOL)];
	int v = rnd(9), err;
	size_t size = rnd(5) * 16, local = 1 << rnd(5);
	char room[256];
	switch (rnd(6)) {
	case 0: return clFinalizeCommandBufferKHR(b);
	case 1:
	case 2:
		err = clEnqueueCommandBufferKHR(rnd(4) ? 0 : 1 + rnd(3), rnd(4) ? NULL : q, b, gate && rnd(2), gate && rnd(2) ? &gate : NULL, rnd(2) ? &e : NULL);
		if (e)
			clReleaseEvent(e);
		return err;
	case 3: {
		cl_mutable_dispatch_arg_khr args[] = {{1, sizeof v, &v}, {0, sizeof m, &m}};
		cl_uint n = rnd(3);
		return update_one(b, (cl_mutable_dispatch_config_khr){.command = c, .num_args = n, .arg_list = n ? args : NULL,
								      .global_work_size = rnd(2) ? &size : NULL, .local_work_size = rnd(3) ? NULL : &local});
	}
	case 4: {
		cl_uint n = rnd(2);
		cl_command_buffer_khr made = clRemapCommandBufferKHR(b, rnd(2), 1 + rnd(3), q, n, n ? &c : NULL, n ? &copy : NULL, &err);
		return made ? clReleaseCommandBufferKHR(made) : err;
	}
	}
	clGetMutableCommandInfoKHR(c, CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR + rnd(14), sizeof room, room, NULL);
	return clGetCommandBufferInfoKHR(b, CL_COMMAND_BUFFER_QUEUES_KHR + rnd(6), sizeof room, room, NULL);
}

static void *thread(void *number)
{
	state = seed * THREADS + (uintptr_t)number;
	for (unsigned long i = 0; i < calls; i++) {
		cl_command_buffer_khr b = buffers[rnd(POOL)];
		unsigned what = rnd(10);
		if ((what < 2 ? replace_one() : what < 6 ? record_one(b) : use_one(b)) == CL_SUCCESS)
			__atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
		if (i % 100 == 0) /* lest too much waits for too long */
			for (int k = 0; k < POOL; k++)
				if (gates[k])
					clSetUserEventStatus(gates[k], CL_COMPLETE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "Godwit";
	h = house(name, argc > 2 ? atoi(argv[2]) : 0, 0), other = house(name, 1, 0);
	seed = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
	calls = argc > 4 ? strtoul(argv[4], NULL, 10) : calls;
	find_command_buffers(h->dev[0]);
	cl_program p = built(h->ctx, "kernel void k(global int *y, int n) { y[get_global_id(0) % 64] += n; }");
	for (int i = 0; i < POOL; i++)
		mem[i] = buffer(h->ctx, 0, 256, NULL);
	for (int i = 0; i < 4; i++)
		kernels[i] = kernel(p, "k"); /* some lack arguments at first */
	pthread_t all[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&all[i], NULL, thread, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(all[i], NULL));
	for (int i = 0; i < POOL; i++)
		if (gates[i])
			clSetUserEventStatus(gates[i], CL_COMPLETE);
	for (cl_uint i = 0; i < h->n; i++)
		OK(clFinish(h->q[i]));
	CHECK(done > calls / 10);
	puts("OK");
	return 0;
}
