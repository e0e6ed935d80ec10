package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

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
	held      bool   // held out: no figure sees it
	// open gets ready, and returns what does n units once, which says how many
	// nanoseconds they took, in any case those that do not count.
	open func(b *bench) (once func(n int) (float64, error), err error)
}

// errLate says that what was to be hidden behind a kernel was not; the next time that is longer.
var errLate = errors.New("it takes longer to enqueue than it was hidden for")

// slopes measures a shape: as often as again says, of so many that there are.
func (b *bench) slopes(s *shape, again func(all []float64) bool) (all []float64, err error) {
	once, err := s.open(b)
	defer func() { err = errors.Join(err, b.free()) }()
	if err != nil {
		return nil, err
	}
	late := 0
	var took [2]float64
	best := [2]float64{math.Inf(1), math.Inf(1)}
	for _, err = once(s.many); errors.Is(err, errLate) && late < 16; _, err = once(s.many) { // with first uses
		late++
	}
	if err != nil {
		return nil, err
	}
	for len(all) == 0 || again(all) && (s.most == 0 || len(all) < s.most) {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		for i, n := range [...]int{s.few, s.many} {
			if took[i], err = once(n); err != nil {
				break
			}
		}
		if errors.Is(err, errLate) && late < 16 {
			late++
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range best {
			best[i] = min(best[i], took[i])
		}
		all = append(all, (took[1]-took[0])/float64(s.many-s.few))
	}
	if v := (best[1] - best[0]) / float64(s.many-s.few); len(all) > 1 && v > 0 && figureOf(all).Value < 0 {
		return []float64{0, v, 2 * v}, nil // by the runs that were disturbed least, which tells half of it
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

// How commands are timed.
type timing uint8

const (
	whole    timing = iota // until the last has ended
	returned               // until the last enqueue has returned
	hidden                 // as whole, behind a kernel that runs until all are enqueued: the time is the device's own
)

// commands is a shape of commands over buffers of a size that a device has written, each of which each enqueues, the ith of
// so many.
func commands(name string, few, many, buffers int, size uint64, dev int, how timing, each func(r *run, bufs []*runtime.Buffer, i int)) *shape {
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.written(buffers, size, dev)
		return b.enqueued(bufs, many, dev, how, each), err
	}}
}

// enqueued does n commands once.
func (b *bench) enqueued(bufs []*runtime.Buffer, many, dev int, how timing, each func(r *run, bufs []*runtime.Buffer, i int)) func(n int) (float64, error) {
	longer := 1
	return func(n int) (took float64, err error) {
		var until float64
		hide := b.behind(many) * time.Duration(longer)
		took, err = b.timed(func(r *run) {
			if how == hidden {
				r.busy(dev, 0, hide)
			}
			start := b.rt.Now()
			for i := range n {
				each(r, bufs, i)
			}
			until = float64(b.rt.Now() - start)
			r.last()
		})
		switch {
		case err == nil && how == hidden && until > 0.8*float64(hide):
			longer *= 2
			return 0, errLate
		case how == returned:
			return until, err
		}
		return took, err
	}
}

// moved is a shape of buffers that are in one place, alone, and are brought to another:
// buffer i from froms[i] to tos[i], by turns. each has every one waited for.
func moved(name string, size uint64, flags runtime.Flags, each bool, how timing, froms, tos []int) *shape {
	few, many := counts(size)
	ways := len(froms)
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.buffers(many*ways, size, flags)
		return func(n int) (float64, error) {
			if err := b.place(bufs[:n*ways], froms...); err != nil {
				return 0, err
			}
			var until float64
			took, err := b.timed(func(r *run) {
				start := b.rt.Now()
				for i, x := range bufs[:n*ways] {
					e := r.migrate(froms[i%ways], tos[i%ways], i%ways, x)
					if each {
						r.wait(e)
					}
				}
				until = float64(b.rt.Now() - start)
				for _, e := range r.events[max(len(r.events)-ways, 0):] {
					r.wait(e)
				}
			})
			if how == returned {
				took = until
			}
			return took, err
		}, err
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

// firstUse is of buffers that are made, and written for the first time, until that is enqueued. None is released
// before the shape ends, so that each takes memory that nobody has used.
func firstUse(name string, size uint64, dev int) *shape {
	return &shape{name: name, few: 2, many: 8, most: 4, open: func(b *bench) (func(int) (float64, error), error) {
		return func(n int) (took float64, err error) {
			bufs, err := b.buffers(n, size, 0)
			if err != nil {
				return 0, err
			}
			return b.enqueued(bufs, n, dev, returned, func(r *run, bufs []*runtime.Buffer, i int) { r.launch(dev, 0, bufs[i]) })(n)
		}, nil
	}}
}

// behindKernel is of commands that a kernel sets going at once, which wrote all that they use: buffers of their own. Who
// submits them is all that is slow.
func behindKernel(name string, p *pair, each func(r *run, x *runtime.Buffer, i int)) *shape {
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
				r.spins(p.From, 0, b.behind(4*many), 1, root[0])
				for i, x := range parts[:n] {
					each(r, x, i)
				}
				r.last()
			})
		}, nil
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

