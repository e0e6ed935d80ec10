package formats

import (
	"bufio"
	"bytes"
	"cmp"
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
// need, every length to what is left of the file, nesting and all that will be built to
// bounds; only then does the library build the values. No class is looked up and
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
	maxStack   = 1 << 16   // values on the stack at a time; a pickler puts a thousand there
	maxMemo    = 1 << 24   // values of the memo whose depth is known
	pieceBytes = 1 << 20   // of a pickle, held at a time in one piece
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

// isPickle reports whether the input starts as a pickle of protocol 2 or newer.
func isPickle(br *bufio.Reader) bool {
	b, _ := br.Peek(2)
	return len(b) == 2 && b[0] == pickleProto && b[1] >= 2 && b[1] <= pickleLast
}

// pickleCheck goes over the opcodes and builds nothing: of a value it knows how deep it
// is nested, so that what nobody writes is refused before the library builds it.
type pickleCheck struct {
	br       *bufio.Reader
	at, size int64 // the opcode's place; of the whole
	frameEnd int64
	cost     uint64
	stack    []uint16 // the depths of values
	marks    []int    // places in stack
	memo     []uint16 // the depths of what was memorized, by number
}

// run ends at the opcode that ends the pickle.
func (c *pickleCheck) run() error {
	for {
		op, err := c.br.ReadByte()
		if err != nil {
			return cmp.Or(eof(err), io.ErrUnexpectedEOF)
		}
		if op == pickleStop {
			return nil
		}
		n, arg, err := c.argument(op)
		if err == nil {
			err = c.perform(op, arg)
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", c.at, err)
		}
		c.at += 1 + n
	}
}

// eof makes an end that is too early out of an end.
func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// argument passes over an opcode's argument of n bytes. arg is the number that it, or
// its beginning, is.
func (c *pickleCheck) argument(op byte) (n int64, arg uint64, err error) {
	want, known := pickleArgs[op]
	if !known {
		return 0, 0, fmt.Errorf("opcode %q: a memory snapshot has no need of it", op)
	}
	word, err := c.br.Peek(max(want, -want))
	if err != nil {
		return 0, 0, eof(err)
	}
	var number [8]byte
	copy(number[:], word)
	arg, n = binary.LittleEndian.Uint64(number[:]), int64(len(word))
	if left := c.size - c.at - 1 - n; want < 0 {
		if arg > uint64(left) {
			return 0, 0, fmt.Errorf("a value of %d bytes, %d are left", arg, left)
		}
		n += int64(arg)
	}
	if c.cost += pickleCost(op) + uint64(n); c.cost > maxPickled {
		return 0, 0, fmt.Errorf("values of more than %d bytes", maxPickled)
	}
	_, err = c.br.Discard(int(n))
	return n, arg, eof(err)
}

// perform does to the depths what the opcode does to the values.
func (c *pickleCheck) perform(op byte, arg uint64) error {
	switch op {
	case pickleFrame:
		if c.at < c.frameEnd || arg > uint64(c.size-c.at-9) {
			return fmt.Errorf("a frame of %d bytes inside another, or longer than the file", arg)
		}
		c.frameEnd = c.at + 9 + int64(arg)
	case pickleProto:
		if arg > pickleLast || c.at != 0 {
			return fmt.Errorf("protocol %d: want up to %d, once and first", arg, pickleLast)
		}
	case '(':
		c.marks = append(c.marks, len(c.stack))
	case 'q', 'r', 0x94:
		return c.memorize(op, arg)
	case 'h', 'j':
		depth := uint16(0)
		if arg < uint64(len(c.memo)) {
			depth = c.memo[arg]
		}
		return c.push(depth)
	case 'a':
		return c.gather(1, false)
	case 's':
		return c.gather(2, false)
	case 'e', 'u', 't':
		if len(c.marks) == 0 {
			return errors.New("a mark is missing")
		}
		from := c.marks[len(c.marks)-1]
		c.marks = c.marks[:len(c.marks)-1]
		if from > len(c.stack) {
			return errors.New("a mark above the stack")
		}
		return c.gather(len(c.stack)-from, op == 't')
	case 0x85, 0x86, 0x87:
		return c.gather(int(op)-0x84, true)
	default:
		return c.push(0)
	}
	if len(c.marks) > maxNesting {
		return fmt.Errorf("nested more than %d deep", maxNesting)
	}
	return nil
}

func (c *pickleCheck) push(depth uint16) error {
	if len(c.stack) == maxStack {
		return fmt.Errorf("more than %d values at a time that are in no other", maxStack)
	}
	if depth > maxNesting {
		return fmt.Errorf("nested more than %d deep", maxNesting)
	}
	c.stack = append(c.stack, depth)
	return nil
}

// gather puts the last n values into the container below them, or into a new one.
func (c *pickleCheck) gather(n int, into bool) error {
	from := len(c.stack) - n
	if from < 0 || !into && from == 0 {
		return errors.New("a value is missing")
	}
	depth := uint16(0)
	for _, d := range c.stack[from:] {
		depth = max(depth, d+1)
	}
	c.stack = c.stack[:from]
	if !into {
		depth, c.stack = max(depth, c.stack[from-1]), c.stack[:from-1]
	}
	return c.push(depth)
}

func (c *pickleCheck) memorize(op byte, number uint64) error {
	if op == 0x94 {
		number = uint64(len(c.memo))
	}
	if len(c.stack) == 0 || number > uint64(c.at) {
		return errors.New("nothing to memorize, or at a number that no pickler uses")
	}
	for uint64(len(c.memo)) <= min(number, maxMemo-1) {
		c.memo = append(c.memo, 0)
	}
	if number < maxMemo {
		c.memo[number] = c.stack[len(c.stack)-1]
	}
	return nil
}

// pieces is a pickle in memory, in pieces, so that it is never there twice.
type pieces struct {
	list [][]byte
	size int64
}

func readPieces(r io.Reader) (p pieces, err error) {
	for {
		b := make([]byte, pieceBytes)
		n, err := io.ReadFull(r, b)
		p.list, p.size = append(p.list, b[:n]), p.size+int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return p, nil
		case err != nil:
			return p, err
		}
	}
}

