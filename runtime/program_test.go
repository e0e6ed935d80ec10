package runtime_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// module is of one kernel of these arguments.
func module(t *testing.T, d devices.Device, args ...devices.ArgInfo) devices.Module {
	return must(d.Build(soon(t), &devices.Program{Name: "p", Go: []devices.GoKernel{{Name: "k", Func: func(*work.Group) {}, Args: args}}}))
}

func TestAModuleIsAdoptedForEachDevice(t *testing.T) {
	devs := []devices.Device{must(cpu.New(cpu.Options{})), must(cpu.New(cpu.Options{}))}
	c := must(runtime.NewContext(runtime.Options{Devices: devs[:1]}))
	m := module(t, devs[0])
	for name, call := range map[string]struct {
		on   []devices.Device
		mods []devices.Module
		want error
	}{
		"no device":        {nil, nil, mem.ErrInvalidValue},
		"too few modules":  {devs[:1], nil, mem.ErrInvalidValue},
		"nil module":       {devs[:1], []devices.Module{nil}, mem.ErrInvalidValue},
		"twice":            {slices.Concat(devs[:1], devs[:1]), []devices.Module{m, m}, mem.ErrInvalidValue},
		"another's device": {devs[1:], []devices.Module{m}, mem.ErrInvalidDevice},
	} {
		_, err := c.Adopt("p", call.on, call.mods)
		require.ErrorIs(t, err, call.want, name)
	}
	prog := must(c.Adopt("p", devs[:1], []devices.Module{m}))
	require.NoError(t, prog.Close())
	require.NoError(t, c.Close(soon(t)))
	_, err := c.Adopt("p", devs[:1], []devices.Module{m})
	require.Error(t, err)
	for _, d := range devs {
		require.NoError(t, d.Close())
	}
}

func TestDevicesAgreeOnAKernelsArguments(t *testing.T) {
	h := build(t, runtime.Options{Devices: []devices.Device{must(cpu.New(cpu.Options{})), must(cpu.New(cpu.Options{}))}}, runtime.QueueOptions{})
	const value, buffer, unknown = devices.ArgValue, devices.ArgBuffer, devices.ArgUnknown
	for _, tc := range []struct {
		a, b devices.ArgInfo
		want error
	}{
		{devices.ArgInfo{Name: "a", Kind: value, Size: 4}, devices.ArgInfo{Name: "b", Kind: value, Size: 4}, nil},
		{devices.ArgInfo{Kind: value}, devices.ArgInfo{Kind: value, Size: 4}, nil},
		{devices.ArgInfo{Kind: unknown}, devices.ArgInfo{Kind: value, Size: 4}, nil},
		{devices.ArgInfo{Kind: value, Size: 8}, devices.ArgInfo{Kind: value, Size: 4}, mem.ErrKernelDiffers},
		{devices.ArgInfo{Kind: buffer}, devices.ArgInfo{Kind: value, Size: 4}, mem.ErrKernelDiffers},
	} {
		for _, args := range [][]devices.ArgInfo{{tc.a, tc.b}, {tc.b, tc.a}} {
			prog := must(h.c.Adopt("p", h.devs, []devices.Module{module(t, h.devs[0], args[0]), module(t, h.devs[1], args[1])}))
			_, err := prog.Kernel("k")
			require.ErrorIs(t, err, tc.want, "%+v", args)
			require.NoError(t, prog.Close())
		}
	}
}
