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

	"godwit/internal/figures"
	"godwit/mem"
	"godwit/study/compare"
	"godwit/study/machine"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// Config says how both sides of a case run.
type Config struct {
	Driver  string // opens all devices; "" leaves them to the scenarios
	Machine func(ctx context.Context, devices int) (*machine.Machine, error)
	Warm    int // times before those that count
	Repeat  int // times that count; at least 1
	// Slope, where it names a parameter, has times be those of one more of it: the difference of
	// two runs, so that what happens once does not count.
	Slope Slope
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
	Spread   float64 `json:"spread"`                           // of the measured: from the least to the most, over the median
	Modelled int64   `json:"modelled_ns" show:"modelled|span"`
	Error    float64 `json:"error"`
	// Bandwidth is what bytes over bandwidth come to, on the busiest of the machine's links and memories.
	Bandwidth      int64   `json:"bandwidth_ns" show:"bytes over bandwidth|span"`
	BandwidthError float64 `json:"bandwidth_error"`

	MeasuredReasons *scenario.Reasons `json:"measured_by_reason,omitempty"`
	ModelledReasons *scenario.Reasons `json:"modelled_by_reason,omitempty"`

	Parts  string `json:"parts,omitempty"`  // where both part first: another plan, or else another time
	Failed string `json:"failed,omitempty"` // why there are no times

	settings []sweep.Setting
}

// Run measures and models a scenario at a point. What goes wrong there is the case's; the error is
// that of ctx, or of a scenario that is at fault.
func (c *Config) Run(ctx context.Context, of *sweep.Config, settings []sweep.Setting) (out Case, err error) {
	out = Case{Settings: sweep.Label(settings), settings: settings}
	base := *of
	base.Base.Times, base.Base.Warm = c.Warm+max(c.Repeat, 1), c.Warm
	points := [][]sweep.Setting{settings}
	if c.Slope.Name != "" {
		points = nil
		axis := &sweep.Axis{Kind: sweep.Parameter, Name: c.Slope.Name}
		for _, n := range []int64{c.Slope.From, c.Slope.To} {
			points = append(points, append(slices.Clip(settings), sweep.Setting{Axis: axis, Value: strconv.FormatInt(n, 10)}))
		}
	}
	var measured, modelled []*scenario.Result
	for _, p := range points {
		took, model, err := c.both(ctx, &base, p, &out)
		if bad := (scenario.Errors)(nil); ctx.Err() != nil || errors.As(err, &bad) {
			return out, err
		}
		if err != nil {
			out.Failed, _, _ = strings.Cut(err.Error(), "\n")
			return out, nil
		}
		measured, modelled = append(measured, took), append(modelled, model)
	}
	out.compare(c, measured, modelled)
	return out, nil
}

// both runs a scenario on this computer and on the machine.
func (c *Config) both(ctx context.Context, of *sweep.Config, settings []sweep.Setting, out *Case) (took, model *scenario.Result, err error) {
	on := *of
	on.Base.Driver = c.Driver
	s, err := on.Scenario(ctx, settings)
	if err != nil {
		return nil, nil, err
	}
	out.Kind, out.Scenario, out.Largest = s.Kind, s.Name, s.LargestBuffer()
	if took, err = finished(scenario.Run(ctx, s, scenario.RunOptions{})); err != nil {
		return nil, nil, fmt.Errorf("measured: %w", err)
	}
	on = *of
	on.Base.Times = c.Warm + 1 // each is like the other
	if s, err = on.Scenario(ctx, settings); err != nil {
		return nil, nil, err
	}
	m, err := c.Machine(ctx, len(s.Devices))
	if err != nil {
		return nil, nil, err
	}
	if model, err = finished(scenario.Run(ctx, s, scenario.RunOptions{Machine: m, Stamps: s.Stampable()})); err != nil {
		return nil, nil, fmt.Errorf("modelled: %w", err)
	}
	return took, model, nil
}

// finished fails where a run was not as expected.
func finished(r *scenario.Result, err error) (*scenario.Result, error) {
	if err == nil && !r.OK() {
		err = fmt.Errorf("not as expected: %s", strings.Join(r.Mismatches, "; "))
	}
	return r, err
}

// compare sets both sides beside each other.
func (k *Case) compare(c *Config, measured, modelled []*scenario.Result) {
	times := func(of []*scenario.Result) []int64 {
		last := of[len(of)-1].Took().Each
		out := make([]int64, len(last))
		for i := range last {
			if out[i] = int64(last[i]); len(of) > 1 {
				out[i] = (out[i] - int64(of[0].Took().Each[i])) / (c.Slope.To - c.Slope.From)
			}
		}
		slices.Sort(out)
		return out
	}
	took, model := times(measured), times(modelled)
	n := len(took)
	k.Measured, k.Modelled = took[n/2], model[len(model)/2]
	k.Bandwidth = int64(modelled[len(modelled)-1].BytesOverBandwidth())
	if len(modelled) > 1 {
		k.Bandwidth = (k.Bandwidth - int64(modelled[0].BytesOverBandwidth())) / (c.Slope.To - c.Slope.From)
	}
	if k.Measured <= 0 {
		k.Failed = fmt.Sprintf("the measured times differ by more than what is measured: %d ns to %d ns", took[0], took[n-1])
		return
	}
	k.Spread = float64(took[n-1]-took[0]) / float64(k.Measured)
	k.Error = float64(k.Modelled)/float64(k.Measured) - 1
	k.BandwidthError = float64(k.Bandwidth)/float64(k.Measured) - 1
	last, as := measured[len(measured)-1], modelled[len(modelled)-1]
	k.MeasuredReasons, k.ModelledReasons = last.Reasons(), as.Reasons()
	k.Parts = compare.Parting("measured", last, "modelled", as)
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

// SmallBytes is below which a case counts as small: its largest buffer.
const SmallBytes = 256 << 10

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
			s.Median, s.P90, s.Worst = quantile(errs, 0.5), quantile(errs, 0.9), quantile(errs, 1)
			s.Spread, s.Bandwidth = quantile(spread, 0.5), quantile(plain, 0.5)
		}
		if s.Cases+s.Failed > 0 {
			out = append(out, s)
		}
	}
	add("all", func(*Case) bool { return true })
	add("buffers below 256 KiB", func(k *Case) bool { return k.Largest < SmallBytes })
	var kinds []string
	for i := range cases {
		if kind := cases[i].Kind; kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
			add(kind, func(k *Case) bool { return k.Kind == kind })
		}
	}
	return out
}

// quantile is the value that a share q of all does not exceed, between two neighbours in proportion.
func quantile(all []float64, q float64) float64 {
	slices.Sort(all)
	at := q * float64(len(all)-1)
	i := int(at)
	next := all[min(i+1, len(all)-1)]
	return all[i] + (at-float64(i))*(next-all[i])
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
