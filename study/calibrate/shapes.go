package calibrate

import (
	"context"
	"fmt"
	"math"

	"godwit/internal/figures"
	"godwit/runtime"
)

// shape is something that is done so many times, and timed.
type shape struct {
	name      string
	few, many int    // units of the shorter and of the longer run
	reads     string // the figure that it reads off; "" is none
	of        string // the bandwidth that it tells most of, and by how many bytes a unit
	bytes     uint64
	middle    bool // there are smaller and larger ones of its kind, so that it may be held out
	// open gets ready, and returns what does n units once, which says how many
	// nanoseconds they took, in any case those that do not count.
	open func(b *bench) (once func(n int) (float64, error), err error)
}

// slope measures a shape: as often as again says.
func (b *bench) slope(s *shape, again func(all []float64) bool) (f Figure, err error) {
	once, err := s.open(b)
	defer func() {
		if ferr := b.free(); err == nil {
			err = ferr
		}
	}()
	if err != nil {
		return Figure{}, err
	}
	if _, err := once(s.many); err != nil { // first uses
		return Figure{}, err
	}
	var all []float64
	for len(all) == 0 || again(all) {
		if err := b.ctx.Err(); err != nil {
			return Figure{}, err
		}
		var took [2]float64
		for i, n := range [...]int{s.few, s.many} {
			if took[i], err = once(n); err != nil {
				return Figure{}, err
			}
		}
		all = append(all, (took[1]-took[0])/float64(s.many-s.few))
	}
	return figureOf(all), nil
}

// written are n buffers of a size that a device has written.
func (b *bench) written(n int, size uint64, dev int) ([]*runtime.Buffer, error) {
	bufs, err := b.buffers(n, size, 0)
	if err == nil {
		err = b.place(bufs, dev)
	}
	return bufs, err
}

// simple is a shape of commands over buffers of a size, each of which is timed as a whole.
func simple(name string, few, many int, buffers int, size uint64, dev int, f func(r *run, bufs []*runtime.Buffer, n int)) *shape {
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.written(buffers, size, dev)
		return func(n int) (float64, error) { return b.timed(func(r *run) { f(r, bufs, n) }) }, err
	}}
}

// behind is a shape of commands that are enqueued on a device's queue while it computes, so that the
// time is the device's own.
func behind(name string, few, many int, buffers int, size uint64, dev int, each func(r *run, bufs []*runtime.Buffer, i int)) *shape {
	return simple(name, few, many, buffers, size, dev, func(r *run, bufs []*runtime.Buffer, n int) {
		r.busy(dev, 0, r.behind(many))
		for i := range n {
			each(r, bufs, i)
		}
		r.last()
	})
}

// returned is simple, but that only what f says counts, such as until its last enqueue has returned.
func returned(name string, few, many int, buffers int, size uint64, dev int, each func(r *run, bufs []*runtime.Buffer, i int)) *shape {
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.written(buffers, size, dev)
		return func(n int) (took float64, err error) {
			_, err = b.timed(func(r *run) {
				start := b.rt.Now()
				for i := range n {
					each(r, bufs, i)
				}
				took = float64(b.rt.Now() - start)
				r.last()
			})
			return took, err
		}, err
	}}
}

// moved is a shape of buffers that are in one place, alone, and are brought to another:
// buffer i from froms[i] to tos[i], by turns. Where each is waited for, one is brought at a time.
func moved(name string, size uint64, flags runtime.Flags, each bool, froms, tos []int) *shape {
	few, many := counts(size)
	ways := len(froms)
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.buffers(many*ways, size, flags)
		return func(n int) (float64, error) {
			if err := b.place(bufs[:n*ways], froms...); err != nil {
				return 0, err
			}
			return b.timed(func(r *run) {
				for i, x := range bufs[:n*ways] {
					e := r.migrate(froms[i%ways], tos[i%ways], i%ways, x)
					if each {
						r.wait(e)
					}
				}
				for _, e := range r.events[max(len(r.events)-ways, 0):] {
					r.wait(e)
				}
			})
		}, err
	}}
}

// counts is how many buffers of a size are moved, in the shorter run and in the longer.
func counts(size uint64) (few, many int) {
	switch {
	case size <= 256<<10:
		return 16, 64
	case size <= 4<<20:
		return 4, 16
	}
	return 1, 4
}

