package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/runtime"
)

// BenchmarkContentSize has one device write a buffer of 4 MiB, of which a part
// counts, and another fetch it: with a size buffer and without.
func BenchmarkContentSize(b *testing.B) {
	const size = 4 << 20
	for _, kind := range []string{"cpu", "tce"} {
		for _, counts := range []uint64{0, 4 << 10, 256 << 10, size} {
			name := fmt.Sprintf("%s/%d KiB count", kind, counts>>10)
			if counts == 0 {
				name = kind + "/without"
			}
			b.Run(name, func(b *testing.B) { fetchCounted(b, kind, size, counts) })
		}
	}
}

func fetchCounted(b *testing.B, kind string, size, counts uint64) {
	var devs []devices.Device
	for range 2 {
		var d devices.Device
		var err error
		if kind == "cpu" {
			d, err = cpu.New(cpu.Options{Workers: 1})
		} else {
			d, err = tce.New(tce.Options{})
		}
		require.NoError(b, err)
		devs = append(devs, d)
	}
	h := build(b, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	ctx := context.Background()
	data, used := h.buffer(size, nil), h.buffer(8, nil)
	if counts > 0 {
		require.NoError(b, data.SetContentSizeBuffer(used))
	}
	ok := func(e runtime.Event, err error) {
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	pattern, n := []byte{1}, count(counts)
	before := uint64(0)
	turn := func() {
		ok(h.q[0].EnqueueFill(ctx, data, pattern, 0, size))
		ok(h.q[0].EnqueueWrite(ctx, used, 0, n))
		if err := h.q[0].Finish(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		e, err := h.q[1].EnqueueMigrate(ctx, []*runtime.Buffer{data}, 0)
		if err == nil {
			err = e.Wait(ctx)
		}
		b.StopTimer()
		ok(e, err)
	}
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for i := range b.N {
		if i == 1 {
			before = h.c.Stats().BytesMoved
		}
		turn()
	}
	if b.N > 1 {
		b.ReportMetric(float64(h.c.Stats().BytesMoved-before)/float64(b.N-1), "moved-B/op")
	}
}
