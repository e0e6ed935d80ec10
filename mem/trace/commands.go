package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"godwit/internal/input"
	"godwit/mem"
)

// Command traces: what a program's commands accessed, in the order in which they were
// enqueued, and nothing of copies and evictions. It is all that decides what has to move,
// so that other policies and other capacities can be tried on it.
//
// A file is lines of JSON. The first says what it is; a context begins with its memories;
// then come buffers, commands and releases, in order. Contexts of one file may be mixed,
// and several processes may append to it: each has names of its own for its contexts.

// CommandTrace is what one context did.
type CommandTrace struct {
	Name       string // of the context, in its file
	Memories   []CommandMemory
	WholeBelow uint64 // bytes; see runtime.Options. 0 is the default
	Cut        bool   // the file ends within a line: its program was killed, or the file was cut
	Steps      []CommandStep
}

// Counted is the number of commands for which a content size said how much was copied.
func (t *CommandTrace) Counted() (n int) {
	for i := range t.Steps {
		if c := t.Steps[i].Command; c != nil && c.Counted {
			n++
		}
	}
	return n
}

// Tenants is the number of tenants that were said.
func (t *CommandTrace) Tenants() (n int) {
	for i := range t.Steps {
		if t.Steps[i].Tenant != nil {
			n++
		}
	}
	return n
}

// CommandMemory is a memory of a context; the host's comes first.
type CommandMemory struct {
	Name     string `json:"name"`
	Capacity uint64 `json:"capacity,omitempty"` // bytes; 0 is without limit, or unknown
}

// CommandTenant is a tenant of which buffers are created from then on, or what one of its name is from then on.
type CommandTenant struct {
	Name     string   `json:"name"`
	Caps     []uint64 `json:"caps,omitempty"`   // bytes, by memory; 0 is none
	Floors   []uint64 `json:"floors,omitempty"` // likewise
	Priority int32    `json:"priority,omitempty"`
}

// CommandStep is one of: a tenant, a buffer that is created, one that is released, a command.
type CommandStep struct {
	Tenant  *CommandTenant `json:"tenant,omitempty"`
	Create  *CommandBuffer `json:"create,omitempty"`
	Release mem.BufferID   `json:"release,omitempty"`
	Command *CommandUses   `json:"command,omitempty"`
}

// CommandBuffer is a root buffer.
type CommandBuffer struct {
	ID      mem.BufferID `json:"id"`
	Name    string       `json:"name,omitempty"`
	Size    uint64       `json:"size"`              // bytes
	Content bool         `json:"content,omitempty"` // it has content from the start, on the host
	Tenant  string       `json:"tenant,omitempty"`  // whose it is
	Whole   bool         `json:"whole,omitempty"`   // devices store all of it, though it has WholeBelow bytes or more
}

// CommandUses is a command that was accepted, and what it accessed.
type CommandUses struct {
	Op     string       `json:"op"` // CommandRecord.Op
	Kernel string       `json:"kernel,omitempty"`
	Queue  mem.MemoryID `json:"queue"` // the memory of the queue's device
	Uses   []CommandUse `json:"uses"`
	// Counted says that a content size said how many bytes were copied for it, which the trace does not have.
	Counted bool `json:"counted,omitempty"`
}

// CommandUse is an access. Where the command had more of the buffer stored than it accessed,
// Stored is that range.
type CommandUse struct {
	Buffer mem.BufferID `json:"buffer"`
	Memory mem.MemoryID `json:"memory"`
	Range  [2]uint64    `json:"range"`            // bytes of the root buffer: the first, and the one after the last
	Mode   string       `json:"mode"`             // read, write, or both
	Stored *[2]uint64   `json:"stored,omitempty"` // bytes of the root buffer
}

// Access is the use as the planner was given it.
func (u *CommandUse) Access() mem.Access {
	return mem.Access{Buffer: u.Buffer, Memory: u.Memory, Range: mem.Range{Start: u.Range[0], End: u.Range[1]}, Mode: commandModes[u.Mode]}
}

// Reach is the range that was stored.
func (u *CommandUse) Reach() mem.Range {
	if u.Stored != nil {
		return mem.Range{Start: u.Stored[0], End: u.Stored[1]}
	}
	return mem.Range{Start: u.Range[0], End: u.Range[1]}
}

var commandModes = map[string]mem.Mode{"read": mem.Read, "write": mem.Write, "both": mem.ReadWrite}

func modeText(m mem.Mode) string {
	switch m {
	case mem.Read:
		return "read"
	case mem.Write:
		return "write"
	}
	return "both"
}

// commandFormat says in the first line what a file is.
const (
	commandFormat  = "commands"
	commandVersion = 1
)

// commandLine is a line of the file.
type commandLine struct {
	Godwit     string          `json:"godwit,omitempty"` // of the first line: commandFormat
	Version    int             `json:"version,omitempty"`
	Context    string          `json:"context,omitempty"`  // that all but the first line belongs to
	Memories   []CommandMemory `json:"memories,omitempty"` // of a new context
	WholeBelow uint64          `json:"whole_below,omitempty"`
	CommandStep
}

// CommandWriter writes command traces. Safe for concurrent use.
type CommandWriter struct {
	mu       sync.Mutex
	w        io.Writer
	prefix   string
	contexts int   // protected by mu
	stopped  bool  // protected by mu
	err      error // the first; protected by mu
}

