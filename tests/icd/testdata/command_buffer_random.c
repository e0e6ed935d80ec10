/* Random command buffers, on queues in order and out of order of all devices, replayed in between other commands, on other queues,
 * updated and remapped: every byte is what the commands enqueued one by one leave, as a copy of the buffers on the host has it.
 *
 *   command_buffer_random PLATFORM DEVICES SEED ROUNDS
 */
#include "command_buffer.h"

#define BUFS 4
#define N 64
#define MOST 24

static const char *source = "kernel void blend(global int *y, global const int *x, int n) { size_t i = get_global_id(0); y[i] = 3 * y[i] + x[(i + n) % 64]; }\n"
			    "kernel void fit(global int *y, local int *l, int n) { size_t i = get_local_id(0); l[i] = y[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
			    "	y[get_global_id(0)] = l[get_local_size(0) - 1 - i] + n; }\n";

static unsigned long long seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

enum { MIX, FIT, COPY, RECT, FILL, BARRIER, KINDS };

/* What a command does, for us and for the model. */
struct op {
	int kind, y, x, n, from, size, local, q;
	cl_mutable_command_khr handle;
};

static struct house *h;
static cl_kernel mix, fit;
static cl_mem mem[BUFS];
static int model[BUFS][N];
static cl_command_queue queues[2 * MOST_DEVICES], spare[2 * MOST_DEVICES];
static cl_uint nq;

/* What the op leaves in the model. */
static void apply(const struct op *o)
{
	int *y = model[o->y], *x = model[o->x], was[N];
	memcpy(was, y, sizeof was);
	switch (o->kind) {
	case MIX:
		for (int i = o->from; i < o->from + o->size; i++)
			y[i] = (int)(3u * (unsigned)y[i] + (unsigned)x[(i + o->n) % N]);
		break;
	case FIT:
		for (int i = o->from; i < o->from + o->size; i++) {
			int in = (i - o->from) % o->local;
			y[i] = (int)((unsigned)was[i - in + o->local - 1 - in] + (unsigned)o->n);
		}
		break;
	case COPY:
		memcpy(y + o->from, x, o->size * sizeof *y);
		break;
	case RECT:
		for (int row = 0; row < 4; row++)
			memcpy(y + row * 16 + o->n, x + row * 8, 8 * sizeof *y);
		break;
	case FILL:
		for (int i = o->from; i < o->from + o->size; i++)
			y[i] = o->n;
	}
}

static void draw(struct op *o)
{
	*o = (struct op){.kind = rnd(KINDS), .y = rnd(BUFS), .x = rnd(BUFS), .n = rnd(8), .local = 1 << rnd(4), .q = rnd(nq)};
	if (o->x == o->y)
		o->x = (o->y + 1) % BUFS;
	o->size = 8 * (1 + rnd(N / 8));
	o->from = 8 * rnd((N - o->size) / 8 + 1);
}

/* Records the op. */
static cl_sync_point_khr record(cl_command_buffer_khr b, struct op *o, const cl_sync_point_khr *after, cl_uint n)
{
	cl_sync_point_khr p;
	cl_command_queue q = queues[o->q];
	size_t from = o->from, size = o->size, local = o->local, so[3] = {0}, to[3] = {o->n * 4, 0, 0}, region[3] = {32, 4, 1};
	const cl_sync_point_khr *list = n ? after : NULL;
	o->handle = NULL;
	switch (o->kind) {
	case MIX:
		OK(clSetKernelArg(mix, 0, sizeof(cl_mem), &mem[o->y]));
		OK(clSetKernelArg(mix, 1, sizeof(cl_mem), &mem[o->x]));
		OK(clSetKernelArg(mix, 2, sizeof o->n, &o->n));
		OK(clCommandNDRangeKernelKHR(b, q, NULL, mix, 1, &from, &size, NULL, n, list, &p, &o->handle));
		break;
	case FIT:
		OK(clSetKernelArg(fit, 0, sizeof(cl_mem), &mem[o->y]));
		OK(clSetKernelArg(fit, 1, local * sizeof(int), NULL));
		OK(clSetKernelArg(fit, 2, sizeof o->n, &o->n));
		OK(clCommandNDRangeKernelKHR(b, q, NULL, fit, 1, &from, &size, &local, n, list, &p, &o->handle));
		break;
	case COPY:
		OK(clCommandCopyBufferKHR(b, q, NULL, mem[o->x], mem[o->y], 0, from * 4, size * 4, n, list, &p, NULL));
		break;
	case RECT:
		OK(clCommandCopyBufferRectKHR(b, q, NULL, mem[o->x], mem[o->y], so, to, region, 32, 0, 64, 0, n, list, &p, NULL));
		break;
	case FILL:
		OK(clCommandFillBufferKHR(b, q, NULL, mem[o->y], &o->n, 4, from * 4, size * 4, n, list, &p, NULL));
		break;
	case BARRIER:
		OK(clCommandBarrierWithWaitListKHR(b, q, NULL, n, list, &p, NULL));
	}
	return p;
}

