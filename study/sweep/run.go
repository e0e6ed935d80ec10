package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"godwit/study/scenario"
)

// RunOptions say how a sweep is run.
type RunOptions struct {
	// Jobs is how many points run at once; 0 is one. Points whose times are measured
	// are run one at a time whatever it is: they would measure each other.
	Jobs int
	// Journal, where not nil, is given every row as soon as it is there.
	Journal *Journal
	// Known are rows that need not be made again.
	Known Known
	// Progress, where not nil, is told how many points are done, from any goroutine.
	Progress func(done, total int)
}

// Results are the rows of a sweep in the order of its points.
type Results struct {
	Axes  []Axis
	Rows  []*Row
	lines []json.RawMessage // Rows, as they are written
	Taken int               // rows that were known before
}

// Run runs all points that are not known. A point whose run fails has a row that says
// why. Where a point's scenario is at fault (scenario.Errors), a journal cannot be
// written, or ctx ends, Run ends with that error, and what was done is in the journal.
func Run(ctx context.Context, c *Config, opt RunOptions) (*Results, error) {
	points, err := c.Points()
	if err != nil {
		return nil, err
	}
	res := &Results{Axes: c.Axes, Rows: make([]*Row, len(points)), lines: make([]json.RawMessage, len(points))}
	var taken, done atomic.Int64
	group, running := errgroup.WithContext(ctx)
	jobs := max(opt.Jobs, 1)
	if !c.Fast && !c.modelled() {
		jobs = 1
	}
	group.SetLimit(jobs)
	for i := range points {
		if running.Err() != nil {
			break
		}
		group.Go(func() error {
			line, known, err := c.point(running, points[i], opt)
			if err != nil {
				return err
			}
			if known {
				taken.Add(1)
			}
			res.lines[i] = line
			res.Rows[i], err = decode(line)
			if n := done.Add(1); opt.Progress != nil {
				opt.Progress(int(n), len(points))
			}
			return err
		})
	}
	if err = group.Wait(); err == nil && int(done.Load()) < len(points) {
		err = ctx.Err() // it ended between two points, and no point knows
	}
	res.Taken = int(taken.Load())
	return res, err
}

// point makes the row of a point, or takes the one that is known.
func (c *Config) point(ctx context.Context, settings []Setting, opt RunOptions) (line []byte, known bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s, err := c.Scenario(ctx, settings)
	if err != nil {
		return nil, false, err
	}
	how, err := c.Options(ctx, s, settings)
	if err != nil {
		return nil, false, err
	}
	key, err := c.key(s, how, settings)
	if err != nil {
		return nil, false, err
	}
	parameters := make(map[string]any)
	for _, p := range settings {
		parameters[p.Axis.Name] = valueOf(valueAt(s, p))
	}
	if line, known = opt.Known[key]; known { // as another sweep has set it: of other axes, or a value that comes to the same
		row, err := decode(line)
		if err != nil {
			return nil, false, err
		}
		row.Parameters = parameters
		line, err = row.encode()
		return line, true, err
	}
	run, err := scenario.Run(ctx, s, how)
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if bad := (scenario.Errors)(nil); errors.As(err, &bad) {
		return nil, false, fmt.Errorf("%s: %w", Label(settings), err)
	}
	row := &Row{Point: key, Parameters: parameters, Digest: run.Digest()} // an error is in its Digest
	switch {
	case run.Model != nil:
		row.Times, row.ElapsedNS = "modelled", int64(run.Model.Makespan)
	case !c.Fast:
		row.Times, row.ElapsedNS = "measured", int64(run.Elapsed())
	}
	if line, err = row.encode(); err == nil && opt.Journal != nil {
		err = opt.Journal.add(line)
	}
	return line, false, err
}

// valueAt is a setting's value in the one way to write it: a size in bytes.
func valueAt(s *scenario.Scenario, p Setting) string {
	for _, param := range s.Params {
		if p.Axis.Kind == Parameter && param.Name == p.Axis.Name {
			return param.Value
		}
	}
	return p.Value
}
