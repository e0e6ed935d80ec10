package runtime_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/runtime"
)

// TestCloseEndsMaps: a mapping that nobody ended keeps its buffer, which Close names as
// not released; its bytes are gone with the context, and it can only be told so.
func TestCloseEndsMaps(t *testing.T) {
	ctx := soon(t)
	c := must(runtime.NewContext(runtime.Options{Devices: memories(1), OwnDevices: true}))
	d := must(c.Device(1))
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	b := must(c.CreateNamedBuffer("mapped", 8, 0, []byte{1, 2, 3, 4, 5, 6, 7, 8}))
	m := must(q.Map(ctx, b, 0, 4, runtime.MapWrite))
	require.NoError(t, b.Release())
	err := c.Close(ctx)
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "mapped")
	_, err = q.EnqueueUnmap(ctx, m)
	require.ErrorContains(t, err, "closed: invalid context")
	require.ErrorContains(t, m.Abandon(), "closed: invalid context")
}

func TestErrorsOfMapsNameTheBuffer(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := must(h.c.CreateNamedBuffer("weights", 8, runtime.HostNoAccess, nil))
	gate := h.gate()
	require.NoError(t, gate.SetStatus(-7))
	open := must(h.c.CreateNamedBuffer("open", 8, 0, nil))
	for name, f := range map[string]func() error{
		"weights": func() error { _, err := q.Map(ctx, b, 0, 4, runtime.MapRead); return err },
		"open":    func() error { _, err := q.Map(ctx, open, 0, 4, 0); return err },
		"open ":   func() error { _, err := q.Map(ctx, open, 4, 8, runtime.MapRead); return err },
		" open":   func() error { _, err := q.Map(ctx, open, 0, 4, runtime.MapRead, gate); return err },
	} {
		require.ErrorContains(t, f(), "buffer "+strings.TrimSpace(name))
	}
	require.NoError(t, b.Release())
	require.NoError(t, open.Release())
}
