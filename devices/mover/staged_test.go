package mover_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/mover"
	"godwit/devices/storage"
	"godwit/devices/tce"
	"godwit/mem"
)

// fabric is some tce devices, each with one block, hidden queues that can be
// made to fail, and a transport between them.
type fabric struct {
	t       testing.TB
	tr      *mover.Transport
	devs    []devices.Device
	ends    []mover.End
	queues  []devices.Queue // for tests
	submits devicetest.Submits

	mu    sync.Mutex
	fails []mem.Point // protected by mu: told to OnFail
}

const blockSize = 300_000

func newFabric(t testing.TB, n int, o mover.TransportOptions) *fabric {
	f := &fabric{t: t}
	o.OnFail = func(p mem.Point, _ error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fails = append(f.fails, p)
	}
	for i := range n {
		inner, err := tce.New(tce.Options{Name: fmt.Sprint("tce", i), Memory: 2 << 20})
		require.NoError(t, err)
		d := devicetest.FailNth(inner, &f.submits)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		e := end(t, d, blockSize)
		f.devs, f.ends = append(f.devs, d), append(f.ends, e)
		f.queues = append(f.queues, newQueue(t, inner, devices.QueueOptions{Name: "test"}))
	}
	f.tr = newTransport(t, o)
	return f
}

func (f *fabric) write(i int, b []byte) {
	p, err := f.queues[i].Submit(&devices.Command{Op: devices.OpCopy, Size: uint64(len(b)),
		Dst: devices.Loc{Device: inner(f.devs[i]), Block: f.ends[i].Block}, Src: devices.Loc{Bytes: b}}, nil)
	require.NoError(f.t, err)
	require.NoError(f.t, p.Wait(context.Background()))
}

func (f *fabric) read(i int) []byte {
	b := make([]byte, blockSize)
	p, err := f.queues[i].Submit(&devices.Command{Op: devices.OpCopy, Size: blockSize,
		Src: devices.Loc{Device: inner(f.devs[i]), Block: f.ends[i].Block}, Dst: devices.Loc{Bytes: b}}, nil)
	require.NoError(f.t, err)
	require.NoError(f.t, p.Wait(context.Background()))
	return b
}

func inner(d devices.Device) devices.Device { return devicetest.Unwrap(d) }

