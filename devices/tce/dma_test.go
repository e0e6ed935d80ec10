package tce_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/mem"
)

func TestCopiesGoInWordsAndTheirEndsByteByByte(t *testing.T) {
	d := open(t, tce.Options{Memory: 1 << 20, DMAWord: 8})
	defer func() { require.NoError(t, d.Close()) }()
	require.Equal(t, uint64(8), d.Info().CopyAlign)
	blocks := make([]mem.Block, 2)
	out, err := d.Memory().AllocAll([]mem.Request{{Size: 61}, {Size: 64}}, blocks, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	defer func() {
		for _, b := range blocks {
			require.NoError(t, d.Memory().FreeAfter(b, nil))
		}
	}()
	q, err := d.NewQueue(devices.QueueOptions{Name: "q"})
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	host := make([]byte, 64)
	for i := range host {
		host[i] = byte(i)
	}
	at := func(i int, off uint64) devices.Loc { return devices.Loc{Device: d, Block: blocks[i], Off: off} }
	for _, c := range []struct {
		name         string
		dst, src     devices.Loc
		size         uint64
		words, bytes uint64
	}{
		{"whole words", at(1, 8), devices.Loc{Bytes: host}, 32, 4, 0},
		{"odd ends", at(0, 3), devices.Loc{Bytes: host}, 50, 5, 10},
		{"to the odd end of the block", at(0, 0), devices.Loc{Bytes: host}, 61, 7, 5},
		{"inside a word", at(0, 9), devices.Loc{Bytes: host}, 3, 0, 3},
		{"out of it", devices.Loc{Bytes: host}, at(1, 7), 18, 2, 2},
		{"within, alike", at(1, 5), at(0, 5), 16, 1, 8},
		{"within, not alike", at(1, 5), at(0, 6), 16, 0, 16},
	} {
		want := make([]byte, c.size)
		if c.src.Device == nil {
			copy(want, c.src.Bytes)
		} else {
			read(t, q, c.src, want)
		}
		before := d.Transfers()
		p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Dst: c.dst, Src: c.src, Size: c.size}, nil)
		require.NoError(t, err, c.name)
		require.NoError(t, p.Wait(context.Background()), c.name)
		require.Equal(t, tce.Transfers{Words: before.Words + c.words, Bytes: before.Bytes + c.bytes}, d.Transfers(), c.name)
		got := make([]byte, c.size)
		if c.dst.Device == nil {
			copy(got, c.dst.Bytes)
		} else {
			read(t, q, c.dst, got)
		}
		require.Equal(t, want, got, c.name)
	}
}

func read(t *testing.T, q devices.Queue, from devices.Loc, to []byte) {
	p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Dst: devices.Loc{Bytes: to}, Src: from, Size: uint64(len(to))}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Wait(context.Background()))
}

func TestDMAWordsThatAreNone(t *testing.T) {
	for _, word := range []uint64{3, 256} {
		_, err := tce.New(tce.Options{DMAWord: word})
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	require.Equal(t, uint64(1), func() uint64 {
		d := open(t, tce.Options{})
		defer func() { require.NoError(t, d.Close()) }()
		return d.Info().CopyAlign
	}())
}
