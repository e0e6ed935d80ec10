package runtime

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
)

// Tenants: groups of buffers that share a context's devices (docs/design/sharing.md). All that tenants hold is counted here,
// where blocks are got and freed, under the planner lock; a context without any counts nothing.

// TenantOptions say what the buffers of a tenant may take, and keep. Caps and Floors are bytes by MemoryID, as Options.Caps; the
// host's, and those that are not there, are 0, which is none.
type TenantOptions struct {
	// Name is for errors, traces and figures; no two tenants of a context have one. It must not be empty.
	Name string
	// Caps are how many bytes of blocks the tenant has on a memory at most, those included that were freed while
	// commands use them. What would pass a cap makes the tenant's own blocks leave, and nobody else's.
	Caps []uint64
	// Floors are how many bytes of its blocks on a memory nobody else makes leave. All tenants' are at most what the memory has.
	Floors []uint64
	// Priority comes before the policy: blocks of lower ones leave first. Buffers of no tenant have 0.
	Priority int32
}

// Tenant is a group of buffers, made by Tenant.CreateBuffer. Its methods are safe for use from many goroutines.
type Tenant struct {
	c *Context      // immutable
	o TenantOptions // immutable

	buffers int       // protected by c.mu: roots that are alive
	closed  bool      // protected by c.mu
	on      []tenancy // protected by c.mu; by MemoryID
}

// tenancy is what a tenant has on one memory.
type tenancy struct {
	floor              uint64           // immutable
	ceiling            resource.Ceiling // without a cap of the most that there is
	peak               uint64           // of what counts against the ceiling
	evictions, evicted uint64           // blocks that left, and their bytes
}

// live is how many bytes it has in blocks.
func (t *tenancy) live() uint64 { return t.ceiling.Held() - t.ceiling.Pending() }

// NewTenant makes a tenant without buffers. It fails with mem.ErrInvalidValue where the name is empty or taken, where there
// are caps or floors of memories that there are not or of the host's, where a floor is above its cap, and where all tenants'
// floors would be more than a memory has.
func (c *Context) NewTenant(o TenantOptions) (*Tenant, error) {
	if err := c.begin("tenant"); err != nil {
		return nil, err
	}
	defer c.unlock()
	t := &Tenant{c: c, o: o, on: make([]tenancy, len(c.mems))}
	if err := c.checkTenant(t); err != nil {
		return nil, fmt.Errorf("tenant %q of context %s: %w", o.Name, c.name, err)
	}
	c.tenants = append(c.tenants, t)
	return t, nil
}

// checkTenant fills in what a new tenant has. c.mu is held.
func (c *Context) checkTenant(t *Tenant) error {
	if t.o.Name == "" {
		return fmt.Errorf("no name: it must have one: %w", mem.ErrInvalidValue)
	}
	if n := max(len(t.o.Caps), len(t.o.Floors)); n > len(c.mems) {
		return fmt.Errorf("caps or floors of %d memories, there are %d: %w", n, len(c.mems), mem.ErrInvalidValue)
	}
	for i := range t.on {
		m, at := mem.MemoryID(i), &t.on[i]
		if i < len(t.o.Floors) {
			at.floor = t.o.Floors[i]
		}
		if at.ceiling.Max = math.MaxUint64; i < len(t.o.Caps) && t.o.Caps[i] > 0 {
			at.ceiling.Max = t.o.Caps[i]
		}
		switch capped := at.ceiling.Max != math.MaxUint64; {
		case c.topo.Store(m) != m || m == mem.Host:
			if at.floor > 0 || capped {
				return fmt.Errorf("a cap or floor on %s, which nothing leaves: %w", c.topo.Name(m), mem.ErrInvalidValue)
			}
		case at.floor > at.ceiling.Max:
			return fmt.Errorf("a floor of %d bytes on %s above the cap of %d: %w", at.floor, c.topo.Name(m), at.ceiling.Max, mem.ErrInvalidValue)
		}
	}
	for _, o := range c.tenants {
		if o.o.Name == t.o.Name {
			return fmt.Errorf("the name is taken: %w", mem.ErrInvalidValue)
		}
	}
	return c.checkFloors(t)
}

// checkFloors fails where a memory has not as much as all floors come to. c.mu is held.
func (c *Context) checkFloors(t *Tenant) error {
	for i := range c.mems {
		sum, all := t.on[i].floor, least(c.mems[i].info.GlobalMemory, c.mems[i].res.Stats().Capacity)
		for _, o := range c.tenants {
			sum += min(o.on[i].floor, math.MaxUint64-sum)
		}
		if t.on[i].floor > 0 && all > 0 && sum > all {
			return fmt.Errorf("a floor of %d bytes on %s, whose floors would be %d in all: it has %d: %w", t.on[i].floor, c.topo.Name(mem.MemoryID(i)), sum, all, mem.ErrInvalidValue)
		}
	}
	return nil
}

