// Package predict holds modelled time against measured time: scenarios that run on this
// computer's devices and on a machine, one after the other, with what each took, where it went,
// and where both part.
package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/devices"
	"godwit/internal/figures"
	"godwit/mem"
	"godwit/study/compare"
	"godwit/study/machine"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// Config says how both sides of a case run. It is closed after the last.
type Config struct {
	Driver  string // opens all devices; "" leaves them to the scenarios
	Machine func(ctx context.Context, opt machine.Options) (*machine.Machine, error)
	Warm    int // times before those that count
	Repeat  int // times that count; at least 1
	// Slope, where it names a parameter, has times be those of one more of it: the difference of
	// two runs, so that what happens once does not count.
	Slope Slope
	// Earlier, where not nil, has cases measured in another run, whose measured sides count: nothing is
	// measured.
	Earlier []Case

	held []devices.Device // see hold
}

// Slope is a parameter with the two values between which its slope is taken.
type Slope struct {
	Name     string
	From, To int64
}

// ParseSlope reads NAME=FROM,TO.
func ParseSlope(text string) (s Slope, err error) {
	name, values, _ := strings.Cut(text, "=")
	from, to, ok := strings.Cut(values, ",")
	if s.Name = name; ok {
		s.From, err = strconv.ParseInt(from, 10, 64)
		if err == nil {
			s.To, err = strconv.ParseInt(to, 10, 64)
		}
	}
	if !ok || name == "" || err != nil || s.From >= s.To {
		return s, fmt.Errorf("%q: want NAME=FROM,TO with two whole numbers, as in rounds=4,12: %w", text, mem.ErrInvalidValue)
	}
	return s, nil
}

// Case is a scenario with values of its parameters, measured and modelled. Times are
// nanoseconds, of the commands or of one more of the slope's parameter. An error is the modelled
// time over the measured one, less 1.
type Case struct {
	Kind     string  `json:"kind" show:"kind"`
	Scenario string  `json:"scenario" show:"scenario"`
	Settings string  `json:"settings" show:"with"`
	Largest  uint64  `json:"largest_buffer_bytes"`
	Measured int64   `json:"measured_ns" show:"measured|span"` // the median
	Each     []int64 `json:"each_ns"`                          // measured, in the order of the runs
	Spread   float64 `json:"spread"`                           // of the measured: from the least to the most, over the median
	Modelled int64   `json:"modelled_ns" show:"modelled|span"`
	Error    float64 `json:"error"`
	// Bandwidth is what bytes over bandwidth come to, on the busiest of the machine's links and memories.
	Bandwidth      int64   `json:"bandwidth_ns" show:"bytes over bandwidth|span"`
	BandwidthError float64 `json:"bandwidth_error"`

	// Reasons and steps are of a run more, which takes times and so takes longer: of a slope of its first value.
	MeasuredReasons *scenario.Reasons `json:"measured_by_reason,omitempty"`
	ModelledReasons *scenario.Reasons `json:"modelled_by_reason,omitempty"`
	MeasuredSteps   []scenario.Step   `json:"measured_steps,omitempty"`
	ModelledSteps   []scenario.Step   `json:"modelled_steps,omitempty"`

	Parts  string `json:"parts,omitempty"`  // where both part first: another plan, or else another time
	Failed string `json:"failed,omitempty"` // why there are no times

	settings []sweep.Setting
}

// Check reads a scenario and the machine at a point, so that what is at fault with them is known before
// anything is measured.
func (c *Config) Check(ctx context.Context, of *sweep.Config, settings []sweep.Setting) error {
	if slices.ContainsFunc(settings, func(s sweep.Setting) bool { return s.Axis.Kind == sweep.Parameter && s.Axis.Name == c.Slope.Name }) {
		return fmt.Errorf("%s: the slope is to be over %s, which is set: %w", sweep.Label(settings), c.Slope.Name, mem.ErrInvalidValue)
	}
	for _, p := range c.points(settings) {
		s, err := c.scenario(ctx, of, p, c.Driver, c.Warm+max(c.Repeat, 1))
		if err != nil {
			return err
		}
		if _, err := c.Machine(ctx, sweep.MachineOptions(s, p)); err != nil {
			return err
		}
	}
	return nil
}

