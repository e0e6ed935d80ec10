package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/study/machine"
)

const ownMachine = `
host: {enqueue: 1 us, poll: 2 us}
devices: [{name: g, count: any, copy: 3 us, launch: 5 us, bandwidth: 1 TB/s, rate: 1 Top/s}]
links:
- {between: [host, g], latency: 4 us, bandwidth: 10 GB/s}
- {between: [g, g], latency: 1 us, bandwidth: 20 GB/s}
`

// onOwn runs a scenario's text on a machine that keeps no bytes; change is made when all has run.
func onOwn(t *testing.T, text string, change func(*Scenario)) *Result {
	t.Helper()
	s, err := Parse(t.Context(), "s.yaml", []byte(text), Options{})
	require.NoError(t, err)
	opt := RunOptions{Stamps: true, Progress: func(stage string, done, total int) {
		if change != nil && stage == "finished" && done == total {
			change(s)
		}
	}}
	opt.Machine, err = machine.Parse("m.yaml", []byte(ownMachine), machine.Options{Devices: len(s.Devices)})
	require.NoError(t, err)
	res, err := Run(t.Context(), s, opt)
	require.NoError(t, err)
	return res
}

const ownKernels = `
params: {slow: {type: duration, default: 3 us}}
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 64 KB, fill: 1}, {name: b, size: 64 KB, fill: 2}]
sub-buffers: [{name: low, of: a, offset: 0, size: 32 KB}]
kernels:
- {name: mix, args: [read, read-write, float, local], time: slow + size0 / 1 KB * 1 us + global1 * 1 ns + size3 * 1 ns}
- {name: crunch, args: [read, write], operations: 1e6 * items, bytes: size1}
- {name: stream, args: [read-write], bytes: 1e6 * size0}
- {name: plain, args: read-write}
`

// What a launch takes can be worked out on paper.
func TestAKernelWithoutCodeTakesWhatItSays(t *testing.T) {
	for launch, want := range map[string]uint64{
		"{launch: mix, args: [low, b, 2.5, {local: 100}], global: [10, 20]}":                                                                      3000 + 32_000 + 20 + 100,
		"{launch: mix, args: [[{buffer: low, offset: 0, size: 1 KB}, {buffer: low, offset: 4 KB, size: 2 KB}], b, 2.5, {local: 100}], global: 1}": 3000 + 3000 + 1 + 100,
		"{launch: mix, args: [low, b, {float: 1}, {local: 100}], global: 1, time: 7 us}":                                                          7000,
		"{launch: crunch, args: [a, {buffer: b, access: write, offset: 0, size: 1 KB}], global: [5, 2]}":                                          5000 + 10_000,
		"{launch: stream, args: [low], global: 1}":                                                                                                5000 + 32_000_000,
		"{launch: plain, args: b, global: 3000}":                                                                                                  5000 + 64,
	} {
		res := onOwn(t, ownKernels+"commands: ["+strings.Replace(launch, "{", "{queue: left, ", 1)+"]\n", nil)
		require.True(t, res.OK(), "%s: %v", launch, res.Mismatches)
		require.True(t, res.Verified)
		require.Equal(t, want, res.Model.Reasons.Compute, launch)
	}
}

// Names of the launch come before the scenario's, and are gone after it.
func TestNamesOfALaunchAreItsOwn(t *testing.T) {
	res := onOwn(t, `
params: {items: {type: integer, default: 7}}
devices: [{name: d, driver: cpu}]
buffers: [{name: a, size: 64, fill: 1}]
kernels: [{name: k, args: read, time: items * 1 us + i * 1 ms}]
commands:
- repeat: 2
  as: i
  do: [{launch: k, args: a, global: 3}]
- {read: a, size: items}
`, nil)
	require.Equal(t, uint64(3000+3000+1_000_000), res.Model.Reasons.Compute)
	require.True(t, strings.HasPrefix(res.Commands[2].Text, "read a[0,7)"), res.Commands[2].Text)
}