// String is the tenant's name.
func (t *Tenant) String() string {
	if t == nil {
		return "no tenant"
	}
	return t.o.Name
}

// CreateBuffer is Context.CreateNamedBuffer for a buffer of the tenant. It fails with mem.ErrInvalidOperation where the tenant was
// closed, and for a view of shared virtual memory, which is nobody's.
func (t *Tenant) CreateBuffer(name string, size uint64, flags Flags, host []byte) (*Buffer, error) {
	if t == nil || t.c == nil {
		return nil, fmt.Errorf("buffer of a nil tenant: %w", mem.ErrInvalidValue)
	}
	return t.c.create(name, size, flags, host, t, false)
}

// Close ends a tenant, and with it its caps and floors. It fails with mem.ErrInvalidOperation where buffers of it are alive, or it
// was closed.
func (t *Tenant) Close() error {
	if t == nil || t.c == nil {
		return fmt.Errorf("close of a nil tenant: %w", mem.ErrInvalidValue)
	}
	c := t.c
	if err := c.call(); err != nil {
		return err
	}
	defer c.unlock()
	if t.closed || t.buffers > 0 {
		return fmt.Errorf("close of tenant %s, with %d buffers alive, closed before: %t: %w", t, t.buffers, t.closed, mem.ErrInvalidOperation)
	}
	t.closed = true
	c.tenants = slices.DeleteFunc(c.tenants, func(o *Tenant) bool { return o == t })
	return nil
}

// record is the tenant as the trace has it.
func (t *Tenant) record() *trace.CommandTenant {
	if t == nil {
		return nil
	}
	return &trace.CommandTenant{Name: t.o.Name, Caps: t.o.Caps, Floors: t.o.Floors, Priority: t.o.Priority}
}

// asksOf is how many bytes of requests for a memory are a tenant's. c.mu is held.
func (t *Tenant) asksOf(reqs []mem.Request) (bytes uint64) {
	for i := range reqs {
		if t.c.roots[mem.BufferID(reqs[i].Tag)].tenant == t {
			bytes += reqs[i].Size
		}
	}
	return bytes
}

// fitsTenants reports whether requests would pass no tenant's cap if the victims were gone. c.mu is held.
func (c *Context) fitsTenants(m mem.MemoryID, reqs []mem.Request, victims []migration.Victim, reuse *mem.Reuse) bool {
	for _, t := range c.tenants {
		if want := t.asksOf(reqs); want > 0 && !t.on[m].ceiling.Fits(want, t.leaving(m, victims), reuse) {
			return false
		}
	}
	return true
}

// leaving is how many bytes of the victims' blocks on a memory are a tenant's. c.mu is held.
func (t *Tenant) leaving(m mem.MemoryID, victims []migration.Victim) (bytes uint64) {
	for i := range victims {
		if v := &victims[i]; v.Memory == m && t.c.roots[v.Buffer].tenant == t {
			b, _ := t.c.roots[v.Buffer].blockAt(m, v.Range.Start)
			bytes += b.Size
		}
	}
	return bytes
}

// overCap is the tenant whose cap requests for a memory would pass as things are; nil is none. c.mu is held.
func (c *Context) overCap(m mem.MemoryID, reqs []mem.Request, reuse *mem.Reuse) (*Tenant, mem.Outcome) {
	for _, t := range c.tenants {
		if want := t.asksOf(reqs); want > 0 {
			if _, o := t.on[m].ceiling.Over(want, reuse); o != mem.Ready {
				return t, o
			}
		}
	}
	return nil, mem.Ready
}

// alloc is AllocAll of a memory's resource, with the tenants' caps. c.mu is held.
func (c *Context) alloc(m mem.MemoryID, reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if len(c.tenants) == 0 || m == mem.Host {
		return c.mems[m].res.AllocAll(reqs, out, reuse)
	}
	if _, o := c.overCap(m, reqs, reuse); o != mem.Ready {
		return o, nil
	}
	o, err := c.mems[m].res.AllocAll(reqs, out, reuse)
	for _, t := range c.tenants {
		want := t.asksOf(reqs)
		if err != nil || o != mem.Ready || want == 0 {
			continue
		}
		at := &t.on[m]
		over, _ := at.ceiling.Over(want, reuse)
		at.ceiling.Take(want, over, reuse, len(reqs))
		at.peak = max(at.peak, at.ceiling.Held())
	}
	return o, err
}

