package migration

import (
	"cmp"
	"reflect"

	"godwit/eviction"
	"godwit/internal/heap"
	"godwit/mem"
)

// Which block goes first is asked at each shortage, and there may be very many blocks. So
// the order of a memory's blocks is kept from one shortage to the next, as a heap of what
// they scored. That is right for as long as nobody uses them, if the policy's scores of one
// command compare with each other whenever they are asked for (eviction.Ranker): who comes
// to the top is scored again, and goes back if it has become dearer. What it misses is a
// block that has become cheaper, since another memory holds its content by now, and that
// scores of blocks of different worth age unlike. So several from the top are looked at, and
// the cheapest of them as of now is taken; and the heap is made anew as soon as so many
// commands have gone by as an eighth of its blocks: that is about a dozen looks for a
// command that evicts, however many blocks there are. It is made anew each time where there
// are only a few, or the policy is no Ranker, or is a value that cannot be compared. Where
// scores change by use alone (eviction.Settled), nothing is missed: the top is the cheapest,
// and the heap stays.

const (
	fewBlocks = 32 // so few that looking at all of them is nothing
	fromTop   = 4  // blocks that are compared as of now
)

// ranking is the order of a memory's blocks.
type ranking struct {
	policy      eviction.Policy   // that they were scored by; nil where there is no order
	comparable  bool              // that policy: asking it anew each time would allocate
	settled     bool              // that policy's scores change by use alone
	base, epoch uint64            // the command as of which they were, and the policy's epoch
	heap        heap.Heap[ranked] // the cheapest on top; some have left since
	came        []int32           // blocks that are not in it yet
	exact       bool              // the heap is as of now
	asking      bool              // the policy is being asked; where it panicked it stays so, and the order is made anew
	aside       []ranked          // looked at in this Evict
	top         []Victim          // of these, those that are compared
}

// ranked is a block's place.
type ranked struct {
	prio   int32
	score  float64
	used   uint64
	id     mem.BufferID
	start  uint64 // of its range
	block  int32  // its place in Planner.blocks
	serial uint64 // of the block that was ranked
}

func (a *ranked) before(b *ranked) bool {
	return cmp.Or(cmp.Compare(a.prio, b.prio), cmp.Compare(a.score, b.score), cmp.Compare(a.used, b.used), cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start)) < 0
}

// inOrder brings the order of a memory's blocks up to date. A question (Eviction.Asked) has one of
// its own, made anew each time, so that who asks changes nothing.
func (p *Planner) inOrder(m mem.MemoryID, policy eviction.Policy, asked bool) *ranking {
	if asked {
		p.asked.anew(policy, p.clock+1)
		p.rankAll(&p.asked, m)
		return &p.asked
	}
	r, n := &p.rankings[m], len(p.residents[m])
	ranker, keeps := policy.(eviction.Ranker)
	var epoch uint64
	if keeps {
		epoch = ranker.Epoch()
	}
	r.top = r.top[:0]
	r.exact = r.asking || !keeps || n <= fewBlocks || !r.same(policy) || r.epoch != epoch || r.aged(p.clock+1, n) || len(r.heap.Items) > 2*n
	r.asking = true
	if r.exact {
		r.anew(policy, p.clock+1)
		r.epoch = epoch
		for _, i := range p.residents[m] {
			p.number(i)
		}
		p.rankAll(r, m)
		return r
	}
	for _, i := range r.came {
		if k := &p.blocks[i]; !k.r.Empty() && k.memory == m && k.serial == 0 {
			p.number(i)
			r.heap.Push(p.ranked(r, i))
		}
	}
	r.came = r.came[:0]
	return r
}

// anew begins an order by a policy, as of a command.
func (r *ranking) anew(policy eviction.Policy, now uint64) {
	if !r.same(policy) {
		r.policy, r.comparable = policy, reflect.ValueOf(policy).Comparable()
		r.settled = eviction.IsSettled(policy)
	}
	r.base, r.exact = now, true
	r.heap.Before, r.heap.Items, r.came, r.aside, r.top = (*ranked).before, r.heap.Items[:0], r.came[:0], r.aside[:0], r.top[:0]
}

// rankAll makes an order of all blocks of a memory.
func (p *Planner) rankAll(r *ranking, m mem.MemoryID) {
	for _, i := range p.residents[m] {
		r.heap.Items = append(r.heap.Items, p.ranked(r, i))
	}
	r.heap.Init()
}

// aged reports whether scores of so many blocks have to be asked for anew.
func (r *ranking) aged(now uint64, blocks int) bool {
	return !r.settled && now-r.base > uint64(blocks/8)
}

// same reports whether a policy is the one that was kept. One that cannot be compared,
// such as a value with a map in it, is another one each time: == would panic. A comparable
// one can be compared with any other.
func (r *ranking) same(policy eviction.Policy) bool { return r.comparable && r.policy == policy }

