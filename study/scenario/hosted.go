package scenario

import (
	"godwit/internal/ledger"
	"godwit/internal/rangemap"
	"godwit/mem"
)

// hosted counts what the host's reads and writes of buffers carry between its memory and devices'. That is no step:
// the command is served by its queue's device, to which the bytes of a read are brought first (BytesMoved).
type hosted struct {
	store  func(mem.MemoryID) mem.MemoryID
	unread map[mem.BufferID]*rangemap.Map[bool] // bytes that a write gave a device, and no device has read
	bytes  uint64                               // that crossed
	// least is what had to cross, whoever serves these commands: of reads what the host does not hold, of
	// writes what a device reads before it is written anew. Each byte of a write counts once.
	least uint64
}

// command counts one. l is as it was before the command, and its steps.
func (h *hosted) command(l *ledger.Ledger[int], kind op, accesses []mem.Access) {
	for i := range accesses {
		a := &accesses[i]
		away := h.store(a.Memory) != mem.Host
		if away && (kind == opRead || kind == opWrite) {
			h.bytes += a.Range.Size()
		}
		switch {
		case kind == opRead:
			for r, c := range l.Segments(a.Buffer, a.Range) {
				if c.Writer != 0 && !c.Valid.Has(mem.Host) {
					h.least += r.Size()
				}
			}
		case kind == opWrite:
			h.unread[a.Buffer].Set(a.Range, away)
		default:
			if a.Mode.Reads() && away {
				for r, unread := range h.unread[a.Buffer].In(a.Range) {
					if *unread {
						h.least += r.Size()
					}
				}
			}
			if a.Mode.Writes() || a.Mode.Reads() && away {
				h.unread[a.Buffer].Set(a.Range, false)
			}
		}
	}
}
