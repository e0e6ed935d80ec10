//go:build cgo

package nvlink

import (
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/nvlink/nvlinktest"
)

// TestOnRealGPUs prints what copies cost, beside what CUDA needs for the same: GODWIT_TEST_NVIDIA=1 on a
// host with several GPUs.
func TestOnRealGPUs(t *testing.T) {
	if os.Getenv("GODWIT_TEST_NVIDIA") == "" {
		t.Skip("GODWIT_TEST_NVIDIA is not set")
	}
	for _, piece := range []uint64{4 << 20, 16 << 20, 32 << 20, 1 << 30} {
		t.Logf("pieces of %d MiB", piece>>20)
		onGPUs(t, installed(), piece)
	}
}

// installed are the GPUs of this machine.
func installed() (gpus []UUID) {
	out, err := exec.Command("nvidia-smi", "-L").Output()
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`UUID: GPU-([0-9a-f-]+)`).FindAllStringSubmatch(string(out), -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(m[1], "-", ""))
		if err != nil {
			panic(err)
		}
		gpus = append(gpus, UUID(b))
	}
	return gpus
}

func onGPUs(t *testing.T, gpus []UUID, piece uint64) {
	ctx := context.Background()
	start := time.Now()
	e, err := Open(ctx, Options{GPUs: gpus, Piece: piece})
	require.NoError(t, err)
	opened := time.Since(start)
	defer func() { require.NoError(t, e.Close()) }()
	const size = 256 << 20
	var windows []*Window
	for i := range gpus {
		w, err := e.NewWindow(i, size)
		require.NoError(t, err)
		defer w.Release()
		windows = append(windows, w)
	}
	start = time.Now()
	require.NoError(t, e.Connect(ctx, 0, 1))
	t.Logf("opened in %v, connected in %v", opened, time.Since(start))
	r := &rig{Engine: e, t: t, sink: new(nvlinktest.Fake).NewSink(), windows: windows}
	defer r.sink.Free()
	for _, n := range []uint64{4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20} {
		runs := 200
		if n > 16<<20 {
			runs = 30
		}
		var ours, cudas, both, bothCUDA, cold []time.Duration
		one, half, other := r.copy(0, 1, n), r.copy(0, 1, n/2), r.copy(1, 0, n/2)
		other.DstOff, other.SrcOff = n/2, n/2
		for range runs {
			at := time.Now()
			r.start(r.copy(0, 1, n))
			r.end()
			ours = append(ours, time.Since(at))
			at = time.Now()
			r.start(half)
			r.start(other)
			r.end()
			r.end()
			both = append(both, time.Since(at))
			d, err := e.Time([]Copy{one})
			require.NoError(t, err)
			cudas = append(cudas, d)
			d, err = e.Time([]Copy{half, other})
			require.NoError(t, err)
			bothCUDA = append(bothCUDA, d)
		}
		for range 20 {
			time.Sleep(3 * time.Millisecond)
			at := time.Now()
			r.start(r.copy(0, 1, n))
			r.end()
			cold = append(cold, time.Since(at))
		}
		t.Logf("%6d KiB: %7.1f us, CUDA %7.1f (ratio %.3f, %.0f GB/s); after 3 ms %7.1f; halves both ways %7.1f, CUDA %7.1f (%.3f)", n>>10,
			us(ours), us(cudas), us(cudas)/us(ours), float64(n)/1e3/us(ours), us(cold), us(both), us(bothCUDA), us(bothCUDA)/us(both))
	}
	r.start(r.copy(0, 1, size))
	r.start(r.copy(0, 1, size))
	at := time.Now()
	small := r.copy(0, 1, 4096)
	small.ID = 1
	r.start(small)
	for r.end().ID != 1 {
	}
	t.Logf("4 KiB behind 512 MiB: %v", time.Since(at))
	r.end()
	r.end()
	require.NoError(t, e.Check())
}

func us(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2]) / 1e3
}
