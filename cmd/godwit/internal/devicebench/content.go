//go:build cgo

package devicebench

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// source: touch adds one to the first and the last word of a buffer.
const source = `
kernel void touch(global uint *a, ulong last) {
	if (get_global_id(0) == 0) { a[0] += 1; if (last) a[last] += 1; }
}
`

// content fills data: no two words near each other are equal, and none is the same under
// another seed.
func content(data []byte, seed uint32) {
	for i := 0; i+4 <= len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], (uint32(i)+seed)*2654435761)
	}
}

// check compares a buffer with its content after touch ran times.
func check(got []byte, seed, touched uint32) error {
	want := make([]byte, len(got))
	content(want, seed)
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
