package backend_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	_ "godwit/devices/tce"
	"godwit/devices/work"
	"godwit/lib/backend"
	"godwit/mem"
	"godwit/runtime"
)

// listed is a backend that has the devices it is told to have, all of them really
// cpu devices.
type listed struct {
	infos []devices.Info
	err   error
	opens int
}

func (l *listed) Name() string     { return "cl" }
func (l *listed) OneStorage() bool { return false }

func (l *listed) Candidates(context.Context) ([]backend.Candidate, error) {
	var all []backend.Candidate
	for i, info := range l.infos {
		all = append(all, backend.Candidate{Name: "cl:" + string(rune('0'+i)), Info: info})
	}
	return all, l.err
}

func (l *listed) Open(ctx context.Context, c backend.Candidate) (devices.Device, error) {
	l.opens++
	d, err := devices.Open(ctx, "cpu", devices.Config{Name: c.Info.Name})
	if err != nil {
		return nil, err
	}
	return d[0], nil
}

var (
	pocl  = devices.Info{Platform: "Portable", Name: "pthread", Type: devices.CPU, ComputeUnits: 64, GlobalMemory: 1 << 36}
	small = devices.Info{Platform: "Intel(R) OpenCL", Name: "Iris", Type: devices.GPU, ComputeUnits: 8, GlobalMemory: 1 << 32, SharesHost: true}
	big   = devices.Info{Platform: "NVIDIA CUDA", Name: "H200", Type: devices.GPU, ComputeUnits: 132, GlobalMemory: 141 << 30}
	accel = devices.Info{Platform: "Fpga", Name: "Stratix", Type: devices.Accelerator, ComputeUnits: 1}
)

func TestANameStandsForTheBestDeviceAndTheReasonSaysWhy(t *testing.T) {
	missing := mem.ErrDeviceNotFound
	for _, tc := range []struct {
		title  string
		have   []devices.Info
		name   string
		device string
		reason string
		fails  error
	}{
		{"auto prefers the bigger GPU", []devices.Info{pocl, small, accel, big}, "auto", "H200", "best of 4", nil},
		{"empty is auto", []devices.Info{accel, pocl}, "", "Stratix", "best of 2", nil},
		{"auto takes an OpenCL CPU before the driver", []devices.Info{pocl}, "auto", "pthread", "no GPU and no accelerator", nil},
		{"auto without OpenCL", nil, "auto", "cpu", "since there is no OpenCL device", nil},
		{"gpu", []devices.Info{pocl, small}, "GPU", "Iris", "best of 1", nil},
		{"no gpu", []devices.Info{pocl}, "gpu", "", "pthread", missing},
		{"accel", []devices.Info{pocl, accel, big}, "accel", "Stratix", "of type accel", nil},
		{"cpu is the driver", []devices.Info{pocl, big}, "cpu", "cpu", "Go functions", nil},
		{"a driver's name", []devices.Info{big}, "tce", "tce", "simulated driver", nil},
		{"an index", []devices.Info{pocl, small, big}, "cl:1", "Iris", "cl:1", nil},
		{"a part of a platform's name", []devices.Info{pocl, small, big}, "nvidia", "H200", "1 of 3", nil},
		{"a part of a device's name", []devices.Info{pocl, small, big}, "iris", "Iris", "1 of 3", nil},
		{"nonsense", []devices.Info{pocl}, "nonesuch", "", "tce", missing},
	} {
		t.Run(tc.title, func(t *testing.T) {
			m := backend.NewManager(backend.Options{CL: &listed{infos: tc.have}})
			defer func() { require.NoError(t, m.Close(context.Background())) }()
			h, err := m.Default(tc.name)
			if tc.fails != nil {
				require.ErrorIs(t, err, tc.fails)
				require.ErrorContains(t, err, tc.reason)
				return
			}
			require.NoError(t, err)
			require.Contains(t, h.DeviceName(), tc.device)
			require.Contains(t, h.Reason(), tc.reason)
		})
	}
}

func TestAutoDoesNotHideThatDiscoveryFailed(t *testing.T) {
	broken := errors.New("the loader is broken")
	m := backend.NewManager(backend.Options{CL: &listed{err: broken}})
	_, err := m.Default("auto")
	require.ErrorIs(t, err, broken)
	require.NoError(t, m.Close(context.Background()))
}

