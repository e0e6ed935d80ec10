package migration_test

import (
	"fmt"
	"testing"

	"godwit/mem"
	"godwit/migration"
)

// prompt is a timeline whose points end as they are issued, so that the
// planner's state is that of a context whose devices keep up.
type prompt struct{ *mem.Timeline }

func newPrompt(name string) prompt { return prompt{mem.NewTimeline(name, true, nil)} }

func (p prompt) point() mem.Point {
	at := p.Next()
	p.End(at, nil)
	return at
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("gpu", i))
	}
	return out
}

// carry commits all of a plan.
func carry(b *testing.B, p *migration.Planner, plan *migration.Plan, copies, queue prompt) {
	for _, w := range plan.Storage {
		if err := p.Stored(w, mem.Plain); err != nil {
			b.Fatal(err)
		}
	}
	for i := range plan.Steps {
		p.CommitStep(plan, i, copies.point())
	}
	p.Commit(plan, queue.point())
}

func create(b *testing.B, p *migration.Planner, size uint64) mem.BufferID {
	id, err := p.Create(size, mem.MemorySet{})
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// BenchmarkPingPong plans, and plans and commits, a whole buffer taking turns
// on two memories: one step each time.
func BenchmarkPingPong(b *testing.B) {
	for _, commit := range []bool{false, true} {
		b.Run(fmt.Sprintf("commit=%v", commit), func(b *testing.B) {
			p := migration.New(mem.NewTopology("gpu0", "gpu1"), migration.Options{})
			id := create(b, p, 1<<20)
			copies, queue := newPrompt("copies"), newPrompt("queue")
			var plan migration.Plan
			accs := []mem.Access{{Buffer: id, Range: mem.Range{End: 1 << 20}, Mode: mem.ReadWrite, Memory: 1}}
			turn := func() {
				accs[0].Memory = 3 - accs[0].Memory
				if err := p.Plan(&plan, accs); err != nil {
					b.Fatal(err)
				}
			}
			for range 4 {
				turn()
				carry(b, p, &plan, copies, queue)
			}
			accs[0].Memory = 3 - accs[0].Memory
			b.ReportAllocs()
			steps := 0
			for b.Loop() {
				if commit {
					turn()
					carry(b, p, &plan, copies, queue)
				} else if err := p.Plan(&plan, accs); err != nil {
					b.Fatal(err)
				}
				steps += len(plan.Steps)
			}
			b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
		})
	}
}

// BenchmarkThreeBuffers plans and commits a kernel with three arguments that
// goes round eight memories.
func BenchmarkThreeBuffers(b *testing.B) {
	for _, commit := range []bool{false, true} {
		b.Run(fmt.Sprintf("commit=%v", commit), func(b *testing.B) {
			p := migration.New(mem.NewTopology(names(8)...), migration.Options{})
			copies, queue := newPrompt("copies"), newPrompt("queue")
			var plan migration.Plan
			var accs []mem.Access
			for i := range 3 {
				accs = append(accs, mem.Access{Buffer: create(b, p, 1<<20), Range: mem.Range{End: 1 << 20}, Mode: mem.Mode(i), Memory: 1})
			}
			at := mem.MemoryID(0)
			turn := func() {
				at = at%8 + 1
				for i := range accs {
					accs[i].Memory = at
				}
				if err := p.Plan(&plan, accs); err != nil {
					b.Fatal(err)
				}
			}
			for range 64 {
				turn()
				carry(b, p, &plan, copies, queue)
			}
			b.ReportAllocs()
			for b.Loop() {
				turn()
				if commit {
					carry(b, p, &plan, copies, queue)
				}
			}
		})
	}
}

// BenchmarkOneSegmentOf plans and commits the use of one segment of a buffer
// that is cut into many.
func BenchmarkOneSegmentOf(b *testing.B) {
	for _, n := range []uint64{1, 1000, 100_000} {
		for _, commit := range []bool{false, true} {
			b.Run(fmt.Sprintf("segments=%d/commit=%v", n, commit), func(b *testing.B) {
				p := migration.New(mem.NewTopology("gpu0", "gpu1"), migration.Options{})
				id := create(b, p, 64*n)
				copies, queue := newPrompt("copies"), newPrompt("queue")
				var plan migration.Plan
				use := func(i uint64, m mem.MemoryID, commit bool) {
					accs := [1]mem.Access{{Buffer: id, Range: mem.Range{Start: 64 * i, End: 64 * (i + 1)}, Mode: mem.ReadWrite, Memory: m}}
					if err := p.Plan(&plan, accs[:]); err != nil {
						b.Fatal(err)
					}
					if commit {
						carry(b, p, &plan, copies, queue)
					}
				}
				for m := mem.MemoryID(2); m > 0; m-- { // both have storage, as in a program after first uses; 1 has the content
					for i := range n {
						use(i, m, true)
					}
				}
				segs, err := p.Segments(id)
				if err != nil || uint64(len(segs)) != n {
					b.Fatal(len(segs), err)
				}
				b.ReportAllocs()
				x, m := uint64(1), mem.MemoryID(1)
				for b.Loop() {
					x = x*6364136223846793005 + 1442695040888963407
					m = 3 - m
					use((x>>20)%n, m, commit)
				}
			})
		}
	}
}

// BenchmarkManyInFlight plans and commits writes side by side, none of which has ended
// before all are committed.
func BenchmarkManyInFlight(b *testing.B) {
	const writes = 15_000
	p := migration.New(mem.NewTopology("gpu0"), migration.Options{})
	id := create(b, p, 1<<20)
	var plan migration.Plan
	b.ReportAllocs()
	for b.Loop() {
		queue := mem.NewTimeline("queue", false, nil)
		for i := range uint64(writes) {
			accs := [1]mem.Access{{Buffer: id, Range: mem.Range{Start: 4 * i, End: 4*i + 4}, Mode: mem.Write, Memory: 1}}
			if err := p.Plan(&plan, accs[:]); err != nil {
				b.Fatal(err)
			}
			for _, w := range plan.Storage {
				if err := p.Stored(w, mem.Plain); err != nil {
					b.Fatal(err)
				}
			}
			p.Commit(&plan, queue.Next())
		}
		for i := range uint64(writes) {
			queue.End(mem.Point{Line: queue, Seq: i + 1}, nil)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/writes, "ns/write")
}
