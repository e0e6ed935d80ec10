package mover_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/mover"
)

// TestARingOfOnePageLessThanItWantedHasTwoSlots: two chunks of an odd number of pages take a page more
// than they have bytes. The batch before it, which is held, has the rest of the arena.
func TestARingOfOnePageLessThanItWantedHasTwoSlots(t *testing.T) {
	f := newFabric(t, mover.Options{Chunk: 16 << 10, Budget: 256 << 10}, "bus", "bus")
	f.family.Hold = make(chan struct{})
	want := pattern(5)
	f.write(0, want)
	first, err := f.ring(0, []int{1}, 9*4096)
	require.NoError(t, err)
	staged := func(bytes uint64) {
		require.Eventually(t, func() bool { return f.m.Stats().InFlight == bytes }, 10*time.Second, time.Millisecond)
	}
	staged(9 * 4096)
	second, err := f.ring(0, []int{1}, 7*4096)
	require.NoError(t, err)
	staged(16 * 4096)
	close(f.family.Hold)
	for _, p := range append(first, second...) {
		require.NoError(t, p.Wait(ctx))
	}
	require.True(t, bytes.Equal(want[:9*4096], f.read(1)[:9*4096]))
}
