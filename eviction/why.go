package eviction

// Why is what keeps a block where it is.
type Why uint8

// InUse: the command that needs the room accesses the buffer. Mapped: the host has it
// mapped, or its unmap may yet fail. Pinned: the program asked for it. InPlace: it is
// host memory, or shared virtual memory that is used in place. Hangs: what uses it, or the
// memory that it must be written back to, waits for a user event that is not set; OnCall:
// for a host call that has not returned.
// Counted: it holds its content only as far as a count says, and nobody else holds it
// wholly. NoRoom: what it holds must be written back, and no memory has room for it.
// Leaving: it goes already, from another memory. Foreign: it is no buffer of this
// context. Floor: its tenant would hold less than nobody else may take from it. Tenant: it is another's, and who needs
// the room is at its cap, so that only its own may go. Goes: nothing keeps it.
const (
	Goes Why = iota
	InUse
	Mapped
	Pinned
	InPlace
	Hangs
	OnCall
	Counted
	NoRoom
	Leaving
	Foreign
	Floor
	Tenant
)

// String is the reason in a few words.
func (w Why) String() string {
	return [...]string{
		"may go", "the command uses it", "mapped", "pinned", "used in place", "waits for a user event", "waits for a host call",
		"counted", "no room to write it back", "leaves another memory", "outside this context's buffers",
		"at its tenant's floor", "another tenant's, and this one is at its cap",
	}[min(w, Tenant)]
}
