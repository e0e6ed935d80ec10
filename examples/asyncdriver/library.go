package asyncdriver

import (
	"sync"
	"time"

	"godwit/devices/engine"
)

// library stands for that of the store: begin returns at once, and done is called by a thread
// of its own.
type library struct {
	latency time.Duration
	mu      sync.Mutex
	bytes   []byte // protected by mu
}

// end is where bytes are: at an address of the store, or at the host.
type end struct {
	addr uint64
	host []byte
}

type request struct {
	to, from end
	pattern  []byte // not nil: to be repeated, in place of from
	size     uint64
}

func newLibrary(size uint64, latency time.Duration) *library {
	return &library{latency: latency, bytes: make([]byte, size)}
}

func (l *library) begin(r request, done func()) {
	time.AfterFunc(l.latency, func() {
		l.carryOut(r)
		done()
	})
}

func (l *library) carryOut(r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.pattern != nil {
		engine.FillBytes(l.at(r.to, r.size), r.pattern)
		return
	}
	copy(l.at(r.to, r.size), l.at(r.from, r.size))
}

// at is size bytes of an end. l.mu is held.
func (l *library) at(e end, size uint64) []byte {
	if e.host != nil {
		return e.host
	}
	return l.bytes[e.addr:][:size]
}
