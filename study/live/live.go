// Package live serves the page of what runs (package page) while it runs, to viewers on this computer.
//
// A program hangs a page.Recorder into its context (runtime.Options.Trace) and serves that:
//
//	rec := page.NewWindow("training", "this computer", memories, capacity)
//	…
//	s, err := live.Serve(live.Options{Title: "training", Pictures: live.Of(rec)})
//	fmt.Println(s.URL())
//	defer s.Close(ctx)
//
// docs/design/page.md says what viewers see, and why they never are in the way. The listener is on the loopback address; the
// address has a token (guard.go).
package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"godwit/mem"
	"godwit/study/page"
)

const (
	every       = 500 * time.Millisecond // viewers are told how it goes
	freshFor    = time.Second            // a picture, to all viewers
	patience    = 10 * time.Second       // with a viewer that takes nothing
	lastLook    = 5 * time.Second        // that viewers have at the end
	mostViewers = 16
)

// State is how something goes.
type State struct {
	Stage   string  `json:"stage"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total"`   // 0 is unknown
	Elapsed float64 `json:"elapsed"` // seconds
	ETA     float64 `json:"eta"`     // seconds; below 0 is unknown
	Facts   []Fact  `json:"facts"`   // figures beside that
	Tables  []Table `json:"tables"`  // what is under way, who works, what was found
	Why     string  `json:"why"`     // of what has ended
}

// Fact is a figure: "3", "failed".
type Fact struct {
	Value string `json:"value"`
	Name  string `json:"name"`
}

// Table is some rows of State.
type Table struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"` // nil: it is not shown
}

// Pictures are what there is to draw. Both methods are called by any goroutine.
type Pictures interface {
	Version() uint64       // another one is another picture; 0 is none
	Data() ([]byte, error) // page.Data
}

// Recorders are the pictures of what recorders were told. Safe for concurrent use.
type Recorders struct {
	mu  sync.Mutex
	all []*page.Recorder // protected by mu
}

// Of are the pictures of recorders.
func Of(all ...*page.Recorder) *Recorders { return &Recorders{all: all} }

// Add adds a recorder, and returns it.
func (rs *Recorders) Add(r *page.Recorder) *page.Recorder {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.all = append(rs.all, r)
	return r
}

func (rs *Recorders) list() []*page.Recorder {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.all)
}

// Version implements Pictures.
func (rs *Recorders) Version() (n uint64) {
	for _, r := range rs.list() {
		n += r.Version()
	}
	return n
}

// Data implements Pictures.
func (rs *Recorders) Data() ([]byte, error) {
	var runs []*page.Run
	for _, r := range rs.list() {
		runs = append(runs, r.Run())
	}
	return page.Data(runs...)
}

// Options say what is served. All but Title may be left out.
type Options struct {
	Title    string
	Port     int          // on the loopback address; 0 is any
	State    func() State // called by viewers' goroutines
	Pictures Pictures
	Pace     *Pace // that viewers may pause
}

// Server serves a page until it is closed. Its methods are safe for concurrent use.
type Server struct {
	opt      Options       // immutable
	token    string        // immutable
	listener net.Listener  // immutable
	server   *http.Server  // immutable
	began    time.Time     // immutable
	served   chan error    // immutable: what http.Server.Serve returned
	ending   chan struct{} // immutable: closed when what runs has ended
	once     sync.Once     // of ending
	closing  sync.Once
	err      error          // of Close; set in closing
	requests sync.WaitGroup // none begins once closed
	viewers  atomic.Int64

	mu      sync.Mutex
	closed  bool      // protected by mu
	why     string    // of the end; protected by mu
	last    []byte    // the picture for all who ask; protected by mu
	version uint64    // of last; protected by mu
	made    time.Time // last; protected by mu
	final   bool      // last stays; protected by mu
}

