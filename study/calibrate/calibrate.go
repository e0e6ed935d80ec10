package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"godwit/devices/virtual"
	"godwit/internal/figures"
	"godwit/runtime"
	"godwit/study/machine"
)

// Options say what to measure, and how long.
type Options struct {
	Runtime  runtime.Options // of the context: its devices, which Measure closes, and where these are modelled their world
	Name     string          // of the machine
	Head     []string        // lines of comment at the file's head
	Quick    bool            // fewer sizes
	Time     time.Duration   // that measuring is to take; the fit takes a quarter more at most, and what it is at then
	Once     bool            // one slope each, since times are the same again, as in virtual time
	Progress func(what string, done, of int)
}

// Result is what came of it.
type Result struct {
	File    string   `json:"file"` // text of the machine's
	Values  []value  `json:"figures"`
	Shapes  []Shape  `json:"shapes"`
	Missing []string `json:"missing,omitempty"` // shapes that failed, and why
	Notes   []string `json:"notes,omitempty"`
}

// Shape is what one was measured to take, and what it takes on the machine: of a unit, in
// nanoseconds.
type Shape struct {
	Name string `json:"shape" show:"shape"`
	figure
	Modelled float64 `json:"modelled_ns" show:"modelled|span"`
	Off      float64 `json:"off_percent" show:"off by|%+.1f %%"` // modelled over measured, less 100
	Use      string  `json:"use" show:"used"`                    // read off, fitted, or held out: by no figure
}

const heldOut = "held out"

// calibration is the state of Fit.
type calibration struct {
	*Readings
	name     string
	once     bool
	time     time.Duration
	site     *site
	shapes   []*shape
	measured map[*shape]figure
	result   Result
}

// Fit makes a machine of readings. The result is there also where shapes have failed, which it then says;
// err is why there is none. Of the options it takes the name, the time and whether that counts.
func Fit(ctx context.Context, r *Readings, o Options) (*Result, error) {
	c := &calibration{Readings: r, name: o.Name, once: o.Once, time: o.Time, site: r.site(), measured: make(map[*shape]figure)}
	c.result.Missing = slices.Clone(r.Missing)
	c.shapes = c.site.shapes(r.Quick)
	for _, x := range r.Shapes {
		i := slices.IndexFunc(c.shapes, func(s *shape) bool { return s.name == x.Shape })
		if i >= 0 && len(x.Slopes) > 0 { // what another version has measured besides tells nothing
			c.measured[c.shapes[i]] = figureOf(x.Slopes)
		}
	}
	c.seen()
	if err := c.model(ctx); err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return &c.result, nil
}

// seen finds out which groups' writes of pageable memory wait for the host: kernels and writes by turns take more than half as long
// again as their enqueues.
func (c *calibration) seen() {
	of := make(map[string]float64)
	for s, f := range c.measured {
		of[s.name] = f.Value
	}
	for i := range c.site.groups {
		g := c.site.groups[i].Name
		if turns := of["kernel and write by turns on "+g]; turns > 0 {
			c.site.await[g] = turns > 1.5*(of["launches on "+g+" until enqueued"]+of["ups to "+g+" until enqueued"])/2
		}
	}
}

func (c *calibration) miss(name string, err error) {
	c.result.Missing = append(c.result.Missing, name+": "+oneLine(err.Error()))
}

