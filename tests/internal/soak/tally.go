package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"godwit/internal/figures"
)

// tally is what the turns of a suite came to.
type tally struct {
	Turns    int           `json:"turns"`
	Failed   int           `json:"failed"` // turns
	Took     time.Duration `json:"took"`
	Commands uint64        `json:"commands"`
	Drawn    uint64        `json:"drawn"`  // histories and inputs
	Faults   uint64        `json:"faults"` // commands that were made to fail, or were refused
	Bytes    uint64        `json:"bytes"`  // moved, read and compared
	Seeds    []string      `json:"seeds"`  // of the turns that told one
}

// state is a soak between its turns, as it is kept.
type state struct {
	For    time.Duration     `json:"for"`
	Began  time.Time         `json:"began"`
	Suites map[string]*tally `json:"suites"`
}

// took is how long all turns were.
func (s *state) took() (d time.Duration) {
	for _, t := range s.Suites {
		d += t.Took
	}
	return d
}

// What a suite did stands in what it logs: numbers with a word behind, on lines of
// the testing package (so that a second copy on standard output does not count),
// rapid's verdicts, and the fuzzing engine's count.
var (
	logged   = regexp.MustCompile(`^\s+\S+\.go:\d+: `)
	counted  = regexp.MustCompile(`(\d[\d,]*) (commands|histories|failed|refused|faults|bytes moved|bytes read)\b`)
	passed   = regexp.MustCompile(`\[rapid\] OK, passed (\d+) tests`)
	execs    = regexp.MustCompile(`execs: (\d+)`)
	seedSaid = regexp.MustCompile(`\bseed (\d+)`)
)

// add adds what a turn printed.
func (t *tally) add(output string) {
	var fuzzed uint64
	for line := range strings.Lines(output) {
		if m := execs.FindStringSubmatch(line); m != nil {
			fuzzed = max(fuzzed, number(m[1])) // it counts up
		}
		if m := passed.FindStringSubmatch(line); m != nil {
			t.Drawn += number(m[1])
		}
		if !logged.MatchString(line) {
			continue
		}
		if m := seedSaid.FindStringSubmatch(line); m != nil {
			t.Seeds = append(t.Seeds, m[1])
		}
		for _, m := range counted.FindAllStringSubmatch(line, -1) {
			switch n := number(m[1]); m[2] {
			case "commands":
				t.Commands += n
			case "histories":
				t.Drawn += n
			case "bytes moved", "bytes read":
				t.Bytes += n
			default:
				t.Faults += n
			}
		}
	}
	t.Drawn += fuzzed
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(strings.ReplaceAll(s, ",", ""), 10, 64)
	if err != nil {
		return 0 // more digits than a count has
	}
	return n
}

// load reads the state in file, or begins one.
func load(file string, length time.Duration) (*state, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{For: length, Began: time.Now(), Suites: make(map[string]*tally)}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s.For = length
	return s, nil
}

// print shows what has come of it so far.
func (s *state) print(w io.Writer) {
	t := figures.NewTable("suite", ">turns", ">failed", ">time", ">drawn", ">commands", ">commands/s", ">faults", ">bytes")
	t.Frame = true
	var all tally
	for _, name := range slices.Sorted(maps.Keys(s.Suites)) {
		x := s.Suites[name]
		t.Row(x.row(name)...)
		all.Turns, all.Failed, all.Took = all.Turns+x.Turns, all.Failed+x.Failed, all.Took+x.Took
		all.Drawn, all.Commands, all.Faults, all.Bytes = all.Drawn+x.Drawn, all.Commands+x.Commands, all.Faults+x.Faults, all.Bytes+x.Bytes
	}
	t.Line()
	t.Row(all.row(fmt.Sprintf("%d suites", len(s.Suites)))...)
	t.Print(w, 0)
}

func (t *tally) row(name string) []any {
	rate := "-"
	if t.Commands > 0 && t.Took > 0 {
		rate = humanize.Comma(int64(float64(t.Commands) / t.Took.Seconds()))
	}
	return []any{name, t.Turns, t.Failed, t.Took.Round(time.Second), humanize.Comma(int64(t.Drawn)), humanize.Comma(int64(t.Commands)), rate,
		humanize.Comma(int64(t.Faults)), humanize.IBytes(t.Bytes)}
}
