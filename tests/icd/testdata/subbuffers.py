"""Sub-buffers that overlap, written by kernels on different devices."""

from common import cl, house, np, rng, same

ctx, queues = house()
program = cl.Program(ctx, """
kernel void add(global int *a, int k) { a[get_global_id(0)] += k; }
kernel void total(global const int *a, global int *out, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += a[i];
  *out = s;
}
""").build()
add = program.add
N, align = 8192, 1024
want = rng.integers(0, 1000, N).astype(np.int32)
buf = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=want)

step = 0
for round in range(6):
    for i, q in enumerate(queues):
        step += 1
        lo = (step * 7 % 5) * align // 4
        n = (step % 3 + 1) * align // 4
        sub = buf.get_sub_region(lo * 4, n * 4)
        add(q, (n,), None, sub, np.int32(step)).wait()
        want[lo:lo + n] += step
    got = np.empty_like(want)
    cl.enqueue_copy(queues[round % len(queues)], got, buf)
    same(got, want)

# Read-only use of one half while another device writes the other half.
low, high = buf.get_sub_region(0, N * 2), buf.get_sub_region(N * 2, N * 2)
out = cl.Buffer(ctx, cl.mem_flags.WRITE_ONLY, 4)
program.total(queues[0], (1,), None, low, out, np.int32(N // 2))
add(queues[-1], (N // 2,), None, high, np.int32(9)).wait()
want[N // 2:] += 9
sum = np.empty(1, np.int32)
cl.enqueue_copy(queues[0], sum, out)
same(sum[0], want[:N // 2].sum())
got = np.empty_like(want)
cl.enqueue_copy(queues[-1], got, buf)
same(got, want)
assert low.size == N * 2 and low.offset == 0 and high.offset == N * 2
print("OK")
