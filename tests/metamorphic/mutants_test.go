package metamorphic_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/virtual"
	"godwit/internal/flat"
	"godwit/internal/history"
	"godwit/mem"
	"godwit/runtime"
)

// Mutants: devices in virtual time whose queues do one copy in some in a wrong way.
// Nothing above them knows, so that who only asked the planner would find nothing.

// mutation changes a command that one of the queues is given, and what that waits for, or
// leaves them as they are and returns false.
type mutation func(m *mutants, cmd *devices.Command, waits *[]mem.Wait) bool

var mutations = map[string]mutation{
	"a skipped copy": func(_ *mutants, cmd *devices.Command, _ *[]mem.Wait) bool {
		if !copies(cmd) {
			return false
		}
		*cmd = devices.Command{Op: devices.OpMarker}
		return true
	},
	"a stale source": func(m *mutants, cmd *devices.Command, _ *[]mem.Wait) bool {
		return copies(cmd) && m.elsewhere(cmd)
	},
	"a copy too early": func(_ *mutants, cmd *devices.Command, waits *[]mem.Wait) bool {
		if !copies(cmd) || len(*waits) == 0 {
			return false
		}
		*waits = nil
		return true
	},
	"a command before its copies": func(_ *mutants, cmd *devices.Command, waits *[]mem.Wait) bool {
		if cmd.Op != devices.OpLaunch || len(*waits) == 0 {
			return false
		}
		*waits = nil
		return true
	},
	"a wrong offset in the source": func(_ *mutants, cmd *devices.Command, _ *[]mem.Wait) bool {
		return copies(cmd) && misplace(&cmd.Src, cmd.Size)
	},
	"a wrong offset in the destination": func(_ *mutants, cmd *devices.Command, _ *[]mem.Wait) bool {
		return copies(cmd) && misplace(&cmd.Dst, cmd.Size)
	},
}

// copies reports whether a command is a copy that the planner has thought of.
func copies(cmd *devices.Command) bool { return cmd.Op == devices.OpCopy && cmd.Tag == 0 }

// misplace moves an end of a copy by a byte.
func misplace(l *devices.Loc, size uint64) bool {
	switch {
	case l.Device == nil:
		return false
	case l.Off+size < l.Block.Size:
		l.Off++
	case l.Off > 0:
		l.Off--
	default:
		return false
	}
	return true
}

// mutants are the devices of a run, the blocks that they and the host hold, and what is
// done wrong in one of so many commands where it can be.
type mutants struct {
	*rand.Rand
	mutate mutation
	every  int
	done   int // commands that were changed
	world  *virtual.World
	blocks []held
}

// held is a block of a memory, and which bytes of which buffer it is for.
type held struct {
	memory mem.MemoryID
	block  mem.Block
	buffer uint64
	bytes  mem.Range
}

// device is that of a memory, as it knows itself.
func (m *mutants) device(memory mem.MemoryID) devices.Device {
	if memory == mem.Host {
		return m.world.Host()
	}
	return m.world.Devices()[memory-1]
}

// elsewhere has a copy read from a memory that has room for the same bytes, and is neither
// its source nor its destination: perhaps they are stale there.
func (m *mutants) elsewhere(cmd *devices.Command) bool {
	for _, h := range m.blocks {
		if cmd.Src.Device != m.device(h.memory) || cmd.Src.Block != h.block {
			continue
		}
		from := mem.Range{Start: h.bytes.Start + cmd.Src.Off, End: h.bytes.Start + cmd.Src.Off + cmd.Size}
		for _, o := range m.blocks {
			if d := m.device(o.memory); d != cmd.Src.Device && d != cmd.Dst.Device && o.buffer == h.buffer && o.bytes.Contains(from) {
				cmd.Src = devices.Loc{Device: d, Block: o.block, Off: from.Start - o.bytes.Start}
				return true
			}
		}
	}
	return false
}

// resource is runtime.Options.Resource.
func (m *mutants) resource(id mem.MemoryID, base mem.Resource) mem.Resource {
	return &noted{base, m, id}
}

type noted struct {
	mem.Resource
	m  *mutants
	id mem.MemoryID
}

