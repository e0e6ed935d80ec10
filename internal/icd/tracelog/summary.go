package tracelog

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"godwit/mem"
	"godwit/mem/trace"
)

// Summary is what all contexts of a process did. Sizes are in bytes.
type Summary struct {
	Complete   bool        `json:"complete"` // false: the process left none, and all the rest is 0
	Contexts   int         `json:"contexts"`
	Devices    []DeviceUse `json:"devices"`
	Commands   uint64      `json:"commands" show:"commands"` // accepted
	Launches   uint64      `json:"launches"`                 // of those
	Refused    uint64      `json:"refused"`                  // commands that were refused after copies were made or blocks left for them; of others nothing is told
	Failed     uint64      `json:"failed"`                   // commands and copies that ended in an error
	Copies     uint64      `json:"copies"`
	BytesMoved uint64      `json:"bytes_moved" show:"moved|size"`
	LowerBound uint64      `json:"bytes_lower_bound"`                       // Compulsory and CapacityBound
	Compulsory uint64      `json:"bytes_compulsory" show:"compulsory|size"` // had to move, as if no memory had a limit
	Capacity   uint64      `json:"bytes_capacity" show:"capacity|size"`     // moved besides
	// CapacityBound is the least that Capacity could have been, or less, since
	// memories were short.
	CapacityBound    uint64         `json:"bytes_capacity_bound" show:"bound|size"`
	Evictions        uint64         `json:"evictions" show:"evicted"`
	BytesEvicted     uint64         `json:"bytes_evicted"`      // of blocks that went
	BytesDropped     uint64         `json:"bytes_dropped"`      // valid in them, and elsewhere
	BytesWrittenBack uint64         `json:"bytes_written_back"` // valid in them alone
	BytesRegrown     uint64         `json:"bytes_regrown"`      // copied within a memory, into blocks that took others' place; not in BytesMoved
	RideAlong        uint64         `json:"ride_along"`         // copied though nobody needed them, not in BytesMoved
	Links            []LinkUse      `json:"links"`
	Buffers          []BufferUse    `json:"buffers"` // those with the most bytes moved
	Ops              map[string]int `json:"ops"`     // accepted commands by kind
}

// DeviceUse is the storage on one memory, those of the same name in several
// contexts added up.
type DeviceUse struct {
	Name   string `json:"name"`
	Memory int    `json:"memory"` // 0 is the host
	Peak   uint64 `json:"peak_use"`
	Whole  uint64 `json:"peak_whole"` // what Peak would be, were every buffer stored whole
	now    int64
	whole  int64
}

// LinkUse is the copies that went one way.
type LinkUse struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Way    string `json:"way"` // direct or ring
	Copies uint64 `json:"copies"`
	Bytes  uint64 `json:"bytes"`
}

// BufferUse is the copies of one buffer.
type BufferUse struct {
	Name       string `json:"name"`
	Size       uint64 `json:"size"`
	Copies     uint64 `json:"copies"`
	BytesMoved uint64 `json:"bytes_moved"`
}

// shownBuffers is how many buffers a summary lists.
const shownBuffers = 20

// tally is a summary in the making.
type tally struct {
	Summary
	links []*LinkUse
	live  map[*account]struct{}
	gone  []BufferUse // of released buffers, those with the most bytes
}

func newTally() tally {
	return tally{Summary: Summary{Devices: []DeviceUse{}, Ops: make(map[string]int)}, live: make(map[*account]struct{})}
}

// device makes sure that there is a row for a memory.
func (t *tally) device(name string, memory int) {
	if !slices.ContainsFunc(t.Devices, func(d DeviceUse) bool { return d.Name == name }) {
		t.Devices = append(t.Devices, DeviceUse{Name: name, Memory: memory})
	}
}

// stored notes that a memory holds so many bytes more, and would, were every buffer stored
// whole.
func (t *tally) stored(name string, delta, whole int64) {
	for i := range t.Devices {
		if d := &t.Devices[i]; d.Name == name {
			d.now, d.whole = d.now+delta, d.whole+whole
			d.Peak = max(d.Peak, uint64(max(d.now, 0)))
			d.Whole = max(d.Whole, uint64(max(d.whole, 0)))
		}
	}
}

func (t *tally) command(r *trace.CommandRecord) {
	switch {
	case r.Again:
		return
	case r.Err != nil:
		t.Refused++
		return
	}
	t.Commands++
	t.Ops[r.Op]++
	if r.Kernel != "" {
		t.Launches++
	}
}

// link finds the row of a way, or makes one.
func (t *tally) link(from, to, way string) *LinkUse {
	for _, l := range t.links {
		if l.From == from && l.To == to && l.Way == way {
			return l
		}
	}
	l := &LinkUse{From: from, To: to, Way: way}
	t.links = append(t.links, l)
	return l
}

// copied counts a copy of a buffer.
func (t *tally) copied(link *LinkUse, bytes, along uint64, of *account) {
	t.Copies++
	t.BytesMoved += bytes
	t.RideAlong += along
	link.Copies++
	link.Bytes += bytes
	of.Copies++
	of.BytesMoved += bytes
}

