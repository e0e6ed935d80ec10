//go:build cgo

package opencl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/runtime"
)

// TestAGPUThatIsLostCostsItsOwnContentOnly has a kernel of the last GPU write where there is no memory, which ends that
// GPU's context, while buffers go around the others. On processors such a kernel ends the process.
func TestAGPUThatIsLostCostsItsOwnContentOnly(t *testing.T) {
	need(t)
	m := openMigrations(t, nil)
	if !m.gpus || len(m.devs) < 3 {
		t.Skip("needs three GPUs (GODWIT_TEST_PLATFORM)")
	}
	ctx := t.Context()
	last := len(m.devs) - 1
	prog, err := m.c.Build(ctx, &devices.Program{Name: "wild", Source: `kernel void wild(global uint *a, ulong far) { a[far] = 1; }`})
	require.NoError(t, err)
	wild, err := prog.Kernel("wild")
	require.NoError(t, err)
	var own, around []*journey
	for i := range last {
		own = append(own, m.journey(16<<20, i, i))
		around = append(around, m.journey(16<<20, i, (i+1)%last))
	}
	shared := m.journey(16<<20, 0, last) // which the GPU that is lost holds beside another
	gone := m.journey(16<<20, last, last)
	m.home(append(append(own, around...), shared, gone))
	m.wait(time.Now(), m.depart([]*journey{shared}))

	e := m.launch(m.qs[last], wild, 1, runtime.InOut(gone.buf), runtime.Uint64(1<<44))
	for range 50 {
		m.wait(time.Now(), m.depart(around))
		for _, j := range around {
			j.to[0] = (j.to[0] + 1) % last
		}
	}
	err = e.Wait(ctx)
	t.Logf("the kernel: %v", err)
	require.Error(t, err)
	require.NoError(t, e.Release())
	word := make([]byte, 4)
	err = m.qs[0].Read(ctx, gone.buf, 0, word)
	t.Logf("what it wrote: %v", err)
	require.Error(t, err)
	shared.to[0] = 0
	m.check(append(append(own, around...), shared))
	require.NoError(t, gone.buf.Release())
}
