//go:build cgo

package opencl

import (
	"encoding/binary"
	"slices"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Runs: launches that are one to all but OpenCL (devices.Command.Run).
//
// A run has one record, and is one call of C's. The first launch has the wait list, the last the event. How the others end shows in
// that: behind a launch that fails OpenCL promises nothing of the whole context, so it is the run that has failed. What OpenCL did
// not run for a failure before it is not tried again, since nobody knows of how many that is true.
//
// Where a launch behind the first is refused, those before it are OpenCL's already: the run is accepted, and fails with the refusal
// when they have ended.

// form is a run as C gets it, kept from one time to the next. A record copies the arguments where it cannot be enqueued within Submit.
type form struct {
	q       *Queue
	cmds    []ocl.Command // immutable
	args    []byte        // changed by patch
	kernels []*Kernel     // each once; whoever uses the form uses them anew
	blocks  []piece       // of the arguments that are buffers, in their order
}

// piece is where an argument's bytes are.
type piece struct {
	block     mem.Block
	off, size uint64
}

// fillRun is fill for launches, by the form that there is of them.
func (r *record) fillRun(cmd *devices.Command) error {
	f, _ := cmd.Run.Form.(*form)
	if f == nil || f.q != r.q {
		return r.fillAnew(cmd)
	}
	if cmd.Run.Changed {
		cmd.Run.Form = nil // an error leaves who knows what
		if err := f.patch(cmd); err != nil {
			return err
		}
		cmd.Run.Form, cmd.Run.Changed = f, false
	}
	for _, k := range f.kernels {
		if err := r.uses(k); err != nil {
			return err
		}
	}
	r.cmd, r.then, r.form = f.cmds[0], f.cmds[1:], f.args
	if len(r.then) == 0 { // which may be enqueued once more
		r.keepArguments()
	}
	return nil
}

// arguments are those of r's launches.
func (r *record) arguments() []byte {
	if r.form != nil {
		return r.form
	}
	return r.args
}

// keepArguments gives r arguments of its own.
func (r *record) keepArguments() { r.args, r.form = append(r.args, r.form...), nil }

// fillAnew fills r with launches, and makes a form of them where they need nothing but blocks of the device's own.
func (r *record) fillAnew(cmd *devices.Command) error {
	f, own := &form{q: r.q}, true
	for i, then := 0, cmd.Then(); i <= len(then); i++ {
		c := cmd
		if i > 0 {
			c = &then[i-1]
		}
		r.cmd = ocl.Command{}
		if err := r.fillOne(c); err != nil {
			return cmd.Of(i, err)
		}
		f.cmds = append(f.cmds, r.cmd)
		for k := range c.Args {
			a := &c.Args[k]
			if a.Kind == devices.ArgBuffer {
				f.blocks = append(f.blocks, piece{a.Block, a.Off, a.Size})
			}
			own = own && a.Kind != devices.ArgSVM && a.Kind != devices.ArgSampler && a.Image == nil && a.Device == nil
		}
	}
	r.cmd, r.then = f.cmds[0], f.cmds[1:]
	if cmd.Run.Changed = false; own {
		f.args, f.kernels = slices.Clone(r.args), slices.Clone(r.kernels)
		cmd.Run.Form = f
	}
	return nil
}

// patch brings arguments up to what they are now.
func (f *form) patch(cmd *devices.Command) (err error) {
	at, blocks := f.args, f.blocks
	for i, then := 0, cmd.Then(); i <= len(then); i++ {
		c := cmd
		if i > 0 {
			c = &then[i-1]
		}
		for k := range c.Args {
			a := &c.Args[k]
			at = at[ocl.ArgHead:]
			switch a.Kind {
			case devices.ArgValue:
				copy(at, a.Value)
				at = at[(len(a.Value)+7)&^7:]
			case devices.ArgBuffer:
				if now := (piece{a.Block, a.Off, a.Size}); blocks[0] != now {
					var m ocl.Mem
					if m, err = f.q.dev.argument(a); err != nil {
						return cmd.Of(i, err)
					}
					binary.NativeEndian.PutUint64(at, uint64(m))
					blocks[0] = now
				}
				at, blocks = at[8:], blocks[1:]
			}
		}
	}
	return nil
}

// argument is the cl_mem of an argument that is a buffer of the device's own.
func (d *Device) argument(a *devices.Arg) (ocl.Mem, error) {
	if a.Block.IsZero() {
		return 0, nil
	}
	at, err := d.locate(a.Block, a.Off, a.Size, true)
	return at.mem, err
}
