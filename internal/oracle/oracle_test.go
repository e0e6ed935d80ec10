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

func enqueue(t *testing.T, o *oracle.Oracle, accs ...mem.Access) oracle.Result {
	r, err := o.Enqueue(accs)
	require.NoError(t, err)
	return r
}

func TestOnlyBytesThatAreReadAndMissingMove(t *testing.T) {
	o := fresh(t, 100)
	require.Zero(t, enqueue(t, o, acc(mem.Read, 0, 100, 1)).Bytes, "never written: nothing to move")
	require.EqualValues(t, 1, enqueue(t, o, acc(mem.Write, 0, 50, 1)).Version)
	require.EqualValues(t, 30, enqueue(t, o, acc(mem.Read, 20, 80, 2)).Bytes)
	require.EqualValues(t, 20, enqueue(t, o, acc(mem.Read, 0, 100, 2)).Bytes, "the rest")
	require.Zero(t, enqueue(t, o, acc(mem.Write, 0, 100, 2)).Bytes, "about to be overwritten")
	require.EqualValues(t, 10, enqueue(t, o, acc(mem.ReadWrite, 0, 10, 1)).Bytes)
	v, valid, lost := o.Byte(buf, 5)
	require.EqualValues(t, 3, v)
	require.Equal(t, mem.SetOf(1), valid)
	require.False(t, lost)
}

func TestOneCommandsReadsComeBeforeItsWrites(t *testing.T) {
	o := fresh(t, 10)
	enqueue(t, o, acc(mem.Write, 0, 10, 1))
	r := enqueue(t, o, acc(mem.Write, 0, 10, 1), acc(mem.Read, 0, 10, 2), acc(mem.Read, 2, 4, 2))
	require.EqualValues(t, 10, r.Bytes)
	_, valid, _ := o.Byte(buf, 3)
	require.Equal(t, mem.SetOf(1), valid)
}

func TestAFailedCopyIsWithdrawnAndNothingElse(t *testing.T) {
	o := fresh(t, 10)
	enqueue(t, o, acc(mem.Write, 0, 10, 1))
	r := enqueue(t, o, acc(mem.Read, 0, 10, 2))
	enqueue(t, o, acc(mem.Write, 0, 4, 1))
	o.FailCopy(r.Command, buf, mem.Range{End: 8}, 2)
	for off, want := range map[uint64]mem.MemorySet{0: mem.SetOf(1), 5: mem.SetOf(1), 9: mem.SetOf(1, 2)} {
		_, valid, lost := o.Byte(buf, off)
		require.Equal(t, want, valid, "byte %d", off)
		require.False(t, lost)
	}
}

func TestAFailedWriteLosesItsBytesAndNoNewerOnes(t *testing.T) {
	o := fresh(t, 10)
	enqueue(t, o, acc(mem.Write, 0, 10, 1))
	r := enqueue(t, o, acc(mem.ReadWrite, 0, 8, 1))
	enqueue(t, o, acc(mem.Read, 4, 10, 2))
	enqueue(t, o, acc(mem.Write, 0, 2, 2))
	o.Fail(r.Command)
	for off := range uint64(10) {
		_, valid, lost := o.Byte(buf, off)
		require.Equal(t, off >= 2 && off < 8, lost, "byte %d", off)
		require.Equal(t, lost, valid.Empty())
	}
	_, err := o.Enqueue([]mem.Access{acc(mem.Read, 0, 3, 1)})
	require.ErrorIs(t, err, mem.ErrPoisoned)
	enqueue(t, o, acc(mem.Write, 2, 8, 1))
	require.EqualValues(t, 2, enqueue(t, o, acc(mem.Read, 0, 10, 1)).Bytes)
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
