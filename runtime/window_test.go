package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

type stopped struct {
	devices.Goroutines
	now uint64
}

func (s *stopped) Now() uint64 { return s.now }

// TestAWindowLearnsHowLongCommandsTake: those of less than a nanosecond leave the most room, and one that waits for the program does not narrow it for long.
func TestAWindowLearnsHowLongCommandsTake(t *testing.T) {
	clock := &stopped{now: 1}
	w := &window{ws: &windows{by: clock}, inOrder: true, line: []*held{{}}}
	end := func(commands int, after uint64) {
		clock.now += after
		w.flying = make([]mem.Point, commands) // which have ended
		w.sweep()
	}
	end(0, 0)
	for range 100 {
		end(4, 1)
		require.Equal(t, mostRoom, w.room())
	}
	end(4, 10_000_000_000)
	for range 50 {
		end(4, 4_000)
	}
	require.Equal(t, mostRoom, w.room())
	for range 50 {
		end(1, 1_000_000)
	}
	require.Equal(t, leastRoom, w.room())
}
