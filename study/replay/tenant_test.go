package replay_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/eviction"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/study/replay"
)

// TestAReplayKeepsToTenants: a program with tenants is recorded, and its replay evicts and moves as much; another
// that has none of them does not.
func TestAReplayKeepsToTenants(t *testing.T) {
	const size, fit = 4096, 8
	var recorded bytes.Buffer
	memories := []trace.CommandMemory{{Name: "host"}, {Name: "gpu", Capacity: fit * size}}
	d := null.New(devices.Config{Name: "gpu", Memory: fit * size})
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Policy: eviction.LRU{}, Trace: trace.NewCommandWriter(&recorded, "").Context(memories, 0)})
	require.NoError(t, err)
	ctx, dice := context.Background(), rand.New(rand.NewPCG(3, 3))
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	for range 2 { // the second time with other rules under the same names
		var tenants []*runtime.Tenant
		var all []*runtime.Buffer
		for _, o := range []runtime.TenantOptions{{Name: "a", Floors: []uint64{0, 3 * size}, Priority: int32(dice.IntN(3))}, {Name: "b", Caps: []uint64{0, 4 * size}}} {
			tenant, err := c.NewTenant(o)
			require.NoError(t, err)
			tenants = append(tenants, tenant)
			for range 8 {
				b, err := tenant.CreateBuffer("", size, 0, make([]byte, size))
				require.NoError(t, err)
				all = append(all, b)
			}
		}
		for range 400 {
			var e runtime.Event
			if dice.IntN(3) == 0 {
				e, err = q.EnqueueFill(ctx, all[dice.IntN(16)], []byte{1}, 0, size)
			} else {
				e, err = q.EnqueueCopy(ctx, all[dice.IntN(8)], all[8+dice.IntN(8)], 0, 0, size/2)
			}
			require.NoError(t, err)
			require.NoError(t, e.Release())
		}
		for _, b := range all {
			require.NoError(t, b.Release())
		}
		for _, tenant := range tenants {
			require.NoError(t, tenant.Close())
		}
	}
	want := c.Stats()
	require.Greater(t, want.Evictions, uint64(100))
	require.NoError(t, c.Close(ctx))

	traces, err := trace.ReadCommands(ctx, bytes.NewReader(recorded.Bytes()), "recorded")
	require.NoError(t, err)
	require.GreaterOrEqual(t, traces[0].Tenants(), 2)
	options := replay.Options{Policy: "lru", Capacity: []uint64{0, fit * size}}
	got, err := replay.Run(ctx, traces[0], options)
	require.NoError(t, err)
	require.Equal(t, want.Evictions, got.Evictions)
	require.Equal(t, want.BytesMoved, got.BytesMoved)
	require.LessOrEqual(t, got.CapacityBound, got.Capacity)

	_, err = replay.Run(ctx, traces[0], replay.Options{Policy: "lru", Capacity: []uint64{0, 2 * size}})
	require.ErrorContains(t, err, `tenant "a"`)
	for i := range traces[0].Steps {
		if b := traces[0].Steps[i].Create; b != nil {
			b.Tenant = ""
		}
	}
	got, err = replay.Run(ctx, traces[0], options)
	require.NoError(t, err)
	require.NotEqual(t, want.Evictions, got.Evictions)
}

// TestTenantsOfATraceAreChecked: a buffer names one that was said.
func TestTenantsOfATraceAreChecked(t *testing.T) {
	head := `{"godwit":"commands","version":1}` + "\n" + `{"context":"1","memories":[{"name":"host"},{"name":"gpu"}]}` + "\n"
	for line, want := range map[string]string{
		`{"context":"1","create":{"id":1,"size":1,"tenant":"a"}}`:                       `tenant "a", which has not been said`,
		`{"context":"1","tenant":{"name":""}}`:                                          "want a name",
		`{"context":"1","tenant":{"name":"a","caps":[0,1,2]}}`:                          "no more than memories",
		`{"context":"1","tenant":{"name":"a"},"create":{"id":1,"size":1,"tenant":"a"}}`: "want one of tenant",
	} {
		_, err := trace.ReadCommands(context.Background(), bytes.NewReader([]byte(head+line+"\n")), "f")
		require.ErrorContains(t, err, want)
	}
}
