package runtime_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/runtime"
)

type box = runtime.Box

func TestRectanglesThatOpenCLRefuses(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, make([]byte, 64))
	other := h.buffer(64, make([]byte, 64))
	sub, err := b.Sub(0, 32, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Release()) }()
	host := make([]byte, 64)
	for _, tc := range []struct {
		name   string
		at     box
		host   box
		region [3]uint64
		want   error
	}{
		{"a region without bytes", box{}, box{}, [3]uint64{0, 1, 1}, mem.ErrInvalidValue},
		{"a region without rows", box{}, box{}, [3]uint64{1, 0, 1}, mem.ErrInvalidValue},
		{"a region without slices", box{}, box{}, [3]uint64{1, 1, 0}, mem.ErrInvalidValue},
		{"a row pitch below the row", box{Row: 7}, box{}, [3]uint64{8, 2, 1}, mem.ErrInvalidValue},
		{"a host row pitch below the row", box{}, box{Row: 7}, [3]uint64{8, 2, 1}, mem.ErrInvalidValue},
		{"a slice pitch below the slice", box{Row: 8, Slice: 8}, box{}, [3]uint64{8, 2, 2}, mem.ErrInvalidValue},
		{"a slice pitch of a row and a half", box{Row: 8, Slice: 20}, box{}, [3]uint64{8, 2, 2}, mem.ErrInvalidValue},
		{"past the end of the buffer", box{Origin: [3]uint64{1, 0, 0}}, box{}, [3]uint64{64, 1, 1}, mem.ErrInvalidValue},
		{"past the end by rows", box{Row: 16, Origin: [3]uint64{0, 3, 0}}, box{}, [3]uint64{8, 2, 1}, mem.ErrInvalidValue},
		{"past the end of host memory", box{}, box{Origin: [3]uint64{1, 0, 0}}, [3]uint64{64, 1, 1}, mem.ErrInvalidValue},
		{"an origin that overflows", box{Row: 1 << 40, Origin: [3]uint64{0, math.MaxUint64, 0}}, box{}, [3]uint64{1, 1, 1}, mem.ErrInvalidValue},
		{"a region that overflows", box{}, box{}, [3]uint64{1 << 32, 1 << 32, 1 << 32}, mem.ErrInvalidValue},
		{"all of it", box{}, box{}, [3]uint64{4, 4, 4}, nil},
	} {
		_, err := q.EnqueueReadRect(ctx, b, tc.at, host, tc.host, tc.region)
		require.ErrorIs(t, err, tc.want, tc.name)
		_, err = q.EnqueueWriteRect(ctx, b, tc.at, host, tc.host, tc.region)
		require.ErrorIs(t, err, tc.want, tc.name)
		if tc.host == (box{}) {
			_, err = q.EnqueueCopyRect(ctx, b, other, tc.at, box{Row: tc.at.Row, Slice: tc.at.Slice}, tc.region)
			require.ErrorIs(t, err, tc.want, tc.name)
		}
	}
	for _, tc := range []struct {
		name     string
		src, dst *runtime.Buffer
		from, to box
		want     error
	}{
		{"left half to right half", b, b, box{Row: 16}, box{Row: 16, Origin: [3]uint64{8, 0, 0}}, nil},
		{"halves that share a column", b, b, box{Row: 16}, box{Row: 16, Origin: [3]uint64{7, 0, 0}}, mem.ErrOverlap},
		{"pitches that differ within a buffer", b, b, box{Row: 8}, box{Row: 16, Origin: [3]uint64{32, 0, 0}}, mem.ErrInvalidValue},
		{"through a view that overlaps", b, sub, box{Row: 16}, box{Row: 8}, mem.ErrOverlap},
		{"through a view, between its rows", b, sub, box{Row: 16}, box{Row: 16, Origin: [3]uint64{8, 0, 0}}, nil},
		{"between buffers, anything", b, other, box{Row: 16}, box{Row: 8}, nil},
	} {
		_, err := q.EnqueueCopyRect(ctx, tc.src, tc.dst, tc.from, tc.to, [3]uint64{8, 2, 1})
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	_, err = q.EnqueueCopyRect(ctx, nil, b, box{}, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidBuffer)
	_, err = (*runtime.Queue)(nil).EnqueueReadRect(ctx, b, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	require.NoError(t, q.Finish(ctx))

	secret, err := h.c.CreateBuffer(8, runtime.HostNoAccess, nil)
	require.NoError(t, err)
	_, err = q.EnqueueReadRect(ctx, secret, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	_, err = q.EnqueueWriteRect(ctx, secret, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.NoError(t, secret.Release())
}

// plane is a drawn region in something of size bytes.
func plane(t *rapid.T, name string, size uint64, region [3]uint64) (box, bool) {
	u := func(what string, lo, hi uint64) uint64 { return rapid.Uint64Range(lo, hi).Draw(t, name+what) }
	b := box{Row: region[0] + u(" row gap", 0, 5)}
	b.Slice = b.Row * (region[1] + u(" slice gap", 0, 2))
	span := b.Slice*(region[2]-1) + b.Row*(region[1]-1) + region[0]
	if span > size {
		return box{}, false
	}
	room := size - span
	b.Origin[2] = u(" slices", 0, room/b.Slice)
	room -= b.Origin[2] * b.Slice
	b.Origin[1] = u(" rows", 0, room/b.Row)
	b.Origin[0] = u(" bytes", 0, room-b.Origin[1]*b.Row)
	return b, true
}

// each calls f with the offset of every row.
func (b boxOf) each(f func(off uint64)) {
	for z := range b.region[2] {
		for y := range b.region[1] {
			f((b.Origin[2]+z)*b.Slice + (b.Origin[1]+y)*b.Row + b.Origin[0])
		}
	}
}

type boxOf struct {
	box
	region [3]uint64
}

// accesses is what a region is to the oracle.
func (b boxOf) accesses(buf *runtime.Buffer, mode mem.Mode, m mem.MemoryID) (out []mem.Access) {
	b.each(func(off uint64) {
		r := mem.Range{Start: off, End: off + b.region[0]}.Shift(buf.View().Range.Start)
		out = append(out, mem.Access{Buffer: buf.ID(), Range: r, Mode: mode, Memory: m})
	})
	return out
}

func TestRectanglesAllocateNothingInSteadyState(t *testing.T) {
	d := null.New(devices.Config{})
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	b, err := c.CreateBuffer(4096, 0, nil)
	require.NoError(t, err)
	data, region := make([]byte, 256), [3]uint64{16, 4, 2}
	ctx, at := context.Background(), box{Row: 64}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w, err1 := q.EnqueueWriteRect(ctx, b, at, data, box{}, region)
		cp, err2 := q.EnqueueCopyRect(ctx, b, b, at, box{Row: 64, Origin: [3]uint64{32, 0, 0}}, region)
		r, err3 := q.EnqueueReadRect(ctx, b, at, data, box{}, region)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		_, _, _ = w.Release(), cp.Release(), r.Release()
	}))
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(ctx))
}

