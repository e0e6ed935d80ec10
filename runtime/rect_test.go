package runtime_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
)

type box = runtime.Box

func TestRectanglesThatOpenCLRefuses(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, make([]byte, 64))
	other := h.buffer(64, make([]byte, 64))
	sub := must(b.Sub(0, 32, 0))
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
	_, err := q.EnqueueReadRect(ctx, b, box{Row: 8, Slice: 8}, host, box{}, [3]uint64{8, 3, 2})
	require.ErrorContains(t, err, "slice pitch 8: it must be a multiple of the row pitch 8, at least for the 3 rows of a slice")
	_, err = q.EnqueueCopyRect(ctx, nil, b, box{}, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidBuffer)
	_, err = (*runtime.Queue)(nil).EnqueueReadRect(ctx, b, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	require.NoError(t, q.Finish(ctx))

	secret := h.create(8, runtime.HostNoAccess, nil)
	_, err = q.EnqueueReadRect(ctx, secret, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	_, err = q.EnqueueWriteRect(ctx, secret, box{}, host, box{}, [3]uint64{1, 1, 1})
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.NoError(t, secret.Release())
}

func TestRectanglesAllocateNothingInSteadyState(t *testing.T) {
	d := null.New(devices.Config{})
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	b := must(c.CreateBuffer(4096, 0, nil))
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
			c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
			q := must(c.NewQueue(d, runtime.QueueOptions{}))
			buf := must(c.CreateBuffer(8192*rows, 0, nil))
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
