package runtime

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
)

// others is the bit that gates share beyond the first 63.
const others gateSet = 1 << 63

// TestTheLastBitStandsForAsLongAsAGateIsClosed: gates beyond the first 63 are opened by one
// goroutine while another shuts the next.
func TestTheLastBitStandsForAsLongAsAGateIsClosed(t *testing.T) {
	const rounds = 20_000
	var g gates
	for range 63 {
		g.shut(false)
	}
	closed := func() bool { return gateSet(g.closed.Load())&others != 0 }
	var begun, ended atomic.Int64
	var opener sync.WaitGroup
	defer begun.Store(rounds) // where a round fails
	opener.Go(func() {
		for i := int64(1); i <= rounds; i++ {
			for begun.Load() < i {
				goruntime.Gosched()
			}
			g.open(others)
			ended.Store(i)
		}
	})
	for i := int64(1); i <= rounds; i++ {
		require.Equal(t, others, g.shut(i%2 == 0))
		begun.Store(i)
		for range i % 64 { // so that both are as late as the other now and then
			_ = begun.Load()
		}
		g.shut(i%3 == 0)
		for n := 0; n < 20 || ended.Load() < i; n++ {
			require.True(t, closed(), "round %d: a gate is closed", i)
			if n > 20 {
				goruntime.Gosched()
			}
		}
		require.True(t, closed(), "round %d: a gate is closed", i)
		g.open(others)
		require.False(t, closed(), "round %d: none is closed", i)
	}
	opener.Wait()
}

// TestAHostCallThatHasJustEndedIsNoUserEvent: what hangs on a call waits for it, and where it
// hangs on a user event the enqueue fails. The call may end while that is being found out.
func TestAHostCallThatHasJustEndedIsNoUserEvent(t *testing.T) {
	var g gates
	for range 63 {
		call := g.shut(true)
		seen := gateSet(g.closed.Load())
		require.Equal(t, eviction.OnCall, g.kind(seen))
		g.open(call)
		require.Equal(t, eviction.OnCall, g.kind(seen), "the call has ended since")
	}
	require.Equal(t, eviction.Goes, g.kind(gateSet(g.closed.Load())))
	for range 63 { // their bits serve user events now
		g.shut(false)
	}
	require.Equal(t, eviction.Hangs, g.kind(gateSet(g.closed.Load())))

	var full gates
	for range 63 {
		full.shut(false)
	}
	call, user := full.shut(true), full.shut(false) // the last bit stands for both
	require.Equal(t, eviction.Hangs, full.kind(call|user))
	full.openUser(user)
	require.Equal(t, eviction.OnCall, full.kind(call))
	full.open(call)
	require.Equal(t, others, full.shut(true))
	require.Equal(t, eviction.OnCall, full.kind(others), "a call alone again")
}