// TestRectanglesMoveExactlyTheirRows draws rectangular commands on three devices,
// over buffers and a sub-buffer, beside flat bytes and the oracle, which is told
// of the rows: as many bytes move as have to.
func TestRectanglesMoveExactlyTheirRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const size, from = 600, 128
		h := build(t, runtime.Options{Devices: memories(3), NoPeer: rapid.Bool().Draw(rt, "through the host")}, runtime.QueueOptions{})
		ctx := soon(t)
		o := oracle.New(h.c.Topology())
		flat := [2][]byte{bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, size)}
		var bufs [3]*runtime.Buffer // 2 is a view of 1
		for i := range flat {
			bufs[i] = h.buffer(size, flat[i])
			require.NoError(rt, o.Create(bufs[i].ID(), size, mem.SetOf(mem.Host)))
		}
		var err error
		bufs[2], err = bufs[1].Sub(from, size-from, 0)
		require.NoError(rt, err)
		bytesOf := func(i int) []byte { return [][]byte{flat[0], flat[1], flat[1][from:]}[i] }
		var bound uint64
		for range 12 {
			region := [3]uint64{rapid.Uint64Range(1, 20).Draw(rt, "x"), rapid.Uint64Range(1, 5).Draw(rt, "y"), rapid.Uint64Range(1, 3).Draw(rt, "z")}
			i, d := rapid.IntRange(0, 2).Draw(rt, "buffer"), rapid.IntRange(0, 2).Draw(rt, "device")
			at, ok := plane(rt, "at", bufs[i].Size(), region)
			host := make([]byte, 700)
			hb, ok2 := plane(rt, "host", 700, region)
			if !ok || !ok2 {
				continue
			}
			m, dev, mine := mem.MemoryID(d+1), boxOf{at, region}, boxOf{hb, region}
			switch rapid.IntRange(0, 2).Draw(rt, "command") {
			case 0:
				h.done(h.ok(h.q[d].EnqueueReadRect(ctx, bufs[i], at, host, hb, region)))
				want := make([]byte, 700)
				var offs []uint64
				dev.each(func(off uint64) { offs = append(offs, off) })
				mine.each(func(off uint64) {
					copy(want[off:off+region[0]], bytesOf(i)[offs[0]:])
					offs = offs[1:]
				})
				require.Equal(rt, want, host)
				res, err := o.Enqueue(dev.accesses(bufs[i], mem.Read, m))
				require.NoError(rt, err)
				bound += res.Bytes
			case 1:
				for j := range host {
					host[j] = byte(3*j + d)
				}
				h.ok(h.q[d].EnqueueWriteRect(ctx, bufs[i], at, host, hb, region))
				var offs []uint64
				mine.each(func(off uint64) { offs = append(offs, off) })
				dev.each(func(off uint64) {
					copy(bytesOf(i)[off:off+region[0]], host[offs[0]:])
					offs = offs[1:]
				})
				res, err := o.Enqueue(dev.accesses(bufs[i], mem.Write, m))
				require.NoError(rt, err)
				bound += res.Bytes
			case 2:
				j := rapid.IntRange(0, 2).Draw(rt, "to buffer")
				to, ok := plane(rt, "to", bufs[j].Size(), region)
				if !ok {
					continue
				}
				if i == j {
					to.Row, to.Slice = at.Row, at.Slice
				}
				target := boxOf{to, region}
				_, err := h.q[d].EnqueueCopyRect(ctx, bufs[i], bufs[j], at, to, region)
				if shared := meet(dev.accesses(bufs[i], mem.Read, m), target.accesses(bufs[j], mem.Write, m)); err != nil {
					require.True(rt, shared || mem.StatusOf(err) == mem.InvalidValue, "%v", err)
					continue
				} else {
					require.False(rt, shared, "an overlap was let through")
				}
				var rows [][]byte
				dev.each(func(off uint64) { rows = append(rows, bytes.Clone(bytesOf(i)[off:off+region[0]])) })
				target.each(func(off uint64) {
					copy(bytesOf(j)[off:], rows[0])
					rows = rows[1:]
				})
				res, err := o.Enqueue(append(dev.accesses(bufs[i], mem.Read, m), target.accesses(bufs[j], mem.Write, m)...))
				require.NoError(rt, err)
				bound += res.Bytes
			}
			require.NoError(rt, h.c.Check())
			require.Equal(rt, bound, h.c.Stats().BytesMoved, "bytes moved, and the lower bound")
		}
		for i := range flat {
			got := make([]byte, size)
			h.done(h.ok(h.q[i].EnqueueRead(ctx, bufs[i], 0, got)))
			require.Equal(rt, flat[i], got)
		}
		require.NoError(rt, bufs[2].Release())
		for i := range flat {
			require.NoError(rt, bufs[i].Release())
		}
	})
}

