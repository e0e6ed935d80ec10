//go:build cgo

package migratebench

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// source: touch adds one to the first and the last word of a buffer; peek reads
// the words of a range and adds them to out; three takes three arguments.
const source = `
kernel void touch(global uint *a, ulong last) {
	if (get_global_id(0) == 0) { a[0] += 1; if (last) a[last] += 1; }
}
kernel void peek(global const uint *a, global uint *out) {
	out[get_global_id(0)] = a[get_global_id(0)] + 1;
}
kernel void three(global uint *a, global const uint *b, uint n) {
	a[get_global_id(0)] = b[get_global_id(0)] + n;
}
`

// content is what a buffer starts with: no two words near each other equal.
func content(size uint64) []byte {
	b := make([]byte, size)
	for i := uint64(0); i+4 <= size; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(i)*2654435761>>7)
	}
	return b
}

// check compares a buffer with its content after touch ran times.
func check(got []byte, touched uint32) error {
	want := content(uint64(len(got)))
	for _, at := range []int{0, len(want) - 4} {
		binary.LittleEndian.PutUint32(want[at:], binary.LittleEndian.Uint32(want[at:])+touched)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return fmt.Errorf("wrong content from byte %d of %d on: %d, want %d", i, len(want), got[i], want[i])
}
