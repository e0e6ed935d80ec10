package replay

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"godwit/internal/process"
)

// PoCL's own bufalloc.c is timed beside ours where its source is installed:
// Debian's package pocl-source puts /usr/src/pocl.tar.xz there. It is compiled
// at run time with gcc, into a child process that reads a stream; nothing of
// PoCL is part of this repository.

//go:embed pocl/harness.c
var poclHarness []byte

// poclStub stands in for the header that ties bufalloc.c to the rest of PoCL:
// one thread, no lock.
const poclStub = `#include <stdlib.h>
#include <assert.h>
#define POCL_EXPORT
typedef int pocl_lock_t;
#define POCL_LOCK(l) ((void)(l))
#define POCL_UNLOCK(l) ((void)(l))
#define POCL_INIT_LOCK(l) ((l) = 0)
`

// ErrNoPoCL: PoCL's source or the compiler is not installed.
var ErrNoPoCL = errors.New("PoCL's bufalloc.c is not available: it needs gcc, tar and Debian's package pocl-source")

// PoCL is a compiled harness around PoCL's bufalloc.c.
type PoCL struct {
	bin string
}

// BuildPoCL compiles PoCL's bufalloc.c, with the given limit of chunks (0: its
// own, 1,024 with the sentinel), in dir. source is pocl-source's archive, or
// an unpacked tree; "" means /usr/src/pocl.tar.xz. It fails with ErrNoPoCL
// where something that it needs is missing.
func BuildPoCL(ctx context.Context, dir, source string, maxChunks int) (*PoCL, error) {
	if source == "" {
		source = "/usr/src/pocl.tar.xz"
	}
	st, err := os.Stat(source)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoPoCL, err)
	}
	if !st.IsDir() {
		tree := filepath.Join(dir, "source")
		if err := os.MkdirAll(tree, 0o700); err != nil {
			return nil, err
		}
		tar := exec.CommandContext(ctx, "tar", "xf", source, "-C", tree, "--wildcards", "*/bufalloc.[ch]", "*/utlist.h")
		if out, err := combined(ctx, tar); err != nil {
			return nil, fmt.Errorf("%w (tar: %w: %s)", ErrNoPoCL, err, bytes.TrimSpace(out))
		}
		source = tree
	}
	var include []string
	for _, name := range []string{"bufalloc.c", "utlist.h"} {
		at, err := findFile(source, name)
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrNoPoCL, err)
		}
		include = append(include, "-I", filepath.Dir(at))
	}
	for name, text := range map[string][]byte{"pocl_cl.h": []byte(poclStub), "harness.c": poclHarness} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	bin := filepath.Join(dir, "pocl-harness-"+strconv.Itoa(maxChunks))
	args := []string{"-O2", "-w", "-I", dir}
	args = append(args, include...)
	if maxChunks > 0 {
		args = append(args, fmt.Sprintf("-DMAX_CHUNKS_IN_REGION=%d", maxChunks))
	}
	gcc := exec.CommandContext(ctx, "gcc", append(args, "-o", bin, filepath.Join(dir, "harness.c"))...)
	gcc.Env = append(os.Environ(), "TMPDIR="+dir) // what it leaves where it is killed goes with dir
	if out, err := combined(ctx, gcc); err != nil {
		return nil, fmt.Errorf("%w (gcc: %w: %s)", ErrNoPoCL, err, bytes.TrimSpace(out))
	}
	return &PoCL{bin}, nil
}

// combined is cmd.CombinedOutput for a child that ends with us.
func combined(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := process.Run(ctx, cmd)
	return out.Bytes(), err
}

func findFile(root, name string) (found string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && found == "" && d.Name() == name {
			found = path
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no %s under %s", name, root)
	}
	return found, err
}

// PoCLRun is what PoCL's allocator made of a stream.
type PoCLRun struct {
	NSPerOp  []float64 // of the operations past Warm, one for each repeat
	Ops      int       // timed in the last repeat: fewer than the stream has where time ran out
	Failures int       // allocations that did not fit, fill and warm-up included
	Hash     uint64    // FNV-1a of where the first 20,000 operations put things
}

// Run replays st through a region of size bytes under "tight" or "wasteful".
// Together the timed parts of all repeats take at most so many seconds.
func (p *PoCL) Run(ctx context.Context, st *Stream, strategy string, size uint64, repeats int, seconds float64) (run PoCLRun, err error) {
	cmd := exec.CommandContext(ctx, p.bin, strategy, strconv.Itoa(repeats), strconv.FormatFloat(seconds, 'g', -1, 64))
	var in bytes.Buffer
	for _, v := range []uint64{st.Align, size, uint64(st.Slots), uint64(st.Warm), uint64(len(st.Ops)), 0} {
		in.Write(binary.NativeEndian.AppendUint64(nil, v))
	}
	for _, op := range st.Ops {
		in.Write(binary.NativeEndian.AppendUint64(nil, op.Size))
		in.Write(binary.NativeEndian.AppendUint64(nil, uint64(op.Slot)))
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = &in, &out
	if err := process.Run(ctx, cmd); err != nil {
		return run, fmt.Errorf("PoCL's allocator on %s: %w", st.Name, err)
	}
	for s := bufio.NewScanner(&out); s.Scan(); {
		var ns float64
		var warmFailures int
		if _, err := fmt.Sscanf(s.Text(), "hash %d", &run.Hash); err == nil {
			continue
		}
		if _, err := fmt.Sscan(strings.TrimSpace(s.Text()), &ns, &run.Ops, &warmFailures, &run.Failures); err != nil {
			return run, fmt.Errorf("PoCL's allocator on %s said %q: %w", st.Name, s.Text(), err)
		}
		run.NSPerOp = append(run.NSPerOp, ns)
	}
	return run, nil
}