func meet(a, b []mem.Access) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Buffer == y.Buffer && x.Range.Overlaps(y.Range) {
				return true
			}
		}
	}
	return false
}

// Beyond the limit rows are taken together: content stays right, and between
// the rows nothing is lost.
func TestMoreRowsThanTheLimitAreTakenTogether(t *testing.T) {
	for _, n := range []uint64{runtime.RectRows, runtime.RectRows + 1, 5*runtime.RectRows + 3} {
		h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
		ctx := soon(t)
		size := 4 * n
		want := bytes.Repeat([]byte{1, 2, 3, 4}, int(n))
		b := h.buffer(size, want)
		at, region := box{Row: 4, Origin: [3]uint64{1, 0, 0}}, [3]uint64{2, n, 1}
		column := bytes.Repeat([]byte{8, 9}, int(n))
		h.ok(h.q[0].EnqueueWriteRect(ctx, b, at, column, box{}, region))
		for i := range n {
			copy(want[4*i+1:], column[2*i:2*i+2])
		}
		moved := h.c.Stats().BytesMoved
		if n <= runtime.RectRows {
			require.Zero(t, moved, "what is written need not come")
		} else {
			require.Positive(t, moved)
			require.LessOrEqual(t, len(h.rec.Commands()[0].Accesses), runtime.RectRows)
		}
		require.LessOrEqual(t, moved, size)
		got := make([]byte, 2*n)
		h.done(h.ok(h.q[1].EnqueueReadRect(ctx, b, at, got, box{}, region)))
		require.Equal(t, column, got)
		all := make([]byte, size)
		h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, all)))
		require.Equal(t, want, all)
		require.NoError(t, h.c.Check())
	}
}

