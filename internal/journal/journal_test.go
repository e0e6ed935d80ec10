package journal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"godwit/internal/journal"
)

// rowsOf are the rows of a text that are whole, by index, and how many heads it has.
func rowsOf(t require.TestingT, text []byte) (rows map[int]string, heads int) {
	rows = make(map[int]string)
	require.NoError(t, journal.Each(bytes.NewReader(text), 0, func(text []byte, _ int64, whole bool) error {
		l, ok := journal.Decode(text)
		switch {
		case ok && l.Journal != "":
			heads++
		case ok && whole && l.At >= 0:
			rows[l.At] = string(l.Row)
		}
		return nil
	}))
	return rows, heads
}

// TestDamageLosesOnlyWhatItHits: bytes that have flipped and ends that are cut take their lines, and no line says what was never written.
func TestDamageLosesOnlyWhatItHits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		var begins []int
		n := rapid.IntRange(1, 20).Draw(t, "rows")
		for i := range n {
			begins = append(begins, len(text))
			row, err := json.Marshal(map[string]string{"v": rapid.StringN(0, 20, 40).Draw(t, "v")})
			require.NoError(t, err)
			text = append(text, journal.Encode(i, row)...)
		}
		want, _ := rowsOf(t, text)
		require.Len(t, want, n)
		hit := make(map[int]bool)
		cut := len(text)
		if rapid.Bool().Draw(t, "cuts") {
			cut = rapid.IntRange(0, len(text)).Draw(t, "cut")
		}
		for range rapid.IntRange(0, 3).Draw(t, "flips") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text[at] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
			for k, b := range begins {
				if b <= at+1 && (k+1 == n || at <= begins[k+1]) { // a line's end is its neighbour's beginning
					hit[k] = true
				}
			}
		}
		got, _ := rowsOf(t, text[:cut])
		for i, row := range got {
			if row != want[i] {
				require.True(t, hit[i], "row %d says %q", i, row)
			}
		}
		for i := range n {
			if end := append(begins, len(text))[i+1]; !hit[i] && end <= cut {
				require.Equal(t, want[i], got[i], "row %d", i)
			}
		}
	})
}

// TestAJournalThatIsRemovedIsWrittenAgain: and one that another has cut is said.
func TestAJournalThatIsRemovedIsWrittenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rows")
	j, err := journal.Open(path, "godwit test")
	require.NoError(t, err)
	require.NoError(t, j.Begin("x", nil))
	for i := range 3 {
		_, err := j.Add(journal.Encode(i, []byte(`{"v":1}`)))
		require.NoError(t, err)
		if i == 1 {
			require.NoError(t, os.Remove(path))
			require.NoError(t, j.Sync())
		}
	}
	require.NoError(t, j.Sync())
	_, err = journal.Open(path, "godwit test")
	require.ErrorIs(t, err, journal.ErrBusy, "the new file is locked, too")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, heads := rowsOf(t, text)
	require.Equal(t, []int{3, 1}, []int{len(rows), heads})

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	require.ErrorContains(t, j.Sync(), "another file has taken its place: move that away")
	require.NoError(t, os.Remove(path))
	require.NoError(t, j.Sync())

	require.NoError(t, os.Truncate(path, int64(len(text)-5)))
	_, err = j.Add(journal.Encode(3, []byte(`{"v":1}`)))
	require.ErrorIs(t, err, journal.ErrChanged)
	require.NoError(t, j.Close())
	j, err = journal.Open(path, "godwit test")
	require.NoError(t, err, "begun again")
	require.NoError(t, j.Begin("x", nil))
	require.NoError(t, j.Close())
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	rows, heads = rowsOf(t, text)
	require.Equal(t, []int{2, 2}, []int{len(rows), heads})
	_, err = journal.Open(path, "godwit other")
	require.ErrorIs(t, err, journal.ErrNone)
}

// TestAJournalThatIsRemovedIsWrittenAgainOnce: however many ask for that at a time.
func TestAJournalThatIsRemovedIsWrittenAgainOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rows")
	j, err := journal.Open(path, "godwit test")
	require.NoError(t, err)
	require.NoError(t, j.Begin("x", nil))
	for i := range 20 {
		_, err := j.Add(journal.Encode(i, []byte(`{"v":1}`)))
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		var all errgroup.Group
		for range 4 {
			all.Go(j.Sync)
		}
		require.NoError(t, all.Wait())
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, _ := rowsOf(t, text)
	require.Len(t, rows, 20)
	require.NoError(t, j.Close())
}

// TestARowIsOfNoOtherIndex: the sum is of the index, too: a bit that turns in it makes no other index's row.
func TestARowIsOfNoOtherIndex(t *testing.T) {
	line := journal.Encode(3, []byte(`{"v":1}`))
	l, ok := journal.Decode(line)
	require.True(t, ok)
	require.Equal(t, 3, l.At)
	for bit := range 8 {
		turned := bytes.Clone(line)
		turned[bytes.IndexByte(turned, '3')] ^= 1 << bit
		_, ok = journal.Decode(turned)
		require.False(t, ok, "%s", turned)
	}
}