// Whatever part of what a launch says it does is not what it did, a stamp shows it.
func TestAWrongByteOfAKernelWithoutCodeShows(t *testing.T) {
	const text = ownKernels + `
commands:
- {launch: crunch, args: [a, b], global: 1, queue: left}
- launch: mix
  args: [[{buffer: b, offset: 0, size: 1 KB}, {buffer: b, offset: 8 KB, size: 1 KB}], [{buffer: a, offset: 0, size: 1 KB}, {buffer: a, offset: 4 KB, size: 1 KB}], 0, {local: 8}]
  global: 1
  queue: right
- {launch: crunch, args: [a, {buffer: b, offset: 512, size: 8 KB}], global: 1, queue: left}
- {read: b, queue: right}
- {read: a, queue: right}
`
	require.True(t, onOwn(t, text, nil).Verified)
	command := func(i int) func(s *Scenario) *command { return func(s *Scenario) *command { return &s.Commands[i] } }
	second := command(1)
	for what, change := range map[string]func(s *Scenario){
		"a range of what is read is longer":   func(s *Scenario) { second(s).Args[0].Used.End++ },
		"the second range begins earlier":     func(s *Scenario) { second(s).Args[1].Used.Start -= 8 },
		"a range of what is written moves":    func(s *Scenario) { second(s).Args[3].Used = second(s).Args[3].Used.Shift(8) },
		"what is written is another argument": func(s *Scenario) { a := second(s).Args; a[2], a[3] = a[3], a[2] },
		"what was to be written is not":       func(s *Scenario) { command(2)(s).Args[1].Used.Start += 64 },
		"it writes another buffer":            func(s *Scenario) { command(0)(s).Args[1].Place.Buffer = 0 },
		"a launch is none":                    func(s *Scenario) { s.Commands[0].Args = nil },
	} {
		res := onOwn(t, text, change)
		require.False(t, res.Verified, what)
		require.NotEmpty(t, res.Mismatches, what)
	}
}

// twin is a kernel without code that does to its arguments what one of the library's does.
func twin(k *devices.GoKernel, cost string) string {
	var args []string
	for _, a := range k.Args {
		switch a.Kind {
		case devices.ArgBuffer:
			args = append(args, a.Access.String())
		case devices.ArgLocal:
			args = append(args, "local")
		default:
			args = append(args, a.Type)
		}
	}
	return fmt.Sprintf("- {name: own_%s, args: [%s]%s}\n", k.Name, strings.Join(args, ", "), cost)
}

