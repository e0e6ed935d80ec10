package main

import (
	"math"
	"slices"
	"time"

	"godwit/runtime"
)

// router says which waiting request goes next, and where. Its device is nil where none has a place, or it is better to
// wait, for later at most (0 is until something ends). The server's lock is held.
type router interface {
	next(s *server) (i int, d *device, later time.Duration)
}

// routers by name.
var routers = map[string]func() router{
	"least-loaded": func() router { return leastLoaded{} },
	"preview":      func() router { return byPreview{} },
	"batched":      func() router { return batched{50 * time.Millisecond} },
}

// leastLoaded takes the device with the fewest jobs, in order of arrival; of equals the other one than last.
type leastLoaded struct{}

func (leastLoaded) next(s *server) (int, *device, time.Duration) {
	best := s.devices[0]
	for _, d := range s.devices[1:] {
		if d.load < best.load || d.load == best.load && d.served < best.served {
			best = d
		}
	}
	if best.load >= depth {
		return 0, nil, 0
	}
	best.served = max(s.devices[0].served, s.devices[1].served) + 1
	return 0, best, 0
}

// byPreview asks each device what the first request would cost there, in order of arrival. Who can go to no device that has a place, since
// others' floors leave no room for its model, lets others pass.
type byPreview struct{}

// jobs is how many jobs in front are worth as much as a model that has to be brought: many, since bringing one keeps
// both directions of a device busy, and is what the next request may have to do again.
const jobs = 32

func (byPreview) next(s *server) (int, *device, time.Duration) {
	for i, j := range s.waiting {
		if s.first(func(m int) bool { return m == j.model }) < i {
			continue // as the one before
		}
		best, place, least := s.devices[0], false, math.Inf(1)
		for _, d := range s.devices {
			c := s.cost(d, i)
			place = place || d.load < depth && c < math.Inf(1)
			if c < least {
				best, least = d, c
			}
		}
		if place || math.IsInf(least, 1) { // and the enqueue says why
			return i, best, 0
		}
	}
	return 0, nil, 0
}

// cost is what a request costs on a device, in bytes: what has to be brought, the jobs before it, and
// what others have to fetch again, the more the sooner somebody in line wants it.
func (s *server) cost(d *device, i int) float64 {
	v, err := s.preview(d, s.waiting[i].model)
	if err != nil {
		return math.Inf(1)
	}
	again := 0.0
	for k := i + 1; v.Refetch > 0 && k < len(s.waiting); k++ {
		m := s.waiting[k].model
		if other, _ := s.preview(d, m); m != s.waiting[i].model && other.Bytes == 0 {
			again = float64(v.Refetch) / float64(k-i)
			break
		}
	}
	return float64(v.Bytes+v.WrittenBack) + again + float64(s.models[s.waiting[i].model].size())/jobs*float64(d.load)
}

// preview is what a step of a model would do on a device.
func (s *server) preview(d *device, m int) (runtime.Preview, error) {
	return d.q.Preview(s.launch(m, d.asks, 0))
}

// batched lets others go before a request whose turn it is, for so long at most: a device that has a place takes the
// first whose model it holds. Where nobody has asked for one of these for a tenth of that, it takes the first whose model no
// device holds.
type batched struct{ most time.Duration }

func (b batched) next(s *server) (int, *device, time.Duration) {
	first := s.waiting[0]
	if first.turn.IsZero() {
		first.turn = time.Now()
	}
	left := b.most - time.Since(first.turn)
	if left <= 0 {
		return byPreview{}.next(s)
	}
	for _, d := range s.devices {
		if d.load >= depth {
			continue
		}
		if i := s.first(func(m int) bool { return s.holds(d, m) }); i >= 0 {
			return i, d, 0
		}
		nobodys := func(m int) bool { return !s.holds(s.devices[0], m) && !s.holds(s.devices[1], m) }
		if i := s.first(nobodys); i >= 0 && d.load == 0 {
			idle := b.most/10 - time.Since(d.ended) // who has just got an answer may ask for this model again
			if idle <= 0 {
				return i, d, 0
			}
			left = min(left, idle)
		}
	}
	return 0, nil, left
}

// first is the first request in line to a model for which ok holds; -1 is none.
func (s *server) first(ok func(m int) bool) int {
	return slices.IndexFunc(s.waiting, func(j *job) bool { return ok(j.model) })
}

// holds reports whether a device has all of a model.
func (s *server) holds(d *device, m int) bool {
	for _, table := range s.models[m].tables {
		device, err := s.c.Device(d.q.Memory())
		if err != nil {
			return false
		}
		if n, err := table.Resident(device); err != nil || n < table.Size() {
			return false
		}
	}
	return true
}
