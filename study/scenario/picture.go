package scenario

import (
	"errors"
	"fmt"
	"io"
	"time"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/page"
)

// The picture of a run: its records, with the rows of its JSON.

// WriteTimeline writes the run as Perfetto-readable JSON. It fails as Picture does, and with w's errors.
func (r *Result) WriteTimeline(w io.Writer) error {
	run, err := r.Picture()
	if err != nil {
		return fmt.Errorf("timeline of %s: %w", r.Scenario, err)
	}
	return page.WriteTimeline(w, run)
}

// WritePage writes the run as one HTML file. It fails as Picture does, and with w's errors.
func (r *Result) WritePage(w io.Writer) error {
	run, err := r.Picture()
	if err != nil {
		return fmt.Errorf("page of %s: %w", r.Scenario, err)
	}
	return page.Write(w, r.Scenario, run)
}

// Picture is the run as pages and timelines draw it. It fails where the run did not start, and
// where RunOptions.Timeline did not ask for it.
func (r *Result) Picture() (*page.Run, error) {
	if r.rec == nil {
		return nil, fmt.Errorf("the run did not start: %s", r.Error)
	}
	if !r.rec.waits {
		return nil, errors.New("the run was not to keep what it takes (RunOptions.Timeline)")
	}
	p := r.newPicture()
	for i, c := range r.records {
		if c != nil {
			p.releases(c.ID)
			p.command(i, c)
		}
	}
	p.spans()
	p.path()
	p.host()
	p.figures()
	return p.Run(), nil
}

// picture is the state of drawing a run.
type picture struct {
	*page.Builder
	r    *Result
	gone []released // not told yet
}

func (r *Result) newPicture() *picture {
	names, capacity := []string{"host"}, []uint64{0}
	for _, d := range r.Devices {
		names, capacity = append(names, d.Name), append(capacity, d.Bytes)
	}
	p := &picture{page.NewBuilder(r.Scenario, r.Clock, names, capacity, r.store), r, r.rec.gone}
	of := make(map[mem.BufferID]string)
	for i, id := range r.ids {
		of[id] = r.s.Buffers[i].Name
	}
	for i := range r.rec.buffers {
		b := &r.rec.buffers[i]
		name := of[b.Buffer]
		if name == "" {
			if name = b.Name; name == "" {
				name = fmt.Sprintf("buffer %d", b.Buffer)
			}
		}
		p.Buffer(b.Buffer, name, b.Size, b.Version != 0)
	}
	return p
}

// releases tells of the buffers that were released before a command.
func (p *picture) releases(id uint64) {
	for len(p.gone) > 0 && p.gone[0].before <= id {
		p.Released(p.gone[0].id)
		p.gone = p.gone[1:]
	}
}

// command tells of command i, and of all that was done for it.
func (p *picture) command(i int, c *record) {
	r, out := p.r, &p.r.Commands[i]
	t := page.Told{Number: out.Number, Words: page.Words{Name: fmt.Sprintf("#%d %s", out.Number, out.Text), Row: out, Index: i}}
	for j, n := range out.Evictions {
		e := &r.Evictions[n]
		t.Evictions = append(t.Evictions, page.Words{Name: evictionText(e) + " from " + e.From, Row: e, Index: n})
		backs := make([]page.Words, len(c.Evictions[j].Backs))
		for k := range backs {
			backs[k] = p.copied(e.Copies[k])
			p.end(c.Evictions[j].Backs[k].Point)
		}
		t.Backs = append(t.Backs, backs)
	}
	t.Copies = make([]page.Words, len(c.Steps))
	for j, at := 0, 0; j < len(c.Steps); j++ {
		if at < len(out.Copies) && r.Copies[out.Copies[at]].step.Point == c.Steps[j].Point {
			t.Copies[j] = p.copied(out.Copies[at])
			at++
		}
		p.end(c.Steps[j].Point)
	}
	for j := range c.Regrows {
		p.end(c.Regrows[j].Point)
	}
	p.end(c.Point)
	p.Command(&trace.CommandRecord{
		ID: c.ID, Queue: out.Queue, Memory: c.Memory, Op: c.Op, Accesses: c.Accesses, Evictions: c.Evictions, Blocks: c.Blocks,
		Regrows: c.Regrows, Steps: c.Steps, Waits: c.Waits, Point: c.Point, Enqueued: c.Enqueued, Done: c.Done,
	}, t)
}

// copied names copy n.
func (p *picture) copied(n int) page.Words {
	cp := &p.r.Copies[n]
	return page.Words{Name: fmt.Sprintf("%s of %s: %s → %s", sizeText(cp.Bytes), cp.Buffer, cp.From, cp.To), Row: cp, Index: n}
}

