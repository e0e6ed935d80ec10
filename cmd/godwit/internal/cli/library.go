package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraryName is libgodwit.so's, in whichever directory it is.
const libraryName = "libgodwit.so"

// findLibrary is the path of libgodwit.so: the one asked for by flag or by
// GODWIT_LIB, else the one that is installed with this program: beside it, or in
// lib beside its directory. It is never looked for in the current directory, whose
// files are anybody's: what is found is run.
func findLibrary(asked string) (string, error) {
	if asked == "" {
		asked = os.Getenv("GODWIT_LIB")
	}
	if asked != "" {
		if info, err := os.Stat(asked); err == nil && info.IsDir() {
			asked = filepath.Join(asked, libraryName)
		}
		return asLibrary(asked)
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("where this program is installed: %w", err)
	}
	dir := filepath.Dir(self)
	tried := []string{filepath.Join(dir, libraryName), filepath.Join(dir, "..", "lib", libraryName)}
	for _, path := range tried {
		if path, err := asLibrary(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("no %s in %s; `make lib` builds it, --lib and GODWIT_LIB name it", libraryName, strings.Join(tried, ", "))
}

// entryPoint is what Godwit's library exports beside OpenCL's names.
const entryPoint = "gwGetPlatformIDs"

// asLibrary is the absolute path of a file that is Godwit's library. Loaders pass
// over what they cannot load without a word, and the program would see other
// platforms, or none.
func asLibrary(path string) (string, error) {
	f, err := elf.Open(path)
	var bad *elf.FormatError
	if errors.As(err, &bad) {
		return "", fmt.Errorf("%s is no shared library", path)
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // was only read
	names, err := f.DynamicSymbols()
	if err != nil || f.Type != elf.ET_DYN || !slices.ContainsFunc(names, func(s elf.Symbol) bool { return s.Name == entryPoint }) {
		return "", fmt.Errorf("%s is not Godwit's library", path)
	}
	return filepath.Abs(path)
}