// Run measures and models a scenario at a point. What goes wrong there is the case's; the error is
// that of ctx. What was read is not verified: that is for a run.
func (c *Config) Run(ctx context.Context, of *sweep.Config, settings []sweep.Setting) (out Case, err error) {
	out = Case{Settings: sweep.Label(settings), settings: settings}
	if err = c.run(ctx, of, &out); err == nil || ctx.Err() != nil {
		return out, err
	}
	out.Failed, _, _ = strings.Cut(err.Error(), "\n")
	return out, nil
}

// points are where a case runs: one, or the two of its slope.
func (c *Config) points(settings []sweep.Setting) (out [][]sweep.Setting) {
	if c.Slope.Name == "" {
		return [][]sweep.Setting{settings}
	}
	axis := &sweep.Axis{Kind: sweep.Parameter, Name: c.Slope.Name}
	for _, n := range []int64{c.Slope.From, c.Slope.To} {
		out = append(out, append(slices.Clip(settings), sweep.Setting{Axis: axis, Value: strconv.FormatInt(n, 10)}))
	}
	return out
}

// run measures, and then models: what was measured is kept where the model fails.
func (c *Config) run(ctx context.Context, of *sweep.Config, k *Case) error {
	points := c.points(k.settings)
	err := c.measure(ctx, of, k, points)
	for range tries - 1 {
		if errors.Is(err, errScattered) && c.Earlier == nil {
			err = c.measure(ctx, of, k, points)
		}
	}
	if err != nil {
		return err
	}
	var modelled []*scenario.Result
	for i, p := range points {
		s, err := c.scenario(ctx, of, p, "", c.Warm+max(c.Repeat, 1)) // one may differ from the next, by what links have carried before
		if err != nil {
			return err
		}
		m, err := c.Machine(ctx, sweep.MachineOptions(s, p))
		if err != nil {
			return err
		}
		model, err := finished(scenario.Run(ctx, s, scenario.RunOptions{Machine: m, Plain: i > 0, Stamps: s.Stampable(), Unverified: true}))
		if err != nil {
			return fmt.Errorf("modelled: %w", err)
		}
		modelled = append(modelled, model)
	}
	k.model(c, modelled)
	return nil
}

// tries is how often a slope is measured that is none, since the shorter run took longer on a computer that does more.
const tries = 3

var errScattered = errors.New("the measured times differ by more than what is measured")

// measure measures a case, or takes what was measured.
func (c *Config) measure(ctx context.Context, of *sweep.Config, k *Case, points [][]sweep.Setting) error {
	var measured []*scenario.Result
	for i, p := range points {
		s, err := c.scenario(ctx, of, p, c.Driver, c.Warm+max(c.Repeat, 1))
		if err != nil {
			return err
		}
		k.Kind, k.Scenario, k.Largest = s.Kind, s.Name, s.LargestBuffer()
		if c.Earlier != nil {
			break
		}
		if err := c.hold(ctx, s); err != nil {
			return err
		}
		took, err := finished(scenario.Run(ctx, s, scenario.RunOptions{Plain: i > 0, Unverified: true}))
		if err != nil {
			return fmt.Errorf("measured: %w", err)
		}
		measured = append(measured, took)
	}
	return k.measured(c, measured)
}

// scenario is that of a point, whose commands run so many times.
func (c *Config) scenario(ctx context.Context, of *sweep.Config, p []sweep.Setting, driver string, times int) (*scenario.Scenario, error) {
	on := *of
	on.Base.Driver, on.Base.Times, on.Base.Warm = driver, times, c.Warm
	return on.Scenario(ctx, p)
}

// finished fails where a run was not as expected.
func finished(r *scenario.Result, err error) (*scenario.Result, error) {
	if err == nil && !r.OK() {
		err = fmt.Errorf("not as expected: %s", strings.Join(r.Mismatches, "; "))
	}
	return r, err
}

