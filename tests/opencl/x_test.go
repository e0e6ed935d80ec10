//go:build cgo

package opencl_test

import (
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/runtime"
)

func TestXEnqueue(t *testing.T) {
	if nvlinktest.Again(t) == nil {
		return
	}
	devs, err := linkedHouse("", direct)(nil)
	require.NoError(t, err)
	m := &migrations{b: t, devs: devs}
	m.c, err = runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	require.NoError(t, m.c.OpenLinks(t.Context()))
	m.prog, err = m.c.Build(t.Context(), &devices.Program{Name: "marks", Source: marks})
	require.NoError(t, err)
	for i := range devs {
		m.qs = append(m.qs, m.queue(i))
	}
	var all []*journey
	for range 8 {
		all = append(all, m.journey(1<<20, 0, 1))
	}
	m.home(all)
	m.wait(time.Now(), m.depart(all))
	w, err := os.Create(os.Getenv("X_PROF"))
	require.NoError(t, err)
	require.NoError(t, pprof.StartCPUProfile(w))
	var took []time.Duration
	for start := time.Now(); time.Since(start) < 6*time.Second; {
		m.home(all)
		time.Sleep(200 * time.Microsecond)
		s := time.Now()
		ev := m.depart(all)
		took = append(took, time.Since(s)/8)
		m.wait(s, ev)
	}
	pprof.StopCPUProfile()
	w.Close()
	t.Logf("median enqueue of a migrate %v, %d rounds", middle(took), len(took))
	for _, j := range all {
		j.buf.Release()
	}
	require.NoError(t, m.c.Close(t.Context()))
}
