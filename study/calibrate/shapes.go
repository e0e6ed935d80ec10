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
	of        string // the figures that it tells most of, by the beginning of their names: the fit begins there
	bytes     uint64 // that a unit moves, where these are of a MiB; 0 is as many
	most      int    // runs, where not any number can be made; 0 is no limit
	middle    bool   // there are smaller and larger ones of its kind, so that it may be held out
	// open gets ready, and returns what does n units once, which says how many
	// nanoseconds they took, in any case those that do not count.
	open func(b *bench) (once func(n int) (float64, error), err error)
}

// slopes measures a shape: as often as again says, of so many that there are.
func (b *bench) slopes(s *shape, again func(n int) bool) (all []float64, err error) {
	once, err := s.open(b)
	defer func() {
		if ferr := b.free(); err == nil {
			err = ferr
		}
	}()
	if err != nil {
		return nil, err
	}
	if _, err := once(s.many); err != nil { // first uses
		return nil, err
	}
	for len(all) == 0 || again(len(all)) && (s.most == 0 || len(all) < s.most) {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		var took [2]float64
		for i, n := range [...]int{s.few, s.many} {
			if took[i], err = once(n); err != nil {
				return nil, err
			}
		}
		all = append(all, (took[1]-took[0])/float64(s.many-s.few))
	}
	return all, nil
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

// How buffers are brought.
type mode uint8

const (
	atOnce   mode = iota // and the last are waited for
	oneByOne             // each is waited for
	enqueued             // until the last enqueue has returned
)

// moved is a shape of buffers that are in one place, alone, and are brought to another:
// buffer i from froms[i] to tos[i], by turns.
func moved(name string, size uint64, flags runtime.Flags, how mode, froms, tos []int) *shape {
	few, many := counts(size)
	ways := len(froms)
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.buffers(many*ways, size, flags)
		return func(n int) (float64, error) {
			if err := b.place(bufs[:n*ways], froms...); err != nil {
				return 0, err
			}
			var returned float64
			took, err := b.timed(func(r *run) {
				start := b.rt.Now()
				for i, x := range bufs[:n*ways] {
					e := r.migrate(froms[i%ways], tos[i%ways], i%ways, x)
					if how == oneByOne {
						r.wait(e)
					}
				}
				returned = float64(b.rt.Now() - start)
				for _, e := range r.events[max(len(r.events)-ways, 0):] {
					r.wait(e)
				}
			})
			if how == enqueued {
				took = returned
			}
			return took, err
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
	for i := range s.groups { // before others have used the memory
		for _, size := range []uint64{64 << 10, 2 << 20} {
			add(firstUse(fmt.Sprintf("first use of %s on %s", figures.Size(size), s.groups[i].Name), size, s.groups[i].Devs[0]))
		}
	}
	add(returned("markers until enqueued", 16, 80, 0, 0, 0, func(r *run, _ []*runtime.Buffer, _ int) { r.marker(0) }), "host enqueue")
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

// firstUse is of buffers that are made, and written for the first time, until that is enqueued. None is released
// before the shape ends, so that each takes memory that nobody has used.
func firstUse(name string, size uint64, dev int) *shape {
	return &shape{name: name, few: 2, many: 8, most: 4, open: func(b *bench) (func(int) (float64, error), error) {
		return func(n int) (took float64, err error) {
			bufs, err := b.buffers(n, size, 0)
			if err != nil {
				return 0, err
			}
			_, err = b.timed(func(r *run) {
				start := b.rt.Now()
				for _, x := range bufs {
					r.launch(dev, 0, x)
				}
				took = float64(b.rt.Now() - start)
				r.last()
			})
			return took, err
		}, nil
	}}
}

// hopsBehind is of hops that a kernel, which wrote them all, sets going at once: who submits them is all that is slow.
func hopsBehind(name string, p *pair) *shape {
	const few, many, size = 16, 64, 4096
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		root, err := b.written(1, many*size, p.From)
		if err != nil {
			return nil, err
		}
		parts := make([]*runtime.Buffer, many)
		for i := range parts {
			if parts[i], err = root[0].Sub(uint64(i)*size, size, 0); err != nil {
				return nil, err
			}
			b.release = append(b.release, parts[i].Release)
		}
		return func(n int) (float64, error) {
			return b.timed(func(r *run) {
				r.busyOn(p.From, 0, b.behind(2*many), root[0])
				for _, x := range parts[:n] {
					r.migrate(p.From, p.To, 0, x)
				}
				r.last()
			})
		}, nil
	}}
}

// fresh is a shape of buffers that a device alone holds before, each of which is used as f says, and waited for.
func fresh(name string, size uint64, flags runtime.Flags, from int, f func(r *run, x *runtime.Buffer)) *shape {
	const few, many = 8, 32
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.buffers(many, size, flags)
		return func(n int) (float64, error) {
			if err := b.place(bufs[:n], from); err != nil {
				return 0, err
			}
			return b.timed(func(r *run) {
				for _, x := range bufs[:n] {
					f(r, x)
					r.last()
				}
			})
		}, err
	}}
}

