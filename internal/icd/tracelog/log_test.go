package tracelog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/icd/tracelog"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a context over memories of real bytes that is traced.
func house(t require.TestingT, log *tracelog.Log, n int) (*runtime.Context, []*runtime.Queue) {
	var devs []devices.Device
	names := []string{"host"}
	for i := range n {
		devs = append(devs, engine.NewHost(engine.HostOptions{}))
		names = append(names, string(rune('A'+i)))
	}
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, Trace: log.Context(names, nil)})
	require.NoError(t, err)
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		queues = append(queues, q)
	}
	return c, queues
}

func TestEveryCommandAndCopyHasALineWithItsReason(t *testing.T) {
	var out bytes.Buffer
	log := tracelog.New(&out)
	c, q := house(t, log, 2)
	ctx := context.Background()
	b, err := c.CreateBuffer(4096, 0, make([]byte, 4096))
	require.NoError(t, err)
	do := func(_ runtime.Event, err error) { require.NoError(t, err) }
	do(q[0].EnqueueFill(ctx, b, []byte{1}, 1024, 1024))
	do(q[1].EnqueueRead(ctx, b, 0, make([]byte, 4096)))
	do(q[1].EnqueueRead(ctx, b, 0, make([]byte, 4096)))
	require.NoError(t, c.Check())
	require.NoError(t, b.Release())
	moved := c.Stats().BytesMoved
	require.NoError(t, c.Close(ctx))
	require.NoError(t, log.Err())
	require.Equal(t, `context 1: 0 host 1 A 2 B
#1 A: fill 1 KiB of buffer 1 at 1024
#2 B: read buffer 1 (4 KiB)
    copy 1 KiB of buffer 1 at 0, host → B: B lacks the initial content
    copy 1 KiB of buffer 1 at 1024, A → B, directly: B lacks what #1 fill wrote
    copy 2 KiB of buffer 1 at 2048, host → B: B lacks the initial content
#3 B: read buffer 1 (4 KiB)
`, out.String())

	s := log.Summary()
	require.EqualValues(t, 4096, s.BytesMoved)
	require.Equal(t, moved, s.BytesMoved)
	require.EqualValues(t, 4096, s.LowerBound)
	require.EqualValues(t, 3, s.Copies)
	require.EqualValues(t, 3, s.Commands)
	require.Equal(t, []tracelog.BufferUse{{Name: "buffer 1", Size: 4096, Copies: 3, BytesMoved: 4096}}, s.Buffers)
	require.Equal(t, []tracelog.LinkUse{
		{From: "host", To: "B", Way: "direct", Copies: 2, Bytes: 3072},
		{From: "A", To: "B", Way: "direct", Copies: 1, Bytes: 1024},
	}, s.Links)
	out.Reset()
	require.NoError(t, s.Print(&out))
	require.Contains(t, out.String(), "moved 4096 bytes (4 KiB) in 3 copies: the least possible")
}

// TestTheLowerBoundIsWhatTheRuntimeMoves checks two accounts against each
// other that share nothing: this package's and the planner's.
func TestTheLowerBoundIsWhatTheRuntimeMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := tracelog.New(nil)
		c, q := house(t, log, rapid.IntRange(1, 4).Draw(t, "devices"))
		ctx := context.Background()
		const size = 64
		var bufs []*runtime.Buffer
		for range rapid.IntRange(1, 3).Draw(t, "buffers") {
			var init []byte
			if rapid.Bool().Draw(t, "initialised") {
				init = make([]byte, size)
			}
			b, err := c.CreateBuffer(size, 0, init)
			require.NoError(t, err)
			bufs = append(bufs, b)
		}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			on := rapid.SampledFrom(q).Draw(t, "queue")
			b := rapid.SampledFrom(bufs).Draw(t, "buffer")
			off := rapid.Uint64Range(0, size-1).Draw(t, "offset")
			n := rapid.Uint64Range(1, size-off).Draw(t, "bytes")
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				_, err = on.EnqueueWrite(ctx, b, off, make([]byte, n))
			case 1:
				_, err = on.EnqueueRead(ctx, b, off, make([]byte, n))
			case 2:
				_, err = on.EnqueueFill(ctx, b, []byte{7}, off, n)
			case 3:
				to := rapid.SampledFrom(bufs).Draw(t, "to")
				if to == b {
					continue
				}
				_, err = on.EnqueueCopy(ctx, b, to, off, off, n)
			}
			require.NoError(t, err)
			s := log.Summary()
			require.Equal(t, c.Stats().BytesMoved, s.BytesMoved)
			require.Equal(t, s.LowerBound, s.BytesMoved)
		}
		for _, b := range bufs {
			require.NoError(t, b.Release())
		}
		require.NoError(t, c.Close(ctx))
	})
}

