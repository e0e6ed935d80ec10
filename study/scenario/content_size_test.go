package scenario_test

import (
	"testing"

	"godwit/study/scenario"

	"github.com/stretchr/testify/require"
)

func TestSizeBuffersThatScenariosMayNotName(t *testing.T) {
	for buffers, want := range map[string]string{
		"{name: a, size: 64, content_size: b}":                                                                            `content_size "b": no buffer has this name`,
		"{name: a, size: 64, content_size: a}":                                                                            "it cannot count its own bytes",
		"{name: a, size: 64, content_size: b}, {name: b, size: 7}":                                                        "a count takes 8 bytes, it has 7",
		"{name: a, size: 64, content_size: b}, {name: b, size: 8, content_size: c}, {name: c, size: 8}":                   "that has a content_size itself",
		"{name: a, size: 64, content_size: m}":                                                                            "this is shared virtual memory",
		"{name: a, size: 64, content_size: s}, {name: b, size: 64}]\nsub-buffers: [{name: s, of: b, offset: 0, size: 32}": `content_size "s": no buffer has this name`,
	} {
		text := "devices: [{name: d, driver: cpu}]\nsvm: [{name: m, size: 64}]\nbuffers: [" + buffers + "]\ncommands: [{read: a}]"
		_, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
		var bad scenario.Errors
		require.ErrorAs(t, err, &bad, buffers)
		require.Len(t, bad, 1, "%s: %v", buffers, bad)
		require.Contains(t, bad[0].Rule, want)
	}
}

// What is read, mapped and computed beyond a count is not compared, and what is
// below it is, however the count got there.
func TestContentSizeInScenarios(t *testing.T) {
	res := wants(t, `
devices: [{name: d0, driver: cpu}, {name: d1, driver: tce, memory: 1 MiB}]
buffers:
- {name: a, size: 4 KiB, content_size: n}
- {name: b, size: 4 KiB, content_size: n}
- {name: n, size: 16}
commands:
- {fill: a, pattern: {int: 3}, queue: d0}
- {read: a, queue: d1} # no count yet: all of it
- {map: n, as: m, flags: write-invalidate, queue: d0, blocking: true}
- {host-write: m, fill: {ulong: 100}, size: 16}
- {unmap: m}
- {fill: a, pattern: {int: 4}, queue: d0}
- {copy: a, to: b, queue: d1}
- {launch: scale_i32, queue: d1, global: 64, args: [{buffer: a, access: read-write}, {buffer: b, access: read-write}, {int: 5}, 25]}
- {read: b, queue: d0}
- {map: b, as: all, flags: [read, write], queue: d0, blocking: true}
- {host-read: all}
- {host-write: all, fill: 7, offset: 8, size: 4}
- {unmap: all}
- {read: b, queue: d1}
expect:
- {buffer: b, offset: 12, size: 88, fill: {int: 20}}
`)
	require.True(t, res.Verified)
	require.Greater(t, res.BytesUndefined, uint64(4*3900))
	late := 0
	for _, c := range res.Copies {
		if c.Planned > 0 {
			late++
			require.LessOrEqual(t, c.Bytes, uint64(100))
		}
	}
	require.GreaterOrEqual(t, late, 3)
}

// A device that copies words is given whole ones where that does no harm, and
// what came along need not come again.
func TestDevicesThatCopyWords(t *testing.T) {
	res := wants(t, `
devices:
- {name: d0, driver: tce, memory: 1 MiB, params: {dma-word: 8}}
- {name: d1, driver: tce, memory: 1 MiB, params: {dma-word: 8}}
buffers: [{name: a, size: 64}]
commands:
- {fill: a, pattern: 5, queue: d0}
- {read: a, offset: 3, size: 10, queue: d1}
- {read: a, offset: 0, size: 16, queue: d1}
- {read: a, queue: d1}
expect:
- {moved: 10 + 48}
`)
	require.Equal(t, uint64(6), res.BytesRideAlong)
}

// What the host has mapped for writing has not to come to it, and a count that it
// has mapped so is none: all bytes count.
func TestTheLowerBoundKnowsWhatIsMappedForWriting(t *testing.T) {
	wants(t, `
devices:
- {name: d0, driver: tce, memory: 1 MiB}
- {name: d1, driver: tce, memory: 1 MiB}
buffers:
- {name: a, size: 4 KiB, content_size: n}
- {name: b, size: 256}
- {name: n, size: 16, fill: {ulong: 100}}
commands:
- {fill: a, pattern: 3, queue: d0}
- {fill: b, pattern: 4, queue: d0}
- {read: a, queue: d1}
- {map: b, offset: 32, size: 64, as: new, flags: write-invalidate, queue: d0, blocking: true}
- {host-write: new, fill: 5, size: 64}
- {map: b, as: old, flags: read, queue: d0, blocking: true}
- {unmap: old}
- {map: n, as: m, flags: write-invalidate, queue: d0, blocking: true}
- {read: a, queue: d1}
- {host-write: m, fill: {ulong: 200}, size: 16}
- {unmap: m}
- {unmap: new}
- {read: a, queue: d0}
- {read: b, queue: d1}
expect:
- {moved: 100 + 192 + 3996 + 256}
`)
}
