package migration

import "godwit/mem"

// One time of a round (round.go), in this order:
//
//	Entry, Span   what is planned, stored and carried out as one command's
//	Enter         who has to be waited for that was before
//	Waits         of each command, once the operations before it were accepted
//	Prepare       of copies: their plan
//	CommitRound   once all of it was accepted
//
// Where only a part was accepted, its operations are committed one by one: Prepare, and what
// follows a Plan. Nothing is planned or committed by others in between.

// Place is where a buffer of a round is in a replay: the buffer, and how far into it the
// round's begins.
type Place struct {
	Buffer mem.BufferID
	Off    uint64
}

// Replay is one time of a round.
type Replay struct {
	Places   []Place       // of the round's buffers
	Points   []mem.Point   // of the nodes that were accepted
	Versions []mem.Version // by command: what it writes; 0 where it writes nothing

	last   mem.Version // of Versions
	before []mem.Wait  // who was before it, touch by touch
	ends   []int32     // of the touches' parts of before
	plan   Plan        // scratch
}

// NewReplay has room for a replay of a round of so many buffers.
func NewReplay(of *Round, buffers int) Replay {
	return Replay{Places: make([]Place, buffers), Points: make([]mem.Point, of.commands+of.Copies), Versions: make([]mem.Version, of.commands)}
}

// at is an access of a round in a replay.
func (r *Replay) at(a mem.Access) mem.Access {
	to := r.Places[uint32(a.Buffer)]
	a.Buffer, a.Range = to.Buffer, a.Range.Shift(to.Off)
	return a
}

// Entry appends what a replay reads of before it, to be planned as a command's.
func (r *Replay) Entry(dst []mem.Access, of *Round) []mem.Access {
	for _, a := range of.Entry {
		dst = append(dst, r.at(a))
	}
	return dst
}

// Span is a span of a round in a replay.
func (r *Replay) Span(n Span) Span {
	to := r.Places[uint32(n.Buffer)]
	return Span{to.Buffer, n.Memory, n.Range.Shift(to.Off)}
}

// Counts reports whether a buffer has a size buffer, or is one, or some of it was brought as far as
// a count said: what moves of it is known only when it moves. Of one that does not live it says no.
func (p *Planner) Counts(id mem.BufferID) bool {
	b, err := p.buffer(id)
	return err == nil && (b.count != 0 || len(b.serves) > 0 || b.partly)
}

// Enter notes who was before a replay, whose entry has been carried out, and the versions that
// it is to write.
func (p *Planner) Enter(r *Replay, of *Round) {
	r.before, r.ends = r.before[:0], r.ends[:0]
	for _, t := range of.touches {
		p.commandWaits.reset()
		r.plan.Waits = r.plan.Waits[:0]
		a := r.at(t)
		p.uses(&r.plan, &a)
		r.before = append(r.before, r.plan.Waits...)
		r.ends = append(r.ends, int32(len(r.before)))
	}
	v := p.version
	for i, writes := range of.writes {
		if r.Versions[i] = 0; writes {
			v++
			r.Versions[i] = v
		}
	}
	r.last = v
}

// uses adds the waits of an access whose bytes need not come.
func (p *Planner) uses(dst *Plan, a *mem.Access) {
	b := p.buffers[uint32(a.Buffer)]
	s := b.at(a.Memory)
	for off := a.Range.Start; off < a.Range.End && s != nil; {
		at := b.content.Get(off)
		p.wait(dst, s, mem.Range{Start: off, End: min(at.Range.End, a.Range.End)}, a.Mode, at.Value.valid.Has(a.Memory))
		off = at.Range.End
	}
}

// Waits appends what the commands of a run wait for. Points may be in it twice, and may have been reached.
func (r *Replay) Waits(dst []mem.Wait, of *Run) []mem.Wait { return r.waits(dst, &of.own) }

func (r *Replay) waits(dst []mem.Wait, n *needs) []mem.Wait {
	for _, d := range n.nodes {
		dst = append(dst, mem.Wait{Point: r.Points[d.node], Kind: d.kind})
	}
	for _, t := range n.touches {
		from := int32(0)
		if t > 0 {
			from = r.ends[t-1]
		}
		dst = append(dst, r.before[from:r.ends[t]]...)
	}
	return dst
}

// Prepare fills dst with an operation of a replay, in place of Plan. Which ways its copies go is
// what it is now.
func (p *Planner) Prepare(dst *Plan, r *Replay, op *RoundOp) {
	dst.reset()
	dst.spans = dst.spans[:0]
	for _, a := range op.plan.Accesses {
		dst.Accesses = append(dst.Accesses, r.at(a))
	}
	dst.edits = p.edits
	if op.Command >= 0 {
		dst.Waits = r.waits(dst.Waits, &op.own)
		return
	}
	for _, g := range op.plan.groups {
		to := r.Places[uint32(g.buffer)]
		g.buffer, g.end = to.Buffer, g.end+to.Off
		dst.groups = append(dst.groups, g)
	}
	for i := range op.plan.Steps {
		st := dst.step()
		from := st.from
		*st = op.plan.Steps[i]
		to := r.Places[uint32(st.Buffer)]
		st.Buffer, st.Range = to.Buffer, st.Range.Shift(to.Off)
		st.Reason.Oldest, st.Reason.Newest = r.Versions[st.Reason.Oldest], r.Versions[st.Reason.Newest]
		dst.arena = r.waits(dst.arena, &op.each[i])
		st.from, st.to = from, int32(len(dst.arena))
		dst.Steps = dst.Steps[:len(dst.Steps)+1]
	}
	dst.finish()
	dst.StepWaits = dst.StepWaits[:0]
	p.Reroute(dst)
}

// CommitRound records that all operations of a replay were accepted, to end at its points: as if each
// had been prepared and committed, in time in proportion to what the round uses, not to how often.
func (p *Planner) CommitRound(r *Replay, of *Round) {
	p.edits++
	p.stats.Commands += uint64(of.commands)
	p.stats.Copies += uint64(of.Copies)
	p.stats.BytesMoved += of.Bytes
	p.clock += of.accessing
	p.version = r.last
	for i := range of.Ops {
		for k := range of.Ops[i].plan.Steps {
			st := &of.Ops[i].plan.Steps[k]
			p.load(st, st.Range.Size())
		}
	}
	for _, a := range of.used {
		a = r.at(a)
		b := p.buffers[uint32(a.Buffer)]
		p.usedBlocks(b.ensure(a.Memory), a.Range)
	}
	for i := range of.left {
		l := &of.left[i]
		to := r.Places[l.buffer]
		s, at := p.buffers[uint32(to.Buffer)].ensure(l.memory), l.r.Shift(to.Off)
		if l.writer >= 0 {
			s.wrote(at, r.Points[l.writer], l.step, l.from)
		}
		for _, n := range l.readers {
			s.read(at, r.Points[n])
		}
	}
	for i := range of.written {
		w := &of.written[i]
		to := r.Places[w.buffer]
		b, at := p.buffers[uint32(to.Buffer)], w.r.Shift(to.Off)
		v := content{}
		if !w.gone {
			v = content{version: r.Versions[w.command], valid: w.valid}
		}
		if c := b.content.Whole(at); c != nil {
			*c = v
		} else {
			b.content.Set(at, v)
		}
	}
}
