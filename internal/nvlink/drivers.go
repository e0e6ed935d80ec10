package nvlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"godwit/internal/input"
	"godwit/internal/outfile"
)

// What is known of the vendor's drivers.
//
// Importing a window is a call into the vendor's OpenCL library with memory of CUDA's: a
// path that few programs take, and on which a version of it crashes when the window is too
// large. A crash of the vendor's must never be ours: a version that nobody has tried is not
// used until somebody tries it, in a process of its own (`godwit devices --try`), and notes
// how that went.

// Limit is the least size of a window, in bytes, that no driver is given.
const Limit = 512 << 20

// Driver is a version of the vendor's driver, as it calls itself, and how it went.
type Driver struct {
	Version string `json:"version"`
	Good    bool   `json:"good"`
	Tried   string `json:"tried"` // what was tried, and what happened
}

// known are the versions that we have tried ourselves.
var known = []Driver{{
	Version: "580.159.04", Good: true,
	Tried: "2026-11-22, two and four H200s: windows of 2 to 510 MiB imported in contexts of one, two and four devices, sub-buffers, kernels and copies on both sides, " +
		"a million hand-overs without acquiring or releasing; from 512 MiB on clCreateBufferWithProperties crashes",
}}

// Judge fails with ErrDriver where a version is not to be used, by the user's notes, or else by what we
// have tried.
func Judge(version string) error {
	_, notes, err := readNotes()
	all := slices.Concat(notes, known)
	i := slices.IndexFunc(all, func(d Driver) bool { return d.Version == version })
	switch {
	case i >= 0 && all[i].Good:
		return nil
	case i >= 0:
		return fmt.Errorf("driver %s has failed (%s): %w", version, all[i].Tried, ErrDriver)
	case err != nil:
		return fmt.Errorf("driver %s: %w: %w", version, err, ErrDriver)
	}
	return fmt.Errorf("driver %s has never been tried; `godwit devices --try` tries it: %w", version, ErrDriver)
}

// Note notes in the user's configuration how a trial went, and returns the file of the notes. It replaces an earlier
// note of that version. One process notes at a time.
func Note(ctx context.Context, d Driver) (path string, err error) {
	path, notes, err := readNotes()
	if err != nil {
		return path, err
	}
	notes = append(slices.DeleteFunc(notes, func(o Driver) bool { return o.Version == d.Version }), d)
	text, err := json.MarshalIndent(notes, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = outfile.Write(ctx, path, append(text, '\n'))
	}
	return path, err
}

// mostNotes is how large a file of notes may be, in bytes.
const mostNotes = 1 << 20

func readNotes() (path string, notes []Driver, err error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", nil, fmt.Errorf("the user's configuration: %w", err)
	}
	path = filepath.Join(dir, "godwit", "drivers.json")
	text, err := input.ReadFile(context.Background(), path, mostNotes)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	if err != nil {
		return path, nil, fmt.Errorf("%s is no list of drivers: %w", path, err)
	}
	return path, notes, nil
}
