//go:build cgo

package nvlink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// TestAForkedChildIsRefused: the library's threads are not in it.
func TestAForkedChildIsRefused(t *testing.T) {
	t.Setenv("GODWIT_FAKE_GPUS", "2")
	e, err := Open(context.Background(), options(2))
	require.NoError(t, err)
	require.Empty(t, fake.InChild())
	require.NoError(t, e.Err(), "the parent goes on")
	require.NoError(t, e.Close())
	require.Empty(t, fake.Violations())
}

func TestEveryCallFailsInTurn(t *testing.T) {
	t.Setenv("GODWIT_FAKE_GPUS", "2")
	for _, times := range []int{1, 2, 1000} {
		reached, step := 0, 5 // in CI some of the calls, in a soak every one
		if os.Getenv("GODWIT_SOAK") != "" {
			step = 1
		}
		for nth := times % 5; ; nth += step {
			fake.Fail(nth, times)
			fake.Slow(2 * time.Millisecond)
			aLife(t)
			calls := fake.Calls()
			fake.Fail(0, 0)
			fake.Slow(0)
			fake.Revive(0)
			fake.Revive(1)
			require.Empty(t, fake.Violations(), "call %d and %d more", nth, times-1)
			if reached = max(reached, calls); calls < nth {
				break
			}
		}
		require.Greater(t, reached, 100)
	}
}

// TestGPUsAreJoinedBothWaysOrNot, whatever CUDA answers.
func TestGPUsAreJoinedBothWaysOrNot(t *testing.T) {
	t.Setenv("GODWIT_FAKE_GPUS", "2")
	defer fake.Fail(0, 0)
	joined := 0
	for nth, more := 1, true; more; nth++ {
		fake.Fail(nth, 1)
		e, err := Open(context.Background(), options(2))
		if more = fake.Calls() >= nth; err != nil {
			continue
		}
		there, back := e.Joined(0, 1), e.Joined(1, 0)
		require.Equal(t, there == nil, back == nil, "call %d: %v, %v", nth, there, back)
		if there == nil {
			joined++
			fake.Fail(0, 0)
			require.NoError(t, e.Connect(context.Background(), 0, 1))
		}
		require.NoError(t, e.Close())
	}
	require.Positive(t, joined)
}

// aLife opens an engine, copies, and gives all back, as far as it gets.
func aLife(t *testing.T) {
	ctx := context.Background()
	e, err := Open(ctx, options(2))
	if err != nil {
		return
	}
	sink := fake.NewSink()
	defer sink.Free()
	defer func() { _ = e.Close() }()
	var windows [2]*Window
	var seen [2][]byte
	for i := range windows {
		w, err := e.NewWindow(i, large)
		if err != nil {
			return
		}
		defer w.Release()
		windows[i] = w
		fd, err := w.Export()
		if err != nil {
			return
		}
		seen[i], err = fake.Map(fd, large)
		require.NoError(t, err)
	}
	if e.Connect(ctx, 0, 1) != nil {
		return
	}
	for i := range 3 {
		random(seen[0], uint64(i))
		clear(seen[1])
		c := Copy{Dst: windows[1], Src: windows[0], Size: large / 2, Hook: hook(sink)}
		if e.Start(&c) != nil {
			return
		}
		_, status, ok := sink.Take(time.Minute)
		require.True(t, ok, "a copy never ended")
		if status == 0 {
			require.True(t, bytes.Equal(seen[0][:large/2], seen[1][:large/2]), "said to be there, and is not")
			continue
		}
		require.ErrorIs(t, e.Err(), errLost)
		random(seen[1], 77) // what has failed touches nothing any more
		want := bytes.Clone(seen[1])
		time.Sleep(3 * time.Millisecond)
		require.True(t, bytes.Equal(want, seen[1]), "a copy that had failed went on")
	}
}

func TestALostContextRetiresTheEngine(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	fake.Slow(20 * time.Millisecond)
	gate := fake.NewGate()
	for range 3 {
		r.start(r.copy(0, 1, large))
	}
	r.start(r.copy(0, 1, large, gated(gate)))
	r.start(r.copy(1, 0, large))
	fake.Lose(0)
	failed := 0
	for range 5 {
		if e := r.end(); e.Status != 0 {
			failed++
		}
	}
	require.GreaterOrEqual(t, failed, 4)
	require.ErrorIs(t, r.Err(), errLost)
	require.Equal(t, mem.DeviceNotAvailable, mem.StatusOf(r.Err()))
	require.ErrorIs(t, r.Connected(0, 1), errLost)
	c := r.copy(0, 1, large)
	require.ErrorIs(t, r.Start(&c), errLost)
	_, err := r.NewWindow(0, large)
	require.ErrorIs(t, err, errLost)
	require.ErrorIs(t, r.Connect(context.Background(), 0, 1), errLost)
	random(r.bytes[1], 9) // the memory is still there
}

