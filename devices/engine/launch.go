package engine

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// KernelRun says how RunKernel is to work.
type KernelRun struct {
	Space work.Space // checks addresses; nil where arguments have Bytes
	// Serial runs the groups one after another, in order, on the calling
	// goroutine, as one core does; local memory is then the device's.
	Serial bool
}

// launch is a launch in progress, in batches of groups; pooled.
type launch struct {
	work.Launch
	job   Job
	batch int
	body  func(part int) // made once
}

// takeLaunch returns a free launch.
func (e *Engine) takeLaunch() *launch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.launches); n > 0 {
		l := e.launches[n-1]
		e.launches = e.launches[:n-1]
		return l
	}
	l := new(launch)
	l.body = func(part int) { l.Run(part*l.batch, (part+1)*l.batch) }
	return l
}

func (e *Engine) dropLaunch(l *launch) {
	e.mu.Lock()
	e.launches = append(e.launches, l)
	e.mu.Unlock()
}

// RunKernel runs a launch of a kernel built by Build over all its groups, with
// args in the place of cmd's; the slice is the caller's again on return. The
// first Fault or panic of a kernel stops it and is the error.
func (e *Engine) RunKernel(cmd *devices.Command, info *devices.Info, args []work.Arg, run KernelRun) error {
	k, ok := cmd.Kernel.(*Kernel)
	if !ok {
		return fmt.Errorf("kernel %s is not a Go form: %w", cmd.Kernel.Name(), mem.ErrInvalidKernel)
	}
	l := e.takeLaunch()
	defer e.dropLaunch(l)
	groups := l.Begin(k.run, shapeOf(cmd, info), args, work.Options{Space: run.Space, OwnLocal: run.Serial})
	if run.Serial {
		l.Run(0, groups)
	} else {
		// A few parts a worker, so that uneven groups even out.
		l.batch = max(1, groups/(4*e.Workers()))
		e.Parallel(&l.job, (groups+l.batch-1)/l.batch, l.body)
	}
	return l.End()
}

// shapeOf works out the index space.
func shapeOf(cmd *devices.Command, info *devices.Info) work.Shape {
	local := localSize(cmd, info)
	s := work.Shape{Dims: cmd.Dims}
	for d := range 3 {
		s.Global[d], s.Local[d], s.Groups[d] = 1, 1, 1
		if d < cmd.Dims {
			s.Global[d], s.Local[d], s.Offset[d] = int(cmd.Global[d]), int(local[d]), int(cmd.Offset[d])
			s.Groups[d] = s.Global[d] / s.Local[d]
		}
	}
	return s
}

// localSize is the size of work-groups of a launch: what it asks for, or where
// it leaves that to the device, the largest divisor of the first dimension's
// global size that the device takes, up to 256.
func localSize(cmd *devices.Command, info *devices.Info) [3]uint64 {
	if cmd.Local[0] != 0 {
		return cmd.Local
	}
	n := min(uint64(256), cmd.Global[0])
	for _, most := range []uint64{info.MaxWorkGroup, info.MaxWorkItems[0]} {
		if most != 0 {
			n = min(n, most)
		}
	}
	for cmd.Global[0]%n != 0 {
		n--
	}
	return [3]uint64{n, 1, 1}
}
