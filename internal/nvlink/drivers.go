package nvlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Judge says what is known of a version: by the user's notes, or else by us. It fails with
// ErrDriver where the version is not to be used; the Driver is then what is known of it.
func Judge(version string) (Driver, error) {
	notes, err := readNotes()
	for _, d := range slices.Concat(notes, known) {
		if d.Version != version {
			continue
		}
		if !d.Good {
			return d, fmt.Errorf("driver %s has failed (%s): %w", version, d.Tried, ErrDriver)
		}
		return d, nil
	}
	if err != nil {
		return Driver{Version: version}, fmt.Errorf("driver %s: %w: %w", version, err, ErrDriver)
	}
	return Driver{Version: version}, fmt.Errorf("driver %s has never been tried; `godwit devices --try` tries it: %w", version, ErrDriver)
}

// Note notes in the user's configuration how a trial went. It replaces an earlier note of
// that version. One process notes at a time.
func Note(d Driver) error {
	path, err := NotesPath()
	if err != nil {
		return err
	}
	notes, err := readNotes()
	if err != nil {
		return err
	}
	notes = append(slices.DeleteFunc(notes, func(o Driver) bool { return o.Version == d.Version }), d)
	text, err := json.MarshalIndent(notes, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o644); err != nil { //nolint:gosec // no secret
		return err
	}
	return os.Rename(part, path)
}

// NotesPath is the file of the notes.
func NotesPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("the user's configuration: %w", err)
	}
	return filepath.Join(dir, "godwit", "drivers.json"), nil
}

// mostNotes is how large a file of notes may be, in bytes.
const mostNotes = 1 << 20

func readNotes() ([]Driver, error) {
	path, err := NotesPath()
	if err != nil {
		return nil, err
	}
	at, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if at.Size() > mostNotes {
		return nil, fmt.Errorf("%s: %d bytes of notes, %d at most", path, at.Size(), mostNotes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var notes []Driver
	if err := json.Unmarshal(text, &notes); err != nil {
		return nil, fmt.Errorf("%s is no list of drivers: %w", path, err)
	}
	return notes, nil
}
