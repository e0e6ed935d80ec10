package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/mem"
)

func TestHostConformance(t *testing.T) {
	devicetest.Run(t, func(testing.TB) devices.Device { return engine.NewHost(engine.HostOptions{}) }, devicetest.WithoutKernels())
}

func TestAPieceOfABlockIsReached(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	q := newQueue(t, h, devices.QueueOptions{Name: "q"})
	out := make([]mem.Block, 1)
	got, err := h.Memory().AllocAll([]mem.Request{{Size: 100}}, out, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	b := out[0]
	defer func() { require.NoError(t, h.Memory().FreeAfter(b, nil)) }()
	p, err := q.Submit(&devices.Command{Op: devices.OpFill, Size: 10, Pattern: []byte{7}, Dst: devices.Loc{Device: h, Block: b.Piece(40, 20), Off: 5}}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Wait(context.Background()))
	view, err := h.View(b.Piece(40, 20), 5, 10)
	require.NoError(t, err)
	require.Equal(t, []byte{7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, view)
	_, err = h.View(b.Piece(40, 20), 15, 10)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = h.View(b.Piece(90, 20), 0, 10)
	require.ErrorIs(t, err, mem.ErrInvalidBuffer, "past the block")
}
