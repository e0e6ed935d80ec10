package oracle

import "godwit/mem"

// kept is what an unmap has replaced: a copy of its buffer from before.
type kept struct {
	command int
	id      mem.BufferID
	r       mem.Range
	was     *buffer
}

// Unmap replays an unmap of what the host has mapped for writing, by a map that is
// not known to have succeeded: a write on the host that FailUnmap can take back.
func (o *Oracle) Unmap(id mem.BufferID, r mem.Range) (Result, error) {
	was := o.buffers[id].clone()
	res, err := o.Enqueue([]mem.Access{{Buffer: id, Range: r, Mode: mem.Write, Memory: mem.Host}})
	if err == nil {
		o.kept = append(o.kept, &kept{res.Command, id, r, was})
	}
	return res, err
}

// FailUnmap replays the failure of an unmap, command, whose map has failed: where
// its version is still the latest, the content is what it was before. Who held
// that only as far as a count said does not hold it any more.
func (o *Oracle) FailUnmap(command int) {
	version := uint32(o.commands[command])
	for i, k := range o.kept {
		if k.command != command {
			continue
		}
		o.kept = append(o.kept[:i:i], o.kept[i+1:]...)
		if b := o.buffers[k.id]; b != nil {
			b.restore(k, version)
		}
		for _, other := range o.kept {
			if other.id == k.id {
				other.was.restore(k, version)
			}
		}
		break
	}
	o.Fail(command)
}

func (b *buffer) restore(k *kept, version uint32) {
	for i := k.r.Start; i < k.r.End; i++ {
		if b.latest[i] != version {
			continue
		}
		b.latest[i], b.lost[i] = k.was.latest[i], k.was.lost[i]
		for m, s := range b.stores {
			if s == nil {
				continue
			}
			s.drop(i)
			if from := k.was.stores[m]; from != nil {
				s.holds[i], s.by[i] = from.holds[i], from.by[i]
			}
		}
		if b.latest[i] != 0 && b.holders(i).Empty() {
			b.lose(int(i))
		}
	}
}

// clone copies a buffer's state, but for what is held as far as a count says.
func (b *buffer) clone() *buffer {
	c := &buffer{latest: append([]uint32{}, b.latest...), lost: append([]bool{}, b.lost...), stores: make([]*store, len(b.stores))}
	for m, s := range b.stores {
		if s == nil {
			continue
		}
		to := &store{holds: append([]uint32{}, s.holds...), by: append([]uint32{}, s.by...)}
		c.stores[m] = to
		for i := range to.holds {
			if s.partOf != nil && s.partOf[i] != 0 && s.partOf[i] == b.latest[i] {
				to.holds[i] = 0
			}
		}
	}
	return c
}

// states are a buffer's, and those kept of it.
func (o *Oracle) states(id mem.BufferID) (all []*buffer) {
	if b := o.buffers[id]; b != nil {
		all = append(all, b)
	}
	for _, k := range o.kept {
		if k.id == id {
			all = append(all, k.was)
		}
	}
	return all
}
