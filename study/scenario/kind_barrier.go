package scenario

import (
	"context"

	"godwit/runtime"
)

// barrierKind and markerKind wait for commands, or all of a queue, and do nothing; a barrier
// holds back those behind it. What stands under the key is a queue, which readCommon reads.
type (
	barrierKind struct{ base }
	markerKind  struct{ base }
)

func (barrierKind) shapes() []*shape {
	return []*shape{commandShape("barrier", "barrier", of("barrier", aWord.or(nothing), "a queue"))}
}

func (markerKind) shapes() []*shape {
	return []*shape{commandShape("marker", "marker", of("marker", aWord.or(nothing), "a queue"))}
}

func (barrierKind) enqueue(ctx context.Context, _ *runner, _ int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	return q.EnqueueBarrier(ctx, wait...)
}

func (markerKind) enqueue(ctx context.Context, _ *runner, _ int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error) {
	return q.EnqueueMarker(ctx, wait...)
}
