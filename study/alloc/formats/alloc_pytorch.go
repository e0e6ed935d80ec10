package formats

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// PyTorch's memory snapshot, torch.cuda.memory._snapshot(), as pickle.dump (see
// alloc_pickle.go) or json.dump gives it: an object whose device_traces holds a list
// of actions for each device.
// An `alloc` starts a chunk at its address; `free_completed` ends it (from
// `free_requested` until then other streams may still use it); `oom` is passed over
// (counted in FailedAllocs). The recording is a ring, and often begins late. What is
// freed without having been allocated in it, and what `segments`, the state at its end,
// shows as active though no entry was about it, lives since before its first entry.
// The segment_* actions and the segments' sizes tell what the allocator held.

type pyEntry struct {
	Action string  `json:"action"`
	Addr   *uint64 `json:"addr"`
	Size   uint64  `json:"size"`
	Stream uint64  `json:"stream"`
	TimeUS int64   `json:"time_us"`
}

// pySegment is a stretch that the allocator held when the snapshot was taken.
type pySegment struct {
	Device  int       `json:"device"`
	Address uint64    `json:"address"`
	Total   uint64    `json:"total_size"`
	Blocks  []pyBlock `json:"blocks"`
}

type pyBlock struct {
	Address   *uint64 `json:"address"` // old snapshots leave it to be counted
	Size      uint64  `json:"size"`
	Requested uint64  `json:"requested_size"` // what entries tell as size; old snapshots lack it
	State     string  `json:"state"`          // active_allocated, active_pending_free, inactive
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
	vma, devices := vmaReader{lr: lr}, pyDevices{file: file}
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
			err = readDevices(ctx, dec, lr, &devices)
		case "segments":
			err = readSegments(dec, lr, &devices)
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
	traces, err := devices.traces()
	if err != nil {
		return nil, fail(err)
	}
	return append(traces, out...), nil
}

