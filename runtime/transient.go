package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"godwit/bufalloc/pack"
	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
	"godwit/subbuffer"
)

// Transients: buffers whose content nobody needs once a replay has ended. Those that the
// same memories use lie in one buffer of the graph's, the arena, where the offline packer has placed
// them by their lifetimes in the round; and so do those of several sets of memories, where
// the peaks of these come at different times. They are views of it from then on: so who follows in the
// same bytes of a memory waits for who was there, in a round and from one replay to the next, by the hazards
// of the arena. Their content ends with the round: nothing of an arena is written back for an
// eviction, and nothing is brought at the begin of a replay.

// packNodes is how many placements the packer tries for one arena, beside two for each transient.
const packNodes = 100_000

// Transient makes a buffer of size bytes for commands of this recording only, without content
// at the begin of each replay, and with none after it. The graph gives it memory, which it shares with
// transients that are used at other times of the round. It fails like Slot.
func (rec *Recording) Transient(name string, size uint64) (*Buffer, error) {
	b, err := rec.placeholder("transient", name, size, 0)
	if err != nil {
		return nil, err
	}
	defer rec.c.unlock()
	rec.transients = append(rec.transients, b.root)
	return b, nil
}

// life is when a transient is used, and where.
type life struct {
	first, last int // commands
	at          mem.MemorySet
	used        bool
	spot             // where a prepared replay has it
	small       spot // where one has it that enqueues its commands one by one; in no arena where it is large
}

// spot is a place in an arena.
type spot struct {
	arena *arena
	off   uint64 // in it
}

// arena is where some transients lie.
type arena struct {
	at    mem.MemorySet // each has all of it
	of    []*root
	items []pack.Item
	live  uint64 // the most bytes that are in use at once
	size  uint64
	root  *root
}

// pack places the transients. Nothing is recorded any more, and no lock is held.
func (rec *Recording) pack(ctx context.Context) (err error) {
	if len(rec.transients) == 0 {
		return nil
	}
	rec.lives = make(map[*root]*life)
	for _, r := range rec.transients {
		rec.lives[r] = new(life)
	}
	for i := range rec.commands {
		for _, a := range rec.commands[i].accs {
			if l := rec.lives[rec.roots[a.Buffer]]; l != nil {
				if !l.used {
					l.first, l.used = i, true
				}
				l.last, l.at = i, l.at.With(a.Memory)
			}
		}
	}
	for _, r := range rec.transients {
		if rec.lives[r].used {
			rec.ending = append(rec.ending, r)
		}
	}
	if rec.arenas, err = rec.place(ctx, rec.ending, func(l *life) *spot { return &l.spot }); err != nil {
		return err
	}
	slices.SortStableFunc(rec.ending, func(a, b *root) int { return cmp.Compare(rec.lives[a].last, rec.lives[b].last) })
	return rec.packSmall(ctx)
}

// packSmall places the transients that lie together where commands are enqueued one by one.
func (rec *Recording) packSmall(ctx context.Context) error {
	coarse := rec.coarse()
	small := slices.DeleteFunc(slices.Clone(rec.ending), func(r *root) bool { return r.size > coarse/4 })
	arenas, err := rec.place(ctx, small, func(l *life) *spot { return &l.small })
	bytes, on := uint64(0), make(map[mem.MemoryID]uint64)
	for _, a := range arenas {
		bytes += a.size
		for m := range a.at.All() {
			on[m] += a.size
		}
	}
	if err != nil || bytes == 0 || bytes > coarse/2 { // more could lie there while they are not in use
		for _, r := range small {
			rec.lives[r].small = spot{}
		}
		return err
	}
	for m, needs := range on {
		on[m] = 2 * (needs + rec.widest(m))
	}
	rec.together = on
	return nil
}

// widest is how many bytes the buffers have at most that one command uses on a memory, without small transients.
func (rec *Recording) widest(m mem.MemoryID) (most uint64) {
	for i := range rec.commands {
		needs, seen := uint64(0), make(map[*root]bool)
		for _, a := range rec.commands[i].accs {
			r := rec.roots[a.Buffer]
			if l := rec.lives[r]; a.Memory == m && !seen[r] && (l == nil || l.small.arena == nil) {
				size, _ := mem.AlignUp(r.size, rec.c.align)
				needs += size
			}
			seen[r] = seen[r] || a.Memory == m
		}
		most = max(most, needs)
	}
	return most
}

