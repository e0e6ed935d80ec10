package sweep_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/sweep"
)

func TestValuesOfAxes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"n=1", "n: 1"},
		{"n=2..64*2", "n: 2 4 8 16 32 64"},
		{"n=3..64*2", "n: 3 6 12 24 48"},
		{"n=1..9+2", "n: 1 3 5 7 9"},
		{"n=1..10+4", "n: 1 5 9"},
		{"n = 1..4", "n: 1 2 3 4"},
		{"n=5..5", "n: 5"},
		{"n=1,4..8*2,100", "n: 1 4 8 100"},
		{"size=64KiB,1MiB", "size: 64KiB 1MiB"},
		{"size=64KiB..1MiB*4", "size: 65536 262144 1048576"},
		{"size=1kB..3kB+1000B", "size: 1000 2000 3000"},
		{"t=1us..1ms*10", "t: 1000ns 10000ns 100000ns 1000000ns"},
		{"r=0.1..0.3+0.1", "r: 0.1 0.2 0.3"},
		{"r=1..3*1.5", "r: 1 1.5 2.25"},
		{"mode=ring,direct", "mode: ring direct"},
		{"sizes=[1, 2],[3,4]", "sizes: [1, 2] [3,4]"},
		{"n=min(1,2),4*16", "n: min(1,2) 4*16"},
		{`s="a,b",c`, `s: "a,b" c`},
		{"path=../x", "path: ../x"},

		{"n", `"n": want NAME=VALUES`},
		{"=1", "want NAME=VALUES"},
		{"n=", "want NAME=VALUES"},
		{"n=1,,2", "a value is missing"},
		{"n=1,1", `the value "1" is there twice`},
		{"n=2..64*", "want FROM..TO"},
		{"n=2..64/2", "want FROM..TO"},
		{"n=2..", "want FROM..TO"},
		{"n=64..2*2", "its end is below its beginning"},
		{"n=2..64*1", "the factor is 1: want more than 1"},
		{"n=0..64*2", "0 times anything is 0"},
		{"n=1..4+0", "the step is 0"},
		{"n=1KiB..4+1", "of different kinds"},
		{"n=1KiB..4KiB+1us", "of different kinds"},
		{"n=1KiB..4KiB*2KiB", "of different kinds"},
		{"n=1apples..4apples", `"apples" is no unit`},
		{"n=1..100000000", "more than 10000000 values"},
		{"n=1..100,101..1000000", "a list of more than 100000 values"},
		{"n=1B..1MB+0.5B", "is there twice"},
		{"n=1..100000000000000000000*1.0001", "more than 1000 values"},
	} {
		a, err := sweep.ParseAxis(c.text)
		if err != nil {
			require.ErrorIs(t, err, mem.ErrInvalidValue)
			require.Contains(t, err.Error(), c.want, c.text)
			continue
		}
		require.Equal(t, c.want, a.Name+": "+strings.Join(valuesOf(&a), " "), c.text)
	}
}

func FuzzParseAxis(f *testing.F) {
	for _, text := range []string{"n=2..64*2", "n=1..9+2", "size=64KiB..1MiB*4", "r=0.1..0.3+0.1", "l=[1,2],[3]", "t=1us..1ms*10", "n=1..1e9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := sweep.ParseAxis(text)
		if err != nil {
			require.ErrorIs(t, err, mem.ErrInvalidValue)
			return
		}
		require.Positive(t, a.Len())
		require.LessOrEqual(t, a.Len(), 10_000_000)
		require.NotEqual(t, a.At(0), a.At(a.Len()-1)+"x")
	})
}

func valuesOf(a *sweep.Axis) (out []string) {
	for i := range a.Len() {
		out = append(out, a.At(i))
	}
	return out
}

// TestLongRangesAreAsShortOnes: each value is made as it is asked for, and is the one that a list has.
func TestLongRangesAreAsShortOnes(t *testing.T) {
	for _, of := range []string{"n=3..%s+7", "n=0.5..%s+0.5", "n=1KiB..%sB+256B", "n=5us..%sns+9ns"} {
		long, err := sweep.ParseAxis(fmt.Sprintf(of, "3000000"))
		require.NoError(t, err)
		require.Nil(t, long.Values)
		short, err := sweep.ParseAxis(fmt.Sprintf(of, "3000") + ",1d")
		if err != nil {
			short, err = sweep.ParseAxis(fmt.Sprintf(of, "20000") + ",x")
		}
		require.NoError(t, err)
		require.Greater(t, len(short.Values), 1)
		for i, v := range short.Values[:len(short.Values)-1] {
			require.Equal(t, v, long.At(i))
		}
	}
	all, err := sweep.ParseAxis("n=1..10000000")
	require.NoError(t, err)
	c := sweep.Config{Axes: []sweep.Axis{all}}
	points, err := c.Points()
	require.NoError(t, err)
	require.Equal(t, 10_000_000, points.Len())
	require.Equal(t, "10000000", points.At(points.Len() - 1)[0].Value)
}

func TestPointsAreAProductInOrder(t *testing.T) {
	c := sweep.Config{Axes: []sweep.Axis{{Kind: sweep.Parameter, Name: "n", Values: []string{"1", "2"}}, {Kind: sweep.Policy, Name: "policy", Values: []string{"lru", "cost", "none"}}}}
	points, err := c.Points()
	require.NoError(t, err)
	var got []string
	for p := range points.All() {
		got = append(got, p[0].Value+p[1].Value)
	}
	require.Equal(t, []string{"1lru", "1cost", "1none", "2lru", "2cost", "2none"}, got)
	c.Axes[1].Kind, c.Axes[1].Name = sweep.Parameter, "n"
	_, err = c.Points()
	require.ErrorContains(t, err, "n is swept twice")
	many := make([]string, 3163)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	_, err = (&sweep.Config{Axes: []sweep.Axis{{Name: "a", Values: many}, {Name: "b", Values: many}}}).Points()
	require.ErrorContains(t, err, "10004569 points with the values of b: want at most 10000000")
}
