package history

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
	"godwit/runtime"
)

// compareMoves gives the commands accepted since the last call to the account:
// each must have moved as many bytes as had to move.
func (r *replay) compareMoves() error {
	commands := r.rec.CommandsFrom(r.seen)
	r.seen += len(commands)
	for i := range commands {
		c := &commands[i]
		r.last = c.ID
		r.result.Regrown += grown(c)
		r.evictedFor(c)
		if r.mayFail() { // when the planner hears of a failure is a matter of timing
			for _, s := range c.Steps {
				if !s.Point.IsZero() && !s.Late {
					r.result.BytesMoved += s.Range.Size() - s.RideAlong
				}
			}
			for _, e := range c.Evictions {
				r.result.WrittenBack += e.Fresh - e.Dropped
			}
		} else if err := r.compareMove(c); err != nil {
			return fmt.Errorf("command %d (%s on %s): %w", c.ID, c.Op, c.Queue, err)
		}
	}
	return nil
}

func (r *replay) compareMove(c *trace.CommandRecord) error {
	back, err := r.account.evicted(c)
	r.result.WrittenBack += back
	switch {
	case err != nil:
		return err
	case c.Err != nil && len(c.Evictions)+len(c.Regrows) > 0: // refused all the same
		return nil
	case c.Err != nil:
		return fmt.Errorf("refused after planning: %w", c.Err)
	}
	accs, known := r.needs[c.ID]
	accs = append(slices.Clip(accs), r.account.byTransient(c)...)
	if c.Op == "ahead" { // copies of a graph, for commands of which the history knows
		accs, known = c.Accesses, true
	}
	if !known {
		return errors.New("nobody enqueued it")
	}
	want, along, err := r.account.command(c, accs)
	if err != nil {
		return err
	}
	r.result.RideAlong += along
	if tell := r.thens[c.ID]; tell != nil {
		tell()
	}
	moved, late := uint64(0), false
	for _, s := range c.Steps {
		moved += s.Range.Size() - s.RideAlong
		late = late || s.Late
	}
	if late { // how much of it moves shows when it has moved
		moved = want
	}
	if moved != want {
		return fmt.Errorf("moved %d bytes, %d had to; it says %v, the history %v", moved, want, c.Accesses, accs)
	}
	r.result.BytesMoved += moved
	return nil
}

// evictedFor counts the blocks that left for a command.
func (r *replay) evictedFor(c *trace.CommandRecord) {
	for i := range c.Evictions {
		if v := &c.Evictions[i]; !v.Stayed() {
			r.result.Evictions++
			r.result.Evicted[v.Policy]++
		}
	}
}

// grown is how many bytes went into new blocks from those whose place these took.
func grown(c *trace.CommandRecord) (bytes uint64) {
	for i := range c.Regrows {
		bytes += c.Regrows[i].Range.Size()
	}
	return bytes
}

// finish lets everything run and judges it. Then every byte of every buffer is asked
// for on the first and the last device and on the host: what must be readable is, and
// what was lost is refused.
func (r *replay) finish() error {
	r.call = r.ctx
	if err := r.setAll(); err != nil {
		return err
	}
	for i, m := range slices.Backward(r.maps) { // of several of one pointer, the youngest first
		if err := r.unmapOf(m.q, &operation{ID: -100 - i}, m); err != nil {
			return fmt.Errorf("last unmap of operation %d: %w", m.op.ID, err)
		}
	}
	r.maps = nil
	if err := errors.Join(r.compareMoves(), r.becalm(), r.takeBack(true)); err != nil {
		return err
	}
	v := newVerdict(r)
	if err := v.judge(); err != nil {
		return err
	}
	v.writtenBack(math.MaxUint64) // of what was refused after the last in the log, too
	host, err := r.hostQueue()
	if err != nil {
		return err
	}
	for _, q := range []*queue{r.queues[0], r.queues[len(r.queues)-1], host} {
		if err := r.readEverything(v, q); err != nil {
			return err
		}
		if err := errors.Join(r.finishAll(), r.finishQueue(host), v.judge()); err != nil {
			return err
		}
	}
	late, err := r.lateMoved()
	if err != nil {
		return err
	}
	if r.mayFail() {
		r.result.BytesMoved += late
	}
	if moved := r.rec.BytesMoved(); moved != r.result.BytesMoved {
		return fmt.Errorf("the trace says that %d bytes moved, the commands' sum is %d", moved, r.result.BytesMoved)
	}
	return r.c.Check()
}

// hostQueue is a queue of the host. It can do what a queue of any device can.
func (r *replay) hostQueue() (*queue, error) {
	d, err := r.c.Device(mem.Host)
	if err != nil {
		return nil, err
	}
	q, err := r.c.NewQueue(d, runtime.QueueOptions{Name: UserQueue + "host"})
	return &queue{Queue: q}, err
}

