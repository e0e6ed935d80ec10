package mover_test

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/internal/mover"
	"godwit/mem"
)

// lister is a device behind a bus whose queues carry no batch out, but list its legs.
type lister struct {
	*devicetest.Bus
	legs *[]devices.Leg // of the last batch
}

// NewQueue implements devices.Device.
func (d lister) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Bus.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &listQueue{q.(devices.Batcher), d.legs}, nil // a busQueue is one
}

type listQueue struct {
	devices.Batcher
	legs *[]devices.Leg
}

// Joins implements devices.Batcher.
func (q *listQueue) Joins(o devices.Queue) bool {
	x, ok := o.(*listQueue)
	return ok && q.Batcher.Joins(x.Batcher)
}

// SubmitBatch implements devices.Batcher.
func (q *listQueue) SubmitBatch(b devices.Batch, to []devices.Queue, _ []mem.Wait, points []mem.Point) (err error) {
	legs, ok := b.Stage(false)
	if !ok {
		return mem.ErrNoHostMemory // the test has one ring at a time, which finds the first arena free
	}
	*q.legs = slices.Clone(legs)
	for i := range *q.legs {
		(*q.legs)[i].After = slices.Clone(legs[i].After)
	}
	b.Ended()
	for i := 0; i < len(to) && err == nil; i++ {
		points[i], err = to[i].Submit(&devices.Command{Op: devices.OpMarker}, nil)
	}
	return err
}

// staged is where in staging so many bytes at l are; empty where l is a block.
func staged(l devices.Loc, size uint64) mem.Range {
	if len(l.Bytes) == 0 {
		return mem.Range{}
	}
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(l.Bytes))))
	return mem.Range{Start: at, End: at + size}
}

// TestALegWaitsUntilItsSlotIsFree: what a driver does with the legs of a batch beyond what they
// wait for is its own, and its copies may take any time. So a leg that fills a slot must be behind all
// that use the bytes that it overwrites, and one that empties a slot behind the one that filled it last. And
// chunks have more than one slot, so that they are under way at the same time.
func TestALegWaitsUntilItsSlotIsFree(t *testing.T) {
	var legs []devices.Leg
	var family devicetest.Family
	var ends []mover.End
	o := mover.Options{Chunk: 16 << 10, Budget: 256 << 10}
	for i := range 3 {
		d, err := tce.New(tce.Options{Name: fmt.Sprint("bus", i), Memory: 2 << 20})
		require.NoError(t, err)
		bus := devicetest.NewBus(d, &family)
		t.Cleanup(func() { require.NoError(t, bus.Close()) })
		o.Memories = append(o.Memories, mover.Memory{Device: lister{bus, &legs}, Name: d.Info().Name})
		ends = append(ends, mover.End{Memory: mem.MemoryID(i), Block: alloc(t, bus, blockSize)})
	}
	m, err := mover.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	for to := 1; to <= 2; to++ {
		x := mover.Transfer{Way: mem.Ring, From: ends[0], To: ends[1 : 1+to], Size: blockSize, Points: make([]mem.Point, to)}
		require.NoError(t, m.Move(&x))
		behind := make([][]bool, len(legs)) // whom a leg waits for, directly or through others
		slots, fills := map[mem.Range]bool{}, 0
		for i, l := range legs {
			behind[i] = make([]bool, i)
			for _, k := range append(l.After, l.Data) {
				require.Less(t, int(k), i, "leg %d waits for one that follows it", i)
				if k >= 0 {
					behind[i][k] = true
					for j, is := range behind[k] {
						behind[i][j] = behind[i][j] || is
					}
				}
			}
			from, into, filled := staged(l.Src, l.Size), staged(l.Dst, l.Size), int32(-1)
			for k, e := range legs[:i] {
				was := staged(e.Dst, e.Size)
				if into.Overlaps(was) || into.Overlaps(staged(e.Src, e.Size)) {
					require.True(t, behind[i][k], "leg %d overwrites staging that leg %d uses, and does not wait for it", i, k)
				}
				if from.Overlaps(was) {
					filled = int32(k)
				}
			}
			require.Equal(t, filled, l.Data, "leg %d carries on the bytes that are in its slot", i)
			if !into.Empty() {
				slots[mem.Range{Start: into.Start}], fills = true, fills+1
			}
		}
		require.GreaterOrEqual(t, len(slots), 4, "two chunks read ahead, one written, one free")
		require.Greater(t, fills, len(slots), "slots are used again")
		require.Len(t, legs, fills*(1+to))
		for _, p := range x.Points {
			require.NoError(t, p.Wait(ctx))
		}
		require.NoError(t, m.Check())
	}
}
