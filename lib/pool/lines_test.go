package pool

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/runtime"
)

// Goroutines that use different buckets must not wait for each other's caches: what a
// hit writes to lies on cache lines that it shares with nothing of another bucket. Two
// lines, since processors fetch neighbours.
func TestAHitWritesToNoLineOfAnotherBucket(t *testing.T) {
	const line = cacheLine
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{null.New(devices.Config{Name: "null"})}, OwnDevices: true})
	require.NoError(t, err)
	p, err := NewBufferPool(c, Options{})
	require.NoError(t, err)
	var buckets []*bucket
	var loans []Handle
	for i := range 12 {
		h, err := p.Get(nil, 300<<i, 0)
		require.NoError(t, err)
		loans = append(loans, h)
		buckets = append(buckets, h.e.bucket)
	}
	for _, h := range loans {
		require.NoError(t, p.Put(h))
	}
	owner := make(map[uintptr]int)
	claim := func(bucket int, what string, at unsafe.Pointer, size uintptr) {
		for l := uintptr(at) / line; l <= (uintptr(at)+size-1)/line; l++ {
			before, taken := owner[l]
			require.False(t, taken && before != bucket, "%s of bucket %d is on a line of bucket %d", what, bucket, before)
			owner[l] = bucket
		}
	}
	for i, b := range buckets {
		from, to := unsafe.Offsetof(b.mu), unsafe.Offsetof(b.misses)+unsafe.Sizeof(b.misses)
		claim(i, "the struct", unsafe.Add(unsafe.Pointer(b), from), to-from)
		for what, list := range map[string][]*entry{"the ready list": b.ready, "the waiting list": b.waiting} {
			require.NotZero(t, cap(list))
			claim(i, what, unsafe.Pointer(unsafe.SliceData(list)), uintptr(cap(list))*unsafe.Sizeof(list[0]))
		}
		for _, e := range b.ready {
			claim(i, "an entry", unsafe.Pointer(e), unsafe.Sizeof(*e))
		}
	}
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}