// becalm waits until all that was enqueued has ended, the runtime's own copies
// included, and is known to have: no failure is news after it.
func (r *replay) becalm() error {
	if err := errors.Join(r.finishAll(), r.faults.settle(r.ctx)); err != nil || r.crowd {
		return err
	}
	for _, b := range r.views { // copies of refused commands, which nobody waits for
		for b != nil {
			segments, err := b.Segments()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(segments, func(s migration.Segment) bool { return !s.Pending.Empty() }) {
				break
			}
			if r.ctx.Err() != nil {
				return fmt.Errorf("copies do not end: %w", r.ctx.Err())
			}
			if err := r.by.Pause(r.ctx, 20*time.Microsecond); err != nil {
				return fmt.Errorf("copies do not end: %w", err)
			}
		}
	}
	r.epoch++
	if r.mayFail() {
		return nil
	}
	return r.guarded()
}

// verdict replays the log on one flat memory, entry by entry: what was read, and what
// failed and whether it had to. It knows the operations that were accepted, how they
// ended, and what was struck; nothing of the planner's.
type verdict struct {
	*replay
	m        *model
	s        *stamped
	next     int                   // entry
	commands []trace.CommandRecord // of the trace, as far as it was looked at
	told     int                   // of these, whose write-backs were
}

func newVerdict(r *replay) *verdict {
	m := newModel(r.h, slices.Clone(r.firstIDs))
	return &verdict{replay: r, m: m, s: newStamped(m)}
}

// judge goes on to the end of the log.
func (v *verdict) judge() error {
	for ; v.next < len(v.log); v.next++ {
		x := &v.log[v.next]
		v.m.now = v.next
		if err := v.entry(x); err != nil {
			return fmt.Errorf("operation %d (%s, command %d): %w", x.op.ID, x.op.Kind, x.command, err)
		}
	}
	return nil
}

// writtenBack tells the model of the write-backs, of what took their place, and of the copies
// into new blocks, that failed up to a command.
func (v *verdict) writtenBack(command uint64) {
	v.commands = append(v.commands, v.rec.CommandsFrom(len(v.commands))...)
	commands := v.commands
	for ; v.told < len(commands) && commands[v.told].ID <= command; v.told++ {
		for _, s := range commands[v.told].Regrows {
			if s.Point.Err() != nil {
				v.m.doubtful(s.Buffer, s.Range)
			}
		}
		for _, e := range commands[v.told].Evictions {
			for _, s := range e.Backs {
				if s.Point.Err() != nil {
					v.m.doubtful(s.Buffer, s.Range)
				}
			}
			v.restedOn(commands[:v.told], &e, commands[v.told].Enqueued)
		}
	}
}

// restedOn tells the model of copies of a block that left which failed after that had begun:
// they may have been taken for its write-back.
func (v *verdict) restedOn(before []trace.CommandRecord, e *trace.EvictionRecord, since int64) {
	if e.Dropped == 0 {
		return
	}
	ended := func(p mem.Point) int64 {
		for _, c := range v.rec.Completions() {
			if c.Point == p {
				return c.Ended
			}
		}
		return math.MaxInt64
	}
	look := func(steps []trace.StepRecord) {
		for _, s := range steps {
			r := s.Range.Intersect(e.Range)
			if s.Buffer == e.Buffer && s.From == e.Memory && !r.Empty() && s.Point.Err() != nil && ended(s.Point) >= since {
				v.m.doubtful(s.Buffer, r)
			}
		}
	}
	for i := range before {
		look(before[i].Steps)
		for k := range before[i].Evictions {
			look(before[i].Evictions[k].Backs)
		}
	}
}

func (v *verdict) entry(x *entry) error {
	v.writtenBack(max(x.command, x.after))
	failed, err := v.end(x)
	if err != nil {
		return err
	}
	switch {
	case x.refused: // nothing was done
		return nil
	case x.freed:
		v.m.free(x, failed)
		return nil
	case x.op.Kind == opUnmap && x.mapped.Err() != nil: // nor here
		if failed {
			v.m.undo(x.op, x.epoch)
			v.result.Failed++
			v.result.Ops["unmap failed with its map"]++
		}
		return nil
	case failed:
		v.result.Failed++
		v.m.lose(x.op)
		return nil
	}
	if err := v.read(x); err != nil {
		return err
	}
	v.m.apply(x.op)
	v.s.apply(x)
	return nil
}

// read tests what an operation has read, before it writes, where it does both.
func (v *verdict) read(x *entry) error {
	if v.cfg.Seen != nil {
		known, err := v.s.compare(x, v.cfg.Seen(v.devs, x.command))
		v.result.BytesRead += known
		return err
	}
	if v.cfg.Blind || !x.op.reads() {
		return nil
	}
	known, err := x.compare(v.m)
	if err != nil {
		return fmt.Errorf("what it read: %w", err)
	}
	v.result.BytesRead += len(x.got)
	if x.op.ID < 0 {
		v.result.Readable += known
	}
	return nil
}