// A kernel without code with the accesses and the time of one of the library's moves the same, takes
// as long, and leaves the same stamps.
func TestAKernelWithoutCodeIsAsOneWithTheSameAccesses(t *testing.T) {
	all := slices.DeleteFunc(slices.Clone(library().Go), func(k devices.GoKernel) bool {
		return slices.ContainsFunc(k.Args, func(a devices.ArgInfo) bool {
			return a.Kind != devices.ArgBuffer && a.Kind != devices.ArgValue && a.Kind != devices.ArgLocal
		})
	})
	require.Greater(t, len(all), 5)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(33, seed))
		says := seed%3 == 0 // what it takes; else the machine's roofline, computed by it or by us
		var declared, kernels, own strings.Builder
		buffers := 2 + r.IntN(3)
		fmt.Fprintf(&declared, "devices: [{name: d, driver: cpu, count: 3, memory: 1 MB}]\nbuffers:\n")
		for i := range buffers {
			fmt.Fprintf(&declared, "- {name: b%d, size: 128 KB%s}\n", i, []string{"", ", fill: 1"}[r.IntN(2)])
		}
		for i := range all {
			cost, sum := "", "1"
			for k, a := range all[i].Args {
				if a.Kind == devices.ArgBuffer {
					sum += fmt.Sprintf(" + size%d", k)
				}
			}
			switch seed % 3 {
			case 0:
				cost = ", time: 1 us + items * 1 ns"
			case 1:
				cost = ", operations: items, bytes: " + sum + " - 1"
			}
			kernels.WriteString(twin(&all[i], cost))
		}
		for range 12 {
			k := &all[r.IntN(len(all))]
			var args []string
			for _, a := range k.Args {
				switch a.Kind {
				case devices.ArgBuffer:
					args = append(args, fmt.Sprintf("{buffer: b%d, access: %v, offset: %d KB, size: %d KB}", r.IntN(buffers), a.Access, r.IntN(64), 1+r.IntN(64)))
				case devices.ArgLocal:
					args = append(args, "{local: 64}")
				default:
					args = append(args, "1")
				}
			}
			items, q := 1+r.IntN(10_000), r.IntN(3)
			takes := ""
			if says {
				takes = fmt.Sprintf(", time: %d ns", 1000+items)
			}
			fmt.Fprintf(&own, "- {launch: %s, args: [%s], global: %d, queue: d%d%s}\n", k.Name, strings.Join(args, ", "), items, q, takes)
		}
		theirs := declared.String() + "commands:\n" + own.String()
		ours := declared.String() + "kernels:\n" + kernels.String() + "commands:\n" + strings.ReplaceAll(own.String(), "launch: ", "launch: own_")
		want, got := onOwn(t, theirs, nil), onOwn(t, ours, nil)
		require.Equal(t, want.Verified, got.Verified, "seed %d", seed)
		require.Empty(t, got.Mismatches)
		require.Equal(t, want.BytesCompared, got.BytesCompared)
		require.Equal(t, want.BytesUndefined, got.BytesUndefined)
		require.Equal(t, want.Model.Makespan, got.Model.Makespan, "seed %d", seed)
		require.Equal(t, spansOf(want), spansOf(got))
		require.Len(t, got.Copies, len(want.Copies))
		for i, c := range want.Copies {
			c.step, c.Reason = got.Copies[i].step, got.Copies[i].Reason // of two runs; it names the kernel
			require.Equal(t, c, got.Copies[i])
		}
	}
}

// spansOf are what ran, and when.
func spansOf(r *Result) (out []string) {
	for _, s := range r.Model.spans {
		out = append(out, fmt.Sprint(s.Op, s.Tag, s.On, s.From, s.To, s.Bytes, s.Engines, s.Queued, s.Ready, s.Started, s.Ended))
	}
	return out
}

func TestKernelsWithoutCodeAreRefusedWhereBytesAreKept(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(ownKernels+"commands:\n- {launch: plain, args: b, global: 1, queue: left}\n"), Options{})
	require.NoError(t, err)
	_, err = Run(t.Context(), s, RunOptions{})
	require.EqualError(t, err, "s.yaml:12: launch plain: the kernel of line 10 has no code, and device left would have to run it: want --machine and --stamps, or a machine with bytes: false")
	m, err := machine.Parse("m.yaml", []byte(ownMachine), machine.Options{Devices: 2})
	require.NoError(t, err)
	_, err = Run(t.Context(), s, RunOptions{Machine: m})
	require.EqualError(t, err, "s.yaml:12: launch plain: the kernel of line 10 has no code, and the devices of machine m keep bytes: want --machine and --stamps, or a machine with bytes: false")
}

// The example of the documentation moves the edges and nothing else, in stripes and in tiles.
func TestTheHaloOfNinePointsMovesItsEdges(t *testing.T) {
	for px, want := range map[string]uint64{"1": 4 * 6 * 64 * 8, "2": 4 * 4 * (32 + 32 + 1) * 8} {
		s, err := Load(t.Context(), "../../docs/study/halo9.yaml", Options{Set: map[string]string{"n": "64", "px": px}})
		require.NoError(t, err)
		opt := RunOptions{Stamps: true}
		opt.Machine, err = machine.Named("h200-nvlink", machine.Options{Devices: len(s.Devices)})
		require.NoError(t, err)
		res, err := Run(t.Context(), s, opt)
		require.NoError(t, err)
		require.True(t, res.OK() && res.Verified, "%v %v", res.Mismatches, res.Expect)
		require.Equal(t, want, res.BytesMoved)
	}
}
