package metamorphic

import (
	"context"
	"errors"

	"godwit/runtime"
)

// rect enqueues a rectangle; the host's rows lie one behind the other.
func (r *replay) rect(q *runtime.Queue, op *Op, got []byte, wait []runtime.Event) (runtime.Event, error) {
	dst, region := r.views[op.Dst], [3]uint64{uint64(op.Size), uint64(op.Rows), 1}
	at := runtime.Box{Origin: [3]uint64{uint64(op.DstOff)}, Row: uint64(op.DstRow)}
	switch op.Kind {
	case WriteRect:
		return q.EnqueueWriteRect(r.ctx, dst, at, pattern(op.bytes(), op.Salt), runtime.Box{}, region, wait...)
	case ReadRect:
		return q.EnqueueReadRect(r.ctx, dst, at, got, runtime.Box{}, region, wait...)
	}
	from := runtime.Box{Origin: [3]uint64{uint64(op.SrcOff)}, Row: uint64(op.SrcRow)}
	return q.EnqueueCopyRect(r.ctx, r.views[op.Src], dst, from, at, region, wait...)
}

// mapped maps, lets a host call use the bytes, and unmaps, all in the order of
// events: a user event may hold the map back.
func (r *replay) mapped(q *runtime.Queue, op *Op, got []byte, wait []runtime.Event) (runtime.Event, error) {
	flags := map[Kind]runtime.MapFlags{MapRead: runtime.MapRead, MapWrite: runtime.MapWrite, MapInvalidate: runtime.MapInvalidate}[op.Kind]
	m, ready, err := q.EnqueueMap(r.ctx, r.views[op.Dst], uint64(op.DstOff), uint64(op.Size), flags, wait...)
	if err != nil {
		return runtime.Event{}, err
	}
	r.owned = append(r.owned, ready)
	use := func(context.Context) error {
		if op.Kind == MapRead {
			copy(got, m.Bytes())
		} else {
			copy(m.Bytes(), pattern(op.Size, op.Salt))
		}
		return nil
	}
	// What was begun is brought to its end, whatever the device refuses.
	used, err := r.persist(func() (runtime.Event, error) { return q.EnqueueHostCall(r.ctx, use, ready) })
	if err != nil {
		return runtime.Event{}, err
	}
	r.owned = append(r.owned, used)
	return r.persist(func() (runtime.Event, error) { return q.EnqueueUnmap(r.ctx, m, used) })
}

func (r *replay) persist(enqueue func() (runtime.Event, error)) (e runtime.Event, err error) {
	for range 100 {
		if e, err = enqueue(); r.cfg.Flaky == nil || !errors.Is(err, r.cfg.Flaky) {
			break
		}
	}
	return e, err
}