// TestOneCallThatFailsRetiresTheEngine: of several copies under way or waiting none ends before nothing of it
// can touch memory any more, and no more begin.
func TestOneCallThatFailsRetiresTheEngine(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	fake.Slow(200 * time.Millisecond) // a piece takes 25 ms
	gate := fake.NewGate()
	r.start(r.copy(0, 1, large)) // of which two pieces are given
	r.start(r.copy(1, 0, large))
	r.start(r.copy(0, 1, large, gated(gate)))
	time.Sleep(2 * time.Millisecond)
	fake.Fail(1, 1)
	for range 3 {
		require.Equal(t, int32(719), r.end().Status)
	}
	random(r.bytes[1], 5)
	want := bytes.Clone(r.bytes[1])
	time.Sleep(60 * time.Millisecond)
	require.True(t, bytes.Equal(want, r.bytes[1]), "a copy that had failed went on")
	require.ErrorIs(t, r.Err(), errLost)
	_, err := r.NewWindow(0, large)
	require.ErrorIs(t, err, errLost)
	c := r.copy(0, 1, large)
	require.ErrorIs(t, r.Start(&c), errLost)
}

func TestWhoIsToldOfAFailureCanAskWhetherAllIsLost(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	fake.Lose(0)
	fake.Lose(1)
	r.start(r.copy(0, 1, large))
	require.NotZero(t, r.end().Status)
	require.ErrorIs(t, r.Err(), errLost)
}

func TestOutOfMemoryIsNoLoss(t *testing.T) {
	r := newRig(t, 2)
	fake.Capacity(3 * large)
	defer fake.Capacity(1 << 40)
	_, err := r.NewWindow(0, 2*large)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	fake.RunOut(1, 1000)
	require.ErrorIs(t, r.Connect(context.Background(), 0, 1), mem.ErrNoMemory)
	fake.Fail(0, 0)
	r.connect()
	r.start(r.copy(0, 1, large))
	require.Zero(t, r.end().Status)
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	ctx := context.Background()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("GODWIT_FAKE_GPUS", "2")
	open := func(change func(*Options)) error {
		o := options(2)
		change(&o)
		e, err := Open(ctx, o)
		if err == nil {
			err = e.Joined(0, 1)
			_, none := e.NewWindow(1, 1)
			if errors.Is(err, ErrNoGPU) {
				require.ErrorIs(t, none, ErrNoGPU)
				require.ErrorIs(t, e.Connect(ctx, 0, 1), ErrNoGPU)
				require.NoError(t, e.Close())
			} else {
				require.ErrorContains(t, e.Close(), "1 windows")
			}
		}
		return err
	}
	require.ErrorIs(t, open(func(o *Options) { o.Library = filepath.Join(t.TempDir(), "none.so") }), errNoLibrary)
	err := open(func(o *Options) { o.Library = "libm.so.6" })
	require.ErrorIs(t, err, errOldLibrary)
	require.ErrorContains(t, err, "cuInit")
	err = open(func(o *Options) { o.GPUs[1] = fake.UUID(5) })
	require.ErrorIs(t, err, ErrNoGPU)
	require.ErrorContains(t, err, "GPU-06060606-0606-0606-0606-060606060606")
	require.ErrorIs(t, open(func(o *Options) { o.GPUs = nil }), mem.ErrInvalidValue)
	require.ErrorIs(t, open(func(o *Options) { o.GPUs[1] = o.GPUs[0] }), mem.ErrInvalidDevice)
	for _, what := range []string{"GODWIT_FAKE_NO_ATOMICS", "GODWIT_FAKE_NO_PEER"} { // over PCIe, and not at all
		t.Setenv(what, "1")
		require.ErrorIs(t, open(func(*Options) {}), ErrNoPeer)
	}
	t.Setenv("GODWIT_FAKE_NO_EXPORT", "1")
	require.ErrorIs(t, open(func(*Options) {}), errNoExport)
	t.Setenv("GODWIT_FAKE_GPUS", "0")
	require.ErrorIs(t, open(func(*Options) {}), errFailed)
}

func TestADriverIsJudgedByTheListAndByNotes(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var path string
	note := func(d Driver) {
		var err error
		path, err = Note(t.Context(), d)
		require.NoError(t, err)
	}
	require.NoError(t, Judge(tried))
	require.ErrorIs(t, Judge("9.9"), ErrDriver)
	require.ErrorContains(t, Judge("9.9"), "godwit devices --try")
	note(Driver{Version: "9.9", Tried: "it crashed"})
	note(Driver{Version: "9.8", Good: true, Tried: "all of it"})
	require.ErrorContains(t, Judge("9.9"), "it crashed")
	require.NoError(t, Judge("9.8"))
	note(Driver{Version: "9.9", Good: true, Tried: "again"})
	require.NoError(t, Judge("9.9"))
	note(Driver{Version: tried, Tried: "not on this machine"})
	require.ErrorContains(t, Judge(tried), "not on this machine")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.ErrorIs(t, Judge("9.9"), ErrDriver)
	require.ErrorContains(t, Judge("9.9"), path)
	_, err := Note(t.Context(), Driver{Version: "9.9"})
	require.Error(t, err, "a file that is not ours is not overwritten")
	require.NoError(t, Judge(tried), "what we know needs no notes")
}
