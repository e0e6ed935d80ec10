//go:build linux

package extern

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/mem"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
)

// library compiles testdata/bump.c, with a defect where define is not "".
func library(t testing.TB, define string) string {
	t.Helper()
	so := filepath.Join(t.TempDir(), "bump"+define+".so")
	args := []string{"-shared", "-fPIC", "-O2", "-I", "host", "-o", so, "testdata/bump.c"}
	if define != "" {
		args = append(args, "-D"+define)
	}
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return so
}

func open(t testing.TB, name string) replay.Subject {
	t.Helper()
	patience := 30 * time.Second // the machine may be busy
	if strings.HasSuffix(name, "HANG.so") || strings.HasSuffix(name, "sleep 60") || strings.HasSuffix(name, "hang") {
		patience = time.Second
	}
	p, err := Open(t.Context(), name, Options{Patience: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return replay.OfRemote(p)
}

func stream(t testing.TB, n int) *replay.Stream {
	t.Helper()
	st, err := replay.W1(n, 300, 0, 5)
	require.NoError(t, err)
	return st
}

// firstFit is what bump.c and first.py do, in this process.
var firstFit = replay.Of(bufalloc.Tight)

// Both are first fit over all of the region, where Tight takes the free end last:
// in a region without spare room all three agree on what fits.
func TestALibraryAndAProgramReplayAsInThisProcess(t *testing.T) {
	lib, prog := open(t, "lib:"+library(t, "")), open(t, "exec:python3 testdata/first.py")
	handles, old := open(t, "lib:"+library(t, "GODWIT_ALLOC_HANDLES")), open(t, "exec:python3 -IS testdata/faulty.py none")
	st := stream(t, 40)
	want, err := replay.MinRegion(t.Context(), st, firstFit)
	require.NoError(t, err)
	for _, s := range []replay.Subject{lib, prog, handles, old} {
		m, err := replay.MinRegion(t.Context(), st, s)
		require.NoError(t, err)
		assert.Equal(t, want.Region, m.Region, s.Name())
		run, err := replay.Replay(t.Context(), st, s, want.Region/2)
		require.NoError(t, err)
		assert.Positive(t, run.Failures)
	}
	a, err := replay.Record(t.Context(), st, lib, want.Region)
	require.NoError(t, err)
	b, err := replay.Record(t.Context(), st, prog, want.Region)
	require.NoError(t, err)
	assert.Equal(t, a.Chunks, b.Chunks, "the same algorithm in C and in Python")
	x, err := replay.Time(t.Context(), st, lib, want.Region, 3)
	require.NoError(t, err)
	assert.Positive(t, x.NSPerOp)
	y, err := replay.Time(t.Context(), st, prog, want.Region, 3)
	require.NoError(t, err)
	assert.Zero(t, y.NSPerOp, "lines take no times")
}

func TestDefectsOfALibraryAreFaultsWithAReproducer(t *testing.T) {
	st := stream(t, 40)
	for define, want := range map[string]struct {
		kind   replay.FaultKind
		detail string
	}{
		"CRASH":   {replay.Crash, "segmentation fault: about to crash"},
		"HANG":    {replay.Hang, "no progress"},
		"OVERLAP": {"overlap", "live chunk"},
		"WILD":    {"outside", "do not lie in"},
		"EXIT":    {replay.Crash, "exit status 7"},
	} {
		t.Run(define, func(t *testing.T) {
			t.Parallel()
			s := open(t, "lib:"+library(t, define))
			_, err := replay.Replay(t.Context(), st, s, 1<<34)
			var f *replay.Fault
			require.ErrorAs(t, err, &f)
			assert.Equal(t, want.kind, f.Kind)
			assert.Contains(t, f.Detail, want.detail)
			assert.Equal(t, 19, f.Op, "its twentieth allocation")
			again := f.Reproducer()
			require.Len(t, again.Ops, 20)
			_, err = replay.Replay(t.Context(), again, s, f.Region)
			require.ErrorAs(t, err, &f, "a new process takes over where one died")
			assert.Equal(t, want.kind, f.Kind)

			found, err := search(t, fuzz.Options{Subject: s, Objective: fuzz.Overhead, Seed: 1, Ops: 60, Evals: 200})
			require.NoError(t, err)
			require.NotNil(t, found.Fault, "the search ends with the fault")
			assert.Equal(t, want.kind, found.Fault.Kind)
			assert.LessOrEqual(t, found.Ops, found.FoundOps)
			require.NoError(t, found.Save(t.Context(), t.TempDir()))
			assert.FileExists(t, found.TraceFile)
		})
	}
}

// Ten allocators with a defect each: every one is found, named, and shrunk to at most
// one and a half times what a person needs to show it.
func TestFaultyAllocatorsAreFoundNamedAndShrunk(t *testing.T) {
	const python = "exec:python3 -IS testdata/faulty.py "
	for _, c := range []struct {
		name     string
		kind     replay.FaultKind
		smallest int // operations of the smallest known reproducer
	}{
		{"CRASH", replay.Crash, 20}, // at its twentieth allocation, as are the next four
		{"HANG", replay.Hang, 20},
		{"OVERLAP", "overlap", 20},
		{"EXIT", replay.Crash, 20},
		{"TAIL", "outside", 2},             // one chunk, and one that is longer than what is left
		{"LOST", replay.Leak, 3 + 3 + 3},   // three chunks and their frees, between and before what tells
		{"CROOKED", "misaligned", 5},       // two frees, and a chunk
		{"SHORT", "overlap", 4},            // two chunks, the first one's free, and one that is longer
		{python + "overlap", "overlap", 4}, // the same
		{python + "nonsense", replay.Nonsense, 3},
		{python + "hang", replay.Hang, 6}, // three chunks side by side, the middle one's free last
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of the time somebody's patience ends
			name := c.name
			if !Is(name) {
				name = "lib:" + library(t, c.name)
			}
			hasty, err := Open(t.Context(), name, Options{Patience: 100 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, hasty.Close()) })
			found, err := search(t, fuzz.Options{Subject: open(t, name), Hasty: replay.OfRemote(hasty), Objective: fuzz.Overhead, Seed: 1, Ops: 60, Evals: 200})
			require.NoError(t, err)
			require.NotNil(t, found.Fault)
			assert.Equal(t, c.kind, found.Fault.Kind, "%v", found.Fault)
			t.Logf("%s: %d operations, %d before it was shrunk, in %d bytes: %v", c.name, found.Ops, found.FoundOps, found.Region, found.Fault)
			assert.LessOrEqual(t, 2*found.Ops, 3*c.smallest)
			require.NoError(t, found.Save(t.Context(), t.TempDir()))
			assert.Contains(t, found.Fault.Again, found.TraceFile)
			_, err = replay.Replay(t.Context(), found.Stream, open(t, name), found.Region)
			var again *replay.Fault
			require.ErrorAs(t, err, &again)
			assert.Equal(t, c.kind, again.Kind)
		})
	}
}

