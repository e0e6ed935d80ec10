package fuzz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/input"
	"godwit/internal/outfile"
	"godwit/mem"
	"godwit/study/alloc/replay"
)

// The bounds of a corpus (docs/limits.md).
const (
	maxEntry   = 64 << 10 // bytes of a file
	maxEntries = 1 << 14
)

// corpusHead starts a file of a Go fuzz target's corpus.
const corpusHead = "go test fuzz v1\n[]byte("

// corpusDir is where Finding.Save puts genomes.
func corpusDir(dir string) string { return filepath.Join(dir, "corpus", "FuzzStrategies") }

func mkCorpus(dir string) error { return os.MkdirAll(corpusDir(dir), 0o755) }

// entry is a genome of a corpus.
type entry struct {
	Name   string // of its file
	Genome []byte
}

// ReadCorpus reads the genomes that findings saved in dir, ordered by name; none
// where there is no corpus. It fails with mem.ErrInvalidValue for a file that is
// not one of a corpus, one of more than 64 KiB, and more than 16,384 of them
// (docs/limits.md).
func ReadCorpus(ctx context.Context, dir string) ([]entry, error) {
	files, err := os.ReadDir(corpusDir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(files) > maxEntries {
		return nil, fmt.Errorf("%s: more than %d files: %w", corpusDir(dir), maxEntries, mem.ErrInvalidValue)
	}
	var out []entry
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue // what a killed search was writing: files are renamed when they are whole
		}
		path := filepath.Join(corpusDir(dir), f.Name())
		text, err := input.ReadFile(ctx, path, maxEntry)
		if err != nil {
			return nil, err
		}
		genome, err := parseCorpus(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, entry{f.Name(), genome})
	}
	return out, nil
}

// saveGenome writes a file of a corpus.
func saveGenome(ctx context.Context, path string, genome []byte) error {
	return outfile.Write(ctx, path, []byte(corpusHead+strconv.Quote(string(genome))+")\n"))
}

func parseCorpus(text string) ([]byte, error) {
	quoted, ok := strings.CutPrefix(text, corpusHead)
	quoted, end := strings.CutSuffix(strings.TrimSpace(quoted), ")")
	genome, err := strconv.Unquote(quoted)
	if !ok || !end || err != nil {
		return nil, fmt.Errorf("not a corpus file of one []byte: %w", mem.ErrInvalidValue)
	}
	return []byte(genome), nil
}

// keptEntries is how many entries of a search Minimise leaves.
const keptEntries = 5

// Minimise removes what a corpus in dir has no use for: of the entries that
// searches like o saved, at whatever seed, all but the few worst for the subject,
// and those that express what another one does. Entries of other searches stay.
// It returns how many are left and how many were removed.
func Minimise(ctx context.Context, dir string, o Options) (left, removed int, err error) {
	entries, err := ReadCorpus(ctx, dir)
	if err != nil {
		return 0, 0, err
	}
	f := (&searcher{o: o}).blank()
	prefix := strings.TrimSuffix(f.fileName(), strconv.FormatUint(o.Seed, 10))
	type judged struct {
		entry
		ops   []replay.Op
		score float64
	}
	var own []judged
	s := &searcher{o: o}
	for _, e := range entries {
		seed, ok := strings.CutPrefix(e.Name, prefix)
		if _, err := strconv.ParseUint(seed, 10, 64); !ok || err != nil {
			continue
		}
		ops := express(e.Genome, maxOps)
		score, err := s.score(ctx, ops, 0)
		if err != nil {
			return 0, 0, err
		}
		own = append(own, judged{e, ops, score})
	}
	slices.SortStableFunc(own, func(a, b judged) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(len(a.ops), len(b.ops)))
	})
	var kept []judged
	for _, e := range own {
		again := slices.ContainsFunc(kept, func(k judged) bool { return slices.Equal(k.ops, e.ops) })
		if !again && len(kept) < keptEntries {
			kept = append(kept, e)
			continue
		}
		removed++
		trace := os.Remove(filepath.Join(dir, e.Name+".csv"))
		if errors.Is(trace, fs.ErrNotExist) {
			trace = nil
		}
		if err := errors.Join(os.Remove(filepath.Join(corpusDir(dir), e.Name)), trace); err != nil {
			return 0, removed, err
		}
	}
	return len(kept), removed, nil
}