// times are what runs took, each time.
func (c *Config) times(of []*scenario.Result) (out []int64) {
	for i, n := range of[len(of)-1].Took().Each {
		t := int64(n)
		if len(of) > 1 {
			t = (t - int64(of[0].Took().Each[i])) / (c.Slope.To - c.Slope.From)
		}
		out = append(out, t)
	}
	return out
}

// measured has what was measured, or was earlier.
func (k *Case) measured(c *Config, of []*scenario.Result) error {
	if c.Earlier == nil {
		k.Each, k.MeasuredReasons, k.MeasuredSteps = c.times(of), of[0].Reasons(), of[0].Steps()
	} else {
		i := slices.IndexFunc(c.Earlier, func(e Case) bool { return e.Scenario == k.Scenario && e.Settings == k.Settings })
		if i < 0 {
			return errors.New("it was not measured")
		}
		e := &c.Earlier[i]
		if len(e.Each) == 0 {
			return errors.New(cmp.Or(e.Failed, "it was not measured"))
		}
		k.Each, k.MeasuredReasons, k.MeasuredSteps = e.Each, e.MeasuredReasons, e.MeasuredSteps
	}
	sorted := slices.Sorted(slices.Values(k.Each))
	least, most := sorted[0], sorted[len(sorted)-1]
	k.Measured = int64(figures.Quantile(numbers(sorted), 0.5))
	if k.Measured <= 0 {
		return fmt.Errorf("%w: %d ns to %d ns", errScattered, least, most)
	}
	k.Spread = float64(most-least) / float64(k.Measured)
	return nil
}

func numbers(of []int64) (out []float64) {
	for _, n := range of {
		out = append(out, float64(n))
	}
	return out
}

// model sets what was modelled beside it.
func (k *Case) model(c *Config, of []*scenario.Result) {
	k.Modelled = int64(figures.Quantile(numbers(c.times(of)), 0.5))
	k.Bandwidth = int64(of[len(of)-1].BytesOverBandwidth())
	if len(of) > 1 {
		k.Bandwidth = (k.Bandwidth - int64(of[0].BytesOverBandwidth())) / (c.Slope.To - c.Slope.From)
	}
	k.Error = float64(k.Modelled)/float64(k.Measured) - 1
	k.BandwidthError = float64(k.Bandwidth)/float64(k.Measured) - 1
	k.ModelledReasons, k.ModelledSteps = of[0].Reasons(), of[0].Steps()
	k.Parts = compare.Parting("measured", k.MeasuredSteps, "modelled", k.ModelledSteps)
}

// hold keeps a device open between runs of several, which then find the library, its contexts and its links
// there: on GPUs that takes seconds. A run of one device goes alone, since a driver may treat several otherwise.
func (c *Config) hold(ctx context.Context, s *scenario.Scenario) (err error) {
	switch several := len(s.Devices) > 1; {
	case c.Driver != "opencl" || several == (len(c.held) > 0):
		return nil
	case !several:
		return c.Close()
	}
	c.held, err = devices.Open(ctx, c.Driver, devices.Config{Params: map[string]string{"count": "1"}})
	return err
}

// Close closes what is open between runs.
func (c *Config) Close() error {
	var errs []error
	for _, d := range c.held {
		errs = append(errs, d.Close())
	}
	c.held = nil
	return errors.Join(errs...)
}

// Summary is what many cases come to.
type Summary struct {
	Of        string  `json:"of" show:"of"`
	Cases     int     `json:"cases" show:"cases|count"`
	Median    float64 `json:"median_error"` // of the size of the errors
	P90       float64 `json:"p90_error"`
	Worst     float64 `json:"worst_error"`
	Spread    float64 `json:"median_spread"`
	Bandwidth float64 `json:"bandwidth_median_error"` // of bytes over bandwidth
	Failed    int     `json:"failed,omitempty" show:"failed|count"`
}

// smallBytes is below which a case counts as small: its largest buffer.
const smallBytes = 256 << 10

