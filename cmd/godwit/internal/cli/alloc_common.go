package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"godwit/study/alloc/extern"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
)

// subjects are what --strategy named. Those in other processes end with close.
type subjects struct {
	list    []replay.Subject
	offline bool // the packer that knows lifetimes beforehand is among them
	pools   []*extern.Pool
}

func (s *subjects) close() error {
	var err error
	for _, p := range s.pools {
		err = errors.Join(err, p.Close())
	}
	return err
}

// patienceFlag adds the flag for allocators in other processes.
func patienceFlag(fl *pflag.FlagSet, to *time.Duration) {
	fl.DurationVar(to, "patience", 5*time.Second, "how long an allocator given as lib: or exec: may show no progress")
}

// outside says how allocators of one's own are named, for the help texts.
const outside = `lib:PATH is a shared library with the functions of study/alloc/extern/host/
godwit_alloc.h. exec:COMMAND is a program that reads lines: "open SIZE CHUNKS" begins
with an empty allocator of [0, SIZE) for that many chunks at a time, "a ID SIZE ALIGN
HINT" asks for an address, to be answered on a line of its own, by - where there is
no room, and "f ID" frees and has no answer. One that first says "batches" is asked for
its answers by an empty line, which is faster. Each runs in a process of its own, and
all its answers are checked: a crash, a hang, an overlap or nonsense is reported with
the operation that showed it, and the stream up to there is saved.`

// open is the subject of one name, which may be in another process.
func (s *subjects) open(ctx context.Context, name string, patience time.Duration) (replay.Subject, error) {
	if !extern.Is(name) {
		return replay.ParseSubject(name)
	}
	p, err := extern.Open(ctx, name, extern.Options{Patience: patience})
	if err != nil {
		return nil, err
	}
	return s.keep(p), nil
}

// hasty are the allocators in other processes again, with a twentieth of the patience, by
// name: to find out soon that a sequence hangs.
func (s *subjects) hasty(ctx context.Context, patience time.Duration) (map[string]replay.Subject, error) {
	out := make(map[string]replay.Subject)
	for _, p := range slices.Clone(s.pools) {
		quick, err := extern.Open(ctx, p.Name(), extern.Options{Patience: max(patience/20, time.Millisecond)})
		if err != nil {
			return nil, err
		}
		out[p.Name()] = s.keep(quick)
	}
	return out, nil
}

// both is the subject of one name, and where it is in another process the same with little patience.
func (s *subjects) both(ctx context.Context, name string, patience time.Duration) (subject, hasty replay.Subject, err error) {
	if subject, err = s.open(ctx, name, patience); err != nil || !extern.Is(name) {
		return subject, nil, err
	}
	hasty, err = s.open(ctx, name, max(patience/20, time.Millisecond))
	return subject, hasty, err
}

// keep has an allocator in another process end with close.
func (s *subjects) keep(p *extern.Pool) replay.Subject {
	s.pools = append(s.pools, p)
	return replay.OfRemote(p)
}

// parseSubjects reads the values of --strategy: names, or all.
func parseSubjects(ctx context.Context, names []string, patience time.Duration) (s subjects, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, name := range names {
		switch strings.ToLower(name) {
		case "all":
			s.list, s.offline = append(s.list, replay.Subjects()...), true
			continue
		case replay.OfflineName:
			s.offline = true
			continue
		case replay.PyTorchName, replay.PyTorchExpandableName:
			s.list = append(s.list, replay.PyTorch(strings.ToLower(name) == replay.PyTorchExpandableName))
			continue
		}
		one, err := s.open(ctx, name, patience)
		if err != nil && !extern.Is(name) {
			err = fmt.Errorf("%w (or all, %s, %s, %s, lib:PATH, exec:COMMAND)", err, replay.OfflineName, replay.PyTorchName, replay.PyTorchExpandableName)
		}
		if err != nil {
			return s, err
		}
		s.list = append(s.list, one)
	}
	seen := make(map[string]bool)
	s.list = slices.DeleteFunc(s.list, func(one replay.Subject) bool {
		again := seen[one.Name()]
		seen[one.Name()] = true
		return again
	})
	return s, nil
}

// parseBytes reads a number of bytes: plain, or with a unit such as KiB, MB, G.
func parseBytes(s string) (uint64, error) {
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return v, nil
	}
	v, err := humanize.ParseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of bytes (64, 16KiB, 2GB)", s)
	}
	return v, nil
}

// writeJSON writes v indented, and a newline.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// onlineOnly is parseSubjects for what cannot use the offline packer, which all
// then leaves out.
func onlineOnly(ctx context.Context, names []string, patience time.Duration) (subjects, error) {
	s, err := parseSubjects(ctx, names, patience)
	if err == nil && s.offline && slices.Contains(names, replay.OfflineName) {
		err = errors.Join(fmt.Errorf("%s knows lifetimes beforehand: it is for godwit replay", replay.OfflineName), s.close())
	}
	if i := slices.IndexFunc(s.list, replay.Placeless); err == nil && i >= 0 {
		err = errors.Join(fmt.Errorf("%s is a model without addresses and times: it is for godwit replay", s.list[i].Name()), s.close())
	}
	return s, err
}

// saveFault writes the stream that shows a fault to dir, to be replayed in the
// region that its first line names, and says where.
func saveFault(ctx context.Context, w io.Writer, dir string, f *replay.Fault) error {
	_, _ = fmt.Fprintln(w, "godwit:", f) // stderr: nothing to do about an error
	st := f.Reproducer()
	if st == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, fuzz.FileName(f.Subject+"-"+st.Name)+".csv")
	f.Again = f.Command(file, st)
	if err := formats.SaveAllocs(ctx, file, st.Trace(), f.Error(), f.Again); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "godwit: to see it again:", f.Again) // as above
	return nil
}

// reportFaults saves the reproducers of all faults; an error says how many.
func reportFaults(ctx context.Context, w io.Writer, dir string, faults []*replay.Fault) error {
	n := 0
	for _, f := range faults {
		if f == nil {
			continue
		}
		n++
		if err := saveFault(ctx, w, dir, f); err != nil {
			return err
		}
	}
	if n > 0 {
		return failed{fmt.Errorf("%d times an allocator broke its contract", n)}
	}
	return nil
}
