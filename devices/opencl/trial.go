//go:build cgo

package opencl

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/nvlink"
	"godwit/internal/storage"
	"godwit/mem"
)

// handovers is how many times a trial hands a buffer from a device to the next.
const handovers = 2000

// Run tries the first platform that may have windows and has two devices. The Driver says how it
// went; an error, that nothing could be tried.
func (t *Trial) Run(ctx context.Context) (LinkTrial, error) {
	found, err := twoLinked()
	if err != nil {
		return LinkTrial{}, err
	}
	d := LinkTrial{Version: found[0].device.ID.Text(ocl.DriverVersion)}
	devs, err := devices.Open(ctx, "opencl", devices.Config{Params: map[string]string{"platform": strconv.Itoa(found[0].Platform), "nvlink": "try", "carve": "on", "bus": "on"}})
	if err != nil {
		return d, err
	}
	var tried []string
	for _, other := range devs[1:] {
		p := &trialPair{ctx: ctx, dev: [2]*Device{devs[0].(*Device), other.(*Device)}}
		if err = p.try(t, &tried); errors.Is(err, nvlink.ErrNoGPU) || errors.Is(err, nvlink.ErrNoPeer) {
			err = nil // nothing to try
		}
		if err != nil {
			break
		}
	}
	if tried = slices.Compact(tried); len(tried) == 0 && err == nil {
		err = fmt.Errorf("no two devices have a link: %w", mem.ErrInvalidOperation)
	}
	for _, x := range devs {
		err = errors.Join(err, x.Close())
	}
	d.Good = err == nil
	d.Tried = fmt.Sprintf("%s, %d devices (%s): %s", time.Now().Format(time.DateOnly), len(devs), found[0].Info.Name, strings.Join(tried, ", "))
	if err != nil {
		d.Tried += fmt.Sprintf("; then: %v", err)
	}
	return d, nil
}

// LinkDriver is the version of the driver that a Trial would try.
func LinkDriver() (string, error) {
	found, err := twoLinked()
	if err != nil {
		return "", err
	}
	return found[0].device.ID.Text(ocl.DriverVersion), nil
}

// twoLinked finds the devices of the first platform that may have windows and has two.
func twoLinked() ([]Found, error) {
	all, err := discover()
	if err != nil {
		return nil, err
	}
	for i := range all {
		o := options{nvlink: nvlinkByEnv()}
		if o.over(quirksOf(all[i].Info.Platform)).windows && i+1 < len(all) && all[i+1].Platform == all[i].Platform {
			return all[i:], nil
		}
	}
	return nil, fmt.Errorf("no platform here has two GPUs that links are for: %w", mem.ErrDeviceNotFound)
}

// trialPair is two devices of a trial, the queues into them, and a kernel that adds one to each word.
type trialPair struct {
	ctx    context.Context //nolint:containedctx // of one trial
	dev    [2]*Device
	queue  [2]devices.Queue
	kernel [2]devices.Kernel
	block  [2]mem.Block
}

const addOne = `kernel void add(global uint *b, uint n) { for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) b[i] += 1; }`

// try hands over buffers of several sizes, and notes what went well.
func (p *trialPair) try(t *Trial, tried *[]string) (err error) {
	t.Say("opening the link between " + p.dev[0].name + " and " + p.dev[1].name)
	if err := p.dev[0].Windows(p.ctx, p.dev[1]); err != nil {
		return err
	}
	if err := p.dev[0].Connect(p.ctx, p.dev[1]); err != nil {
		return err
	}
	for i, d := range p.dev {
		var m devices.Module
		if m, err = d.Build(p.ctx, &devices.Program{Name: "trial", Source: addOne}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		if p.kernel[i], err = m.Kernel("add"); err != nil {
			return err
		}
		if p.queue[i], err = d.NewQueue(devices.QueueOptions{Name: d.name + ".trial", OutOfOrder: true}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.queue[i].Close()) }()
	}
	most := cmp.Or(t.Most, 500<<20)
	for _, size := range []uint64{4 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 500 << 20} {
		size = min(size, most)
		rounds := 2
		if size == 1<<20 || size == most && most < 1<<20 {
			rounds = handovers
		}
		step := fmt.Sprintf("%d hand-overs of %s", rounds, mem.FormatBytes(size))
		t.Say(step)
		if err := p.handover(size, rounds); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		if *tried = append(*tried, step); size == most {
			break
		}
	}
	return nil
}

// handover has a buffer written by the host, and then handed to and fro, each device adding one to
// its words, so that at the end each word is known.
func (p *trialPair) handover(size uint64, rounds int) (err error) {
	for i, d := range p.dev {
		var b storage.Allocation
		if b, err = storage.Allocate(d.memory, nil, size, d.info.BaseAlign); err != nil {
			return fmt.Errorf("device %s: %w", d.name, err)
		}
		defer func() { err = errors.Join(err, b.Free()) }() // what uses it has ended
		if p.block[i] = b.Block; !d.InWindow(b.Block) {
			return fmt.Errorf("device %s: %s do not lie in a window: %w", d.name, mem.FormatBytes(size), mem.ErrInvalidOperation)
		}
	}
	from, got := make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(from)
	words := binary.NativeEndian.AppendUint32(nil, uint32(size/4))
	last, err := p.submit(0, &devices.Command{Op: devices.OpCopy, Size: size, Src: devices.Loc{Bytes: from}, Dst: p.at(0)}, mem.Point{})
	for r := 0; r < rounds && err == nil; r++ {
		x := r % 2
		last, err = p.submit(x, &devices.Command{Op: devices.OpLaunch, Kernel: p.kernel[x], Global: [3]uint64{min(size/4, 1<<16), 1, 1}, Dims: 1,
			Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: p.block[x], Size: size}, {Kind: devices.ArgValue, Value: words}}}, last)
		if err == nil {
			last, err = p.submit(1-x, &devices.Command{Op: devices.OpCopy, Size: size, Src: p.at(x), Dst: p.at(1 - x)}, last)
		}
	}
	end := rounds % 2
	if err == nil {
		last, err = p.submit(end, &devices.Command{Op: devices.OpCopy, Size: size, Src: p.at(end), Dst: devices.Loc{Bytes: got}}, last)
	}
	err = errors.Join(err, last.Wait(context.WithoutCancel(p.ctx)))
	if err != nil {
		return err
	}
	for at := 0; at < len(got); at += 4 {
		if want := binary.NativeEndian.Uint32(from[at:]) + uint32(rounds); binary.NativeEndian.Uint32(got[at:]) != want {
			return fmt.Errorf("word %d is %#x, not %#x", at/4, binary.NativeEndian.Uint32(got[at:]), want)
		}
	}
	return nil
}

func (p *trialPair) at(i int) devices.Loc { return devices.Loc{Device: p.dev[i], Block: p.block[i]} }

func (p *trialPair) submit(i int, c *devices.Command, after mem.Point) (mem.Point, error) {
	var waits []mem.Wait
	if !after.IsZero() {
		waits = []mem.Wait{{Point: after, Kind: mem.Data}}
	}
	return p.queue[i].Submit(c, waits)
}
