package runtime_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/runtime"
)

// story is a fixed piece of work over two devices with copies in both
// directions and through sub-buffers, together with its model. Each act may be
// refused; then it has not happened.
type story struct {
	h     *house
	bufs  []*runtime.Buffer
	model [][]byte
	known [][]bool // bytes whose content is defined
}

func newStory(h *house) *story {
	s := &story{h: h}
	for range 3 {
		s.bufs = append(s.bufs, h.buffer(256, nil))
		s.model = append(s.model, make([]byte, 256))
		s.known = append(s.known, make([]bool, 256))
	}
	return s
}

func (s *story) fill(dev, buf int, v byte, from, to int) error {
	e, err := s.h.q[dev].EnqueueFill(soon(s.h.t), s.bufs[buf], []byte{v}, uint64(from), uint64(to-from))
	if err == nil {
		for i := from; i < to; i++ {
			s.model[buf][i], s.known[buf][i] = v, true
		}
		require.NoError(s.h.t, e.Release())
	}
	return err
}

func (s *story) copy(dev, src, dst, from, to int) error {
	_, err := s.h.q[dev].EnqueueCopy(soon(s.h.t), s.bufs[src], s.bufs[dst], uint64(from), uint64(from), uint64(to-from))
	if err == nil {
		copy(s.model[dst][from:to], s.model[src][from:to])
		copy(s.known[dst][from:to], s.known[src][from:to])
	}
	return err
}

// acts are run in order; each is one enqueue.
func (s *story) acts() []func() error {
	return []func() error{
		func() error { return s.fill(0, 0, 1, 0, 256) },
		func() error { return s.fill(1, 1, 2, 0, 256) },
		func() error { return s.copy(1, 0, 2, 64, 192) }, // 0 moves, 2 is new there
		func() error { return s.copy(0, 1, 0, 0, 128) },  // 1 moves
		func() error { return s.fill(1, 0, 3, 100, 140) },
		func() error { return s.copy(0, 2, 1, 64, 192) }, // 2 moves, in pieces
		func() error { return s.copy(1, 0, 1, 0, 256) },
		func() error {
			_, err := s.h.q[1].EnqueueMigrate(soon(s.h.t), s.bufs, 0)
			return err
		},
	}
}

// check compares every defined byte, read on each device.
func (s *story) check() {
	t := s.h.t
	require.NoError(t, s.h.c.Check())
	for dev := range s.h.q {
		for i, b := range s.bufs {
			got := make([]byte, 256)
			e, err := s.h.q[dev].EnqueueRead(soon(t), b, 0, got)
			require.NoError(t, err)
			s.h.done(e)
			for j, known := range s.known[i] {
				if known {
					require.Equal(t, s.model[i][j], got[j], "buffer %d byte %d on device %d", i, j, dev)
				}
			}
		}
	}
	require.NoError(t, s.h.c.Check())
}

func TestARefusedCommandGivesItsNewBlocksBack(t *testing.T) {
	devs, fs := failing(2)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx := soon(t)
	blocks := func() [2]int { return [2]int{h.c.Resource(1).Stats().Blocks, h.c.Resource(2).Stats().Blocks} }
	a, b := h.buffer(64, nil), h.buffer(64, nil)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, a, []byte{4}, 0, 64)))
	require.Equal(t, [2]int{1, 0}, blocks())
	refuse := func(cmd *devices.Command) error {
		if stepCopies(cmd) != nil {
			return nil
		}
		return errInjected
	}
	fs[1].refuse.Store(&refuse)
	_, err := h.q[1].EnqueueCopy(ctx, a, b, 0, 0, 64) // the copy of a is accepted, the command is not
	require.ErrorIs(t, err, errInjected)
	require.NoError(t, h.c.Check())
	require.Equal(t, [2]int{1, 1}, blocks(), "a is copied, nobody needs b there")
	seg, err := a.Segments()
	require.NoError(t, err)
	require.Equal(t, mem.SetOf(1, 2), seg[0].Valid, "a good copy")
	_, err = h.q[1].EnqueueFill(ctx, b, []byte{1}, 0, 64)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, [2]int{1, 1}, blocks())
	fs[1].refuse.Store(nil)
	got := make([]byte, 64)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, a, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{4}, 64), got)
	require.Equal(t, uint64(64), h.c.Stats().BytesMoved)
}

// TestFailingTheNthAllocationOrSubmitLeavesNoTrace fails one allocation or
// submission of the story, for every one there is: the act that meets it is
// refused, every other goes on, and the content is that of the acts that were
// accepted.
func TestFailingTheNthAllocationOrSubmitLeavesNoTrace(t *testing.T) {
	for _, kind := range []string{"exhausted", "fault", "submit"} {
		t.Run(kind, func(t *testing.T) {
			for n := 1; ; n++ {
				require.Less(t, n, 100)
				met := false
				t.Run(fmt.Sprint(n), func(t *testing.T) { met = failNth(t, kind, n) })
				if !met {
					require.Greater(t, n, 5, "the story is too short to test anything")
					return
				}
			}
		})
	}
}

func failNth(t *testing.T, kind string, n int) (met bool) {
	var layers []*resource.Fail
	devs, fs := failing(2)
	h := build(t, runtime.Options{
		NoEviction: true,
		Devices:    devs,
		Resource: func(_ mem.MemoryID, base mem.Resource) mem.Resource {
			layers = append(layers, resource.NewFail(base))
			return layers[len(layers)-1]
		},
	}, runtime.QueueOptions{})
	s := newStory(h)
	submits := 0
	hook := func(*devices.Command) error {
		if submits++; submits == n && kind == "submit" {
			return errInjected
		}
		return nil
	}
	for _, f := range fs {
		f.refuse.Store(&hook)
	}
	allocs := func() (calls uint64) {
		for _, l := range layers {
			calls += l.Calls()
		}
		return calls
	}
	refused := 0
	for i, act := range s.acts() {
		if kind != "submit" {
			left := uint64(n) - min(allocs(), uint64(n))
			for _, l := range layers { // whichever memory it comes to
				switch {
				case left == 0:
					l.At(0, mem.Ready, nil)
				case kind == "fault":
					l.At(left, mem.Exhausted, errInjected)
				default:
					l.At(left, mem.Exhausted, nil)
				}
			}
		}
		before := h.c.Stats().Commands
		blocks := [2]int{h.c.Resource(1).Stats().Blocks, h.c.Resource(2).Stats().Blocks}
		err := act()
		require.NoError(t, h.c.Check(), "act %d", i)
		if err == nil {
			continue
		}
		refused++
		require.Equal(t, before, h.c.Stats().Commands)
		if kind == "exhausted" {
			require.ErrorIs(t, err, mem.ErrNoMemory)
		} else {
			require.ErrorIs(t, err, errInjected)
		}
		if kind != "submit" {
			require.Equal(t, blocks, [2]int{h.c.Resource(1).Stats().Blocks, h.c.Resource(2).Stats().Blocks})
		}
	}
	for _, l := range layers {
		l.At(0, mem.Ready, nil)
	}
	for _, f := range fs {
		f.refuse.Store(nil)
	}
	s.check()
	require.LessOrEqual(t, refused, 1)
	return refused == 1
}
