package formats

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"

	"godwit/internal/input"
)

// torch.cuda.memory._dump_snapshot writes a pickle of dicts, lists, tuples,
// strings, numbers, booleans and None. A pickle is a program for a stack machine
// that can name any class and call it; the file is a stranger's. So it is gone
// over twice: first every opcode is held to a list of those that such values
// need, every length to what is left of the file, and all that will be built to a
// bound; only then does the library build the values. No class is looked up and
// nothing is called.

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

// The bounds of a pickle besides those of every trace. It is held whole.
const (
	maxPickle  = 256 << 20 // bytes of it
	maxPickled = 2 << 30   // bytes that its values take, as pickleCost has them
)

// pickleCost is about what the library allocates for an opcode, in bytes, besides
// the text of a string.
func pickleCost(op byte) uint64 {
	switch op {
	case ']', '}':
		return 160
	case 'q', 'r', 0x94:
		return 64
	case 'h', 'j', '(', 'a', 'e', 's', 'u', pickleProto, pickleFrame:
		return 32
	}
	return 48
}

// pickleMarks is how many more marks are open after an opcode.
func pickleMarks(op byte) int {
	switch op {
	case '(':
		return 1
	case 'e', 'u', 't':
		return -1
	}
	return 0
}

// isPickle reports whether the input starts as a pickle of protocol 2 or newer.
func isPickle(br *bufio.Reader) bool {
	b, _ := br.Peek(2)
	return len(b) == 2 && b[0] == pickleProto && b[1] >= 2 && b[1] <= pickleLast
}

// checkPickle goes over the opcodes and executes none.
func checkPickle(b []byte) error {
	frameEnd, marks, cost := 0, 0, uint64(0)
	for at := 0; at < len(b); {
		op := b[at]
		if op == pickleStop {
			return nil
		}
		n, known := pickleArgs[op]
		if !known {
			return fmt.Errorf("byte %d: opcode %q: a memory snapshot has no need of it", at, op)
		}
		if marks += pickleMarks(op); marks > maxNesting {
			return fmt.Errorf("byte %d: nested more than %d deep", at, maxNesting)
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
		if cost += pickleCost(op) + uint64(n); cost > maxPickled {
			return fmt.Errorf("byte %d: values of more than %d bytes", at, maxPickled)
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

// loadPickle builds the value that r, which is checked, describes.
func loadPickle(r io.Reader) (v any, err error) {
	defer func() {
		if x := recover(); x != nil { // opcodes in an order that no pickler writes
			err = fmt.Errorf("not a pickle of plain values: %v", x)
		}
	}()
	u := pickle.NewUnpickler(bufio.NewReaderSize(r, 1<<16))
	u.FindClass = func(module, name string) (any, error) {
		return nil, fmt.Errorf("class %s.%s: a memory snapshot has no need of it", module, name)
	}
	return u.Load()
}

func readPickle(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	fail := func(err error) ([]*Allocs, error) { return nil, input.Malformed(file, 1, err) }
	b, err := io.ReadAll(input.Limit(ctx, r, file, maxPickle))
	if err != nil {
		return fail(err)
	}
	if err := checkPickle(b); err != nil {
		return fail(err)
	}
	v, err := loadPickle(input.Limit(ctx, bytes.NewReader(b), file, maxPickle))
	if err != nil {
		return fail(err)
	}
	top, ok := v.(*types.Dict)
	if !ok {
		return fail(errors.New("the pickle holds no dict: not a PyTorch memory snapshot"))
	}
	var traces *types.List
	for _, f := range *top {
		if f.Key == "device_traces" {
			traces, _ = f.Value.(*types.List)
		}
	}
	if traces == nil {
		return fail(errors.New("a dict without a list device_traces: not a PyTorch memory snapshot"))
	}
	if len(*traces) > maxDevices {
		return fail(fmt.Errorf("more than %d devices", maxDevices))
	}
	devices, fields := pyDevices{file: file}, 0
	for device, v := range *traces {
		entries, ok := v.(*types.List)
		if !ok {
			return fail(fmt.Errorf("device %d: its trace is not a list", device))
		}
		err := devices.read(ctx, func(n int) (e pyEntry, line int, more bool, err error) {
			if n == len(*entries) {
				return e, 0, false, nil
			}
			d, ok := (*entries)[n].(*types.Dict)
			if !ok {
				return e, 0, true, errors.New("not a dict")
			}
			if fields += len(*d); fields > maxFields {
				return e, 0, true, fmt.Errorf("more than %d fields", maxFields)
			}
			e, err = pickledEntry(*d)
			return e, n + 1, true, err // entries are told as lines
		})
		if err != nil {
			return fail(err)
		}
	}
	return devices.traces(), nil
}

// maxFields is how many fields of entries are looked at in a file: more than a pickle
// within its bounds holds, if it names each once. A value may stand in many places of a
// pickle, so that a short one can hold more than anybody can go through.
const maxFields = 4 * input.MaxEvents

func pickledEntry(d types.Dict) (e pyEntry, err error) {
	for _, f := range d {
		key, _ := f.Key.(string)
		ok := true
		switch key {
		case "action":
			e.Action, _ = f.Value.(string)
		case "addr":
			e.Addr = nil
			if f.Value != nil {
				var addr uint64
				addr, ok = unsigned(f.Value)
				e.Addr = &addr
			}
		case "size":
			e.Size, ok = unsigned(f.Value)
		case "time_us":
			var at int
			at, ok = f.Value.(int)
			e.TimeUS = int64(at)
		}
		if !ok {
			return e, fmt.Errorf("%s %s is not a number of 64 bits without a fraction, or is negative", key, input.Clip(fmt.Sprint(shown(f.Value))))
		}
	}
	return e, nil
}

// shown is what an error may print of a value: numbers and strings. Lists may hold
// themselves.
func shown(v any) any {
	switch v := v.(type) {
	case int, float64, bool, *big.Int:
		return v
	case string:
		return input.Clip(v)
	}
	return fmt.Sprintf("(a %T)", v)
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