// What a count leaves out is in neither the bytes moved nor the lower bound, and
// comes when a larger count asks for it.
func TestALateCopyCountsForWhatItHasMoved(t *testing.T) {
	log := tracelog.New(nil)
	c, q := house(t, log, 2)
	ctx := context.Background()
	b, err := c.CreateBuffer(100, 0, nil)
	require.NoError(t, err)
	size, err := c.CreateBuffer(8, 0, nil)
	require.NoError(t, err)
	require.NoError(t, b.SetContentSizeBuffer(size))
	_, err = q[0].EnqueueFill(ctx, b, []byte{1}, 0, 100)
	require.NoError(t, err)
	moved := uint64(0)
	for _, x := range []struct {
		count byte
		moves uint64 // with the count's 8 bytes, which go to the host
	}{{10, 18}, {30, 28}, {30, 8}, {100, 78}} {
		_, err = q[0].EnqueueWrite(ctx, size, 0, []byte{x.count, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
		_, err = q[1].EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)
		require.NoError(t, err)
		require.NoError(t, q[1].Finish(ctx))
		moved += x.moves
		require.Eventually(t, func() bool { return log.Summary().BytesMoved == moved }, 10*time.Second, time.Millisecond)
		s := log.Summary()
		require.Equal(t, s.BytesMoved, s.LowerBound, "count %d", x.count)
		require.Equal(t, c.Stats().BytesMoved, s.BytesMoved)
	}
	require.NoError(t, b.Release())
	require.NoError(t, size.Release())
	require.NoError(t, c.Close(ctx))
}

func TestARefusedCommandAndAFailureAreCountedAndChangeNothing(t *testing.T) {
	var out bytes.Buffer
	log := tracelog.New(&out)
	c := log.Context([]string{"host", "A"}, nil)
	c.Buffer(&trace.BufferRecord{Buffer: 9, Size: 100, Version: 1})
	reads := []mem.Access{{Buffer: 9, Range: mem.Range{End: 100}, Mode: mem.ReadWrite, Memory: 1}}
	broken := errors.New("broken")
	c.Command(&trace.CommandRecord{
		ID: 1, Memory: 1, Op: "launch", Kernel: "k", Accesses: reads, Err: broken,
		Steps: []trace.StepRecord{{Buffer: 9, Range: mem.Range{End: 100}, To: 1, Way: mem.Direct, Fresh: mem.SetOf(0)}},
	})
	s := log.Summary()
	require.EqualValues(t, 1, s.Refused)
	require.Zero(t, s.Copies, "a copy that was never submitted")
	require.Zero(t, s.Commands)
	require.Zero(t, s.LowerBound)

	c.Command(&trace.CommandRecord{ID: 2, Memory: 1, Op: "launch", Kernel: "k", Accesses: reads})
	s = log.Summary()
	require.EqualValues(t, 100, s.LowerBound)
	least, known := s.Least()
	require.True(t, known)
	require.False(t, least, "it was not copied, which the account is there to see")
	c.Completed(&trace.CompletionRecord{Command: 2, Step: -1, Err: broken})
	s = log.Summary()
	_, known = s.Least()
	require.False(t, known)
	require.Contains(t, out.String(), "#1 A: k launch reads and writes buffer 1 (100 B): refused: broken")
	require.Contains(t, out.String(), "#2 ended in an error: broken")
}

// A summary without lines is told of no ends, and knows all the same what failed, while what hangs
// is kept.
func TestASummaryCountsWhatFailedByItself(t *testing.T) {
	log := tracelog.New(nil)
	c := log.Context([]string{"host", "A"}, nil)
	require.Equal(t, trace.LateEnds, c.Ends())
	line := mem.NewTimeline("line", false, nil)
	hangs := line.Next()
	c.Command(&trace.CommandRecord{ID: 1, Op: "launch", Point: hangs})
	for i := range 10_000 {
		p := line.Next()
		var err error
		if i%10 == 0 {
			err = errors.New("broken")
		}
		end := func() { line.End(p, err) }
		if i%2 == 0 { // some have ended when they are told, others later
			end()
			end = func() {}
		}
		c.Command(&trace.CommandRecord{ID: uint64(i) + 2, Op: "launch", Point: p})
		end()
	}
	require.EqualValues(t, 1000, log.Summary().Failed)
	line.End(hangs, errors.New("broken"))
	require.EqualValues(t, 1001, log.Summary().Failed)
	require.EqualValues(t, 1001, log.Summary().Failed, "each counts once")
}

// A command that waits for the room of what left for it is told twice, and was never refused.
func TestACommandThatIsTriedAgainIsNotRefused(t *testing.T) {
	var out bytes.Buffer
	log := tracelog.New(&out)
	c := log.Context([]string{"host", "A"}, nil)
	c.Buffer(&trace.BufferRecord{Buffer: 9, Size: 100, Version: 1})
	k := trace.CommandRecord{
		ID: 1, Memory: 1, Op: "launch", Kernel: "k",
		Accesses: []mem.Access{{Buffer: 9, Range: mem.Range{End: 100}, Mode: mem.ReadWrite, Memory: 1}},
		Steps:    []trace.StepRecord{{Buffer: 9, Range: mem.Range{End: 100}, To: 1, Way: mem.Direct, Fresh: mem.SetOf(0)}},
		Err:      errors.New("no room"), Again: true,
	}
	c.Command(&k)
	require.NotContains(t, out.String(), "copy", "it was only planned")
	k.ID, k.Err, k.Again = 2, nil, false
	c.Command(&k)
	s := log.Summary()
	require.Zero(t, s.Refused)
	require.EqualValues(t, 1, s.Commands)
	require.Contains(t, out.String(), "#1 A: k launch reads and writes buffer 1 (100 B): waits for the room of what leaves for it")
	require.NotContains(t, out.String(), "refused")
	require.Contains(t, out.String(), "copy buffer 1 (100 B), host → A")
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAWriterThatFailsIsReportedAndTheCountGoesOn(t *testing.T) {
	log := tracelog.New(full{})
	c := log.Context([]string{"host"}, nil)
	c.Command(&trace.CommandRecord{ID: 1, Op: "marker"})
	require.ErrorContains(t, log.Err(), "no room")
	require.EqualValues(t, 1, log.Summary().Commands)
}

func TestFilesHoldTheLinesAndTheSummary(t *testing.T) {
	dir := t.TempDir()
	none, err := tracelog.Open("", "", "", "", "")
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, none.Finish())
	_, err = tracelog.Open(dir, "", "", "", "")
	require.Error(t, err, "a directory is no file")

	f, err := tracelog.Open(filepath.Join(dir, "lines.%p"), filepath.Join(dir, "sum.json"), filepath.Join(dir, "commands.%p"), filepath.Join(dir, "page.html"), filepath.Join(dir, "timeline.json"))
	require.NoError(t, err)
	sink := f.Context([]string{"host", "A"}, []uint64{0, 4096})
	sink.Buffer(&trace.BufferRecord{Buffer: 1, Size: 64, Version: 1})
	sink.Command(&trace.CommandRecord{ID: 1, Memory: 1, Op: "marker"})
	sink.Command(&trace.CommandRecord{ID: 2, Memory: 1, Op: "read", Accesses: []mem.Access{{Buffer: 1, Range: mem.Range{End: 64}, Memory: 1}}})
	require.NoError(t, f.Finish())
	require.FileExists(t, filepath.Join(dir, "page.html"))
	require.FileExists(t, filepath.Join(dir, "timeline.json"))
	recorded, err := trace.OpenCommands(t.Context(), filepath.Join(dir, fmt.Sprintf("commands.%d", os.Getpid())))
	require.NoError(t, err)
	require.Len(t, recorded, 1)
	require.EqualValues(t, 4096, recorded[0].Memories[1].Capacity)
	require.Len(t, recorded[0].Steps, 2)
	lines, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("lines.%d", os.Getpid())))
	require.NoError(t, err)
	require.Contains(t, string(lines), "#1 A: marker\n")
	require.Contains(t, string(lines), "2 commands, 0 of them launches\n")
	sum, err := os.ReadFile(filepath.Join(dir, "sum.json"))
	require.NoError(t, err)
	var s tracelog.Summary
	require.NoError(t, json.Unmarshal(sum, &s))
	require.EqualValues(t, 2, s.Commands)
	require.Len(t, s.Devices, 2)
}