// compare tests what was read, and clears what is unknown of it. It returns how many
// bytes are known.
func (x *entry) compare(m *model) (n int, err error) {
	want, known := m.read(x.op)
	got := make([]byte, len(x.got))
	copy(got, x.got) // which the race detector sees as a whole
	for at, size := 0, 0; at < len(got); at += size {
		size = run(known[at:])
		part := want[at : at+size]
		if !known[at] {
			clear(x.got[at : at+size])
			continue
		}
		if n += size; bytes.Equal(got[at:at+size], part) {
			continue
		}
		for i, w := range part {
			if got[at+i] != w {
				return 0, fmt.Errorf("byte %d of %d is %d, one flat memory has %d", at+i, len(got), got[at+i], w)
			}
		}
	}
	return n, nil
}

// firstErr is why the command failed that brings an entry's bytes to a transient; nil where it has not, or there is none.
func (x *entry) firstErr() error {
	if x.first.IsZero() {
		return nil
	}
	return x.first.Err()
}

// end decides whether a command had to fail: it is one that fails or was struck, waits
// for one that failed, or reads bytes that a failed one was the last to write. Any other
// must have succeeded, unless it reads bytes that a struck copy was to carry, before
// all had ended: that the runtime could not know (C9).
func (v *verdict) end(x *entry) (failed bool, err error) {
	lost := v.m.readsLost(x.op)
	if x.refused {
		for _, op := range x.round {
			lost = lost || v.m.readsLost(op) || v.m.readsDoubt(op)
		}
		if !lost && !v.m.countLost(x.op) && !v.m.readsDoubt(x.op) && x.firstErr() == nil {
			return false, errors.New("refused for lost bytes, but reads none")
		}
		return false, nil
	}
	if x.command == 0 { // a renewal, or a free at once
		if x.op.Kind == opRenew {
			v.m.renew(x.op.Dst, x.id)
		}
		return false, nil
	}
	err = x.event.Err()
	if x.op.Kind == opUnmap && !x.freed && x.mapped.Err() != nil { // known when the unmap was enqueued, or the unmap's failure too
		if err == nil && x.op.mapWrites() && !x.void {
			return false, fmt.Errorf("succeeded, though its map failed later: %w", x.mapped.Err())
		}
		return err != nil, nil
	}
	p, _ := x.event.Point()
	to, _ := x.first.Point()
	struck := v.faults.struck(p) || v.faults.struck(to)
	must := lost && !x.around || x.op.Kind == opFail || struck || !x.used.IsZero() && x.used.Err() != nil
	for _, w := range x.waits {
		must = must || w.Err() != nil
	}
	switch {
	case err == nil && x.firstErr() != nil:
		return false, fmt.Errorf("succeeded, though what brings its bytes to a transient failed: %w", x.firstErr())
	case err == nil && must:
		return false, fmt.Errorf("succeeded, though it reads lost bytes (%t), was struck (%t) or waits for a failed command", lost, struck)
	case err == nil:
		return false, nil
	case !must && x.calledOff(err):
		return true, v.rest(x, true)
	case struck, v.faults.partly(p), v.faults.partly(to):
		v.result.Struck++
		return true, nil
	case must:
		return true, v.rest(x, false)
	case !v.mayFail():
		return true, fmt.Errorf("failed: %w", err)
	case v.mayHaveFailed(x):
		v.result.Excused++
		return true, nil
	}
	return true, fmt.Errorf("failed, though all that it reads must be there, and nothing it waits for failed: %w%s", err, v.story(x))
}

// mayHaveFailed reports whether an entry may have failed for what the model does not know.
func (v *verdict) mayHaveFailed(x *entry) bool {
	return x.around || v.m.countLost(x.op) || v.m.readsDoubt(x.op) || v.excused(x)
}

// story is how the operations ended before an entry that use its buffers.
func (v *verdict) story(x *entry) string {
	var b strings.Builder
	for i := range v.log[:v.next+1] {
		e := &v.log[i]
		if root := v.h.Views[x.op.Dst].Root; !v.h.names(e.op, root) && !(x.op.paired() && v.h.names(e.op, v.h.Views[x.op.Src].Root)) {
			continue
		}
		end := "refused"
		if !e.event.IsZero() {
			end = fmt.Sprint(e.event.Err())
		}
		fmt.Fprintf(&b, "\n  %d: operation %d, %s: dst %d %d+%d, src %d %d, wait %v: %s", i, e.op.ID, e.op.Kind, e.op.Dst, e.op.DstOff, e.op.Size, e.op.Src, e.op.SrcOff, e.op.Wait, end)
		for _, c := range v.rec.Commands() {
			if c.ID != e.command || e.command == 0 {
				continue
			}
			for _, s := range c.Steps {
				fmt.Fprintf(&b, "\n      brought %v of buffer %d from %d to %d: %v", s.Range, uint32(s.Buffer), s.From, s.To, s.Point.Err())
			}
		}
	}
	return b.String()
}

