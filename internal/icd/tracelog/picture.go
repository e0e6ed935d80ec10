package tracelog

import (
	"cmp"
	"fmt"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/page"
)

// The picture of what contexts did, where it is wanted: every command and copy with its reason is kept, some 2 KB of
// memory for each.

// drawnCommand, drawnCopy and drawnEviction are what is said of each in full.
type drawnCommand struct {
	Number     uint64 `json:"number"`
	Device     string `json:"device"`
	Kind       string `json:"kind"`
	Kernel     string `json:"kernel,omitempty"`
	Label      string `json:"label,omitempty"`
	BytesMoved uint64 `json:"bytes_moved"` // by the copies it needed, and by write-backs to make room for it
	Copies     []int  `json:"copies"`
	Evictions  []int  `json:"evictions,omitempty"`
}

type drawnCopy struct {
	Buffer    string `json:"buffer"`
	Offset    uint64 `json:"offset"`
	Bytes     uint64 `json:"bytes"`
	From      string `json:"from"`
	To        string `json:"to"`
	Way       string `json:"way"`
	Reason    string `json:"reason"`
	Command   uint64 `json:"command"`
	RideAlong uint64 `json:"ride_along,omitempty"`
}

type drawnEviction struct {
	Buffer      string  `json:"buffer"`
	Bytes       uint64  `json:"bytes"`
	From        string  `json:"from"`
	Dropped     uint64  `json:"dropped"`
	WrittenBack uint64  `json:"written_back"`
	Policy      string  `json:"policy"`
	Score       float64 `json:"score"`
	Why         string  `json:"why,omitempty"`
	Command     uint64  `json:"command"`
}

// picture is a context's picture in the making.
type picture struct {
	*page.Builder
	copies, evictions int // so far
}

// Draw has contexts be drawn that begin from now on: by the clock of that name.
func (l *Log) Draw(clock string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock = clock
}

// Pictures are the contexts' pictures, of all that has ended by now. It is called once.
func (l *Log) Pictures() (out []*page.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.pictures {
		out = append(out, b.Run())
	}
	l.pictures = nil
	return out
}

// begin begins with a context's picture, if it is wanted. l.mu is held.
func (l *Log) begin(c *sink, capacity []uint64) {
	if l.clock == "" {
		return
	}
	b := page.NewBuilder(fmt.Sprintf("context %d", c.number), l.clock, c.names, capacity, nil)
	b.Note("No critical path: what the host waited for is not known.")
	l.pictures = append(l.pictures, b)
	c.picture = &picture{Builder: b}
}

// told is what is said of a command. The account is as it was before it. c.log.mu is held.
func (c *sink) told(r *trace.CommandRecord, what string) page.Told {
	p := c.picture
	row := &drawnCommand{Number: r.ID, Device: c.names[r.Memory], Kind: r.Op, Kernel: r.Kernel, Label: r.Label, Copies: []int{}}
	t := page.Told{Number: int(r.ID), Words: page.Words{Name: fmt.Sprintf("#%d %s", r.ID, cmp.Or(what, r.Op)), Row: row, Index: int(r.ID)}}
	copied := func(s *trace.StepRecord, reason string) page.Words {
		w := page.Words{
			Name:  fmt.Sprintf("%s of %s: %s → %s", mem.FormatBytes(s.Range.Size()), c.name(s.Buffer), c.names[s.From], c.names[s.To]),
			Row:   &drawnCopy{c.name(s.Buffer), s.Range.Start, s.Range.Size(), c.names[s.From], c.names[s.To], s.Way.String(), reason, r.ID, s.RideAlong},
			Index: p.copies,
		}
		row.Copies, row.BytesMoved = append(row.Copies, p.copies), row.BytesMoved+s.Range.Size()-s.RideAlong
		p.copies++
		return w
	}
	for i := range r.Evictions {
		v := &r.Evictions[i]
		t.Evictions = append(t.Evictions, page.Words{
			Name:  fmt.Sprintf("evict %s from %s", c.place(v.Buffer, v.Range), c.names[v.Memory]),
			Row:   &drawnEviction{c.name(v.Buffer), v.Range.Size(), c.names[v.Memory], v.Dropped, v.Fresh - v.Dropped, v.Policy, v.Score, v.Why, r.ID},
			Index: p.evictions,
		})
		row.Evictions = append(row.Evictions, p.evictions)
		p.evictions++
		var backs []page.Words
		for k := range v.Backs {
			backs = append(backs, copied(&v.Backs[k], "written back, to make room"))
		}
		t.Backs = append(t.Backs, backs)
	}
	for i := range r.Steps {
		t.Copies = append(t.Copies, copied(&r.Steps[i], c.why(&r.Steps[i])))
	}
	return t
}

// name is a buffer's.
func (c *sink) name(id mem.BufferID) string {
	if a := c.buffers[id]; a != nil {
		return a.Name
	}
	return "an unknown buffer"
}

// ended tells how a command or a copy ended. c.log.mu is held.
func (p *picture) ended(r *trace.CompletionRecord) {
	e := page.End{Started: r.Started, Ended: r.Ended}
	if r.Err != nil {
		e.Failed = r.Err.Error()
	}
	p.End(r.Point, e)
}
