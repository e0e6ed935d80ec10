package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/internal/ledger"
	"godwit/mem"
	"godwit/mem/trace"
)

// liar is the cpu driver with queues that fill with the wrong pattern.
type liar struct{}

type liarDevice struct{ *cpu.Device }

func (liar) Open(ctx context.Context, cfg devices.Config) ([]devices.Device, error) {
	busy, store := cfg.Params["busy"] != "", cfg.Params["kernels"] != ""
	delete(cfg.Params, "busy")
	delete(cfg.Params, "kernels")
	devs, err := devices.Open(ctx, "cpu", cfg)
	if err != nil {
		return nil, err
	}
	if busy {
		return []devices.Device{busyDevice{devs[0].(*cpu.Device)}}, nil
	}
	if store {
		return []devices.Device{storeDevice{devs[0].(*cpu.Device)}}, nil
	}
	return []devices.Device{liarDevice{devs[0].(*cpu.Device)}}, nil
}

func (d liarDevice) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if cmd.Op == devices.OpFill {
			cmd.Pattern = []byte{^cmd.Pattern[0]}
		}
		return q.Submit(cmd, waits)
	})
}

func init() { devices.Register("liar", liar{}) }

// storeDevice is the cpu driver's without kernels.
type storeDevice struct{ *cpu.Device }

func (d storeDevice) Build(context.Context, *devices.Program) (devices.Module, error) {
	return nil, fmt.Errorf("device %s runs no kernels: %w", d.Info().Name, mem.ErrInvalidOperation)
}

// TestADeviceWithoutKernelsStandsBesideOthers: kernels are built where they are launched.
func TestADeviceWithoutKernelsStandsBesideOthers(t *testing.T) {
	run := func(queue string) (*Result, error) {
		s, err := Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu}, {name: store, driver: liar, params: {kernels: none}}]
buffers: [{name: a, size: 4 KiB, ramp: float}]
commands:
- {migrate: [a], queue: store}
- {launch: scale, args: [a, a, {float: 2}, {ulong: 1024}], global: 64, queue: `+queue+`}
- {read: a, queue: store}
`), Options{})
		require.NoError(t, err)
		return Run(t.Context(), s, RunOptions{})
	}
	res, err := run("d")
	require.NoError(t, err)
	require.True(t, res.Verified)
	_, err = run("store")
	require.ErrorContains(t, err, "device store runs no kernels")
	_, err = run("host")
	require.EqualError(t, err, "s.yaml:6: launch scale: queue host is of the host, which runs no kernels")
}

// TestWrongBytesAreNoticed runs on a device that computes wrongly: verification
// that cannot fail would be worth nothing.
func TestWrongBytesAreNoticed(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: liar, memory: 1 MiB}]
buffers: [{name: a, size: 4 KiB, fill: 1}]
commands:
- {fill: a, offset: 1 KiB, size: 16, pattern: 3}
- {read: a, queue: d}
expect: [{buffer: a, equals: reference}]
`), Options{})
	require.NoError(t, err)
	res, err := Run(t.Context(), s, RunOptions{})
	require.NoError(t, err)
	require.False(t, res.Verified)
	require.False(t, res.OK())
	require.Equal(t, []string{
		"#2 read a: 16 B of the bytes differ from the reference run, the first at 1024: 0xfc and not 0x03",
		"buffer a at the end: 16 B of the bytes differ from the reference run, the first at 1024: 0xfc and not 0x03",
	}, res.Mismatches)
	require.Equal(t, "differs in 1 place, the first at 1024: 0xfc", res.Expect[0].Got)
}

// TestWrongPlansContradictTheExplanation: the explanation keeps an account of
// its own.
func TestWrongPlansContradictTheExplanation(t *testing.T) {
	x := &explainer{
		memories: []string{"host", "left", "right"}, commands: func(int) string { return "fill" }, names: map[mem.BufferID]string{1: "a"},
		ledger: ledger.New[int](nil), store: func(m mem.MemoryID) mem.MemoryID { return m },
	}
	x.ledger.Create(1, 100, initial)
	step := func(from, to mem.MemoryID, start, end uint64) trace.StepRecord {
		return trace.StepRecord{Buffer: 1, Range: mem.Range{Start: start, End: end}, From: from, To: to}
	}
	right := step(0, 1, 0, 100)
	x.copy(&right, 1, false)
	x.ledger.Wrote(1, []mem.Access{{Buffer: 1, Range: mem.Range{Start: 20, End: 30}, Mode: mem.ReadWrite, Memory: 1}}, false)
	require.Empty(t, x.problems)
	again, stale := step(0, 1, 50, 60), step(0, 2, 10, 40)
	x.copy(&again, 2, false)
	x.copy(&stale, 2, false)
	require.Equal(t, []string{
		"a [50,60) was copied to left, which holds its latest content",
		"a [20,30) was copied from host, which does not hold its latest content",
	}, x.problems)
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name       string
		got, plain string // _ is not known
		want       difference
	}{
		{"equal", "0123456789", "0123456789", difference{compared: 10}},
		{"runs", "0x23xx67xx", "0123456789", difference{compared: 10, wrong: 5, places: 3, first: 1, got: 'x', want: '1', next: 10}},
		{"undefined bytes do not count", "0x23xx67xx", "0_23__678_", difference{compared: 10, undefined: 4, wrong: 1, places: 1, first: 8, got: 'x', want: '8', next: 9}},
		{"nothing", "", "", difference{}},
	} {
		for _, pad := range []int{0, 4095, 4096, 10000} {
			prefix := strings.Repeat("-", pad)
			want := c.want
			want.compared += uint64(pad)
			if want.wrong > 0 {
				want.first, want.next = want.first+uint64(pad), want.next+uint64(pad)
			}
			got, plain := []byte(prefix+c.got), []byte(prefix+c.plain)
			v := &verifier{ref: &reference{}}
			v.ref.memory.Add(plain, true)
			for i := range plain {
				if plain[i] == '_' {
					v.ref.memory.Undefine(0, mem.Range{Start: uint64(i), End: uint64(i) + 1})
				}
			}
			whole, pieces := difference{}, difference{}
			v.compareWith(&whole, 0, got, 0, 0, uint64(len(plain)))
			require.Equal(t, want, whole, c.name)
			for at := range len(got) {
				v.compareWith(&pieces, uint64(at), got[at:at+1], 0, uint64(at), uint64(len(plain)))
			}
			require.Equal(t, want, pieces, "%s, byte by byte", c.name)
		}
	}
}