// pageable is a shape of writes to a device, or reads from there, of the program's own memory.
func pageable(name string, size uint64, dev int, up bool) *shape {
	few, many := counts(size)
	var data []byte
	return simple(name, few, many, 1, size, dev, func(r *run, bufs []*runtime.Buffer, n int) {
		if uint64(len(data)) != size {
			data = make([]byte, size)
		}
		for range n {
			r.wait(r.transfer(dev, bufs[0], data, up))
		}
	})
}

// rows is a shape of one copy inside a device of so many rows of 64 bytes.
func rows(name string, dev int) *shape {
	const pitch, most = 256, 1024
	return simple(name, 64, most, 2, pitch*most, dev, func(r *run, bufs []*runtime.Buffer, n int) {
		box := runtime.Box{Row: pitch}
		if r.err == nil {
			r.wait(r.took(r.q(dev, 0).EnqueueCopyRect(r.ctx, bufs[0], bufs[1], box, box, [3]uint64{64, uint64(n), 1})))
		}
	})
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

// tells says which figure a shape tells most of: it is no longer.
func (s *shape) tells(of string) *shape {
	s.of = of
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
	name, d := s.groups[g].Name, s.groups[g].Devs[0]
	all := sizes(quick, s.most(g))
	add(behind("launch on "+name, 16, 144, 1, 64, d, func(r *run, bufs []*runtime.Buffer, _ int) { r.launch(d, 0, bufs[0]) }), name+" launch")
	add(returned("launches on "+name+" until enqueued", 16, 80, 1, 64, d, func(r *run, bufs []*runtime.Buffer, _ int) { r.launch(d, 0, bufs[0]) }).tells(name + " classes launch enqueue"))
	add(returned("copies inside "+name+" until enqueued", 16, 80, 2, 64, d, func(r *run, bufs []*runtime.Buffer, _ int) { r.copy(d, bufs[0], bufs[1], 64) }).tells(name + " classes inside enqueue"))
	add(moved("ups to "+name+" until enqueued", 4096, runtime.AllocHostPtr, enqueued, []int{hostDevice}, []int{d}).tells(name + " classes up enqueue"))
	add(moved("downs from "+name+" until enqueued", 4096, runtime.AllocHostPtr, enqueued, []int{d}, []int{hostDevice}).tells(name + " classes down enqueue"))
	add(fresh("up to "+name+" for a kernel", 4096, runtime.AllocHostPtr, hostDevice, func(r *run, x *runtime.Buffer) { r.launch(d, 0, x) }))
	add(fresh("down from "+name+" after a kernel", 4096, runtime.AllocHostPtr, d, func(r *run, x *runtime.Buffer) {
		r.launch(d, 0, x)
		r.migrate(d, hostDevice, 0, x)
	}))
	add(rows("a row of a copy inside "+name, d))
	own := []uint64{4 << 10, 1 << 20, 16 << 20}
	for i, size := range own {
		add(pageable("write to "+name+", "+figures.Size(size), size, d, true).moves(size, "host pageable", i, len(own)))
		add(pageable("read from "+name+", "+figures.Size(size), size, d, false).moves(size, "host pageable", i, len(own)))
	}
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
		x := func(kind string, how mode, from, to []int) {
			add(moved(kind+name+", "+text, size, runtime.AllocHostPtr, how, from, to).moves(size*uint64(len(from)), "host-"+name, i, len(all)))
		}
		x("up to ", oneByOne, up, down)
		x("down from ", oneByOne, down, up)
		if size >= 64<<10 {
			x("several up to ", atOnce, up, down)
		}
		if size >= 1<<20 {
			x("up and down, ", atOnce, []int{hostDevice, d}, []int{d, hostDevice})
		}
	}
}

