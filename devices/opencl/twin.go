//go:build cgo

package opencl

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"godwit/devices/opencl/internal/ocl"
)

// twin is a program built for the inline device (inline.go), a second time. Programs that were linked, or made of
// binaries, have none, and neither have those that are made of more than their text: a header may be another one by the time
// that the twin is built. close is safe with nil.
type twin struct {
	host    *host
	source  []byte // immutable
	options string // immutable
	grouped bool   // immutable: kernels may see which work-items are a group

	asked, there atomic.Bool // somebody has asked for kernels; there are some

	mu     sync.Mutex
	closed bool        // protected by mu
	cl     ocl.Program // protected by mu; released with the twin
}

// Words without which a program is its text alone, and those without which no kernel can tell one work-group from another.
var (
	moreThanText = []string{"include", "import", "embed", "__DATE__", "__TIME"}
	ofGroups     = []string{"local", "group", "barrier"}
)

// newTwin is the twin of a program of OpenCL C; nothing is built yet. It is nil where there can be none.
func (h *host) newTwin(source []byte, options string) *twin {
	if h.inline == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(source), "\r\n", "\n"), "\\\n", "") + options // lines that go on in the next
	has := func(word string) bool { return strings.Contains(text, word) }
	if slices.ContainsFunc(moreThanText, has) {
		return nil
	}
	return &twin{host: h, source: source, options: options, grouped: slices.ContainsFunc(ofGroups, has)}
}

// ready reports whether there are kernels; the first who asks has a goroutine build them.
func (t *twin) ready() bool {
	if t.asked.CompareAndSwap(false, true) {
		t.build()
	}
	return t.there.Load()
}

func (t *twin) build() {
	t.host.builds.Go(func() {
		cl := t.compile()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed && cl != 0 {
			cl.Release()
			return
		}
		t.cl = cl
		t.there.Store(cl != 0)
	})
}

// compile is 0 where there can be no twin: the compiler refuses, or there are variables of the
// program's, which would be there twice.
func (t *twin) compile() ocl.Program {
	x := t.host.inline
	p, st := t.host.context.NewProgram(t.source)
	if st != 0 {
		return 0
	}
	st = p.Build([]ocl.DeviceID{x.device.ID}, t.host.edge.options(t.options))
	if st == 0 {
		globals, st := p.BuildInfo(x.device.ID, ocl.BuildGlobals)
		if st == 0 && len(globals) > 0 && !slices.ContainsFunc(globals, func(b byte) bool { return b != 0 }) {
			return p
		}
	}
	p.Release()
	return 0
}

// kernel makes a kernel of the twin; 0 where it is not built, or cannot be.
func (t *twin) kernel(name string) ocl.Kernel {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cl == 0 {
		return 0
	}
	k, st := t.cl.NewKernel(name)
	if st != 0 {
		return 0
	}
	return k
}

// close gives the twin up; kernels of it keep what they need.
func (t *twin) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cl != 0 {
		t.cl.Release()
	}
	t.closed, t.cl = true, 0
}
