package scenario

import (
	"fmt"

	"godwit/mem"
	"godwit/mem/trace"
)

// evictionResult is a block that went because a memory was short.
type evictionResult struct {
	Buffer      string  `json:"buffer"`
	Bytes       uint64  `json:"bytes"` // of the block; 0 where it stayed, since a write-back was refused
	From        string  `json:"from"`
	Dropped     uint64  `json:"dropped"`      // bytes that were valid in it and elsewhere
	WrittenBack uint64  `json:"written_back"` // bytes of which no other copy was known to be whole
	To          string  `json:"to,omitempty"` // where these went
	Reason      string  `json:"reason"`
	Policy      string  `json:"policy"`
	Score       float64 `json:"score"`          // of the policy: the lowest goes first
	Why         string  `json:"why,omitempty"`  // what the score comes of, in the policy's words
	Next        *rival  `json:"next,omitempty"` // what would have gone next
	Copies      []int   `json:"copies"`         // that wrote it back: indexes into Result.Copies
	Command     int     `json:"command"`        // number of the command that needed the room
}

// rival is a block that stayed, since its score was higher.
type rival struct {
	Buffer string  `json:"buffer"`
	Score  float64 `json:"score"`
	Why    string  `json:"why"`
}

// evictions adds the blocks that went for a command, and the copies that wrote them
// back.
func (r *runner) evictions(res *Result, out *commandResult, rec *record) {
	r.x.backing = true
	defer func() { r.x.backing = false }()
	for i := range rec.Evictions {
		v := &rec.Evictions[i]
		e := evictionResult{
			Buffer: r.x.names[v.Buffer], Bytes: v.Range.Size(), From: r.names[v.Memory],
			Dropped: v.Dropped, WrittenBack: v.Fresh - v.Dropped, Policy: v.Policy, Score: v.Score, Why: v.Why, Copies: []int{}, Command: out.Number,
		}
		if v.Next != 0 {
			e.Next = &rival{r.x.names[v.Next], v.NextScore, v.NextWhy}
		}
		if e.WrittenBack > 0 {
			e.To = r.names[v.To]
		}
		e.Reason = r.x.evicted(v, out.Number)
		if v.Stayed() {
			e.Reason = fmt.Sprintf("#%d needs room on %s; a write-back was refused, so that nothing goes", out.Number, e.From)
		}
		for j := range v.Backs {
			cp := r.x.copy(&v.Backs[j], out.Number, r.rec.failed(v.Backs[j].Point))
			cp.Reason = "to make room on " + e.From + "; " + cp.Reason
			e.Copies = append(e.Copies, len(res.Copies))
			out.BytesMoved += cp.Bytes - cp.RideAlong
			res.BytesRideAlong += cp.RideAlong
			res.Copies = append(res.Copies, cp)
		}
		out.Evictions = append(out.Evictions, len(res.Evictions))
		res.Evictions = append(res.Evictions, e)
	}
	for i := range rec.Evictions { // all write-backs come before the first block goes
		v := &rec.Evictions[i]
		if v.Stayed() {
			continue
		}
		if lost := r.x.ledger.Evicted(v.Buffer, v.Memory, v.Range); lost > 0 && !r.failedBack(v) {
			r.x.problems = append(r.x.problems, fmt.Sprintf("%s of %s were given up on %s for #%d, and nobody else has them", sizeText(lost), r.x.names[v.Buffer], r.names[v.Memory], out.Number))
		}
		r.x.gone[block{v.Buffer, r.x.store(v.Memory)}] = out.Number
		e := &res.Evictions[out.Evictions[i]]
		r.x.note(v.Buffer, v.Range, journeyStep{Command: out.Number, What: "evict", Text: evictionText(e), On: e.From, Why: e.Reason})
	}
}

// failedBack reports whether a copy that was to write a block back has failed.
func (r *runner) failedBack(v *trace.EvictionRecord) bool {
	for i := range v.Backs {
		if r.rec.failed(v.Backs[i].Point) {
			return true
		}
	}
	return false
}

// block names a buffer's on a memory.
type block struct {
	buffer mem.BufferID
	memory mem.MemoryID
}

// evicted says why a block went, before its write-backs are told: the policy's reason, what would have gone next, and
// what became of the content.
func (x *explainer) evicted(v *trace.EvictionRecord, command int) string {
	chosen := v.Policy
	if v.Why != "" {
		chosen += ": " + v.Why
	}
	if v.Next != 0 {
		chosen += fmt.Sprintf(" (next %s: %s)", x.names[v.Next], v.NextWhy)
	}
	content := "it holds nothing that is up to date"
	switch back := v.Fresh - v.Dropped; {
	case back > 0 && v.Dropped > 0:
		content = fmt.Sprintf("%s are elsewhere, too; of %s no other copy is known to be whole yet", sizeText(v.Dropped), sizeText(back))
	case back > 0:
		content = "no other copy of its content is known to be whole yet"
	case v.Dropped > 0:
		content = "its content is elsewhere, too"
	}
	return fmt.Sprintf("#%d needs room on %s; %s; %s", command, x.memories[v.Memory], chosen, content)
}

// evictionText is an eviction in the table of commands.
func evictionText(e *evictionResult) string {
	what := "drop "
	switch {
	case e.Bytes == 0:
		return "keep " + e.Buffer
	case e.WrittenBack > 0:
		what = "evict "
	}
	return what + sizeText(e.Bytes) + " of " + e.Buffer
}

// evictionWay says what became of the content.
func evictionWay(e *evictionResult) string {
	if e.WrittenBack > 0 {
		return fmt.Sprintf("%s → %s, %s written back", e.From, e.To, sizeText(e.WrittenBack))
	}
	return "from " + e.From
}
