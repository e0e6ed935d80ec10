package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"godwit/internal/outfile"
)

// given is a file that a flag or an argument names.
type given struct{ as, path string }

// apart refuses an output that is a file to be read, or another output: to write it
// would lose that one. Files are the same by whatever name (links too); devices like
// /dev/null may be given twice. Empty paths and - are no files.
func apart(outputs []given, inputs ...given) error {
	for i, out := range outputs {
		for _, other := range append(append([]given(nil), outputs[:i]...), inputs...) {
			if sameFile(out.path, other.path) {
				return fmt.Errorf("%s %s: it is the file of %s, too, which would be lost", out.as, out.path, other.as)
			}
		}
	}
	return nil
}

// makeable fails where one of the outputs cannot be made: who learns that when the work is
// done has lost the work. A pipe or a device is left alone, since a look would open it.
func makeable(ctx context.Context, outputs ...given) error {
	for _, o := range outputs {
		if o.path == "" || o.path == stdout {
			continue
		}
		if info, err := os.Stat(o.path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			continue
		}
		f, err := outfile.Create(ctx, o.path)
		if err == nil {
			err = f.Abort()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.as, err)
		}
	}
	return nil
}

// besideTraces refuses an output that cannot be made, or is one of the traces.
func besideTraces(ctx context.Context, out given, traces ...string) error {
	var reads []given
	for _, file := range traces {
		reads = append(reads, given{"the trace", file})
	}
	if err := apart([]given{out}, reads...); err != nil {
		return err
	}
	return makeable(ctx, out)
}

func sameFile(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return false
	}
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(x, y) && x.Mode().IsRegular()
	}
	return errA != nil && errB != nil && whole(a) == whole(b)
}

// whole is the path of a file that is not there yet.
func whole(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.Base(path))
}

// reads are the files that a scenario is read from, and where it runs.
func (f *scenarioFlags) reads(file string) []given {
	in := []given{{"the scenario", file}}
	for _, m := range names(f.machine) {
		in = append(in, given{"--machine", m})
	}
	for _, text := range f.inputs {
		if _, path, ok := strings.Cut(text, "="); ok {
			in = append(in, given{"--input", path})
		}
	}
	return in
}