func (p pieces) reader() io.Reader {
	var list []io.Reader
	for _, b := range p.list {
		list = append(list, bytes.NewReader(b))
	}
	return io.MultiReader(list...)
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
	b, err := readPieces(input.Limit(ctx, r, file, maxPickle))
	if err != nil {
		return fail(err)
	}
	check := pickleCheck{br: bufio.NewReaderSize(b.reader(), 1<<16), size: b.size}
	if err := check.run(); err != nil {
		return fail(err)
	}
	v, err := loadPickle(input.Limit(ctx, b.reader(), file, maxPickle))
	if err != nil {
		return fail(err)
	}
	top, ok := v.(*types.Dict)
	if !ok {
		return fail(errors.New("the pickle holds no dict: not a PyTorch memory snapshot"))
	}
	var traces, segments *types.List
	for _, f := range *top {
		switch f.Key {
		case "device_traces":
			traces, _ = f.Value.(*types.List)
		case "segments":
			segments, _ = f.Value.(*types.List)
		}
	}
	if traces == nil {
		return fail(errors.New("a dict without a list device_traces: not a PyTorch memory snapshot"))
	}
	if len(*traces) > maxDevices {
		return fail(fmt.Errorf("more than %d devices", maxDevices))
	}
	p := pickled{devices: pyDevices{file: file}, fields: b.size}
	for device, v := range *traces {
		if err := p.device(ctx, device, v); err != nil {
			return fail(err)
		}
	}
	if err := p.takeSegments(segments); err != nil {
		return fail(err)
	}
	out, err := p.devices.traces()
	if err != nil {
		return fail(err)
	}
	return out, nil
}

// pickled makes traces of a pickle's values.
type pickled struct {
	devices pyDevices

	// fields is how many fields may still be looked at: a byte of the file holds one at
	// most, if each is named once. A value may stand in many places of a pickle, so that a
	// short one can hold more than anybody can go through.
	fields int64
}

// dict is a value that has to be one.
func (p *pickled) dict(v any) (types.Dict, error) {
	d, ok := v.(*types.Dict)
	if !ok {
		return nil, errors.New("not a dict")
	}
	if p.fields -= int64(len(*d)) + 1; p.fields < 0 {
		return nil, errors.New("more fields than the file has bytes: values stand in many places")
	}
	return *d, nil
}

func (p *pickled) device(ctx context.Context, device int, v any) error {
	entries, ok := v.(*types.List)
	if !ok {
		return fmt.Errorf("device %d: its trace is not a list", device)
	}
	return p.devices.read(ctx, func(n int) (e pyEntry, line int, more bool, err error) {
		if n == len(*entries) {
			return e, 0, false, nil
		}
		d, err := p.dict((*entries)[n])
		if err == nil {
			e, err = pickledEntry(d)
		}
		return e, n + 1, true, err // entries are told as lines
	})
}

// takeSegments reads the list of segments; nil where there is none.
func (p *pickled) takeSegments(list *types.List) error {
	if list == nil {
		return nil
	}
	for i, v := range *list {
		d, err := p.dict(v)
		if err == nil {
			err = p.segment(d)
		}
		if err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return nil
}

func (p *pickled) segment(d types.Dict) error {
	var s pySegment
	var device uint64
	for _, f := range d {
		ok := true
		switch f.Key {
		case "device":
			device, ok = unsigned(f.Value)
		case "address":
			s.Address, ok = unsigned(f.Value)
		case "total_size":
			s.Total, ok = unsigned(f.Value)
		case "blocks":
			blocks, _ := f.Value.(*types.List)
			if blocks == nil {
				return errors.New("blocks that are no list")
			}
			for _, v := range *blocks {
				b, err := p.pickledBlock(v)
				if err != nil {
					return err
				}
				s.Blocks = append(s.Blocks, b)
			}
		}
		if !ok {
			return badNumber(f)
		}
	}
	s.Device = int(min(device, maxDevices))
	p.devices.segments = append(p.devices.segments, s)
	return p.devices.block()
}

func (p *pickled) pickledBlock(v any) (b pyBlock, err error) {
	d, err := p.dict(v)
	if err != nil {
		return b, err
	}
	for _, f := range d {
		ok := true
		switch f.Key {
		case "address":
			var at uint64
			at, ok = unsigned(f.Value)
			b.Address = &at
		case "size":
			b.Size, ok = unsigned(f.Value)
		case "requested_size":
			b.Requested, ok = unsigned(f.Value)
		case "state":
			b.State, _ = f.Value.(string)
		}
		if !ok {
			return b, badNumber(f)
		}
	}
	return b, p.devices.block()
}

func badNumber(f types.DictEntry) error {
	key, _ := f.Key.(string)
	return fmt.Errorf("%s %s is not a number of 64 bits without a fraction, or is negative", input.Clip(key), input.Clip(fmt.Sprint(shown(f.Value))))
}

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
		case "stream":
			e.Stream, ok = unsigned(f.Value)
		case "time_us":
			var at int
			at, ok = f.Value.(int)
			e.TimeUS = int64(at)
		}
		if !ok {
			return e, badNumber(f)
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