func TestBytesLostBetweenTheRowsDoNotMatter(t *testing.T) {
	devs, fs := failing(1)
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	ctx := soon(t)
	const n = 3 * runtime.RectRows
	b := h.buffer(4*n, make([]byte, 4*n))
	lose := everything
	fs[0].fail.Store(&lose)
	e := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 3, 1)) // between the first two rows
	require.Error(t, e.Wait(ctx))
	fs[0].fail.Store(nil)
	got := make([]byte, 2*n)
	at, region := box{Row: 4, Origin: [3]uint64{1, 0, 0}}, [3]uint64{2, n, 1}
	h.done(h.ok(h.q[0].EnqueueReadRect(ctx, b, at, got, box{}, region)))
	require.Equal(t, make([]byte, 2*n), got)
	h.done(h.ok(h.q[0].EnqueueWriteRect(ctx, b, at, got, box{}, region)))
	_, err := h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 4*n))
	require.ErrorIs(t, err, mem.ErrPoisoned)
	require.NoError(t, h.c.Check())
}

// BenchmarkEnqueueWriteRect is a write of a rectangle by its rows, on a device
// that does nothing, beside the same bytes in one piece (1 row).
func BenchmarkEnqueueWriteRect(b *testing.B) {
	for _, rows := range []uint64{1, 16, 256, 1024, 4096} {
		b.Run(map[uint64]string{1: "1 row", 16: "16 rows", 256: "256 rows", 1024: "1024 rows", 4096: "4096 rows"}[rows], func(b *testing.B) {
			d := null.New(devices.Config{})
			c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
			require.NoError(b, err)
			q, err := c.NewQueue(d, runtime.QueueOptions{})
			require.NoError(b, err)
			buf, err := c.CreateBuffer(8192*rows, 0, nil)
			require.NoError(b, err)
			data, region := make([]byte, 4096), [3]uint64{4096 / min(rows, 4096), rows, 1}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				e, err := q.EnqueueWriteRect(ctx, buf, box{Row: 8192}, data, box{}, region)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Release(); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, buf.Release())
			require.NoError(b, c.Close(ctx))
		})
	}
}
