package scenario

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
)

// A run whose context ends is not explained: that takes as long as there are commands, and
// most of them have not run. What had been done by then is counted, and the run's error is
// what ended the context.

// interruption is how far a run had come when its context ended.
type interruption struct {
	Commands int    `json:"commands"` // of the scenario
	Enqueued int    `json:"enqueued"`
	Ended    int    `json:"ended"`             // successfully
	Copies   int    `json:"copies"`            // that the planner inserted and that had ended, write-backs among them
	Time     uint64 `json:"time_ns,omitempty"` // of a run on a machine
}

// interrupted counts what has been done so far, and has the rest recorded no more: each
// command that has not run is still to fail.
func (r *runner) interrupted(ctx context.Context, res *Result) error {
	in := &interruption{Commands: len(r.s.Commands), Enqueued: len(r.events)}
	in.Ended, in.Copies, res.BytesMoved, res.BytesRideAlong = r.rec.stop()
	if r.model != nil {
		in.Time = r.model.world.Time()
		r.model.rec.Stop()
	}
	res.Interrupted = in
	return context.Cause(ctx)
}

// late counts what ended well of a run all of whose commands had ended.
func (r *runner) late(res *Result) *interruption {
	in := &interruption{Commands: len(res.Commands), Enqueued: len(res.Commands)}
	for i := range res.Commands {
		if res.Commands[i].Failed == "" {
			in.Ended++
		}
	}
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	for i := range res.Copies {
		if e, ok := r.rec.endOf(res.Copies[i].step.Point); ok && e.Err == nil {
			in.Copies++
		}
	}
	return in
}

// print says it to people.
func (in *interruption) print(w io.Writer, bytes uint64) {
	at := ""
	if in.Time > 0 {
		at = " at " + spanText(in.Time)
	}
	fmt.Fprintf(w, "  interrupted%s: %s of %s had ended, which moved %s in %s\n", at,
		humanize.Comma(int64(in.Ended)), count(in.Commands, "command", "commands"), sizeText(bytes), count(in.Copies, "copy", "copies"))
}
