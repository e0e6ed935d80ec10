package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/runtime"
)

// shared is a context over one null device that holds so many buffers, some of tenants.
type shared struct {
	*twoNull
	tenants []*runtime.Tenant // the first is nil: nobody
	of      []int             // by buffer
}

func share(t require.TestingT, fit int, tenants []runtime.TenantOptions, of []int) *shared {
	h := &shared{twoNull: ask(t, fit, 0, runtime.Options{Policy: eviction.LRU{}}), tenants: []*runtime.Tenant{nil}, of: of}
	for _, o := range tenants {
		h.tenants = append(h.tenants, must(h.c.NewTenant(o)))
	}
	for i, of := range of {
		create := h.c.CreateNamedBuffer
		if of > 0 {
			create = h.tenants[of].CreateBuffer
		}
		h.bufs = append(h.bufs, must(create(fmt.Sprint("b", i), askedSize, 0, make([]byte, askedSize))))
	}
	return h
}

// tenantModel is what must be where, block by block: all are of one size, and LRU's order is known.
type tenantModel struct {
	fit      int
	of       []int
	options  []runtime.TenantOptions // the first is nobody's
	resident map[int]int             // buffers on the device, and the command that used each last
	clock    int
}

func (m *tenantModel) blocks(tenant int) (n int) {
	for b := range m.resident {
		if m.of[b] == tenant {
			n++
		}
	}
	return n
}

func blocksOf(list []uint64, none int) int {
	if len(list) < 2 || list[1] == 0 {
		return none
	}
	return int(list[1] / askedSize)
}

// use is a command that uses some buffers. It returns who leaves, and whether there is room.
func (m *tenantModel) use(bufs []int) (leave []int, ok bool) {
	wants := make(map[int]int)
	owners, n := make(map[int]bool), 0
	for _, b := range bufs {
		if _, is := m.resident[b]; !is {
			owners[m.of[b]] = true
			wants[m.of[b]]++
			n++
		}
	}
	gone := make(map[int]int)
	over := func(t int) int { return m.blocks(t) - gone[t] + wants[t] - blocksOf(m.options[t].Caps, 1000) }
	fits := func() bool {
		for t := range wants {
			if over(t) > 0 {
				return false
			}
		}
		return len(m.resident)-len(leave)+n <= m.fit
	}
	capped := make(map[int]bool)
	for t := range wants {
		capped[t] = over(t) > 0
	}
	anyCapped := slices.ContainsFunc(bufs, func(b int) bool { return capped[m.of[b]] })
	var order []int
	for b := range m.resident {
		if !slices.Contains(bufs, b) {
			order = append(order, b)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.options[m.of[a]].Priority, m.options[m.of[b]].Priority), cmp.Compare(m.resident[a], m.resident[b]), cmp.Compare(a, b))
	})
	for _, b := range order {
		t := m.of[b]
		switch {
		case n == 0 || fits():
		case anyCapped && !capped[t]:
		case !owners[t] && m.blocks(t)-gone[t]-1 < blocksOf(m.options[t].Floors, 0):
		default:
			leave = append(leave, b)
			gone[t]++
		}
	}
	if n > 0 && !fits() {
		return nil, false
	}
	for _, b := range leave {
		delete(m.resident, b)
	}
	m.clock++
	for _, b := range bufs {
		m.resident[b] = m.clock
	}
	return leave, true
}

// TestTenantsLeaveAsTheModelSays compares who is on the device after each command of random histories, and what is
// counted, with a model that knows nothing of planner or resources.
func TestTenantsLeaveAsTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fit := rapid.IntRange(3, 12).Draw(t, "fit")
		var options []runtime.TenantOptions
		free := fit
		for i := range rapid.IntRange(1, 3).Draw(t, "tenants") {
			o := runtime.TenantOptions{Name: fmt.Sprint("t", i), Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority"))}
			floor := rapid.IntRange(0, free).Draw(t, "floor")
			free -= floor
			o.Floors = []uint64{0, uint64(floor) * askedSize}
			if rapid.Bool().Draw(t, "capped") {
				o.Caps = []uint64{0, uint64(rapid.IntRange(max(1, floor), fit).Draw(t, "cap")) * askedSize}
			}
			options = append(options, o)
		}
		of := rapid.SliceOfN(rapid.IntRange(0, len(options)), 2*fit, 3*fit).Draw(t, "of")
		h := share(t, fit, options, of)
		defer h.close(t)
		m := &tenantModel{fit: fit, of: of, options: append([]runtime.TenantOptions{{}}, options...), resident: make(map[int]int)}
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			one := rapid.IntRange(0, len(options)).Draw(t, "of whom") // a command is one tenant's, or one's and nobody's
			mine := func(b int) bool { return of[b] == one || of[b] == 0 }
			bufs := rapid.SliceOfN(rapid.IntRange(0, len(of)-1).Filter(func(b int) bool {
				return mine(b) || !slices.ContainsFunc([]int{one, 0}, func(t int) bool { return slices.Contains(of, t) })
			}), 3, 3).Draw(t, "buffers")
			asked, refused := h.q[0].Preview(h.launch(bufs...))
			before := h.c.Stats().Evictions
			err := h.run(0, h.launch(bufs...))
			leave, ok := m.use(slices.Compact(slices.Sorted(slices.Values(bufs))))
			if require.Equal(t, ok, err == nil, "%v", err); !ok {
				require.ErrorIs(t, err, mem.ErrNoMemory)
				require.ErrorIs(t, refused, mem.ErrNoMemory)
			} else {
				require.NoError(t, refused)
				require.Len(t, leave, asked.Evictions)
				require.EqualValues(t, len(leave), h.c.Stats().Evictions-before)
			}
			require.NoError(t, h.c.Check())
			h.compare(t, m)
		}
	})
}

