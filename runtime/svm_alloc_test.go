package runtime_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/runtime"
)

// TestSVMArgumentsAllocateNothing counts the Go heap allocations of commands over
// shared virtual memory that were given before.
func TestSVMArgumentsAllocateNothing(t *testing.T) {
	devs := []devices.Device{null.New(devices.Config{Name: "a"}), null.New(devices.Config{Name: "b"})}
	c := must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, SVMSize: 1 << 20}))
	ctx := soon(t)
	prog := must(c.Build(ctx, three))
	k := must(prog.Kernel("three"))
	var q [2]*runtime.Queue
	for i, d := range devs {
		q[i] = must(c.NewQueue(d, runtime.QueueOptions{}))
	}
	var p [3]runtime.Pointer
	for i := range p {
		p[i] = must(c.SVMAlloc(4096, 0, 0))
	}
	buf := must(c.CreateBuffer(4096, 0, nil))
	sub := must(buf.Sub(128, 1024, 0))
	free := func(e runtime.Event, err error) {
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pattern := []byte{1, 2, 3, 4}
	for name, f := range map[string]func(){
		"launch": func() {
			for i := range q { // to and fro: copies each time
				free(q[i].EnqueueLaunch(ctx, runtime.Launch{
					Kernel: k, Global: []uint64{64, 2}, Local: []uint64{8, 1},
					Args: []runtime.Arg{runtime.SVM(p[0] + 128), runtime.Buf(sub), runtime.SVMIn(p[1]).Range(8, 16)},
					SVM:  []runtime.Arg{runtime.SVM(p[2])},
				}))
			}
		},
		"fill":   func() { free(q[0].EnqueueSVMFill(ctx, p[0]+64, pattern, 64)) },
		"memcpy": func() { free(q[1].EnqueueSVMMemcpy(ctx, p[0], p[1]+1, 64)) },
	} {
		for range 100 {
			f()
		}
		require.Zero(t, testing.AllocsPerRun(200, f), name)
	}
	for _, b := range []*runtime.Buffer{buf, sub} {
		require.NoError(t, b.Release())
	}
	for i := range p {
		require.NoError(t, c.SVMFree(p[i]), fmt.Sprint(i))
	}
	require.NoError(t, c.Close(ctx))
}