func TestADeviceIsOpenedOnceHoweverItIsNamed(t *testing.T) {
	l := &listed{infos: []devices.Info{pocl, big}}
	m := backend.NewManager(backend.Options{CL: l})
	require.Zero(t, l.opens, "nothing is opened before it is asked for")
	a, err := m.Default("auto")
	require.NoError(t, err)
	for _, name := range []string{"gpu", "cl:1", "H200", "cl", "NVIDIA"} {
		b, err := m.Default(name)
		require.NoError(t, err)
		require.Same(t, a, b, name)
	}
	require.Equal(t, 1, l.opens)
	require.Len(t, m.Handles(), 1)
	require.NoError(t, m.Close(context.Background()))
	require.NoError(t, m.Close(context.Background()), "closing is idempotent")
	_, err = m.Default("auto")
	require.ErrorIs(t, err, mem.ErrClosed)
}

func TestAGroupSharesAContext(t *testing.T) {
	m := backend.NewManager(backend.Options{CL: &listed{infos: []devices.Info{big, big, small}}})
	hs, err := m.Group("nvidia", 0)
	require.NoError(t, err)
	require.Len(t, hs, 2)
	require.True(t, hs[0].SharesContext(hs[1]))
	require.Same(t, hs[0].Context(), hs[1].Context())
	tces, err := m.Group("tce", 3)
	require.NoError(t, err)
	require.Len(t, tces, 3)
	require.False(t, tces[0].SharesContext(hs[0]))
	_, err = m.Group("nvidia", 3)
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	_, err = m.Group("cpu", 0)
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	require.NoError(t, m.Close(context.Background()))
}

func TestCloseNamesBuffersThatNobodyReleasedAndFreesThem(t *testing.T) {
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	require.NoError(t, err)
	_, err = h.Context().CreateNamedBuffer("forgotten", 64, 0, nil)
	require.NoError(t, err)
	_, err = h.Pool().Get(h.Queue(), 100, 0)
	require.NoError(t, err)
	err = m.Close(context.Background())
	require.ErrorIs(t, err, runtime.ErrLeak)
	require.ErrorContains(t, err, "forgotten")
	require.Equal(t, err, m.Close(context.Background()))
}

func TestCloseAndFinishObeyTheirContextOnAStuckDevice(t *testing.T) {
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	require.NoError(t, err)
	release := make(chan struct{})
	stuck := stuckProgram(func() { <-release })
	k, err := h.KernelOf(context.Background(), stuck, "stuck")
	require.NoError(t, err)
	b, err := h.Context().CreateBuffer(4, 0, make([]byte, 4))
	require.NoError(t, err)
	e, err := h.Queue().EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(b)}})
	require.NoError(t, err)
	require.NoError(t, e.Release())
	require.NoError(t, b.Release())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.Queue().Finish(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, m.Finish(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, m.Close(ctx), context.DeadlineExceeded)
	close(release)
	require.NoError(t, m.Close(context.Background()), "the same closing goes on to its end")
}

func TestScopesNestAndRestore(t *testing.T) {
	m := backend.NewManager(backend.Options{})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	outer := backend.WithManager(context.Background(), m)
	require.Nil(t, backend.Active(outer))
	onCPU, err := backend.With(outer, "cpu")
	require.NoError(t, err)
	onTCE, err := backend.With(onCPU, "tce")
	require.NoError(t, err)
	require.Equal(t, "cpu", backend.Active(onCPU).Backend())
	require.Equal(t, "tce", backend.Active(onTCE).Backend())
	require.Equal(t, "cpu", backend.Active(onCPU).Backend(), "the outer scope is as it was")
	require.Nil(t, backend.Active(outer))
	h, err := backend.Default(onTCE, "")
	require.NoError(t, err)
	require.Same(t, backend.Active(onTCE), h)
	_, err = backend.With(onTCE, "nonesuch")
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	_, err = backend.Default(context.Background(), "cpu")
	require.ErrorIs(t, err, mem.ErrInvalidContext)
}

func TestTheEnvironmentIsReadWhenAQueueIsMade(t *testing.T) {
	m := backend.NewManager(backend.Options{})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	t.Setenv("GODWIT_ASYNC_H2D", "0")
	a, err := m.Default("cpu")
	require.NoError(t, err)
	t.Setenv("GODWIT_ASYNC_H2D", "1")
	b, err := m.Default("tce")
	require.NoError(t, err)
	require.False(t, a.Async())
	require.True(t, b.Async())
	require.True(t, a.Has(backend.FP16), "the cpu backend always has half precision")
	require.False(t, b.Has(backend.FP16))
}

// stuckProgram is a kernel that blocks in wait, and in OpenCL C never ends.
func stuckProgram(wait func()) *devices.Program {
	return &devices.Program{
		Name:   "stuck",
		Source: `__kernel void stuck(__global volatile int *flag) { while (flag[0] == 0) { } }`,
		Go: []devices.GoKernel{{Name: "stuck",
			Args: []devices.ArgInfo{{Name: "flag", Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: "int"}},
			Func: func(*work.Group) { wait() },
		}},
	}
}