// liesTogether reports whether small transients may lie together now: there are such, and so much room, beside what cannot leave, that
// no command misses theirs. c.mu is held.
func (rec *Recording) liesTogether() bool {
	rec.c.evicting.plan = &rec.c.scratch.plan // not the program's wish: floors hold
	for m, needs := range rec.together {
		st, ours := rec.c.mems[m].res.Stats(), uint64(0)
		for _, s := range rec.c.planner.Holds(&rec.c.evicting.why, nil, m, evictRoom{rec.c}) {
			if ours += s.Range.Size(); s.Why != eviction.Goes {
				needs += s.Range.Size()
			}
		}
		needs += st.Live - min(ours, st.Live)
		if capacity := cmp.Or(st.Capacity, rec.c.mems[m].info.GlobalMemory); capacity > 0 && needs > capacity {
			return false
		}
	}
	return len(rec.together) > 0
}

// coarse is how large the buffers that stay are in which the bytes of the round are, on average. Transients that are much
// smaller lie together: alone they would leave holes between the others that nothing fits in.
func (rec *Recording) coarse() (size uint64) {
	bytes, squares := 0.0, 0.0
	for _, r := range rec.roots {
		if rec.lives[r] == nil {
			bytes += float64(r.size)
			squares += float64(r.size) * float64(r.size)
		}
	}
	return uint64(squares / max(bytes, 1))
}

// place makes arenas for some transients, and notes where in them these lie.
func (rec *Recording) place(ctx context.Context, transients []*root, in func(*life) *spot) (arenas []*arena, err error) {
	by := make(map[mem.MemorySet]*arena)
	for _, r := range transients {
		l := rec.lives[r]
		a := by[l.at]
		if a == nil {
			a = &arena{at: l.at}
			by[l.at], arenas = a, append(arenas, a)
		}
		size, _ := mem.AlignUp(r.size, rec.c.align)
		a.of = append(a.of, r)
		a.items = append(a.items, pack.Item{Lower: uint64(l.first), Upper: uint64(l.last) + 1, Size: size, Align: rec.c.align})
	}
	arenas = rec.join(arenas)
	for _, a := range arenas {
		placed, err := pack.Minimize(ctx, a.items, pack.Options{Nodes: packNodes + 2*uint64(len(a.items))})
		if err != nil {
			return nil, fmt.Errorf("transients: %w", err)
		}
		for i, r := range a.of {
			*in(rec.lives[r]) = spot{a, placed.Offsets[i]}
			a.size = max(a.size, placed.Offsets[i]+a.items[i].Size)
		}
	}
	return arenas, nil
}

// join has each arena become one with that earlier one with which it saves the most bytes, if there is one with which it
// takes no more: those of fewer memories first, since what they are joined to then is for those of more.
func (rec *Recording) join(arenas []*arena) (out []*arena) {
	slices.SortStableFunc(arenas, func(a, b *arena) int { return cmp.Compare(a.at.Len(), b.at.Len()) })
	for _, a := range arenas {
		a.live = rec.peak(a.items)
		var with *arena
		var live, best uint64
		for _, b := range out {
			both := rec.peak(a.items, b.items)
			apart, one := a.live*uint64(a.at.Len())+b.live*uint64(b.at.Len()), both*uint64(a.at.Union(b.at).Len())
			if apart >= one && (with == nil || apart-one > best) {
				with, live, best = b, both, apart-one
			}
		}
		if with == nil {
			out = append(out, a)
			continue
		}
		with.at, with.of, with.items, with.live = with.at.Union(a.at), append(with.of, a.of...), append(with.items, a.items...), live
	}
	return out
}

// peak is the most bytes that items have at once.
func (rec *Recording) peak(lists ...[]pack.Item) (most uint64) {
	change := make([]int64, len(rec.commands)+1)
	for _, items := range lists {
		for _, it := range items {
			change[it.Lower] += int64(it.Size)
			change[it.Upper] -= int64(it.Size)
		}
	}
	now := int64(0)
	for _, n := range change {
		now += n
		most = max(most, uint64(now))
	}
	return most
}

