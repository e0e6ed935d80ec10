package work

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// Scalar is what kernels load and store: in the host's byte order.
type Scalar interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// View is a buffer or local argument as elements of T. Load and Store are
// checked on every device: an access the device does not allow ends the launch
// with a Fault, and only that. It is valid as long as its Group.
type View[T Scalar] struct {
	g   *Group
	s   []T // where the host can reach the bytes
	arg int
}

// Global returns buffer argument arg as elements of T; bytes at the end that
// make no whole element are left out.
func Global[T Scalar](g *Group, arg int) View[T] { return view[T](g, arg, BufferArg) }

// Local returns local memory argument arg as elements of T. What it holds when
// a group starts is undefined.
func Local[T Scalar](g *Group, arg int) View[T] { return view[T](g, arg, LocalArg) }

func view[T Scalar](g *Group, arg int, kind Kind) View[T] {
	size := uint64(unsafe.Sizeof(*new(T)))
	b := g.argument(arg, size, false, kind)
	v := View[T]{g: g, arg: arg}
	if n := b.Size / size; b.Bytes != nil && n > 0 {
		if b.Addr&(size-1) != 0 {
			g.fault(&Fault{Kind: Misaligned, Arg: arg, Addr: b.Addr, Size: size})
		}
		v.s = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Bytes))), n)
	}
	return v
}

// Value returns value argument arg. Its size must be T's.
func Value[T Scalar](g *Group, arg int) T {
	size := uint64(unsafe.Sizeof(*new(T)))
	b := g.argument(arg, size, false, ValueArg)
	if b.Size != size {
		g.fault(&Fault{Kind: WrongType, Arg: arg, Detail: fmt.Sprintf("it has %d bytes, the kernel takes %d", b.Size, size)})
	}
	var v T
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), b.Bytes)
	return v
}

// Len is the number of elements.
func (v View[T]) Len() int {
	if v.s != nil {
		return len(v.s)
	}
	return int(v.g.args[v.arg].Size / uint64(unsafe.Sizeof(*new(T))))
}

// Slice returns the elements in place, where the host can reach them, and nil
// on devices with address spaces of their own.
func (v View[T]) Slice() []T { return v.s }

// Load returns element i.
func (v View[T]) Load(i int) T {
	if uint(i) < uint(len(v.s)) {
		return v.s[i]
	}
	return v.load(i)
}

// Store sets element i.
func (v View[T]) Store(i int, x T) {
	if uint(i) < uint(len(v.s)) {
		v.s[i] = x
	} else {
		v.store(i, x)
	}
}

// load and store are the slow paths, kept out of Load and Store so that those
// are inlined.
//
//go:noinline
func (v View[T]) load(i int) T { return *v.at(i, false) }

//go:noinline
func (v View[T]) store(i int, x T) { *v.at(i, true) = x }

// at returns element i by checked address, or ends the kernel.
func (v View[T]) at(i int, write bool) *T {
	size := uint64(unsafe.Sizeof(*new(T)))
	if uint(i) < uint(len(v.s)) {
		return &v.s[i]
	}
	b := &v.g.args[v.arg]
	addr := b.Addr + uint64(i)*size
	if uint64(i) >= b.Size/size {
		f := &Fault{Kind: OutOfBounds, Arg: v.arg, Addr: addr, Size: size, Write: write,
			Detail: fmt.Sprintf("element %d of %d", i, b.Size/size)}
		if b.Null {
			f.Kind = NullPointer
		}
		v.g.fault(f)
	}
	return (*T)(v.g.reach(v.arg, addr, size, write))
}

// Add adds x to element i atomically, as seen by all groups of all launches on
// the device. T must have 4 or 8 bytes.
func (v View[T]) Add(i int, x T) {
	switch p := any(v.at(i, true)).(type) {
	case *int32:
		atomic.AddInt32(p, int32(x))
	case *uint32:
		atomic.AddUint32(p, uint32(x))
	case *int64:
		atomic.AddInt64(p, int64(x))
	case *uint64:
		atomic.AddUint64(p, uint64(x))
	case *float32:
		bits := (*uint32)(unsafe.Pointer(p))
		for {
			old := atomic.LoadUint32(bits)
			if atomic.CompareAndSwapUint32(bits, old, math.Float32bits(math.Float32frombits(old)+float32(x))) {
				return
			}
		}
	case *float64:
		bits := (*uint64)(unsafe.Pointer(p))
		for {
			old := atomic.LoadUint64(bits)
			if atomic.CompareAndSwapUint64(bits, old, math.Float64bits(math.Float64frombits(old)+float64(x))) {
				return
			}
		}
	default:
		v.g.fault(&Fault{Kind: WrongType, Arg: v.arg, Detail: fmt.Sprintf("no device adds to %T atomically", p)})
	}
}

// LoadAt returns the T at an address, which any live memory of the device may
// hold (on devices without address spaces: of the launch's arguments).
func LoadAt[T Scalar](g *Group, addr uint64) T {
	return *(*T)(g.reach(-1, addr, uint64(unsafe.Sizeof(*new(T))), false))
}

// StoreAt sets the T at an address; see LoadAt.
func StoreAt[T Scalar](g *Group, addr uint64, x T) {
	*(*T)(g.reach(-1, addr, uint64(unsafe.Sizeof(x)), true)) = x
}