func pattern(seed byte) []byte {
	b := make([]byte, blockSize)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

func TestOneReadServesAllDestinations(t *testing.T) {
	f := newFabric(t, 5, mover.TransportOptions{Chunk: 64 << 10, Budget: 1 << 20})
	want := pattern(1)
	f.write(0, want)
	out := make([]mem.Point, 4)
	f.submits.Fail(0)
	require.NoError(t, f.tr.Copy(f.ends[0], f.ends[1:], blockSize, nil, out))
	for i, p := range out {
		require.NoError(t, p.Wait(context.Background()))
		require.True(t, bytes.Equal(want, f.read(i+1)), "destination %d", i)
	}
	const chunks = (blockSize + 64<<10 - 1) / (64 << 10)
	require.EqualValues(t, chunks*(1+4), f.tr.Stats().Legs, "each chunk is read once and written four times")
	require.Equal(t, chunks*(1+4), f.submits.Count())
}

func TestChunksFollowThePairAndTheRange(t *testing.T) {
	f := newFabric(t, 2, mover.TransportOptions{Chunk: 1 << 20, Budget: 8 << 20})
	out := make([]mem.Point, 1)
	legs := func(size uint64) uint64 {
		before := f.tr.Stats().Legs
		require.NoError(t, f.tr.Copy(f.ends[0], f.ends[1:], size, nil, out))
		require.NoError(t, out[0].Wait(context.Background()))
		return f.tr.Stats().Legs - before
	}
	require.EqualValues(t, 2, legs(1000), "a small range is one chunk")
	require.EqualValues(t, 2*3, legs(blockSize), "a fourth of the range, rounded up to a power of two")
	require.NoError(t, f.tr.SetChunk(f.devs[0], f.devs[1], 32<<10))
	require.EqualValues(t, 2*10, legs(blockSize))
	require.ErrorIs(t, f.tr.SetChunk(f.devs[0], f.devs[1], 3), mem.ErrInvalidValue)
	require.ErrorIs(t, f.tr.SetChunk(f.devs[0], f.devs[1], 16<<20), mem.ErrInvalidValue)
}

// TestEveryLegThatFails makes each Submit of a transfer to three destinations
// fail in turn: a destination whose point succeeds has the bytes, and one lost
// write leg costs no other destination anything.
func TestEveryLegThatFails(t *testing.T) {
	for _, gated := range []bool{false, true} {
		f := newFabric(t, 4, mover.TransportOptions{Chunk: 64 << 10, Budget: 128 << 10, Ring: 2})
		user := mem.NewTimeline("user", false, nil)
		for n := 1; ; n++ {
			want := pattern(byte(n))
			f.write(0, want)
			var waits []mem.Wait
			var gate mem.Point
			if gated {
				gate = user.Next()
				waits = []mem.Wait{{Point: gate, Kind: mem.Data}}
			}
			out := make([]mem.Point, 3)
			f.submits.Fail(n)
			err := f.tr.Copy(f.ends[0], f.ends[1:], blockSize, waits, out)
			if gated {
				require.NoError(t, err)
				user.End(gate, nil)
			}
			if err != nil {
				require.Equal(t, 1, n, "only the first leg is refused before anything is accepted")
				require.ErrorIs(t, err, devicetest.ErrInjected)
				require.Equal(t, make([]mem.Point, 3), out)
				require.NoError(t, f.tr.Check())
				continue
			}
			lost := 0
			for i, p := range out {
				err := p.Wait(context.Background())
				if err != nil {
					require.ErrorIs(t, err, devicetest.ErrInjected)
					lost++
					continue
				}
				require.True(t, bytes.Equal(want, f.read(i+1)), "submit %d, destination %d", n, i)
			}
			require.NoError(t, f.tr.Check())
			if f.submits.Count() < n {
				require.Zero(t, lost)
				break
			}
			// Submits come as read, write, write, write.
			if n%4 == 1 {
				require.Equal(t, 3, lost, "a read is everybody's")
			} else {
				require.Equal(t, 1, lost, "a write is one's own")
			}
		}
	}
}

func TestAFailedSourceFailsTheTransferWithItsCause(t *testing.T) {
	f := newFabric(t, 2, mover.TransportOptions{Chunk: 64 << 10})
	user := mem.NewTimeline("user", false, nil)
	for _, early := range []bool{true, false} {
		bad := user.Next()
		if early {
			user.End(bad, errTest)
		}
		out := make([]mem.Point, 2)
		require.NoError(t, f.tr.Copy(f.ends[0], f.ends[1:], 1000, []mem.Wait{{Point: bad, Kind: mem.Data}}, out[:1]))
		require.NoError(t, f.tr.Copy(f.ends[0], f.ends[1:], 1000, []mem.Wait{{Point: bad, Kind: mem.Order}}, out[1:]))
		if !early {
			user.End(bad, errTest)
		}
		err := out[0].Wait(context.Background())
		require.ErrorIs(t, err, mem.ErrDependency)
		require.ErrorIs(t, err, errTest)
		require.NoError(t, out[1].Wait(context.Background()), "an Order wait only delays")
		f.mu.Lock()
		require.Equal(t, out[0], f.fails[len(f.fails)-1])
		f.mu.Unlock()
	}
	require.EqualValues(t, 4, f.tr.Stats().Legs, "a transfer that cannot succeed moves nothing")
}

func TestStagingThatIsNotThereFailsTheTransfer(t *testing.T) {
	small := storage.NewHost("pinned", 0)
	limited := limitedMemory{small.Blocks}
	f := newFabric(t, 2, mover.TransportOptions{Staging: limited, View: small})
	out := make([]mem.Point, 1)
	err := f.tr.Copy(f.ends[0], f.ends[1:], blockSize, nil, out)
	require.ErrorIs(t, err, mem.ErrNoHostMemory)
	require.True(t, out[0].IsZero())
	require.NoError(t, f.tr.Check())
	require.Zero(t, small.Stats().Live)
	_, err = mover.NewTransport(mover.TransportOptions{Staging: limited})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

// limitedMemory has no block to give.
type limitedMemory struct{ *storage.Blocks }

func (limitedMemory) AllocAll([]mem.Request, []mem.Block) (mem.Outcome, error) {
	return mem.Exhausted, nil
}

// TestRandomTransfersArrive runs random transfers, gated at random and opened in
// random order, with less staging than they want, against bytes.
func TestRandomTransfersArrive(t *testing.T) {
	const n = 4
	f := newFabric(t, n, mover.TransportOptions{Chunk: 16 << 10, Budget: 64 << 10, Ring: 3})
	rapid.Check(t, func(rt *rapid.T) {
		user := mem.NewTimeline("user", false, nil)
		var model [n][]byte
		for i := range model {
			model[i] = pattern(byte(i) + byte(rapid.IntRange(0, 255).Draw(rt, "seed")))
			f.write(i, model[i])
		}
		var gates, last []mem.Point
		defer func() { // a test that fails must not hang
			for _, g := range gates {
				if !g.Reached() {
					user.End(g, nil)
				}
			}
		}()
		for range rapid.IntRange(1, 12).Draw(rt, "transfers") {
			from := rapid.IntRange(0, n-1).Draw(rt, "from")
			size := rapid.Uint64Range(1, blockSize/2).Draw(rt, "size")
			src := f.ends[from]
			src.Off = rapid.Uint64Range(0, blockSize-size).Draw(rt, "off")
			var dsts []mover.End
			for i := range n {
				if i != from && rapid.Bool().Draw(rt, "to") {
					d := f.ends[i]
					d.Off = rapid.Uint64Range(0, blockSize-size).Draw(rt, "at")
					dsts = append(dsts, d)
					copy(model[i][d.Off:d.Off+size], model[from][src.Off:])
				}
			}
			if len(dsts) == 0 {
				continue
			}
			// All after all earlier ones, so that the model is simple.
			var waits []mem.Wait
			for _, p := range last {
				waits = append(waits, mem.Wait{Point: p, Kind: mem.Data})
			}
			if rapid.Bool().Draw(rt, "gated") {
				gates = append(gates, user.Next())
				waits = append(waits, mem.Wait{Point: gates[len(gates)-1], Kind: mem.Order})
			}
			last = make([]mem.Point, len(dsts))
			require.NoError(rt, f.tr.Copy(src, dsts, size, waits, last))
		}
		for _, g := range rapid.Permutation(gates).Draw(rt, "order") {
			user.End(g, nil)
		}
		for _, p := range last {
			require.NoError(rt, p.Wait(context.Background()))
		}
		for i := range model {
			require.True(rt, bytes.Equal(model[i], f.read(i)), "device %d", i)
		}
		require.NoError(rt, f.tr.Check())
	})
}

// TestTransfersShareLittleStaging has many at once, each wanting all of it.
func TestTransfersShareLittleStaging(t *testing.T) {
	f := newFabric(t, 3, mover.TransportOptions{Chunk: 32 << 10, Budget: 64 << 10})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			out := make([]mem.Point, 2)
			for i := range 20 {
				if f.tr.Copy(f.ends[0], f.ends[1:], uint64(1000+i*10_000), nil, out) != nil {
					t.Error("refused")
				}
				if out[i%2].Wait(context.Background()) != nil {
					t.Error("failed")
				}
				if err := f.tr.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