// settle makes the arenas, and the transients views of them. c.mu is held.
func (rec *Recording) settle() error {
	if len(rec.transients) > 0 {
		rec.loose, rec.looseRoots = newInstance(rec.commands), rec.roots
		for i := range rec.loose.commands {
			k := &rec.loose.commands[i]
			k.accs = slices.Clone(k.accs)
		}
	}
	for _, a := range rec.arenas {
		r := &root{name: "transients", size: a.size, views: 1}
		if err := rec.c.register(r, false); err != nil {
			return errors.Join(err, rec.release())
		}
		a.root = r
	}
	for i := range rec.commands {
		k := &rec.commands[i]
		rec.shift(&k.req.a)
		rec.shift(&k.req.b)
		for n := range k.uses {
			rec.shift(&k.uses[n])
		}
	}
	for _, b := range rec.handles {
		if l := rec.lives[b.root]; l != nil && l.used {
			b.root, b.view = l.arena.root, subbuffer.View{Range: b.view.Range.Shift(l.off), Flags: b.view.Flags, Sub: true}
		}
	}
	rec.renumber()
	return nil
}

// shift moves a use of a transient into its arena; its handle follows.
func (rec *Recording) shift(u *use) {
	if u.buf == nil {
		return
	}
	if l := rec.lives[u.buf.root]; l != nil && l.used {
		u.r = u.r.Shift(l.off)
	}
}

// renumber has the accesses name arenas in place of transients.
func (rec *Recording) renumber() {
	old := rec.roots
	rec.roots, rec.numbers = nil, make(map[mem.BufferID]int)
	place := func(id mem.BufferID) (mem.BufferID, uint64) {
		r, off := old[id], uint64(0)
		if l := rec.lives[r]; l != nil {
			r, off = l.arena.root, l.off
		}
		k, ok := rec.numbers[r.id]
		if !ok {
			k = len(rec.roots)
			rec.numbers[r.id], rec.roots = k, append(rec.roots, r)
		}
		return mem.BufferID(k), off
	}
	for i := range rec.commands {
		k := &rec.commands[i]
		for n := range k.accs {
			a := &k.accs[n]
			if l := rec.lives[old[a.Buffer]]; l != nil && l.first == i {
				in, _ := place(a.Buffer)
				k.begins = append(k.begins, mem.Access{Buffer: in, Range: mem.Range{Start: l.off, End: l.off + old[a.Buffer].size}})
			}
			id, off := place(a.Buffer)
			a.Buffer, a.Range = id, a.Range.Shift(off)
		}
		for n := range k.spans {
			id, off := place(k.spans[n].Buffer)
			k.spans[n].Buffer, k.spans[n].Range = id, k.spans[n].Range.Shift(off)
		}
	}
}

// loose are the transients of a replay that enqueues its commands one by one: each a buffer of its own until its
// last command is enqueued, or, where it is small, a part of one that is there until the last of those. So they take the room of those
// that are in use, and nothing of them is written back afterwards.
type loose struct {
	c      *Context
	slots  []Binding   // as if they were slots of the commands
	ends   []int       // by slot, ascending: its last command
	gone   int         // so many are released
	begins []beginning // of small ones: they lie where others were
}

// beginning is that bytes have no content before a command.
type beginning struct {
	command int
	of      *root
	r       mem.Range
}

// loosen makes loose transients. c.mu is held.
func (rec *Recording) loosen(own *loose) error {
	roots, together := make(map[*arena]*root), rec.liesTogether()
	for _, r := range rec.ending {
		l := rec.lives[r]
		in := spot{}
		if together {
			in = l.small
		}
		to, view := roots[in.arena], subbuffer.View{Range: mem.Range{End: r.size}.Shift(in.off)}
		if to == nil {
			var err error
			if to, err = rec.loosenOne(r, in.arena); err != nil {
				own.drop(len(rec.commands))
				return err
			}
		}
		if in.arena != nil {
			roots[in.arena], view.Sub = to, true
			own.begins = append(own.begins, beginning{l.first, to, view.Range})
		}
		to.views++
		b := &Buffer{c: rec.c, root: to, view: view, refs: 1}
		own.slots, own.ends = append(own.slots, Binding{&Buffer{c: rec.c, root: r}, b}), append(own.ends, l.last)
	}
	slices.SortFunc(own.begins, func(a, b beginning) int { return cmp.Compare(a.command, b.command) })
	return nil
}

