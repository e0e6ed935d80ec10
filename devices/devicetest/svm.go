package devicetest

import (
	"encoding/binary"
	"sync"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/history"
	"godwit/mem"
)

// svmBase is where the suite puts shared virtual memory.
const svmBase = 0x7000_0000_0000

func svmArg(b mem.Block, off, size, pointer uint64) devices.Arg {
	return devices.Arg{Kind: devices.ArgSVM, Block: b, Off: off, Size: size, Pointer: pointer}
}

func words(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// testSVM: kernels see shared virtual memory at the addresses that launches give
// it, wherever the blocks are, as arguments and by pointers in memory; what no
// argument names they do not reach.
func testSVM(e *env) {
	if !e.kernels || !e.dev.Info().SVM.Coarse {
		e.noSVM()
		e.t.Skip("the device binds no shared virtual memory")
	}
	if e.dev.Info().SVM.InPlace {
		testSVMInPlace(e)
		return
	}
	require.NoError(e.t, e.dev.ReserveSVM(mem.Range{Start: svmBase, End: svmBase + 1<<32}))
	for _, s := range e.dev.Info().Spaces {
		require.ErrorIs(e.t, e.dev.ReserveSVM(mem.Range{Start: s.Base + 1, End: s.Base + 2}), mem.ErrInvalidOperation, s.Name)
	}
	m, err := e.dev.Build(e.context(), history.Pointers)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, m.Close()) }()
	k, q := e.kernel(m, "follow"), e.inOrder()
	align := e.dev.Info().BaseAlign
	a, b, out := e.alloc(align+64), e.alloc(64), e.alloc(16)
	// a lies at svmBase, b far from it: a[align+16] -> b[32] -> a[align+48].
	inA, inB := uint64(svmBase)+align, uint64(svmBase+0x100_0000)
	list := words(0, 0, inB+32, 1, 0, 0, 0, 4)
	e.wait(q, e.write(q, a, align, list), e.write(q, b, 32, words(inA+48, 2)))
	head, rest, result := svmArg(a, align+16, 16, inA+16), svmArg(a, align, 64, inA), bufferArg(out, 0, 16)
	e.wait(q, e.submit(q, launchOf(k, 1, 1, head, result, svmArg(b, 0, 64, inB), rest)))
	got := make([]byte, 16)
	e.wait(q, e.read(q, out, 0, got))
	e.equal(words(7, inA+16), got, "what was found")
	got = make([]byte, 64)
	e.wait(q, e.read(q, a, align, got))
	e.equal(words(0, 0, inB+32, 1000, 0, 0, 0, 1000), got, "the list")

	for what, cmd := range map[string]*devices.Command{
		"past the block's end": launchOf(k, 1, 1, svmArg(a, align, 65, inA), result),
		"beyond, past the end": launchOf(k, 1, 1, head, result, svmArg(b, 1, 64, inB)),
	} {
		_, err := q.Submit(cmd, nil)
		require.ErrorIs(e.t, err, mem.ErrInvalidValue, what)
	}
	if !e.content {
		return
	}
	for what, cmd := range map[string]*devices.Command{
		"b is not named":         launchOf(k, 1, 1, head, result, rest),
		"the end is not named":   launchOf(k, 1, 1, head, result, svmArg(b, 0, 64, inB), svmArg(a, align, 48, inA)),
		"a null pointer is used": launchOf(e.kernel(m, "increment"), 1, 1, svmArg(mem.Block{}, 0, 0, 0), ulongArg(1)),
	} {
		p := e.submit(q, cmd)
		require.ErrorIs(e.t, e.failed(p), mem.ErrFault, what)
	}
}

// noSVM: where there is none, pointers are refused, and the device says why.
func (e *env) noSVM() {
	if e.dev.Info().SVM.Coarse || !e.kernels {
		return
	}
	m, err := e.dev.Build(e.context(), history.Pointers)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, m.Close()) }()
	null := devices.Arg{Kind: devices.ArgSVM}
	_, err = e.inOrder().Submit(launchOf(e.kernel(m, "follow"), 1, 1, null, null), nil)
	require.ErrorIs(e.t, err, mem.ErrInvalidOperation)
	require.ErrorContains(e.t, err, e.dev.Info().SVM.Why)
}

// lending counts what launches are lent.
type lending struct {
	t      require.TestingT
	mu     sync.Mutex
	lent   map[mem.Range]int // protected by mu
	total  int               // protected by mu
	refuse error             // protected by mu: what a second Lend says
}

func (l *lending) Lend(addr, size uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil && len(l.lent) > 0 {
		return l.refuse
	}
	l.lent[mem.Range{Start: addr, End: addr + size}]++
	l.total++
	return nil
}

func (l *lending) Return(addr, size uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := mem.Range{Start: addr, End: addr + size}
	require.Positive(l.t, l.lent[r])
	if l.lent[r]--; l.lent[r] == 0 {
		delete(l.lent, r)
	}
}

