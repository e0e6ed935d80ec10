package formats_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/input"
	"godwit/study/alloc/formats"
)

// A snapshot whose history began late: ten blocks are freed that it does not show being
// allocated, and forty live throughout.
func lateSnapshot() map[string]any {
	const base, mib = 0x7f0000000000, 1 << 20
	var entries, blocks []any
	add := func(action string, at, size int) {
		entries = append(entries, map[string]any{"action": action, "addr": base + at*mib, "size": size * mib, "time_us": len(entries)})
	}
	for i := range 50 {
		add("alloc", 64, 4)
		if i%5 == 0 {
			add("free_completed", 100+i, 1)
		}
		add("free_completed", 64, 4)
	}
	for k := range 40 {
		blocks = append(blocks, map[string]any{"address": base + k*mib, "size": 2 * mib, "requested_size": mib, "state": "active_allocated"})
	}
	blocks = append(blocks, map[string]any{"address": base + 64*mib, "size": 4 * mib, "state": "inactive"})
	return map[string]any{
		"segments":      []any{map[string]any{"device": 0, "address": base, "total_size": 128 * mib, "blocks": blocks}},
		"device_traces": []any{entries},
	}
}

func TestWhatLivedBeforeTheHistoryIsPartOfIt(t *testing.T) {
	text, err := json.Marshal(lateSnapshot())
	require.NoError(t, err)
	got := read(t, string(text))
	peak, _ := got.PeakLive()
	assert.EqualValues(t, 54<<20, peak, "40 weights, 10 blocks freed later, and the 4 MiB")
	assert.Equal(t, 50, got.LivedBefore)
	assert.EqualValues(t, 128<<20, got.Held)
	assert.Zero(t, got.Oddities.Total())

	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here: the pickle was not read")
	}
	file := filepath.Join(t.TempDir(), "late.pickle")
	require.NoError(t, exec.Command("python3", "-c", "import json,pickle,sys; pickle.dump(json.loads(sys.argv[1]), open(sys.argv[2], 'wb'))", string(text), file).Run())
	all, err := formats.OpenAllocs(t.Context(), file)
	require.NoError(t, err)
	assert.Equal(t, shorts(got), shorts(all[0]))
	assert.Equal(t, got.Held, all[0].Held)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for n := range len(whole) / 97 {
		require.NoError(t, os.WriteFile(file, whole[:97*n], 0o600))
		_, err := formats.OpenAllocs(t.Context(), file)
		require.ErrorIs(t, err, input.ErrMalformed, "cut at %d", 97*n)
	}
}

// A snapshot of a run from some moment on shows what the whole run does from there.
func TestALateSnapshotShowsWhatWasLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b formats.AllocBuilder
		live := map[uint64]uint64{} // sizes by address
		var entries, blocks []string
		n := rapid.IntRange(2, 60).Draw(t, "n")
		for i := range n {
			addr := uint64(rapid.IntRange(0, 9).Draw(t, "addr"))
			size, isLive := live[addr]
			if isLive {
				require.True(t, b.Free(addr, 0))
				delete(live, addr)
				entries = append(entries, fmt.Sprintf(`{"action":"free_completed","addr":%d,"size":%d}`, addr, size))
			} else {
				size = uint64(1 + i)
				require.NoError(t, b.Alloc(addr, size, 0))
				live[addr] = size
				entries = append(entries, fmt.Sprintf(`{"action":"alloc","addr":%d,"size":%d}`, addr, size))
			}
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		for addr, size := range live {
			blocks = append(blocks, fmt.Sprintf(`{"address":%d,"size":512,"requested_size":%d,"state":"active_allocated"}`, addr, size))
		}
		text := fmt.Sprintf(`{"segments":[{"device":0,"address":0,"total_size":9,"blocks":[%s]}],"device_traces":[[%s]]}`,
			strings.Join(blocks, ","), strings.Join(entries[from:], ","))
		all, err := formats.ReadAllocs(t.Context(), strings.NewReader(text), "x")
		require.NoError(t, err)
		want, err := b.Build("x", formats.FormatGodwit).Cut("x", from, n)
		require.NoError(t, err)
		require.Len(t, all[0].Events, len(want.Events))
		require.Equal(t, liveBytes(want, n-from), liveBytes(all[0], n-from))
	})
}

