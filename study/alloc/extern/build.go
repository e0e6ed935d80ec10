//go:build linux

package extern

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the host's source
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"godwit/internal/process"
)

//go:embed host/host.c
var hostSource []byte

// hostName is the host program's name beside the running program.
const hostName = "godwit-allochost"

var (
	building sync.Mutex
	built    string // protected by building: where the host program is
)

// hostProgram is the path of the host program, compiled where there is none.
func hostProgram(ctx context.Context) (string, error) {
	building.Lock()
	defer building.Unlock()
	if built != "" {
		return built, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), hostName)
		if _, err := os.Stat(beside); err == nil {
			built = beside
			return built, nil
		}
	}
	path, err := compileHost(ctx)
	if err == nil {
		built = path
	}
	return path, err
}

// compileHost compiles the embedded source into the user's cache directory, under
// a name that changes with it.
func compileHost(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("the program that loads libraries (%s, built by make) is not beside this one, and there is nowhere to keep it: %w", hostName, err) // not where others may write
	}
	dir := filepath.Join(cache, "godwit")
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", hostName, sha256.Sum256(hostSource)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	work, remove, err := process.TempDir(ctx, dir, "build")
	if err != nil {
		return "", err
	}
	defer remove() //nolint:errcheck // what is left there harms nobody
	source, program := filepath.Join(work, "host.c"), filepath.Join(work, hostName)
	if err := os.WriteFile(source, hostSource, 0o600); err != nil {
		return "", err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	cmd := exec.CommandContext(ctx, cc, "-O2", "-o", program, source, "-ldl")
	cmd.Env = append(os.Environ(), "TMPDIR="+work) // what it leaves where it is killed goes with work
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := process.Run(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("the program that loads libraries is not beside this one (%s, built by make), and cannot be compiled: %s: %w: %s", hostName, cc, err, &out)
	}
	return path, os.Rename(program, path) // at once, whoever else compiles it
}