// Who asks for a trace or a summary that cannot be written is told, before the
// program has run where that is known by then.
func TestWhatCannotBeWrittenIsTold(t *testing.T) {
	dir := t.TempDir()
	for _, c := range [][3]string{{filepath.Join(dir, "none", "lines")}, {"", filepath.Join(dir, "none", "sum")}, {"", "/dev"}, {"", "", filepath.Join(dir, "none", "commands")}} {
		_, err := tracelog.Open(c[0], c[1], c[2], "", "")
		require.ErrorContains(t, err, "GODWIT_")
	}
	sub := filepath.Join(dir, "sub")
	require.NoError(t, os.Mkdir(sub, 0o700))
	sum := filepath.Join(sub, "sum.json")
	require.NoError(t, os.WriteFile(sum, []byte("old"), 0o600))
	f, err := tracelog.Open("/dev/full", sum, "/dev/full", "", "")
	require.NoError(t, err)
	text, err := os.ReadFile(sum)
	require.NoError(t, err)
	require.Equal(t, "old", string(text), "until there is a new one")
	f.Log.Context([]string{"host"}, nil).Command(&trace.CommandRecord{ID: 1, Op: "marker"})
	require.NoError(t, os.RemoveAll(sub))
	err = f.Finish()
	require.ErrorContains(t, err, "GODWIT_TRACE: ")
	require.ErrorContains(t, err, "GODWIT_RECORD: ")
	require.ErrorContains(t, err, "GODWIT_SUMMARY: ")
}