// compare compares all that can be asked with the model.
func (h *shared) compare(t require.TestingT, m *tenantModel) {
	for i, b := range h.bufs {
		n, err := b.Resident(h.devs[0])
		require.NoError(t, err)
		_, is := m.resident[i]
		require.Equal(t, is, n > 0, "buffer %d", i)
	}
	for _, f := range h.c.Figures().Tenants {
		for i, o := range m.options {
			if o.Name == f.Tenant && f.Memory == "a" {
				require.EqualValues(t, m.blocks(i)*askedSize, f.Live, f.Tenant)
				require.LessOrEqual(t, f.Peak, cmp.Or(f.Cap, 1<<40))
			}
		}
	}
}

// TestATenantAtItsFloorKeepsItsBlocks: however much another thrashes, its next round moves nothing.
func TestATenantAtItsFloorKeepsItsBlocks(t *testing.T) {
	of := append(slices.Repeat([]int{1}, 4), slices.Repeat([]int{2}, 40)...)
	h := share(t, 8, []runtime.TenantOptions{{Name: "a", Floors: []uint64{0, 4 * askedSize}}, {Name: "b", Priority: 1}}, of)
	defer h.close(t)
	round := func() uint64 {
		before := h.c.Stats().BytesMoved
		require.NoError(t, h.run(0, h.launch(0, 1, 2)))
		require.NoError(t, h.run(0, h.launch(3, 0, 1)))
		return h.c.Stats().BytesMoved - before
	}
	require.EqualValues(t, 4*askedSize, round())
	for i := range 5000 {
		require.NoError(t, h.run(0, h.launch(4+i%40, 4+(i+1)%40, 4+(i+2)%40)))
	}
	require.Greater(t, h.c.Stats().Evictions, uint64(4000))
	require.Zero(t, round())
	figures := h.c.Figures().Tenants
	require.Len(t, figures, 2)
	require.Equal(t, runtime.TenantBytes{Tenant: "a", Memory: "a", Live: 4 * askedSize, Peak: 4 * askedSize, Floor: 4 * askedSize}, figures[0])
	require.EqualValues(t, h.c.Stats().Evictions, figures[1].Evictions)
	require.NoError(t, h.bufs[0].Drop(h.devs[0]), "the program itself may")
	require.EqualValues(t, askedSize, round())
}

func TestWhatTenantsRefuse(t *testing.T) {
	h := share(t, 4, []runtime.TenantOptions{{Name: "a", Caps: []uint64{0, 2 * askedSize}, Floors: []uint64{0, askedSize}}, {Name: "b", Floors: []uint64{0, 2 * askedSize}}}, []int{1, 1, 1, 2, 0})
	for want, o := range map[string]runtime.TenantOptions{
		"must have one":                       {},
		"the name is taken":                   {Name: "a"},
		"memories, there are 3":               {Name: "c", Caps: make([]uint64, 4)},
		"host, which nothing leaves":          {Name: "c", Floors: []uint64{1}},
		"above the cap of 1":                  {Name: "c", Caps: []uint64{0, 1}, Floors: []uint64{0, 2}},
		"would be 20480 in all: it has 16384": {Name: "c", Floors: []uint64{0, 2 * askedSize}},
	} {
		_, err := h.c.NewTenant(o)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
		require.ErrorContains(t, err, want)
	}
	err := h.run(0, h.launch(0, 1, 2))
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.True(t, why.Hopeless)
	require.ErrorContains(t, err, "tenant a has 0 bytes on a and needs 12288 more, its cap is 8192")

	require.ErrorIs(t, h.tenants[1].Close(), mem.ErrInvalidOperation)
	_, err = (*runtime.Tenant)(nil).CreateBuffer("x", 1, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.NoError(t, h.c.Check())
	for _, b := range h.bufs {
		require.NoError(t, b.Release())
	}
	require.NoError(t, h.tenants[1].Close())
	require.ErrorIs(t, h.tenants[1].Close(), mem.ErrInvalidOperation)
	_, err = h.tenants[1].CreateBuffer("x", 1, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	_, err = h.c.NewTenant(runtime.TenantOptions{Name: "a", Floors: []uint64{0, 2 * askedSize}})
	require.NoError(t, err, "its floor is free again")
	require.NoError(t, h.c.Close(context.Background()))
	_, err = h.c.NewTenant(runtime.TenantOptions{Name: "z"})
	require.ErrorIs(t, err, mem.ErrInvalidContext)
}

func TestTenantsAllocateNothing(t *testing.T) {
	h := share(t, 40, []runtime.TenantOptions{{Name: "a", Caps: []uint64{0, 20 * askedSize}}, {Name: "b", Floors: []uint64{0, 10 * askedSize}}},
		append(slices.Repeat([]int{1}, 40), slices.Repeat([]int{2}, 40)...))
	defer h.close(t)
	var launches []runtime.Launch
	for i := range 80 {
		launches = append(launches, h.launch(i, (i+1)%80, (i+2)%80))
	}
	next := 0
	use := func() {
		if err := h.run(0, launches[next%80]); err != nil {
			t.Fatal(err)
		}
		next++
	}
	for range 400 {
		use()
	}
	require.Zero(t, testing.AllocsPerRun(200, use))
}

// TestTenantsComeAndGoBesideCommands is for the race detector.
func TestTenantsComeAndGoBesideCommands(t *testing.T) {
	d := null.New(devices.Config{Name: "a", Memory: 16 * askedSize})
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}))
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	ctx := context.Background()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 30 {
				tenant, err := c.NewTenant(runtime.TenantOptions{Name: fmt.Sprint(i, n), Caps: []uint64{0, 3 * askedSize}, Floors: []uint64{0, 2 * askedSize}})
				if !assert.NoError(t, err) {
					return
				}
				var bufs []*runtime.Buffer
				for range 6 {
					b, err := tenant.CreateBuffer("", askedSize, 0, nil)
					assert.NoError(t, err)
					bufs = append(bufs, b)
					e, err := q.EnqueueFill(ctx, b, []byte{1}, 0, askedSize)
					assert.NoError(t, err)
					assert.NoError(t, e.Release())
				}
				c.Figures()
				for _, b := range bufs {
					assert.NoError(t, b.Release())
				}
				assert.NoError(t, tenant.Close())
			}
		})
	}
	all.Wait()
	require.NoError(t, c.Check())
	require.NoError(t, c.Close(ctx))
}

