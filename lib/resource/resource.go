// Package resource has layers over a device's memory for programs: a stack of them is
// put over each memory of a context by runtime.Options.Resource. A layer is a mem.Resource
// with another upstream. From the caller down, where all are wanted:
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
// Retry stands above limit so that a budget reached by frees that still wait is retried as
// well; statistics above retry so that a retried request counts once.
package resource

import (
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
)

// The layers, their options and what they tell.
type (
	Layer       = resource.Layer
	Trace       = resource.Trace
	Track       = resource.Track
	Holding     = resource.Holding
	Statistics  = resource.Statistics
	Figures     = resource.Figures
	Stat        = resource.Stat
	Retry       = resource.Retry
	Limit       = resource.Limit
	Bins        = resource.Bins
	Pool        = resource.Pool
	PoolOptions = resource.PoolOptions
	Fail        = resource.Fail
	OutOfMemory = resource.OutOfMemory
	Holder      = resource.Holder
	Verdict     = resource.Verdict
)

// Why there was no room.
const (
	Capacity      = resource.Capacity
	Budget        = resource.Budget
	Fragmentation = resource.Fragmentation
	Cached        = resource.Cached
	Pending       = resource.Pending
)

// NewTrace records allocations with w.
func NewTrace(up mem.Resource, w *trace.AllocWriter) *Trace { return resource.NewTrace(up, w) }

// NewTrack keeps who holds what, with depth frames of the stack.
func NewTrack(up mem.Resource, depth int) *Track { return resource.NewTrack(up, depth) }

// NewStatistics counts.
func NewStatistics(up mem.Resource) *Statistics { return resource.NewStatistics(up) }

// NewRetry trims and tries again where there is no room.
func NewRetry(up mem.Resource) *Retry { return resource.NewRetry(up) }

// NewLimit has at most max bytes held.
func NewLimit(up mem.Resource, max uint64) (*Limit, error) { return resource.NewLimit(up, max) }

// NewBins serves these sizes from slabs of slab bytes.
func NewBins(up mem.Resource, slab uint64, sizes ...uint64) (*Bins, error) {
	return resource.NewBins(up, slab, sizes...)
}

// NewFixed serves one size, count blocks a slab.
func NewFixed(up mem.Resource, size, count uint64) (*Bins, error) {
	return resource.NewFixed(up, size, count)
}

// NewPool carves slabs and caches what is freed.
func NewPool(up mem.Resource, o PoolOptions) (*Pool, error) { return resource.NewPool(up, o) }

// NewFail has calls fail that a test names.
func NewFail(up mem.Resource) *Fail { return resource.NewFail(up) }

// Describe prints a stack of layers.
func Describe(r mem.Resource) string { return resource.Describe(r) }

// Find is the topmost layer of a kind in a stack.
func Find[T Layer](r mem.Resource) (T, bool) { return resource.Find[T](r) }
