package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"godwit/mem"
	"godwit/study/machine"
	"godwit/study/scenario"
)

// Config is what is swept.
type Config struct {
	File string // the scenario's, for errors and for the files beside it
	Data []byte // its text
	Base scenario.Options
	Axes []Axis
	// Build says which program runs the points: see Executable.
	Build string
	// Machine makes the machine that an axis of that kind names.
	Machine func(ctx context.Context, name string, opt machine.Options) (*machine.Machine, error)
	// Stamps has the devices of machines keep no bytes (scenario.RunOptions.Stamps).
	Stamps bool
	// Fast leaves times out where they are of this computer, and so may run several
	// points at once.
	Fast bool
}

// Setting is an axis's value at a point.
type Setting struct {
	Axis  *Axis
	Value string
}

// Points are the product of the axes, each made as it is asked for. The last axis changes first.
type Points struct {
	axes []Axis
	n    int
}

// Points are those of the sweep. It fails where an axis is there twice, or the points are too many.
func (c *Config) Points() (Points, error) { return product(c.Axes) }

func product(axes []Axis) (Points, error) {
	n := 1
	for i := range axes {
		a := &axes[i]
		if slices.ContainsFunc(axes[:i], func(b Axis) bool { return a.Kind == b.Kind && a.Name == b.Name }) {
			return Points{}, fmt.Errorf("%s is swept twice: %w", a.Name, mem.ErrInvalidValue)
		}
		if err := a.check(); err != nil {
			return Points{}, err
		}
		if n *= a.Len(); n > maxPoints {
			return Points{}, fmt.Errorf("%d points with the values of %s: want at most %d: %w", n, a.Name, maxPoints, mem.ErrInvalidValue)
		}
	}
	return Points{axes, n}, nil
}

// Len is how many there are.
func (p Points) Len() int { return p.n }

// At is the point of an index, from 0.
func (p Points) At(i int) []Setting {
	out := make([]Setting, len(p.axes))
	for k := len(p.axes) - 1; k >= 0; k-- {
		a := &p.axes[k]
		out[k] = Setting{a, a.At(i % a.Len())}
		i /= a.Len()
	}
	return out
}

// All are all in order.
func (p Points) All() iter.Seq[[]Setting] {
	return func(yield func([]Setting) bool) {
		for i := range p.n {
			if !yield(p.At(i)) {
				return
			}
		}
	}
}

// Label names a point for people.
func Label(settings []Setting) string {
	var parts []string
	for _, s := range settings {
		parts = append(parts, s.Axis.Name+"="+s.Value)
	}
	return strings.Join(parts, " ")
}

// Scenario reads the scenario at a point.
func (c *Config) Scenario(ctx context.Context, settings []Setting) (*scenario.Scenario, error) {
	opt := c.Base
	opt.Set = maps.Clone(opt.Set)
	if opt.Set == nil {
		opt.Set = make(map[string]string)
	}
	for _, s := range settings {
		switch s.Axis.Kind {
		case Parameter:
			opt.Set[s.Axis.Name] = s.Value
		case Policy:
			opt.Policy = s.Value
		case Driver:
			opt.Driver = s.Value
		case Graph:
			opt.Graph = s.Value
		}
	}
	s, err := scenario.Parse(ctx, c.File, c.Data, opt)
	if err != nil && len(settings) > 0 && ctx.Err() == nil {
		return nil, fmt.Errorf("%s: %w", Label(settings), err)
	}
	return s, err
}

// MachineOptions are what a machine gets at a point, for a scenario.
func MachineOptions(s *scenario.Scenario, settings []Setting) machine.Options {
	opt := machine.Options{Devices: len(s.Devices), Set: make(map[string]string)}
	for _, p := range settings {
		if p.Axis.Kind == machineParameter {
			opt.Set[strings.TrimPrefix(p.Axis.Name, OfMachine)] = p.Value
		}
	}
	return opt
}

// Options say how the scenario at a point is run: on which machine, if on one.
func (c *Config) Options(ctx context.Context, s *scenario.Scenario, settings []Setting) (opt scenario.RunOptions, err error) {
	opt.Stamps = c.Stamps
	for _, p := range settings {
		if p.Axis.Kind != Machine {
			continue
		}
		if opt.Machine, err = c.Machine(ctx, p.Value, MachineOptions(s, settings)); err != nil {
			return opt, fmt.Errorf("%s: %w", Label(settings), err)
		}
	}
	return opt, nil
}

// modelled reports whether all points are: their times are the machines'.
func (c *Config) modelled() bool {
	return slices.ContainsFunc(c.Axes, func(a Axis) bool { return a.Kind == Machine })
}

// key is the hash by which a point is known.
func (c *Config) key(s *scenario.Scenario, opt scenario.RunOptions, settings []Setting) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "godwit sweep 1\nbuild %s\nfast %v\nstamps %v\n", c.Build, c.Fast, c.Stamps)
	if err := s.WriteExpanded(h); err != nil {
		return "", fmt.Errorf("%s: %w", Label(settings), err)
	}
	if opt.Machine != nil {
		if err := json.NewEncoder(h).Encode(opt.Machine); err != nil {
			return "", fmt.Errorf("%s: %w", Label(settings), err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Identify identifies the sweep, and says its points: with the same id an index means the same point
// (docs/design/scale.md). The first point's hash stands for the files that are read.
func (c *Config) Identify(ctx context.Context) (id string, points Points, err error) {
	if points, err = c.Points(); err != nil {
		return "", points, err
	}
	_, _, key, err := c.read(ctx, points.At(0))
	if err != nil {
		return "", points, err
	}
	h := sha256.New()
	err = json.NewEncoder(h).Encode([]any{"godwit sweep", key, string(c.Data), c.Axes, c.Base.Memory, c.Base.Limits, c.Base.Set})
	return hex.EncodeToString(h.Sum(nil)[:16]), points, err
}

// read is the scenario at a point, how it is run, and the hash by which the point is known.
func (c *Config) read(ctx context.Context, settings []Setting) (s *scenario.Scenario, how scenario.RunOptions, key string, err error) {
	if s, err = c.Scenario(ctx, settings); err == nil {
		how, err = c.Options(ctx, s, settings)
	}
	if err == nil {
		key, err = c.key(s, how, settings)
	}
	return s, how, key, err
}

// Executable identifies the program that runs: a hash of its file.
func Executable() (_ string, err error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
