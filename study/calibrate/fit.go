package calibrate

import (
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// The fit: Gauss and Newton's, on figures that are not negative. Times are nearly linear in
// the figures, since these are times themselves: of bandwidths, those of a MiB. They are not
// quite, since the longest of what goes on at once counts; so differences begin wide.

// A residual is relative to the geometric mean of both times, so that half as long and twice as
// long are as bad. Those beyond a third count by their size, not by its square (Huber): what the
// machine has no words for should not bend what it has.

// problem is a fit: values are sought so that predict(values) is near measured.
type problem struct {
	measured []float64
	spread   []float64
	// predict says what is modelled where of is true, and has what it likes elsewhere; nil is everywhere.
	predict func(ctx context.Context, values []float64, of []bool) ([]float64, error)
	start   []float64
	fixed   []bool // stay as they start
	rounds  int
	over    func() bool // what has been found so far is to do; nil is never
}

// scale is what residual i is divided by where v is predicted.
func (p *problem) scale(i int, v float64) float64 {
	m := max(p.measured[i], p.spread[i], 1)
	return math.Sqrt(m * max(v, m/100))
}

// residual is that of v, and its weight.
func (p *problem) residual(i int, v float64) (r, weight float64) {
	r = (v - p.measured[i]) / p.scale(i, v)
	return r, math.Sqrt(min(1, third/max(math.Abs(r), 1e-12)))
}

const (
	fewRounds, manyRounds = 6, 12

	parallel = 1e-2 // of a column, what others must not explain
	narrow   = 20   // nanoseconds, the least difference
	wide     = 2000 // the widest at first
	widest   = 2e5  // of what shows nothing
	third    = 1. / 3
)

// solve returns values, and for each whether it is left out, since what is measured does not tell it from others: then it
// is 0, and the others are found again. None is left out if the rest then fits worse.
func (p *problem) solve(ctx context.Context) (values []float64, out []bool, cost float64, err error) {
	p.rounds = manyRounds
	if values, out, cost, err = p.search(ctx); err != nil {
		return nil, nil, 0, err
	}
	free := p.fixed
	p.start, p.fixed = slices.Clone(values), out
	for k := range out {
		if out[k] {
			p.start[k] = 0
		}
	}
	less, _, worse, err := p.search(ctx)
	if err == nil && worse > cost*1.05+1e-4 { // together they told something after all
		return values, free, cost, nil
	}
	return less, out, worse, err
}

// search is solve, but that what is left out stays.
func (p *problem) search(ctx context.Context) (values []float64, out []bool, cost float64, err error) {
	values = slices.Clone(p.start)
	now, err := p.predict(ctx, values, nil)
	if err != nil {
		return nil, nil, 0, err
	}
	width, damping := 0.5, 1e-3
	var touched [][]bool // by value: residuals that it makes a difference to
	for round := range p.rounds {
		if round > 0 && p.over != nil && p.over() {
			break
		}
		if round%4 == 0 {
			touched = make([][]bool, len(values))
		}
		j, err := p.columns(ctx, values, now, width, touched)
		if err != nil {
			return nil, nil, 0, err
		}
		out = dependent(j)
		better := false
		for range 4 {
			next := p.step(j, out, values, now, damping)
			then, err := p.predict(ctx, next, nil)
			if err != nil {
				return nil, nil, 0, err
			}
			if p.cost(then) < p.cost(now)*(1-1e-6) {
				settled := near(values, next)
				values, now, better = next, then, true
				damping = max(damping/10, 1e-6)
				if settled && width < 0.05 {
					return values, out, p.cost(now), nil
				}
				break
			}
			damping *= 10
		}
		if !better && width < 0.05 {
			break
		}
		if width /= 2; !better {
			width, damping = width/2, 1e-3
		}
	}
	return values, out, p.cost(now), nil
}

func near(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1+1e-3*a[i] {
			return false
		}
	}
	return true
}

func (p *problem) cost(predicted []float64) (sum float64) {
	for i, v := range predicted {
		if r, _ := p.residual(i, v); math.Abs(r) < third {
			sum += r * r
		} else {
			sum += 2*third*math.Abs(r) - third*third
		}
	}
	return sum
}

