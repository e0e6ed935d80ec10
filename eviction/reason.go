package eviction

import (
	"fmt"
	"strings"

	"godwit/mem"
)

// Explainer is a policy that says what its scores are made of, for people.
type Explainer interface {
	Policy
	// Why says of a candidate's Score at command number now what it comes of: "needed again in 35 commands, 7.6 us to
	// fetch".
	Why(now uint64, c *Candidate) string
}

// WhyOf is what a policy says of a candidate, or its score where it says nothing.
func WhyOf(p Policy, now uint64, c *Candidate) string {
	if e, ok := p.(Explainer); ok {
		return e.Why(now, c)
	}
	return fmt.Sprintf("score %.4g", p.Score(now, c))
}

// Why implements Explainer.
func (LRU) Why(now uint64, c *Candidate) string { return unused(now, c) }

// Why implements Explainer.
func (p *cost) Why(now uint64, c *Candidate) string {
	if p.past != nil {
		if a, known := p.past.ahead(c.Buffer, c.Memory); known {
			return a.why("expected again", c)
		}
	}
	return "nothing foreseen, " + unused(now, c) + prices(c, true, true)
}

// Why implements Explainer.
func (p belady) Why(now uint64, c *Candidate) string {
	return p.future.Ahead(c.Buffer, c.Memory, now).why("needed again", c)
}

// Why implements Explainer.
func (r *Round) Why(now uint64, c *Candidate) string {
	if a, known := r.ahead(c); known {
		a.Wanted = false // what another memory reads comes by way of the host
		return a.why("needed again", c)
	}
	return "of no command of the round, " + unused(now, c) + prices(c, true, true)
}

func unused(now uint64, c *Candidate) string {
	if c.Used == 0 {
		return "never used"
	}
	return "unused for " + commands(now-c.Used)
}

func commands(n uint64) string {
	if n == 1 {
		return "1 command"
	}
	return fmt.Sprintf("%d commands", n)
}

// why says when a block is needed and what it costs to have lost it; again is how that is known.
func (a Ahead) why(again string, c *Candidate) string {
	switch {
	case a.Until == 0:
		again = "never needed again"
	case !a.Fetch:
		again = "written anew in " + commands(a.Until-1) // the command that is planned counts
	default:
		again += " in " + commands(a.Until-1)
	}
	return again + prices(c, !a.Wanted, a.Fetch)
}

// prices are the terms of price.
func prices(c *Candidate, write, fetch bool) string {
	var terms []string
	add := func(wanted bool, time float64, bytes uint64, what string) {
		switch {
		case !wanted || bytes == 0:
		case c.Write+c.Fetch > 0:
			terms = append(terms, fmt.Sprintf("%.4g us to %s", time*1e6, what))
		default:
			terms = append(terms, mem.FormatBytes(bytes)+" to "+what)
		}
	}
	add(write, c.Write, c.Back, "write back")
	add(fetch, c.Fetch, c.Fresh, "fetch")
	if len(terms) == 0 {
		return ", nothing to lose"
	}
	return ", " + strings.Join(terms, " and ")
}