// less takes back what a late copy did not move, since it did not have to.
func (t *tally) less(s lateStep, bytes uint64) {
	t.BytesMoved -= bytes
	t.Compulsory -= bytes
	s.link.Bytes -= bytes
	s.of.BytesMoved -= bytes
}

// keep takes the counts of a buffer that is released.
func (t *tally) keep(a *account) {
	delete(t.live, a)
	if a.Copies > 0 {
		t.gone = append(t.gone, a.BufferUse)
	}
	if len(t.gone) >= 8*shownBuffers {
		t.gone = most(t.gone)
	}
}

// most sorts by bytes moved and drops all but the first.
func most(b []BufferUse) []BufferUse {
	slices.SortFunc(b, func(x, y BufferUse) int {
		return cmp.Or(cmp.Compare(y.BytesMoved, x.BytesMoved), cmp.Compare(x.Name, y.Name))
	})
	return b[:min(len(b), shownBuffers)]
}

// Summary is what has happened so far.
func (l *Log) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.sum
	l.lookAtAll()
	s := t.Summary
	for _, c := range l.short {
		s.CapacityBound += c.account.Bound().Capacity
	}
	l.short = nil
	s.LowerBound = s.Compulsory + s.CapacityBound
	s.Capacity = s.BytesMoved - min(s.BytesMoved, s.Compulsory)
	s.Contexts = l.contexts
	s.Devices = slices.Clone(t.Devices)
	s.Links, s.Buffers = []LinkUse{}, append([]BufferUse{}, t.gone...)
	for _, l := range t.links {
		s.Links = append(s.Links, *l)
	}
	slices.SortFunc(s.Links, func(x, y LinkUse) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To), cmp.Compare(x.Way, y.Way))
	})
	for a := range t.live {
		if a.Copies > 0 {
			s.Buffers = append(s.Buffers, a.BufferUse)
		}
	}
	s.Buffers = most(s.Buffers)
	s.Ops = maps.Clone(t.Ops)
	return s
}

// Least reports whether the bytes moved are the fewest that the commands, in
// their order, needed. It is not told where something failed, since what a
// failure makes stale has to move again.
func (s *Summary) Least() (yes, known bool) { return s.BytesMoved == s.LowerBound, s.Failed == 0 }

// Print writes the summary for people.
func (s *Summary) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Links) > 0 {
		fmt.Fprintln(tw, "from\tto\tway\tcopies\tbytes")
		for _, l := range s.Links {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\n", l.From, l.To, l.Way, l.Copies, mem.FormatBytes(l.Bytes))
		}
		fmt.Fprintln(tw)
		fmt.Fprintln(tw, "buffer\tsize\tcopies\tbytes moved")
		for _, b := range s.Buffers {
			fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", b.Name, mem.FormatBytes(b.Size), b.Copies, mem.FormatBytes(b.BytesMoved))
		}
		fmt.Fprintln(tw)
	}
	parts := slices.ContainsFunc(s.Devices, func(d DeviceUse) bool { return d.Whole > d.Peak })
	if parts {
		fmt.Fprintln(tw, "memory\tpeak use\tstored whole")
	} else {
		fmt.Fprintln(tw, "memory\tpeak use")
	}
	for _, d := range s.Devices {
		fmt.Fprintf(tw, "%s\t%s", d.Name, mem.FormatBytes(d.Peak))
		if parts {
			fmt.Fprintf(tw, "\t%s", mem.FormatBytes(d.Whole))
		}
		fmt.Fprintln(tw)
	}
	fmt.Fprintf(tw, "\n%d commands, %d of them launches", s.Commands, s.Launches)
	if s.Refused > 0 {
		fmt.Fprintf(tw, "; %d refused", s.Refused)
	}
	if s.Failed > 0 {
		fmt.Fprintf(tw, "; %d ended in an error", s.Failed)
	}
	if s.Evictions > 0 {
		fmt.Fprintf(tw, "\nevicted %d blocks of %s: %s dropped, %s written back", s.Evictions,
			mem.FormatBytes(s.BytesEvicted), mem.FormatBytes(s.BytesDropped), mem.FormatBytes(s.BytesWrittenBack))
	}
	if s.BytesRegrown > 0 {
		fmt.Fprintf(tw, "\n%s copied within devices, into blocks that took others' place", mem.FormatBytes(s.BytesRegrown))
	}
	fmt.Fprintf(tw, "\nmoved %d bytes (%s) in %d copies: %s\n", s.BytesMoved, mem.FormatBytes(s.BytesMoved), s.Copies, s.verdict())
	return tw.Flush()
}

func (s *Summary) verdict() string {
	least, known := s.Least()
	switch {
	case !known:
		return fmt.Sprintf("the lower bound without the failures is %d", s.LowerBound)
	case s.CapacityBound > 0:
		return fmt.Sprintf("%s compulsory, %s since memory was short, of which at least %s must",
			mem.FormatBytes(s.Compulsory), mem.FormatBytes(s.Capacity), mem.FormatBytes(s.CapacityBound))
	case least:
		return "the least possible"
	}
	return fmt.Sprintf("the lower bound is %d", s.LowerBound)
}