// end tells how a point ended, if it has.
func (p *picture) end(at mem.Point) {
	if at.IsZero() {
		return
	}
	p.r.rec.mu.Lock()
	e, ok := p.r.rec.endOf(at)
	p.r.rec.mu.Unlock()
	if !ok {
		return
	}
	end := page.End{Started: e.Started, Ended: e.Ended}
	if e.Err != nil {
		end.Failed = e.Err.Error()
	}
	p.End(at, end)
}

// spans tells which engines and links a machine had for what.
func (p *picture) spans() {
	if p.r.Model == nil {
		return
	}
	m := p.r.Model
	for i := range m.spans {
		s := &m.spans[i]
		at := p.Event(s.Point)
		if at < 0 {
			if len(s.Engines) == 0 && len(s.Path) == 0 {
				continue
			}
			x := m.meaning(s)
			at = p.Add(page.Copies, "legs", page.Event{
				Kind: page.Leg, Number: x.command, Queued: s.Queued, Start: s.Started, End: s.Ended, Buffer: -1, From: int32(s.From), To: int32(s.To), Bytes: s.Bytes, Name: x.what,
			})
		}
		item := page.Item{Event: at, From: s.Started, To: s.Ended, Busy: s.Ended - s.Started, Bytes: s.Bytes}
		for k, e := range s.Engines {
			if e >= 0 && !containsBefore(s.Engines, k) {
				p.Item(page.Engines, m.engines[e], s.On, 0, item)
			}
		}
		for _, c := range s.Path {
			p.Item(page.Links, m.channels[c].name, int(c), m.channels[c].bandwidth, item)
		}
		if s.HeldTo > s.HeldFrom {
			p.Item(page.Engines, m.engines[s.Thread], 0, 0, page.Item{Event: at, From: s.HeldFrom, To: s.HeldTo, Busy: s.HeldTo - s.HeldFrom})
		}
	}
}

// containsBefore reports whether the k-th is there before.
func containsBefore(list []int32, k int) bool {
	for _, x := range list[:k] {
		if x == list[k] {
			return true
		}
	}
	return false
}

// path tells of the critical path.
func (p *picture) path() {
	path := p.r.path()
	if path == nil {
		p.Note("No critical path: the run was on no machine and no real device, or its commands did not all end.")
		return
	}
	for i := range path.Path {
		x := &path.Path[i]
		part := page.Part{From: int64(x.From), To: int64(x.To), Event: -1, Reason: x.Reason, What: x.What, After: x.After, Shared: x.Shared}
		if s := path.parts[i].Span; s != nil {
			part.Event = p.Event(s.Point)
		}
		p.Part(part)
	}
}

// host tells what the host waited for, and had mapped: from the end of a map to the start of its unmap.
func (p *picture) host() {
	r := p.r
	for _, w := range r.slept {
		if at := p.Event(w.point); at >= 0 && w.to > w.from {
			p.Item(page.Host, "waits for", 0, 0, page.Item{Event: at, From: w.from, To: w.to, Busy: w.to - w.from})
		}
	}
	for i := range r.s.Mappings {
		m := &r.s.Mappings[i]
		if m.Unmap >= len(r.records) || r.records[m.Map] == nil || r.records[m.Unmap] == nil {
			continue
		}
		from, to := r.rec.ended(r.records[m.Map].Point), r.rec.ended(r.records[m.Unmap].Point)
		if from.Ended == 0 || to.Ended == 0 {
			continue
		}
		p.Add(page.Host, "mapped", page.Event{
			Kind: page.Mapped, Number: m.Map + 1, Queued: from.Ended, Start: from.Ended, End: max(from.Ended, to.Started), Buffer: -1, From: -1,
			Name: fmt.Sprintf("%s of %s", m.Name, r.s.placeText(m.Place, m.Place.Range)),
			Row:  map[string]any{"for": flagText(uint64(m.Flags), mapFlags), "map": m.Map + 1, "unmap": m.Unmap + 1},
		})
	}
}

// figures tells the totals.
func (p *picture) figures() {
	r := p.r
	p.Figure("moved", mem.FormatBytes(r.BytesMoved))
	p.Figure("lower bound", mem.FormatBytes(r.BytesLowerBound))
	p.Figure("copies", fmt.Sprint(len(r.Copies)))
	p.Figure("evictions", fmt.Sprint(len(r.Evictions)))
	if r.Error != "" {
		p.Note("The run was not finished: " + r.Error)
	}
	if r.Model != nil && len(r.Model.OneMemory) > 0 {
		p.Note("What a device of one host left in the host's memory and one of another took from there went no way between both: " + fmt.Sprint(r.Model.OneMemory))
	}
}

// Elapsed is the time from when the first command was enqueued until the last one had
// ended, by the context's clock.
func (r *Result) Elapsed() time.Duration {
	var first, last int64
	for _, c := range r.records {
		if c == nil {
			continue
		}
		if first == 0 || c.Enqueued < first {
			first = c.Enqueued
		}
		last = max(last, r.rec.ended(c.Point).Ended)
	}
	return time.Duration(max(last-first, 0))
}
