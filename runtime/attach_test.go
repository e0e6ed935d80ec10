package runtime_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
)

type closing func() error

func (c closing) Close() error { return c() }

func TestWhatIsAttachedIsMadeOnceAndClosedWithTheContextYoungestFirst(t *testing.T) {
	c := must(runtime.NewContext(runtime.Options{Name: "c", Devices: []devices.Device{null.New(devices.Config{Name: "null"})}, OwnDevices: true}))
	type key int
	var closed []key
	made := 0
	attach := func(k key) (io.Closer, error) {
		return c.Attached(k, func() (io.Closer, error) {
			made++
			if k == 9 {
				return nil, mem.ErrNoHostMemory
			}
			b, err := c.CreateBuffer(100, 0, nil) // the context can be used by what is made
			return closing(func() error {
				closed = append(closed, k)
				return errors.Join(err, b.Release())
			}), err
		})
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := attach(1)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, made)
	_, err := attach(9)
	require.ErrorIs(t, err, mem.ErrNoHostMemory)
	_, err = attach(2)
	require.NoError(t, err)
	require.NoError(t, c.Close(context.Background()), "their buffers are no leaks")
	require.Equal(t, []key{2, 1}, closed)
	_, err = attach(3)
	require.ErrorContains(t, err, "context c")
	require.Equal(t, 3, made)
}

func TestWhatIsBeingAttachedMayAttachOthersButNotItself(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	type outer struct{}
	type inner struct{}
	open := func() (io.Closer, error) { return io.NopCloser(nil), nil }
	_, err := h.c.Attached(outer{}, func() (io.Closer, error) {
		if _, err := h.c.Attached(inner{}, open); err != nil {
			return nil, err
		}
		return h.c.Attached(outer{}, open)
	})
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "and not a hang")
	_, err = h.c.Attached(outer{}, open)
	require.NoError(t, err, "nothing is left of it")
}