// all returns how many lends there have been, and requires that none is left.
func (l *lending) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l.t, l.lent)
	return l.total
}

// testSVMInPlace: kernels see the host's blocks at their addresses, lent from
// before the launch until its point, and commands move their bytes.
func testSVMInPlace(e *env) {
	host := engine.NewHost(engine.HostOptions{})
	defer func() { require.NoError(e.t, host.Close()) }()
	m, err := e.dev.Build(e.context(), history.Pointers)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, m.Close()) }()
	k, q, space := e.kernel(m, "follow"), e.inOrder(), &lending{t: e.t, lent: make(map[mem.Range]int)}
	blocks := make([]mem.Block, 2)
	got, err := host.Memory().AllocAll([]mem.Request{{Size: 4096}, {Size: 4096}}, blocks, nil)
	require.NoError(e.t, err)
	require.Equal(e.t, mem.Ready, got)
	a, b, out := blocks[0], blocks[1], e.alloc(16)
	at := func(b mem.Block, off uint64) devices.Loc { return devices.Loc{Device: host, Block: b, Off: off} }
	bytes := func(b []byte) devices.Loc { return devices.Loc{Bytes: b} }
	move := func(dst, src devices.Loc, n int) {
		e.wait(q, e.submit(q, &devices.Command{Op: devices.OpCopy, Size: uint64(n), Dst: dst, Src: src}))
	}
	arg := func(b mem.Block, off, size uint64) devices.Arg {
		return devices.Arg{Kind: devices.ArgSVM, Device: host, Block: b, Off: off, Size: size, Pointer: b.Addr + off, Space: space}
	}
	// a[16] -> b[32] -> a[48].
	list := words(0, 0, b.Addr+32, 1, 0, 0, 0, 4)
	for round := range 3 {
		move(at(a, 0), bytes(list), len(list))
		move(at(b, 32), bytes(words(a.Addr+48, 2)), 16)
		e.wait(q, e.submit(q, launchOf(k, 1, 1, arg(a, 16, 16), bufferArg(out, 0, 16), arg(b, 32, 16), arg(a, 0, 64))))
		require.Equal(e.t, 3*(round+1), space.all())
		result := make([]byte, 16)
		e.wait(q, e.read(q, out, 0, result))
		e.equal(words(7, a.Addr+16), result, "what was found")
		result = make([]byte, 64)
		move(at(b, 64), at(a, 0), 64) // within the host's memory
		move(bytes(result), at(b, 64), 64)
		e.equal(words(0, 0, b.Addr+32, 1000, 0, 0, 0, 1000), result, "the list")
	}
	for _, n := range []int{1, 4, 16, 128} { // also where the address is no multiple of the pattern
		p, off := noise(uint64(n), n), uint64(n/2)
		e.wait(q, e.submit(q, &devices.Command{Op: devices.OpFill, Size: 256, Dst: at(a, off), Pattern: p}))
		result := make([]byte, 256)
		move(bytes(result), at(a, off), 256)
		want := make([]byte, 256)
		engine.FillBytes(want, p)
		e.equal(want, result, "what was filled")
	}
	// A buffer may be the host's block, too; and a null pointer is one.
	move(at(a, 0), bytes(words(0, 5)), 16)
	inPlace := devices.Arg{Kind: devices.ArgBuffer, Device: host, Block: a, Size: 16}
	e.wait(q, e.submit(q, launchOf(k, 1, 1, inPlace, arg(b, 8, 16))))
	result := make([]byte, 16)
	move(bytes(result), at(b, 8), 16)
	e.equal(words(5, a.Addr), result, "of a buffer in place")
	e.wait(q, e.submit(q, launchOf(k, 1, 1, devices.Arg{Kind: devices.ArgSVM}, arg(b, 8, 16))))
	move(bytes(result), at(b, 8), 16)
	e.equal(words(0, 0), result, "of a null pointer")

	lends := space.all()
	space.refuse = errTest
	_, err = q.Submit(launchOf(k, 1, 1, arg(a, 0, 16), arg(b, 8, 16)), nil)
	require.ErrorIs(e.t, err, errTest)
	space.refuse = nil
	_, err = q.Submit(launchOf(k, 1, 1, arg(a, 16, 16), bufferArg(out, 0, 16), arg(a, 4090, 16)), nil)
	require.ErrorIs(e.t, err, mem.ErrInvalidValue, "past the block's end")
	_, err = q.Submit(launchOf(k, 1, 1, devices.Arg{Kind: devices.ArgSVM, Block: out, Size: 16, Pointer: a.Addr}, arg(b, 8, 16)), nil)
	require.ErrorIs(e.t, err, mem.ErrInvalidOperation, "a block of its own")
	require.Equal(e.t, lends+1, space.all(), "a refused launch keeps nothing")
	for _, b := range blocks {
		require.NoError(e.t, host.Memory().FreeAfter(b, nil))
	}
}
