package formats

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// PyTorch's memory snapshot, torch.cuda.memory._snapshot(), as pickle.dump (see
// alloc_pickle.go) or json.dump gives it: an object whose device_traces holds a list
// of actions for each device.
// An `alloc` starts a chunk at its address; `free_completed` ends it (from
// `free_requested` until then other streams may still use it); the segment_*
// actions concern the allocator's own reserve and are passed over, as `oom` is
// (counted in FailedAllocs). The recording is a ring: what was allocated
// before its first entry is freed without being known.

type pyEntry struct {
	Action string  `json:"action"`
	Addr   *uint64 `json:"addr"`
	Size   uint64  `json:"size"`
	TimeUS int64   `json:"time_us"`
}

// readJSON reads a JSON object: a PyTorch snapshot or VMA's statistics, told apart
// by their keys.
func readJSON(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	lr := &lineReader{r: r}
	dec := json.NewDecoder(lr)
	fail := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return input.Malformed(file, lr.line(dec.InputOffset()), err)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(err)
	}
	var out []*Allocs
	vma := vmaReader{lr: lr}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fail(err)
		}
		var more []*Allocs
		switch key {
		case "device_traces":
			found = true
			more, err = readDevices(ctx, dec, lr, file)
		case "DefaultPools", "CustomPools", "Details":
			found = true
			more, err = vma.read(dec, file, key.(string))
		default:
			err = skipValue(dec, lr)
		}
		if err != nil {
			return nil, fail(err)
		}
		out = append(out, more...)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(err)
	}
	if !found {
		return nil, fail(errors.New("a JSON object without device_traces (PyTorch's memory snapshot), DefaultPools or Details (VMA's statistics)"))
	}
	return out, nil
}

// maxNesting is how deep what is passed over may be; the decoder bounds the rest.
const maxNesting = 1000

// skipValue passes over the next value without building it.
func skipValue(dec *json.Decoder, lr *lineReader) error {
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		lr.line(dec.InputOffset())
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxNesting {
				return fmt.Errorf("nested more than %d deep", maxNesting)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func openArray(dec *json.Decoder, what string) error {
	tok, err := dec.Token()
	if err == nil && tok != json.Delim('[') {
		err = fmt.Errorf("%s is not a list", what)
	}
	return err
}

// maxDevices is how many devices a snapshot may have.
const maxDevices = 1 << 16

// readDevices reads the list of lists.
func readDevices(ctx context.Context, dec *json.Decoder, lr *lineReader, file string) ([]*Allocs, error) {
	devices := pyDevices{file: file}
	err := eachElement(dec, "device_traces", func(device int) error {
		if device > maxDevices {
			return fmt.Errorf("more than %d devices", maxDevices)
		}
		if err := openArray(dec, "a device's trace"); err != nil {
			return err
		}
		err := devices.read(ctx, func(int) (e pyEntry, line int, more bool, err error) {
			if more = dec.More(); more {
				err = dec.Decode(&e)
			}
			return e, lr.line(dec.InputOffset()), more, err
		})
		if err == nil {
			_, err = dec.Token()
		}
		return err
	})
	return devices.traces(), err
}

// pyDevices makes a trace of each device's entries.
type pyDevices struct {
	file    string
	devices int // read so far
	events  int // of all devices
	out     []*Allocs
}

// read takes the entries of the next device from next, which is called with their
// numbers. A device that recorded nothing is left out.
func (p *pyDevices) read(ctx context.Context, next func(n int) (e pyEntry, line int, more bool, err error)) error {
	var b AllocBuilder
	var t0 int64
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, line, more, err := next(n)
		if !more && err == nil {
			if n > 0 {
				p.out = append(p.out, b.Build(fmt.Sprintf("%s#%d", p.file, p.devices), FormatPyTorch))
			}
			p.devices++
			return nil
		}
		if n == 0 {
			t0 = e.TimeUS
		}
		if p.events++; err == nil && p.events > input.MaxEvents {
			err = fmt.Errorf("more than %d entries", input.MaxEvents)
		}
		if err == nil {
			err = b.pyEntry(e, t0, line)
		}
		if err != nil {
			return fmt.Errorf("device %d, entry %d: %w", p.devices, n, err)
		}
	}
}

// traces are the traces read; the only one has the file's name.
func (p *pyDevices) traces() []*Allocs {
	if len(p.out) == 1 {
		p.out[0].Name = p.file
	}
	return p.out
}

// pyEntry adds an entry of a trace that begins at t0.
func (b *AllocBuilder) pyEntry(e pyEntry, t0 int64, line int) error {
	odd, at := &b.t.Oddities, e.TimeUS-t0
	if (at < 0) != (e.TimeUS < t0) {
		return fmt.Errorf("time_us %d and %d are more than 63 bits apart", t0, e.TimeUS)
	}
	switch e.Action {
	case "alloc", "free_completed":
		if e.Addr == nil {
			return fmt.Errorf("%s without addr", e.Action)
		}
	case "oom":
		odd.note(&odd.FailedAllocs, line, "allocation of %d bytes had failed", e.Size)
		return nil
	case "":
		return errors.New("an entry without action")
	default:
		return nil
	}
	if e.Action == "free_completed" {
		b.free(*e.Addr, at, line)
		return nil
	}
	return b.recorded(*e.Addr, fmt.Sprintf("%#x", *e.Addr), e.Size, at, line)
}

// WritePyTorch writes t as a memory snapshot of one device in JSON, with no
// segments. Addresses are made up as WriteRMM makes them.
func (t *Allocs) WritePyTorch(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString(`{"segments":[],"device_traces":[[`) // a bufio.Writer keeps its first error for Flush
	for i, e := range t.Events {
		sep, action := ",\n", "alloc"
		if i == 0 {
			sep = "\n"
		}
		if e.Op == trace.OpFree {
			action = "free_completed"
		}
		_, _ = fmt.Fprintf(bw, `%s{"action":"%s","addr":%d,"size":%d,"stream":0,"time_us":%d}`,
			sep, action, 1<<40+256*uint64(e.Chunk), e.Size, e.Time)
	}
	_, _ = bw.WriteString("\n]]}\n")
	return bw.Flush()
}

// lineReader remembers where lines end, so that an offset can be told as a line
// number, and how far the decoder has come: what that holds back at a time, a
// value or white space, is bounded.
type lineReader struct {
	r      io.Reader
	pos    int64
	passed int64   // offset that the decoder has come to
	n      int     // newlines before passed
	ends   []int64 // offsets of the newlines since, ascending
}

func (l *lineReader) Read(p []byte) (int, error) {
	if l.pos-l.passed > 2*input.MaxLine {
		return 0, fmt.Errorf("a value of more than %d bytes", input.MaxLine)
	}
	n, err := l.r.Read(p[:min(len(p), input.MaxLine)])
	for i, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.pos+int64(i))
		}
	}
	l.pos += int64(n)
	return n, err
}

// line is the 1-based line of the byte at offset off, which is never smaller than
// the one before.
func (l *lineReader) line(off int64) int {
	i, _ := slices.BinarySearch(l.ends, off)
	l.ends = slices.Delete(l.ends, 0, i)
	l.n += i
	l.passed = off
	return l.n + 1
}