/* Changes a launch, in the list and in the command buffer. */
static void change(cl_command_buffer_khr b, struct op *o, int buffers)
{
	cl_mutable_dispatch_arg_khr args[3];
	cl_mutable_dispatch_config_khr c = {.command = o->handle, .arg_list = args};
	size_t from, size, local;
	switch (rnd(4)) {
	case 0: /* a value */
		o->n = rnd(8);
		args[c.num_args++] = (cl_mutable_dispatch_arg_khr){2, sizeof o->n, &o->n};
		break;
	case 1: /* sizes */
		o->size = 8 * (1 + rnd(N / 8));
		o->from = 8 * rnd((N - o->size) / 8 + 1);
		from = o->from, size = o->size;
		c.global_work_offset = &from, c.global_work_size = &size;
		break;
	case 2: /* a buffer */
		if (!buffers)
			return;
		o->y = (o->x + 1 + rnd(BUFS - 1)) % BUFS;
		args[c.num_args++] = (cl_mutable_dispatch_arg_khr){0, sizeof(cl_mem), &mem[o->y]};
		break;
	default: /* the work-group */
		if (o->kind != FIT)
			return;
		o->local = 1 << rnd(4);
		local = o->local, c.local_work_size = &local;
		args[c.num_args++] = (cl_mutable_dispatch_arg_khr){1, local * sizeof(int), NULL};
	}
	if (!c.num_args)
		c.arg_list = NULL;
	OK(update_one(b, c));
}

