# pyopencl: a launch of a kernel on an array and a blocking read of it, in turns on all devices.
# Prints OK and the seconds of one round.
import time, numpy as np, pyopencl as cl
devices = cl.get_platforms()[0].get_devices()
ctx = cl.Context(devices)
queues = [cl.CommandQueue(ctx, d) for d in devices]
k = cl.Program(ctx, "kernel void next(global uint *a) { a[get_global_id(0)]++; }").build().next
got = np.zeros(16, np.uint32)
m = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=got)
k.set_arg(0, m)
t, n = [], 0
for i in range(20000):
    s = time.perf_counter()
    q = queues[i % len(queues)]
    cl.enqueue_nd_range_kernel(q, k, (16,), None)
    cl.enqueue_copy(q, got, m)
    t.append(time.perf_counter() - s)
assert (got == 20000).all()
print("OK %.7f" % sorted(t)[len(t) // 2])