// model finds the figures, and writes the file.
func (c *calibration) model(ctx context.Context) error {
	var fit, all []*shape
	for _, s := range c.shapes {
		f, ok := c.measured[s]
		switch {
		case !ok, f.Value == 0: // failed, or nothing to tell
		case s.reads != "", f.Value > 0:
			if all = append(all, s); s.reads == "" && !s.held {
				fit = append(fit, s)
			}
		default:
			c.miss(s.name, fmt.Errorf("longer runs took less time (%.0f ns a unit)", f.Value))
		}
	}
	if len(fit) == 0 {
		return fmt.Errorf("no shape could be measured: %s", strings.Join(c.result.Missing, "; "))
	}
	some, start := c.site.structures(), time.Now()
	spent := func(share float64) func() bool {
		return func() bool { return !c.once && time.Since(start) > time.Duration(share*float64(c.time/4)) }
	}
	least, st, best := math.Inf(1), (*structure)(nil), (*fitting)(nil)
	for i, x := range some {
		f := c.begin(x, fit)
		f.rounds = fewRounds
		f.over = spent(float64(i+1) / float64(len(some)+1))
		s, err := f.search(ctx)
		if err != nil {
			return err
		}
		if f.start = s.values; s.cost < least*0.98 { // simpler ones come first
			least, st, best = s.cost, x, f
		}
	}
	best.over = spent(1)
	found, err := best.solve(ctx)
	if err != nil {
		return err
	}
	c.result.Values = best.found(found)
	c.note("Of %d ways to share the work this fits best: %s.", len(some), st.name)
	return c.compare(ctx, st, all)
}

// compare says what the shapes take on the machine, and writes its file.
func (c *calibration) compare(ctx context.Context, st *structure, all []*shape) error {
	modelled, err := c.modelled(ctx, c.write(st), all, nil)
	if err != nil {
		return err
	}
	for i, s := range all {
		use := fitted
		switch {
		case s.reads != "":
			use = readOff
		case s.held:
			use = heldOut
		}
		f := c.measured[s]
		c.result.Shapes = append(c.result.Shapes, Shape{s.name, f, modelled[i], 100 * (modelled[i]/f.Value - 1), use})
	}
	c.noteOff(fitted)
	c.noteOff(heldOut)
	var out []string
	for _, v := range c.result.Values {
		if v.How == unsaid {
			out = append(out, v.Name)
		}
	}
	if len(out) > 0 {
		c.note("Left out, since no shape tells them from others: %s.", strings.Join(out, ", "))
	}
	c.result.File = c.write(st)
	_, err = machine.Parse(c.name+".yaml", []byte(c.result.File), machine.Options{})
	return err
}

func (c *calibration) note(format string, args ...any) {
	c.result.Notes = append(c.result.Notes, fmt.Sprintf(format, args...))
}

// write makes the file.
func (c *calibration) write(st *structure) string {
	return c.site.write(c.name, c.about(), append(slices.Clone(c.Head), c.assumed()...), st, c.result.Values, c.Tables)
}

// known are the figures, with those that are read off, and where the fit begins for others.
func (c *calibration) known(st *structure) []value {
	values := c.site.values(st)
	for i := range values {
		v := &values[i]
		for _, s := range c.shapes {
			if f, ok := c.measured[s]; ok && s.reads == v.Name {
				v.Time, v.Spread, v.How = max(f.Value, 0), f.Spread, readOff
			}
		}
		if told := false; v.How == "" {
			if v.Time, told = c.guess(v); v.line && !told {
				v.How, v.Time = unsaid, 0
			}
		}
	}
	return values
}

func (c *calibration) about() string {
	var what []string
	for _, g := range c.site.groups {
		what = append(what, fmt.Sprintf("%d x %s", len(g.Devs), oneLine(g.Info.Name)))
	}
	return "Measured by godwit calibrate: " + strings.Join(what, ", ")
}

// guess is where the fit of a figure begins, which is where it shows: what the shape takes that tells most of it, of several
// the last, which moves the most bytes; told is whether there is one.
func (c *calibration) guess(v *value) (out float64, told bool) {
	out = 1000.
	if v.rate {
		out = 10_000
	}
	for _, s := range c.shapes {
		if f := c.measured[s]; f.Value > 0 && !s.held && s.of != "" && strings.HasPrefix(v.Name+" ", s.of+" ") && (v.rate || s.bytes == 0) {
			out, told = f.Value/(float64(cmp.Or(s.bytes, 1<<20))/(1<<20)), true
		}
	}
	return out, told
}

// fitting is a fit under way: its problem's values are those of the figures that no shape reads off.
type fitting struct {
	problem
	values []value
	free   []int
}