static void check(cl_uint q, unsigned long long round)
{
	for (int i = 0; i < BUFS; i++) {
		int got[N];
		OK(clEnqueueReadBuffer(queues[q], mem[i], CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
		for (int k = 0; k < N; k++)
			if (got[k] != model[i][k]) {
				fprintf(stderr, "round %llu: buffer %d [%d] is %d, not %d\n", round, i, k, got[k], model[i][k]);
				exit(1);
			}
	}
}

/* Records a list, each command behind those that it conflicts with; behind all where updates may change what it uses. */
static cl_command_buffer_khr recorded(struct op *list, int n, int all)
{
	cl_int err;
	cl_properties props[] = {CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_MUTABLE_KHR | CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
	cl_command_buffer_khr b = clCreateCommandBufferKHR(nq, queues, props, &err);
	OK(err);
	cl_sync_point_khr p[MOST], after[MOST];
	for (int i = 0; i < n; i++) {
		struct op *o = &list[i];
		draw(o);
		cl_uint waits = 0;
		for (int k = 0; k < i; k++)
			if (all || o->y == list[k].y || o->y == list[k].x || o->x == list[k].y || o->kind == BARRIER)
				after[waits++] = p[k];
		p[i] = record(b, o, after, o->kind == BARRIER && rnd(2) ? 0 : waits);
	}
	OK(clFinalizeCommandBufferKHR(b));
	return b;
}

/* The same command buffer on queues of devices that are dealt anew. */
static cl_command_buffer_khr remapped(cl_command_buffer_khr old, struct op *list, int n, cl_uint *wide)
{
	cl_int err;
	cl_command_queue to[2 * MOST_DEVICES];
	cl_mutable_command_khr in[MOST], out[MOST];
	cl_uint count = 0, by_itself = rnd(2), m = *wide = by_itself ? 1 + rnd(nq) : *wide;
	for (cl_uint i = 0; i < m; i++)
		to[i] = queues[rnd(nq)];
	for (int i = 0; i < n; i++)
		if (list[i].handle)
			in[count++] = list[i].handle;
	cl_command_buffer_khr b = clRemapCommandBufferKHR(old, by_itself, m, to, count, count ? in : NULL, count ? out : NULL, &err);
	OK(err);
	OK(clReleaseCommandBufferKHR(old));
	count = 0;
	for (int i = 0; i < n; i++)
		if (list[i].handle)
			list[i].handle = out[count++];
	return b;
}

static void round_of(unsigned long long round)
{
	static struct op list[MOST];
	int n = 1 + rnd(MOST), all = rnd(2), moved = 0;
	cl_command_buffer_khr b = recorded(list, n, all);
	cl_uint wide = nq;
	cl_event last = NULL, gate = NULL;
	cl_int err;
	for (int replay = 0; replay < 6; replay++) {
		for (int i = rnd(3); i > 0; i--) {
			struct op *o = &list[rnd(n)];
			if (o->handle)
				change(b, o, all);
		}
		if (rnd(4) == 0)
			b = remapped(b, list, n, &wide), moved = 1;
		if (!gate && rnd(3) == 0) {
			gate = clCreateUserEvent(h->ctx, &err);
			if (last)
				OK(clReleaseEvent(last));
			last = gate;
			OK(clRetainEvent(last));
		}
		cl_event e;
		cl_command_queue on[2 * MOST_DEVICES];
		for (cl_uint i = 0; i < nq; i++)
			on[i] = rnd(2) ? queues[i ^ 1] : spare[i]; /* of the same device, in another order, or in the same */
		int replaced = !moved && rnd(2);
		OK(clEnqueueCommandBufferKHR(replaced ? nq : 0, replaced ? on : NULL, b, last != NULL, last ? &last : NULL, &e));
		for (int i = 0; i < n; i++)
			apply(&list[i]);
		if (last)
			OK(clReleaseEvent(last));
		last = e;
		if (rnd(2)) { /* a command of another kind in between */
			struct op o;
			draw(&o);
			o.kind = FILL;
			OK(clEnqueueFillBuffer(queues[o.q], mem[o.y], &o.n, 4, o.from * 4, o.size * 4, 1, &last, &e));
			apply(&o);
			OK(clReleaseEvent(last));
			last = e;
		}
		if (gate && rnd(2)) {
			OK(clSetUserEventStatus(gate, CL_COMPLETE));
			OK(clReleaseEvent(gate));
			gate = NULL;
		}
	}
	if (gate) {
		OK(clSetUserEventStatus(gate, CL_COMPLETE));
		OK(clReleaseEvent(gate));
	}
	OK(clReleaseCommandBufferKHR(b));
	OK(clWaitForEvents(1, &last));
	OK(clReleaseEvent(last));
	check(rnd(nq), round);
}

int main(int argc, char **argv)
{
	cl_int err;
	h = house(argc > 1 ? argv[1] : "Godwit", argc > 2 ? atoi(argv[2]) : 0, 0);
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	unsigned long long rounds = argc > 4 ? strtoull(argv[4], NULL, 10) : 100;
	find_command_buffers(h->dev[0]);
	cl_queue_properties props[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	nq = 2 * h->n;
	for (cl_uint i = 0; i < nq; i++) {
		queues[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[i / 2], i % 2 ? props : NULL, &err);
		OK(err);
		spare[i] = clCreateCommandQueueWithProperties(h->ctx, h->dev[i / 2], i % 2 ? props : NULL, &err);
		OK(err);
	}
	cl_program p = built(h->ctx, source);
	mix = kernel(p, "blend"), fit = kernel(p, "fit");
	for (int i = 0; i < BUFS; i++)
		mem[i] = buffer(h->ctx, CL_MEM_COPY_HOST_PTR, sizeof model[i], model[i]);
	for (unsigned long long i = 0; i < rounds; i++)
		round_of(i);
	puts("OK");
	return 0;
}