// Summarize adds cases up: all, the small ones, and by kind in the order in which kinds come.
func Summarize(cases []Case) (out []Summary) {
	add := func(of string, counts func(*Case) bool) {
		s := Summary{Of: of}
		var errs, plain, spread []float64
		for i := range cases {
			switch k := &cases[i]; {
			case !counts(k):
			case k.Failed != "":
				s.Failed++
			default:
				errs, plain, spread = append(errs, math.Abs(k.Error)), append(plain, math.Abs(k.BandwidthError)), append(spread, k.Spread)
			}
		}
		if s.Cases = len(errs); s.Cases > 0 {
			s.Median, s.P90, s.Worst = figures.Quantile(errs, 0.5), figures.Quantile(errs, 0.9), figures.Quantile(errs, 1)
			s.Spread, s.Bandwidth = figures.Quantile(spread, 0.5), figures.Quantile(plain, 0.5)
		}
		if s.Cases+s.Failed > 0 {
			out = append(out, s)
		}
	}
	add("all", func(*Case) bool { return true })
	add("buffers below 256 KiB", func(k *Case) bool { return k.Largest < smallBytes })
	var kinds []string
	for i := range cases {
		if kind := cases[i].Kind; kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
			add(kind, func(k *Case) bool { return k.Kind == kind })
		}
	}
	return out
}

// Variant is the parameter whose values are alternatives: cases that differ in nothing else are
// pairs, of which a model is to say the faster one.
const Variant = "variant"

// Pairs counts the pairs whose measured times differ by a tenth of the shorter one or more, and how
// many of these the modelled times put in the same order.
type Pairs struct {
	Differ int `json:"differ"`
	Right  int `json:"right"`
}

// CountPairs counts pairs.
func CountPairs(cases []Case) (p Pairs) {
	for i := range cases {
		for j := range cases[:i] {
			a, b := &cases[j], &cases[i]
			if a.Failed+b.Failed != "" || !variants(a, b) || 10*max(a.Measured, b.Measured) < 11*min(a.Measured, b.Measured) {
				continue
			}
			p.Differ++
			if cmp.Compare(a.Measured, b.Measured) == cmp.Compare(a.Modelled, b.Modelled) {
				p.Right++
			}
		}
	}
	return p
}

// variants reports whether two cases are alternatives.
func variants(a, b *Case) bool {
	if a.Scenario != b.Scenario || len(a.settings) != len(b.settings) {
		return false
	}
	differ := false
	for i, s := range a.settings {
		switch t := b.settings[i]; {
		case s.Axis.Name != t.Axis.Name || s.Axis.Name != Variant && s.Value != t.Value:
			return false
		case s.Value != t.Value:
			differ = true
		}
	}
	return differ
}

// Worst are the n cases with the largest errors, the largest first.
func Worst(cases []Case, n int) (out []Case) {
	for _, k := range cases {
		if k.Failed == "" {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b Case) int { return cmp.Compare(math.Abs(b.Error), math.Abs(a.Error)) })
	return out[:min(n, len(out))]
}

// Why says in words where the error comes from: the reason that differs most, and where both part.
func (k *Case) Why() string {
	var out []string
	if k.MeasuredReasons != nil && k.ModelledReasons != nil {
		worst, text := uint64(0), ""
		a, b := k.MeasuredReasons, k.ModelledReasons
		for _, r := range []struct {
			name string
			a, b uint64
		}{{"computing", a.Compute, b.Compute}, {"copies", a.Copy, b.Copy}, {"copies since memory was short", a.Memory, b.Memory}, {"the host", a.Host, b.Host}} {
			if d := max(r.a, r.b) - min(r.a, r.b); d > worst {
				worst, text = d, fmt.Sprintf("%s took %s of the run that took times, modelled %s", r.name, figures.Text("span", r.a), figures.Text("span", r.b))
			}
		}
		if text != "" {
			out = append(out, text)
		}
	}
	if k.Parts != "" {
		out = append(out, k.Parts)
	}
	return strings.Join(out, "; ")
}
