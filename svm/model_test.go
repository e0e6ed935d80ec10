package svm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/svm"
)

// modelBlock is what a test knows of a block: plain bytes, and who may do what.
type modelBlock struct {
	p     svm.Pointer
	bytes []byte
	fine  bool
	maps  []*modelMap
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
		a, err := svm.New(svm.Options{Size: size})
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
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
				require.Equal(t, len(live), a.Stats().Blocks)
			},
			"alloc": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 5*4096).Draw(t, "size")
				align := uint64(1) << rapid.IntRange(0, 14).Draw(t, "align")
				b := &modelBlock{bytes: make([]byte, n), fine: rapid.IntRange(0, 4).Draw(t, "fine") == 0}
				var f svm.Flags
				if b.fine {
					f = svm.FineGrain
				}
				p, err := a.Alloc(n, align, f, "", 0)
				if err != nil {
					return // full; Check says that nothing is lost
				}
				require.Zero(t, uint64(p)%align)
				b.p = p
				live = append(live, b)
			},
			"free": func(t *rapid.T) {
				b := pick()
				f, err := a.Free(b.p, "the model")
				require.NoError(t, err)
				require.NoError(t, a.Recycle(f))
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
				legal := true
				for _, m := range b.maps {
					legal = legal && (m.end <= off || off+n <= m.off || (!m.write && !flags.Writes()))
				}
				m, err := a.Map(b.p+svm.Pointer(off), n, flags)
				require.Equal(t, legal, err == nil, "%v", err)
				if err == nil {
					require.NoError(t, m.Grant())
					b.maps = append(b.maps, &modelMap{m, off, off + n, flags.Writes()})
				}
			},
			"unmap": func(t *rapid.T) {
				b := pick()
				if len(b.maps) == 0 {
					t.Skip("no map")
				}
				off := b.maps[rapid.IntRange(0, len(b.maps)-1).Draw(t, "map")].off
				m, err := a.TakeUnmap(b.p + svm.Pointer(off))
				require.NoError(t, err)
				require.NoError(t, m.Drop("the model"))
				i := len(b.maps) - 1
				for b.maps[i].off != off {
					i--
				}
				require.Same(t, b.maps[i].m, m)
				b.maps = append(b.maps[:i], b.maps[i+1:]...)
			},
			"touch": func(t *rapid.T) {
				b := pick()
				i := rapid.Uint64Range(0, uint64(len(b.bytes))-1).Draw(t, "byte")
				write := rapid.Bool().Draw(t, "write")
				legal := b.fine
				for _, m := range b.maps { // rights come in pages
					page := uint64(4096)
					covers := m.off/page <= i/page && i/page <= (m.end-1)/page
					legal = legal || (covers && (m.write || !write))
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
