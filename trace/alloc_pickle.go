package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"
)

// torch.cuda.memory._dump_snapshot writes a pickle of dicts, lists, tuples,
// strings, numbers, booleans and None. A pickle is a program for a stack machine
// that can name any class and call it; the file is a stranger's. So it is gone
// over twice: first every opcode is held to a list of those that such values
// need, and every length to what is left of the file; only then does the library
// build the values. No class is looked up and nothing is called.

// pickleArgs are the opcodes that a snapshot needs, by how many bytes of argument
// follow. Those that are negative start with a length of so many bytes.
var pickleArgs = map[byte]int{
	'(': 0, ')': 0, ']': 0, '}': 0, 'a': 0, 'e': 0, 's': 0, 'u': 0, 't': 0, // marks and containers
	0x85: 0, 0x86: 0, 0x87: 0, // tuples of 1, 2 and 3
	'N': 0, 0x88: 0, 0x89: 0, // None, True, False
	'J': 4, 'K': 1, 'M': 2, 0x8a: -1, 'G': 8, // integers and floats
	'X': -4, 0x8c: -1, 0x8d: -8, // strings
	'q': 1, 'r': 4, 'h': 1, 'j': 4, 0x94: 0, // memo
	0x80: 1, 0x95: 8, // protocol and frame
}

const (
	pickleStop  = '.'
	pickleProto = 0x80
	pickleFrame = 0x95
	pickleLast  = 5 // the newest protocol
)

// isPickle reports whether the input starts as a pickle of protocol 2 or newer.
func isPickle(br *bufio.Reader) bool {
	b, _ := br.Peek(2)
	return len(b) == 2 && b[0] == pickleProto && b[1] >= 2 && b[1] <= pickleLast
}

// checkPickle goes over the opcodes and executes none.
func checkPickle(b []byte) error {
	frameEnd := 0
	for at := 0; at < len(b); {
		op := b[at]
		if op == pickleStop {
			return nil
		}
		n, known := pickleArgs[op]
		if !known {
			return fmt.Errorf("byte %d: opcode %q: a memory snapshot has no need of it", at, op)
		}
		left := b[at+1:]
		if n < 0 {
			if len(left) < -n {
				return io.ErrUnexpectedEOF
			}
			var word [8]byte
			copy(word[:], left[:-n])
			size := binary.LittleEndian.Uint64(word[:])
			if size > uint64(len(left)+n) {
				return fmt.Errorf("byte %d: a value of %d bytes, %d are left", at, size, len(left)+n)
			}
			n = -n + int(size)
		}
		if len(left) < n {
			return io.ErrUnexpectedEOF
		}
		if op == pickleFrame {
			size := binary.LittleEndian.Uint64(left)
			if at < frameEnd || size > uint64(len(left)-8) {
				return fmt.Errorf("byte %d: a frame of %d bytes inside another, or longer than the file", at, size)
			}
			frameEnd = at + 9 + int(size)
		}
		if op == pickleProto && (left[0] > pickleLast || at != 0) {
			return fmt.Errorf("byte %d: protocol %d: want up to %d, once and first", at, left[0], pickleLast)
		}
		at += 1 + n
	}
	return io.ErrUnexpectedEOF
}

// loadPickle builds the value that b, which is checked, describes.
func loadPickle(b []byte) (v any, err error) {
	defer func() {
		if x := recover(); x != nil { // opcodes in an order that no pickler writes
			err = fmt.Errorf("not a pickle of plain values: %v", x)
		}
	}()
	u := pickle.NewUnpickler(bytes.NewReader(b))
	u.FindClass = func(module, name string) (any, error) {
		return nil, fmt.Errorf("class %s.%s: a memory snapshot has no need of it", module, name)
	}
	return u.Load()
}

func readPickle(r io.Reader, file string) ([]*Allocs, error) {
	fail := func(err error) ([]*Allocs, error) { return nil, malformed(file, 1, err) }
	b, err := io.ReadAll(r)
	if err != nil {
		return fail(err)
	}
	if err := checkPickle(b); err != nil {
		return fail(err)
	}
	v, err := loadPickle(b)
	if err != nil {
		return fail(err)
	}
	top, ok := v.(*types.Dict)
	if !ok {
		return fail(errors.New("the pickle holds no dict: not a PyTorch memory snapshot"))
	}
	traces, ok := item[*types.List](top, "device_traces")
	if !ok {
		return fail(errors.New("a dict without a list device_traces: not a PyTorch memory snapshot"))
	}
	var out []*Allocs
	for device, v := range *traces {
		entries, ok := v.(*types.List)
		if !ok {
			return fail(fmt.Errorf("device %d: its trace is not a list", device))
		}
		t, err := pickledDevice(*entries)
		if err != nil {
			return fail(fmt.Errorf("device %d, %w", device, err))
		}
		if len(*entries) > 0 {
			out = append(out, t.Build(fmt.Sprintf("%s#%d", file, device), FormatPyTorch))
		}
	}
	if len(out) == 1 {
		out[0].Name = file
	}
	return out, nil
}

// pickledDevice reads one device's entries. Their numbers stand for lines.
func pickledDevice(entries []any) (*AllocBuilder, error) {
	var b AllocBuilder
	var t0 int64
	for n, v := range entries {
		d, ok := v.(*types.Dict)
		if !ok {
			return nil, fmt.Errorf("entry %d is not a dict", n)
		}
		e, err := pickledEntry(d)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
		if n == 0 {
			t0 = e.TimeUS
		}
		if err := b.pyEntry(e, e.TimeUS-t0, n+1); err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
	}
	return &b, nil
}

func pickledEntry(d *types.Dict) (e pyEntry, err error) {
	e.Action, _ = item[string](d, "action")
	if v, ok := d.Get("addr"); ok && v != nil {
		addr, ok := unsigned(v)
		if !ok {
			return e, fmt.Errorf("addr %v is not an unsigned number of 64 bits", v)
		}
		e.Addr = &addr
	}
	if v, ok := d.Get("size"); ok {
		if e.Size, ok = unsigned(v); !ok {
			return e, fmt.Errorf("size %v is not an unsigned number of 64 bits", v)
		}
	}
	if v, ok := d.Get("time_us"); ok {
		at, ok := v.(int)
		if !ok {
			return e, fmt.Errorf("time_us %v is not a number of 64 bits", v)
		}
		e.TimeUS = int64(at)
	}
	return e, nil
}

// item is d[key], where it is there and of that type.
func item[T any](d *types.Dict, key string) (v T, ok bool) {
	x, ok := d.Get(key)
	if !ok {
		return v, false
	}
	v, ok = x.(T)
	return v, ok
}

// unsigned reads an integer as the library gives it: an int, or a *big.Int where
// Python wrote more than 32 bits.
func unsigned(v any) (uint64, bool) {
	switch v := v.(type) {
	case int:
		return uint64(v), v >= 0
	case *big.Int:
		return v.Uint64(), v.IsUint64()
	}
	return 0, false
}