// A size that a library cannot manage is one in which nothing fits, and not the end
// of the search for the smallest.
func TestALibraryMayRefuseARegionsSize(t *testing.T) {
	s, st := open(t, "lib:"+library(t, "BINARY")), stream(t, 40)
	m, err := replay.MinRegion(t.Context(), st, s)
	require.NoError(t, err)
	assert.True(t, mem.IsPow2(m.Region), "%d", m.Region)
	assert.Less(t, m.Region, 4*st.PeakLive)
	run, err := replay.Replay(t.Context(), st, s, 1<<34)
	require.NoError(t, err)
	assert.Zero(t, run.Failures)
	run, err = replay.Replay(t.Context(), st, s, 1<<34+256)
	require.NoError(t, err)
	assert.Equal(t, 0, run.FirstFailure)
	game, err := replay.NewGame(t.Context(), s, 256, 10, 1<<20+256)
	require.NoError(t, err)
	_, _, ok, err := game.Alloc(256)
	require.NoError(t, err)
	assert.False(t, ok)
	require.NoError(t, game.Close())
}

func TestWhatALibraryPrintsIsNoAnswer(t *testing.T) {
	run, err := replay.Replay(t.Context(), stream(t, 40), open(t, "lib:"+library(t, "NOISE")), 1<<34)
	require.NoError(t, err)
	assert.Zero(t, run.Failures)
}

func TestProgramsThatMisbehave(t *testing.T) {
	for command, want := range map[string]replay.FaultKind{
		"exit 3":                              replay.Crash,
		"sleep 60":                            replay.Hang,
		"yes nonsense":                        replay.Nonsense,
		"yes -- -1":                           replay.Nonsense,
		"yes 18446744073709551615":            replay.Nonsense,
		"yes 99999999999999999999999999":      replay.Nonsense,
		"yes 64":                              "overlap",
		"head -c 1000000 /dev/zero; sleep 60": replay.Nonsense,
	} {
		_, err := replay.Replay(t.Context(), stream(t, 40), open(t, "exec:"+command), 1<<40)
		var f *replay.Fault
		require.ErrorAs(t, err, &f, command)
		if f.Kind != want && command == "yes 64" {
			want = "misaligned" // 64 is no multiple of 256
		}
		assert.Equal(t, want, f.Kind, "%s: %v", command, f)
	}
}

func TestWhatIsNoAllocatorIsAnError(t *testing.T) {
	for _, name := range []string{"lib:", "exec:", "lib", "x:y", ""} {
		_, err := Open(t.Context(), name, Options{})
		require.Error(t, err, name)
	}
	none := filepath.Join(t.TempDir(), "none.so")
	_, err := replay.Replay(t.Context(), stream(t, 4), open(t, "lib:"+none), 1<<30)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(none, []byte("not a library"), 0o600))
	_, err = replay.Replay(t.Context(), stream(t, 4), open(t, "lib:"+none), 1<<30)
	require.ErrorContains(t, err, "dlopen")
	libc := filepath.Join(t.TempDir(), "empty.so")
	out, err := exec.Command("cc", "-shared", "-o", libc, "-x", "c", "/dev/null").CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = replay.Replay(t.Context(), stream(t, 4), open(t, "lib:"+libc), 1<<30)
	require.ErrorContains(t, err, "godwit_alloc_abi")
}

