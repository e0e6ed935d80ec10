package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"godwit/lib/backend"
	"godwit/lib/tensor"
	"godwit/runtime"
)

// inputs of a sample: two coordinates and a constant, whose weights are the biases.
const inputs = 3

// network is a perceptron with one hidden layer, its data cut into batches, and those
// into a share for each device. Weights live on no device in particular: whoever
// reads them is brought the latest, and only then.
type network struct {
	w1, w2  *tensor.Tensor // inputs x hidden, hidden x 1
	batches [][]share      // by batch, by device
	rate    float64
	last    *tensor.Tensor // loss of the last step, on the first device
	// recorded is the step, recorded over inputs that stand for a batch; nil where each is enqueued anew.
	recorded *tensor.Step
}

// share is the part of a batch that one device works on.
type share struct {
	h      *backend.Handle
	x, y   *tensor.Tensor
	weight float32 // 1 / samples of the whole batch
}

// newNetwork makes data and weights and uploads them.
func newNetwork(ctx context.Context, hs []*backend.Handle, o options) (*network, error) {
	rows := o.batch / max(len(hs), 1)
	if rows < 1 || o.samples < o.batch || o.hidden < 1 || o.epochs < 1 {
		return nil, fmt.Errorf("%d samples in batches of %d for %d devices, %d hidden units, %d epochs: too few", o.samples, o.batch, len(hs), o.hidden, o.epochs)
	}
	r := rand.New(rand.NewPCG(o.seed, 0))
	n := &network{rate: o.rate}
	var err error
	if n.w1, err = weights(ctx, hs[0], r, inputs, o.hidden); err != nil {
		return nil, err
	}
	if n.w2, err = weights(ctx, hs[0], r, o.hidden, 1); err != nil {
		n.release()
		return nil, err
	}
	if n.last, err = tensor.Empty(hs[0], tensor.Float32); err != nil {
		n.release()
		return nil, err
	}
	for range o.samples / (rows * len(hs)) {
		var batch []share
		for _, h := range hs {
			s := share{h: h, weight: 1 / float32(rows*len(hs))}
			if err = s.generate(ctx, r, rows); err != nil {
				n.release()
				return nil, err
			}
			batch = append(batch, s)
		}
		n.batches = append(n.batches, batch)
	}
	if o.record {
		if err = n.record(ctx, hs); err != nil {
			n.release()
			return nil, err
		}
	}
	return n, nil
}

// record records a step.
func (n *network) record(ctx context.Context, hs []*backend.Handle) (err error) {
	n.recorded, err = tensor.Record(ctx, hs, func(s *tensor.Step) error {
		batch := slices.Clone(n.batches[0])
		for i := range batch {
			b := &batch[i]
			for _, t := range []**tensor.Tensor{&b.x, &b.y} {
				if *t, err = s.Input(*t); err != nil {
					return err
				}
			}
		}
		return n.enqueue(ctx, batch)
	})
	return err
}

// step is one step of gradient descent. Nothing is waited for.
func (n *network) step(ctx context.Context, batch []share) error {
	if n.recorded == nil {
		return n.enqueue(ctx, batch)
	}
	var in []*tensor.Tensor
	for _, s := range batch {
		in = append(in, s.x, s.y)
	}
	return n.recorded.Run(ctx, in...)
}

func weights(ctx context.Context, h *backend.Handle, r *rand.Rand, in, out int) (*tensor.Tensor, error) {
	w := make([]float32, in*out)
	for i := range w {
		w[i] = float32(r.NormFloat64() * math.Sqrt(2/float64(in)))
	}
	return tensor.FromHost(ctx, h, w, tensor.Shape(in, out))
}

// generate makes points of the square, and whether they lie in the ring.
func (s *share) generate(ctx context.Context, r *rand.Rand, rows int) error {
	x, y := make([]float32, 0, rows*inputs), make([]float32, rows)
	for i := range rows {
		p, q := r.Float64()*2-1, r.Float64()*2-1
		if d := math.Hypot(p, q); d > 0.4 && d < 0.8 {
			y[i] = 1
		}
		x = append(x, float32(p), float32(q), 1)
	}
	var err error
	if s.x, err = tensor.FromHost(ctx, s.h, x, tensor.Shape(rows, inputs)); err != nil {
		return err
	}
	s.y, err = tensor.FromHost(ctx, s.h, y, tensor.Shape(rows, 1))
	if err != nil {
		_ = s.x.Release() // the first error counts
	}
	return err
}

