package eviction

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

func access(b, m int, mode mem.Mode) mem.Access {
	return mem.Access{Buffer: mem.BufferID(b), Memory: mem.MemoryID(m), Mode: mode, Range: mem.Range{End: 1}}
}

func TestPoliciesHaveNames(t *testing.T) {
	for _, name := range names() {
		p, err := ByName(name)
		require.NoError(t, err)
		if name == "none" {
			require.Nil(t, p)
			continue
		}
		require.Equal(t, name, p.Name())
	}
	_, err := ByName("belady")
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.Equal(t, "belady", NewBelady(NewScript(nil)).Name())
}

func TestScores(t *testing.T) {
	c := func(fresh, back, used uint64) *Candidate {
		return &Candidate{Buffer: 1, Memory: 1, Range: mem.Range{End: 8}, Fresh: fresh, Back: back, Used: used}
	}
	require.Less(t, LRU{}.Score(9, c(8, 8, 2)), LRU{}.Score(9, c(0, 0, 3)))
	cost := NewCost()
	require.Less(t, cost.Score(9, c(8, 0, 4)), cost.Score(9, c(8, 8, 4)), "what need not be written back")
	require.Less(t, cost.Score(9, c(8, 0, 3)), cost.Score(9, c(8, 0, 4)), "what was used longer ago")
	require.Zero(t, cost.Score(9, c(0, 0, 8)), "what holds nothing")
	timed := c(8, 8, 4)
	timed.Write, timed.Fetch = 1e-6, 1e-6
	slow := *timed
	slow.Fetch = 2e-6
	require.Less(t, cost.Score(9, timed), cost.Score(9, &slow))
}

// naive is what becomes of a block, from all commands to come.
func naive(commands [][]mem.Access, b mem.BufferID, m mem.MemoryID, now int) (a Ahead) {
	gone := false
	for n := now; n <= len(commands); n++ {
		for _, u := range commands[n-1] {
			if u.Buffer != b {
				continue
			}
			if u.Memory == m && a.Until == 0 {
				a.Until, a.Fetch = uint64(n-now+1), u.Mode.Reads() && !gone
			}
			a.Wanted = a.Wanted || u.Memory != m && u.Mode.Reads() && !gone
			gone = gone || u.Mode.Writes()
		}
	}
	return a
}

func drawCommands(t *rapid.T, n int) (out [][]mem.Access) {
	for range n {
		var accs []mem.Access
		for range rapid.IntRange(1, 3).Draw(t, "accesses") {
			accs = append(accs, access(rapid.IntRange(1, 6).Draw(t, "buffer"), rapid.IntRange(0, 2).Draw(t, "memory"),
				rapid.SampledFrom([]mem.Mode{mem.Read, mem.ReadWrite, mem.Write}).Draw(t, "mode")))
		}
		out = append(out, accs)
	}
	return out
}

// largest embeds a settled policy and scores otherwise.
type largest struct{ LRU }

func (largest) ScoreAt(_, now uint64, c *Candidate) float64 { return float64(now - c.Size()) }

func TestWhoEmbedsASettledPolicyIsNotSettled(t *testing.T) {
	require.True(t, IsSettled(LRU{}))
	require.False(t, IsSettled(largest{}))
	require.False(t, IsSettled(&LRU{}), "what its method answers with is another type")
	require.False(t, IsSettled(NewCost()))
	require.False(t, IsSettled(nil))
}

func TestAScriptKnowsTheFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := drawCommands(t, rapid.IntRange(1, 40).Draw(t, "commands"))
		s := NewScript(nil)
		for i, accs := range commands {
			s.Command(uint64(i+1), accs)
		}
		for now := 1; now <= len(commands)+1; now++ {
			for b := range mem.BufferID(7) {
				for m := range mem.MemoryID(3) {
					require.Equal(t, naive(commands, b, m, now), s.Ahead(b, m, uint64(now)))
				}
			}
		}
	})
}

func TestAScriptKnowsOfReleases(t *testing.T) {
	s := NewScript(nil)
	s.Command(1, []mem.Access{access(1, 1, mem.ReadWrite)})
	s.Release(4, 1)
	require.Equal(t, Ahead{Until: 1, Fetch: true}, s.Ahead(1, 1, 1))
	require.Equal(t, Ahead{Until: 3}, s.Ahead(1, 1, 2), "its room is of use until the release, and nobody fetches it again")
	require.Equal(t, Ahead{}, s.Ahead(1, 1, 5))
}

// TestWhatRepeatsIsForeseen: after the first commands of the second round, a round
// of commands that are all different is known as it was the first time.
func TestWhatRepeatsIsForeseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		round := drawCommands(t, rapid.IntRange(phrase, 40).Draw(t, "commands"))
		for i := range round { // a mark, so that they differ
			round[i] = append(round[i], access(100+i, 1, mem.Read))
		}
		var all [][]mem.Access
		for range 4 {
			all = append(all, round...)
		}
		p := newPast()
		for i, accs := range all[:3*len(round)] {
			p.observe(accs)
			if i+1 < len(round)+phrase {
				require.Zero(t, p.match)
				continue
			}
			if p.match == 0 && i+1 < 2*len(round) { // two phrases of one hash
				continue
			}
			require.EqualValues(t, i+1-len(round), p.match)
			for b := range mem.BufferID(7) {
				for m := range mem.MemoryID(3) {
					got, known := p.ahead(b, m)
					require.True(t, known)
					want := naive(all[:i+1+len(round)], b, m, i+2) // a round from now on
					if want.Until == 0 {
						require.Greater(t, got.Until, uint64(len(round)))
						continue
					}
					require.Equal(t, want, got, "buffer %d on %d after command %d of %d a round", b, m, i+1, len(round))
				}
			}
		}
	})
}

