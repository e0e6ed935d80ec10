package svm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
	"godwit/svm"
)

// modelBlock is what a test knows of a block: plain bytes, and who may do what.
type modelBlock struct {
	p     svm.Pointer
	bytes []byte
	fine  bool
	maps  []*modelMap
	lends [][2]uint64 // offsets of first and end
}

type modelMap struct {
	m        *svm.Map
	off, end uint64
	write    bool
}

// TestAgainstPlainBytes runs random allocations, frees, maps and unmaps, touches
// random bytes through the user's view, and compares what is permitted and what
// is there with a slice for each block.
func TestAgainstPlainBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 64 * 4096
		var table *svm.Table
		stopped := 0
		watch := func(t *svm.Table) (func(), error) {
			table = t
			return func() { stopped++ }, nil
		}
		trusted := rapid.IntRange(0, 3).Draw(t, "trusted") == 0
		a, err := svm.New(svm.Options{Size: size, Watch: watch, Trusted: trusted})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, a.Close())
			require.Equal(t, 1, stopped)
		}()
		var live []*modelBlock
		pick := func() *modelBlock {
			if len(live) == 0 {
				t.Skip("no block")
			}
			return live[rapid.IntRange(0, len(live)-1).Draw(t, "block")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				require.NoError(t, a.Check())
				for range 3 {
					p := svm.Pointer(a.Bounds().Start + rapid.Uint64Range(0, size-1).Draw(t, "address"))
					require.Equal(t, a.Explain(p), table.Said(p), "what a signal handler would say of %v", p)
				}
			},
			"alloc": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 5*4096).Draw(t, "size")
				align := uint64(1) << rapid.IntRange(0, 14).Draw(t, "align")
				b := &modelBlock{bytes: make([]byte, n), fine: rapid.IntRange(0, 4).Draw(t, "fine") == 0}
				var f svm.Flags
				if b.fine {
					f = svm.FineGrain
				}
				p, err := a.Alloc(n, align, f, "")
				if err != nil {
					return // full; Check says that nothing is lost
				}
				require.Zero(t, uint64(p)%align)
				b.p = p
				live = append(live, b)
			},
			"free": func(t *rapid.T) {
				b := pick()
				user, err := a.User(b.p, uint64(len(b.bytes)))
				require.NoError(t, err)
				err = a.Free(b.p, "the model")
				require.NoError(t, err)
				for _, l := range b.lends { // kernels go on
					require.ErrorIs(t, a.Recycle(b.p), mem.ErrInvalidOperation)
					require.NoError(t, a.Guard(func() { user[l[0]] ^= 1; user[l[1]-1] ^= 1 }))
					require.ErrorIs(t, a.Lend(uint64(b.p)+l[0], l[1]-l[0]), svm.ErrFreed)
					a.Return(uint64(b.p)+l[0], l[1]-l[0])
				}
				require.ErrorIs(t, a.Guard(func() { user[0] = 1 }), svm.ErrFault)
				require.NoError(t, a.Recycle(b.p))
				_, err = a.Lookup(b.p)
				require.ErrorIs(t, err, svm.ErrFreed)
				for i := range live {
					if live[i] == b {
						live = append(live[:i], live[i+1:]...)
						break
					}
				}
			},
			"map": func(t *rapid.T) {
				b := pick()
				off := rapid.Uint64Range(0, uint64(len(b.bytes))-1).Draw(t, "off")
				n := rapid.Uint64Range(1, uint64(len(b.bytes))-off).Draw(t, "size")
				flags := rapid.SampledFrom([]svm.MapFlags{svm.MapRead, svm.MapWrite, svm.MapRead | svm.MapWrite, svm.MapWriteInvalidate}).Draw(t, "flags")
				m, err := a.Map(b.p+svm.Pointer(off), n, flags)
				require.NoError(t, err)
				require.NoError(t, m.Grant())
				b.maps = append(b.maps, &modelMap{m, off, off + n, flags.Writes()})
			},
			"lend": func(t *rapid.T) {
				b := pick()
				off := rapid.Uint64Range(0, uint64(len(b.bytes))-1).Draw(t, "off")
				n := rapid.Uint64Range(1, uint64(len(b.bytes))-off).Draw(t, "size")
				if len(b.lends) > 0 && rapid.Bool().Draw(t, "again") {
					off, n = b.lends[0][0], b.lends[0][1]-b.lends[0][0]
				}
				require.NoError(t, a.Lend(uint64(b.p)+off, n))
				require.ErrorIs(t, a.Lend(uint64(b.p)+off, uint64(len(b.bytes))-off+1), mem.ErrInvalidValue)
				b.lends = append(b.lends, [2]uint64{off, off + n})
			},
			"return": func(t *rapid.T) {
				b := pick()
				if len(b.lends) == 0 {
					t.Skip("no lend")
				}
				i := rapid.IntRange(0, len(b.lends)-1).Draw(t, "lend")
				a.Return(uint64(b.p)+b.lends[i][0], b.lends[i][1]-b.lends[i][0])
				b.lends = append(b.lends[:i], b.lends[i+1:]...)
			},
			"unmap": func(t *rapid.T) {
				b := pick()
				if len(b.maps) == 0 {
					t.Skip("no map")
				}
				i := rapid.IntRange(0, len(b.maps)-1).Draw(t, "map")
				require.NoError(t, b.maps[i].m.Drop("the model"))
				b.maps = append(b.maps[:i], b.maps[i+1:]...)
			},
			"touch": func(t *rapid.T) {
				b := pick()
				i := rapid.Uint64Range(0, uint64(len(b.bytes))-1).Draw(t, "byte")
				write := rapid.Bool().Draw(t, "write")
				legal := b.fine || trusted
				for _, m := range b.maps { // rights come in pages
					page := uint64(4096)
					covers := m.off/page <= i/page && i/page <= (m.end-1)/page
					legal = legal || (covers && (m.write || !write))
				}
				for _, l := range b.lends {
					legal = legal || (l[0]/4096 <= i/4096 && i/4096 <= (l[1]-1)/4096)
				}
				user, err := a.User(b.p, uint64(len(b.bytes)))
				require.NoError(t, err)
				var got byte
				err = a.Guard(func() {
					got = user[i]
					if write {
						user[i] = got + 1
					}
				})
				require.Equal(t, legal, err == nil, "%v", err)
				if err == nil {
					require.Equal(t, b.bytes[i], got)
				}
				if err == nil && write {
					b.bytes[i]++
				}
				drivers, err := a.Bytes(b.p, uint64(len(b.bytes)))
				require.NoError(t, err)
				require.Equal(t, b.bytes, drivers)
			},
		})
	})
}