// pair has the shapes of two devices.
func (s *site) pair(p *pair, quick bool, add func(*shape, ...string)) {
	name, all := s.name(p), sizes(quick, min(s.most(p.A), s.most(p.B)))
	from, to := []int{p.From}, []int{p.To}
	add(turns("by turns on "+name, p.From, 0, p.To, 0))
	for i, size := range all {
		x := func(kind string, how mode, from, to []int) {
			add(moved(kind+name+", "+figures.Size(size), size, 0, how, from, to).moves(size*uint64(len(from)), name, i, len(all)))
		}
		x("hop ", oneByOne, from, to)
		x("several hops ", atOnce, from, to)
		if size >= 1<<20 {
			x("hops both ways ", atOnce, []int{p.From, p.To}, []int{p.To, p.From})
		}
	}
	class := "ring"
	if p.Direct {
		class = "peer"
	}
	goes := s.groups[p.B].Name + " classes " + class
	add(moved("hops "+name+" until enqueued", 4096, 0, enqueued, from, to).tells(goes + " enqueue"))
	add(hopsBehind("hops "+name+" behind a kernel", p).tells(goes + " hold"))
	for _, size := range []uint64{4 << 10, 64 << 10} {
		text := figures.Size(size)
		add(fresh("hop "+name+" for a kernel, "+text, size, 0, p.From, func(r *run, x *runtime.Buffer) { r.launch(p.To, 0, x) }))
		add(fresh("hop "+name+" after a kernel, "+text, size, 0, p.From, func(r *run, x *runtime.Buffer) {
			r.launch(p.From, 0, x)
			r.migrate(p.From, p.To, 0, x)
		}))
		add(simple(fmt.Sprintf("kernel and hop by turns %s, %s", name, figures.Size(size)), 16, 64, 1, size, p.From, func(r *run, bufs []*runtime.Buffer, n int) {
			for i := range n {
				r.launch([]int{p.From, p.To}[i%2], 0, bufs[0])
			}
			r.last()
		}))
	}
}

// most is the largest size to move by devices of a group: four buffers both ways are at most a sixteenth of
// its memory, and no gigabytes.
func (s *site) most(g int) uint64 {
	has := s.groups[g].Info.GlobalMemory
	if has == 0 {
		has = math.MaxUint64
	}
	most := min(has/128, 256<<20)
	if s.groups[g].Info.SharesHost || s.groups[g].Driver == "cpu" || s.groups[g].Driver == "tce" {
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

// transfer writes the program's own bytes, or reads them.
func (r *run) transfer(dev int, x *runtime.Buffer, data []byte, up bool) runtime.Event {
	switch {
	case r.err != nil:
		return runtime.Event{}
	case up:
		return r.took(r.q(dev, 0).EnqueueWrite(r.ctx, x, 0, data))
	}
	return r.took(r.q(dev, 0).EnqueueRead(r.ctx, x, 0, data))
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
