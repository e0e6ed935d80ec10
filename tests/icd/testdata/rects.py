"""Rectangles of two and three dimensions: read, written and copied."""

from common import cl, house, np, rng, same

ctx, queues = house()
rows, cols = 40, 64
want = rng.integers(0, 255, (rows, cols)).astype(np.uint8)
a = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=want)
b = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, rows * cols)
zero = np.zeros((rows, cols), np.uint8)

for turn, q in enumerate(queues):
    part = rng.integers(0, 255, (10, 16)).astype(np.uint8)
    cl.enqueue_copy(q, a, part, buffer_origin=(8, 3 + turn), host_origin=(0, 0), region=(16, 10),
                    buffer_pitches=(cols,), host_pitches=(16,))
    want[3 + turn:13 + turn, 8:24] = part
    got = np.zeros((12, 20), np.uint8)
    cl.enqueue_copy(q, got, a, buffer_origin=(4, 2), host_origin=(1, 1), region=(18, 10),
                    buffer_pitches=(cols,), host_pitches=(20,))
    check = np.zeros((12, 20), np.uint8)
    check[1:11, 1:19] = want[2:12, 4:22]
    same(got, check)

    cl.enqueue_copy(q, b, zero)
    cl.enqueue_copy(queues[turn - 1], b, a, src_origin=(5, 6), dst_origin=(30, 20), region=(30, 15),
                    src_pitches=(cols,), dst_pitches=(cols,)).wait()
    got = np.empty((rows, cols), np.uint8)
    cl.enqueue_copy(q, got, b)
    check = np.zeros((rows, cols), np.uint8)
    check[20:35, 30:60] = want[6:21, 5:35]
    same(got, check)

# Three dimensions: a cube out of a cube.
cube = rng.integers(0, 255, (8, 10, 12)).astype(np.uint8)
c = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=cube)
for q in queues:
    got = np.zeros((4, 5, 6), np.uint8)
    cl.enqueue_copy(q, got, c, buffer_origin=(2, 3, 1), host_origin=(0, 0, 0), region=(6, 5, 4),
                    buffer_pitches=(12, 120), host_pitches=(6, 30))
    same(got, cube[1:5, 3:8, 2:8])
print("OK")
