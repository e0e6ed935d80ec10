package live

import (
	"context"
	"fmt"
	"sync"

	"godwit/mem"
)

// Pace is a run in virtual time that viewers may pause: what ends there calls Wait (scenario.RunOptions.Step), and while
// that has not returned nothing goes on, time neither. Safe for concurrent use.
type Pace struct {
	mu      sync.Mutex
	now     int64         // of the run; protected by mu
	paused  bool          // protected by mu
	steps   int           // that may be taken while paused; protected by mu
	changed chan struct{} // closed, and made anew, when something changes; protected by mu
}

// NewPace is a run that goes on, or waits for its first viewer.
func NewPace(paused bool) *Pace { return &Pace{paused: paused, changed: make(chan struct{})} }

// Wait tells that something has ended at a time, in nanoseconds, and returns when the run may go on, or ctx ends.
func (p *Pace) Wait(ctx context.Context, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
	for p.paused && p.steps == 0 && ctx.Err() == nil {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
	}
	p.steps = max(p.steps-1, 0)
}

// Pause has the run wait at its next end, and Go lets it go on.
func (p *Pace) Pause() { p.change(true, 0) }

// Go lets the run go on.
func (p *Pace) Go() { p.change(false, 0) }

// Step lets a run that is paused go on until one thing more has ended.
func (p *Pace) Step() { p.change(true, 1) }

func (p *Pace) change(paused bool, steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.steps = paused, steps
	close(p.changed)
	p.changed = make(chan struct{})
}

// do does what a viewer asks for.
func (p *Pace) do(what string) error {
	switch what {
	case "pause":
		p.Pause()
	case "go":
		p.Go()
	case "step":
		p.Step()
	default:
		return fmt.Errorf("%q: want pause, go or step: %w", what, mem.ErrInvalidValue)
	}
	return nil
}

func (p *Pace) state() (paused bool, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused, p.now
}
