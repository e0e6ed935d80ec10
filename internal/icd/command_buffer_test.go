//go:build cgo

package icd

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// updateOf is a gw_update with one argument: tests cannot name C's.
type updateOf struct {
	command uintptr
	args    uint32
	_       [3]uint32
	list    unsafe.Pointer
	_       [5]uintptr
}

type newArg struct {
	index uint32
	size  uint64
	value unsafe.Pointer
}

// update sets argument 1 of a command.
func update(b, c uintptr, v int32) int32 {
	a := newArg{1, 4, at(&v)}
	u := updateOf{command: c, args: 1, list: at(&a)}
	var typ uint32
	one := at(&u)
	return gwUpdateMutableCommandsKHR(b, 1, at(&typ), at(&one))
}

// Many threads enqueue, update, ask and remap one command buffer: each enqueue happens once.
func TestCommandBuffersAreSharedByThreads(t *testing.T) {
	l := newLab(t)
	k := l.kernel(l.build(l.source("kernel void more(global int *y, int n) { y[get_global_id(0)] += n; }")), "more")
	m := l.ints(make([]int32, 64)...)
	l.set(k, m, int32(1))
	flags := [3]uint64{bufferFlagsProperty, bufferMutable | bufferSimultaneous, 0}
	b := l.made(gwCreateCommandBufferKHR(uint32(len(l.queues)), at(&l.queues[0]), at(&flags[0])))
	size, before := uint64(64), live(&commands)
	var c uintptr
	for _, q := range l.queues {
		require.Zero(t, gwCommandNDRangeKernelKHR(b, q, nil, k, 1, nil, at(&size), nil, 0, nil, nil, at(&c)))
	}
	require.Zero(t, gwFinalizeCommandBufferKHR(b))
	const rounds = 40
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := range rounds {
				assert.Zero(t, gwEnqueueCommandBufferKHR(0, nil, b, 0, nil, nil))
				assert.Zero(t, update(b, c, 1))
				var state uint32
				assert.Zero(t, gwGetCommandBufferInfoKHR(b, 0x1297, 4, at(&state), nil))
				assert.Equal(t, stateExecutable, state)
				var out uint64
				assert.Zero(t, gwGetMutableCommandInfoKHR(c, 0x12A6, 8, at(&out), nil))
				if i%8 == 0 {
					r, st := gwRemapCommandBufferKHR(b, 1, 1, at(&l.queues[0]), 0, nil, nil)
					assert.Zero(t, st)
					release(r)
				}
			}
		})
	}
	all.Wait()
	for _, q := range l.queues {
		require.Zero(t, gwFinish(q))
	}
	require.EqualValues(t, 3*rounds*len(l.queues), l.read(l.queues[0], m, 64)[63])
	require.Equal(t, before+len(l.queues), live(&commands))
	release(b)
	require.Equal(t, before, live(&commands), "handles end with the command buffer")
}

// Versions are named by what programs were compiled for.
func TestVersionsOfCommandBuffers(t *testing.T) {
	for name, want := range map[string]struct {
		versions string
		newest   bool
	}{"": {"0.9.8", true}, "0.9.8": {"0.9.8", true}, "0.9.7": {"0.9.7", false}, "0.9.0": {"0.9.0", false}} {
		v, err := findBufferVersion(name)
		require.NoError(t, err)
		require.Equal(t, want.newest, !v.pending, name)
		names, versions := (&config{commandBuffers: v}).extensions()
		require.Len(t, names, 4)
		require.EqualValues(t, want.versions[4]-'0', versions["cl_khr_command_buffer"]&0xfff)
	}
	v, err := findBufferVersion("off")
	require.NoError(t, err)
	names, _ := (&config{commandBuffers: v}).extensions()
	require.Equal(t, []string{contentSize}, names)
	_, err = findBufferVersion("1.0")
	require.ErrorContains(t, err, "GODWIT_COMMAND_BUFFER=1.0")
}