// loosenOne makes the buffer of a transient, or of an arena of small ones. c.mu is held.
func (rec *Recording) loosenOne(r *root, a *arena) (*root, error) {
	to := &root{name: "transient " + r.name, size: r.size, byRange: rec.c.byRange(r.size, 0)}
	if a != nil {
		to = &root{name: "transients", size: a.size}
	}
	if err := rec.c.register(to, false); err != nil {
		return nil, fmt.Errorf("transient %s: %w", r.name, err)
	}
	return to, nil
}

// begin ends what lies where small transients begin with command i.
func (o *loose) begin(i int) {
	for len(o.begins) > 0 && o.begins[0].command <= i {
		b := o.begins[0]
		o.begins = o.begins[1:]
		o.c.lock()
		if !b.of.dropped {
			o.c.planner.Discard(b.of.id, b.r)
		}
		o.c.unlock()
	}
}

// release gives up those that no command behind number i uses.
func (o *loose) release(i int) {
	if o.gone < len(o.ends) && o.ends[o.gone] <= i {
		o.c.lock()
		defer o.c.unlock()
		o.drop(i)
	}
}

// drop is release with c.mu held.
func (o *loose) drop(i int) {
	for ; o.gone < len(o.ends) && o.ends[o.gone] <= i; o.gone++ {
		if !o.c.closed {
			o.c.sayAtClose(o.c.unview(o.slots[o.gone].Buffer.root))
		}
	}
}

// isArena reports whether a root is one.
func (rec *Recording) isArena(r *root) bool {
	for _, a := range rec.arenas {
		if a.root == r {
			return true
		}
	}
	return false
}

// release gives the arenas up. c.mu is held.
func (rec *Recording) release() error {
	var errs []error
	for _, a := range rec.arenas {
		if a.root != nil && !a.root.dropped {
			errs = append(errs, rec.c.unview(a.root))
		}
	}
	return errors.Join(errs...)
}

// memory says how many bytes the arenas take on all memories together, and how many of the
// transients are in use at once at most, in whole units of the devices' alignment, summed over the memories.
func (rec *Recording) memory() (size, live uint64) {
	on := make(map[mem.MemoryID][]pack.Item)
	for _, r := range rec.transients {
		if l := rec.lives[r]; l.used {
			for m := range l.at.All() {
				size, _ := mem.AlignUp(r.size, rec.c.align)
				on[m] = append(on[m], pack.Item{Lower: uint64(l.first), Upper: uint64(l.last) + 1, Size: size})
			}
		}
	}
	for _, items := range on {
		live += rec.peak(items)
	}
	for _, a := range rec.arenas {
		size += a.size * uint64(a.at.Len())
	}
	return size, live
}

// Placed says where a transient of the graph's recording lies: in the buffer that traces name so, from byte off on. used is false for one that no
// command uses, and for what is none.
func (g *Graph) Placed(transient *Buffer) (in mem.BufferID, off uint64, used bool) {
	if g.made() != nil || transient.made() != nil {
		return 0, 0, false
	}
	if l := g.rec.lives[transient.root]; l != nil && l.used {
		return l.arena.root.id, l.off, true
	}
	return 0, 0, false
}

// Close gives the memory of the graph's transients back, once the replays under way have ended. It
// need not be called for a graph without. Replays after it fail with mem.ErrClosed, as a second
// Close does.
func (g *Graph) Close() error {
	if err := g.made(); err != nil {
		return err
	}
	if err := g.c.call(); err != nil {
		return err
	}
	c := g.c
	defer c.bufferEnded()
	defer c.unlock()
	if g.closed {
		return fmt.Errorf("graph: %w", mem.ErrClosed)
	}
	g.closed = true
	if c.closed {
		return nil
	}
	return g.rec.release()
}

// buffers are the buffers of a round.
func (rec *Recording) buffers() (out []migration.RoundBuffer) {
	for _, r := range rec.roots {
		out = append(out, migration.RoundBuffer{Size: r.size, Transient: rec.isArena(r), Slot: r.slot != nil})
	}
	return out
}
