package mover

// task is work for the pump: to start a transfer whose gate has opened, to
// land a destination that failed, or, empty, to feed those that starve.
type task struct {
	x *transfer
	a *arrival
}

// post gives the pump work.
func (t *Transport) post(k task) {
	t.mu.Lock()
	t.postLocked(k)
	t.mu.Unlock()
}

func (t *Transport) postLocked(k task) {
	t.todo = append(t.todo, k)
	if !t.pumping {
		t.pumping = true
		t.pumped.Add(1)
		go t.pump()
	}
	t.work.Signal()
}

// pump is the transport's goroutine.
func (t *Transport) pump() {
	defer t.pumped.Done()
	var batch []task
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		for len(t.todo) == 0 {
			if t.closed && t.stats.Flying == 0 {
				return
			}
			t.work.Wait()
		}
		batch, t.todo = t.todo, batch[:0]
		t.mu.Unlock()
		for _, k := range batch {
			switch {
			case k.a != nil:
				t.keepTimes(k.a)
				t.line.End(k.a.point, *k.a.err.Load())
				k.a.x.done()
			case k.x != nil:
				t.start(k.x)
			default:
				t.feed()
			}
		}
		clear(batch)
		t.mu.Lock()
	}
}

// start begins a transfer whose gate has opened.
func (t *Transport) start(x *transfer) {
	if d := x.Cause(); d != nil {
		x.refuse(d)
		return
	}
	if x.late != nil {
		if x.cut(); x.size == 0 {
			x.goOn(nil)
			return
		}
	}
	t.mu.Lock()
	ready, err := t.admit(x)
	if err == nil && !ready {
		t.starved = append(t.starved, x)
	}
	t.mu.Unlock()
	if err != nil || ready {
		x.goOn(err)
	}
}

// feed starts transfers that starve, in order, while there is staging.
func (t *Transport) feed() {
	for {
		t.mu.Lock()
		if len(t.starved) == 0 {
			t.mu.Unlock()
			return
		}
		x := t.starved[0]
		ready, err := t.takeSlots(x)
		if err != nil || ready {
			t.starved = append(t.starved[:0], t.starved[1:]...)
		}
		t.mu.Unlock()
		if err == nil && !ready {
			return
		}
		x.goOn(err)
	}
}

// admit gives x its slots, unless others have waited longer. mu is held.
func (t *Transport) admit(x *transfer) (bool, error) {
	if len(t.starved) > 0 {
		return false, nil
	}
	return t.takeSlots(x)
}

// goOn launches a transfer that has its points and, where err is nil, slots.
func (x *transfer) goOn(err error) {
	if err == nil {
		err = x.launch()
	}
	if err != nil {
		x.refuse(err)
		return
	}
	x.settle()
}

// refuse lands all destinations with an error; no leg was submitted.
func (x *transfer) refuse(err error) {
	for _, a := range x.dsts[:x.n] {
		a.left.Store(1)
	}
	x.fail(err)
	x.settle()
}

// recycle takes a transfer that nothing knows any more back.
func (t *Transport) recycle(x *transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropSlots(x)
	for _, a := range x.dsts[:x.n] {
		a.dst = End{}
	}
	x.n, x.src, x.late = 0, End{}, nil
	x.Forget()
	t.spare = append(t.spare, x)
	t.stats.Flying--
	if len(t.starved) > 0 {
		t.postLocked(task{})
	}
	if t.closed && t.stats.Flying == 0 {
		t.landed.Broadcast()
	}
}
