"""pyopencl.array: arithmetic, reductions, scans, slices, on every device in turn."""

from common import cl, few, house, np, rng, same
import pyopencl.array as cla
import pyopencl.clmath as clmath

ctx, queues = house()
N = 1007 if few else 10007
x = rng.integers(-1000, 1000, N).astype(np.int32)
y = rng.integers(1, 1000, N).astype(np.int32)
f = rng.random(N, dtype=np.float32)

for q in queues:
    a, b, c = cla.to_device(q, x), cla.to_device(q, y), cla.to_device(q, f)
    same((a + b).get(), x + y)
    same((a * b - 3 * a).get(), x * y - 3 * x)
    same((2 * c + 1).get(), 2 * f + np.float32(1))
    same(a[100:200].get(), x[100:200])
    same((-a).get(), -x)
    a += b
    same(a.get(), x + y)
    same(cla.sum(b).get(), y.sum())
    same(cla.max(b).get(), y.max())
    same(cla.zeros(q, 1000, np.float32).get(), np.zeros(1000, np.float32))
    same(cla.arange(q, 1000, dtype=np.int32).get(), np.arange(1000))
    np.testing.assert_allclose(clmath.sqrt(c).get(), np.sqrt(f), rtol=1e-5)
    np.testing.assert_allclose(cla.dot(c, c).get(), np.dot(f, f), rtol=1e-4)

# An array that is used on one device after the other.
a = cla.to_device(queues[0], x)
want = x.copy()
for i, q in enumerate(queues * 3):
    a = a.with_queue(q)
    a += np.int32(i)
    want += np.int32(i)
same(a.get(), want)
print("OK")
