package replay_test

import (
	"bytes"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/eviction"
	"godwit/examples"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/machine"
	"godwit/study/replay"
	"godwit/study/scenario"
)

// TestAReplayMovesWhatTheRunMoved: under the policy and on the machine of the run, the figures of
// a replay are those of the run, which has another account of them.
func TestAReplayMovesWhatTheRunMoved(t *testing.T) {
	short := 0
	for _, c := range []struct {
		example, machine string
		set              map[string]string
	}{
		{"matmul-tiles", "h200-pcie", map[string]string{"n": "4", "percent": "50"}},
		{"training-step", "h200-pcie", map[string]string{"percent": "50"}},
		{"training-step", "laptop", map[string]string{"percent": "70", "batch": "24"}},
		{"halo", "h200x4-nvlink", nil},
		{"pipeline", "gpux4-switch", nil},
		{"all-to-all", "h200x4-pcie", nil},
		{"rect", "h200x2-pcie", nil},
		{"map", "h200x2-pcie", nil},
	} {
		for _, policy := range []string{"lru", "cost", eviction.Belady} {
			t.Run(fmt.Sprint(c.example, c.machine, policy), func(t *testing.T) {
				file, text, ok := examples.Read(c.example, examples.Scenario)
				require.True(t, ok)
				s, err := scenario.Parse(t.Context(), file, text, scenario.Options{Set: c.set, Policy: policy})
				require.NoError(t, err)
				m, err := machine.Named(c.machine, machine.Options{Devices: len(s.Devices)})
				require.NoError(t, err)
				var recorded bytes.Buffer
				ran, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m, Record: trace.NewCommandWriter(&recorded, "")})
				require.NoError(t, err)

				traces, err := trace.ReadCommands(t.Context(), &recorded, "recorded")
				require.NoError(t, err)
				require.Len(t, traces, 1)
				var capacity []uint64
				for _, k := range traces[0].Memories {
					capacity = append(capacity, k.Capacity)
				}
				got, err := replay.Run(t.Context(), traces[0], replay.Options{Policy: policy, Capacity: capacity, Machine: m})
				require.NoError(t, err)
				require.Equal(t, ran.BytesMoved, got.BytesMoved, "moved")
				require.Equal(t, ran.BytesCompulsory, got.Compulsory, "compulsory")
				require.Equal(t, ran.BytesCapacity, got.Capacity, "capacity")
				require.Equal(t, ran.BytesCapacityBound, got.CapacityBound, "bound")
				require.Len(t, ran.Evictions, int(got.Evictions))
				require.NotZero(t, got.Makespan)
				if got.Evictions > 0 {
					short++
				}
			})
		}
	}
	require.GreaterOrEqual(t, short, 9, "replays in which a memory was short")
}

// tiny is a trace of one device, and of buffers of 256 bytes with content on the host, of which
// each command uses some, whole.
type tiny struct {
	buffers  int
	commands [][]mem.Mode // by buffer; none is not used
	trace    *trace.CommandTrace
}

const (
	tinySize = 256
	none     = mem.Mode(99)
)

func drawTiny(t *rapid.T, atOnce int, modes ...mem.Mode) tiny {
	x := tiny{buffers: rapid.IntRange(2, 5).Draw(t, "buffers")}
	x.trace = &trace.CommandTrace{Memories: []trace.CommandMemory{{Name: "host"}, {Name: "gpu"}}}
	for b := range x.buffers {
		x.trace.Steps = append(x.trace.Steps, trace.CommandStep{Create: &trace.CommandBuffer{ID: mem.BufferID(b + 1), Size: tinySize, Content: true}})
	}
	for range rapid.IntRange(1, 14).Draw(t, "commands") {
		uses := make([]mem.Mode, x.buffers)
		for b := range uses {
			uses[b] = none
		}
		for range rapid.IntRange(1, atOnce).Draw(t, "uses") {
			uses[rapid.IntRange(0, x.buffers-1).Draw(t, "buffer")] = rapid.SampledFrom(modes).Draw(t, "mode")
		}
		c := &trace.CommandUses{Op: "launch", Kernel: "k", Queue: 1}
		for b, m := range uses {
			if m != none {
				word := map[mem.Mode]string{mem.Read: "read", mem.Write: "write", mem.ReadWrite: "both"}[m]
				c.Uses = append(c.Uses, trace.CommandUse{Buffer: mem.BufferID(b + 1), Memory: 1, Range: [2]uint64{0, tinySize}, Mode: word})
			}
		}
		x.commands = append(x.commands, uses)
		x.trace.Steps = append(x.trace.Steps, trace.CommandStep{Command: c})
	}
	return x
}

