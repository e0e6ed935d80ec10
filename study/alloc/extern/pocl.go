package extern

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"godwit/internal/process"
)

// PoCL's own bufalloc.c is timed beside ours where its source is installed:
// Debian's package pocl-source puts /usr/src/pocl.tar.xz there. It is compiled at
// run time with gcc, into libraries like anybody's; nothing of PoCL is part of this
// repository.

//go:embed pocl/adapter.c
var poclAdapter []byte

//go:embed host/godwit_alloc.h
var allocHeader []byte

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

// OpenPoCL compiles PoCL's bufalloc.c in dir, and opens it under each of its two
// strategies: pocl-c-tight and pocl-c-wasteful. source is pocl-source's archive, or
// an unpacked tree; "" means /usr/src/pocl.tar.xz. It fails with ErrNoPoCL where
// something that it needs is missing.
func OpenPoCL(ctx context.Context, dir, source string, o Options) (pools []*Pool, err error) {
	include, err := poclSource(ctx, dir, source)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoPoCL, err)
	}
	for name, text := range map[string][]byte{"pocl_cl.h": []byte(poclStub), "adapter.c": poclAdapter, "godwit_alloc.h": allocHeader} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	for name, strategy := range map[string]string{"pocl-c-tight": "BALLOCS_TIGHT", "pocl-c-wasteful": "BALLOCS_WASTEFUL"} {
		lib := filepath.Join(dir, name+".so")
		gcc := exec.CommandContext(ctx, "gcc", slices.Concat(include, []string{"-shared", "-fPIC", "-O2", "-w", "-I", dir, "-DSTRATEGY=" + strategy, "-o", lib, filepath.Join(dir, "adapter.c")})...)
		gcc.Env = append(os.Environ(), "TMPDIR="+dir) // what it leaves where it is killed goes with dir
		if err := quiet(ctx, gcc); err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrNoPoCL, err)
		}
		p, err := Open(ctx, "lib:"+lib, o)
		if err != nil {
			return nil, err
		}
		p.name = name
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *Pool) int { return strings.Compare(a.name, b.name) })
	return pools, nil
}

// poclSource is what tells gcc where PoCL's files are. An archive is unpacked in dir.
func poclSource(ctx context.Context, dir, source string) (include []string, err error) {
	source = cmp.Or(source, "/usr/src/pocl.tar.xz")
	st, err := os.Stat(source)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		tree := filepath.Join(dir, "source")
		if err := os.MkdirAll(tree, 0o700); err != nil {
			return nil, err
		}
		if err := quiet(ctx, exec.CommandContext(ctx, "tar", "xf", source, "-C", tree, "--wildcards", "*/bufalloc.[ch]", "*/utlist.h")); err != nil {
			return nil, err
		}
		source = tree
	}
	for _, name := range []string{"bufalloc.c", "utlist.h"} {
		at, err := findFile(source, name)
		if err != nil {
			return nil, err
		}
		include = append(include, "-I", filepath.Dir(at))
	}
	return include, nil
}

// quiet runs a child that ends with us; what it says is in the error.
func quiet(ctx context.Context, cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := process.Run(ctx, cmd); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
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
