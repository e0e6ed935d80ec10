package page

import (
	"cmp"
	"fmt"
	"sync"

	"godwit/mem"
	"godwit/mem/trace"
)

// What is said in full of commands, copies and evictions where nobody has a --json of them.

type recordedCommand struct {
	Number     uint64 `json:"number"`
	Device     string `json:"device"`
	Kind       string `json:"kind"`
	Kernel     string `json:"kernel,omitempty"`
	Label      string `json:"label,omitempty"`
	BytesMoved uint64 `json:"bytes_moved"` // by the copies it needed, and by write-backs to make room for it
	Copies     []int  `json:"copies"`
	Evictions  []int  `json:"evictions,omitempty"`
}

type recordedCopy struct {
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

type recordedEviction struct {
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

// Recorder draws a context from its trace: it is a trace.CommandSink. It keeps all that it is told, some 2 KB for each
// command and copy, or the last (NewWindow). Safe for concurrent use.
type Recorder struct {
	// Why, where not nil, is the reason of a copy, in place of the planner's. It is set before the first record.
	Why func(*trace.StepRecord) string

	names   []string // of memories; immutable
	mu      sync.Mutex
	b       *Builder                // protected by mu
	buffers map[mem.BufferID]string // protected by mu
	made    int                     // buffers ever; protected by mu
	copies  int                     // so far; protected by mu
	evicted int                     // evictions so far; protected by mu
	tried   []trace.EvictionRecord  // for commands that were refused, or wait for the room; protected by mu
	version uint64                  // protected by mu
}

var _ trace.CommandSink = (*Recorder)(nil)

// NewRecorder begins with a context over memories of so many bytes, as NewBuilder has them, whose times are of the clock of that name.
func NewRecorder(name, clock string, memories []string, capacity []uint64) *Recorder {
	return &Recorder{names: memories, b: NewBuilder(name, clock, memories, capacity, nil), buffers: make(map[mem.BufferID]string)}
}

// Window is how many of the last events a recorder keeps at least that draws what goes on for long; it keeps twice as many
// at most.
const Window = 10_000

// NewWindow is NewRecorder, but that it keeps the last events alone (Window).
func NewWindow(name, clock string, memories []string, capacity []uint64) *Recorder {
	r := NewRecorder(name, clock, memories, capacity)
	r.b.Keep(Window)
	return r
}

// Note adds what is missing from the picture.
func (r *Recorder) Note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.Note(text)
}

// Run is the picture of what has come so far.
func (r *Recorder) Run() *Run {
	r.mu.Lock()
	b := r.b.Copy()
	r.mu.Unlock()
	return b.Run()
}

// Version counts what was told: another one is another picture.
func (r *Recorder) Version() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// Ends implements trace.CommandSink: all.
func (r *Recorder) Ends() trace.Ends { return trace.AllEnds }

// Buffer implements trace.CommandSink.
func (r *Recorder) Buffer(b *trace.BufferRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	if b.Released {
		r.b.Released(b.Buffer)
		delete(r.buffers, b.Buffer)
		return
	}
	r.made++
	name := cmp.Or(b.Name, fmt.Sprintf("buffer %d", r.made))
	r.buffers[b.Buffer] = name
	r.b.Buffer(b.Buffer, name, b.Size, b.Version != 0)
}

// Command implements trace.CommandSink.
func (r *Recorder) Command(c *trace.CommandRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	if c.Err != nil {
		r.tried = append(r.tried, c.Clone().Evictions...)
		return
	}
	if len(r.tried) > 0 {
		all := *c
		all.Evictions, r.tried = append(r.tried, c.Evictions...), nil
		c = &all
	}
	r.b.Command(c, r.told(c))
}

// Completed implements trace.CommandSink.
func (r *Recorder) Completed(c *trace.CompletionRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	e := End{Started: c.Started, Ended: c.Ended}
	if c.Err != nil {
		e.Failed = c.Err.Error()
	}
	r.b.End(c.Point, e)
}

// told is what is said of a command. mu is held.
func (r *Recorder) told(c *trace.CommandRecord) Told {
	row := &recordedCommand{Number: c.ID, Device: r.names[c.Memory], Kind: c.Op, Kernel: c.Kernel, Label: c.Label, Copies: []int{}}
	t := Told{Number: int(c.ID), Words: Words{Name: fmt.Sprintf("#%d %s", c.ID, cmp.Or(c.Kernel, c.Op)), Row: row, Index: int(c.ID)}}
	copied := func(s *trace.StepRecord, reason string) Words {
		w := Words{
			Name:  fmt.Sprintf("%s of %s: %s → %s", mem.FormatBytes(s.Range.Size()), r.name(s.Buffer), r.names[s.From], r.names[s.To]),
			Row:   &recordedCopy{r.name(s.Buffer), s.Range.Start, s.Range.Size(), r.names[s.From], r.names[s.To], s.Way.String(), reason, c.ID, s.RideAlong},
			Index: r.copies,
		}
		row.Copies, row.BytesMoved = append(row.Copies, r.copies), row.BytesMoved+s.Range.Size()-s.RideAlong
		r.copies++
		return w
	}
	for i := range c.Evictions {
		v := &c.Evictions[i]
		t.Evictions = append(t.Evictions, Words{
			Name:  fmt.Sprintf("evict %s from %s", r.place(v.Buffer, v.Range), r.names[v.Memory]),
			Row:   &recordedEviction{r.name(v.Buffer), v.Range.Size(), r.names[v.Memory], v.Dropped, v.Fresh - v.Dropped, v.Policy, v.Score, v.Why, c.ID},
			Index: r.evicted,
		})
		row.Evictions = append(row.Evictions, r.evicted)
		r.evicted++
		var backs []Words
		for k := range v.Backs {
			backs = append(backs, copied(&v.Backs[k], "written back, to make room"))
		}
		t.Backs = append(t.Backs, backs)
	}
	for i := range c.Steps {
		t.Copies = append(t.Copies, copied(&c.Steps[i], r.why(&c.Steps[i])))
	}
	return t
}

func (r *Recorder) why(s *trace.StepRecord) string {
	if r.Why != nil {
		return r.Why(s)
	}
	return s.Why
}

// name is a buffer's. mu is held.
func (r *Recorder) name(id mem.BufferID) string { return cmp.Or(r.buffers[id], "an unknown buffer") }

// place is a range of a buffer. mu is held.
func (r *Recorder) place(id mem.BufferID, x mem.Range) string {
	if at := r.b.index(id); at >= 0 && x.Size() < r.b.run.Buffers[at].Size {
		return fmt.Sprintf("%s of %s at %d", mem.FormatBytes(x.Size()), r.name(id), x.Start)
	}
	return fmt.Sprintf("%s (%s)", r.name(id), mem.FormatBytes(x.Size()))
}
