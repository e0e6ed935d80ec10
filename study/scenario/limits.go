package scenario

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/yaml"
)

// The bounds of a scenario (docs/limits.md), which is somebody else's file. The
// length and the depth of its text are internal/yaml's. Here is what the text may
// ask for: repeats and aliases make much of little.
const (
	maxErrors   = 100  // that are listed
	maxParams   = 1000 // and elements of their lists, package expr's
	maxIncludes = 16
	maxRepeats  = 8 // within each other

	// defaultMemory is how many bytes a scenario may name if Options.Memory is 0.
	defaultMemory = 4 << 30
)

// Limits are the bounds that Options.Limits may set anew, by name.
func Limits() map[string]int {
	return map[string]int{
		"commands": 1_000_000,  // that repeats unroll to
		"devices":  16_384,     // in all
		"objects":  100_000,    // buffers and blocks, sub-buffers, queues, events, links, kernels, of each
		"items":    1 << 30,    // work-items of all launches
		"steps":    50_000_000, // of reading; see work
	}
}

// work is how much reading a scenario has cost, in steps: a node looked at, a
// round of a repeat, a comparison with what was read before. So the time of
// reading is bounded whatever the text is, and the same text is refused on every
// machine.
type work struct {
	ctx  context.Context
	most int
	done int
}

// bailout ends the reading of a scenario from any depth, as in go/parser. Parse
// recovers it. What is wrong is in source.errs, or in source.end.
type bailout struct{}

// spend counts n steps, and ends the reading where they are too many or the
// context has ended.
func (s *source) spend(n int) {
	before := s.work.done
	s.work.done += n
	if s.work.done>>12 == before>>12 {
		return
	}
	if s.end = s.work.ctx.Err(); s.end != nil {
		panic(bailout{})
	}
	if s.work.done > s.work.most {
		s.errs = append(s.errs, &yaml.Error{File: s.file, Rule: fmt.Sprintf("scenario: too much to read: repeats, aliases and lists make it more than %d steps (--limit steps=N)", s.work.most)})
		panic(bailout{})
	}
}

// stop ends the reading after a fault that makes more of it pointless.
func (s *source) stop(n ast.Node, format string, args ...any) {
	s.errorf(n, format, args...)
	panic(bailout{})
}

// hold counts bytes that the scenario has the host hold: content, what is read,
// and every buffer, since the reference run has them all. It ends the reading
// where they are more than the scenario may have.
func (l *loader) hold(n ast.Node, what string, bytes uint64) {
	if bytes > l.given.Memory-l.held {
		l.stop(n, "%s: %s; with all before it that is more than the %s that a scenario may name (--memory)",
			what, sizeText(bytes), sizeText(l.given.Memory))
	}
	l.held += bytes
}

// launchItems counts the work-items of a launch, and ends the reading where those
// of all launches are too many.
func (l *loader) launchItems(n ast.Node, what string, global []uint64) {
	total, most := uint64(1), uint64(l.limits["items"])
	for _, g := range global {
		hi, lo := bits.Mul64(total, max(g, 1))
		if total = lo; hi != 0 || total > most {
			total = most + 1
			break
		}
	}
	if l.items += total; l.items > most {
		l.stop(n, "%s: global is %v: with all launches before it that is more than %d work-items (--limit items=N)", what, global, most)
	}
}

// bounded ends the reading where there are more than most of something.
func (l *loader) bounded(n ast.Node, what string, have, most int) {
	if have > most {
		l.stop(n, "%s: more than %d", what, most)
	}
}

// limited is bounded by a limit that can be raised.
func (l *loader) limited(n ast.Node, what string, have int, limit string) {
	if most := l.limits[limit]; have > most {
		l.stop(n, "%s: more than %d (--limit %s=N)", what, most, limit)
	}
}
