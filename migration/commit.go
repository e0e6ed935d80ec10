package migration

import (
	"errors"
	"fmt"

	"godwit/mem"
)

// errStale is why a commit panics: the caller broke the rule that nothing comes
// between a plan and its commits.
var errStale = errors.New("migration: commit of a plan that was overtaken by another commit, a release or a failure")

// CommitStep records that a queue has accepted step i of the plan, to end at
// the point. The destination is fresh from here on, bound to the point. Steps
// are committed in the order of the plan, each once, before Commit; those of a
// command that is refused afterwards stay. The destination must have been
// Stored.
//
// Committing a plan after another plan was committed, or after Fail, Release or
// Unstored, is a bug in the caller, and panics.
func (p *Planner) CommitStep(plan *Plan, i int, at mem.Point) {
	p.current(plan)
	st := &plan.Steps[i]
	b := p.buffers[uint32(st.Buffer)]
	from, to := st.From, st.To
	if from == to { // into a block that is not there yet (Regrow)
		b.at(from).read(st.Range, at)
		return
	}
	if c := b.content.Whole(st.Range); c == nil {
		b.content.Update(st.Range, func(_ mem.Range, c content) content {
			if c.valid.Has(from) {
				c.valid = c.valid.With(to)
			}
			return c
		})
	} else if c.valid.Has(from) {
		c.valid = c.valid.With(to)
	}
	s := b.ensure(to)
	if st.Reason.Choice == forWriteBack {
		b.orphan(to, st.Range) // which may be valid there already
	}
	s.wrote(st.Range, at, true, originOf(from))
	if st.Late != nil || s.held != nil {
		p.commitLate(st, b, s, at)
	}
	b.at(from).read(st.Range, at)
	p.load(st, st.Range.Size())
	p.stats.Copies++
	if st.Late != nil {
		p.stats.LateBytes += st.Bytes()
	} else {
		p.stats.BytesMoved += st.Bytes()
	}
	p.stats.RideAlong += st.RideAlong
}

// Commit records that a queue has accepted the command that was planned, to
// end at the point, and returns the version of what it writes; 0 where it
// writes nothing. All steps must have been committed. It panics like
// CommitStep.
func (p *Planner) Commit(plan *Plan, at mem.Point) mem.Version {
	p.current(plan)
	p.edits++
	p.stats.Commands++
	if len(plan.Accesses) > 0 {
		p.clock++
	}
	var version mem.Version
	for i := range plan.Accesses {
		a := &plan.Accesses[i]
		b := p.buffers[uint32(a.Buffer)]
		s := b.ensure(a.Memory)
		p.usedBlocks(s, a.Range)
		if !a.Mode.Writes() {
			s.read(a.Range, at)
			continue
		}
		if version == 0 {
			p.version++
			version = p.version
		}
		s.wrote(a.Range, at, false, 0)
		if c := b.content.Whole(a.Range); c != nil {
			c.version, c.valid, c.poison = version, mem.MemorySet{}.With(a.Memory), nil
		} else {
			b.content.Set(a.Range, content{version: version, valid: mem.SetOf(a.Memory)})
		}
		if b.partly {
			b.forget(a.Range)
		}
		if len(b.serves) > 0 && a.Range.Start < CountSize {
			p.recounted(b)
		}
	}
	return version
}

// usedBlocks notes that the latest command has used a range of a store.
func (p *Planner) usedBlocks(s *store, r mem.Range) {
	for off := r.Start; off < r.End; {
		at := s.blocks.Get(off)
		if off = at.Range.End; at.Value != 0 {
			k := &p.blocks[at.Value-1]
			k.used, k.paid = p.clock, k.paid || !k.want.Contains(r)
		}
	}
}

// CommitUse is Commit for a command that was planned as a writer and leaves the
// content as it is, such as a map for writing: what the host writes counts from
// the unmap on, and a map that fails has lost nothing. To what comes later the
// command is a reader where it was planned.
func (p *Planner) CommitUse(plan *Plan, at mem.Point) {
	for i := range plan.Accesses {
		plan.Accesses[i].Mode = mem.Read
	}
	p.Commit(plan, at)
}

// Discard ends the content of a range of a live buffer: nobody holds it, and nothing is lost with it. Who uses the
// bytes is waited for as before.
func (p *Planner) Discard(id mem.BufferID, r mem.Range) {
	p.edits++
	p.buffers[uint32(id)].content.Set(r, content{})
}

// Reads records that something that ends at the point uses a buffer's bytes on a
// memory as they are, such as the host's use of a mapped range, which ends with
// the unmap: later writers there wait for it. Nothing is brought. It fails with
// mem.ErrInvalidBuffer or mem.ErrInvalidValue where there is no such buffer,
// memory or range; where the buffer is not stored there is nothing to record.
func (p *Planner) Reads(id mem.BufferID, m mem.MemoryID, r mem.Range, at mem.Point) error {
	b, err := p.inside(id, r)
	if err == nil {
		m, err = p.store(m)
	}
	if err != nil {
		return err
	}
	p.edits++
	if s := b.at(m); s != nil {
		s.read(r, at)
	}
	return nil
}

func (p *Planner) current(plan *Plan) {
	if plan.edits != p.edits {
		panic(errStale)
	}
}

// Fail tells that a point to which steps or a command were committed has failed
// with cause. A step's promise is withdrawn: its destination is not fresh any
// more where it still held what was copied. What a command wrote is poisoned
// where it is still the latest. Newer content is untouched, and a range that is
// fresh nowhere any more is poisoned too, so that no byte is ever silently
// stale. A map for writing (Mapped) that fails is none any more, and an unmap that fails for
// its sake (CommitUnmap) leaves what was there before. Points that nothing
// was committed to, or whose bytes were all overwritten, change nothing; nor does a
// second call.
//
// It looks at every buffer: failures are rare.
func (p *Planner) Fail(at mem.Point, cause error) {
	p.edits++
	if cause == nil {
		cause = fmt.Errorf("%v failed: %w", at, mem.ErrDependency)
	}
	lost := loss{Point: at, Cause: cause}
	for _, b := range p.buffers {
		var poison *loss // one for neighbours, so that they stay equal
		for i := range b.stores {
			poison = b.fail(&b.stores[i], lost, poison)
		}
		if b.host == nil {
			continue
		}
		for i, m := range b.host.maps {
			b.host.maps[i].failed = m.failed || m.at == at
		}
		b.failUndo(&lost)
	}
}

// fail is Fail for one store. It returns the poison made last.
func (b *buffer) fail(s *store, lost loss, poison *loss) *loss {
	found := false
	for r, h := range s.hazards.All() {
		if h.writer != lost.Point {
			continue
		}
		found = true
		b.content.Update(r, func(_ mem.Range, v content) content {
			if !v.valid.Has(s.memory) {
				return v
			}
			if v.valid = v.valid.Without(s.memory); !h.step {
				v.valid = mem.MemorySet{}
			}
			if v.valid.Empty() {
				if poison == nil || poison.Version != v.version {
					poison = &loss{v.version, lost.Point, lost.Cause}
				}
				v.poison = poison
			}
			return v
		})
		if h.step {
			s.hold(r, nil)
		}
	}
	if !found {
		return poison
	}
	s.hazards.Update(mem.Range{End: s.hazards.Size()}, func(_ mem.Range, h hazard) hazard {
		if h.writer == lost.Point {
			h.writer, h.step, h.from = mem.Point{}, false, 0
		}
		return h
	})
	return poison
}