// TestWhatGrowsIsForeseen: a program that reads a byte more each round does what it did.
func TestWhatGrowsIsForeseen(t *testing.T) {
	p := newPast()
	for round := range 3 {
		for b := range 5 {
			p.observe([]mem.Access{{Buffer: mem.BufferID(1 + b), Memory: 1, Range: mem.Range{End: uint64(8 + round)}}})
		}
	}
	require.EqualValues(t, 10, p.match)
	got, known := p.ahead(1, 1)
	require.True(t, known)
	require.EqualValues(t, 1, got.Until)
}

// TestThePastIsBounded: the oldest is forgotten, and what is left is linked as it
// should be.
func TestThePastIsBounded(t *testing.T) {
	p, r := newPast(), rand.New(rand.NewPCG(1, 2))
	for i := range 3 * pastEvents / 2 {
		buffer := 1 + r.IntN(50)
		if i%1000 < 3 {
			buffer = 1000 + i // seldom, and never again
		}
		p.observe([]mem.Access{access(buffer, 1, mem.Read), access(1+i%7, 1, mem.Write)})
	}
	seen := 0
	for id, th := range p.buffers {
		require.LessOrEqual(t, th.first, th.cursor)
		require.LessOrEqual(t, th.cursor, th.last)
		prev := uint64(0)
		for e := th.first; e != 0; e = p.at(e).next {
			if o := p.at(e); o.buffer != id || o.prev != prev || p.next-e > pastEvents {
				t.Fatalf("event %d of %d: %+v, after event %d of buffer %d", e, p.next, o, prev, id)
			}
			prev = e
			seen++
		}
		require.Equal(t, prev, th.last)
	}
	require.Equal(t, pastEvents, seen)
	require.Less(t, len(p.buffers), 300)
}

func TestObservingAndScoringAllocatesNothing(t *testing.T) {
	p := NewCost()
	accs := make([][]mem.Access, 60)
	for i := range accs {
		accs[i] = []mem.Access{access(1+i, 1, mem.Read), access(1+(i*7)%60, 1, mem.ReadWrite)}
	}
	n := 0
	step := func() {
		p.Observe(accs[n%60])
		c := Candidate{Buffer: mem.BufferID(1 + n%60), Memory: 1, Range: mem.Range{End: 1}, Fresh: 1}
		_ = p.Score(uint64(n+1), &c)
		n++
	}
	for range 2000 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}

// TestPoliciesSayWhy: the terms of each policy's score in words, and a score of one that has no words.
func TestPoliciesSayWhy(t *testing.T) {
	c := &Candidate{Buffer: 1, Memory: 1, Range: mem.Range{End: 8}, Fresh: 8, Back: 4, Used: 2}
	timed := *c
	timed.Write, timed.Fetch = 1.5e-6, 2e-6
	script := NewScript(nil)
	script.Command(9, []mem.Access{access(1, 1, mem.Read)})
	belady := NewBelady(script)
	cost := NewCost()
	require.Equal(t, "unused for 3 commands", WhyOf(LRU{}, 5, c))
	require.Equal(t, "never used", WhyOf(LRU{}, 5, &Candidate{}))
	require.Equal(t, "nothing foreseen, unused for 1 command, 4 B to write back and 8 B to fetch", WhyOf(cost, 3, c))
	require.Equal(t, "needed again in 4 commands, 1.5 us to write back and 2 us to fetch", WhyOf(belady, 5, &timed))
	require.Equal(t, "never needed again, 1.5 us to write back", WhyOf(belady, 10, &timed))
	for range 4 { // the fourth command repeats the first
		cost.Observe([]mem.Access{access(1, 1, mem.Read)})
		cost.Observe([]mem.Access{access(2, 1, mem.Read)})
		cost.Observe([]mem.Access{access(3, 1, mem.Write)})
	}
	require.Equal(t, "expected again in 1 command, 4 B to write back and 8 B to fetch", WhyOf(cost, 13, &Candidate{Buffer: 2, Memory: 1, Range: mem.Range{End: 8}, Fresh: 8, Back: 4, Used: 11}))
	require.Equal(t, "written anew in 2 commands, 4 B to write back", WhyOf(cost, 13, &Candidate{Buffer: 3, Memory: 1, Range: mem.Range{End: 8}, Fresh: 8, Back: 4, Used: 12}))
	round := NewRound(3, itself)
	require.Equal(t, "of no command of the round, unused for 3 commands, 4 B to write back and 8 B to fetch", WhyOf(round, 5, c))
	require.Equal(t, "score 1", WhyOf(mute{}, 5, c))
}

func itself(m mem.MemoryID) mem.MemoryID { return m }

// mute is a policy without words.
type mute struct{}

func (mute) Name() string                         { return "mute" }
func (mute) Score(_ uint64, _ *Candidate) float64 { return 1 }
