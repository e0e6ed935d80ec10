package sweep

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"

	"godwit/internal/journal"
	"godwit/mem"
)

// Rows are the rows of a sweep that are known, each where it lies: in journals, in results that were made
// before, in the sweep's own journal. Five bytes are held of each. Take comes before all else; the rest is
// safe for concurrent use.
type Rows struct {
	id      string
	points  Points
	sources []source // what Take was given
	end     int64    // of their places
	known   index    // rows of other sweeps

	mu      sync.Mutex
	journal store  // what is added goes there: its places follow those of sources
	at      places // by point; protected by mu
	have    int    // how many there are; protected by mu
}

// store is what rows are added to.
type store interface {
	io.ReaderAt
	Add(lines []byte) (place int64, err error)
}

// source is a text of rows; it has the places from first on.
type source struct {
	name        string
	text        io.ReaderAt
	first, size int64
}

// maxPlace bounds the bytes of all that is taken.
const maxPlace = 1 << 40

// Rows are the rows of a sweep: none yet.
func (c *Config) Rows(ctx context.Context) (*Rows, error) {
	id, points, err := c.Identify(ctx)
	if err != nil {
		return nil, err
	}
	return &Rows{id: id, points: points, at: newPlaces(points.Len()), journal: &memory{}}, nil
}

// Points are those of the sweep.
func (r *Rows) Points() Points { return r.points }

// ID identifies the sweep: with the same an index means the same point.
func (r *Rows) ID() string { return r.id }

// Missing is the next run of at most so many points without a row, from a point on; lo is the number of points where there is none.
func (r *Rows) Missing(from, most int) (lo, hi int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.at.len()
	for lo = from; lo < n && r.at.get(lo) >= 0; lo++ {
	}
	for hi = lo; hi < min(n, lo+most) && r.at.get(hi) < 0; hi++ {
	}
	return lo, hi
}

// JournalName is what heads of sweeps' journals say that they are.
const JournalName = "godwit sweep"

// decodeLine reads a line of a sweep's journal, or of results, which have rows alone; false where it is neither, or torn.
func decodeLine(text []byte) (l journal.Line, ok bool) {
	l, ok = journal.Decode(text)
	return l, ok && (l.Journal == "" || l.Journal == JournalName)
}

// brief is what says of a row whether it is one, and of which point.
type brief struct {
	Point    string `json:"point"`
	Error    string `json:"error"`
	Times    string `json:"times"`
	Commands *int   `json:"commands"`
}

// briefly reads that; false where it is no row.
func briefly(row []byte) (b brief, ok bool) {
	return b, json.Unmarshal(row, &b) == nil && b.Point != "" && b.Commands != nil
}

// Accept adds rows that somebody else has made, given as lines of a journal: those of points without one, or with one that says
// why it failed. It fails with journal.ErrTorn where lines are no rows, and with journal.ErrUnlike where a row is not the one that its point has; the
// other rows are added all the same. why are the reasons of those that failed.
func (r *Rows) Accept(lines []byte) (why []string, err error) {
	var points []int
	var unlike, torn error
	var keep []byte // the lines of those that are added
	given := make(map[int][]byte)
	err = journal.Each(bytes.NewReader(lines), 0, func(text []byte, _ int64, whole bool) error {
		l, ok := decodeLine(text)
		b, isRow := briefly(l.Row)
		if !ok || !whole || !isRow || l.At < 0 || l.At >= r.points.n {
			torn = journal.ErrTorn
			return nil
		}
		before, err := r.row(l.At)
		if before == nil {
			before = given[l.At]
		}
		switch {
		case err != nil:
			return err
		case before == nil, b.Error == "" && failedRow(before):
			given[l.At] = l.Row
			points, keep = append(points, l.At), append(append(keep, text...), '\n')
			if b.Error != "" {
				why = append(why, Label(r.points.At(l.At))+": "+b.Error)
			}
		case b.Error == "" && !bytes.Equal(before, l.Row) && b.Times != "measured":
			unlike = fmt.Errorf("point %d, %s: %w: it has\n%s\nand\n%s", l.At, Label(r.points.At(l.At)), journal.ErrUnlike, before, l.Row)
		}
		return nil
	})
	if err == nil && len(points) > 0 {
		err = r.add(points, keep)
	}
	return why, errors.Join(err, unlike, torn)
}

// failedRow reports whether a row says why its point failed.
func failedRow(row []byte) bool {
	b, _ := briefly(row)
	return b.Error != ""
}

// Results are all rows, once there are all.
func (r *Rows) Results() (*Results, error) {
	res := &Results{Axes: r.points.axes, Points: r.points.n, rows: r}
	return res, res.survey()
}

// Take takes the rows of a journal, or of results as JSON lines, whose text has so many bytes. What is no row, such as
// one that was torn when its writer was killed, is left out, and so are points that
// failed: they are tried again. It returns how many lines it has left out. text is read until the
// results are written.
func (r *Rows) Take(name string, text io.ReaderAt, size int64) (dropped int, err error) {
	first, err := r.source(name, text, size)
	if err != nil {
		return 0, err
	}
	return r.scan(io.NewSectionReader(text, 0, size), first)
}

