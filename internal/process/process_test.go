package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/process"
)

func TestAGuardUndoesWhatIsNotDone(t *testing.T) {
	var g process.Guard
	var said []string
	add := func(name string) func() {
		done, err := g.Make(func() (func(), error) { return func() { said = append(said, name) }, nil })
		require.NoError(t, err)
		return done
	}
	add("a")
	b := add("b")
	add("c")
	b()
	_, err := g.Make(func() (func(), error) { return nil, errors.New("no") })
	require.EqualError(t, err, "no")
	g.Undo()
	require.Equal(t, []string{"c", "a"}, said, "the youngest first")
	_, err = g.Make(func() (func(), error) { t.Fatal("made"); return nil, nil })
	require.EqualError(t, err, "the process is ending")
	g.Undo()
	require.Len(t, said, 2, "once")

	done, err := process.Of(t.Context()).Make(func() (func(), error) { return nil, nil })
	require.NoError(t, err, "without a guard all works")
	done()
}

func TestUndoWaitsForWhatIsBeingMadeButNotForEver(t *testing.T) {
	var g process.Guard
	making, go_on := make(chan struct{}), make(chan struct{})
	undone := make(chan struct{})
	go func() {
		_, _ = g.Make(func() (func(), error) {
			close(making)
			<-go_on
			return func() { close(undone) }, nil
		})
	}()
	<-making
	time.AfterFunc(time.Millisecond, func() { close(go_on) })
	g.Undo()
	<-undone

	var stuck process.Guard
	_, err := stuck.Make(func() (func(), error) { return func() { select {} }, nil })
	require.NoError(t, err)
	stuck.Undo() // returns
}

func TestATemporaryFolderIsRemovedEitherWay(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var g process.Guard
	ctx := process.With(t.Context(), &g)
	kept, remove, err := process.TempDir(ctx, "", "x")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(kept, "f"), nil, 0o600))
	require.NoError(t, remove())
	require.NoDirExists(t, kept)
	kept, _, err = process.TempDir(ctx, "", "x")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(kept, "f"), nil, 0o600))
	g.Undo()
	require.NoDirExists(t, kept)
}
