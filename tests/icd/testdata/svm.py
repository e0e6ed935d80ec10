"""Coarse-grained shared virtual memory: mapped, filled, copied, given to kernels."""

from common import cl, house, np, same

ctx, queues = house()
program = cl.Program(ctx, """
kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }
""").build()
N = 4096
for q in queues:
    assert q.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER
    memory = cl.csvm_empty(ctx, N, np.int32)
    svm = cl.SVM(memory)
    with svm.map_rw(q) as a:
        a[:] = np.arange(N)
    program.twice(q, (N,), None, svm)
    with svm.map_ro(q) as a:
        same(a, np.arange(N) * 2)
    cl.enqueue_svm_memfill(q, svm, np.int32(5)).wait()
    program.twice(q, (N,), None, svm)
    got = np.empty(N, np.int32)
    cl.enqueue_copy(q, got, svm)
    q.finish()
    same(got, np.full(N, 10, np.int32))

# One allocation, every device in turn.
memory = cl.csvm_empty(ctx, N, np.int32)
svm = cl.SVM(memory)
with svm.map_rw(queues[0]) as a:
    a[:] = 1
for q in queues:
    program.twice(q, (N,), None, svm)
    q.finish()
with svm.map_ro(queues[0]) as a:
    same(a, np.full(N, 2 ** len(queues), np.int32))
print("OK")