// release gives everything back.
func (n *network) release() {
	if n.recorded != nil {
		_ = n.recorded.Close() // once
	}
	keep := scope{n.w1, n.w2, n.last}
	for _, b := range n.batches {
		for _, s := range b {
			keep = append(keep, s.x, s.y)
		}
	}
	keep.end()
}

// scope is tensors that are released together.
type scope []*tensor.Tensor

// of keeps the tensor of an operation in the scope.
func (s *scope) of(t *tensor.Tensor, err error) (*tensor.Tensor, error) {
	if err == nil {
		*s = append(*s, t)
	}
	return t, err
}

func (s *scope) end() {
	for _, t := range *s {
		if t != nil {
			_ = t.Release() // each once
		}
	}
}

// enqueue enqueues a step: every device finds the gradients of its share; the first adds them up and moves the weights.
func (n *network) enqueue(ctx context.Context, batch []share) error {
	var tmp scope
	defer tmp.end()
	var g1, g2, loss *tensor.Tensor
	for i, s := range batch {
		d1, d2, l, err := s.gradients(ctx, &tmp, n.w1, n.w2)
		if err != nil {
			return err
		}
		if i == 0 {
			g1, g2, loss = d1, d2, l
			continue
		}
		for _, sum := range [][2]*tensor.Tensor{{g1, d1}, {g2, d2}, {loss, l}} {
			if err := tensor.AddInto(ctx, sum[0], sum[0], sum[1]); err != nil {
				return err
			}
		}
	}
	for _, move := range [][2]*tensor.Tensor{{n.w1, g1}, {n.w2, g2}} {
		if err := tensor.ScaleInto(ctx, move[1], move[1], float32(-n.rate)); err != nil {
			return err
		}
		if err := tensor.AddInto(ctx, move[0], move[0], move[1]); err != nil {
			return err
		}
	}
	return tensor.CopyInto(ctx, n.last, loss)
}

// loss is that of the last step.
func (n *network) loss(ctx context.Context) (float64, error) {
	v, err := tensor.ToHost[float32](ctx, n.last)
	if err != nil {
		return 0, err
	}
	return float64(v[0]), nil
}

// gradients runs the share forward and back on its device.
func (s *share) gradients(ctx context.Context, tmp *scope, w1, w2 *tensor.Tensor) (g1, g2, loss *tensor.Tensor, err error) {
	rows, hidden := s.x.Shape()[0], w2.Shape()[0]
	do := func(t *tensor.Tensor, e error) *tensor.Tensor { // after an error: nothing more
		if err == nil {
			t, err = tmp.of(t, e)
		} else if e == nil {
			_ = t.Release() // made for nothing
		}
		return t
	}
	run := func(name string, items int, args ...runtime.Arg) {
		if err == nil {
			err = s.launch(ctx, name, items, args...)
		}
	}
	h := do(tensor.MatMul(ctx, s.x, w1))
	if err != nil {
		return
	}
	run("relu", rows*hidden, h.InOut(), runtime.Uint64(uint64(rows*hidden)))
	z := do(tensor.MatMul(ctx, h, w2))
	dz, each := do(tensor.Empty(s.h, tensor.Float32, rows, 1)), do(tensor.Empty(s.h, tensor.Float32, rows, 1))
	g1, g2 = do(tensor.Empty(s.h, tensor.Float32, inputs, hidden)), do(tensor.Empty(s.h, tensor.Float32, hidden, 1))
	w2t := do(w2.Reshape(1, hidden))
	if err != nil {
		return
	}
	run("logistic", rows, z.In(), s.y.In(), dz.Out(), each.Out(), runtime.Float32(s.weight), runtime.Uint64(uint64(rows)))
	loss = do(tensor.Sum(ctx, each))
	run("matmul_tn", hidden, h.In(), dz.In(), g2.Out(), runtime.Uint64(uint64(hidden)), runtime.Uint64(1), runtime.Uint64(uint64(rows)))
	dh := do(tensor.MatMul(ctx, dz, w2t))
	if err != nil {
		return
	}
	run("relu_gradient", rows*hidden, h.In(), dh.InOut(), runtime.Uint64(uint64(rows*hidden)))
	run("matmul_tn", inputs*hidden, s.x.In(), dh.In(), g1.Out(), runtime.Uint64(inputs), runtime.Uint64(uint64(hidden)), runtime.Uint64(uint64(rows)))
	return
}

// launch enqueues one of the program's own kernels on the share's device.
func (s *share) launch(ctx context.Context, name string, items int, args ...runtime.Arg) error {
	k, err := s.h.KernelOf(ctx, own, name)
	if err != nil {
		return err
	}
	e, err := s.h.Queue().EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{uint64(items)}, Args: args})
	if err != nil {
		return err
	}
	return e.Release()
}
