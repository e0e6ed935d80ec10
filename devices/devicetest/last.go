package devicetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// testEndsLast: a command ends only after everything it waits for, also when it
// ends badly, so that what comes behind it need not wait for any of that. What
// is slow here is of each family: this device's, another's, the user's.
func testEndsLast(e *env) {
	other := e.on(e.openDevice())
	for _, ooo := range []bool{false, true} {
		for _, early := range []bool{true, false} {
			q, side, far := e.queue(devices.QueueOptions{Name: "q", OutOfOrder: ooo}), e.outOfOrder(), other.outOfOrder()
			line, b := users(), e.alloc(64)
			for i := range 3 {
				gate, bad := line.Next(), line.Next()
				open := sync.OnceFunc(func() { line.End(gate, nil) })
				fail := sync.OnceFunc(func() { line.End(bad, errTest) })
				e.t.Cleanup(func() { fail(); open() }) // a test that fails must not hang
				if early {
					fail()
				}
				slow := [...]mem.Point{e.fill(side, b, 0, 64, []byte{1}, data(gate)), other.submit(far, marker(), data(gate)), gate}[i]
				lost := e.submit(side, marker(), data(bad))
				mixed := e.fill(q, b, 0, 64, []byte{2}, data(lost), data(bad), order(slow))
				behind := e.fill(q, b, 0, 64, []byte{3}, order(mixed))
				fail()
				require.ErrorIs(e.t, e.failed(lost), errTest)
				e.pending(mixed, behind)
				open()
				require.ErrorIs(e.t, e.failed(mixed), errTest)
				require.True(e.t, slow.Reached(), "%v ended before %v", mixed, slow)
				e.wait(q, behind)
			}
		}
	}
}

// pending gives points a moment to end, and fails where one does.
func (e *env) pending(points ...mem.Point) {
	ctx, cancel := context.WithTimeout(e.context(), 5*time.Millisecond)
	defer cancel()
	for _, p := range points {
		require.ErrorIs(e.t, p.Wait(ctx), context.DeadlineExceeded, "%v ended before what it waits for", p)
	}
}
