//go:build cgo

package icd

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Whatever a program passes for a handle is answered by an error, and nothing of
// it is followed.
func TestWhatIsNoHandleIsAnError(t *testing.T) {
	l := newLab(t)
	m := l.ints(1, 2, 3)
	gone := l.made(gwCreateUserEvent(l.ctx))
	require.True(t, release(gone))
	local := new(int64)
	var size uint64
	for name, h := range map[string]uintptr{
		"null": 0, "small": 3, "inside an object": m + 8, "before the arena": l.ctx&^0xfff - 1<<30, "another's memory": uintptr(unsafe.Pointer(local)),
		"released": gone, "of the top": ^uintptr(0), "of another kind": l.devs[0],
	} {
		require.Equal(t, clInvalidContext, gwGetContextInfo(h, 0x1080, 0, nil, at(&size)), name)
		require.Equal(t, clInvalidCommandQueue, gwFinish(h), name)
		require.Equal(t, clInvalidMemObject, gwGetMemObjectInfo(h, 0x1103, 0, nil, at(&size)), name)
		require.Equal(t, clInvalidEvent, gwGetEventInfo(h, 0x11D3, 0, nil, at(&size)), name)
		require.Equal(t, clInvalidEvent, gwWaitForEvents(1, at(&h)), name)
		require.Equal(t, clInvalidEventWaitList, gwEnqueueMarkerWithWaitList(l.queues[0], 1, at(&h), nil), name)
		require.Equal(t, clInvalidContext, refused(gwCreateBuffer(h, 0, 16, nil)), name)
		if h != 0 { // null is any platform
			require.Equal(t, clInvalidPlatform, gwGetPlatformInfo(h, 0x0902, 0, nil, at(&size)), name)
		}
		if h != l.devs[0] {
			require.Equal(t, clInvalidDevice, gwGetDeviceInfo(h, 0x102B, 0, nil, at(&size)), name)
		}
	}
	runtime.KeepAlive(local)
}

func TestAReleasedHandleStaysInvalidForLong(t *testing.T) {
	l := newLab(t)
	gone := l.made(gwCreateUserEvent(l.ctx))
	require.True(t, release(gone))
	for range 4000 {
		e := l.made(gwCreateUserEvent(l.ctx))
		require.NotEqual(t, gone, e)
		require.True(t, release(e))
	}
	require.Nil(t, events.get(gone))
}

// A queue keeps its context, an event its queue, a sub-buffer its buffer, in
// whatever order the program lets go of them; and with the last all is gone.
func TestObjectsKeepWhatTheyNeed(t *testing.T) {
	p := start()
	if p == nil {
		t.Skip("no OpenCL here")
	}
	before := [...]int{live(&contexts), live(&queues), live(&mems), live(&events)}
	d := p.devices[0].self
	ctx, _ := gwCreateContext(nil, 1, at(&d), nil, nil)
	q, _ := gwCreateCommandQueue(ctx, d, 0)
	m, _ := gwCreateBuffer(ctx, 0, 4096, nil)
	region := [2]uint64{1024, 1024}
	sub, _ := gwCreateSubBuffer(m, 0, 0x1220, at(&region))
	gate, _ := gwCreateUserEvent(ctx)
	var e uintptr
	require.Zero(t, gwEnqueueFillBuffer(q, sub, at(new(int32)), 4, 0, 1024, 1, at(&gate), at(&e)))
	for _, h := range []uintptr{ctx, q, m, sub} {
		require.True(t, release(h))
	}
	require.NotNil(t, contexts.get(ctx))
	require.NotNil(t, queues.get(q), "its event has it")
	require.Nil(t, mems.get(sub))
	require.Zero(t, gwSetUserEventStatus(gate, 0))
	require.Zero(t, gwWaitForEvents(1, at(&e)))
	require.True(t, release(e))
	require.Nil(t, queues.get(q))
	require.True(t, release(gate))
	require.Nil(t, contexts.get(ctx))
	require.Equal(t, before, [...]int{live(&contexts), live(&queues), live(&mems), live(&events)})
}

func TestReferencesAreCountedFromManyThreads(t *testing.T) {
	l := newLab(t)
	m := l.ints(1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				retain(m)
				require.NotNil(t, mems.get(m))
				release(m)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, refs(m))
}

// That they are called is in tests/icd, where there is C: testdata/objects.c.
func TestMistakesWithContextCallbacksAreErrors(t *testing.T) {
	l := newLab(t)
	require.Equal(t, clInvalidValue, gwSetContextDestructorCallback(l.ctx, nil, nil))
	require.Equal(t, clInvalidContext, gwSetContextDestructorCallback(0, at(new(int)), nil))
}
