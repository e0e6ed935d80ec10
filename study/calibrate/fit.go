package calibrate

import (
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mat"
)

// The fit: Levenberg and Marquardt's, of the logarithms of the figures to the logarithms of the times, so that half as long
// and twice as long are as bad, for a microsecond as for a second. Residuals are counted in what the time itself
// is uncertain by; those beyond one count by their size, not by its square (Huber): what the machine has no words for should
// not bend what it has.

// problem is a fit: values are sought so that predict(values) is near measured.
type problem struct {
	start    []float64 // nanoseconds; 0 stays 0
	measured []float64
	sigma    []float64 // relative uncertainty of measured
	// predict says what is modelled where of is true, and has what it likes elsewhere; nil is everywhere.
	predict func(ctx context.Context, values []float64, of []bool) ([]float64, error)
	rounds  int
	over    func() bool // what has been found so far is to do; nil is never
}

// solution is what a fit has found.
type solution struct {
	values []float64
	cost   float64
	error  []float64 // by value: the standard error of its logarithm; +Inf where nothing tells it from others, NaN where it shows nowhere
}

const (
	fewRounds, manyRounds = 8, 30

	shortest  = 1.   // nanoseconds: a figure of less is none
	untold    = 1.   // standard error of a logarithm from which on a figure is not told from others
	widest    = 0.5  // step of differences at first, of logarithms: wide, since of what goes on at once the longest counts
	narrowest = 0.02 // step in the end
	exact     = 1e-4 // cost of a time that fits
)

// residual is that of v, and what it weighs.
func (p *problem) residual(i int, v float64) (r, weight float64) {
	r = math.Log(max(v, 1)/max(p.measured[i], 1)) / p.sigma[i]
	return r, math.Sqrt(min(1, 1/math.Abs(r)))
}

func (p *problem) cost(predicted []float64) (sum float64) {
	for i, v := range predicted {
		if r, _ := p.residual(i, v); math.Abs(r) < 1 {
			sum += r * r / 2
		} else {
			sum += math.Abs(r) - 0.5
		}
	}
	return sum
}

// solve finds values, and leaves out what no time tells from others: it is 0 then, and the others are found again.
// If the rest then fits worse, only what shows nowhere is left out; the others' errors say what they are worth.
func (p *problem) solve(ctx context.Context) (solution, error) {
	p.rounds = manyRounds
	all, err := p.search(ctx)
	if err != nil {
		return all, err
	}
	less := *p
	less.start = slices.Clone(all.values)
	for k, e := range all.error {
		if !(e < untold) {
			less.start[k] = 0
		}
		if math.IsNaN(e) {
			all.values[k] = 0
		}
	}
	few, err := less.search(ctx)
	if err == nil && few.cost > all.cost*1.02+0.1 {
		return all, nil
	}
	return few, err
}

// search is solve, but that what is left out stays.
func (p *problem) search(ctx context.Context) (s solution, err error) {
	s.values = slices.Clone(p.start)
	now, err := p.predict(ctx, s.values, nil)
	if err != nil {
		return s, err
	}
	s.cost = p.cost(now)
	width, damping := widest, 1.
	var j *mat.Dense
	var touched [][]bool // by value: times that it makes a difference to
	for round := range p.rounds {
		if round > 0 && p.over != nil && p.over() {
			break
		}
		if round%4 == 0 {
			touched = make([][]bool, len(s.values))
		}
		if j, err = p.columns(ctx, s.values, now, width, touched); err != nil {
			return s, err
		}
		before := s.cost
		for range 5 {
			next := p.step(j, s.values, now, damping)
			then, err := p.predict(ctx, next, nil)
			if err != nil {
				return s, err
			}
			if cost := p.cost(then); cost < s.cost {
				s.values, s.cost, now = next, cost, then
				damping = max(damping/8, 1e-4)
				break
			}
			damping *= 4
		}
		if s.cost < exact*float64(len(now)) {
			break
		}
		if s.cost > before*(1-0.01) {
			if width <= narrowest {
				break
			}
			width /= 2 // what is near shows by less
			damping = min(damping, 1)
		}
		width = max(width*0.6, narrowest)
	}
	s.error = p.errors(j, s.values, now)
	return s, nil
}