// pageableSizes are those of copies from and to the program's own memory, which go in several ways.
var pageableSizes = []uint64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 3 << 20, 4 << 20, 8 << 20, 16 << 20}

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

// moves says how many bytes a unit of a shape moves over a link, or of the figure of.
func (s *shape) moves(bytes uint64, of string) *shape {
	s.bytes, s.of = bytes, of
	return s
}

// tells says which figure a shape tells most of: it is no longer.
func (s *shape) tells(of string) *shape {
	s.of = of
	return s
}

// readsOff says which figure a shape is; a unit is a MiB where it is of so many bytes.
func (s *shape) readsOff(figure string, bytes uint64) *shape {
	if s.reads = figure; bytes == 0 {
		return s
	}
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

// holdOut has no figure see a shape.
func (s *shape) holdOut() *shape {
	s.held = true
	return s
}

// shapes are those of what there is, in the order in which they are measured: what others
// build on comes first.
func (s *site) shapes(quick bool) (out []*shape) {
	for i := range s.groups { // before others have used the memory
		for _, size := range []uint64{64 << 10, 2 << 20} {
			out = append(out, firstUse(fmt.Sprintf("first use of %s on %s", figures.Size(size), s.groups[i].Name), size, s.groups[i].Devs[0]))
		}
	}
	out = append(out,
		commands("markers until enqueued", 16, 80, 0, 0, 0, returned, func(r *run, _ []*runtime.Buffer, _ int) { r.marker(0) }).readsOff("host enqueue", 0),
		ended().readsOff("host poll", 0),
		commands("create and release a buffer", 20, 100, 0, 0, 0, whole, func(r *run, _ []*runtime.Buffer, _ int) {
			if x, err := r.rt.CreateBuffer(4096, 0, nil); r.took0(err) {
				r.took0(x.Release())
			}
		}).tells("host other"),
		commands("host call", 16, 144, 0, 0, 0, hidden, func(r *run, _ []*runtime.Buffer, _ int) { r.hostCall(0) }).readsOff("host call", 0),
		commands("copy inside host, 16.0 MiB", 2, 6, 2, 16<<20, hostDevice, whole, func(r *run, bufs []*runtime.Buffer, _ int) {
			r.copy(hostDevice, bufs[0], bufs[1], 16<<20)
		}).readsOff("host copy", 16<<20),
	)
	for i := range s.groups {
		out = append(out, s.device(i)...)
		out = append(out, s.sized(i, quick)...)
	}
	for i := range s.pairs {
		out = append(out, s.pair(&s.pairs[i], quick)...)
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

// device has the shapes of small commands on one device of a group.
func (s *site) device(g int) []*shape {
	name, d := s.groups[g].Name, s.groups[g].Devs[0]
	class := name + " classes "
	launch := func(r *run, bufs []*runtime.Buffer, _ int) { r.launch(d, 0, bufs[0]) }
	fill := func(r *run, bufs []*runtime.Buffer, _ int) { r.fill(d, bufs[0]) }
	inside := func(r *run, bufs []*runtime.Buffer, _ int) { r.copy(d, bufs[0], bufs[1], 64) }
	up, down := []int{hostDevice}, []int{d}
	var data [4096]byte
	return []*shape{
		commands("launch on "+name, 16, 144, 1, 64, d, hidden, launch).readsOff(name+" launch", 0),
		commands("launches on "+name+" until enqueued", 16, 80, 1, 64, d, returned, launch).tells(class + "launch enqueue"),
		commands("fills on "+name+" until enqueued", 16, 80, 1, 64, d, returned, fill).tells(class + "fill enqueue"),
		commands("copies inside "+name+" until enqueued", 16, 80, 2, 64, d, returned, inside).tells(class + "inside enqueue"),
		moved("ups to "+name+" until enqueued", 4096, runtime.AllocHostPtr, false, returned, up, down).tells(class + "up enqueue"),
		moved("downs from "+name+" until enqueued", 4096, runtime.AllocHostPtr, false, returned, down, up).tells(class + "down enqueue"),
		fresh("up to "+name+" for a kernel", 4096, runtime.AllocHostPtr, hostDevice, func(r *run, x *runtime.Buffer) { r.launch(d, 0, x) }),
		fresh("down from "+name+" after a kernel", 4096, runtime.AllocHostPtr, d, func(r *run, x *runtime.Buffer) {
			r.launch(d, 0, x)
			r.migrate(d, hostDevice, 0, x)
		}),
		rows("a row of a copy inside "+name, d),
		commands("launch on "+name+" and wait", 4, 20, 1, 4096, d, whole, func(r *run, bufs []*runtime.Buffer, _ int) { r.wait(r.launch(d, 0, bufs[0])) }),
		commands("fill on "+name+" and wait", 4, 20, 1, 4096, d, whole, func(r *run, bufs []*runtime.Buffer, _ int) { r.fill(d, bufs[0]); r.last() }),
		commands("marker on "+name+" and wait", 4, 20, 0, 0, d, whole, func(r *run, _ []*runtime.Buffer, _ int) { r.wait(r.marker(d)) }),
		commands("write to "+name+", kernel and read", 4, 20, 1, 4096, d, whole, func(r *run, bufs []*runtime.Buffer, _ int) {
			r.transfer(d, 0, bufs[0], data[:], true)
			r.launch(d, 0, bufs[0])
			r.wait(r.transfer(d, 0, bufs[0], data[:], false))
		}).holdOut(),
		turns("by turns on two queues of "+name, d, 0, d, 1).tells(name + " handover queues delay"),
		commands("kernel and write by turns on "+name, 16, 64, 1, 4096, d, whole, func(r *run, bufs []*runtime.Buffer, i int) {
			if i%2 == 0 {
				r.launch(d, 0, bufs[0])
			} else {
				r.transfer(d, 0, bufs[0], data[:], true)
			}
		}).tells(name + " handover library-dispatcher delay"),
	}
}

// sized has the shapes of one device of a group that are measured by size.
func (s *site) sized(g int, quick bool) (out []*shape) {
	name, d := s.groups[g].Name, s.groups[g].Devs[0]
	up, down := []int{hostDevice}, []int{d}
	for _, size := range pageableSizes {
		if quick && (size == 2<<20 || size == 3<<20 || size == 8<<20) {
			continue
		}
		out = append(out,
			pageable("write to "+name+", "+figures.Size(size), size, d, true).tells(name+" "+pageableAt("up", size)),
			pageable("read from "+name+", "+figures.Size(size), size, d, false).tells(name+" "+pageableAt("down", size)))
		if size == 64<<10 || size == 4<<20 {
			out = append(out, bothWays("write and read at once, "+name+", "+figures.Size(size), size, d).holdOut())
		}
	}
	for _, size := range sizes(quick, s.most(g)) {
		text := ", " + figures.Size(size)
		few, many := counts(size)
		if size <= 64<<10 {
			few, many = 16, 144
		}
		moves := func(kind string, each bool, from, to []int) *shape {
			return moved(kind+name+text, size, runtime.AllocHostPtr, each, whole, from, to).moves(size*uint64(len(from)), "host-"+name)
		}
		out = append(out,
			commands("copy inside "+name+text, few, many, 2, size, d, hidden, func(r *run, bufs []*runtime.Buffer, _ int) { r.copy(d, bufs[0], bufs[1], size) }).moves(2*size, name+" bandwidth"),
			commands("fill on "+name+text, few, many, 1, size, d, hidden, func(r *run, bufs []*runtime.Buffer, _ int) { r.fill(d, bufs[0]) }),
			moves("up to ", true, up, down),
			moves("down from ", true, down, up),
			moves("several up to ", false, up, down))
		if size >= 1<<20 {
			out = append(out, moves("up and down, ", false, []int{hostDevice, d}, []int{d, hostDevice}))
		}
	}
	return out
}

// pair has the shapes of two devices.
func (s *site) pair(p *pair, quick bool) []*shape {
	name, from, to := s.name(p), []int{p.From}, []int{p.To}
	out := []*shape{turns("by turns on "+name, p.From, 0, p.To, 0).tells(s.groups[p.B].Name + " handover library-library delay")}
	for _, size := range sizes(quick, min(s.most(p.A), s.most(p.B))) {
		moves := func(kind string, each bool, from, to []int) *shape {
			return moved(kind+name+", "+figures.Size(size), size, 0, each, whole, from, to).moves(size*uint64(len(from)), name)
		}
		several := moves("several hops ", false, from, to)
		several.held = size == 64<<10 || size == 4<<20
		out = append(out, moves("hop ", true, from, to), several)
		if size >= 1<<20 {
			out = append(out, moves("hops both ways ", false, []int{p.From, p.To}, []int{p.To, p.From}))
		}
	}
	class := "ring"
	if p.Direct {
		class = "peer"
	}
	goes := s.groups[p.B].Name + " classes " + class
	out = append(out, moved("hops "+name+" until enqueued", 4096, 0, false, returned, from, to).tells(goes+" enqueue"),
		behindKernel("hops "+name+" behind a kernel", p, func(r *run, x *runtime.Buffer, _ int) { r.migrate(p.From, p.To, 0, x) }).tells(goes+" hold"),
		behindKernel("kernels behind a hop "+name, p, func(r *run, x *runtime.Buffer, i int) {
			if i == 0 {
				r.migrate(p.From, p.To, 0, x)
			}
			r.launch(p.To, 0, r.seeds[p.To])
		}).tells(s.groups[p.B].Name+" handover dispatcher-library hold"))
	out = append(out, beside("launches beside hops "+name, p).tells("host crowded"))
	for _, size := range []uint64{4 << 10, 64 << 10} {
		text := figures.Size(size)
		out = append(out,
			fresh("hop "+name+" for a kernel, "+text, size, 0, p.From, func(r *run, x *runtime.Buffer) { r.launch(p.To, 0, x) }),
			fresh("hop "+name+" after a kernel, "+text, size, 0, p.From, func(r *run, x *runtime.Buffer) {
				r.launch(p.From, 0, x)
				r.migrate(p.From, p.To, 0, x)
			}),
			commands(fmt.Sprintf("kernel and hop by turns %s, %s", name, text), 16, 64, 1, size, p.From, whole, func(r *run, bufs []*runtime.Buffer, i int) {
				r.launch([]int{p.From, p.To}[i%2], 0, bufs[0])
			}))
	}
	return out
}

// beside is of launches that have nothing to do with hops, but that they are enqueued by turns: until the last is. A unit is one of each.
func beside(name string, p *pair) *shape {
	few, many := counts(4096)
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.buffers(many, 4096, 0)
		return func(n int) (until float64, err error) {
			if err := b.place(bufs[:n], p.From); err != nil {
				return 0, err
			}
			_, err = b.timed(func(r *run) {
				start := b.rt.Now()
				for _, x := range bufs[:n] {
					r.migrate(p.From, p.To, 0, x)
					r.launch(p.From, 0, r.seeds[p.From])
				}
				until = float64(b.rt.Now() - start)
			})
			return until, err
		}, err
	}}
}

// pageable is a shape of writes to a device, or reads from there, of the program's own memory.
func pageable(name string, size uint64, dev int, up bool) *shape {
	few, many := counts(size)
	return commands(name, few, many, 1, size, dev, whole, func(r *run, bufs []*runtime.Buffer, i int) {
		r.wait(r.transfer(dev, 0, bufs[0], r.own(i, size), up))
	})
}

// bothWays is of a write and a read of the program's own memory at once, by two queues.
func bothWays(name string, size uint64, dev int) *shape {
	few, many := counts(size)
	return commands(name, few, many, 2, size, dev, whole, func(r *run, bufs []*runtime.Buffer, i int) {
		up := r.transfer(dev, 0, bufs[0], r.own(2*i, size), true)
		r.wait(r.transfer(dev, 1, bufs[1], r.own(2*i+1, size), false))
		r.wait(up)
	})
}

// rows is a shape of one copy inside a device of so many rows of 64 bytes.
func rows(name string, dev int) *shape {
	const few, many, pitch = 64, 1024, 256
	return &shape{name: name, few: few, many: many, open: func(b *bench) (func(int) (float64, error), error) {
		bufs, err := b.written(2, pitch*many, dev)
		return func(n int) (float64, error) {
			return b.timed(func(r *run) {
				box := runtime.Box{Row: pitch}
				r.wait(r.took(r.q(dev, 0).EnqueueCopyRect(r.ctx, bufs[0], bufs[1], box, box, [3]uint64{64, uint64(n), 1})))
			})
		}, err
	}}
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
func (r *run) transfer(dev, nth int, x *runtime.Buffer, data []byte, up bool) runtime.Event {
	switch {
	case r.err != nil:
		return runtime.Event{}
	case up:
		return r.took(r.q(dev, nth).EnqueueWrite(r.ctx, x, 0, data))
	}
	return r.took(r.q(dev, nth).EnqueueRead(r.ctx, x, 0, data))
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
