package scenario

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	devwork "godwit/devices/work"
	"godwit/internal/expr"
	"godwit/internal/suggest"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// Kernels of the scenario's own have no code: only what they do to their arguments, and how long
// they take. They run where devices keep no bytes. An argument may be several ranges of a buffer;
// the runtime is given one argument for each, and so the kernel is built once for each list of
// arguments that this comes to.

// ownKernel is a kernel without code.
type ownKernel struct {
	devices.GoKernel
	line int
	// What a launch costs: expressions in the scenario's names and those of the launch; nil is not said.
	time, operations, bytes *costExpr
}

// costExpr is an expression that each launch computes.
type costExpr struct {
	node ast.Node
	what string
	text string
}

// argumentWords are what arguments of a kernel without code may be.
var argumentWords = append([]string{"read", "write", "read-write", "local"}, slices.Sorted(maps.Keys(types))...)

// readKernels reads the kernels without code.
func (l *loader) readKernels(m *mapping) {
	l.own = make(map[string]*ownKernel)
	for _, n := range l.list(m.get("kernels")) {
		l.limited(n, "kernels", len(l.own)+1, "objects")
		s := l.mapping(n, "kernel", "kernel")
		name := l.declare(s, "kernel")
		k := &ownKernel{line: n.GetToken().Position.Line}
		k.Name, k.Func = name, withoutCode
		if kernelNamed(name) != nil {
			l.errorf(s.get("name"), "%s: the library has a kernel of this name", s.What)
		}
		for i, a := range l.list(s.get("args")) {
			k.Args = append(k.Args, l.ownArgument(s, i, a))
		}
		k.time, k.operations, k.bytes = l.cost(s, "time"), l.cost(s, "operations"), l.cost(s, "bytes")
		if k.time != nil && (k.operations != nil || k.bytes != nil) {
			l.errorf(n, "%s: give time, or operations and bytes", s.What)
		}
		l.take("kernel", name, n)
		l.own[name] = k
	}
}

// ownArgument reads what a kernel's i-th argument is.
func (l *loader) ownArgument(s *mapping, i int, n ast.Node) devices.ArgInfo {
	word, what := l.text(n, s.What+": args"), "arg"+strconv.Itoa(i)
	l.oneOfWords(n, s.shape.find("args").form.list, s.What+": args", word)
	switch word {
	case "read":
		return devices.ArgInfo{Name: what, Kind: devices.ArgBuffer, Access: mem.Read}
	case "write":
		return devices.ArgInfo{Name: what, Kind: devices.ArgBuffer, Access: mem.Write}
	case "read-write":
		return devices.ArgInfo{Name: what, Kind: devices.ArgBuffer, Access: mem.ReadWrite}
	case "local":
		return devices.ArgInfo{Name: what, Kind: devices.ArgLocal}
	}
	return devices.ArgInfo{Name: what, Kind: devices.ArgValue, Type: word, Size: uint64(types[word])}
}

// cost reads an expression of what a launch costs.
func (l *loader) cost(s *mapping, key string) *costExpr {
	if !s.Has(key) {
		return nil
	}
	return &costExpr{s.get(key), s.What + ": " + key, s.text(key)}
}

// withoutCode is what a kernel without code would run.
func withoutCode(*devwork.Group) { panic("a kernel without code runs") }

// kernelOf finds the kernel that a launch names: the library's, or one of the scenario's own.
func (l *loader) kernelOf(m *mapping, name string) (*devices.GoKernel, *ownKernel) {
	if own := l.own[name]; own != nil {
		return &own.GoKernel, own
	}
	k := kernelNamed(name)
	if k == nil && name != "" {
		names := slices.Clone(kernels.Names())
		for own := range l.own {
			names = append(names, own)
		}
		slices.Sort(names)
		l.errorf(m.get("launch"), "launch %q: no such kernel; there are %s", name, suggest.Among(name, names))
	}
	return k, nil
}

