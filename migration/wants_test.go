package migration_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// Buffers that are stored whole are wanted once on each memory that lacks them, in the order in
// which they are named, by spans first, whatever lies between two that name the same one.
func TestABufferThatIsStoredWholeIsWantedOnceOnAMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := migration.New(mem.NewTopology("gpu0", "gpu1"), migration.Options{})
		var ids []mem.BufferID
		for i := range 1 + rnd.IntN(6) {
			id, err := p.Create(uint64(100+i), mem.MemorySet{})
			require.NoError(t, err)
			ids = append(ids, id)
			if m := mem.MemoryID(rnd.IntN(6)); m < 3 {
				require.NoError(t, p.Stored(migration.Want{Buffer: id, Memory: m}, mem.Plain))
			}
		}
		some := func(most int) (spans []migration.Span) {
			for range rnd.IntN(most) {
				from := rnd.Uint64N(50)
				spans = append(spans, at(ids[rnd.IntN(len(ids))], mem.MemoryID(rnd.IntN(3)), from, from+1+rnd.Uint64N(50)))
			}
			return spans
		}
		spans, named := some(4), some(30)
		var accs []mem.Access
		for _, s := range named {
			accs = append(accs, access(s, mem.Read))
		}
		var want []migration.Want
		for _, s := range append(slices.Clone(spans), named...) {
			all := mem.Range{End: uint64(100 + slices.Index(ids, s.Buffer))}
			w := migration.Want{Buffer: s.Buffer, Memory: s.Memory, Range: all, Span: all}
			if !p.Stores(s.Buffer).Has(s.Memory) && !slices.Contains(want, w) {
				want = append(want, w)
			}
		}
		var plan migration.Plan
		for range 2 { // no plan leaves anything to the next
			require.NoError(t, p.Plan(&plan, accs, spans...))
			require.Equal(t, want, append([]migration.Want(nil), plan.Storage...))
		}
	}
}

// Blocks of ranges are joined also where buffers that are stored whole lie between, and the
// count of a buffer is wanted once, be it named beside it or not.
func TestWantsOfWholeBuffersAndOfRangesAndOfCounts(t *testing.T) {
	p, id := parts(t, 64*kib)
	var whole []mem.BufferID
	for range 3 {
		b, err := p.Create(kib, mem.MemorySet{})
		require.NoError(t, err)
		whole = append(whole, b)
	}
	counted, size := whole[0], whole[1]
	require.NoError(t, p.SetContentSize(counted, size))
	line := mem.NewTimeline("q", true, nil)
	write(t, p, at(counted, 1, 0, kib), line)
	write(t, p, at(size, 1, 0, kib), line)
	all := mem.Range{End: kib}
	of := func(b mem.BufferID, m mem.MemoryID) migration.Want {
		return migration.Want{Buffer: b, Memory: m, Range: all, Span: all}
	}
	joined := mem.Range{End: 6 * kib}
	accs := []mem.Access{
		access(at(id, 2, 0, 4*kib), mem.Read),
		access(at(counted, 2, 0, 8), mem.Read),
		access(at(whole[2], 2, 0, 8), mem.Read),
		access(at(counted, 2, 16, 24), mem.Read),
		access(at(id, 2, 2*kib, 6*kib), mem.Read),
		access(at(whole[2], 2, 8, 16), mem.Read),
	}
	want := []migration.Want{of(size, mem.Host), of(counted, 2), of(whole[2], 2), {Buffer: id, Memory: 2, Range: joined, Span: joined}}
	var plan migration.Plan
	require.NoError(t, p.Plan(&plan, accs))
	require.ElementsMatch(t, want, plan.Storage)
	require.NoError(t, p.Plan(&plan, append(accs, access(at(size, mem.Host, 0, 8), mem.Read))))
	require.ElementsMatch(t, want, plan.Storage)
}

// What a block keeps in vain goes when one other part is needed, and stays when several are:
// a part within another is no other.
func TestWhatWasKeptInVainStaysWhereSeveralPartsAreNeeded(t *testing.T) {
	p, id := parts(t, 64*kib)
	line := mem.NewTimeline("q", true, nil)
	write(t, p, at(id, 1, 0, 4*kib), line)
	write(t, p, at(id, 1, 2*kib, 6*kib), line)
	var plan migration.Plan
	for other, from := range map[uint64]uint64{5 * kib: 4 * kib, 12 * kib: 0} {
		accs := []mem.Access{access(at(id, 1, 4*kib, 8*kib), mem.Read), access(at(id, 1, other, other+kib), mem.Read)}
		require.NoError(t, p.Plan(&plan, accs))
		require.Equal(t, mem.Range{Start: from, End: 8 * kib}, plan.Storage[0].Range)
	}
}

// BenchmarkPlanOfBuffersStoredNowhere plans a command that lacks all of its buffers: ns/buffer
// is what each takes, however many there are.
func BenchmarkPlanOfBuffersStoredNowhere(b *testing.B) {
	for i, n := range []int{4000, 16_000, 4000, 16_000} {
		name := fmt.Sprintf("buffers=%d", n)
		if i > 1 {
			name += "/by range"
		}
		b.Run(name, func(b *testing.B) {
			p := migration.New(mem.NewTopology("gpu0"), migration.Options{})
			var accs []mem.Access
			for range n {
				id := create(b, p, kib)
				if i > 1 {
					require.NoError(b, p.ByRange(id, 128))
				}
				accs = append(accs, access(at(id, 1, 0, kib), mem.Write))
			}
			var plan migration.Plan
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Plan(&plan, accs); err != nil {
					b.Fatal(err)
				}
			}
			if len(plan.Storage) != n {
				b.Fatal(len(plan.Storage))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/buffer")
		})
	}
}