// AllocAll implements mem.Resource.
func (r *noted) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	o, err := r.Resource.AllocAll(reqs, out, reuse)
	if err == nil && o == mem.Ready {
		for i, q := range reqs {
			r.m.blocks = append(r.m.blocks, held{r.id, out[i], q.Tag, mem.Range{Start: q.Off, End: q.Off + q.Size}})
		}
	}
	return o, err
}

// FreeAfter implements mem.Resource.
func (r *noted) FreeAfter(b mem.Block, after []mem.Point) error {
	r.m.blocks = slices.DeleteFunc(r.m.blocks, func(h held) bool { return h.memory == r.id && h.block == b })
	return r.Resource.FreeAfter(b, after)
}

// mutant is a device of which some commands go wrong.
type mutant struct {
	*virtual.Device
	m *mutants
}

// Unwrap is the device without them.
func (d *mutant) Unwrap() devices.Device { return d.Device }

// NewQueue implements devices.Device. The queue takes no batches, so that each copy is a command
// of its own.
func (d *mutant) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		cmd.Args = slices.Clone(cmd.Args)
		for i := range cmd.Args {
			cmd.Args[i].Device = devicetest.Unwrap(cmd.Args[i].Device)
		}
		if d.m.IntN(d.m.every) == 0 && d.m.mutate(d.m, cmd, &waits) {
			d.m.done++
		}
		return q.Submit(cmd, waits)
	})
}

// Link implements devices.Device.
func (d *mutant) Link(from, to devices.Device) mem.Link {
	return d.Device.Link(devicetest.Unwrap(from), devicetest.Unwrap(to))
}

// mutated is a configuration of such devices.
func mutated(name string, n int, o virtual.Options, m *mutants) history.Config {
	cfg := inVirtualTime(name, n, o, history.Config{})
	open, context := cfg.Open, cfg.Context
	cfg.Open = func(f *history.Faults) ([]devices.Device, error) {
		devs, err := open(f)
		if err != nil {
			return nil, err
		}
		m.world, m.blocks = devs[0].(*virtual.Device).World(), nil
		devs = slices.Clone(devs)
		for i, d := range devs {
			devs[i] = &mutant{d.(*virtual.Device), m}
		}
		return devs, nil
	}
	cfg.Context = func(_ []devices.Device, o *runtime.Options) {
		context(m.world.Devices(), o)
		o.Resource = m.resource
	}
	cfg.Seen = func(_ []devices.Device, command uint64) []flat.Seen { return m.world.Seen(command) }
	return cfg
}

// TestStampsFindMutants has one copy in ten, or one launch, done wrong, on machines with
// peers and on those with rings, and says after how many commands that is found, one
// history after the other.
func TestStampsFindMutants(t *testing.T) {
	for _, what := range slices.Sorted(maps.Keys(mutations)) {
		for _, machine := range []string{"h200-nvlink", "h200-pcie"} {
			m := &mutants{Rand: rand.New(rand.NewPCG(1, 2)), mutate: mutations[what], every: 10}
			commands, err := 0, error(nil)
			for seed := uint64(1); err == nil; seed++ {
				require.Less(t, commands, 5000, "%s on %s: %d commands were changed", what, machine, m.done)
				var res history.Result
				res, err = history.Run(history.Generate(history.Draw{Seed: seed, Ops: 60}), mutated(machine, 4, virtual.Options{Seed: seed, Stamps: true}, m))
				commands += res.Commands
			}
			require.ErrorContains(t, err, "what it found", "%s on %s", what, machine)
			t.Logf("%s on %s: found within %d commands, of which %d were done wrong: %v", what, machine, commands, m.done, err)
		}
	}
}

// TestWhatStampsFindIsTheMutants has the same devices do nothing wrong.
func TestWhatStampsFindIsTheMutants(t *testing.T) {
	never := func(*mutants, *devices.Command, *[]mem.Wait) bool { return false }
	for seed := uint64(1); seed <= 10; seed++ {
		m := &mutants{Rand: rand.New(rand.NewPCG(1, 2)), mutate: never, every: 1}
		_, err := history.Run(history.Generate(history.Draw{Seed: seed, Ops: 60}), mutated("h200-nvlink", 4, virtual.Options{Seed: seed, Stamps: true}, m))
		require.NoError(t, err)
	}
}