// least is the fewest bytes that the commands can move with room for so many buffers, by trying
// everything: which blocks there are before a command, and whose content is not on the host.
func (x *tiny) least(room int) int {
	type state struct{ blocks, dirty uint }
	best := map[state]int{{}: 0}
	for _, uses := range x.commands {
		var want, reads, writes uint
		for b, m := range uses {
			if m != none {
				want |= 1 << b
				if m.Reads() {
					reads |= 1 << b
				}
				if m.Writes() {
					writes |= 1 << b
				}
			}
		}
		after := make(map[state]int)
		for s, cost := range best {
			for stay := uint(0); stay < 1<<x.buffers; stay++ { // of what nobody uses now
				if stay&^s.blocks != 0 || stay&want != 0 || bits.OnesCount(stay|want) > room {
					continue
				}
				leaves := s.blocks &^ stay &^ want
				moved := cost + bits.OnesCount(leaves&s.dirty) + bits.OnesCount(reads&^s.blocks)
				to := state{stay | want, s.dirty&^leaves | writes}
				if had, seen := after[to]; !seen || moved < had {
					after[to] = moved
				}
			}
		}
		best = after
	}
	least := -1
	for _, cost := range best {
		if least < 0 || cost < least {
			least = cost
		}
	}
	return least * tinySize
}

// TestAgainstEveryWayThatThereIs: no policy moves less than is possible, and the bound is not above
// that. Where buffers are read one by one, belady moves no more (L. A. Belady, 1966).
func TestAgainstEveryWayThatThereIs(t *testing.T) {
	above := 0
	rapid.Check(t, func(t *rapid.T) {
		clean := rapid.Bool().Draw(t, "clean")
		x := drawTiny(t, 2, mem.Read, mem.Write, mem.ReadWrite)
		if clean {
			x = drawTiny(t, 1, mem.Read)
		}
		room := rapid.IntRange(2, 3).Draw(t, "room")
		least := uint64(x.least(room))
		for _, policy := range []string{"lru", "cost", eviction.Belady} {
			got, err := replay.Run(t.Context(), x.trace, replay.Options{Policy: policy, Capacity: []uint64{0, uint64(room) * tinySize}})
			require.NoError(t, err)
			require.Equal(t, got.BytesMoved, got.Compulsory+got.Capacity)
			require.GreaterOrEqual(t, got.BytesMoved, least, policy)
			require.LessOrEqual(t, got.Compulsory+got.CapacityBound, least, policy)
			if clean && policy == eviction.Belady {
				require.Equal(t, least, got.BytesMoved)
			}
			if got.BytesMoved > least {
				above++
			}
		}
	})
	require.NotZero(t, above, "replays that move more than the least")
}

// TestWhatFindsNoRoomSaysSo: the certificate is the runtime's.
func TestWhatFindsNoRoomSaysSo(t *testing.T) {
	x := tiny{trace: &trace.CommandTrace{Memories: []trace.CommandMemory{{Name: "host"}, {Name: "gpu"}}}}
	large := &trace.CommandUses{Op: "launch", Kernel: "large", Queue: 1}
	for b := mem.BufferID(1); b < 3; b++ {
		x.trace.Steps = append(x.trace.Steps, trace.CommandStep{Create: &trace.CommandBuffer{ID: b, Size: 512}})
		large.Uses = append(large.Uses, trace.CommandUse{Buffer: b, Memory: 1, Range: [2]uint64{0, 512}, Mode: "both"})
	}
	x.trace.Steps = append(x.trace.Steps, trace.CommandStep{Command: large})
	res, err := replay.Run(t.Context(), x.trace, replay.Options{Capacity: []uint64{0, 512}})
	var full *resource.OutOfMemory
	require.ErrorAs(t, err, &full)
	require.ErrorContains(t, err, "command 1 of the trace, launch of large")
	require.False(t, res.Complete)
	require.Zero(t, res.Commands)

	_, err = replay.Run(t.Context(), x.trace, replay.Options{Policy: "mru"})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	one, err := machine.Named("h200-pcie", machine.Options{Devices: 1})
	require.NoError(t, err)
	x.trace.Memories = append(x.trace.Memories, trace.CommandMemory{Name: "other"}, trace.CommandMemory{Name: "third"})
	_, err = replay.Run(t.Context(), x.trace, replay.Options{Machine: one})
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
}

// TestAKernelTakesWhatTheMachineSaysForItsName: a replay knows it by the name that the program did.
func TestAKernelTakesWhatTheMachineSaysForItsName(t *testing.T) {
	m, err := machine.Parse("m.yaml", []byte(`
name: m
devices: [{name: gpu, kernels: [{name: slow, time: 5 ms}]}]
links: [{between: [host, gpu], bandwidth: 1 GB/s}]
`), machine.Options{})
	require.NoError(t, err)
	x := &trace.CommandTrace{Memories: []trace.CommandMemory{{Name: "host"}, {Name: "gpu"}}}
	x.Steps = append(x.Steps, trace.CommandStep{Create: &trace.CommandBuffer{ID: 1, Size: 256}})
	for _, kernel := range []string{"slow", "other", "slow"} {
		use := trace.CommandUse{Buffer: 1, Memory: 1, Range: [2]uint64{0, 256}, Mode: "both"}
		x.Steps = append(x.Steps, trace.CommandStep{Command: &trace.CommandUses{Op: "launch", Kernel: kernel, Queue: 1, Uses: []trace.CommandUse{use}}})
	}
	res, err := replay.Run(t.Context(), x, replay.Options{Machine: m})
	require.NoError(t, err)
	require.EqualValues(t, 2*5*time.Millisecond, res.Makespan)
}