// sizes that are moved. Those of a quick run are every other.
func sizes(quick bool, most uint64) (out []uint64) {
	for _, n := range []uint64{4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20} {
		if n > most || quick && (n == 4<<20 || n > 16<<20) {
			continue
		}
		out = append(out, n)
	}
	return out
}

// shapes are those of what there is, in the order in which they are measured: what others
// build on comes first.
func (s *site) shapes(quick bool) (out []*shape) {
	add := func(x *shape, reads ...string) {
		if len(reads) > 0 {
			x.reads = reads[0]
		}
		out = append(out, x)
	}
	add(returned("enqueue", 16, 80, 1, 64, 0, func(r *run, bufs []*runtime.Buffer, _ int) { r.launch(0, 0, bufs[0]) }), "host enqueue")
	add(ended(), "host poll")
	add(simple("create and release a buffer", 20, 100, 0, 0, 0, func(r *run, _ []*runtime.Buffer, n int) {
		for range n {
			if x, err := r.rt.CreateBuffer(4096, 0, nil); r.took0(err) {
				r.took0(x.Release())
			}
		}
	}))
	add(behind("host call", 16, 144, 0, 0, 0, func(r *run, _ []*runtime.Buffer, _ int) { r.hostCall(0) }), "host call")
	add(hostCopy(16<<20), "host bandwidth")
	for i := range s.groups {
		s.device(i, quick, add)
	}
	for i := range s.pairs {
		s.pair(&s.pairs[i], quick, add)
	}
	return out
}

// ended is a wait for what has ended.
func ended() *shape {
	return &shape{name: "wait for what has ended", few: 50, many: 250, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.written(1, 4096, 0)
		return func(n int) (took float64, err error) {
			_, err = b.timed(func(r *run) {
				e := r.launch(0, 0, bufs[0])
				r.wait(e)
				start := b.rt.Now()
				for range n {
					r.wait(e)
				}
				took = float64(b.rt.Now() - start)
			})
			return took, err
		}, err
	}}
}

// hostCopy copies in the host's memory. Its figure is of a MiB that is read or written.
func hostCopy(size uint64) *shape {
	x := simple("copy inside host, "+figures.Size(size), 2, 6, 2, size, hostDevice, func(r *run, bufs []*runtime.Buffer, n int) {
		for range n {
			r.copy(hostDevice, bufs[0], bufs[1], size)
		}
		r.last()
	})
	return x.per(2 * size)
}

// moves says how many bytes a unit of a shape moves over a link, or of the figure of, and where its size
// stands among all.
func (s *shape) moves(bytes uint64, of string, i, all int) *shape {
	s.bytes, s.of, s.middle = bytes, of, i > 0 && i < all-1
	return s
}

// per has a shape's figure be of a MiB of so many bytes.
func (s *shape) per(bytes uint64) *shape {
	open, by := s.open, float64(1<<20)/float64(bytes)
	s.open = func(b *bench) (func(int) (float64, error), error) {
		once, err := open(b)
		return func(n int) (float64, error) {
			took, err := once(n)
			return took * by, err
		}, err
	}
	return s
}

// device has the shapes of one device of a group.
func (s *site) device(g int, quick bool, add func(*shape, ...string)) {
	name, d := s.groups[g].name, s.groups[g].devs[0]
	all := sizes(quick, s.most(g))
	add(behind("launch on "+name, 16, 144, 1, 64, d, func(r *run, bufs []*runtime.Buffer, _ int) { r.launch(d, 0, bufs[0]) }), name+" launch")
	add(simple("launch on "+name+" and wait", 4, 20, 1, 4096, d, func(r *run, bufs []*runtime.Buffer, n int) {
		for range n {
			r.wait(r.launch(d, 0, bufs[0]))
		}
	}))
	add(simple("marker on "+name+" and wait", 4, 20, 0, 0, d, func(r *run, _ []*runtime.Buffer, n int) {
		for range n {
			r.wait(r.marker(d))
		}
	}))
	add(turns("by turns on two queues of "+name, d, 0, d, 1))
	for i, size := range all {
		few, many := counts(size)
		if size <= 64<<10 {
			few, many = 16, 144
		}
		add(behind(fmt.Sprintf("copy inside %s, %s", name, figures.Size(size)), few, many, 2, size, d, func(r *run, bufs []*runtime.Buffer, _ int) {
			r.copy(d, bufs[0], bufs[1], size)
		}).moves(2*size, name+" bandwidth", i, len(all)))
	}
	for i, size := range all {
		text, up, down := figures.Size(size), []int{hostDevice}, []int{d}
		x := func(kind string, each bool, from, to []int) {
			add(moved(kind+name+", "+text, size, runtime.AllocHostPtr, each, from, to).moves(size*uint64(len(from)), "host-"+name, i, len(all)))
		}
		x("up to ", true, up, down)
		x("down from ", true, down, up)
		if size >= 64<<10 {
			x("several up to ", false, up, down)
		}
		if size >= 1<<20 {
			x("up and down, ", false, []int{hostDevice, d}, []int{d, hostDevice})
		}
	}
}