// liveBytes are those after each of the last n events.
func liveBytes(t *formats.Allocs, n int) (out []uint64) {
	live := uint64(0)
	for i, e := range t.Events {
		if e.Op == a {
			live += e.Size
		} else {
			live -= e.Size
		}
		if i >= len(t.Events)-n {
			out = append(out, live)
		}
	}
	return out
}

func TestSegmentEventsTellWhatWasHeld(t *testing.T) {
	entry := func(action string, size int) string {
		return fmt.Sprintf(`{"action":"%s","addr":1,"size":%d}`, action, size)
	}
	for name, c := range map[string]struct {
		entries  []string
		segments string
		want     uint64
	}{
		"from nothing":        {[]string{entry("segment_alloc", 100), entry("alloc", 5), entry("segment_map", 20), entry("segment_unmap", 60)}, "[]", 120},
		"given up first":      {[]string{entry("alloc", 5), entry("segment_free", 70), entry("segment_alloc", 10)}, "[]", 70},
		"the end tells":       {[]string{entry("alloc", 5), entry("segment_free", 70), entry("segment_alloc", 10)}, `[{"device":0,"total_size":30}]`, 90},
		"of another device":   {[]string{entry("alloc", 5)}, `[{"device":1,"total_size":30}]`, 0},
		"of no device at all": {[]string{entry("alloc", 5)}, `[{"device":-1,"total_size":30}]`, 0},
	} {
		for _, text := range []string{
			fmt.Sprintf(`{"segments":%s,"device_traces":[[%s]]}`, c.segments, strings.Join(c.entries, ",")),
			fmt.Sprintf(`{"device_traces":[[%s]],"segments":%s}`, strings.Join(c.entries, ","), c.segments),
		} {
			assert.Equal(t, c.want, read(t, text).Held, name)
		}
	}
	for _, bad := range []string{
		`{"device_traces":[[{"action":"segment_alloc","size":0}]]}`,
		`{"device_traces":[[{"action":"segment_alloc","size":9223372036854775807},{"action":"segment_map","size":9223372036854775807}]]}`,
		`{"device_traces":[[{"action":"oom"}]],"segments":[{"device":0,"total_size":9223372036854775807},{"device":0,"total_size":9223372036854775807}]}`,
		`{"device_traces":[[{"action":"oom"}]],"segments":[{"device":0,"blocks":[{"address":1,"size":9223372036854775807,"state":"active_allocated"},{"address":2,"size":1,"state":"active_allocated"}]}]}`,
	} {
		_, err := formats.ReadAllocs(t.Context(), strings.NewReader(bad), "x")
		require.ErrorIs(t, err, input.ErrMalformed, bad)
	}
}

func TestVMAsPlacesAreKept(t *testing.T) {
	all, err := formats.OpenAllocs(t.Context(), filepath.Join("testdata", "vma.json"))
	require.NoError(t, err)
	for _, x := range all {
		require.Len(t, x.Places, x.Chunks)
		for c, l := range x.Lifetimes() {
			require.LessOrEqual(t, x.Places[c]+l.Size, x.Held)
			if c > 0 {
				require.GreaterOrEqual(t, x.Places[c], x.Places[c-1])
			}
		}
	}
	got := read(t, `{"Details":{"TotalBytes":100,"Suballocations":[{"Offset":10,"Type":"A","Size":40},{"Offset":50,"Type":"FREE","Size":20},{"Offset":70,"Type":"A","Size":4}]}}`)
	assert.Equal(t, []uint64{10, 70}, got.Places)
	assert.EqualValues(t, 100, got.Held)
}