// columns are the differences that each value makes to the residuals: j[value][residual].
// Where touched says so, only some are asked for, else it is filled in.
func (p *problem) columns(ctx context.Context, values, now []float64, width float64, touched [][]bool) ([][]float64, error) {
	j := make([][]float64, len(values))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range values {
		if j[k] = make([]float64, len(now)); p.fixed[k] {
			continue
		}
		g.Go(func() error {
			there := slices.Clone(values)
			// What is hidden behind something longer shows by a wider step.
			for step := max(width*values[k], narrow, width*wide); norm(j[k]) == 0 && step < widest; step *= 8 {
				there[k] = values[k] + step
				then, err := p.predict(ctx, there, touched[k])
				if err != nil {
					return err
				}
				for i := range then {
					if touched[k] == nil || touched[k][i] {
						_, weight := p.residual(i, now[i])
						j[k][i] = weight * (then[i] - now[i]) / step / p.scale(i, now[i])
					}
				}
			}
			if touched[k] == nil {
				touched[k] = make([]bool, len(now))
				for i, d := range j[k] {
					touched[k][i] = d != 0
				}
			}
			return nil
		})
	}
	return j, g.Wait()
}

// dependent finds the columns that others explain, taking first those that they explain least (Gram
// and Schmidt).
func dependent(j [][]float64) []bool {
	out, rest := make([]bool, len(j)), make([][]float64, len(j))
	for k, c := range j {
		out[k], rest[k] = true, slices.Clone(c)
		if n := norm(c); n > 0 {
			for i := range c {
				rest[k][i] /= n
			}
		}
	}
	for range j {
		best := -1
		for k, c := range rest {
			if out[k] && norm(c) > parallel && (best < 0 || norm(c) > norm(rest[best])+1e-9) {
				best = k
			}
		}
		if best < 0 {
			break
		}
		out[best] = false
		u, n := rest[best], norm(rest[best])
		for k, c := range rest {
			if out[k] {
				along := dot(c, u) / (n * n)
				for i := range c {
					c[i] -= along * u[i]
				}
			}
		}
	}
	return out
}

// step is where the linear problem has its least, with no value below 0 (Lawson and Hanson), not
// far from values.
func (p *problem) step(j [][]float64, out []bool, values, now []float64, damping float64) []float64 {
	target := make([]float64, len(now))
	for i := range now {
		r, weight := p.residual(i, now[i])
		target[i] = -weight * r
		for k := range j {
			if !out[k] {
				target[i] += j[k][i] * values[k]
			}
		}
	}
	n := len(j)
	a, b := make([][]float64, n), make([]float64, n) // normal equations
	for k := range j {
		a[k] = make([]float64, n)
		for l := range j {
			a[k][l] = dot(j[k], j[l])
		}
		b[k] = dot(j[k], target) + damping*a[k][k]*values[k]
		a[k][k] *= 1 + damping
	}
	next := slices.Clone(values)
	for k := range next {
		if !out[k] {
			next[k] = 0
		}
	}
	free := make([]bool, n)
	for range 3 * n {
		at, most := -1, 1e-12
		for k := range j {
			if !out[k] && !free[k] {
				if g := gradient(a, b, next, out, k); g > most*max(a[k][k], 1e-300) {
					at, most = k, g/max(a[k][k], 1e-300)
				}
			}
		}
		if at < 0 {
			break
		}
		free[at] = true
		for {
			full := solveFree(a, b, free)
			share, block := 1.0, -1
			for k := range full {
				if free[k] && full[k] <= 0 {
					if s := next[k] / max(next[k]-full[k], 1e-300); s < share || block < 0 {
						share, block = s, k
					}
				}
			}
			for k := range next {
				if free[k] {
					next[k] += share * (full[k] - next[k])
				}
			}
			if block < 0 {
				break
			}
			next[block], free[block] = 0, false
		}
	}
	return next
}

// gradient says how much the sum of squares falls with a value.
func gradient(a [][]float64, b, x []float64, out []bool, k int) float64 {
	g := b[k]
	for l := range x {
		if !out[l] {
			g -= a[k][l] * x[l]
		}
	}
	return g
}

// solveFree solves the equations of those that are free; the others are 0 (Gauss, with pivots).
func solveFree(a [][]float64, b []float64, free []bool) []float64 {
	var at []int
	for k, f := range free {
		if f {
			at = append(at, k)
		}
	}
	m := make([][]float64, len(at))
	for r, k := range at {
		for _, l := range at {
			m[r] = append(m[r], a[k][l])
		}
		m[r] = append(m[r], b[k])
	}
	for c := range at {
		p := c
		for r := c; r < len(at); r++ {
			if math.Abs(m[r][c]) > math.Abs(m[p][c]) {
				p = r
			}
		}
		m[c], m[p] = m[p], m[c]
		if m[c][c] == 0 {
			continue
		}
		for r := range at {
			if f := m[r][c] / m[c][c]; r != c && f != 0 {
				for i := c; i <= len(at); i++ {
					m[r][i] -= f * m[c][i]
				}
			}
		}
	}
	x := make([]float64, len(b))
	for r, k := range at {
		if m[r][r] != 0 {
			x[k] = m[r][len(at)] / m[r][r]
		}
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }
