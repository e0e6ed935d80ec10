"""User events, wait lists across queues, callbacks, profiling, a failed event."""

import threading
import time

from common import cl, house, np, same

ctx, queues = house(cl.command_queue_properties.PROFILING_ENABLE)
ooo = [cl.CommandQueue(ctx, d, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE) for d in ctx.devices]
N = 1024
done = cl.command_execution_status.COMPLETE
data = np.arange(N, dtype=np.int32)
buf = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, N * 4)

for qs in (queues, ooo):
    for q in qs:
        gate = cl.UserEvent(ctx)
        w = cl.enqueue_copy(q, buf, data, is_blocking=False, wait_for=[gate])
        got = np.zeros(N, np.int32)
        r = cl.enqueue_copy(qs[0], got, buf, is_blocking=False, wait_for=[w])
        q.flush()
        qs[0].flush()
        time.sleep(0.02)
        assert r.command_execution_status != done and w.command_execution_status != done
        same(got, np.zeros(N, np.int32))
        told = threading.Event()
        seen = []
        r.set_callback(done, lambda status: (seen.append(status), told.set()))
        gate.set_status(done)
        r.wait()
        same(got, data)
        assert told.wait(5) and seen == [done], seen
        assert w.command_execution_status == done

# A user event that fails takes with it what waits for it, and nothing else.
gate = cl.UserEvent(ctx)
w = cl.enqueue_copy(ooo[0], buf, data + 1, is_blocking=False, wait_for=[gate])
ooo[0].flush()
gate.set_status(-5)
try:
    w.wait()
    raise SystemExit("a wait for a command that failed succeeded")
except cl.RuntimeError:
    pass
assert w.command_execution_status < 0
cl.enqueue_copy(ooo[-1], buf, data + 2, is_blocking=False).wait()
got = np.empty(N, np.int32)
cl.enqueue_copy(queues[0], got, buf)
same(got, data + 2)

# Times ascend.
e = cl.enqueue_fill_buffer(queues[0], buf, np.int32(3), 0, N * 4)
e.wait()
p = e.profile
assert 0 < p.queued <= p.submit <= p.start <= p.end, (p.queued, p.submit, p.start, p.end)

# Markers and barriers.
m = cl.enqueue_marker(ooo[0], wait_for=[e])
cl.enqueue_barrier(ooo[0])
ooo[0].finish()
assert m.command_execution_status == done
print("OK")
