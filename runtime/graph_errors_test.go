package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// TestMistakesWithGraphsNameValueAndRule: what a newcomer does wrong. After each the graph replays as before.
func TestMistakesWithGraphsNameValueAndRule(t *testing.T) {
	h, k := graphHouse(t)
	other, _ := graphHouse(t)
	ctx, q := soon(t), h.q[0]
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	far := other.buffer(64, nil)
	rec := must(h.c.Record(q))
	in, out := must(rec.Slot("in", 64, 0)), must(rec.Slot("out", 64, 0))
	part := must(in.Sub(0, 32, 0))
	tmp := must(rec.Transient("tmp", 64))
	first := must(q.EnqueueLaunch(ctx, add(k, tmp, in, 1)))
	second := must(q.EnqueueLaunch(ctx, add(k, out, tmp, 2)))
	v := must(rec.Value(first, 2))
	recordedTwice := func() error { _, err := h.c.Record(q); return err }
	require.ErrorContains(t, recordedTwice(), "records already")
	g := must(rec.Finish(ctx))
	require.NoError(t, errors.Join(first.Release(), second.Release()))

	again := must(h.c.Record(q))
	foreign := must(again.Slot("foreign", 64, 0))
	e := must(q.EnqueueLaunch(ctx, add(k, foreign, x, 1)))
	theirs := must(again.Value(e, 2))
	bound := []runtime.Binding{{Slot: in, Buffer: x}, {Slot: out, Buffer: y}}
	whileRecorded := func() error { _, err := g.Replay(ctx, q, runtime.Bindings{Slots: bound}); return err }
	require.ErrorContains(t, whileRecorded(), "records")
	require.NoError(t, again.Discard())

	replay := func(in runtime.Bindings) error {
		_, err := g.Replay(ctx, q, in)
		return err
	}
	values := func(v runtime.Value, a runtime.Arg) runtime.Bindings {
		return runtime.Bindings{Slots: bound, Values: []runtime.NewValue{{Value: v, Arg: a}}}
	}
	for name, tc := range map[string]struct {
		call func() error
		want error
		says string
	}{
		"a queue of another context": {func() error { _, err := g.Replay(ctx, other.q[0], runtime.Bindings{Slots: bound}); return err }, mem.ErrInvalidContext, "is of context"},
		"a slot bound twice": {func() error {
			return replay(runtime.Bindings{Slots: []runtime.Binding{{Slot: in, Buffer: x}, {Slot: in, Buffer: y}}})
		}, mem.ErrInvalidValue, "in is bound twice"},
		"one slot of two": {func() error { return replay(runtime.Bindings{Slots: bound[:1]}) }, mem.ErrInvalidValue, "1 slots bound, of 2"},
		"another graph's slot": {func() error {
			return replay(runtime.Bindings{Slots: []runtime.Binding{bound[0], {Slot: foreign, Buffer: y}}})
		}, mem.ErrInvalidValue, "no slot of this graph"},
		"a part of a slot": {func() error {
			return replay(runtime.Bindings{Slots: []runtime.Binding{bound[0], {Slot: part, Buffer: y}}})
		}, mem.ErrInvalidValue, "no slot of this graph"},
		"a buffer of another context": {func() error {
			return replay(runtime.Bindings{Slots: []runtime.Binding{bound[0], {Slot: out, Buffer: far}}})
		}, mem.ErrInvalidContext, "is of context"},
		"a transient in a slot": {func() error {
			return replay(runtime.Bindings{Slots: []runtime.Binding{bound[0], {Slot: out, Buffer: tmp}}})
		}, mem.ErrInvalidBuffer, "is of a recording"},
		"a value of another recording":               {func() error { return replay(values(theirs, runtime.Uint32(1))) }, mem.ErrInvalidValue, "another recording"},
		"a value that nobody named":                  {func() error { return replay(values(runtime.Value{}, runtime.Uint32(1))) }, mem.ErrInvalidValue, "another recording"},
		"a value of 8 bytes":                         {func() error { return replay(values(v, runtime.Uint64(1))) }, mem.ErrArgSize, "4 bytes is wanted"},
		"a transient outside":                        {func() error { _, err := q.EnqueueRead(ctx, tmp, 0, make([]byte, 64)); return err }, mem.ErrInvalidBuffer, "is of a recording"},
		"a slot outside":                             {func() error { _, err := q.EnqueueFill(ctx, in, []byte{1}, 0, 64); return err }, mem.ErrInvalidBuffer, "is of a recording"},
		"an event of a recording that was discarded": {func() error { return e.Wait(ctx) }, mem.ErrInvalidEvent, "record"},
		"one queue twice":                            {func() error { _, err := h.c.Record(q, q); return err }, mem.ErrInvalidOperation, "named twice"},
	} {
		err := tc.call()
		require.ErrorIs(t, err, tc.want, name)
		require.ErrorContains(t, err, tc.says, name)
		require.NoError(t, replay(runtime.Bindings{Slots: bound}), name)
	}
	require.NoError(t, e.Release())

	m, _, err := q.EnqueueMap(ctx, x, 0, 64, runtime.MapWrite)
	require.NoError(t, err)
	require.NoError(t, replay(runtime.Bindings{Slots: bound}), "as a command that uses what is mapped")
	_, err = q.EnqueueUnmap(ctx, m)
	require.NoError(t, err)
	require.NoError(t, replay(runtime.Bindings{Slots: bound}))

	require.NoError(t, g.Close())
	require.ErrorIs(t, replay(runtime.Bindings{Slots: bound}), mem.ErrClosed)
	require.ErrorIs(t, g.Close(), mem.ErrClosed)
	plain := must(h.c.Record(q))
	require.NoError(t, must(q.EnqueueFill(ctx, y, []byte{1}, 0, 64)).Release())
	bare := must(plain.Finish(ctx))
	require.NoError(t, bare.Close())
	_, err = bare.Replay(ctx, q, runtime.Bindings{})
	require.ErrorIs(t, err, mem.ErrClosed, "a graph without transients")
}
