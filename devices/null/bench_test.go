package null_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/mem"
)

func launch(b *testing.B, d devices.Device) *devices.Command {
	m, err := d.Build(context.Background(), &devices.Program{Name: "p", Go: []devices.GoKernel{{
		Name: "k",
		Args: []devices.ArgInfo{{Name: "x", Kind: devices.ArgBuffer}, {Name: "y", Kind: devices.ArgBuffer}, {Name: "z", Kind: devices.ArgBuffer}},
		Func: func(*work.Group) {},
	}}})
	require.NoError(b, err)
	k, err := m.Kernel("k")
	require.NoError(b, err)
	blocks := make([]mem.Block, 3)
	out, err := d.Memory().AllocAll([]mem.Request{{Size: 4096}, {Size: 4096}, {Size: 4096}}, blocks, nil)
	require.NoError(b, err)
	require.Equal(b, mem.Ready, out)
	cmd := &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{1024}}
	for _, bl := range blocks {
		cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: bl, Size: bl.Size})
	}
	b.Cleanup(func() {
		for _, bl := range blocks {
			require.NoError(b, d.Memory().FreeAfter(bl, nil))
		}
		require.NoError(b, d.Close())
	})
	return cmd
}

// BenchmarkSubmit is a launch with three buffer arguments and three waits:
// reached, so that it ends within Submit, or gated, so that it goes through a
// record and a worker (the time is then of submission and execution together).
func BenchmarkSubmit(b *testing.B) {
	for _, ooo := range []bool{false, true} {
		for _, gated := range []bool{false, true} {
			name := map[bool]string{false: "in-order", true: "out-of-order"}[ooo] + "/" +
				map[bool]string{false: "reached", true: "gated"}[gated]
			b.Run(name, func(b *testing.B) {
				d := null.New(devices.Config{})
				cmd := launch(b, d)
				q, err := d.NewQueue(devices.QueueOptions{Name: "q", OutOfOrder: ooo})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, q.Close()) })
				user := mem.NewTimeline("user", false, nil)
				first := user.Next()
				user.End(first, nil)
				waits := []mem.Wait{{Point: first, Kind: mem.Data}, {Point: first}, {Point: first}}
				b.ReportAllocs()
				for b.Loop() {
					if !gated {
						if _, err := q.Submit(cmd, waits); err != nil {
							b.Fatal(err)
						}
						continue
					}
					gate := user.Next()
					waits[0].Point = gate
					p, err := q.Submit(cmd, waits)
					if err != nil {
						b.Fatal(err)
					}
					user.End(gate, nil)
					if err := q.Wait(context.Background(), p, devices.Park); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