// certain is the least relative uncertainty of a time: what a machine's few figures cannot say anyway.
const certain = 0.03

func (c *calibration) begin(st *structure, shapes []*shape) *fitting {
	f := &fitting{values: c.known(st)}
	for i := range f.values {
		if v := &f.values[i]; v.How == "" {
			f.free, f.start = append(f.free, i), append(f.start, v.Time)
		}
	}
	for _, s := range shapes {
		m := c.measured[s]
		f.measured = append(f.measured, m.Value)
		f.sigma = append(f.sigma, math.Hypot(certain, 1.86*m.Spread/m.Value/math.Sqrt(float64(m.Times)))) // of a median
	}
	f.predict = func(ctx context.Context, values []float64, of []bool) ([]float64, error) {
		return c.modelled(ctx, c.site.write(c.name, "", nil, st, f.with(values), nil), shapes, of)
	}
	return f
}

// with are the figures with values.
func (f *fitting) with(of []float64) []value {
	out := slices.Clone(f.values)
	for k, i := range f.free {
		if out[i].Time = of[k]; out[i].line {
			out[i].Time = max(of[k], shortest)
		}
	}
	return out
}

// found are the figures of a solution.
func (f *fitting) found(s solution) []value {
	out := f.with(s.values)
	for k, i := range f.free {
		v := &out[i]
		switch {
		case v.Time <= shortest && !v.line:
			v.How, v.Time = unsaid, 0
		case !(s.error[k] < untold):
			v.How = together
		default:
			v.How, v.Spread = fitted, v.Time*s.error[k]
		}
	}
	return out
}

// noteOff says how far the machine is off the shapes of a use.
func (c *calibration) noteOff(use string) {
	var off []float64
	for _, s := range c.result.Shapes {
		if s.Use == use {
			off = append(off, math.Abs(s.Off))
		}
	}
	if n := len(off); n > 0 {
		c.note("%d shapes %s: off by %.1f %% in the median, %.1f %% at most", n, use, figures.Quantile(off, 0.5), slices.Max(off))
	}
}

// modelled is what shapes take on a machine: those of which of says so, where it is not nil.
func (c *calibration) modelled(ctx context.Context, text string, shapes []*shape, of []bool) ([]float64, error) {
	m, err := machine.Parse(c.name+".yaml", []byte(text), machine.Options{})
	if err != nil {
		return nil, err
	}
	o, err := modelledBy(m)
	if err != nil {
		return nil, err
	}
	b, err := openBench(ctx, o)
	if err != nil {
		return nil, err
	}
	b.told = &c.Told
	out := make([]float64, len(shapes))
	for i, s := range shapes {
		if of != nil && !of[i] {
			continue
		}
		slopes, serr := b.slopes(s, func([]float64) bool { return false })
		if err = serr; err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			break
		}
		out[i] = slopes[0]
	}
	return out, errors.Join(err, b.close())
}

// modelledBy are the options of a context over a machine.
func modelledBy(m *machine.Machine) (runtime.Options, error) {
	w, err := virtual.New(m, virtual.Options{Exact: m.Exact(), Stamps: true})
	if err != nil {
		return runtime.Options{}, err
	}
	return runtime.Options{Devices: w.Devices(), OwnDevices: true, Host: w.Host(), Executor: w, Staging: m.Staging()}, nil
}

// assumed says in the file what was not measured.
func (c *calibration) assumed() (out []string) {
	out = append(out,
		"Assumed, not measured: kernels_at_once 1, copies {in: 1, out: 1}; kernels that are not listed cost their bytes",
		"(no rate is said); links of devices alike are alike, both ways; memory as the driver says it; that copies do not",
		"wait for kernels (copies_wait_for_kernels) nor share cores with them (cores), and that switches have no limit.")
	for _, m := range c.result.Missing {
		out = append(out, "Not measured: "+m)
	}
	return append(out, c.result.Notes...)
}