// source gives a text places from first on.
func (r *Rows) source(name string, text io.ReaderAt, size int64) (first int64, err error) {
	if first = r.end; first+size > maxPlace {
		return 0, fmt.Errorf("%s: more than 1 TiB of rows: %w", name, mem.ErrInvalidValue)
	}
	r.sources, r.end = append(r.sources, source{name, text, first, size}), first+size
	return first, nil
}

// Keep has rows added to a journal from now on, and takes what it has, as Take does. Of several journals it is the last.
func (r *Rows) Keep(j *journal.File) (dropped int, err error) {
	if dropped, err = r.scan(io.NewSectionReader(j, 0, j.Size()), r.end); err != nil {
		return dropped, err
	}
	r.journal = j
	return dropped, j.Begin(r.id, r.points.axes)
}

// scan takes the rows of a text.
func (r *Rows) scan(text io.Reader, first int64) (dropped int, err error) {
	ours := false
	err = journal.Each(text, first, func(text []byte, place int64, whole bool) error {
		l, ok := decodeLine(text)
		if ok = ok && whole; ok && l.Journal != "" {
			ours = l.Of == r.id
			return nil
		}
		b, isRow := briefly(l.Row)
		switch {
		case !ok || !isRow || b.Error != "":
			dropped++
		case ours && l.At >= 0 && l.At < r.at.len():
			r.put(l.At, place)
		default:
			r.known.add(b.Point, place)
		}
		return nil
	})
	r.known.sort()
	return dropped, err
}

// put notes where a point's row is. The caller holds mu, or is alone.
func (r *Rows) put(i int, place int64) {
	if r.at.get(i) < 0 {
		r.have++
	}
	r.at.set(i, place)
}

// rowAt is the row at a place.
func (r *Rows) rowAt(place int64) ([]byte, error) {
	var text io.ReaderAt = r.journal
	name, first := "journal", r.end
	if place < r.end {
		i, _ := slices.BinarySearchFunc(r.sources, place, func(s source, p int64) int {
			if s.first+s.size <= p {
				return -1
			}
			return 1
		})
		text, name, first = r.sources[i].text, r.sources[i].name, r.sources[i].first
	}
	buf := make([]byte, 0, 4<<10)
	for {
		n, err := text.ReadAt(buf[len(buf):cap(buf)], place-first+int64(len(buf)))
		buf = buf[:len(buf)+n]
		if end := bytes.IndexByte(buf, '\n'); end >= 0 {
			l, ok := decodeLine(buf[:end])
			if !ok || l.Row == nil {
				return nil, fmt.Errorf("%s: the row at byte %d has changed since it was read: %w", name, place-first, mem.ErrInvalidValue)
			}
			return l.Row, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		buf = slices.Grow(buf, len(buf))
	}
}

// row is a point's row; nil where there is none.
func (r *Rows) row(i int) ([]byte, error) {
	r.mu.Lock()
	place := r.at.get(i)
	r.mu.Unlock()
	if place < 0 {
		return nil, nil
	}
	return r.rowAt(place)
}

// find is the row of a point by its hash: its own, or another sweep's. nil where there is none.
func (r *Rows) find(i int, point string) ([]byte, error) {
	row, err := r.row(i)
	if err != nil {
		return nil, err
	}
	if b, ok := briefly(row); ok && b.Point == point {
		return row, nil
	}
	for place := range r.known.places(point) {
		if row, err = r.rowAt(place); err != nil {
			return nil, err
		}
		if b, ok := briefly(row); ok && b.Point == point {
			return row, nil
		}
	}
	return nil, nil
}

// add adds the lines of points' rows to the journal, by one write.
func (r *Rows) add(points []int, lines []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, err := r.journal.Add(lines)
	if err != nil {
		return err
	}
	for _, i := range points {
		r.put(i, r.end+place)
		n := bytes.IndexByte(lines, '\n') + 1
		place, lines = place+int64(n), lines[n:]
	}
	return nil
}

// Have is how many points have a row.
func (r *Rows) Have() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have
}

// memory keeps rows of a sweep that has no journal.
type memory struct {
	mu   sync.RWMutex
	text []byte // protected by mu
}