func TestAdversariesPlayCallByCall(t *testing.T) {
	f, err := search(t, fuzz.Options{Subject: open(t, "lib:"+library(t, "")), Objective: fuzz.Overhead, Seed: 1, Ops: 200, Evals: 4})
	require.NoError(t, err)
	require.Nil(t, f.Fault)
	assert.Greater(t, f.Score, 2.9, "Robson's bound holds for whoever plays")
}

// FuzzAnswers gives a program's bytes any form: what is not an address ends the
// replay with a fault or an error, and never with a panic.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("0\n256\n512\n-\n"))
	f.Add([]byte("-\n-\n\n 7 \n"))
	f.Add([]byte{0, 255, '\n'})
	st, err := replay.W1(8, 4, 0, 1)
	require.NoError(f, err)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, answers []byte) {
		file := filepath.Join(dir, strconv.Itoa(os.Getpid()))
		require.NoError(t, os.WriteFile(file, answers, 0o600))
		_, err := replay.Replay(t.Context(), st, open(t, "exec:cat "+file), 1<<30)
		require.Error(t, err, "it ends before the stream does, or knows nothing of what is live")
	})
}

// BenchmarkHostAgainstLoop is the cost of an operation that the host replays,
// against the same C code called in a C loop, in turns: the ratio of the best of
// all rounds, and the median of the rounds' ratios.
func BenchmarkHostAgainstLoop(b *testing.B) {
	loop := filepath.Join(b.TempDir(), "loop")
	out, err := exec.Command("cc", "-O2", "-I", "host", "-o", loop, "testdata/loop.c", "testdata/bump.c").CombinedOutput()
	require.NoError(b, err, "%s", out)
	s := open(b, "lib:"+library(b, ""))
	for _, n := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("live=%d", n), func(b *testing.B) {
			st, err := replay.W1(n, 50_000, 0, 1)
			require.NoError(b, err)
			st.Warm = 0 // as the loop
			var ratios []float64
			best, bestLoop := math.Inf(1), math.Inf(1)
			for range 15 * b.N {
				there, err := replay.Time(b.Context(), st, s, 2*st.PeakLive, 1)
				require.NoError(b, err)
				bare := loopTime(b, loop, st)
				ratios = append(ratios, there.NSPerOp/bare)
				best, bestLoop = min(best, there.NSPerOp), min(bestLoop, bare)
			}
			b.ReportMetric(best, "ns/op-host")
			b.ReportMetric(bestLoop, "ns/op-loop")
			b.ReportMetric(best/bestLoop, "best-ratio")
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
		})
	}
}

// loopTime is the ns of an operation in the C loop.
func loopTime(t testing.TB, loop string, st *replay.Stream) float64 {
	var in bytes.Buffer
	for _, v := range []uint64{st.Align, 2 * st.PeakLive, uint64(st.Slots), uint64(len(st.Ops)), 1} {
		in.Write(binary.NativeEndian.AppendUint64(nil, v))
	}
	for _, op := range st.Ops {
		in.Write(binary.NativeEndian.AppendUint64(nil, op.Size))
		in.Write(binary.NativeEndian.AppendUint64(nil, uint64(op.Slot)))
	}
	cmd := exec.Command(loop)
	cmd.Stdin = &in
	out, err := cmd.Output()
	require.NoError(t, err)
	ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	require.NoError(t, err, string(out))
	return ns / float64(len(st.Ops))
}

// A child that hangs ends with the context of Open, at once, and is not at fault.
func TestAnEndedContextIsNoFault(t *testing.T) {
	for _, name := range []string{"lib:" + library(t, "HANG"), "exec:sleep 1000", "exec:python3 testdata/first.py"} {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := Open(ctx, name, Options{Patience: time.Hour})
		require.NoError(t, err)
		ended := make(chan error, 1)
		st := stream(t, 40)
		go func() {
			for err := error(nil); ; {
				if _, err = replay.Replay(context.WithoutCancel(ctx), st, replay.OfRemote(p), 1<<34); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(100 * time.Millisecond) // somewhere in the middle
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled, name)
		require.NoError(t, p.Close())
	}
}

func TestTheEndOfWhatAChildSaysIsKept(t *testing.T) {
	var l tail
	for _, s := range []string{strings.Repeat("a", 1000), "b\n", strings.Repeat("c", 298)} {
		n, err := l.Write([]byte(s))
		require.NoError(t, err)
		require.Len(t, s, n)
	}
	require.Equal(t, "b\n"+strings.Repeat("c", 298), l.text())
}

// search is a whole search.
func search(t *testing.T, o fuzz.Options) (*fuzz.Finding, error) {
	s, err := fuzz.Begin(o)
	require.NoError(t, err)
	if _, err := s.Advance(t.Context()); err != nil {
		return nil, err
	}
	return s.Finish(t.Context())
}