// ranges reads an argument: of a kernel without code, it may be a list of ranges of one buffer.
func (l *loader) ranges(n ast.Node, what string, info *devices.ArgInfo, own bool) (out []argument) {
	list, ok := l.plain(n).(*ast.SequenceNode)
	if !ok || !own {
		return []argument{l.readArg(n, what, info)}
	}
	before := l.faults
	if info.Kind != devices.ArgBuffer {
		l.errorf(n, "%s: the kernel wants a %v, not ranges of a buffer", what, info.Kind)
		return nil
	}
	for _, n := range l.list(list) {
		a := l.readArg(n, what, info)
		if l.faults == before && len(out) > 0 && a.Place.Name != out[0].Place.Name {
			l.errorf(n, "%s: ranges of %s and of %s: one argument is of one buffer or sub-buffer", what, out[0].Place.Name, a.Place.Name)
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		l.errorf(n, "%s: want at least one range", what)
	}
	return out
}

// ownLaunch notes what a launch of a kernel without code does and costs.
func (l *loader) ownLaunch(k *ownKernel, c *command) {
	c.own = k
	for i := range c.Args {
		c.Args[i].Stated = true // there is no code that could do less
	}
	if c.Takes > 0 {
		return // the launch says it
	}
	names := map[string]expr.Value{"items": l.itemsOf(c)}
	for d := range c.Global {
		names["global"+strconv.Itoa(d)] = expr.Integer(int64(max(c.Global[d], 1)))
	}
	for i := range c.Args {
		name := "size" + strconv.Itoa(c.Args[i].Of)
		names[name] = expr.Integer(names[name].Int + int64(c.Args[i].bytes()))
	}
	defer l.scope.With(names)()
	c.Takes = time.Duration(l.costs(k.time, c, expr.DurationKind))
	c.Operations, c.Bytes = uint64(l.costs(k.operations, c, expr.IntegerKind)), uint64(l.costs(k.bytes, c, expr.IntegerKind))
}

// itemsOf is how many work-items a launch has, at most the largest number.
func (l *loader) itemsOf(c *command) expr.Value {
	items := uint64(1)
	for _, g := range c.Global[:c.Dims] {
		hi, lo := bits.Mul64(items, max(g, 1))
		if items = lo; hi > 0 || lo > math.MaxInt64 {
			items = math.MaxInt64
		}
	}
	return expr.Integer(int64(items))
}

// bytes are those that an argument has: of a buffer those that are used.
func (a *argument) bytes() uint64 {
	switch {
	case a.Buffer:
		return a.Used.Size()
	case a.Local > 0:
		return a.Local
	}
	return uint64(len(a.Value))
}

// costs computes what launch c costs, which is more than nothing: durations in nanoseconds, others rounded up.
func (l *loader) costs(e *costExpr, c *command, want expr.Kind) int64 {
	if e == nil {
		return 0
	}
	v, err := l.scope.Eval(e.text)
	if err == nil && v.Kind == expr.RealKind && want == expr.IntegerKind {
		v, err = expr.Real(math.Ceil(v.Float)).As(expr.IntegerType)
	}
	switch {
	case err != nil:
		l.expressionFault(e.node, e.what, e.text, fmt.Errorf("at the launch of line %d: %w", c.Line, err))
	case v.Kind != want:
		l.errorf(e.node, "%s %q: at the launch of line %d it is %v: want %v", e.what, e.text, c.Line, v.Kind, want)
	case v.Int <= 0:
		l.errorf(e.node, "%s %q: at the launch of line %d it is %v: want more than 0", e.what, e.text, c.Line, v)
	case want == expr.IntegerKind && v.Int > mostOfLaunch:
		l.errorf(e.node, "%s %q: at the launch of line %d it is %v: want at most %d", e.what, e.text, c.Line, v, int64(mostOfLaunch))
	default:
		return v.Int
	}
	return 0
}

// mostOfLaunch is how many bytes or operations a launch may have: more a machine's network does not take.
const mostOfLaunch = 1 << 62

// checkOwn refuses kernels without code where something would have to run them.
func (r *runner) checkOwn() error {
	if r.stamps() {
		return nil
	}
	for i := range r.s.Commands {
		c := &r.s.Commands[i]
		if c.own == nil {
			continue
		}
		where := "device " + r.s.Queues[c.Queue].Device + " would have to run it"
		if r.opt.Machine != nil {
			where = "the devices of machine " + r.opt.Machine.Name + " keep bytes"
		}
		return at(r.s.File, c.Line, "launch %s: the kernel of line %d has no code, and %s: want --machine and --stamps, or a machine with bytes: false", c.Kernel, c.own.line, where)
	}
	return nil
}

// variant names the kernel as it is built for a launch: without code, by which of its arguments each range is of.
func (c *command) variant() string {
	if c.own == nil {
		return c.Kernel
	}
	of := make([]int, len(c.Args))
	for i := range c.Args {
		of[i] = c.Args[i].Of
	}
	return fmt.Sprint(c.Kernel, of)
}

// buildOwn builds the kernel without code of a launch, with an argument for each range.
func (r *runner) buildOwn(ctx context.Context, c *command, on []devices.Device) (*runtime.Program, error) {
	k := devices.GoKernel{Name: c.Kernel, Func: withoutCode}
	for i := range c.Args {
		k.Args = append(k.Args, c.own.Args[c.Args[i].Of])
	}
	return r.ctx.Build(ctx, &devices.Program{Name: r.s.Name, Go: []devices.GoKernel{k}}, on...)
}