// TestACommandMayPassTwoTenantsCaps: the blocks of both may go for it.
func TestACommandMayPassTwoTenantsCaps(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1) // of four rooms
	q := h.q[0]
	caps := []uint64{0, room + room/2}
	one, two := must(h.c.NewTenant(runtime.TenantOptions{Name: "one", Caps: caps})), must(h.c.NewTenant(runtime.TenantOptions{Name: "two", Caps: caps}))
	var all []*runtime.Buffer
	for _, t := range []*runtime.Tenant{one, two, one, two} {
		all = append(all, must(t.CreateBuffer("", room, 0, make([]byte, room))))
	}
	h.paint(q, all[0], 1)
	h.paint(q, all[1], 2)
	h.done(h.ok(q.EnqueueCopy(soon(t), all[2], all[3], 0, 0, room)))
	h.holds(q, all[0], 1)
	h.holds(q, all[1], 2)
	require.NoError(t, h.c.Check())
	for _, b := range all {
		require.NoError(t, b.Release())
	}
	require.ErrorIs(t, (*runtime.Tenant)(nil).Close(), mem.ErrInvalidValue)
}

// TestFloorsAreHeldAgainstWhatALayerLeaves: a device that does not say its memory, under a layer that does.
func TestFloorsAreHeldAgainstWhatALayerLeaves(t *testing.T) {
	d := null.New(devices.Config{Name: "unlimited"})
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
		if m == mem.Host {
			return base
		}
		return must(resource.NewLimit(base, 1<<20))
	}}))
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	_, err := c.NewTenant(runtime.TenantOptions{Name: "a", Floors: []uint64{0, 1<<20 + 1}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	a := must(c.NewTenant(runtime.TenantOptions{Name: "a", Floors: []uint64{0, 1 << 20}}))
	require.NoError(t, a.Close())
}

// tellsOfFrees frees, and says that it has not.
type tellsOfFrees struct{ mem.Resource }

var errFree = errors.New("cannot free")

func (r tellsOfFrees) FreeAfter(b mem.Block, after []mem.Point) error {
	return errors.Join(r.Resource.FreeAfter(b, after), errFree)
}

func TestABlockWhoseFreeFailsIsItsTenantsNoMore(t *testing.T) {
	d := null.New(devices.Config{Name: "a", Memory: 1 << 20})
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
		return tellsOfFrees{base}
	}}))
	a, q := must(c.NewTenant(runtime.TenantOptions{Name: "a", Caps: []uint64{0, askedSize}})), must(c.NewQueue(d, runtime.QueueOptions{}))
	for range 2 { // the second fits under the cap again
		b := must(a.CreateBuffer("b", askedSize, 0, nil))
		e := must(q.EnqueueFill(context.Background(), b, []byte{1}, 0, askedSize))
		require.NoError(t, e.Wait(context.Background()))
		require.ErrorIs(t, b.Release(), errFree)
		require.NoError(t, c.Check())
	}
	require.NoError(t, a.Close())
	require.NoError(t, c.Close(context.Background()))
}
