// Package compare sets runs of scenarios side by side: their totals, and the first
// command at which they part. It knows runs by their results only.
package compare

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/internal/figures"
	"godwit/mem"
	"godwit/study/scenario"
)

// Variant is a run to be compared.
type Variant struct {
	Name      string              `json:"name"`
	ElapsedNS int64               `json:"elapsed_ns" show:"elapsed, on this computer|span"` // from the first command to the end of the last, on this computer; 0 in virtual time
	Took      *scenario.Makespans `json:"took,omitempty" show:"makespan, "`                 // where the commands ran several times
	Digest    *scenario.Digest    `json:"digest" show:""`

	result *scenario.Result
}

// Of is the variant that a run was.
func Of(name string, r *scenario.Result) Variant {
	v := Variant{Name: name, Took: r.Makespans, Digest: r.Digest(), result: r}
	if r.Model == nil && r.Makespans == nil {
		v.ElapsedNS = int64(r.Elapsed())
	}
	return v
}

// Comparison is several runs side by side.
type Comparison struct {
	Variants []Variant `json:"variants"`
	// Links and Kinds have bytes moved by variant, most in any variant first.
	Links []Row `json:"links"`
	Kinds []Row `json:"kinds"`
	// Differences are where each variant but the first parts from the first.
	Differences []Difference `json:"differences"`
}

// Row is bytes moved, by variant.
type Row struct {
	Name  string   `json:"name"` // "FROM → TO", or the kind of command
	Bytes []uint64 `json:"bytes"`
}

// Difference is where a variant parts from the first one. Commands are compared in
// their order: the first that is another one, or goes to another queue; and the first
// that is the same, needed other copies or other evictions, or ended otherwise.
type Difference struct {
	Variant  string `json:"variant"`
	Commands *Pair  `json:"commands"`       // null where all are the same
	Effects  *Pair  `json:"effects"`        // null where what is the same had the same effects
	Time     string `json:"time,omitempty"` // of a measured run and a modelled one: the first command that has ended at another time
}

// Pair is one command in both variants. Number is 0, and Text empty, where one has no
// more commands.
type Pair struct {
	First Side `json:"first"`
	Other Side `json:"other"`
}

// Side is a command with what it needed.
type Side struct {
	Number  int      `json:"number"`
	Queue   string   `json:"queue"`
	Text    string   `json:"text"`
	Effects []string `json:"effects"` // copies, evictions, a failure: as reports write them
}

// Runs compares runs. It fails with mem.ErrInvalidValue where there are less than two.
func Runs(variants ...Variant) (*Comparison, error) {
	if len(variants) < 2 {
		return nil, fmt.Errorf("compare %d: want at least two runs: %w", len(variants), mem.ErrInvalidValue)
	}
	c := &Comparison{Variants: variants, Links: []Row{}, Kinds: []Row{}, Differences: []Difference{}}
	links, kinds := newRows(len(variants)), newRows(len(variants))
	for i, v := range variants {
		for _, l := range v.Digest.Links {
			links.add(l.From+" → "+l.To, i, l.Bytes)
		}
		for _, k := range v.Digest.Kinds {
			kinds.add(k.Kind, i, k.Bytes)
		}
		if i > 0 {
			c.Differences = append(c.Differences, parting(&variants[0], &variants[i]))
		}
	}
	c.Links, c.Kinds = links.sorted(), kinds.sorted()
	return c, nil
}

// Differ reports whether any variant parts from the first one.
func (c *Comparison) Differ() bool {
	return slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Commands != nil || d.Effects != nil })
}

// OK reports whether all runs were as expected.
func (c *Comparison) OK() bool {
	return !slices.ContainsFunc(c.Variants, func(v Variant) bool { return !v.Digest.OK })
}

// rows adds bytes up by name.
type rows struct {
	of   map[string][]uint64
	wide int
}

func newRows(wide int) rows { return rows{make(map[string][]uint64), wide} }

func (r rows) add(name string, variant int, bytes uint64) {
	if r.of[name] == nil {
		r.of[name] = make([]uint64, r.wide)
	}
	r.of[name][variant] += bytes
}

func (r rows) sorted() []Row {
	out := []Row{}
	for name, bytes := range r.of {
		if slices.Max(bytes) > 0 {
			out = append(out, Row{name, bytes})
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Max(b.Bytes), slices.Max(a.Bytes)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// parting is where b parts from a.
func parting(a, b *Variant) Difference {
	d := Difference{Variant: b.Name}
	for i := 0; i < max(len(a.result.Commands), len(b.result.Commands)); i++ {
		x, y := a.side(i), b.side(i)
		if x.Number == 0 || y.Number == 0 || x.Text != y.Text || x.Queue != y.Queue {
			d.Commands = &Pair{x, y} // what comes after it is of other programs
			return d
		}
		if d.Effects == nil && !slices.Equal(x.Effects, y.Effects) {
			d.Effects = &Pair{x, y}
		}
	}
	if d.Effects == nil && (a.result.Model == nil) != (b.result.Model == nil) {
		d.Time = timeParting(a.Name, a.result.Steps(), b.Name, b.result.Steps())
	}
	return d
}

// Parting says in a line where two runs of the same commands part first: in what a command needed, else
// in when it had ended.
func Parting(first string, a []scenario.Step, second string, b []scenario.Step) string {
	for x, y := a, b; len(x) > 0 && len(y) > 0; {
		var of, other []string
		what := ""
		of, what, x = needed(x)
		if other, _, y = needed(y); !slices.Equal(of, other) {
			return fmt.Sprintf("another plan: %s: %s %s, %s %s", what, first, effectsText(of), second, effectsText(other))
		}
	}
	return timeParting(first, a, second, b)
}

// needed are the copies for the first command of steps, that command, and the steps after it.
func needed(steps []scenario.Step) (copies []string, what string, rest []scenario.Step) {
	for i, s := range steps {
		if !s.Copy {
			return copies, s.What, steps[i+1:]
		}
		copies = append(copies, s.What)
	}
	return copies, "", nil
}

// timeParting is the first step whose ends, since the commands began, are apart by more than a
// twentieth of the first run's time.
func timeParting(first string, a []scenario.Step, second string, b []scenario.Step) string {
	last := int64(0)
	for _, s := range a {
		last = max(last, s.Ended)
	}
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x.Ended > 0 && y.Ended > 0 && 20*max(x.Ended-y.Ended, y.Ended-x.Ended) > last {
			return fmt.Sprintf("another time: %s: %s ended after %s, %s after %s", x.What, first, figures.Text("span", x.Ended), second, figures.Text("span", y.Ended))
		}
	}
	return ""
}

func effectsText(effects []string) string {
	if len(effects) == 0 {
		return "needed no copy"
	}
	more := ""
	if n := len(effects) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return effects[0] + more
}

// side is command i of a variant; its zero value where there is none.
func (v *Variant) side(i int) Side {
	if i >= len(v.result.Commands) {
		return Side{}
	}
	c := &v.result.Commands[i]
	return Side{Number: c.Number, Queue: c.Queue, Text: c.Text, Effects: v.result.Effects(i)}
}
