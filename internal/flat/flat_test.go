package flat_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/flat"
	"godwit/mem"
)

func span(start, end uint64) mem.Range { return mem.Range{Start: start, End: end} }

// text is what a reader sees of a root, _ for what is not known.
func text(m *flat.Memory, root int, size uint64) string {
	out := []byte{}
	for r, known := range m.Known(root, span(0, size), m.Limit(root)) {
		for _, b := range m.Bytes(root, r) {
			if !known {
				b = '_'
			}
			out = append(out, b)
		}
	}
	return string(out)
}

func TestOperationsOnOneFlatMemory(t *testing.T) {
	m := &flat.Memory{}
	a, b := m.Add([]byte("0123456789"), true), m.Add(make([]byte, 10), false)
	require.Equal(t, "__________", text(m, b, 10))
	m.Fill(b, span(2, 7), []byte("xy"))
	require.Equal(t, "__xyxyx___", text(m, b, 10))
	m.Copy(a, b, flat.Whole(4, 0, 4))
	require.Equal(t, "0123__xy89", text(m, a, 10), "what is not known stays so")
	m.Write(b, func(yield func(flat.Row) bool) { // two rows of a rectangle
		_ = yield(flat.Row{Dst: 0, Src: 1, Size: 2}) && yield(flat.Row{Dst: 5, Src: 4, Size: 2})
	}, []byte("abcdef"))
	require.Equal(t, "bcxyxef___", text(m, b, 10))
	m.Undefine(b, span(1, 3))
	require.Equal(t, "b__yxef___", text(m, b, 10))
	m.Copy(b, b, flat.Whole(6, 0, 4))
	require.Equal(t, "b__yxeb__y", text(m, b, 10))
}

func TestACountSaysHowMuchMatters(t *testing.T) {
	m := &flat.Memory{}
	a, count := m.Add([]byte("0123456789"), true), m.Add(make([]byte, 8), false)
	m.CountBy(a, count)
	say := func(n uint64) { binary.NativeEndian.PutUint64(m.Set(count, span(0, 8)), n) }
	require.Equal(t, "0123456789", text(m, a, 10), "a count that was never written")
	say(4)
	require.Equal(t, "0123______", text(m, a, 10))
	to := m.Add(make([]byte, 10), true)
	m.Copy(to, a, flat.Whole(0, 2, 6))
	require.Equal(t, "23____\x00\x00\x00\x00", text(m, to, 10))
	say(7)
	require.Equal(t, "0123456___", text(m, a, 10), "what no count took is there again")
	m.Keep(a, span(6, 10))
	say(100)
	require.Equal(t, "0123456___", text(m, a, 10), "who kept old content was not given more")
	m.Undefine(count, span(3, 4))
	require.Equal(t, "__________", text(m, a, 10), "any count may be in force")
	m.Uncount(count)
	require.Equal(t, "0123456___", text(m, a, 10))
	say(1)
	m.CountBy(a, -1)
	require.Equal(t, "0123456___", text(m, a, 10))
}

func TestWhatAKernelMakesOfTheUnknownIsUnknown(t *testing.T) {
	bytes := [][]byte{[]byte("0123456789"), make([]byte, 10)}
	m := &flat.Memory{}
	a, b := m.Add(bytes[0], true), m.Add(bytes[1], false)
	m.Undefine(a, span(4, 6))
	uses := []flat.Use{
		{Root: a, Given: span(0, 10), Used: span(0, 10), Reads: true},
		{Root: b, Given: span(0, 10), Used: span(1, 9), Writes: true},
	}
	runs := 0
	reverse := func() error {
		runs++
		for i := 1; i < 9; i++ {
			bytes[1][i] = bytes[0][9-i]
		}
		return nil
	}
	require.NoError(t, m.Launch(uses, reverse))
	require.Equal(t, 3, runs)
	require.Equal(t, "_876__321_", text(m, b, 10))
	require.Equal(t, "0123__6789", text(m, a, 10))

	m.Fill(a, span(4, 6), []byte("-"))
	m.Fill(b, span(0, 10), []byte("."))
	require.NoError(t, m.Launch(uses, reverse))
	require.Equal(t, 4, runs, "all is known: once is enough")
	require.Equal(t, ".876--321.", text(m, b, 10))

	broken := errors.New("broken")
	require.ErrorIs(t, m.Launch(uses, func() error { return broken }), broken)
}

// A sum hides a summand that is small beside the other: still it is not known.
func TestWhatVanishesInASumIsUnknown(t *testing.T) {
	x, one := make([]byte, 4), binary.NativeEndian.AppendUint32(nil, math.Float32bits(1))
	m := &flat.Memory{}
	a, b := m.Add(x, false), m.Add(one, true)
	float := func(bytes []byte) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(bytes)) }
	require.NoError(t, m.Launch([]flat.Use{
		{Root: a, Given: span(0, 4), Used: span(0, 4), Reads: true},
		{Root: b, Given: span(0, 4), Used: span(0, 4), Reads: true, Writes: true},
	}, func() error {
		binary.NativeEndian.PutUint32(one, math.Float32bits(float(one)+float(x)))
		return nil
	}))
	require.Equal(t, "____", text(m, b, 4))
}

// What a kernel reads beyond the count is anything, what it does not write stays.
func TestAKernelIsGivenWhatTheCountSays(t *testing.T) {
	bytes := []byte("0123456789")
	m := &flat.Memory{}
	a, count := m.Add(bytes, true), m.Add(binary.NativeEndian.AppendUint64(nil, 4), true)
	m.CountBy(a, count)
	out := m.Add(make([]byte, 1), true)
	require.NoError(t, m.Launch([]flat.Use{
		{Root: a, Given: span(0, 10), Used: span(2, 8), Reads: true},
		{Root: out, Given: span(0, 1), Used: span(0, 1), Writes: true},
	}, func() error {
		m.Bytes(out, span(0, 1))[0] = bytes[2] + bytes[7]
		return nil
	}))
	require.Equal(t, "_", text(m, out, 1))
	m.CountBy(a, -1)
	require.Equal(t, "0123456789", text(m, a, 10))

	m.CountBy(a, count) // a launch that writes the count gives it a value
	m.Uncount(count)
	require.NoError(t, m.Launch([]flat.Use{{Root: count, Given: span(0, 8), Used: span(0, 8), Writes: true}}, func() error {
		binary.NativeEndian.PutUint64(m.Bytes(count, span(0, 8)), 2)
		return nil
	}))
	require.Equal(t, "01________", text(m, a, 10))
}
