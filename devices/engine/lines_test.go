package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
)

// TestNoReadyCommandIsOvertakenForEver, whatever lies above and below it.
func TestNoReadyCommandIsOvertakenForEver(t *testing.T) {
	qs := map[devices.Priority]*Queue{}
	for p := devices.PriorityLow; p <= devices.PriorityHigh; p++ {
		qs[p] = &Queue{opts: devices.QueueOptions{Priority: p}}
	}
	var l lines
	for p := devices.PriorityLow; p <= devices.PriorityHigh; p++ {
		l.push(&record{q: qs[p]})
	}
	var last [devices.PriorityHigh + 2]int // by priority: when one was popped
	for i := 1; i <= 10*devices.MostOvertaken; i++ {
		p := l.pop().q.opts.Priority
		last[p+1] = i
		for of, at := range last {
			require.LessOrEqual(t, i-at, devices.MostOvertaken+2, "priority %d", of-1)
		}
		l.push(&record{q: qs[p]}) // there is always one more
	}
}
