package tce_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/mem"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []tce.Options{
		{BaseAlign: 100}, {GlobalBase: 0x1800, Memory: 1 << 20}, {GlobalBase: ^uint64(0), Memory: 1 << 20}, {LocalBase: ^uint64(0)},
	} {
		_, err := tce.New(o)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%+v", o)
	}
	ctx := context.Background()
	_, err := devices.Open(ctx, "tce", devices.Config{Params: map[string]string{"workers": "3"}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "workers")
	ds, err := devices.Open(ctx, "tce", devices.Config{Memory: 1 << 20, Params: map[string]string{"strategy": "tight", "global-base": "0x100000"}})
	require.NoError(t, err)
	require.EqualValues(t, 0x100000, ds[0].Info().Spaces[0].Base)
	require.NoError(t, ds[0].Close())
}