// Of two buffers that no command uses again, the one that is released soon gives its room back by
// itself: belady has the other go, once; else a second would have to.
func TestBeladyKnowsWhatIsReleasedSoon(t *testing.T) {
	for _, soon := range []mem.BufferID{1, 2} {
		x := &trace.CommandTrace{Memories: []trace.CommandMemory{{Name: "host"}, {Name: "gpu"}}}
		for b := mem.BufferID(1); b <= 4; b++ {
			x.Steps = append(x.Steps, trace.CommandStep{Create: &trace.CommandBuffer{ID: b, Size: tinySize}})
		}
		for b := mem.BufferID(1); b <= 4; b++ {
			if b == 4 {
				x.Steps = append(x.Steps, trace.CommandStep{Release: soon})
			}
			use := trace.CommandUse{Buffer: b, Memory: 1, Range: [2]uint64{0, tinySize}, Mode: "write"}
			x.Steps = append(x.Steps, trace.CommandStep{Command: &trace.CommandUses{Op: "launch", Kernel: "k", Queue: 1, Uses: []trace.CommandUse{use}}})
		}
		res, err := replay.Run(t.Context(), x, replay.Options{Policy: eviction.Belady, Capacity: []uint64{0, 2 * tinySize}})
		require.NoError(t, err)
		require.EqualValues(t, 1, res.Evictions, "buffer %d is released", soon)
		require.EqualValues(t, tinySize, res.BytesMoved)
	}
}

// What a file says is large takes no memory: nobody touches it.
func TestContentOfATraceTakesNoMemory(t *testing.T) {
	text := `{"godwit":"commands","version":1}
{"context":"1","memories":[{"name":"host"},{"name":"x"}]}
{"context":"1","create":{"id":1,"size":1099511627776,"content":true}}
{"context":"1","command":{"op":"read","queue":1,"uses":[{"buffer":1,"memory":1,"range":[0,1099511627776],"mode":"read"}]}}
`
	traces, err := trace.ReadCommands(t.Context(), strings.NewReader(text), "file")
	require.NoError(t, err)
	res, err := replay.Run(t.Context(), traces[0], replay.Options{Policy: "lru"})
	require.NoError(t, err)
	require.EqualValues(t, 1<<40, res.BytesMoved)
}

// What of a buffer was stored for a command is stored again, and no more: else the bound would be another's.
func TestAReplayStoresWhatTheTraceSays(t *testing.T) {
	const head = `{"godwit":"commands","version":1}
{"context":"1","memories":[{"name":"host"},{"name":"x"}]}
{"context":"1","create":{"id":1,"size":1048576,"content":true}}
{"context":"1","create":{"id":2,"size":1048576}}
{"context":"1","create":{"id":3,"size":1048576,"content":true,"whole":true}}
`
	for name, x := range map[string]struct {
		command string
		stored  uint64 // on the device
	}{
		"the buffers of a copy": {`{"op":"copy","queue":1,"uses":[{"buffer":1,"memory":1,"range":[128,256],"mode":"read","stored":[0,1048576]},
			{"buffer":2,"memory":1,"range":[0,128],"mode":"write","stored":[0,524288]}]}`, 1<<20 + 1<<19},
		"what a kernel reaches":      {`{"op":"launch","queue":1,"uses":[{"buffer":1,"memory":1,"range":[512,1024],"mode":"both","stored":[256,1024]}]}`, 768},
		"a buffer in no parts":       {`{"op":"launch","queue":1,"uses":[{"buffer":3,"memory":1,"range":[512,1024],"mode":"both"}]}`, 1 << 20},
		"a read of such":             {`{"op":"read","queue":1,"uses":[{"buffer":3,"memory":1,"range":[512,1024],"mode":"read"}]}`, 1 << 20},
		"beside bytes that stay put": {`{"op":"launch","queue":1,"uses":[{"buffer":2,"memory":1,"range":[0,1048576],"mode":"write"},{"buffer":1,"memory":0,"range":[0,64],"mode":"both"}]}`, 1 << 20},
		"beside bytes read there":    {`{"op":"launch","queue":1,"uses":[{"buffer":1,"memory":0,"range":[0,64],"mode":"read"},{"buffer":3,"memory":1,"range":[0,64],"mode":"read"}]}`, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"context":"1","command":` + strings.ReplaceAll(x.command, "\n", "") + "}\n"
			traces, err := trace.ReadCommands(t.Context(), strings.NewReader(head+line), "file")
			require.NoError(t, err)
			res, err := replay.Run(t.Context(), traces[0], replay.Options{Policy: "lru"})
			require.NoError(t, err)
			require.Equal(t, x.stored, res.Devices[1].Peak)
			require.Equal(t, res.Compulsory, res.BytesMoved)
		})
	}
}