// NewCommandWriter returns a writer that gives w each line in one Write, so that a program that
// dies leaves all of them. prefix comes before the names of contexts; where several
// processes write one file, it tells them apart.
func NewCommandWriter(w io.Writer, prefix string) *CommandWriter {
	cw := &CommandWriter{w: w, prefix: prefix}
	cw.mu.Lock()
	defer cw.mu.Unlock()
	cw.line(&commandLine{Godwit: commandFormat, Version: commandVersion})
	return cw
}

// Context returns a sink for a new runtime context with these memories, the host's first.
// wholeBelow is its option of that name, in bytes.
func (cw *CommandWriter) Context(memories []CommandMemory, wholeBelow uint64) CommandSink {
	cw.mu.Lock()
	defer cw.mu.Unlock()
	cw.contexts++
	s := &commandSink{cw, fmt.Sprintf("%s%d", cw.prefix, cw.contexts), make(map[string]*CommandTenant)}
	cw.line(&commandLine{Context: s.context, Memories: memories, WholeBelow: wholeBelow})
	return s
}

// Err is the first error of writing.
func (cw *CommandWriter) Err() error {
	cw.mu.Lock()
	defer cw.mu.Unlock()
	return cw.err
}

// Stop leaves out what comes from now on.
func (cw *CommandWriter) Stop() {
	cw.mu.Lock()
	defer cw.mu.Unlock()
	cw.stopped = true
}

// line writes a line. mu is held.
func (cw *CommandWriter) line(l *commandLine) {
	if cw.stopped || cw.err != nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = cw.w.Write(append(text, '\n'))
	}
	cw.err = err
}

// commandSink writes one context's.
type commandSink struct {
	w       *CommandWriter
	context string
	tenants map[string]*CommandTenant // by name, as they were written; under the context's lock, as all calls
}

func (s *commandSink) write(step CommandStep) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.line(&commandLine{Context: s.context, CommandStep: step})
}

// Buffer implements CommandSink.
func (s *commandSink) Buffer(b *BufferRecord) {
	if b.Released {
		s.write(CommandStep{Release: b.Buffer})
		return
	}
	c := &CommandBuffer{ID: b.Buffer, Name: b.Name, Size: b.Size, Content: b.Version != 0, Whole: b.Whole}
	if t := b.Tenant; t != nil {
		if c.Tenant = t.Name; !reflect.DeepEqual(s.tenants[t.Name], t) {
			s.tenants[t.Name] = t
			s.write(CommandStep{Tenant: t})
		}
	}
	s.write(CommandStep{Create: c})
}

// Command implements CommandSink. A command that was refused has accessed nothing, and so have
// markers.
func (s *commandSink) Command(r *CommandRecord) {
	if r.Err != nil || len(r.Accesses) == 0 {
		return
	}
	c := &CommandUses{Op: r.Op, Kernel: r.Kernel, Queue: r.Memory}
	c.Counted = slices.ContainsFunc(r.Steps, func(s StepRecord) bool { return s.Late })
	for _, a := range r.Accesses {
		u := CommandUse{Buffer: a.Buffer, Memory: a.Memory, Range: [2]uint64{a.Range.Start, a.Range.End}, Mode: modeText(a.Mode)}
		for _, k := range r.Stored {
			if k.Buffer == a.Buffer && k.Memory == a.Memory && k.Range.Contains(a.Range) && k.Range != a.Range {
				u.Stored = &[2]uint64{k.Range.Start, k.Range.End}
			}
		}
		c.Uses = append(c.Uses, u)
	}
	s.write(CommandStep{Command: c})
}

// Ends implements CommandSink: none.
func (s *commandSink) Ends() Ends { return NoEnds }

// Completed implements CommandSink.
func (s *commandSink) Completed(*CompletionRecord) {}

// Tee is a sink that passes everything on to several. Those that are nil are left out; it is
// nil where none is left.
func Tee(sinks ...CommandSink) CommandSink {
	var t tee
	for _, s := range sinks {
		if s != nil {
			t = append(t, s)
		}
	}
	switch len(t) {
	case 0:
		return nil
	case 1:
		return t[0]
	}
	return t
}

type tee []CommandSink

func (t tee) Ends() (most Ends) {
	for _, s := range t {
		most = max(most, s.Ends())
	}
	return most
}

func (t tee) Buffer(b *BufferRecord) {
	for _, s := range t {
		s.Buffer(b)
	}
}

func (t tee) Command(c *CommandRecord) {
	for _, s := range t {
		s.Command(c)
	}
}

func (t tee) Completed(c *CompletionRecord) {
	for _, s := range t {
		if s.Ends() > NoEnds { // a LateEnds is told all, where another asks for them
			s.Completed(c)
		}
	}
}

// ErrNotCommands says that a file is no command trace.
var ErrNotCommands = errors.New("not a command trace")

// OpenCommands reads the command traces in a file, one for each context that enqueued
// something, plain or compressed with gzip. It fails with ErrNotCommands where the file is
// something else, and with a malformed line, "file:line:" first, where a line breaks the format.
// The last line of a program that died may be half a line, and is left out.
func OpenCommands(ctx context.Context, path string) (out []*CommandTrace, err error) {
	f, err := input.Open(ctx, path, input.MaxTrace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return ReadCommands(ctx, f, path)
}
