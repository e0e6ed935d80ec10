package trace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"godwit/internal/input"
	"godwit/mem"
)

// The bounds of a command trace besides those of all traces (package input).
const (
	maxTraceContexts = 1000
	maxTraceMemories = 1025 // of a context: 1,024 devices
	maxTraceBuffer   = 1 << 48
	maxFirstLine     = 512
)

// IsCommands reports whether a file is a command trace, by its first line. It looks no further,
// since an error that it comes upon is not met again.
func IsCommands(br *bufio.Reader) bool {
	for n := 1; n <= maxFirstLine; n++ {
		first, err := br.Peek(n)
		if n == 1 && string(first) != "{" {
			return false
		}
		if err != nil || first[n-1] == '\n' {
			var l commandLine
			return json.Unmarshal(first, &l) == nil && l.Godwit == commandFormat
		}
	}
	return false
}

// ReadCommands is OpenCommands for content that is at hand; file is for errors.
func ReadCommands(ctx context.Context, r io.Reader, file string) ([]*CommandTrace, error) {
	br, err := input.Plain(ctx, r, file)
	if err != nil {
		return nil, err
	}
	if !IsCommands(br) {
		return nil, fmt.Errorf("%s: %w", file, ErrNotCommands)
	}
	l := input.NewLines(br, file)
	all := commandReader{contexts: make(map[string]*commandReading)}
	var broken error // of the line before: a fault, unless it is the last
	for {
		text, ok := l.Next()
		if !ok {
			break
		}
		if broken != nil {
			return nil, broken
		}
		if err := all.line(text); err != nil {
			if broken = l.Fail(err); !errors.Is(err, errHalf) {
				return nil, broken
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.Err(); err != nil {
		return nil, l.Fail(err)
	}
	var out []*CommandTrace
	for _, c := range all.order {
		if c.commands > 0 {
			c.trace.Cut = broken != nil
			out = append(out, c.trace)
		}
	}
	return out, nil
}

// errHalf says that a line is no JSON.
var errHalf = errors.New("not an object of JSON")

// commandReader is the state of reading a file.
type commandReader struct {
	contexts map[string]*commandReading
	order    []*commandReading
}

// commandReading is a context that is being read.
type commandReading struct {
	trace    *CommandTrace
	sizes    map[mem.BufferID]uint64 // of the buffers that there are
	tenants  map[string]bool         // that were said
	commands int
}

func (r *commandReader) line(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var l commandLine
	if err := d.Decode(&l); err != nil {
		if !json.Valid([]byte(text)) {
			return fmt.Errorf("%q: %w", input.Clip(text), errHalf)
		}
		return err
	}
	if l.Godwit != "" {
		if l.Godwit != commandFormat || l.Version != commandVersion {
			return fmt.Errorf("format %q, version %d: want %q, version %d", input.Clip(l.Godwit), l.Version, commandFormat, commandVersion)
		}
		return nil
	}
	c := r.contexts[l.Context]
	if l.Memories != nil {
		switch {
		case c != nil:
			return fmt.Errorf("context %q began before", input.Clip(l.Context))
		case len(r.order) == maxTraceContexts:
			return fmt.Errorf("more than %d contexts", maxTraceContexts)
		case len(l.Memories) < 2 || len(l.Memories) > maxTraceMemories:
			return fmt.Errorf("context %q: %d memories: want the host's and those of 1 to %d devices", input.Clip(l.Context), len(l.Memories), maxTraceMemories-1)
		}
		c = &commandReading{trace: &CommandTrace{Name: l.Context, Memories: l.Memories, WholeBelow: l.WholeBelow}, sizes: make(map[mem.BufferID]uint64), tenants: make(map[string]bool)}
		r.contexts[l.Context], r.order = c, append(r.order, c)
		return nil
	}
	if c == nil {
		return fmt.Errorf("context %q: its memories have not been said", input.Clip(l.Context))
	}
	if err := c.step(&l.CommandStep); err != nil {
		return err
	}
	c.trace.Steps = append(c.trace.Steps, l.CommandStep)
	return nil
}

// step checks a step against those before.
func (c *commandReading) step(s *CommandStep) error {
	switch {
	case s.Tenant != nil && s.Create == nil && s.Release == 0 && s.Command == nil:
		if t := s.Tenant; t.Name == "" || max(len(t.Caps), len(t.Floors)) > len(c.trace.Memories) {
			return fmt.Errorf("tenant %q with %d caps and %d floors: want a name, and no more than memories", input.Clip(t.Name), len(t.Caps), len(t.Floors))
		}
		c.tenants[s.Tenant.Name] = true
		return nil
	case s.Tenant != nil:
	case s.Create != nil && s.Release == 0 && s.Command == nil:
		b := s.Create
		if b.Tenant != "" && !c.tenants[b.Tenant] {
			return fmt.Errorf("buffer %d of tenant %q, which has not been said", b.ID, input.Clip(b.Tenant))
		}
		if _, is := c.sizes[b.ID]; is || b.ID == 0 {
			return fmt.Errorf("buffer %d: the number is 0, or there is one already", b.ID)
		}
		if b.Size == 0 || b.Size > maxTraceBuffer {
			return fmt.Errorf("buffer %d of %d bytes: want 1 to 2^48", b.ID, b.Size)
		}
		c.sizes[b.ID] = b.Size
		return nil
	case s.Release != 0 && s.Create == nil && s.Command == nil:
		if _, is := c.sizes[s.Release]; !is {
			return fmt.Errorf("release of buffer %d: there is none", s.Release)
		}
		delete(c.sizes, s.Release)
		return nil
	case s.Command != nil && s.Create == nil && s.Release == 0:
		c.commands++
		return c.command(s.Command)
	}
	return errors.New("want one of tenant, create, release and command")
}

func (c *commandReading) command(k *CommandUses) error {
	memories := mem.MemoryID(len(c.trace.Memories))
	if len(k.Uses) == 0 {
		return errors.New("command: it uses nothing")
	}
	if k.Queue >= memories {
		return fmt.Errorf("command: queue: memory %d of %d", k.Queue, memories)
	}
	for i := range k.Uses {
		u := &k.Uses[i]
		size, is := c.sizes[u.Buffer]
		_, known := commandModes[u.Mode]
		reach := u.Reach()
		switch {
		case !is:
			return fmt.Errorf("command: buffer %d: there is none", u.Buffer)
		case u.Memory >= memories:
			return fmt.Errorf("command: memory %d of %d", u.Memory, memories)
		case u.Range[0] >= u.Range[1] || u.Range[1] > size:
			return fmt.Errorf("command: bytes %d to %d of buffer %d, which has %d", u.Range[0], u.Range[1], u.Buffer, size)
		case reach.Start > u.Range[0] || reach.End < u.Range[1] || reach.End > size:
			return fmt.Errorf("command: stored: bytes %d to %d of buffer %d, which has %d, for %d to %d", reach.Start, reach.End, u.Buffer, size, u.Range[0], u.Range[1])
		case !known:
			return fmt.Errorf("command: mode %q: want read, write or both", input.Clip(u.Mode))
		}
	}
	return nil
}
