package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/mem"
)

func loaded(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse(t.Context(), "lives.yaml", []byte(text), Options{})
	require.NoError(t, err)
	return s
}

func TestBlocksAreHintedToLiveUntilTheirFree(t *testing.T) {
	s := loaded(t, `
devices: [{name: d, driver: cpu, memory: 1 MiB}, {name: e, driver: cpu, memory: 1 MiB}]
buffers: [{name: b, size: 256}]
svm: [{name: short, size: 256}, {name: long, size: 256}, {name: unused, size: 256}]
commands:
- {fill: short, pattern: 1, queue: d}  # d: 1
- {fill: b, pattern: 1, queue: d}      # d: 2
- {fill: long, pattern: 1, queue: d}   # d: 3
- {fill: long, pattern: 1, queue: e}   # e: 1
- {fill: short, pattern: 1, queue: d}
- {free: short, queue: d}              # d: 4
- {free: long, queue: d}               # d: 5, e: 2
- {free: unused, queue: d}
`)
	assert.Equal(t, []mem.Hint{mem.Lives(3), mem.Lives(2), mem.Kept, mem.Kept}, s.lives())
	s = loaded(t, `
devices: [{name: d, driver: cpu, memory: 1 MiB}]
buffers: [{name: b, size: 256}]
commands: [{fill: b, pattern: 1, queue: d}]
`)
	assert.Equal(t, []mem.Hint{0}, s.lives(), "nothing is freed before the end: there is nothing to place by")
}

// Blocks that stay and blocks that go come by turns, and then one is wanted that has
// room only if those that went had been side by side. Some blocks go before them, so
// that hints have proved true.
func TestAScenarioFitsByWhatItKnowsOfLives(t *testing.T) {
	const pairs, size, last = 60, 8 << 10, 56 * (8 << 10)
	var svm, commands, gone []string
	for i := range 4 {
		svm = append(svm, fmt.Sprintf("- {name: first%d, size: %d}", i, size))
		commands = append(commands, fmt.Sprintf("- {fill: first%d, pattern: 1}", i))
	}
	commands = append(commands, "- {free: [first0, first1, first2, first3], queue: d}\n- {map: little, as: before, flags: read, blocking: true}\n- {unmap: before}")
	for i := range pairs {
		svm = append(svm, fmt.Sprintf("- {name: stays%d, size: %d}\n- {name: goes%d, size: %d}", i, size, i, size))
		commands = append(commands, fmt.Sprintf("- {fill: stays%d, pattern: 1}\n- {fill: goes%d, pattern: 2}", i, i))
		gone = append(gone, fmt.Sprintf("goes%d", i))
	}
	s := loaded(t, fmt.Sprintf(`
devices: [{name: d, driver: tce, memory: 1 MiB}]
svm:
%s
- {name: last, size: %d}
- {name: little, size: 256}
commands:
- {fill: little, pattern: 1}
%s
- {free: [%s], queue: d, id: freed}
- {map: little, as: m, flags: read, after: freed, blocking: true} # until then the memory is not there
- {unmap: m}
- {fill: last, pattern: 3}
- {read: last}
`, strings.Join(svm, "\n"), last, strings.Join(commands, "\n"), strings.Join(gone, ", ")))
	res, err := Run(t.Context(), s, RunOptions{})
	require.NoError(t, err)
	assert.True(t, res.OK(), "%v", res.Mismatches)

	r, err := bufalloc.NewRegion(0, 1<<20, bufalloc.Options{})
	require.NoError(t, err)
	var goes []bufalloc.Chunk
	for i := range 2 * pairs {
		c, err := r.Alloc(size, 256)
		require.NoError(t, err)
		if i%2 == 1 {
			goes = append(goes, c)
		}
	}
	for _, c := range goes {
		require.NoError(t, r.Free(c))
	}
	_, err = r.Alloc(last, 256)
	require.ErrorIs(t, err, mem.ErrNoMemory, "without hints there is no room: the test shows something")
}
