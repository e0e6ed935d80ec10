package scenario

import (
	"context"

	"godwit/runtime"
)

// waitKind is a barrier or a marker: it waits for commands, or all of a queue, and does nothing; a
// barrier holds back those behind it. What stands under the key is a queue, which readCommon reads.
type waitKind struct {
	base
	wait func(*runtime.Queue, context.Context, ...runtime.Event) (runtime.Event, error)
}

func (k waitKind) shapes() []*shape {
	name := string(k.name)
	return []*shape{commandShape(name, name, of(name, aWord.or(nothing), "a queue"))}
}

func (k waitKind) enqueue(ctx context.Context, _ *runner, _ int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	return k.wait(q, ctx, wait...)
}