func (m *memory) Add(lines []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = append(m.text, lines...)
	return int64(len(m.text) - len(lines)), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if off >= int64(len(m.text)) {
		return 0, io.EOF
	}
	n := copy(p, m.text[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// placeBytes are of a place: maxPlace has 40 bits.
const placeBytes = 5

// places are where points' rows lie.
type places []byte

func newPlaces(n int) places { return make(places, placeBytes*n) }

func (p places) len() int { return len(p) / placeBytes }

// get is a point's place, -1 where it has none.
func (p places) get(i int) int64 {
	b := p[placeBytes*i:][:placeBytes]
	return (int64(binary.LittleEndian.Uint32(b)) | int64(b[4])<<32) - 1
}

func (p places) set(i int, place int64) {
	b := p[placeBytes*i:][:placeBytes]
	binary.LittleEndian.PutUint32(b, uint32(place+1))
	b[4] = byte((place + 1) >> 32)
}

// index finds rows by their points' hash: a word has 24 bits of it and 40 of the row's place, so that who
// looks reads one row in vain for each that he finds, at most, of some millions.
type index struct {
	lists [256][][]uint64 // by eight other bits of the hash: chunks, each in order, so that none has to grow
}

// chunkWords are those of a chunk of the index.
const chunkWords = 2048

func (x *index) split(point string) (list *[][]uint64, low uint64) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, point) // a hash never fails
	sum := h.Sum32()
	return &x.lists[sum>>24], uint64(sum&(1<<24-1)) << 40
}

func (x *index) add(point string, place int64) {
	list, low := x.split(point)
	if n := len(*list); n == 0 || len((*list)[n-1]) == chunkWords {
		*list = append(*list, make([]uint64, 0, chunkWords))
	}
	last := &(*list)[len(*list)-1]
	*last = append(*last, low|uint64(place))
}

func (x *index) sort() {
	for _, list := range x.lists {
		for _, chunk := range list {
			slices.Sort(chunk)
		}
	}
}

// places are where the point's row may be.
func (x *index) places(point string) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		list, low := x.split(point)
		for _, chunk := range *list {
			i, _ := slices.BinarySearch(chunk, low)
			for ; i < len(chunk) && chunk[i]>>40 == low>>40; i++ {
				if !yield(int64(chunk[i] & (1<<40 - 1))) {
					return
				}
			}
		}
	}
}

// Text is a file of rows.
type Text struct {
	Name string
	Text io.ReaderAt
	Size int64
}

// Merge is the results of a sweep from its journals: those of its shards. It fails where they are of different
// sweeps, where a point has no row in any, and with journal.ErrUnlike where two rows of a point differ in more than measured times.
func Merge(journals []Text) (*Results, error) {
	r := &Rows{journal: &memory{}}
	m := merger{Rows: r}
	for _, t := range journals {
		first, err := r.source(t.Name, t.Text, t.Size)
		if err != nil {
			return nil, err
		}
		m.name, m.ours = t.Name, false
		if err := journal.Each(io.NewSectionReader(t.Text, 0, t.Size), first, m.line); err != nil {
			return nil, err
		}
		if !m.ours {
			return nil, fmt.Errorf("%s: %w (results, and journals of versions before shards, are for --resume)", t.Name, journal.ErrNone)
		}
	}
	if err := m.missing(); err != nil {
		return nil, err
	}
	return r.Results()
}

// merger takes the rows of journals by their index alone.
type merger struct {
	*Rows
	name string // of the journal that is read
	ours bool   // its head has been read
}

// line takes a line of a journal; one that is torn, or no row, is left out.
func (m *merger) line(text []byte, place int64, whole bool) error {
	l, ok := decodeLine(text)
	if !ok || !whole {
		return nil
	}
	if l.Journal != "" {
		return m.head(&l, text)
	}
	b, isRow := briefly(l.Row)
	if !m.ours || !isRow || l.At < 0 || l.At >= m.at.len() {
		return nil
	}
	before, err := m.row(l.At)
	if err != nil || before == nil {
		m.put(l.At, place)
		return err
	}
	was, _ := briefly(before)
	switch {
	case was.Error != "":
		m.put(l.At, place) // it was tried again
	case b.Error != "" || was.Times == "measured" || bytes.Equal(before, l.Row):
	case was.Point != b.Point && m.at.get(l.At) >= m.sources[len(m.sources)-1].first:
		m.put(l.At, place) // files were changed since, and the sweep went on
	default:
		return fmt.Errorf("%s: point %d, %s: %w: it has\n%s\nand\n%s", m.name, l.At, Label(m.points.At(l.At)), journal.ErrUnlike, before, l.Row)
	}
	return nil
}

// head takes a head: all are of one sweep.
func (m *merger) head(l *journal.Line, text []byte) (err error) {
	m.ours = l.Of != ""
	switch {
	case !m.ours:
	case m.id == "":
		m.id = l.Of
		var head struct {
			Axes []Axis `json:"axes"`
		}
		if err = json.Unmarshal(text, &head); err != nil {
			return err
		}
		if m.points, err = product(head.Axes); err == nil {
			m.at = newPlaces(m.points.Len())
		}
	case m.id != l.Of:
		err = fmt.Errorf("%s: it is of another sweep than %s: of another program, scenario, machine, or of other values: %w", m.name, m.sources[0].name, mem.ErrInvalidValue)
	}
	return err
}

// ErrMissing are points without a row.
var ErrMissing = errors.New("points have no row")

// missing fails where points have no row.
func (m *merger) missing() error {
	if m.have == m.at.len() {
		return nil
	}
	i, _ := m.Missing(0, 1)
	return fmt.Errorf("%d of %d %w, the first is point %d, %s", m.at.len()-m.have, m.at.len(), ErrMissing, i, Label(m.points.At(i)))
}
