package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// TestALinkThatNoDriverCanDoIsRefusedWhenTheContextOpens, and not at the first copy.
func TestALinkThatNoDriverCanDoIsRefusedWhenTheContextOpens(t *testing.T) {
	var devs []devices.Device
	for range 2 {
		d := must(tce.New(tce.Options{}))
		defer func() { require.NoError(t, d.Close()) }()
		devs = append(devs, d)
	}
	_, err := runtime.NewContext(runtime.Options{Name: "c", Devices: devs, Links: []runtime.Link{{From: 1, To: 2, Link: mem.DirectLink(0, 0)}}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	c := must(runtime.NewContext(runtime.Options{Name: "c", Devices: devs, Links: []runtime.Link{{From: 1, To: 2, Link: mem.RingLink(0, 1e9)}}}))
	require.NoError(t, c.Close(context.Background()))
}

// TestAMapIsGivenUpWhileItsContextCloses, or after: an error, nothing else.
func TestAMapIsGivenUpWhileItsContextCloses(t *testing.T) {
	ctx := context.Background()
	for _, gated := range []bool{false, true} {
		d := must(tce.New(tce.Options{}))
		c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
		q := must(c.NewQueue(d, runtime.QueueOptions{}))
		b := must(c.CreateBuffer(64, 0, make([]byte, 64)))
		var wait []runtime.Event
		if gated {
			u := must(c.NewUserEvent())
			wait = append(wait, u)
		}
		ended := make(chan error, 1)
		var m runtime.Mapping
		go func() {
			var err error
			m, err = q.Map(ctx, b, 0, 64, runtime.MapWrite, wait...)
			ended <- err
		}()
		if !gated {
			require.NoError(t, <-ended)
			_ = c.Close(ctx) // names what is left
			require.Error(t, m.Abandon())
			continue
		}
		require.Eventually(t, func() bool { return b.Maps() == 1 }, 10*time.Second, time.Millisecond)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		_ = c.Close(short)
		cancel()
		require.Error(t, <-ended)
	}
}