// Serve begins to serve. It fails where the port is taken. Close must follow.
func Serve(o Options) (*Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, err
	}
	s := &Server{opt: o, token: rand.Text(), listener: l, began: time.Now(), served: make(chan error, 1), ending: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{token}/{$}", s.page)
	mux.HandleFunc("GET /{token}/events", s.events)
	mux.HandleFunc("GET /{token}/data", s.data)
	mux.HandleFunc("POST /{token}/pace", s.pace)
	s.server = &http.Server{Handler: s.guard(mux), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

// URL is the page's address, with its token.
func (s *Server) URL() string { return fmt.Sprintf("http://%v/%s/", s.listener.Addr(), s.token) }

// End tells viewers that it has ended, and why where that is not "". runs, where there are some, are the last picture, in place of Options.Pictures.
func (s *Server) End(why string, runs ...*page.Run) (err error) {
	s.mu.Lock()
	s.why = why
	if len(runs) > 0 {
		if s.last, err = page.Data(runs...); err == nil {
			s.version, s.final = s.version+1, true
		}
	}
	s.mu.Unlock()
	s.once.Do(func() { close(s.ending) })
	return err
}

// Close ends it (End), gives viewers some seconds to take the last picture, less where ctx ends, and returns when nothing of it is left.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.ending) })
	look, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); s.viewers.Load() > 0 && look.Err() == nil; {
		select {
		case <-tick.C:
		case <-look.Done():
			tick.Stop()
		}
	}
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.err = s.server.Close()
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			s.err = errors.Join(s.err, err)
		}
		s.requests.Wait()
	})
	return s.err
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.WriteLive(w, s.opt.Title) // who asked has gone
}

// told is a State with what viewers need beside it.
type told struct {
	State
	Version string `json:"version"` // of the picture; "0" is none
	Paces   bool   `json:"paces"`
	Paused  bool   `json:"paused"`
	Now     int64  `json:"now"` // virtual time, ns
	Missed  int    `json:"missed"`
	Ended   bool   `json:"ended"`
}

// state is what a viewer is told now.
func (s *Server) state(ended bool) *told {
	t := &told{State: State{Stage: "running", ETA: -1}, Ended: ended}
	if s.opt.State != nil {
		t.State = s.opt.State()
	}
	if t.Elapsed == 0 {
		t.Elapsed = time.Since(s.began).Seconds()
	}
	t.Facts, t.Tables = append([]Fact{}, t.Facts...), append([]Table{}, t.Tables...)
	if p := s.opt.Pace; p != nil {
		t.Paces = true
		t.Paused, t.Now = p.state()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Why = s.why
	t.Version = strconv.FormatUint(s.newest(), 10)
	return t
}

// newest is the version that there is. mu is held.
func (s *Server) newest() uint64 {
	if s.final || s.opt.Pictures == nil {
		return s.version
	}
	return s.opt.Pictures.Version()
}

// events tells a viewer how it goes until that has gone, or it has ended.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.viewers.Add(1) > mostViewers {
		s.viewers.Add(-1)
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer s.viewers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(t *told) error {
		text, err := json.Marshal(t)
		if err == nil {
			_ = out.SetWriteDeadline(time.Now().Add(patience)) // of a connection, which has one
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
		}
		return errors.Join(err, out.Flush())
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	began, n := time.Now(), 0 // states that were due
	for {
		t := s.state(s.over())
		due := int(time.Since(began) / every)
		t.Missed, n = max(due-n-1, 0), due
		if err := send(t); err != nil {
			return
		}
		if t.Ended {
			<-r.Context().Done() // it takes the last picture
			return
		}
		select {
		case <-tick.C:
		case <-s.ending:
		case <-r.Context().Done():
			return
		}
	}
}

// over reports whether it has ended.
func (s *Server) over() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// data gives a viewer the picture.
func (s *Server) data(w http.ResponseWriter, _ *http.Request) {
	text, version, err := s.picture()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Godwit-Version", strconv.FormatUint(version, 10))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // of a connection, which has one
	_, _ = w.Write(text)                                                         // who asked has gone
}

// picture is the newest, or one that is a second old at most.
func (s *Server) picture() (text []byte, version uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.newest(); now != s.version && (time.Since(s.made) > freshFor || s.over()) {
		if text, err = s.opt.Pictures.Data(); err != nil {
			return nil, 0, err
		}
		s.last, s.version, s.made = text, now, time.Now()
	}
	if s.last == nil {
		return []byte("[]"), s.version, nil
	}
	return s.last, s.version, nil
}

// pace pauses, lets go on or steps.
func (s *Server) pace(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)) // of a connection, which has one
	what, err := io.ReadAll(io.LimitReader(r.Body, 16))
	if err == nil && s.opt.Pace == nil {
		err = fmt.Errorf("its time is not modelled: %w", mem.ErrInvalidOperation)
	}
	if err == nil {
		err = s.opt.Pace.do(string(what))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}
