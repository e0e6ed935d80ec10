package eviction

import "godwit/mem"

// past is the last commands of a context. Programs repeat themselves, and what
// followed the last time that the same few commands came is taken to follow again,
// as long as it does. Its size is fixed.
type past struct {
	commands [pastCommands]uint64 // signatures; command i, from 1, is at i % pastCommands
	last     uint64               // the latest command
	events   [pastEvents]occurrence
	next     uint64                  // number of the next event, from 1
	buffers  map[mem.BufferID]thread // those with events
	phrases  [pastCommands]uint64    // by hash of a phrase: the command that ended it last
	match    uint64                  // the command that the latest one repeats; 0 is none
	jumps    uint64                  // how often match began anew
}

const (
	pastCommands = 1 << 14
	pastEvents   = 1 << 16
	phrase       = 3 // so many commands in a row tell where the program is
)

// occurrence is an event that was seen, linked with its buffer's others.
type occurrence struct {
	event
	buffer     mem.BufferID
	prev, next uint64 // numbers of events; 0 is none
}

// thread is a buffer's events. cursor is the first one after the match, as of a
// while ago in the same jump.
type thread struct{ first, last, cursor, jump uint64 }

func newPast() *past { return &past{next: 1, buffers: make(map[mem.BufferID]thread)} }

func (p *past) at(e uint64) *occurrence { return &p.events[e%pastEvents] }

// observe appends a command. Its signature is what it uses, and not what for: who fills
// buffers in turn sweeps over them in that order, and reads them so at the end.
func (p *past) observe(accesses []mem.Access) {
	p.last++
	signature := uint64(len(accesses))
	for _, a := range accesses {
		signature = mix(signature, uint64(a.Buffer), uint64(a.Memory))
		p.append(event{command: p.last, memory: a.Memory, reads: a.Mode.Reads(), writes: a.Mode.Writes()}, a.Buffer)
	}
	p.commands[p.last%pastCommands] = signature
	p.follow(signature)
}

// follow finds the command that the latest one repeats: that after the one which
// the last one repeated, if it is the same; else the last at which the same phrase
// ended.
func (p *past) follow(signature uint64) {
	if p.match != 0 && p.last-p.match < pastCommands-1 && p.commands[(p.match+1)%pastCommands] == signature {
		p.match++
	} else {
		p.match = 0
	}
	if p.last < phrase {
		return
	}
	h := uint64(0)
	for i := range uint64(phrase) {
		h = mix(h, p.commands[(p.last-i)%pastCommands])
	}
	before := &p.phrases[h%pastCommands]
	if p.match == 0 && *before >= phrase && p.last-*before < pastCommands-phrase && p.same(*before) {
		p.match = *before
		p.jumps++
	}
	*before = p.last
}

// same reports whether the phrase that ended with a command is the one that ends
// now.
func (p *past) same(command uint64) bool {
	for i := range uint64(phrase) {
		if p.commands[(command-i)%pastCommands] != p.commands[(p.last-i)%pastCommands] {
			return false
		}
	}
	return true
}

// append adds an event in place of the oldest.
func (p *past) append(e event, b mem.BufferID) {
	if p.next > pastEvents {
		p.forget(p.at(p.next))
	}
	t := p.buffers[b]
	*p.at(p.next) = occurrence{event: e, buffer: b, prev: t.last}
	if t.last != 0 {
		p.at(t.last).next = p.next
	} else {
		t.first, t.cursor = p.next, p.next
	}
	t.last = p.next
	p.buffers[b] = t
	p.next++
}

// forget takes out the oldest event, which is its buffer's first.
func (p *past) forget(o *occurrence) {
	if o.next == 0 {
		delete(p.buffers, o.buffer)
		return
	}
	p.at(o.next).prev = 0
	t := p.buffers[o.buffer]
	t.first = o.next
	t.cursor = max(t.cursor, t.first)
	p.buffers[o.buffer] = t
}

// ahead guesses what becomes of a block after the latest command. Nothing is known
// where the program repeats nothing.
func (p *past) ahead(b mem.BufferID, m mem.MemoryID) (a Ahead, known bool) {
	if p.match == 0 {
		return a, false
	}
	v, age := view{memory: m, now: p.match}, p.last
	if t, ok := p.buffers[b]; ok {
		p.seek(&t)
		p.buffers[b] = t
		age = p.last - p.at(t.last).command
		for e, n := t.cursor, 0; e != 0 && n < horizon; e, n = p.at(e).next, n+1 {
			if o := p.at(e); o.command > p.match && v.see(&o.event) {
				break
			}
		}
	}
	if v.Until == 0 { // not in what came since
		v.Until, v.Fetch = 2*max(age, p.last-p.match), !v.gone
	}
	return v.Ahead, true
}

// seek moves a cursor to the first event after the match, or to the last one.
func (p *past) seek(t *thread) {
	if t.jump != p.jumps {
		t.cursor, t.jump = t.last, p.jumps
	}
	for prev := p.at(t.cursor).prev; prev != 0 && p.at(prev).command > p.match; prev = p.at(prev).prev {
		t.cursor = prev
	}
	for t.cursor != t.last && p.at(t.cursor).command <= p.match {
		t.cursor = p.at(t.cursor).next
	}
}

// mix hashes words, each by a multiplication and a fold (as wyhash does).
func mix(h uint64, words ...uint64) uint64 {
	for _, w := range words {
		h = (h ^ w) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}
