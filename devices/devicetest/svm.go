package devicetest

import (
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// svmBase is where the suite puts shared virtual memory.
const svmBase = 0x7000_0000_0000

// chase follows a list whose links are addresses: pairs {next, value} of words.
// It adds the values up and puts 1000 in their place.
var chase = &devices.Program{Name: "chase", Go: []devices.GoKernel{{
	Name: "chase",
	Args: []devices.ArgInfo{{Name: "list", Kind: devices.ArgBuffer}, {Name: "out", Kind: devices.ArgBuffer}},
	Func: func(g *devices.Group) {
		sum := uint64(0)
		for at := g.Addr(0); at != 0; at = devices.LoadAt[uint64](g, at) {
			sum += devices.LoadAt[uint64](g, at+8)
			devices.StoreAt(g, at+8, uint64(1000))
		}
		out := devices.Global[uint64](g, 1)
		out.Store(0, sum)
		out.Store(1, g.Addr(0))
		out.Store(2, devices.Global[uint64](g, 0).Load(1))
	},
}}}

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
	r, ok := e.dev.(devices.SVMReserver)
	if !ok || !e.kernels {
		e.t.Skip("the device binds no shared virtual memory")
	}
	require.True(e.t, e.dev.Info().SVM.Coarse)
	require.NoError(e.t, r.ReserveSVM(mem.Range{Start: svmBase, End: svmBase + 1<<32}))
	for _, s := range e.dev.Info().Spaces {
		require.ErrorIs(e.t, r.ReserveSVM(mem.Range{Start: s.Base + 1, End: s.Base + 2}), mem.ErrInvalidOperation, s.Name)
	}
	m, err := e.dev.Build(e.context(), chase)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, m.Close()) }()
	k, q := e.kernel(m, "chase"), e.inOrder()
	align := e.dev.Info().BaseAlign
	a, b, out := e.alloc(align+64), e.alloc(64), e.alloc(24)
	// a lies at svmBase, b far from it: a[align+16] -> b[32] -> a[align+48].
	inA, inB := uint64(svmBase)+align, uint64(svmBase+0x100_0000)
	list := words(0, 0, inB+32, 1, 0, 0, 0, 4)
	e.wait(q, e.write(q, a, align, list), e.write(q, b, 32, words(inA+48, 2)))
	head, rest, result := svmArg(a, align+16, 16, inA+16), svmArg(a, align, 64, inA), bufferArg(out, 0, 24)
	e.wait(q, e.submit(q, launchOf(k, 1, 1, head, result, svmArg(b, 0, 64, inB), rest)))
	got := make([]byte, 24)
	e.wait(q, e.read(q, out, 0, got))
	e.equal(words(7, inA+16, 1000), got, "what was found")
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
		"a null pointer is used": launchOf(k, 1, 1, svmArg(mem.Block{}, 0, 0, 0), result),
	} {
		p := e.submit(q, cmd)
		require.ErrorIs(e.t, e.failed(p), devices.ErrFault, what)
	}
}