// pair has the shapes of two devices.
func (s *site) pair(p *pair, quick bool, add func(*shape, ...string)) {
	name, all := s.name(p), sizes(quick, min(s.most(p.a), s.most(p.b)))
	from, to := []int{p.from}, []int{p.to}
	add(turns("by turns on "+name, p.from, 0, p.to, 0))
	for i, size := range all {
		x := func(kind string, each bool, from, to []int) {
			add(moved(kind+name+", "+figures.Size(size), size, 0, each, from, to).moves(size*uint64(len(from)), name, i, len(all)))
		}
		x("hop ", true, from, to)
		x("several hops ", false, from, to)
		if size >= 1<<20 {
			x("hops both ways ", false, []int{p.from, p.to}, []int{p.to, p.from})
		}
	}
	for _, size := range []uint64{4 << 10, 64 << 10} {
		add(simple(fmt.Sprintf("kernel and hop by turns %s, %s", name, figures.Size(size)), 16, 64, 1, size, p.from, func(r *run, bufs []*runtime.Buffer, n int) {
			for i := range n {
				r.launch([]int{p.from, p.to}[i%2], 0, bufs[0])
			}
			r.last()
		}))
	}
}

// most is the largest size to move by devices of a group: four buffers both ways are at most a sixteenth of
// its memory, and no gigabytes.
func (s *site) most(g int) uint64 {
	has := s.groups[g].info.GlobalMemory
	if has == 0 {
		has = math.MaxUint64
	}
	most := min(has/128, 256<<20)
	if s.groups[g].info.SharesHost || s.groups[g].info.Driver == "cpu" || s.groups[g].info.Driver == "tce" {
		most = min(most, 64<<20)
	}
	return most
}

// turns is a kernel on each of two queues by turns, each of which waits for the other's last, over
// no common bytes.
func turns(name string, a, qa, b, qb int) *shape {
	return &shape{name: name, few: 16, many: 64, open: func(on *bench) (func(int) (float64, error), error) {
		bufs, err := on.written(2, 4096, a)
		return func(n int) (float64, error) {
			return on.timed(func(r *run) {
				e := r.launch(a, qa, bufs[0])
				for i := range n {
					dev, q := a, qa
					if i%2 == 0 {
						dev, q = b, qb
					}
					e = r.launch(dev, q, bufs[(i+1)%2], e)
				}
				r.last()
			})
		}, err
	}}
}

// What runs do, beside bench.go's.

// took0 keeps an error, and reports whether there is none.
func (r *run) took0(err error) bool {
	if err != nil && r.err == nil {
		r.err = err
	}
	return r.err == nil
}

func (r *run) copy(dev int, from, to *runtime.Buffer, size uint64) {
	if r.err == nil {
		r.took(r.q(dev, 0).EnqueueCopy(r.ctx, from, to, 0, 0, size))
	}
}

func (r *run) marker(dev int) runtime.Event {
	if r.err != nil {
		return runtime.Event{}
	}
	return r.took(r.q(dev, 0).EnqueueMarker(r.ctx))
}

func (r *run) hostCall(dev int) {
	if r.err == nil {
		r.took(r.q(dev, 0).EnqueueHostCall(r.ctx, nothing))
	}
}

// nothing is a host call.
func nothing(context.Context) error { return nil }
