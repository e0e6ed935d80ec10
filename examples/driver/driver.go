// Package driver is an example of a driver from outside: a store that is reached by
// requests only, each of which takes a while. docs/drivers.md goes through it.
package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/work"
	"godwit/mem"
)

func init() { devices.Register("remote", driver{}) }

type driver struct{}

// Open implements devices.Driver. The parameter latency is what a request takes, as in
// "50us".
func (driver) Open(_ context.Context, cfg devices.Config) ([]devices.Device, error) {
	latency := 50 * time.Microsecond
	for key, value := range cfg.Params {
		var err error
		if key != "latency" {
			return nil, fmt.Errorf("driver remote: parameter %q: there is latency only: %w", key, mem.ErrInvalidValue)
		}
		if latency, err = time.ParseDuration(value); err != nil {
			return nil, fmt.Errorf("driver remote: latency %q: %v: %w", value, err, mem.ErrInvalidValue)
		}
	}
	return devices.One(open(cmp.Or(cfg.Name, "remote"), max(cfg.Memory, 1<<20), latency))
}

// device is an open store.
type device struct {
	engine.Device
	blocks *engine.Blocks
	server *server
}

// open opens a store of size bytes.
func open(name string, size uint64, latency time.Duration) (*device, error) {
	addresses, err := engine.NewRegion(0, size, bufalloc.Options{})
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	d := &device{
		blocks: engine.NewBlocks(name, 128, addresses),
		server: &server{bytes: make([]byte, size), latency: latency},
	}
	info := devices.Info{
		Driver: "remote", Name: name, Type: devices.Custom, GlobalMemory: size, MaxAlloc: size, BaseAlign: 128,
		LocalMemory: 64 << 10, MaxWorkGroup: 256, MaxWorkItems: [3]uint64{256, 256, 256}, FP64: true,
	}
	d.Init(info, d.blocks, d, engine.EngineOptions{Workers: 4})
	return d, nil
}

// Execute implements engine.Executor: copies, rectangles, fills and launches, as requests.
func (d *device) Execute(cmd *devices.Command) error {
	switch cmd.Op {
	case devices.OpFill:
		bytes := make([]byte, cmd.Size)
		engine.FillBytes(bytes, cmd.Pattern)
		return d.write(&cmd.Dst, 0, bytes)
	case devices.OpLaunch:
		return d.launch(cmd)
	}
	for p := range cmd.Pieces() {
		bytes, err := d.read(&cmd.Src, p.Src, p.Size)
		if err != nil {
			return err
		}
		if err := d.write(&cmd.Dst, p.Dst, bytes); err != nil {
			return err
		}
	}
	return nil
}

// read gets size bytes from off beyond l.
func (d *device) read(l *devices.Loc, off, size uint64) ([]byte, error) {
	if l.Device == nil {
		return l.Bytes[l.Off+off:][:size], nil
	}
	addr, err := d.blocks.Pin(l.Block, l.Off+off, size)
	if err != nil {
		return nil, err
	}
	defer d.blocks.Unpin(l.Block)
	return d.server.get(addr, size), nil
}

// write puts bytes at off beyond l.
func (d *device) write(l *devices.Loc, off uint64, bytes []byte) error {
	if l.Device == nil {
		copy(l.Bytes[l.Off+off:], bytes)
		return nil
	}
	addr, err := d.blocks.Pin(l.Block, l.Off+off, uint64(len(bytes)))
	if err != nil {
		return err
	}
	defer d.blocks.Unpin(l.Block)
	d.server.put(addr, bytes)
	return nil
}

// launch runs a kernel at the other end: a work.Arg says where that has the bytes.
func (d *device) launch(cmd *devices.Command) error {
	args := make([]work.Arg, len(cmd.Args))
	for i := range cmd.Args {
		a := &cmd.Args[i]
		args[i] = work.Arg{Kind: work.BufferArg, Size: a.Size, ID: uint64(i) + 1}
		switch {
		case a.Kind == devices.ArgValue:
			args[i].Kind, args[i].Bytes, args[i].Size = work.ValueArg, a.Value, uint64(len(a.Value))
		case a.Kind == devices.ArgLocal: // the engine has memory for it
			args[i].Kind = work.LocalArg
		case a.Block.IsZero():
			args[i].Null = true
		default:
			addr, err := d.blocks.Pin(a.Block, a.Off, a.Size)
			if err != nil {
				return fmt.Errorf("kernel %s, argument %d: %w", cmd.Kernel.Name(), i, err)
			}
			defer d.blocks.Unpin(a.Block)
			args[i].Addr, args[i].Bytes = addr, d.server.bytes[addr:][:a.Size]
		}
	}
	return d.server.run(func() error { return d.Launch(cmd, args, engine.KernelRun{}) })
}

// server stands for what is at the other end of a wire.
type server struct {
	latency time.Duration
	mu      sync.Mutex
	bytes   []byte // protected by mu
}

func (s *server) get(addr, size uint64) []byte {
	time.Sleep(s.latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bytes[addr:][:size])
}

// run has nothing else happen at the other end meanwhile.
func (s *server) run(kernel func() error) error {
	time.Sleep(s.latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	return kernel()
}

func (s *server) put(addr uint64, bytes []byte) {
	time.Sleep(s.latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(s.bytes[addr:], bytes)
}
