package devicetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/mover"
	"godwit/mem"
)

func testMoveRules(e *env) {
	q, b := e.inOrder(), e.alloc(256)
	host := devices.Loc{Bytes: make([]byte, 256)}
	last := q.Timeline().Last()
	for _, c := range []struct {
		name string
		cmd  devices.Command
		err  error
	}{
		{"no size", devices.Command{Op: devices.OpCopy, Dst: e.at(b, 0), Src: host}, mem.ErrInvalidValue},
		{"past the block's end", devices.Command{Op: devices.OpCopy, Size: 200, Dst: e.at(b, 57), Src: host}, mem.ErrInvalidValue},
		{"past the host's end", devices.Command{Op: devices.OpCopy, Size: 256, Dst: e.at(b, 0), Src: devices.Loc{Bytes: make([]byte, 255)}}, mem.ErrInvalidValue},
		{"overflow", devices.Command{Op: devices.OpCopy, Size: 2, Dst: e.at(b, ^uint64(0)), Src: host}, mem.ErrInvalidValue},
		{"no block", devices.Command{Op: devices.OpCopy, Size: 1, Dst: devices.Loc{Device: e.dev}, Src: host}, mem.ErrInvalidBuffer},
		{"overlap", devices.Command{Op: devices.OpCopy, Size: 20, Dst: e.at(b, 0), Src: e.at(b, 19)}, mem.ErrOverlap},
		{"no pattern", devices.Command{Op: devices.OpFill, Size: 16, Dst: e.at(b, 0)}, mem.ErrInvalidValue},
		{"pattern of 3", devices.Command{Op: devices.OpFill, Size: 9, Dst: e.at(b, 0), Pattern: make([]byte, 3)}, mem.ErrInvalidValue},
		{"pattern of 256", devices.Command{Op: devices.OpFill, Size: 256, Dst: e.at(b, 0), Pattern: make([]byte, 256)}, mem.ErrInvalidValue},
		{"part of a pattern", devices.Command{Op: devices.OpFill, Size: 6, Dst: e.at(b, 0), Pattern: make([]byte, 4)}, mem.ErrInvalidValue},
		{"flat rectangle", devices.Command{Op: devices.OpCopyRect, Rect: devices.Rect{Region: [3]uint64{1, 0, 1}}, Dst: e.at(b, 0), Src: host}, mem.ErrInvalidValue},
		{"rows that overlap", devices.Command{Op: devices.OpCopyRect, Dst: e.at(b, 0), Src: host,
			Rect: devices.Rect{Region: [3]uint64{8, 2, 1}, SrcRow: 8, DstRow: 7}}, mem.ErrInvalidValue},
		{"half a row between slices", devices.Command{Op: devices.OpCopyRect, Dst: e.at(b, 0), Src: host,
			Rect: devices.Rect{Region: [3]uint64{8, 2, 2}, SrcRow: 8, SrcSlice: 16, DstRow: 8, DstSlice: 20}}, mem.ErrInvalidValue},
		{"large rectangle", devices.Command{Op: devices.OpCopyRect, Dst: e.at(b, 0), Src: host,
			Rect: devices.Rect{Region: [3]uint64{1, 1 << 32, 1}, SrcRow: 1 << 33, DstRow: 1}}, mem.ErrInvalidValue},
		{"no call", devices.Command{Op: devices.OpHostCall}, mem.ErrInvalidValue},
		{"no such operation", devices.Command{Op: 99}, mem.ErrInvalidValue},
	} {
		_, err := q.Submit(&c.cmd, nil)
		require.ErrorIs(e.t, err, c.err, c.name)
	}
	require.Equal(e.t, last, q.Timeline().Last(), "nothing was accepted")
	require.ErrorIs(e.t, q.Wait(e.context(), users().Next(), devices.Park), mem.ErrInvalidEvent, "a point of another queue")
}

// testOwnership changes everything that was given to Submit, but for bytes to
// be copied, before the command runs.
func testOwnership(e *env) {
	q, line := e.inOrder(), users()
	b := e.alloc(64)
	gate := line.Next()
	pattern := []byte{1, 2, 3, 4}
	cmd := &devices.Command{Op: devices.OpFill, Size: 64, Dst: e.at(b, 0), Pattern: pattern}
	waits := []mem.Wait{{Point: gate, Kind: mem.Data}}
	p, err := q.Submit(cmd, waits)
	require.NoError(e.t, err)
	clear(pattern)
	clear(waits)
	*cmd = devices.Command{}
	require.False(e.t, p.Reached())
	line.End(gate, nil)
	e.wait(q, p)
	got := make([]byte, 64)
	e.wait(q, e.read(q, b, 0, got))
	for i := range got {
		e.equal([]byte{byte(i%4) + 1}, got[i:i+1], "fill")
	}
}

// mover opens a mover over devices, which are its memories 0, 1, ...
func (e *env) mover(budget uint64, devs ...devices.Device) *mover.Mover {
	o := mover.Options{Budget: budget}
	for i, d := range devs {
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: fmt.Sprint("memory", i)})
	}
	m, err := mover.Open(o)
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		require.NoError(e.t, m.Check())
		require.NoError(e.t, m.Close())
	})
	return m
}
