package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/study/scenario"
)

const three = `
devices: [{name: d0, driver: cpu, memory: 1 MiB}, {name: d1, driver: cpu, memory: 1 MiB}]
buffers: [{name: a, size: 4 KiB, fill: 1}]
commands:
`

// TestAReadWithoutAQueueIsServedWhereItsBytesAre: nothing is brought for it.
func TestAReadWithoutAQueueIsServedWhereItsBytesAre(t *testing.T) {
	res, err := runText(t, three+`
- {read: a}
- {fill: a, size: 3 KiB, pattern: 2, queue: d1}
- {read: a, size: 3 KiB}
- {fill: a, offset: 2 KiB, size: 2 KiB, pattern: 3, queue: d0}
- {read: a}
`)
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	var on []string
	for _, c := range res.Commands {
		on = append(on, c.Device)
	}
	require.Equal(t, []string{"host", "d1", "d1", "d0", "d0"}, on, "of two with as many bytes, the first")
}

// TestWhatTheHostReadsAndWritesIsCountedApart: byte by byte, as a reference counts it.
func TestWhatTheHostReadsAndWritesIsCountedApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const cells = 4
		var text strings.Builder
		valid := [cells]map[string]bool{}
		var unread [cells]bool
		for i := range valid {
			valid[i] = map[string]bool{"host": true}
		}
		var bytes, least uint64
		for range rapid.IntRange(1, 12).Draw(rt, "commands") {
			q := rapid.SampledFrom([]string{"host", "d0", "d1"}).Draw(rt, "queue")
			at := rapid.IntRange(0, cells-1).Draw(rt, "cell")
			kind := rapid.SampledFrom([]string{"read", "write", "fill", "migrate"}).Draw(rt, "kind")
			switch kind {
			case "read":
				if q != "host" {
					bytes += 1024
				}
				if !valid[at]["host"] {
					least += 1024
				}
				valid[at][q] = true
				fmt.Fprintf(&text, "- {read: a, offset: %d KiB, size: 1 KiB, queue: %s}\n", at, q)
			case "write":
				if q != "host" {
					bytes += 1024
				}
				valid[at], unread[at] = map[string]bool{q: true}, q != "host"
				fmt.Fprintf(&text, "- {write: a, offset: %d KiB, size: 1 KiB, fill: 7, queue: %s}\n", at, q)
			case "fill":
				valid[at], unread[at] = map[string]bool{q: true}, false
				fmt.Fprintf(&text, "- {fill: a, offset: %d KiB, size: 1 KiB, pattern: 5, queue: %s}\n", at, q)
			case "migrate":
				for i := range valid {
					if q != "host" && unread[i] {
						least, unread[i] = least+1024, false
					}
					valid[i][q] = true
				}
				fmt.Fprintf(&text, "- {migrate: a, queue: %s}\n", q)
			}
		}
		res, err := runText(t, three+text.String())
		require.NoError(t, err)
		require.Equal(t, bytes, res.BytesHost, text.String())
		require.Equal(t, least, res.BytesHostBound, text.String())
	})
}

// TestSmallThingsThatAreSaid: what is written otherwise now, what drops a remainder, and links that
// delay nothing.
func TestSmallThingsThatAreSaid(t *testing.T) {
	for text, want := range map[string]string{
		"links: [{between: [d0, d1], route: ring}]\n" + three[1:]:                                                                   "route is called way",
		strings.Replace(three, "size: 4 KiB", "size: 4097 / 2", 1) + "[]":                                                           "4097 / 2 leaves 1 over: floor(4097 / 2) drops it",
		"let: {half: 4097 / 2, most: half + 1}\n" + strings.Replace(three, "size: 4 KiB", "size: most", 1) + "[]":                   "most: half: 4097 / 2 leaves 1 over",
		strings.Replace(three, "commands", "queues: [{name: q, device: d0, count: 2}, {name: q1, device: d0}]\ncommands", 1) + "[]": `queue "q1": the name is taken`,
	} {
		_, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
		require.ErrorContains(t, err, want)
	}
	res, err := runText(t, "let: {odd: 4097 / 2, whole: floor(odd), even: 4096 / 2}\nlinks: [{between: [d0, d1], latency: 1 s}]\nqueues: [{name: q, device: d0, count: 2}]\n"+
		strings.Replace(three, "4 KiB", "floor(4097 / 2) * 2 + whole - even", 1)+"- {read: a, queue: q1}")
	require.NoError(t, err)
	var out strings.Builder
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "on this computer they delay nothing")
}
