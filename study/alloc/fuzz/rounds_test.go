package fuzz_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/journal"
	"godwit/mem"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
)

// site makes units of a small search, each once: they are the same whoever makes them.
type site struct {
	runner *fuzz.Runner
	blobs  map[string][]byte
	rows   map[string][]byte // by unit
}

func task() *fuzz.RoundsTask {
	return &fuzz.RoundsTask{Strategies: []string{"fit", "bestfit"}, Objective: "failure", Seed: 1, Seeds: 2, Rounds: 3, Evals: 60, Ops: 60}
}

func newSite(t *testing.T) *site {
	s := &site{blobs: make(map[string][]byte), rows: make(map[string][]byte)}
	var err error
	s.runner, err = fuzz.NewRunner(t.Context(), task(), func(_ context.Context, name string) (subject, hasty replay.Subject, err error) {
		subject, err = replay.ParseSubject(name)
		return subject, nil, err
	}, func(_ context.Context, hash string) ([]byte, error) { return s.blobs[hash], nil })
	require.NoError(t, err)
	return s
}

// row is the line of a unit.
func (s *site) row(t require.TestingT, r *fuzz.Rounds, i int) []byte {
	given, err := r.Given(i)
	require.NoError(t, err)
	var u struct{ Corpus string }
	require.NoError(t, json.Unmarshal(given, &u))
	if u.Corpus != "" {
		s.blobs[u.Corpus] = r.Blob(u.Corpus)
	}
	row := s.rows[string(given)]
	if row == nil {
		row, err = s.runner.Make(context.Background(), i, given)
		require.NoError(t, err)
		s.rows[string(given)] = row
	}
	return journal.Encode(i, row)
}

func saved(t require.TestingT, r *fuzz.Rounds, dir string) string {
	_, err := r.Save(context.Background(), dir)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out.WriteString(strings.TrimPrefix(path, dir) + "\n" + string(text))
		return err
	}))
	return out.String()
}

// TestRoundsAreTheSameInAnyOrder: rows come in any order, twice, torn, of other units; the coordinator is killed and begins with what its
// journal has, of which lines are lost. What is found is what one process finds.
func TestRoundsAreTheSameInAnyOrder(t *testing.T) {
	s := newSite(t)
	one, err := fuzz.NewRounds(task(), "b", nil)
	require.NoError(t, err)
	for one.Have() < one.Len() {
		i, _ := one.Missing(0, 1)
		_, err := one.Accept(s.row(t, one, i))
		require.NoError(t, err)
	}
	want := saved(t, one, t.TempDir())
	for _, f := range one.Findings() { // files have names of their own
		f.TraceFile, f.CorpusFile = "", ""
	}
	require.Contains(t, want, "fit-failure-1.csv")
	dirs := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(dirs, "")
		require.NoError(t, err)
		path := filepath.Join(dir, "j.rows")
		var r *fuzz.Rounds
		var j *journal.File
		begin := func() {
			j, err = journal.Open(path, fuzz.JournalName)
			require.NoError(t, err)
			r, err = fuzz.NewRounds(task(), "b", nil)
			require.NoError(t, err)
			_, err = r.Keep(j)
			require.NoError(t, err)
		}
		begin()
		for r.Have() < r.Len() {
			i, _ := r.Missing(rapid.IntRange(0, r.Len()-1).Draw(t, "from"), 1)
			if i == r.Len() {
				continue
			}
			line := s.row(t, r, i)
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0: // torn
				_, err = r.Accept(line[:len(line)/2])
				require.ErrorIs(t, err, journal.ErrTorn)
			case 1: // another unit's
				_, err = r.Accept(append([]byte(strings.Replace(string(line), `"at":`, `"at":1`, 1)), line...))
				require.ErrorIs(t, err, journal.ErrTorn)
			case 2: // killed; a line of the journal is lost, or its end
				require.NoError(t, j.Close())
				if text, err := os.ReadFile(path); err == nil && len(text) > 300 {
					at := rapid.IntRange(200, len(text)-1).Draw(t, "at")
					if text[at] ^= 4; rapid.Bool().Draw(t, "cut") {
						text = text[:at]
					}
					require.NoError(t, os.WriteFile(path, text, 0o600))
				}
				begin()
			default:
				_, err = r.Accept(append(line, line...))
				require.NoError(t, err, "twice is once")
			}
		}
		require.NoError(t, j.Close())
		require.Equal(t, one.Findings(), r.Findings(), "each once")
		if rapid.IntRange(0, 9).Draw(t, "save") == 0 { // which takes a disk's time
			require.Equal(t, want, saved(t, r, filepath.Join(dir, "out")))
		}
		require.NoError(t, os.RemoveAll(dir))
	})
}

// TestAUnitThatWasGivenUpHasNothing: and one that two make differently is said.
func TestAUnitThatWasGivenUpHasNothing(t *testing.T) {
	s := newSite(t)
	r, err := fuzz.NewRounds(task(), "b", [][]byte{{255, 8, 0, 3, 0, 1, 0, 0}})
	require.NoError(t, err)
	row, err := r.Failed(t.Context(), 0, "it ended its workers")
	require.NoError(t, err)
	why, err := r.Accept(journal.Encode(0, row))
	require.NoError(t, err)
	require.Equal(t, []string{"unit 0, fit from seed 1: it ended its workers"}, why)
	line := s.row(t, r, 1)
	_, err = r.Accept(line)
	require.NoError(t, err)
	given, err := r.Given(1)
	require.NoError(t, err)
	other := strings.Replace(string(s.rows[string(given)]), `"evals":60`, `"evals":59`, 1)
	_, err = r.Accept(journal.Encode(1, []byte(other)))
	require.ErrorIs(t, err, journal.ErrUnlike)
	require.ErrorContains(t, err, "unit 1, fit from seed 2")
	for r.Have() < r.Len() {
		i, _ := r.Missing(0, 1)
		_, err = r.Accept(s.row(t, r, i))
		require.NoError(t, err)
	}
	_, err = r.Given(r.Len())
	require.ErrorContains(t, err, "unit")
	_, err = fuzz.NewRounds(&fuzz.RoundsTask{Seeds: 1 << 30, Rounds: 1}, "b", nil)
	require.Error(t, err)
}

// More searches than may be are refused, however they are made up: not begun with as many as are left of a product too large.
func TestTooManySearchesAreRefused(t *testing.T) {
	for _, n := range [][2]int{{1 << 62, 4}, {4, 1 << 62}, {1 << 12, 1 << 12}, {0, 1}, {1, -1}} {
		task := task()
		task.Rounds, task.Seeds = n[0], n[1]
		_, err := fuzz.NewRounds(task, "build", nil)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%d rounds of %d", n[0], n[1])
	}
}
