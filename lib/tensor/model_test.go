package tensor_test

import (
	"context"
	stdruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
	"godwit/lib/tensor"
)

func TestTheCollectorGivesForgottenTensorsBackAndReports(t *testing.T) {
	var reports atomic.Int32
	m := backend.NewManager(backend.Options{Report: func(what string) {
		if what == "tensor [3] float32 on cpu (cpu): found by the garbage collector" {
			reports.Add(1)
		}
	}})
	h, err := m.Default("cpu")
	require.NoError(t, err)
	func() {
		_, err := tensor.FromHost(context.Background(), h, []float32{1, 2, 3})
		require.NoError(t, err)
		kept, err := tensor.FromHost(context.Background(), h, []float32{1, 2, 3, 4})
		require.NoError(t, err)
		require.NoError(t, kept.Release())
	}()
	require.Eventually(t, func() bool {
		stdruntime.GC()
		return reports.Load() == 1 && h.Pool().Stats().Out == 0
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, m.Close(context.Background()))
}