// number gives a block a new number, so that no place that was made before is its own.
func (p *Planner) number(i int32) {
	p.serial++
	p.blocks[i].serial = p.serial
}

// ranked is a block's place.
func (p *Planner) ranked(r *ranking, i int32) ranked {
	k := &p.blocks[i]
	return ranked{p.buffers[k.buffer].prio, p.score(r, p.candidate(k)), k.used, p.buffers[k.buffer].id(k.buffer), k.r.Start, i, k.serial}
}

// candidate is what a policy is told of a block, valid until the next call.
func (p *Planner) candidate(k *block) *eviction.Candidate {
	c, b := &p.scoring, p.buffers[k.buffer]
	*c = eviction.Candidate{Buffer: b.id(k.buffer), Memory: k.memory, Range: k.r, Used: k.used, Priority: b.prio}
	c.Fresh, c.Back = b.worth(b.at(k.memory), k.r)
	c.Write, c.Fetch = p.seconds(k.memory, mem.Host, c.Back), p.seconds(mem.Host, k.memory, c.Fresh)
	return c
}

// score is a block's, as of the ranking's command.
func (p *Planner) score(r *ranking, c *eviction.Candidate) float64 {
	if k, ok := r.policy.(eviction.Ranker); ok {
		return k.ScoreAt(r.base, p.clock+1, c)
	}
	return r.policy.Score(p.clock+1, c)
}

// next takes the block that goes first of those that are not in use.
func (p *Planner) next(r *ranking) (v Victim, ok bool) {
	if r.exact || r.settled {
		return p.cheapest(r)
	}
	for len(r.top) < fromTop {
		if v, ok = p.cheapest(r); !ok {
			break
		}
		r.top = append(r.top, v)
	}
	if len(r.top) == 0 {
		return v, false
	}
	best := 0
	for i := range r.top[1:] {
		if r.top[i+1].cheaper(&r.top[best]) {
			best = i + 1
		}
	}
	v = r.top[best]
	last := len(r.top) - 1
	r.top[best] = r.top[last]
	r.top = r.top[:last]
	return v, true
}

func (v *Victim) cheaper(than *Victim) bool {
	return cmp.Or(cmp.Compare(v.Priority, than.Priority), cmp.Compare(v.Score, than.Score), cmp.Compare(v.Used, than.Used), cmp.Compare(v.Buffer, than.Buffer), cmp.Compare(v.Range.Start, than.Range.Start)) < 0
}

// cheapest takes the block on top that is not in use.
func (p *Planner) cheapest(r *ranking) (v Victim, ok bool) {
	for len(r.heap.Items) > 0 {
		x := r.heap.Pop()
		k := &p.blocks[x.block]
		if k.serial != x.serial {
			continue
		}
		if k.inUse == p.evictions {
			r.aside = append(r.aside, x)
			continue
		}
		c := p.candidate(k)
		x.score, x.used = p.score(r, c), k.used
		if len(r.heap.Items) > 0 && r.heap.Items[0].before(&x) {
			r.heap.Push(x)
			continue
		}
		r.aside = append(r.aside, x)
		return Victim{Candidate: *c, Score: r.policy.Score(p.clock+1, c)}, true
	}
	return v, false
}

// tell has victims say why they go before others. It looks only where the next ones are, and changes no order.
func (p *Planner) tell(victims []Victim, r *ranking, room Room) {
	const near = 15 // the heap's first levels
	var next *Victim
	look := func(v Victim) {
		if (next == nil || v.cheaper(next)) && p.keeps(p.buffers[uint32(v.Buffer)], &v, nil, room) == eviction.Goes {
			next = &v
		}
	}
	for _, v := range r.top {
		look(v)
	}
	for _, x := range r.heap.Items[:min(near, len(r.heap.Items))] {
		if k := &p.blocks[x.block]; k.serial == x.serial {
			c := *p.candidate(k)
			look(Victim{Candidate: c, Score: r.policy.Score(p.clock+1, &c)})
		}
	}
	if next != nil {
		next.Why = eviction.WhyOf(r.policy, p.clock+1, &next.Candidate)
	}
	for i := range victims {
		victims[i].Why, victims[i].Next = eviction.WhyOf(r.policy, p.clock+1, &victims[i].Candidate), next
	}
}

// restore puts back what was looked at. What leaves after all is known by its serial.
func (r *ranking) restore() {
	for _, x := range r.aside {
		r.heap.Push(x)
	}
	r.aside = r.aside[:0]
}

// arrived notes a block that is new on a memory, where there is a ranking.
func (r *ranking) arrived(i int32, residents int) {
	if len(r.came) > residents {
		r.policy, r.comparable, r.came = nil, false, r.came[:0]
		return
	}
	r.came = append(r.came, i)
}
