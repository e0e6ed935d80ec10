// Package resource stacks policies over a memory. A device's memory is a
// mem.Resource; every layer here is one with another upstream, so that limits,
// statistics, tracing, retries, carving and injected failures are combined per
// context without touching a driver or the runtime. The idea, and much of the
// vocabulary, is that of RMM (RAPIDS memory manager).
//
// Order matters. The one that we document, test as a whole and print with
// Describe is, from the caller down:
//
//	trace      what was asked for, as a replayable log
//	track      who holds what: names and stacks
//	statistics PyTorch's figures, as the caller sees them
//	retry      trim, then try again
//	limit      a ceiling in bytes of what the caller holds
//	bins       small sizes from fixed-size slabs, the rest passes
//	pool       carve large slabs; cache what is freed
//	fail       injected failures, in tests
//	device     the driver's own memory
//
// Retry stands above limit so that a budget reached by frees that still wait
// is retried as well; statistics above retry so that a retried request counts
// once. A limit below the pool would bound what is reserved instead of what is
// held; both are legal.
//
// All layers are safe for use from many goroutines, and none ever waits: where
// waiting would help, the outcome says NeedsWait and the caller decides. Lock
// order: a layer's mutex, then its upstream's; no layer calls up.
package resource

import (
	"strings"

	"godwit/mem"
)

// Layer is a resource over another.
type Layer interface {
	mem.Resource
	// Upstream is what this layer draws on.
	Upstream() mem.Resource
	// String names the layer and its settings in a few words.
	String() string
}

// Describe prints a stack from the caller down, as in
// "statistics > limit 1 GiB > device".
func Describe(r mem.Resource) string {
	var parts []string
	for r != nil {
		l, ok := r.(Layer)
		if !ok {
			parts = append(parts, "device")
			break
		}
		parts = append(parts, l.String())
		r = l.Upstream()
	}
	return strings.Join(parts, " > ")
}

// Find returns the first layer of type T in a stack, from the caller down.
func Find[T Layer](r mem.Resource) (T, bool) {
	for r != nil {
		if t, ok := r.(T); ok {
			return t, true
		}
		l, ok := r.(Layer)
		if !ok {
			break
		}
		r = l.Upstream()
	}
	var none T
	return none, false
}

// base forwards everything to upstream; layers embed it and override what they
// care about.
type base struct{ mem.Resource }

func (b base) Upstream() mem.Resource { return b.Resource }
