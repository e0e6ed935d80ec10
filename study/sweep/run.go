package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"godwit/internal/journal"
	"godwit/study/scenario"
)

// RunOptions say how a sweep is run.
type RunOptions struct {
	// Jobs is how many points run at once; 0 is one. Points whose times are measured
	// are run one at a time whatever it is: they would measure each other.
	Jobs int
	// Rows are those that need not be made again, and what new ones are added to; nil are
	// none yet, in memory.
	Rows *Rows
	// Has, where not nil, says which points are to be run, by their index: a shard's.
	Has func(i int) bool
	// Began, where not nil, is told of a point that is being made, which has so many commands, and Ended, where not nil, of one that
	// is done: made, or known before. why is why it failed. Both from any goroutine.
	Began func(i, commands int)
	Ended func(i int, known bool, why string)
}

// Run runs all points that are not known. A point whose run fails has a row that says
// why. Where a point's scenario is at fault (scenario.Errors), a journal cannot be
// written, or ctx ends, Run ends with that error, and what was done is in the journal.
func Run(ctx context.Context, c *Config, opt RunOptions) (res *Results, err error) {
	if opt.Rows == nil {
		if opt.Rows, err = c.Rows(ctx); err != nil {
			return nil, err
		}
	}
	points := opt.Rows.points
	res = &Results{Axes: c.Axes, rows: opt.Rows, has: opt.Has}
	for i := range points.Len() {
		if res.wants(i) {
			res.Points++
		}
	}
	var taken, done atomic.Int64
	group, running := errgroup.WithContext(ctx)
	jobs := max(opt.Jobs, 1)
	if !c.Fast && !c.modelled() {
		jobs = 1
	}
	group.SetLimit(jobs)
	for i := range points.Len() {
		if !res.wants(i) {
			continue
		}
		if running.Err() != nil {
			break
		}
		group.Go(func() error {
			known, err := c.point(running, i, &opt)
			if known && err == nil {
				taken.Add(1)
			}
			if err == nil {
				done.Add(1)
			}
			return err
		})
	}
	if err = group.Wait(); err == nil && int(done.Load()) < res.Points {
		err = ctx.Err() // it ended between two points, and no point knows
	}
	if res.Taken = int(taken.Load()); err == nil {
		err = res.survey()
	}
	return res, err
}

// point has rows have the row of a point: it is made, or the one that is known is taken.
func (c *Config) point(ctx context.Context, i int, opt *RunOptions) (known bool, err error) {
	rows, why := opt.Rows, ""
	defer func() {
		if err == nil && opt.Ended != nil {
			opt.Ended(i, known, why)
		}
	}()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	settings := rows.points.At(i)
	s, how, key, err := c.read(ctx, settings)
	if err != nil {
		return false, err
	}
	before, err := rows.find(i, key)
	if err != nil {
		return false, err
	}
	var now []byte
	if known = before != nil; known { // as another sweep has set it: of other axes, or a value that comes to the same
		row, err := decode(before)
		if err != nil {
			return false, err
		}
		row.Parameters = parametersOf(s, settings)
		now, err = row.encode()
		if at, aerr := rows.row(i); err != nil || aerr != nil || bytes.Equal(now, at) {
			return true, errors.Join(err, aerr)
		}
	} else {
		if opt.Began != nil {
			opt.Began(i, len(s.Commands))
		}
		if now, err = c.make(ctx, s, how, key, settings); err != nil {
			return false, err
		}
		b, _ := briefly(now)
		why = b.Error
	}
	return known, rows.add([]int{i}, journal.Encode(i, now))
}

// parametersOf are a row's.
func parametersOf(s *scenario.Scenario, settings []Setting) map[string]any {
	parameters := make(map[string]any)
	for _, p := range settings {
		parameters[p.Axis.Name] = valueOf(valueAt(s, p))
	}
	return parameters
}

// Row makes the row of a point. It fails where the point's scenario is at fault, or ctx ends.
func (c *Config) Row(ctx context.Context, settings []Setting) ([]byte, error) {
	s, how, key, err := c.read(ctx, settings)
	if err != nil {
		return nil, err
	}
	return c.make(ctx, s, how, key, settings)
}

// FailedRow is the row of a point that was given up.
func (c *Config) FailedRow(ctx context.Context, settings []Setting, why string) ([]byte, error) {
	s, _, key, err := c.read(ctx, settings)
	if err != nil {
		return nil, err
	}
	row := &Row{Point: key, Parameters: parametersOf(s, settings), Digest: &scenario.Digest{Error: why}}
	return row.encode()
}

// make runs a point.
func (c *Config) make(ctx context.Context, s *scenario.Scenario, how scenario.RunOptions, key string, settings []Setting) ([]byte, error) {
	run, err := scenario.Run(ctx, s, how)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if bad := (scenario.Errors)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("%s: %w", Label(settings), err)
	}
	row := &Row{Point: key, Parameters: parametersOf(s, settings), Digest: run.Digest()} // an error is in its Digest
	switch {
	case run.Model != nil:
		row.Times, row.ElapsedNS = "modelled", int64(run.Model.Makespan)
	case !c.Fast:
		row.Times, row.ElapsedNS = "measured", int64(run.Elapsed())
	}
	return row.encode()
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
