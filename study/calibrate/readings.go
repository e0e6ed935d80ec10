package calibrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Readings are all that was measured: what Fit makes a machine of, here or elsewhere, now or by a later
// version.
type Readings struct {
	Head    []string           `json:"head"`  // lines of comment at the machine's head
	Quick   bool               `json:"quick"` // fewer sizes
	Host    devices.Info       `json:"host"`
	Groups  []group            `json:"groups"`
	Pairs   []pair             `json:"pairs"`
	Staged  staging            `json:"staged,omitzero"`
	Told    told               `json:"told"`
	Shapes  []reading          `json:"shapes"`
	Tables  map[string][]table `json:"tables"` // by group
	Missing []string           `json:"missing,omitempty"`
}

// reading is what a shape was measured to take: each slope, of a unit, in nanoseconds.
type reading struct {
	Shape  string    `json:"shape"`
	Slopes []float64 `json:"slopes_ns"`
}

// ParseReadings reads what was written as JSON.
func ParseReadings(file string, data []byte) (*Readings, error) {
	var r Readings
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: want readings of godwit calibrate: %w", file, err)
	}
	return &r, r.check(file)
}

// check refuses what Measure cannot have written.
func (r *Readings) check(file string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: readings: %s: %w", file, fmt.Sprintf(format, args...), mem.ErrInvalidValue)
	}
	n := 0
	for _, g := range r.Groups {
		for _, d := range g.Devs {
			if d != n {
				return wrong("device %d of %s: want %d", d, g.Name, n)
			}
			n++
		}
		if len(g.Devs) == 0 || g.Name == "" {
			return wrong("group %q has %d devices: want a name, and at least one", g.Name, len(g.Devs))
		}
	}
	if n == 0 || len(r.Told.Steps) != n {
		return wrong("%d devices, and %d of them compute: want as many, and at least one", n, len(r.Told.Steps))
	}
	for _, p := range r.Pairs {
		if min(p.A, p.B, p.From, p.To) < 0 || max(p.A, p.B) >= len(r.Groups) || max(p.From, p.To) >= n {
			return wrong("a pair of groups %d and %d, devices %d and %d, of %d and %d", p.A, p.B, p.From, p.To, len(r.Groups), n)
		}
	}
	for group, tables := range r.Tables {
		for _, t := range tables {
			if len(t.Sizes) != len(t.Times) {
				return wrong("%s on %s: %d sizes and %d times", t.Kernel, group, len(t.Sizes), len(t.Times))
			}
		}
	}
	return nil
}

// site is what there is to measure, as it was found.
func (r *Readings) site() *site {
	return &site{host: r.Host, groups: r.Groups, pairs: r.Pairs, staged: r.Staged, await: make(map[string]bool)}
}

// measuring is the state of Measure.
type measuring struct {
	Options
	*Readings
	bench    *bench
	until    time.Time // it ends
	done, of int
}

func (m *measuring) say(what string) {
	if m.Progress != nil {
		m.Progress(what, m.done, m.of)
	}
	m.done++
}

func (m *measuring) miss(name string, err error) {
	m.Missing = append(m.Missing, name+": "+oneLine(err.Error()))
}

// Measure runs all shapes on the devices. It has readings also where shapes have failed, which are said then;
// err is why there are none.
func Measure(ctx context.Context, o Options) (_ *Readings, err error) {
	m := &measuring{Options: o, Readings: &Readings{Head: o.Head, Quick: o.Quick, Tables: make(map[string][]table)}}
	if m.bench, err = openBench(ctx, o.Runtime); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.bench.close()) }()
	if err := m.bench.learn(); err != nil {
		return nil, err
	}
	if !o.Once {
		m.bench.memory = bytes.Repeat([]byte{1}, 64<<20) // written, since pages that nobody has written are one
	}
	s := look(m.bench)
	m.Host, m.Groups, m.Pairs, m.Staged, m.Told = s.host, s.groups, s.pairs, s.staged, *m.bench.told
	shapes, tables := s.shapes(o.Quick), s.kernels(o.Quick)
	m.of = len(shapes) + len(tables)
	m.until = time.Now().Add(o.Time * 3 / 4)
	for i, x := range shapes {
		m.say(x.name)
		slopes, err := m.bench.slopes(x, m.again(len(shapes)-i))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			m.miss(x.name, err)
			continue
		}
		m.Shapes = append(m.Shapes, reading{x.name, slopes})
	}
	m.until = time.Now().Add(o.Time / 4)
	for i := range tables {
		t := &tables[i]
		m.say(t.name())
		if err := m.table(t, len(tables)-i); err != nil {
			m.miss(t.name(), err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(t.Sizes) > 0 {
			m.Tables[t.group] = append(m.Tables[t.group], t.table)
		}
	}
	return m.Readings, nil
}

// most is the most slopes that a figure is the median of, least the fewest where there is no time.
const least, most = 3, 31

// again shares the time that is left among so many shapes. How many slopes there are does not depend on what they say,
// unless longer runs took less time, on a computer that does something else besides: then there are up to half of
// the most, though there is no time left for them.
func (m *measuring) again(left int) func(all []float64) bool {
	end := time.Now().Add(time.Until(m.until) / time.Duration(max(left, 1)))
	return func(all []float64) bool {
		n := len(all)
		if m.Once || n >= most {
			return false
		}
		now := time.Now()
		return now.Before(end) || n < least && now.Before(m.until) || n < most/2 && figureOf(all).Value <= 0
	}
}
