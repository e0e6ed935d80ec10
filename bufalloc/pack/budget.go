package pack

import "context"

// budget counts the placements tried and says when to stop: at a number of
// them, which is the same on every machine, or when the context ends, which is
// not.
type budget struct {
	ctx   context.Context
	nodes uint64 // tried so far
	limit uint64
	over  bool
}

func newBudget(ctx context.Context, limit uint64) *budget {
	if limit == 0 {
		limit = 1<<64 - 1
	}
	return &budget{ctx: ctx, limit: limit, over: ctx.Err() != nil}
}

// spend counts one placement and tells whether it may be tried. The context is
// asked every 256th time.
func (b *budget) spend() bool {
	if b.over {
		return false
	}
	if b.nodes >= b.limit || b.nodes&255 == 255 && b.ctx.Err() != nil {
		b.over = true
		return false
	}
	b.nodes++
	return true
}
