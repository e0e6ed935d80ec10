package oracle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/oracle"
	"godwit/mem"
)

const buf = mem.BufferID(1)

func acc(mode mem.Mode, start, end uint64, m mem.MemoryID) mem.Access {
	return mem.Access{Buffer: buf, Range: mem.Range{Start: start, End: end}, Mode: mode, Memory: m}
}

func fresh(t *testing.T, size uint64) *oracle.Oracle {
	o := oracle.New(mem.NewTopology("a", "b"))
	require.NoError(t, o.Create(buf, size, mem.MemorySet{}))
	return o
}

func enqueue(t *testing.T, o *oracle.Oracle, accs ...mem.Access) uint64 {
	r, err := o.Enqueue(accs)
	require.NoError(t, err)
	return r
}

func TestOnlyBytesThatAreReadAndMissingMove(t *testing.T) {
	o := fresh(t, 100)
	require.Zero(t, enqueue(t, o, acc(mem.Read, 0, 100, 1)), "never written: nothing to move")
	enqueue(t, o, acc(mem.Write, 0, 50, 1))
	require.EqualValues(t, 30, enqueue(t, o, acc(mem.Read, 20, 80, 2)))
	require.EqualValues(t, 20, enqueue(t, o, acc(mem.Read, 0, 100, 2)), "the rest")
	require.Zero(t, enqueue(t, o, acc(mem.Write, 0, 100, 2)), "about to be overwritten")
	require.EqualValues(t, 10, enqueue(t, o, acc(mem.ReadWrite, 0, 10, 1)))
}

func TestOneCommandsReadsComeBeforeItsWrites(t *testing.T) {
	o := fresh(t, 10)
	enqueue(t, o, acc(mem.Write, 0, 10, 1))
	require.EqualValues(t, 10, enqueue(t, o, acc(mem.Write, 0, 10, 1), acc(mem.Read, 0, 10, 2), acc(mem.Read, 2, 4, 2)))
	require.EqualValues(t, 10, enqueue(t, o, acc(mem.Read, 0, 10, 2)), "what is read is old by then")
}

func TestBadHistoriesAreRefused(t *testing.T) {
	o := fresh(t, 10)
	for _, c := range []struct {
		accs []mem.Access
		want error
	}{
		{[]mem.Access{{Buffer: 9, Range: mem.Range{End: 1}}}, mem.ErrInvalidBuffer},
		{[]mem.Access{acc(mem.Read, 0, 11, 1)}, mem.ErrInvalidValue},
		{[]mem.Access{acc(mem.Read, 3, 3, 1)}, mem.ErrInvalidValue},
		{[]mem.Access{acc(mem.Read, 0, 1, 3)}, mem.ErrInvalidValue},
		{[]mem.Access{acc(7, 0, 1, 1)}, mem.ErrInvalidValue},
		{[]mem.Access{acc(mem.Write, 0, 5, 1), acc(mem.Write, 4, 6, 2)}, mem.ErrInvalidOperation},
	} {
		_, err := o.Enqueue(c.accs)
		require.ErrorIs(t, err, c.want, "%v", c.accs)
	}
	require.ErrorIs(t, o.Create(buf, 10, mem.MemorySet{}), mem.ErrInvalidBuffer)
	require.ErrorIs(t, o.Create(2, 0, mem.MemorySet{}), mem.ErrInvalidSize)
}

func TestBadSizeBuffersAreRefused(t *testing.T) {
	o := oracle.New(mem.NewTopology("a"))
	require.NoError(t, o.Create(1, 64, mem.MemorySet{}))
	require.NoError(t, o.Create(2, 8, mem.MemorySet{}))
	require.NoError(t, o.SetContentSize(1, 2))
	require.NoError(t, o.SetContentSize(1, 0))
	require.ErrorIs(t, o.SetContentSize(3, 2), mem.ErrInvalidBuffer)
	require.ErrorIs(t, o.SetContentSize(1, 3), mem.ErrInvalidBuffer)
}
