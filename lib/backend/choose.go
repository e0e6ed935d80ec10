package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"godwit/devices"
	"godwit/mem"
)

// choice is what a name stands for: candidates of one backend, best first, and
// why.
type choice struct {
	backend    Backend
	candidates []Candidate
	reason     string
	endless    bool // a simulated driver: any number of devices can be opened
}

// choose finds what a name stands for among the backends. It opens nothing.
func choose(ctx context.Context, cl, cpu Backend, name string) (choice, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "", "auto":
		return chooseAuto(ctx, cl, cpu)
	case "cpu":
		return simulated(ctx, cpu, "cpu was asked for: kernels are Go functions on the host")
	case "gpu":
		return ofType(ctx, cl, devices.GPU)
	case "accel", "accelerator":
		return ofType(ctx, cl, devices.Accelerator)
	}
	if name != "opencl" && slices.Contains(devices.Drivers(), name) {
		return simulated(ctx, Simulated(name), "the simulated driver "+name+" was asked for")
	}
	all, err := cl.Candidates(ctx)
	if err != nil {
		return choice{}, fmt.Errorf("device %q: %w", name, err)
	}
	best := ranked(all)
	if name != "cl" && name != "opencl" {
		best = slices.DeleteFunc(best, func(c Candidate) bool { return c.Name != name && !matches(&c.Info, name) })
	}
	if len(best) == 0 {
		return choice{}, fmt.Errorf("device %q: no OpenCL device or platform has that in its name, and no driver is called so; there are %s and the drivers %v: %w",
			name, list(all), devices.Drivers(), mem.ErrDeviceNotFound)
	}
	return choice{backend: cl, candidates: best, reason: fmt.Sprintf("%q names %s, %d of %d OpenCL devices", name, describe(best[0]), len(best), len(all))}, nil
}

// chooseAuto takes the best OpenCL device, or the cpu driver.
func chooseAuto(ctx context.Context, cl, cpu Backend) (choice, error) {
	all, err := cl.Candidates(ctx)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no devices: %w", mem.ErrDeviceNotFound)
	}
	if err != nil {
		if !errors.Is(err, mem.ErrDeviceNotFound) {
			return choice{}, err
		}
		return simulated(ctx, cpu, fmt.Sprintf("auto takes the cpu driver, since there is no OpenCL device: %v", err))
	}
	best := ranked(all)
	why := fmt.Sprintf("auto takes the best of %d OpenCL devices: %s", len(all), describe(best[0]))
	if best[0].Info.Type == devices.CPU {
		why += "; there is no GPU and no accelerator"
	}
	first := best[0].Info
	best = slices.DeleteFunc(best, func(c Candidate) bool { return c.Info.Type != first.Type || c.Info.Platform != first.Platform })
	return choice{backend: cl, candidates: best, reason: why}, nil
}

func simulated(ctx context.Context, b Backend, why string) (choice, error) {
	found, err := b.Candidates(ctx)
	return choice{backend: b, candidates: found, reason: why, endless: true}, err
}

func ofType(ctx context.Context, cl Backend, t devices.Type) (choice, error) {
	all, err := cl.Candidates(ctx)
	if err != nil {
		return choice{}, fmt.Errorf("device %q: %w", typeName(t), err)
	}
	best := slices.DeleteFunc(ranked(all), func(c Candidate) bool { return c.Info.Type != t })
	if len(best) == 0 {
		return choice{}, fmt.Errorf("device %q: none among %s: %w", typeName(t), list(all), mem.ErrDeviceNotFound)
	}
	return choice{backend: cl, candidates: best, reason: fmt.Sprintf("%s is the best of %d OpenCL devices of type %s", describe(best[0]), len(best), typeName(t))}, nil
}

// ranked sorts a copy, the best first; equals stay in the platform's order.
func ranked(all []Candidate) []Candidate {
	best := slices.Clone(all)
	class := func(c Candidate) int {
		return slices.Index([]devices.Type{devices.Custom, devices.CPU, devices.Accelerator, devices.GPU}, c.Info.Type)
	}
	slices.SortStableFunc(best, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(class(b), class(a)),
			cmp.Compare(b.Info.ComputeUnits, a.Info.ComputeUnits), cmp.Compare(b.Info.GlobalMemory, a.Info.GlobalMemory))
	})
	return best
}

func describe(c Candidate) string {
	i := &c.Info
	return fmt.Sprintf("%s (%s, %s on %s, %d compute units, %s)", c.Name, typeName(i.Type), i.Name, i.Platform, i.ComputeUnits, mem.FormatBytes(i.GlobalMemory))
}

func list(all []Candidate) string {
	if len(all) == 0 {
		return "no OpenCL devices"
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = describe(c)
	}
	return strings.Join(names, ", ")
}