// columns are the differences that the logarithm of each value makes to the residuals.
// Where touched says so, only some are asked for, else it is filled in.
func (p *problem) columns(ctx context.Context, values, now []float64, width float64, touched [][]bool) (*mat.Dense, error) {
	j := mat.NewDense(len(now), len(values), nil)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range values {
		if values[k] == 0 {
			continue
		}
		g.Go(func() error {
			there := slices.Clone(values)
			there[k] *= math.Exp(width)
			if there[k] < values[k]+1 { // files have whole nanoseconds
				there[k] = values[k] + 1
			}
			then, err := p.predict(ctx, there, touched[k])
			if err != nil {
				return err
			}
			differs := make([]bool, len(now))
			for i := range then {
				if touched[k] == nil || touched[k][i] {
					r, _ := p.residual(i, now[i])
					to, _ := p.residual(i, then[i])
					differs[i] = r != to
					j.Set(i, k, (to-r)/math.Log(there[k]/values[k])) // columns are of one goroutine each
				}
			}
			touched[k] = differs
			return nil
		})
	}
	return j, g.Wait()
}

// weighed are the columns of the values that are not out, and the residuals, as the latter count.
func (p *problem) weighed(j *mat.Dense, out []bool, now []float64) (a *mat.Dense, r *mat.VecDense, of []int) {
	for k := range out {
		if !out[k] {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		return nil, nil, nil
	}
	a, r = mat.NewDense(len(now), len(of), nil), mat.NewVecDense(len(now), nil)
	for i := range now {
		x, weight := p.residual(i, now[i])
		r.SetVec(i, weight*x)
		for c, k := range of {
			a.Set(i, c, weight*j.At(i, k))
		}
	}
	return a, r, of
}

// step is where the damped linear problem has its least, by its singular values; each value at most three times or a third
// of what it was.
func (p *problem) step(j *mat.Dense, values, now []float64, damping float64) []float64 {
	out := make([]bool, len(values))
	for k, v := range values {
		out[k] = v == 0
	}
	next := slices.Clone(values)
	a, r, of := p.weighed(j, out, now)
	var svd mat.SVD
	if a == nil || !svd.Factorize(a, mat.SVDThin) {
		return next
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	var along, by mat.VecDense
	along.MulVec(u.T(), r)
	for i, s := range svd.Values(nil) {
		along.SetVec(i, along.AtVec(i)*s/(s*s+damping))
	}
	by.MulVec(&v, &along)
	for c, k := range of {
		next[k] = max(values[k]*math.Exp(-max(-1.1, min(1.1, by.AtVec(c)))), shortest)
	}
	return next
}

// errors are the standard errors of the logarithms of the values, from the covariance. Of those that are not told from
// others the one that is told least is left out, until what is left is told.
func (p *problem) errors(j *mat.Dense, values, now []float64) []float64 {
	out, errs := make([]bool, len(values)), make([]float64, len(values))
	for k, v := range values {
		out[k] = v <= shortest
	}
	size := make([]float64, len(now))
	for i, v := range now {
		r, _ := p.residual(i, v)
		size[i] = math.Abs(r)
	}
	slices.Sort(size)
	noise := max(1, 1.48*size[len(size)/2]) // what is left is worse than the times' own
	for {
		a, _, of := p.weighed(j, out, now)
		var svd mat.SVD
		if a == nil || !svd.Factorize(a, mat.SVDThin) {
			break
		}
		var v mat.Dense
		svd.VTo(&v)
		worst := -1
		for c, k := range of {
			sum := 0.
			for i, s := range svd.Values(nil) {
				sum += math.Pow(v.At(c, i)/max(s, 1e-9), 2)
			}
			if errs[k] = noise * math.Sqrt(sum); errs[k] > untold && (worst < 0 || errs[k] >= errs[worst]) {
				worst = k
			}
		}
		if worst < 0 {
			break
		}
		out[worst] = true
	}
	for k := range out {
		switch {
		case mat.Norm(j.ColView(k), 2) == 0:
			errs[k] = math.NaN()
		case out[k]:
			errs[k] = math.Inf(1)
		}
	}
	return errs
}