// excused reports whether since all was calm a copy was struck that may have been to
// bring what an operation reads, or an unmap of it was enqueued that failed with its
// map.
func (v *verdict) excused(x *entry) bool {
	for _, h := range v.faults.taken() {
		transient := !x.first.IsZero() && v.account.transient[h.buffer]
		if h.epoch == x.epoch && (h.any || transient || v.m.rests(x.op, v.whole(h))) {
			return true
		}
	}
	return v.m.restsOnUndone(x.op, x.epoch)
}

// whole makes of a struck piece of a copy that gave way all that the copy was to carry, since it fails as a whole.
func (v *verdict) whole(h hit) hit {
	if !v.cfg.Priorities {
		return h
	}
	all := h.bytes
	of := func(steps []trace.StepRecord) {
		for i := range steps {
			if s := &steps[i]; s.Buffer == h.buffer && s.Range.Contains(h.bytes) && s.Point.Err() != nil {
				all = mem.Range{Start: min(all.Start, s.Range.Start), End: max(all.End, s.Range.End)}
			}
		}
	}
	for _, c := range v.rec.Commands() {
		of(c.Steps)
		of(c.Regrows)
		for i := range c.Evictions {
			of(c.Evictions[i].Backs)
		}
	}
	h.bytes = all
	return h
}

// readEverything reads all roots on a queue, in runs of bytes that are all lost or all
// not.
func (r *replay) readEverything(v *verdict, q *queue) error {
	for i, view := range r.h.Views {
		if view.Sub {
			continue
		}
		lost, doubt := v.m.lost[view.Root], v.m.doubt[view.Root]
		for off, end := 0, 0; off < view.Size; off = end {
			end = off + min(run(lost[off:view.Size]), run(doubt[off:view.Size]))
			r.audits++
			op := &operation{ID: -2 * r.audits, Kind: opRead, Dst: i, DstOff: off, Size: end - off}
			on := q
			if r.isFine(view.Root) && !q.fine {
				on = r.queueFor(op)
			}
			asked, err := r.readOn(on, op)
			if err != nil {
				return fmt.Errorf("final read of %d bytes at %d of buffer %d: %w", op.Size, off, view.Root, err)
			}
			if !asked {
				continue
			}
			r.result.Asked += op.Size
			if last := r.log[len(r.log)-1]; lost[off] != last.refused && !doubt[off] && !v.m.countLost(op) {
				return fmt.Errorf("final read of %d bytes at %d of buffer %d: refused %t, lost %t", op.Size, off, view.Root, last.refused, lost[off])
			}
		}
	}
	return r.compareMoves()
}

// readOn reads on a queue; false is that its device has no room. The host always has, but the context of an operation that is hurried
// may have ended before it was enqueued.
func (r *replay) readOn(q *queue, op *operation) (asked bool, err error) {
	before := len(r.log)
	for len(r.log) == before {
		if err := r.doOn(q, op); err != nil {
			return false, err
		}
		if err := r.ctx.Err(); err != nil || q.Memory() != mem.Host {
			return len(r.log) > before, err
		}
	}
	return true, nil
}

func (r *replay) finishAll() error {
	for _, q := range r.queues {
		if err := r.finishQueue(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name(), err)
		}
	}
	return nil
}

// tearDown releases everything; whatever is left is an error.
func (r *replay) tearDown() error {
	r.faults.enter(closing)
	errs := []error{r.setAll()}
	for _, of := range r.requests {
		of.Close()
	}
	for _, g := range r.graphs {
		errs = append(errs, r.closeGraph(g))
	}
	r.graphs = nil
	for root := range r.h.Roots {
		errs = append(errs, r.release(nil, root))
	}
	if r.tableBuf != nil {
		errs = append(errs, r.tableBuf.Release())
		r.freed = append(r.freed, r.table)
	}
	for _, m := range r.maps { // of a run that was given up
		if !m.byPtr && !m.mapping.IsZero() {
			_, err := m.q.EnqueueUnmap(r.ctx, m.mapping)
			errs = append(errs, err)
		}
	}
	for _, q := range r.queues {
		if len(r.freed) > 0 {
			_ = q.Finish(r.ctx) // commands that failed were judged before
		}
	}
	for _, p := range r.freed {
		errs = append(errs, r.c.SVMFree(p))
	}
	for _, e := range r.owned {
		errs = append(errs, e.Release())
	}
	if err := r.c.Close(r.ctx); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, r.noTouch(), r.endLent())...)
}
