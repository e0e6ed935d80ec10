"""pyopencl's memory pools: blocks are held, used again and given back."""

from common import cl, few, house, np, same
import pyopencl.array as cla
from pyopencl.tools import ImmediateAllocator, MemoryPool

ctx, queues = house()
N = 100 if few else 1000
q = queues[0]
pool = MemoryPool(ImmediateAllocator(q))
for round in range(4):
    arrays = []
    for i in range(1, 12):
        a = cla.empty(q, i * N, np.int32, allocator=pool)
        a.fill(round * 100 + i)
        arrays.append(a)
    for i, a in enumerate(arrays, 1):
        same(a.get(), np.full(i * N, round * 100 + i, np.int32))
    assert pool.active_blocks == 11
    del arrays, a
assert pool.active_blocks == 0
assert pool.held_blocks > 0
pool.stop_holding()
assert pool.held_blocks == 0
b = cla.arange(q, 5000, dtype=np.float32, allocator=pool)
same((b * 2).get(), np.arange(5000, dtype=np.float32) * 2)
print("OK")
