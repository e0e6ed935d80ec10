package engine

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParallelRunsEachPartOnceAndPassesAPanicOn(t *testing.T) {
	e := newEngine(nil, nil, EngineOptions{Name: "e", Workers: 4})
	defer func() { require.NoError(t, e.close()) }()
	var j job
	for _, parts := range []int{1, 2, 3, 1000} {
		ran := make([]atomic.Int32, parts)
		e.parallel(&j, parts, func(i int) { ran[i].Add(1) })
		for i := range ran {
			require.EqualValues(t, 1, ran[i].Load())
		}
	}
	require.PanicsWithValue(t, "part 7", func() {
		e.parallel(&j, 10, func(i int) {
			if i == 7 {
				panic("part 7")
			}
		})
	})
	var all sync.WaitGroup
	all.Add(4)
	require.PanicsWithValue(t, "everywhere", func() {
		e.parallel(&j, 4, func(int) { // on the caller's goroutine and each worker's
			all.Done()
			all.Wait()
			panic("everywhere")
		})
	})
}
