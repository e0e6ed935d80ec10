package mover

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// What has begun ends as it ends: a ring whose chunks have all been taken is under way, and
// one of which some are left is not to go on.
func TestARingWhoseChunksAreAllTakenIsNotAborted(t *testing.T) {
	cause := errors.New("aborted")
	for _, size := range []uint64{1000, 2000} {
		m := new(Mover)
		var l lanes
		l.init(m)
		x := &ring{m: m, size: size, chunk: 1000, n: 1}
		a := &arrival{x: x}
		x.dsts = []*arrival{a}
		l.jobs = []*ring{x}
		off, n, ok := l.take(x)
		require.True(t, ok)
		require.Equal(t, []uint64{0, 1000}, []uint64{off, n})
		m.Abort(cause)
		m.Abort(errors.New("of several the first counts"))
		_, _, ok = l.take(x)
		require.False(t, ok)
		require.Empty(t, l.jobs)
		if err := a.err.Load(); size == 1000 {
			require.Nil(t, err)
		} else {
			require.Equal(t, cause, *err)
		}
	}
}