// readSegments reads the list of segments.
func readSegments(dec *json.Decoder, lr *lineReader, devices *pyDevices) error {
	return eachElement(dec, "segments", func(int) error {
		var s pySegment
		err := eachField(dec, "a segment", func(key string) error {
			switch key {
			case "device":
				return dec.Decode(&s.Device)
			case "address":
				return dec.Decode(&s.Address)
			case "total_size":
				return dec.Decode(&s.Total)
			case "blocks":
				return eachElement(dec, key, func(int) error {
					var b pyBlock
					err := dec.Decode(&b)
					lr.line(dec.InputOffset())
					s.Blocks = append(s.Blocks, b)
					return cmp.Or(err, devices.block())
				})
			}
			return skipValue(dec, lr)
		})
		devices.segments = append(devices.segments, s)
		return cmp.Or(err, devices.block())
	})
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
func readDevices(ctx context.Context, dec *json.Decoder, lr *lineReader, devices *pyDevices) error {
	return eachElement(dec, "device_traces", func(device int) error {
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
}

// pyDevices makes a trace of each device's entries.
type pyDevices struct {
	file     string
	devices  []*pyDevice // read so far
	segments []pySegment // of all devices
	events   int         // entries, blocks and segments of all devices
}

// pyDevice is a device's entries so far.
type pyDevice struct {
	AllocBuilder
	streams map[uint64]uint32 // numbers of streams
	on      []uint32          // by chunk of the entries, its stream
	entries int
	held    int64 // bytes in segments, from the start's on
	most    int64 // the greatest of held, at least 0
	least   int64 // the least, at most 0
}

// block counts a block or a segment.
func (p *pyDevices) block() error {
	if p.events++; p.events > input.MaxEvents {
		return fmt.Errorf("more than %d entries, blocks and segments", input.MaxEvents)
	}
	return nil
}

// read takes the entries of the next device from next, which is called with their
// numbers. A device that recorded nothing is left out.
func (p *pyDevices) read(ctx context.Context, next func(n int) (e pyEntry, line int, more bool, err error)) error {
	b := &pyDevice{}
	b.beganLate()
	device := len(p.devices)
	p.devices = append(p.devices, b)
	var t0 int64
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, line, more, err := next(n)
		if !more && err == nil {
			b.entries = n
			return nil
		}
		if n == 0 {
			t0 = e.TimeUS
		}
		if err == nil {
			err = p.block()
		}
		if err == nil {
			err = b.pyEntry(e, t0, line)
		}
		if err != nil {
			return fmt.Errorf("device %d, entry %d: %w", device, n, err)
		}
	}
}

// traces are the traces read; the only one has the file's name.
func (p *pyDevices) traces() (out []*Allocs, err error) {
	ends := make([]int64, len(p.devices)) // held at the end; 0 where no segment is told
	for i, s := range p.segments {
		if s.Device < 0 || s.Device >= len(p.devices) || p.devices[s.Device].entries == 0 {
			continue // it has no trace
		}
		if s.Total > uint64(math.MaxInt64-ends[s.Device]) {
			return nil, fmt.Errorf("segment %d: segments of more than 2^63 bytes", i)
		}
		ends[s.Device] += int64(s.Total)
		if err := p.devices[s.Device].livedIn(s); err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
	}
	for i, d := range p.devices {
		if d.entries == 0 {
			continue
		}
		// Of what was held before the first entry, the end tells; else only what was given up.
		start := max(ends[i]-d.held, -d.least)
		t := d.Build(fmt.Sprintf("%s#%d", p.file, i), FormatPyTorch)
		t.Streams = d.streamsOf(t)
		if start <= math.MaxInt64-d.most {
			t.Held = uint64(start + d.most)
		}
		out = append(out, t)
	}
	if len(out) == 1 {
		out[0].Name = p.file
	}
	return out, nil
}

// livedIn takes in the active blocks of a segment that no entry was about.
func (b *pyDevice) livedIn(s pySegment) error {
	next := s.Address
	for _, x := range s.Blocks {
		at := next
		if x.Address != nil {
			at = *x.Address
		}
		next = at + x.Size
		_, known := b.seen[at]
		if size := cmp.Or(x.Requested, x.Size); !known && size > 0 && strings.HasPrefix(x.State, "active") {
			if err := b.lived(at, size, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// hold counts what the allocator took from the device, or gave back.
func (b *pyDevice) hold(bytes int64) error {
	if sum := b.held + bytes; (sum > b.held) != (bytes > 0) {
		return fmt.Errorf("segments of more than 2^63 bytes")
	}
	b.held += bytes
	b.most, b.least = max(b.most, b.held), min(b.least, b.held)
	return nil
}

// pyEntry adds an entry of a trace that begins at t0.
func (b *pyDevice) pyEntry(e pyEntry, t0 int64, line int) error {
	odd, at := &b.t.Oddities, e.TimeUS-t0
	if (at < 0) != (e.TimeUS < t0) {
		return fmt.Errorf("time_us %d and %d are more than 63 bits apart", t0, e.TimeUS)
	}
	switch e.Action {
	case "alloc", "free_completed":
		if e.Addr == nil {
			return fmt.Errorf("%s without addr", e.Action)
		}
	case "segment_alloc", "segment_map", "segment_free", "segment_unmap":
		bytes := int64(e.Size)
		if bytes <= 0 {
			return fmt.Errorf("%s of %d bytes", e.Action, e.Size)
		}
		if e.Action == "segment_free" || e.Action == "segment_unmap" {
			bytes = -bytes
		}
		return b.hold(bytes)
	case "oom":
		odd.note(&odd.FailedAllocs, line, "allocation of %d bytes had failed", e.Size)
		return nil
	case "":
		return errors.New("an entry without action")
	default:
		return nil
	}
	if e.Action == "free_completed" {
		return b.recordedFree(*e.Addr, e.Size, at, line)
	}
	if err := b.recorded(*e.Addr, fmt.Sprintf("%#x", *e.Addr), e.Size, at, line); err != nil {
		return err
	}
	b.noteStream(e.Stream)
	return nil
}

// noteStream says on which stream the last allocation was, if it was one.
func (b *pyDevice) noteStream(stream uint64) {
	if len(b.on) == b.t.Chunks {
		return // it had no byte
	}
	if b.streams == nil {
		b.streams = make(map[uint64]uint32)
	}
	if _, known := b.streams[stream]; !known {
		b.streams[stream] = uint32(len(b.streams))
	}
	b.on = append(b.on, b.streams[stream])
}

// streamsOf is Allocs.Streams, with what lived before the recording on the first.
func (b *pyDevice) streamsOf(t *Allocs) []uint32 {
	if len(b.streams) < 2 {
		return nil
	}
	return append(make([]uint32, t.LivedBefore), b.on...)
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
