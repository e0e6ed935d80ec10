package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
)

// step is a made-up training step on n devices: launches of three buffers each, of which now and
// then one reads what the device before has written.
type step struct {
	c    *runtime.Context
	q    []*runtime.Queue
	k    *runtime.Kernel
	bufs [][]*runtime.Buffer // by device
}

const stepBuffers = 8 // of each device

func newStep(b testing.TB, devs []devices.Device) *step {
	s := &step{c: must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))}
	s.k = must(must(s.c.Build(context.Background(), three)).Kernel("three"))
	for _, d := range devs {
		q := must(s.c.NewQueue(d, runtime.QueueOptions{}))
		var bufs []*runtime.Buffer
		for range stepBuffers {
			buf := must(s.c.CreateBuffer(4096, 0, nil))
			require.NoError(b, must(q.EnqueueFill(context.Background(), buf, []byte{1}, 0, 4096)).Wait(context.Background()))
			bufs = append(bufs, buf)
		}
		s.q, s.bufs = append(s.q, q), append(s.bufs, bufs)
	}
	return s
}

// launch is number i of the step.
func (s *step) launch(i int) (*runtime.Queue, [3]runtime.Arg) {
	d, k := i%len(s.q), i/len(s.q)
	at := s.bufs[d]
	args := [3]runtime.Arg{runtime.InOut(at[k%stepBuffers]), runtime.In(at[(k+1)%stepBuffers]), runtime.In(at[(k+3)%stepBuffers])}
	if k%25 == 24 {
		args[2] = runtime.In(s.bufs[(d+1)%len(s.q)][(k+3)%stepBuffers])
	}
	return s.q[d], args
}

func (s *step) enqueue(ctx context.Context, n int) error {
	for i := range n {
		q, args := s.launch(i)
		e, err := q.EnqueueLaunch(ctx, runtime.Launch{Kernel: s.k, Global: []uint64{16}, Args: args[:]})
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *step) record(ctx context.Context, n int) (*runtime.Graph, error) {
	rec, err := s.c.Record(s.q...)
	if err != nil {
		return nil, err
	}
	if err := s.enqueue(ctx, n); err != nil {
		return nil, err
	}
	return rec.Finish(ctx)
}

func (s *step) close(b testing.TB) {
	for _, q := range s.q {
		require.NoError(b, q.Finish(context.Background()))
	}
	for _, bufs := range s.bufs {
		for _, buf := range bufs {
			require.NoError(b, buf.Release())
		}
	}
	require.NoError(b, s.c.Close(context.Background()))
}

// BenchmarkGraph is a command of 1,000 launches over four devices: enqueued, replayed, and
// what of either the driver takes by itself (its Submit, with the waits that a replay has).
func BenchmarkGraph(b *testing.B) {
	const commands = 1000
	ctx := context.Background()
	for _, kind := range []string{"null", "cpu"} {
		var devs []devices.Device
		for i := range 4 {
			if kind == "null" {
				devs = append(devs, null.New(devices.Config{Name: fmt.Sprint("n", i)}))
				continue
			}
			devs = append(devs, must(cpu.New(cpu.Options{Name: fmt.Sprint("c", i), Workers: 1})))
		}
		s := newStep(b, devs)
		g := must(s.record(ctx, commands))
		submit, end := submitAlone(b, devs[0])
		for _, way := range []struct {
			name string
			call func() error
		}{
			{"enqueued", func() error { return s.enqueue(ctx, commands) }},
			{"replayed", func() error {
				e, err := g.Replay(ctx, s.q[0], runtime.Bindings{})
				if err != nil {
					return err
				}
				return e.Release()
			}},
			{"submitted", func() error { return submit(commands) }},
		} {
			if kind == "cpu" && way.name == "submitted" {
				continue // its commands run beside it
			}
			b.Run(kind+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := way.call(); err != nil {
						b.Fatal(err)
					}
					if kind != "null" {
						b.StopTimer()
						for _, q := range s.q {
							require.NoError(b, q.Finish(ctx))
						}
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/commands, "ns/command")
			})
		}
		require.Zero(b, g.Figures().Plain, g.Figures().Why)
		end()
		s.close(b)
	}
}

// submitAlone submits such launches to a queue of the driver's, with four waits each that were reached.
func submitAlone(b *testing.B, d devices.Device) (submit func(commands int) error, end func()) {
	k := must(must(d.Build(context.Background(), three)).Kernel("three"))
	q := must(d.NewQueue(devices.QueueOptions{Name: "alone"}))
	blocks := make([]mem.Block, 3)
	must(d.Memory().AllocAll([]mem.Request{{Size: 4096}, {Size: 4096}, {Size: 4096}}, blocks, nil))
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{16}}
	for _, bl := range blocks {
		cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: bl, Size: bl.Size})
	}
	p, err := q.Submit(&devices.Command{Op: devices.OpMarker}, nil)
	require.NoError(b, err)
	waits := []mem.Wait{{Point: p, Kind: mem.Data}, {Point: p}, {Point: p}, {Point: p}}
	return func(commands int) error {
			for range commands {
				if _, err := q.Submit(&cmd, waits); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			require.NoError(b, q.Close())
			for _, bl := range blocks {
				require.NoError(b, d.Memory().FreeAfter(bl, nil))
			}
		}
}