// TestEvictionsAreToldAndBounded: one memory of two blocks, three blocks written, and
// the first two read again: two had to be written back, and one to come back.
func TestEvictionsAreToldAndBounded(t *testing.T) {
	var out bytes.Buffer
	log := tracelog.New(&out)
	c := log.Context([]string{"host", "A"}, []uint64{0, 2048})
	all := mem.Range{End: 1024}
	line := mem.NewTimeline("q", true, nil)
	for id := mem.BufferID(1); id <= 3; id++ {
		c.Buffer(&trace.BufferRecord{Buffer: id, Size: 1024})
	}
	step := func(id mem.BufferID, from, to mem.MemoryID) trace.StepRecord {
		return trace.StepRecord{Buffer: id, Range: all, From: from, To: to, Way: mem.Direct, Point: line.Next()}
	}
	command := func(n uint64, op string, id mem.BufferID, mode mem.Mode, victim mem.BufferID, back bool, steps ...trace.StepRecord) {
		r := &trace.CommandRecord{
			ID: n, Memory: 1, Op: op, Steps: steps, Accesses: []mem.Access{{Buffer: id, Range: all, Mode: mode, Memory: 1}},
			Blocks: []trace.BlockRecord{{Buffer: id, Memory: 1, Bytes: 1024}},
		}
		if victim != 0 {
			v := trace.EvictionRecord{Buffer: victim, Memory: 1, Range: all, Fresh: 1024, Policy: "lru", Why: "unused"}
			if back {
				v.Backs = []trace.StepRecord{step(victim, 1, 0)}
				v.Blocks = []trace.BlockRecord{{Buffer: victim, Bytes: 1024, Range: all}}
			} else {
				v.Dropped = 1024
			}
			r.Evictions = []trace.EvictionRecord{v}
		}
		c.Command(r)
	}
	command(1, "fill", 1, mem.Write, 0, false)
	command(2, "fill", 2, mem.Write, 0, false)
	command(3, "fill", 3, mem.Write, 1, true)
	command(4, "read", 1, mem.Read, 2, true, step(1, 0, 1))
	command(5, "read", 2, mem.Read, 1, false, step(2, 0, 1))
	s := log.Summary()
	require.EqualValues(t, 4096, s.BytesMoved)
	require.Zero(t, s.Compulsory)
	require.EqualValues(t, 4096, s.Capacity)
	require.LessOrEqual(t, s.CapacityBound, uint64(3072), "2 could have gone, and then 3")
	require.Greater(t, s.CapacityBound, uint64(2048))
	require.Equal(t, s.CapacityBound, s.LowerBound)
	require.EqualValues(t, 3, s.Evictions)
	require.EqualValues(t, 3072, s.BytesEvicted)
	require.EqualValues(t, 1024, s.BytesDropped)
	require.EqualValues(t, 2048, s.BytesWrittenBack)
	require.EqualValues(t, 2048, s.Devices[1].Peak)
	require.EqualValues(t, 2048, s.Devices[0].Peak, "of write-backs alone")
	require.Contains(t, out.String(), `#3 A: fill buffer 3 (1 KiB)
    evict buffer 1 (1 KiB) from A: room is needed; lru: unused; of 1 KiB no other copy is known to be whole yet, and they are written back to host
    copy buffer 1 (1 KiB), A → host: written back
#4 A: read buffer 1 (1 KiB)
    evict buffer 2 (1 KiB) from A: room is needed; lru: unused; of 1 KiB no other copy is known to be whole yet, and they are written back to host
    copy buffer 2 (1 KiB), A → host: written back
    copy buffer 1 (1 KiB), host → A: A lacks what #1 fill wrote
#5 A: read buffer 2 (1 KiB)
    evict buffer 1 (1 KiB) from A: room is needed; lru: unused; its content is elsewhere, too
`)
	out.Reset()
	require.NoError(t, s.Print(&out))
	require.Contains(t, out.String(), "evicted 3 blocks of 3 KiB: 1 KiB dropped, 2 KiB written back")
	require.Contains(t, out.String(), "moved 4096 bytes (4 KiB) in 4 copies: 0 B compulsory, 4 KiB since memory was short, of which at least ")
}
