package work

// Kind is the form of a kernel's argument.
type Kind uint8

// The kinds of arguments.
const (
	ValueArg  Kind = iota // bytes by value
	BufferArg             // bytes of a block
	LocalArg              // local memory
)

// String names the kind.
func (k Kind) String() string { return [...]string{"value", "buffer", "local"}[k] }

// Arg is an argument of a launch as its device reaches it.
type Arg struct {
	Kind  Kind
	Bytes []byte // buffers and local memory: where the host can reach them; values
	Addr  uint64 // buffers and local memory: the device's address
	Size  uint64 // bytes
	ID    uint64 // of the Chunk it lies in, not 0: without a Space, any number of its own
	Null  bool   // a buffer argument without a block
	// SVM: kernels see the bytes at Addr, and a Space has them at Own.
	SVM bool
	Own uint64

	Promise Promise // of buffers
}
