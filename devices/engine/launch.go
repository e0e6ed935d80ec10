package engine

import (
	"cmp"
	"fmt"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// KernelRun says how Launch is to work.
type KernelRun struct {
	Space work.Space // checks addresses; nil where arguments have Bytes
	// Serial runs the groups one after another, in order, on the calling
	// goroutine, as one core does; local memory is then the device's.
	Serial bool
}

// launch is a launch in progress, in batches of groups; pooled.
type launch struct {
	work.Launch
	job   job
	batch int
	body  func(part int) // made once
}

func newLaunch() any {
	l := new(launch)
	l.body = func(part int) { l.Run(part*l.batch, (part+1)*l.batch) }
	return l
}

// Launch runs a launch of a kernel built by Build over all its groups, with
// args in the place of cmd's; the slice is the caller's again on return. The
// first Fault or panic of a kernel stops it and is the error.
func (d *Device) Launch(cmd *devices.Command, args []work.Arg, run KernelRun) error {
	k, ok := cmd.Kernel.(*kernel)
	if !ok {
		return fmt.Errorf("kernel %s is not a Go form: %w", cmd.Kernel.Name(), mem.ErrInvalidKernel)
	}
	e := d.engine
	l := e.launches.Get().(*launch)
	defer e.launches.Put(l)
	groups := l.Begin(k.run, shapeOf(cmd, &d.info), args, work.Options{Space: run.Space, OwnLocal: run.Serial})
	if run.Serial {
		l.Run(0, groups)
	} else {
		// A few parts a worker, so that uneven groups even out.
		l.batch = max(1, groups/(4*e.opts.Workers))
		e.parallel(&l.job, (groups+l.batch-1)/l.batch, l.body)
	}
	return l.End()
}

// shapeOf works out the index space. Where the launch leaves the size of work-groups to the
// device, it is the largest divisor of the first dimension's global size that the device takes, up to 256.
func shapeOf(cmd *devices.Command, info *devices.Info) work.Shape {
	local := cmd.Local
	if local[0] == 0 {
		n := min(256, cmd.Global[0], cmp.Or(info.MaxWorkGroup, 256), cmp.Or(info.MaxWorkItems[0], 256))
		for cmd.Global[0]%n != 0 {
			n--
		}
		local = [3]uint64{n, 1, 1}
	}
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