// free is FreeAfter of where a root's block came from. c.mu is held.
func (c *Context) free(r *root, m mem.MemoryID, b mem.Block, after []mem.Point) error {
	err := c.resource(r, m).FreeAfter(b, after)
	if r.tenant != nil && m != mem.Host { // where it failed, nobody has the block any more
		r.tenant.on[m].ceiling.Free(b.Size, after)
	}
	return err
}

// tenantKeeps says whether a tenant's rules keep a block that others need the room of, where victims leave already: who passes its cap
// makes its own blocks leave, and nobody goes below another's floor. c.mu is held.
func (c *Context) tenantKeeps(v *migration.Victim, victims []migration.Victim) eviction.Why {
	if len(c.tenants) == 0 || c.evicting.plan == nil { // by the program's own wish
		return eviction.Goes
	}
	reqs, of := c.wanted(v.Memory), c.roots[v.Buffer].tenant
	if over, _ := c.overCap(v.Memory, reqs, &c.scratch.reuse); over != nil && (of == nil || !of.passes(v.Memory, reqs, &c.scratch.reuse)) {
		return eviction.Tenant
	}
	if of == nil || of.wants(v.Memory) {
		return eviction.Goes
	}
	at := &of.on[v.Memory]
	if at.live() < at.floor+of.leaving(v.Memory, victims)+v.Range.Size() {
		return eviction.Floor
	}
	return eviction.Goes
}

// passes reports whether requests for a memory would pass the tenant's cap as things are. c.mu is held.
func (t *Tenant) passes(m mem.MemoryID, reqs []mem.Request, reuse *mem.Reuse) bool {
	want := t.asksOf(reqs)
	if want == 0 {
		return false
	}
	_, o := t.on[m].ceiling.Over(want, reuse)
	return o != mem.Ready
}

// wants reports whether the command that needs room wants a block of the tenant's on a memory. c.mu is held.
func (t *Tenant) wants(m mem.MemoryID) bool {
	return slices.ContainsFunc(t.c.scratch.wants, func(w want) bool { return w.Memory == m && t.c.roots[w.Buffer].tenant == t })
}

// atCap adds to a certificate that it is a tenant's cap that leaves no room. c.mu is held.
func (c *Context) atCap(m mem.MemoryID, err error) error {
	reqs := c.wanted(m)
	t, _ := c.overCap(m, reqs, &c.scratch.reuse)
	if t == nil {
		return err
	}
	most, want := t.on[m].ceiling.Max, t.asksOf(reqs)
	if why := (*OutOfMemory)(nil); errors.As(err, &why) {
		why.Hopeless = why.Hopeless || want > most
	}
	return fmt.Errorf("tenant %s has %d bytes on %s and needs %d more, its cap is %d: %w", t, t.on[m].ceiling.Held(), c.topo.Name(m), want, most, err)
}

// TenantBytes is what a tenant has on a memory, in bytes unless said.
type TenantBytes struct {
	Tenant, Memory string
	Live, Pending  uint64 // in blocks; in blocks that were freed while commands use them
	Peak           uint64 // of both together
	Cap, Floor     uint64 // 0 is none
	Evictions      uint64 // blocks that left, a count
	Evicted        uint64
}

// figures are the tenant's, of memories where it has, or had, something. c.mu is held.
func (t *Tenant) figures(dst []TenantBytes) []TenantBytes {
	for i := range t.on {
		at := &t.on[i]
		f := TenantBytes{t.o.Name, t.c.topo.Name(mem.MemoryID(i)), at.live(), at.ceiling.Pending(), at.peak, at.ceiling.Max, at.floor, at.evictions, at.evicted}
		if f.Cap == math.MaxUint64 {
			f.Cap = 0
		}
		if f.Peak+f.Cap+f.Floor > 0 {
			dst = append(dst, f)
		}
	}
	return dst
}

// checkTenants tests what is counted against the blocks that there are. c.mu is held.
func (c *Context) checkTenants() error {
	var errs []error
	for _, t := range c.tenants {
		buffers, live := 0, make([]uint64, len(c.mems))
		for _, r := range c.roots {
			if r.tenant != t {
				continue
			}
			buffers++
			for i := range r.blocks {
				for _, b := range r.blocks[i].All() {
					live[r.blocks[i].memory] += b.Size
				}
			}
		}
		if buffers != t.buffers {
			errs = append(errs, fmt.Errorf("tenant %s has %d buffers, counted %d", t, buffers, t.buffers))
		}
		for m := 1; m < len(t.on); m++ {
			if at := &t.on[m]; at.live() != live[m] || at.ceiling.Held() > at.ceiling.Max {
				errs = append(errs, fmt.Errorf("tenant %s has %d bytes on %s, counted %d, held %d of %d", t, live[m], c.topo.Name(mem.MemoryID(m)), at.live(), at.ceiling.Held(), at.ceiling.Max))
			}
		}
	}
	return errors.Join(errs...)
}
