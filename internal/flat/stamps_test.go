package flat_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/flat"
	"godwit/mem"
)

// TestStampsAreThoseOfAnArray writes and copies at random beside an array with a stamp for each
// byte.
func TestStampsAreThoseOfAnArray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, base = 64, 1 << 40
		var memories [2]flat.Stamps
		var arrays [2][size]flat.Stamp
		draw := func(what string) (int, mem.Range) {
			start := rapid.Uint64Range(0, size-1).Draw(t, what)
			return rapid.IntRange(0, 1).Draw(t, what), mem.Range{Start: start, End: rapid.Uint64Range(start+1, size).Draw(t, what)}
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "operations") {
			m, r := draw("of")
			if rapid.Bool().Draw(t, "write") {
				first := flat.Stamp{By: uint64(n + 1), Arg: rapid.Int32Range(-1, 1).Draw(t, "arg"), Off: rapid.Uint64Range(0, 9).Draw(t, "off")}
				memories[m].Set(r.Shift(base), first)
				for i := r.Start; i < r.End; i++ {
					arrays[m][i] = first.After(i - r.Start)
				}
				continue
			}
			o, to := draw("to")
			r.End = min(r.End, r.Start+size-to.Start)
			memories[o].CopyFrom(&memories[m], r.Shift(base), base+to.Start)
			copy(arrays[o][to.Start:], append([]flat.Stamp(nil), arrays[m][r.Start:r.End]...))
		}
		for m := range memories {
			next := uint64(base)
			for r, first := range memories[m].Runs(mem.Range{Start: base, End: base + size}) {
				if r.Start != next {
					t.Fatalf("a run %v, want one from %d", r, next)
				}
				for i := r.Start; i < r.End; i++ {
					if got, want := first.After(i-r.Start), arrays[m][i-base]; got != want {
						t.Fatalf("memory %d, byte %d: got %v, want %v", m, i-base, got, want)
					}
				}
				next = r.End
			}
			if next != base+size {
				t.Fatalf("runs end at %d, want %d", next, uint64(base+size))
			}
		}
	})
}

func TestCompareNamesTheFirstByteThatIsNotAsItWasWritten(t *testing.T) {
	var root, device flat.Stamps
	root.Set(mem.Range{End: 100}, flat.Stamp{By: 7, Arg: flat.Created})
	root.Set(mem.Range{Start: 40, End: 60}, flat.Stamp{By: 3, Off: 5})
	root.Set(mem.Range{Start: 90, End: 100}, flat.Stamp{})
	given := mem.Range{Start: 30, End: 100}
	look := func() (seen []flat.Seen) {
		for r, first := range device.Runs(given) {
			seen = append(seen, flat.Seen{Arg: 2, Range: r.Shift(1000 - given.Start), First: first})
		}
		return seen
	}
	compare := func() error { return root.Compare(given, 2, 1000, look()) }
	device.CopyFrom(&root, mem.Range{End: 100}, 0)
	require.NoError(t, compare())
	require.NoError(t, root.Compare(given, 2, 1000, append(look(), look()...)), "looked at twice")
	device.Set(mem.Range{Start: 90, End: 95}, flat.Stamp{By: 9})
	require.NoError(t, compare(), "nobody knows what was there")
	require.ErrorContains(t, root.Compare(given, 1, 1000, look()), "byte 1000 of argument 1 was not looked at, one flat memory has byte 30 that buffer 7 was made with")

	device.CopyFrom(&root, mem.Range{Start: 40, End: 60}, 41)
	require.EqualError(t, compare(), "byte 1011 of argument 2 is byte 5 of argument 0 of command 3, one flat memory has byte 6 of argument 0 of command 3")
	device.Set(mem.Range{Start: 35, End: 41}, flat.Stamp{})
	require.EqualError(t, compare(), "byte 1005 of argument 2 is a byte that nobody wrote, one flat memory has byte 35 that buffer 7 was made with")
	gone := look()
	require.ErrorContains(t, root.Compare(given, 2, 1000, gone[1:]), "byte 1000 of argument 2 was not looked at")
	device.CopyFrom(&root, mem.Range{End: 100}, 0)
	twice := look()
	require.ErrorContains(t, root.Compare(given, 2, 1000, append(look(), twice[:1]...)), "byte 1010 of argument 2 was not looked at", "the second look ends early")
	device.Set(mem.Range{Start: 59, End: 60}, flat.Stamp{By: 4})
	require.ErrorContains(t, root.Compare(given, 2, 1000, append(twice, look()...)), "byte 1029 of argument 2 is byte 0 of argument 0 of command 4", "it changed between two looks")
}
